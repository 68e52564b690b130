//! Entries of the decision log: each is one event as octets that never change, so that a digest can cover them.
//!
//! An entry is one CBOR map in its deterministic form (RFC 8949, section 4.2.1) with integer keys; a value that is the
//! default is left out. Any CBOR library reads it. [`Decision::encode`] and [`Event::encode`] write an entry,
//! [`Entry::read`] reads one and refuses every other form of the same content. An entry holds as values the texts that a
//! client can vary without bound, and names by their SHA-256 the [objects](Basis) that are bounded by crawlgate's own
//! work. Numbers that mean something on only one machine stay outside of entries, so it means the same everywhere.
//!
//! [`key`] has the keys of a decision.
//!
//! # Keys of other kinds
//!
//! Key 0 names the kind, key 1 the identifier; the rest are in this order. Keys below 40 mean the same as in a decision; of kinds
//! 6, 7, 9 and 10, the cut is of the texts at 48 and 49, of kind 4 of the lists at 46, 47 and 59.
//!
//! | kind | event | keys |
//! |---:|---|---|
//! | 1 | records lost | 40 count, 41 first, 42 last: uint, times in milliseconds since the epoch; 54 entries of the log before: uint |
//! | 2, 3 | a process started, stopped | 43 its number: uint; 44 version: text; 45 SHA-256 of its configuration |
//! | 4 | settings came into force | 3, 6, 30; 46 origins, 47 clients in report mode, 59 exempt clients: \[text…\] |
//! | 5 | override added | 20 |
//! | 6 | override removed | 20, 30; 48 person: text |
//! | 7 | decision acknowledged | 30, 48; 49 remark: text; 50 index of its entry: uint |
//! | 8 | entries dropped | 50 first index that stays; 51 cause: 0 keep, 1 size |
//! | 9 | another key signs | 30, 48, 49; 52 verifier key, 58 the one before: text |
//! | 10 | the log continues another | 30, 49; 53 its name: text; 54 its size: uint; 55 its root: 32 octets |
//! | 11 | requests forwarded without a record | 40, 41, 42; 56 by client: \[\[text or 4 or 16 octets, uint\]…\] |
//! | 12 | refusals that were counted | 3, 4, 5, 7 with port 0, 8, 30, 40, 41, 42 |
//! | 13 | a recorded request was answered that it could not be recorded | 57 identifier of the record: 16 octets |
//!
//! [`write_line`] derives the line of a record from an entry and its objects. Encoder and line are frozen: `golden.txt`
//! holds entries with their lines, and only grows.
//!
//! The crate knows no IO, clock or log.

mod bounds;
pub mod cbor;
mod decision;
mod event;
mod line;
mod object;
mod outline;
mod read;
mod table;
mod url;
mod value;
mod write;

pub use self::bounds::{Bounds, MAX, is_of_unknown_client, most};
pub use self::cbor::Malformed;
pub use self::decision::{
    Decision, Exempt, Mode, Pace, Rule, Signed, Source, Verdict, Via, has_failed, key, outcome,
};
pub use self::event::{
    DropCause, Event, EventKind, Process, Repeated, Row, RowClient, Rows, Settings,
};
pub use self::line::{
    COLUMNS, Cell, Column, File, LineError, Objects, Told, Untold, origin_parts, token_texts,
    write_line,
};
pub use self::object::{Action, Asserted, Basis, Outage};
pub use self::outline::{Counted, Outline};
pub use self::read::{Entry, id_of, time_of};
pub use self::url::Url;
pub use self::value::{Digest, Octets, Text, Texts, variant};

#[cfg(any(test, feature = "test-support"))]
pub mod samples;
#[cfg(test)]
pub(crate) mod tests;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
