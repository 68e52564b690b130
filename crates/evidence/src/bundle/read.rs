//! The reader of evidence files: strict about each field, indifferent to white space and to the order of fields.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::de::IoRead;
use serde_json::{Deserializer, StreamDeserializer};

use super::json::{Json, NotJson};
use super::{FORMAT, Header};
use crawlgate_record::{self as entry, Digest};
use crawlgate_store::ObjectKind;
use crawlgate_store::rotation::Rotation;
use crawlgate_text::hex;
use crawlgate_tlog::{EntryProof, EntryProofError, VerifierKey};

/// Octets that are no evidence file.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// The file is no JSON, or cannot be read.
    #[error("the file is no evidence file: {0}")]
    Json(#[from] serde_json::Error),
    /// A value has another form than the format says.
    #[error("the file is no evidence file: {0}")]
    Form(#[from] NotJson),
    /// The proof is malformed.
    #[error(transparent)]
    Proof(#[from] EntryProofError),
}

/// A record as the file has it; nothing in it is checked but its form.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) record: Json,
    pub(super) entry: Vec<u8>,
    pub(super) proof: EntryProof,
    pub(super) objects: Vec<(Digest, ObjectKind)>,
    pub(super) robots: Option<Digest>,
    pub(super) tdmrep: Option<Digest>,
}

/// A reader of an evidence file, record by record.
pub struct Reader<R: Read> {
    values: StreamDeserializer<'static, IoRead<R>, Json>,
    header: Header,
    /// The record of a file with only one.
    only: Option<Json>,
    /// True if each further value is a record.
    is_lines: bool,
    /// All bodies so far, by their SHA-256.
    pub(super) bodies: HashMap<Digest, Vec<u8>>,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the file is no evidence file.
    pub fn new(file: R) -> Result<Self, Malformed> {
        let mut values = Deserializer::from_reader(file).into_iter();
        let mut first: Json = values.next().ok_or_else(|| form("the file is empty"))??;
        let rotations = rotations(first.take("rotations"))?;
        let is_lines = !first.has("entry");
        let (facts, only) = if is_lines {
            (first.fields(["format", "log", "vkey", "made_by"])?, None)
        } else {
            let tdmrep = first.take("tdmrep");
            let names = [
                "format", "log", "vkey", "made_by", "record", "entry", "proof", "objects", "robots",
            ];
            let [format, log, vkey, made_by, record, entry, proof, objects, robots] =
                first.fields(names)?;
            let rest = EXHIBIT.map(str::to_owned);
            let only = [record, entry, proof, objects, robots];
            let only = rest.into_iter().zip(only);
            let tdmrep = tdmrep.map(|tdmrep| ("tdmrep".to_owned(), tdmrep));
            let only = Json::Map(only.chain(tdmrep).collect());
            ([format, log, vkey, made_by], Some(only))
        };
        let [format, log, vkey, made_by] = facts;
        if format.text("format")? != FORMAT {
            return Err(form("another format, or a version that is unknown here"));
        }
        let vkey = vkey.text("vkey")?;
        let vkey: VerifierKey = vkey.parse().map_err(|error| form(&format!("vkey: {error}")))?;
        if log.text("log")? != vkey.name().as_str() {
            return Err(form("log and vkey have different names"));
        }
        let made_by = made_by.text("made_by")?;
        Ok(Self {
            values,
            header: Header { vkey, made_by, rotations },
            only,
            is_lines,
            bodies: HashMap::new(),
        })
    }

    /// Returns what the file says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Tells whether the file may have many records.
    pub fn is_lines(&self) -> bool {
        self.is_lines
    }

    /// Reads the next record; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Claimed>, Malformed> {
        let mut next = match self.only.take() {
            Some(only) => only,
            None => match self.values.next() {
                None => return Ok(None),
                Some(_) if !self.is_lines => return Err(form("something follows the record")),
                Some(value) => value?,
            },
        };
        let tdmrep = next.take("tdmrep");
        let [record, entry, proof, objects, robots] = next.fields(EXHIBIT)?;
        let entry = entry_of(entry)?;
        let proof = proof.text("proof")?;
        let proof = EntryProof::parse(proof.as_bytes())?;
        if proof.extra.is_some() {
            return Err(form("the proof has an extra line"));
        }
        let mut kinds = Vec::new();
        for object in objects.list("objects")? {
            let (kind, digest) = self.take(object, true)?;
            let kind = ObjectKind::ALL.into_iter().find(|one| one.name() == kind);
            let kind = kind.ok_or_else(|| form("an unknown kind"))?;
            let length = self.bodies.get(&digest).map_or(0, Vec::len);
            if kind != ObjectKind::PolicySettings && length > entry::MAX {
                return Err(form("an object is too long"));
            }
            kinds.push((digest, kind));
        }
        let robots = match robots {
            Json::Null => None,
            robots => Some(self.take(robots, false)?.1),
        };
        let tdmrep = match tdmrep {
            None => None,
            Some(tdmrep) => Some(self.take(tdmrep, false)?.1),
        };
        Ok(Some(Claimed { record, entry, proof, objects: kinds, robots, tdmrep }))
    }

    /// Takes the body of an object if it has the digest that the file says. Returns the kind and the digest.
    fn take(&mut self, object: Json, has_kind: bool) -> Result<(String, Digest), Malformed> {
        let is_text = object.has("body");
        let name = if is_text { "body" } else { "body_base64" };
        let (kind, sha256, body) = if has_kind {
            let [kind, sha256, body] = object.fields(["kind", "sha256", name])?;
            (kind.text("kind")?, sha256, body)
        } else {
            let [sha256, body] = object.fields(["sha256", name])?;
            (String::new(), sha256, body)
        };
        let body = if is_text { body.text(name)?.into_bytes() } else { octets(body, name)? };
        let (named, digest) = (sha256.text("sha256")?, super::sha256(&body));
        if hex(digest) != named {
            return Err(form(&format!("a body has another SHA-256 than {named}")));
        }
        self.bodies.insert(digest, body);
        Ok((kind, digest))
    }
}

impl<R: Read> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("header", &self.header).finish_non_exhaustive()
    }
}

const EXHIBIT: [&str; 5] = ["record", "entry", "proof", "objects", "robots"];

/// Maximum number of keys that others have replaced. Each costs two signatures before the first record.
const ROTATIONS: usize = 256;

/// Reads the keys that others have replaced: each must be proven, and lead to the next.
fn rotations(all: Option<Json>) -> Result<Vec<Rotation>, Malformed> {
    let Some(all) = all else {
        return Ok(Vec::new());
    };
    let all = all.list("rotations")?;
    if all.len() > ROTATIONS {
        return Err(form("new keys that are too many"));
    }
    let mut rotations: Vec<Rotation> = Vec::new();
    for one in all {
        let [entry, proof] = one.fields(["entry", "proof"])?;
        let read = Rotation::read(entry_of(entry)?, proof.text("proof")?);
        let read = read.ok_or_else(|| form("the proof of a new key does not hold"))?;
        if rotations.last().is_some_and(|last| last.new != read.old) {
            return Err(form("a new key replaces another one than the key before it"));
        }
        rotations.push(read);
    }
    Ok(rotations)
}

fn entry_of(json: Json) -> Result<Vec<u8>, Malformed> {
    let entry = octets(json, "entry")?;
    if entry.len() > entry::MAX { Err(form("an entry is too long")) } else { Ok(entry) }
}

fn octets(json: Json, what: &str) -> Result<Vec<u8>, Malformed> {
    let text = json.text(what)?;
    STANDARD.decode(text).map_err(|_| form(&format!("{what} is no base64")))
}

fn form(what: &str) -> Malformed {
    Malformed::Form(NotJson(what.to_owned()))
}
