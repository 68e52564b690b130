//! The check of an evidence file: each record is proven by the key of the log, then decided again.

use std::io::Read;

use super::json::Json;
use super::read::Claimed;
use super::{Header, Malformed, Reader};
use crate::replay::{self, Files, Outcome};
use crate::verify::keys::Keys;
use crawlgate_origins::document::Document;
use crawlgate_policy::settings::PolicySettings;
use crawlgate_record::{Basis, Digest, Entry, LineError, Told, Untold, write_line};
use crawlgate_store::{Bodies, objects_of};
use crawlgate_text::hex;
use crawlgate_tlog::{Checkpoint, EntryProofError, KeyKind, VerifierKey, leaf_hash};

/// The reason why a record is not proven.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The file is malformed.
    #[error(transparent)]
    Form(#[from] Malformed),
    /// The entry is malformed.
    #[error("the entry is {0}")]
    Entry(#[from] crawlgate_record::Malformed),
    /// The path or the checkpoint does not hold.
    #[error("the entry is not proven to be in the log: {0}")]
    Proof(#[from] EntryProofError),
    /// The checkpoint is of another log.
    #[error("the checkpoint belongs to the log {0}, the file is of another one")]
    Log(String),
    /// A named witness has not cosigned the checkpoint.
    #[error("the witness {0} has not cosigned the checkpoint")]
    Witness(String),
    /// An object that the entry names is missing or damaged.
    #[error("{0}")]
    Object(#[from] LineError),
    /// A body that the entry names is not in the file, or of another kind.
    #[error("the {what} with SHA-256 {} is missing", hex(.sha256))]
    Missing {
        /// The meaning of the body.
        what: &'static str,
        /// SHA-256 of the body.
        sha256: Digest,
    },
    /// The file has a body that the entry does not name.
    #[error("a body with SHA-256 {} belongs to nothing", hex(.0))]
    Needless(Digest),
    /// The record is not the one of the entry.
    #[error("the record is not what the entry says{0}")]
    Record(String),
}

/// A record that is proven to be in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The place of the entry, from 0.
    pub index: u64,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The witnesses that have cosigned it, with the seconds since 1970 at which they saw the tree.
    pub seen: Vec<(String, u64)>,
    /// The entry.
    pub entry: Vec<u8>,
    /// The objects that the line needs.
    pub bodies: Bodies,
    /// The line of the record, derived from the entry.
    pub record: String,
    /// The robots.txt that it rests on.
    pub robots: Option<Vec<u8>>,
    /// The tdmrep.json that it rests on.
    pub tdmrep: Option<Vec<u8>>,
    /// The settings that it rests on.
    pub terms: Option<PolicySettings>,
    /// Result of making the decision again; `None` for an event that is no decision.
    pub outcome: Option<Outcome>,
}

impl Proven {
    /// Reads the entry with its objects.
    ///
    /// # Errors
    /// When the entry is no decision.
    pub fn told(&self) -> Result<Told<'_>, Untold> {
        Told::read(&self.entry, &self.bodies)
    }
}

/// A reader that proves each record.
#[derive(Debug)]
pub struct Checker<R: Read> {
    reader: Reader<R>,
    log: Keys,
    witnesses: Vec<VerifierKey>,
}

impl<R: Read> Checker<R> {
    /// Opens a file. `keys` are the trusted keys, of the log and of the witnesses that must have cosigned. The file may prove
    /// further keys of the log by those.
    ///
    /// # Errors
    /// When the file is malformed.
    pub fn new(file: R, keys: &[VerifierKey]) -> Result<Self, Malformed> {
        let is_witness = |key: &VerifierKey| key.kind() == KeyKind::CosignatureV1;
        let (witnesses, log): (_, Vec<_>) = keys.iter().cloned().partition(is_witness);
        Self::by(file, log.into(), witnesses)
    }

    /// Opens a file that is checked by keys of the log of which it is known up to which size each counts.
    ///
    /// # Errors
    /// When the file is malformed.
    pub fn by(file: R, mut log: Keys, witnesses: Vec<VerifierKey>) -> Result<Self, Malformed> {
        let reader = Reader::new(file)?;
        log.follow(&reader.header().rotations);
        Ok(Self { reader, log, witnesses })
    }

    /// Returns what the file says about itself.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Returns the trusted keys of the log.
    pub const fn log(&self) -> &Keys {
        &self.log
    }

    /// Tells whether the file may have many records.
    pub fn is_lines(&self) -> bool {
        self.reader.is_lines()
    }

    /// Proves the next record; `None` at the end. After an error about the form of the file nothing more can be read.
    ///
    /// # Errors
    /// When the record is not proven.
    pub fn prove_next(&mut self) -> Result<Option<Proven>, Broken> {
        match self.reader.next()? {
            Some(claimed) => self.prove(claimed).map(Some),
            None => Ok(None),
        }
    }

    fn prove(&self, claimed: Claimed) -> Result<Proven, Broken> {
        let leaf = leaf_hash(&claimed.entry);
        let stated = Checkpoint::from_text(claimed.proof.checkpoint.text());
        let size = stated.map_or(0, |stated| stated.size);
        let keys = [self.log.at(size), self.witnesses.clone()].concat();
        let (checkpoint, signed) = claimed.proof.verify(&leaf, &keys)?;
        if checkpoint.origin != *self.header().vkey.name() {
            return Err(Broken::Log(checkpoint.origin.to_string()));
        }
        let seen = signed.iter();
        let seen = seen.filter_map(|one| Some((one.key.name().to_string(), one.time?)));
        let seen: Vec<_> = seen.collect();
        if seen.len() < self.witnesses.len() {
            return Err(Broken::Witness(self.silent(&seen)));
        }
        let entry = Entry::read(&claimed.entry)?;
        let [robots, tdmrep] = self.bodies(&entry, &claimed)?;
        let mut line = Vec::new();
        write_line(&entry, &self.reader.bodies, &mut line)?;
        let mut line = String::from_utf8_lossy(&line).into_owned();
        line.truncate(line.trim_end().len());
        compare(&claimed.record, &line)?;
        let (terms, outcome) = self.decide(&entry, [robots.as_deref(), tdmrep.as_deref()]);
        let body =
            |sha256: &Digest| Some((*sha256, self.reader.bodies.get(sha256)?.as_slice().into()));
        let bodies = entry.objects().into_iter().flatten().filter_map(body);
        Ok(Proven {
            bodies: bodies.collect(),
            entry: claimed.entry,
            index: claimed.proof.index,
            checkpoint,
            seen,
            record: line,
            robots,
            tdmrep,
            terms,
            outcome,
        })
    }

    fn silent(&self, seen: &[(String, u64)]) -> String {
        let is_seen = |key: &VerifierKey| seen.iter().any(|(seen, _)| seen == key.name().as_str());
        let silent = self.witnesses.iter().find(|key| !is_seen(key));
        silent.map_or_else(String::new, |key| key.name().to_string())
    }

    /// Checks that the file has the bodies that the entry names, and no others. Returns the robots.txt and the tdmrep.json.
    fn bodies(&self, entry: &Entry<'_>, claimed: &Claimed) -> Result<[Option<Vec<u8>>; 2], Broken> {
        let named: Vec<_> = objects_of(entry).collect();
        for (digest, kind) in &claimed.objects {
            if !named.contains(&(*kind, digest)) {
                return Err(Broken::Needless(*digest));
            }
        }
        let bodies = &self.reader.bodies;
        let body = |what, sha256: &Digest| {
            let missing = Broken::Missing { what, sha256: *sha256 };
            bodies.get(sha256).ok_or(missing)
        };
        for (kind, digest) in &named {
            body(kind.name(), digest)?;
        }
        let text = |document: Document, basis: Option<&Digest>, given: Option<Digest>| {
            let basis = basis.and_then(|basis| bodies.get(basis));
            let wanted = basis.and_then(|basis| Basis::read(basis).ok()?.sha256);
            match (given, wanted) {
                (Some(given), wanted) if Some(&given) != wanted => Err(Broken::Needless(given)),
                (_, Some(wanted)) => body(document.name(), wanted).map(|body| Some(body.clone())),
                (_, None) => Ok(None),
            }
        };
        let [_, _, basis, tdmrep] = entry.named();
        Ok([
            text(Document::RobotsTxt, basis, claimed.robots)?,
            text(Document::TdmRep, tdmrep, claimed.tdmrep)?,
        ])
    }

    /// Makes the decision again from nothing but the file.
    fn decide(
        &self,
        entry: &Entry<'_>,
        [robots, tdmrep]: [Option<&[u8]>; 2],
    ) -> (Option<PolicySettings>, Option<Outcome>) {
        let Entry::Decision(decision) = entry else {
            return (None, None);
        };
        let terms = decision.policy.and_then(|digest| {
            let body = self.reader.bodies.get(digest)?;
            PolicySettings::read(str::from_utf8(body).ok()?).ok()
        });
        let told = Told::of(*decision, &self.reader.bodies);
        let truncated = told.robots.is_some_and(|file| file.truncated);
        let is_cut = told.tdmrep.is_some_and(|file| file.truncated);
        let read = |text: Option<&[u8]>, truncated| {
            let (terms, text) = terms.as_ref().zip(text)?;
            Some(replay::snapshot(text, terms, truncated))
        };
        let (robots, tdmrep) = (read(robots, truncated), read(tdmrep, is_cut));
        let files = Files { robots: robots.as_ref(), tdmrep: tdmrep.as_ref() };
        let outcome = replay::replay(&told, terms.as_ref(), files);
        (terms, Some(outcome))
    }
}

/// Compares the record of the file with the derived one, and names the first field that differs.
fn compare(found: &Json, line: &str) -> Result<(), Broken> {
    let derived: Json =
        serde_json::from_str(line).map_err(|error| Broken::Record(format!(": {error}")))?;
    if *found == derived {
        return Ok(());
    }
    let (Json::Map(found), Json::Map(derived)) = (found, &derived) else {
        return Err(Broken::Record(String::new()));
    };
    let mut names = derived.keys().chain(found.keys());
    let field = names.find(|name| found.get(*name) != derived.get(*name));
    let field = field.map_or_else(String::new, |name| format!(": the field {name} differs"));
    Err(Broken::Record(field))
}
