//! The statements of a site about the *use* of its content, beside Allow and Disallow: preferences and licences.
//!
//! Content-Usage (draft-ietf-aipref-attach-05, draft-ietf-aipref-vocab-08), Content-Signal, TDMRep, X-Robots-Tag and RSL are
//! read from robots.txt, from response fields and from `/.well-known/tdmrep.json`. A crawler's declared [`Purposes`] ask for
//! categories of use; a purpose is refused if an enforced signal disallows a category that it asks for. No verdict of the
//! REP depends on this room.
//!
//! Pure: no IO, no clock, no logging.

pub mod category;
mod field_name;
pub mod fields;
mod judge;
mod license;
pub mod lines;
mod link;
pub mod modes;
mod notes;
pub mod purpose;
pub mod record;
mod robots_lines;
mod robots_tag;
mod said;
mod statement;
mod statements;
pub mod tdmrep;

pub use self::category::{Categories, Category};
pub use self::field_name::FieldName;
pub use self::judge::{Combined, Judged, judge, judge_response};
pub use self::modes::{Modes, SignalMode};
pub use self::notes::notes;
pub use self::purpose::{Purpose, Purposes};
pub use self::robots_lines::{RobotsLine, robots_fields, robots_lines};
pub use self::said::{
    Invalid, License, Place, Preference, Said, Signal, Text, UnusedReason, Value,
};
pub use self::statements::{Shadowed, Statements};
pub use self::tdmrep::TdmRep;

#[cfg(test)]
mod tests;
