//! Evidence files: records with everything that a stranger needs to check them (`docs/evidence-files.md` has the format).
//!
//! A file proves one record, or many as JSON Lines. It holds the entry, its path to a signed checkpoint, the objects that
//! the entry names, the robots.txt, and the tdmrep.json. [`write()`] and [`LinesWriter`] write it, [`Reader`] reads it strictly, and
//! [`Checker`] proves each record by a key that comes from another source. `docs/verify-evidence.py` does the same without
//! crawlgate.

mod check;
mod json;
mod read;
mod write;

pub use self::check::{Broken, Checker, Proven};
pub use self::json::NotJson;
pub use self::read::{Malformed, Reader};
pub use self::write::{LinesWriter, write};

use aws_lc_rs::digest::{SHA256, digest};

use crawlgate_record::Digest;
use crawlgate_store::ObjectKind;
use crawlgate_store::rotation::Rotation;
use crawlgate_tlog::{EntryProof, VerifierKey};

/// The name of the format.
pub const FORMAT: &str = "crawlgate-evidence@1";

/// The facts about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The key of the log, as the file says. It proves nothing by itself.
    pub vkey: VerifierKey,
    /// The program that made the file.
    pub made_by: String,
    /// The keys of the log that others have replaced, in their order, each with its proof.
    pub rotations: Vec<Rotation>,
}

/// One record with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhibit {
    /// The entry, octet for octet.
    pub entry: Vec<u8>,
    /// The line of the record, derived from entry and objects, without its line feed.
    pub record: String,
    /// The path of the entry to a checkpoint.
    pub proof: EntryProof,
    /// The objects that the entry names.
    pub objects: Vec<Named>,
    /// The robots.txt that the decision rests on, if there was one and it is kept.
    pub robots: Option<Vec<u8>>,
    /// The tdmrep.json that it rests on, likewise.
    pub tdmrep: Option<Vec<u8>>,
}

/// An object that an entry names by its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The kind.
    pub kind: ObjectKind,
    /// The octets.
    pub body: Vec<u8>,
}

pub(super) fn sha256(octets: &[u8]) -> Digest {
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(digest(&SHA256, octets).as_ref());
    sha256
}
