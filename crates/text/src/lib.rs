//! Texts that several crates write: JSON, URLs without passwords, points in time, hexadecimal digits, PEM, identifiers, errors
//! with their causes.
//!
//! A leaf: nothing here knows a record, a store or a request.

pub mod causes;
pub mod guarded;
pub mod hex;
mod id;
pub mod json;
mod moment;
mod named;
mod pem;
pub mod public_url;
pub mod timestamp;

pub use self::causes::causes;
pub use self::hex::{from_hex, hex};
pub use self::id::DecisionId;
pub use self::moment::Moment;
pub use self::pem::pem;
pub use self::public_url::{public_parts, public_url};
pub use self::timestamp::time_text;
