//! Evidence files out of the store: a record with its path to a signed checkpoint, and the bodies that it names.

use std::fmt;

use super::bundle::{Exhibit, Header, Named};
use super::slice::whole_body;
use super::verify::case::{Trusted, Uncovered};
use super::verify::keys::CoveringCheckpoint;
use crawlgate_origins::document::Document;
use crawlgate_record::{Basis, Digest, Entry};
use crawlgate_store::rotation::Rotation;
use crawlgate_store::{ObjectKind, Store, StoreError, StoreErrorKind, StoredDecision, objects_of};
use crawlgate_text::hex;
use crawlgate_tlog::{Checkpoint, EntryProof, KeyKind, VerifierKey};

/// The maker of exhibits under one checkpoint.
#[derive(Debug)]
pub struct Prover {
    covering: CoveringCheckpoint,
    vkey: VerifierKey,
    rotations: Vec<Rotation>,
}

/// A record with its evidence, and the bodies that it names and the store no longer has.
#[derive(Debug)]
pub struct ProvenRecord {
    /// The content of a file.
    pub exhibit: Exhibit,
    /// The missing bodies. The file proves that the record is in the log, but not that its decision follows.
    pub missing: Vec<Missing>,
}

/// A body that the store no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Missing {
    /// The kind: that of an object, or a robots.txt.
    pub what: &'static str,
    /// The SHA-256 by which the record, or its basis, names it.
    pub sha256: Digest,
    /// True if retention has dropped it, or refused it, to make room.
    pub is_dropped: bool,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.is_dropped {
            "is not kept: it was dropped to make room ([audit] max_size), or was missing in the export"
        } else {
            "is missing in the store, or altered there"
        };
        write!(f, "the {} with SHA-256 {} {why}", self.what, hex(self.sha256))
    }
}

/// The reason why there is no proof of a record.
#[derive(Debug, thiserror::Error)]
pub enum Unproven {
    /// No checkpoint covers the record yet.
    #[error("no checkpoint covers record {0} yet")]
    Unsigned(u64),
    /// No trusted key has signed a checkpoint that covers the record.
    #[error("{0}")]
    Keyless(String),
    /// The signed log holds another record at this place.
    #[error(
        "record {seq} is not the one in the log of {size} records that was signed, and nothing can prove it: {why}"
    )]
    Altered {
        /// The number of the record.
        seq: u64,
        /// The size of the signed log.
        size: u64,
        /// The contradiction.
        why: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Prover {
    /// Returns a prover of all records up to `seq`, by the newest checkpoint that a trusted key has signed, if possible one
    /// that witnesses have cosigned.
    ///
    /// # Errors
    /// When no such checkpoint covers the record `seq`, or the store cannot be read.
    pub async fn of(seq: u64, store: &Store, trusted: &Trusted) -> Result<Self, Unproven> {
        let index = seq.saturating_sub(1);
        let checkpoints = store.checkpoints().await?;
        let covering = trusted.covering(index, &checkpoints);
        let covering = covering.map_err(|why| match why {
            Uncovered::Unsigned => Unproven::Unsigned(seq),
            Uncovered::Keyless(fault) => Unproven::Keyless(fault),
        })?;
        let witnessed = CoveringCheckpoint::witnessed(index, &checkpoints, &trusted.keys);
        let covering = witnessed.unwrap_or(covering);
        let signed = Checkpoint::open(&covering.note, &trusted.keys.all).ok();
        let signed = signed.map(|(_, signed)| signed).unwrap_or_default();
        let mut signed = signed.iter().map(|one| one.key);
        let vkey = signed.find(|key| key.kind() == KeyKind::Ed25519).cloned();
        let vkey = vkey.ok_or_else(|| Unproven::Keyless(trusted.fault()))?;
        let mut rotations = store.rotations().await?;
        rotations.retain(|one| one.new.name() == vkey.name());
        Ok(Self { covering, vkey, rotations })
    }

    /// Returns the beginning of a file.
    #[must_use]
    pub fn header(&self) -> Header {
        Header {
            vkey: self.vkey.clone(),
            made_by: concat!("crawlgate ", env!("CARGO_PKG_VERSION")).to_owned(),
            rotations: self.rotations.clone(),
        }
    }

    /// Collects the evidence of a record, and checks that the signed log holds it.
    ///
    /// # Errors
    /// When the log holds another record there, or the store cannot be read.
    pub async fn show(
        &self,
        decision: &StoredDecision,
        store: &Store,
    ) -> Result<ProvenRecord, Unproven> {
        let size = self.covering.checkpoint.size;
        let altered = |why: &dyn fmt::Display| Unproven::Altered {
            seq: decision.seq,
            size,
            why: why.to_string(),
        };
        let proof = match store.inclusion(decision.seq.saturating_sub(1), size).await {
            Err(error) if error.kind == StoreErrorKind::Corrupt => return Err(altered(&error)),
            proof => proof?,
        };
        self.covering.verify(&decision.entry, &proof).map_err(|error| altered(&error))?;
        let entry = Entry::read(&decision.entry).map_err(|error| altered(&error))?;
        let (mut objects, mut missing) = (Vec::new(), Vec::new());
        let (mut named, mut of_tdmrep) = (None, None);
        let [.., tdmrep] = entry.named();
        for (kind, digest) in objects_of(&entry) {
            let Some(body) = whole_body(store.object(*digest).await, digest)? else {
                missing.push(Missing { what: kind.name(), sha256: *digest, is_dropped: false });
                continue;
            };
            if kind == ObjectKind::Basis {
                let basis = Basis::read(&body).ok();
                let text = basis.and_then(|basis| basis.sha256.copied());
                if tdmrep == Some(digest) {
                    of_tdmrep = text;
                } else {
                    named = text;
                }
            }
            objects.push(Named { kind, body });
        }
        let robots = text(Document::RobotsTxt, named, store, &mut missing).await?;
        let tdmrep = text(Document::TdmRep, of_tdmrep, store, &mut missing).await?;
        let exhibit = Exhibit {
            entry: decision.entry.clone(),
            record: decision.record.clone(),
            proof: EntryProof::new(proof, self.covering.note.clone()),
            objects,
            robots,
            tdmrep,
        };
        Ok(ProvenRecord { exhibit, missing })
    }
}

/// Returns the text of this digest; one that is gone is entered as missing.
async fn text(
    document: Document,
    digest: Option<Digest>,
    store: &Store,
    missing: &mut Vec<Missing>,
) -> Result<Option<Vec<u8>>, Unproven> {
    let Some(digest) = digest else {
        return Ok(None);
    };
    let body = whole_body(store.snapshot(digest).await, &digest)?;
    if body.is_none() {
        missing.push(Missing {
            what: document.name(),
            sha256: digest,
            is_dropped: store.is_dropped(digest).await?,
        });
    }
    Ok(body)
}
