//! Texts that several rooms write: JSON, URLs without passwords, points of time, hexadecimal digits, PEM, identifiers,
//! errors with their causes.
//!
//! A leaf: nothing here knows a record, a store or a request.

mod causes;
pub(crate) mod guarded;
pub(crate) mod hex;
mod id;
pub(crate) mod json;
mod pem;
mod public_url;
pub(crate) mod timestamp;

pub(crate) use self::causes::causes;
pub(crate) use self::hex::{from_hex, hex};
pub use self::id::DecisionId;
pub(crate) use self::pem::pem;
pub(crate) use self::public_url::{public_parts, public_url};
pub use self::timestamp::time_text;
