//! Replays of stored decisions: each piece of evidence is looked up once and kept for later decisions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use super::exemptions::{ExemptionStatus, Exemptions};
use crate::replay::otherwise::{Inapplicable, OtherFile, otherwise};
use crate::replay::{self, Difference, Files, Missing, NotReplayable, Outcome};
use aws_lc_rs::digest;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_policy::Decision;
use crawlgate_policy::settings::{PolicyDigest, PolicySettings};
use crawlgate_record::{File, Told, Untold};
use crawlgate_store::{Sha256, Store, StoreError, StoreErrorKind, StoredDecision};

/// Approximate octets of kept robots.txt files. A walk in the order of writing meets few at a time.
const KEPT: usize = 64 << 20;

/// A replay of decisions, one after the other.
#[derive(Debug)]
pub struct Replayer<'s> {
    store: &'s Store,
    policies: HashMap<Sha256, StoredObject<Arc<PolicySettings>>>,
    files: HashMap<FileKey, StoredObject<Arc<Snapshot>>>,
    bytes: usize,
    exemptions: Exemptions,
}

/// A file's digest, whether it is read leniently, and whether it is the start of a longer one.
type FileKey = (Sha256, bool, bool);

/// The store's data under a digest.
#[derive(Debug)]
enum StoredObject<T> {
    /// Data that agrees with the digest.
    Whole(T),
    /// Data that contradicts the digest: it was altered.
    Altered,
    /// No data.
    Missing,
}

/// The finding about one decision.
#[derive(Debug)]
pub enum Finding {
    /// A replay, or the reason why there was none.
    Replayed(Outcome),
    /// The evidence contradicts the digest in the record.
    Altered(Missing),
    /// A line about the log itself, such as `records_lost`, and no decision.
    Event(&'static str),
    /// Retention has dropped the decision meanwhile.
    Dropped,
    /// The store's index has another time than the record: a query by the record's time misses it.
    Misfiled,
    /// The record does not have crawlgate's form.
    Unreadable(Untold),
}

impl Finding {
    /// Returns the name for summaries.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Replayed(Outcome::Same) => "proven",
            Self::Replayed(Outcome::Differs(_)) => "differs",
            Self::Replayed(Outcome::Missing(_)) => "missing",
            Self::Replayed(Outcome::Attested(_)) => "attested",
            Self::Altered(_) => "altered",
            Self::Event(_) => "event",
            Self::Dropped => "dropped",
            Self::Misfiled => "misfiled",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replayed(Outcome::Same) => {
                f.write_str("the same decision follows from what was kept")
            }
            Self::Replayed(Outcome::Differs(differences)) => {
                f.write_str("another decision follows from what was kept")?;
                let mut gap = ": ";
                for one in differences {
                    write!(
                        f,
                        "{gap}{} is \"{}\", not \"{}\"",
                        one.what, one.replayed, one.recorded
                    )?;
                    gap = ", ";
                }
                Ok(())
            }
            Self::Replayed(Outcome::Missing(Missing::Snapshot)) => {
                f.write_str("the robots.txt that it rests on is not in the store")
            }
            Self::Replayed(Outcome::Missing(Missing::TdmRep)) => {
                f.write_str("the tdmrep.json that it rests on is not in the store")
            }
            Self::Altered(Missing::TdmRep) => {
                f.write_str("the tdmrep.json that it rests on was altered")
            }
            Self::Replayed(Outcome::Missing(Missing::PolicySettings)) => {
                f.write_str("the settings that it rests on are not in the store")
            }
            Self::Replayed(Outcome::Missing(Missing::State)) | Self::Altered(Missing::State) => f
                .write_str(
                    "the state of robots.txt that it rests on is not in the store, or was altered",
                ),
            Self::Replayed(Outcome::Missing(Missing::Override))
            | Self::Altered(Missing::Override) => {
                f.write_str("the override that it rests on is not in the store, or was altered")
            }
            Self::Replayed(Outcome::Attested(why)) => write!(f, "{why}"),
            Self::Altered(Missing::Snapshot) => {
                f.write_str("the robots.txt that it rests on was altered")
            }
            Self::Altered(Missing::PolicySettings) => {
                f.write_str("the settings that it rests on were altered")
            }
            Self::Event(event) => write!(f, "a line about the log itself: {event}"),
            Self::Dropped => f.write_str("retention has dropped it meanwhile"),
            Self::Misfiled => f.write_str("the store finds it by another time than its own"),
            Self::Unreadable(error) => write!(f, "the record cannot be read: {error}"),
        }
    }
}

impl<'s> Replayer<'s> {
    /// Returns a review of decisions of `store`.
    pub fn new(store: &'s Store) -> Self {
        Self {
            store,
            policies: HashMap::new(),
            files: HashMap::new(),
            bytes: 0,
            exemptions: Exemptions::default(),
        }
    }

    /// Replays one decision; `told` is what its entry says.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn look(
        &mut self,
        decision: &StoredDecision,
        told: &Result<Told<'_>, Untold>,
    ) -> Result<Finding, StoreError> {
        let one = match told {
            Ok(one) => one,
            Err(Untold::Event(name)) => return Ok(Finding::Event(name)),
            Err(error) => return Ok(Finding::Unreadable(error.clone())),
        };
        if one.time() != decision.time.as_millis() {
            return Ok(Finding::Misfiled);
        }
        let finding = self.replay(one).await?;
        if let (Finding::Replayed(Outcome::Same), Some(exempt)) = (&finding, one.exempt) {
            let standing = self.exemptions.standing(self.store, decision).await?;
            return Ok(Finding::Replayed(match standing {
                ExemptionStatus::Exempt => Outcome::Same,
                ExemptionStatus::Unknown => Outcome::Attested(NotReplayable::NoSettings),
                ExemptionStatus::NotExempt => Outcome::Differs(vec![Difference {
                    what: "exempt.reason in the settings of that time",
                    recorded: exempt.reason.to_owned(),
                    replayed: "none".to_owned(),
                }]),
            }));
        }
        if let Finding::Replayed(Outcome::Missing(missing)) = finding {
            // Retention may have dropped both since the record was read.
            let page = self.store.records(decision.seq.saturating_sub(1), 1).await?;
            if page.first().is_none_or(|found| found.seq != decision.seq) {
                return Ok(Finding::Dropped);
            }
            let file = match missing {
                Missing::Snapshot => one.robots,
                Missing::TdmRep => one.tdmrep,
                Missing::PolicySettings | Missing::State | Missing::Override => None,
            };
            if let Some(sha256) = file.and_then(|file| file.sha256.copied())
                && self.store.is_dropped(sha256).await?
            {
                return Ok(Finding::Replayed(Outcome::Attested(NotReplayable::NoRoom)));
            }
        }
        Ok(finding)
    }

    async fn replay(&mut self, one: &Told<'_>) -> Result<Finding, StoreError> {
        let terms = match self.terms(one).await? {
            Some(StoredObject::Altered) => return Ok(Finding::Altered(Missing::PolicySettings)),
            Some(StoredObject::Whole(terms)) => Some(Arc::clone(terms)),
            Some(StoredObject::Missing) | None => None,
        };
        let (mut robots, mut tdmrep) = (None, None);
        if let Some(terms) = &terms {
            robots = match self.file(one.robots, terms).await? {
                Some(StoredObject::Altered) => return Ok(Finding::Altered(Missing::Snapshot)),
                Some(StoredObject::Whole(snapshot)) => Some(Arc::clone(snapshot)),
                Some(StoredObject::Missing) | None => None,
            };
            tdmrep = match self.file(one.tdmrep, terms).await? {
                Some(StoredObject::Altered) => return Ok(Finding::Altered(Missing::TdmRep)),
                Some(StoredObject::Whole(snapshot)) => Some(Arc::clone(snapshot)),
                Some(StoredObject::Missing) | None => None,
            };
        }
        let files = Files { robots: robots.as_ref(), tdmrep: tdmrep.as_ref() };
        let outcome = replay::replay(one, terms.as_deref(), files);
        Ok(Finding::Replayed(outcome))
    }

    /// Decides about a recorded request as if its origin had served another robots.txt, and its client were exempt for
    /// the reason `exempt`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn otherwise(
        &mut self,
        one: &Told<'_>,
        file: &OtherFile,
        exempt: Option<Arc<str>>,
    ) -> Result<Result<Decision, Inapplicable>, StoreError> {
        let terms = match self.terms(one).await? {
            Some(StoredObject::Altered) => return Ok(Err(Inapplicable::Incomplete)),
            Some(StoredObject::Whole(terms)) => Some(Arc::clone(terms)),
            Some(StoredObject::Missing) | None => None,
        };
        let mut tdmrep = None;
        if let Some(terms) = &terms {
            tdmrep = match self.file(one.tdmrep, terms).await? {
                Some(StoredObject::Altered) => return Ok(Err(Inapplicable::Incomplete)),
                Some(StoredObject::Whole(snapshot)) => Some(Arc::clone(snapshot)),
                Some(StoredObject::Missing) | None => None,
            };
        }
        let terms = terms.as_deref();
        Ok(otherwise(one, terms, file, tdmrep.as_ref(), exempt))
    }

    /// Returns the settings of a decision, if it names any.
    async fn terms(
        &mut self,
        one: &Told<'_>,
    ) -> Result<Option<&StoredObject<Arc<PolicySettings>>>, StoreError> {
        let Some(digest) = one.policy else {
            return Ok(None);
        };
        self.fetch_policy(*digest).await?;
        Ok(self.policies.get(digest))
    }

    /// Returns the text of a file, if there is one.
    async fn file(
        &mut self,
        named: Option<File<'_>>,
        terms: &PolicySettings,
    ) -> Result<Option<&StoredObject<Arc<Snapshot>>>, StoreError> {
        let Some((named, sha256)) = named.and_then(|named| Some((named, *named.sha256?))) else {
            return Ok(None);
        };
        let key = (sha256, terms.lenient, named.truncated);
        self.fetch_file(key, terms).await?;
        Ok(self.files.get(&key))
    }

    async fn fetch_policy(&mut self, digest: Sha256) -> Result<(), StoreError> {
        if self.policies.contains_key(&digest) {
            return Ok(());
        }
        let held = match self.store.policy(digest).await? {
            None => StoredObject::Missing,
            Some(text) if PolicyDigest::of(&text).0 != digest => StoredObject::Altered,
            Some(text) => PolicySettings::read(&text)
                .map_or(StoredObject::Altered, |terms| StoredObject::Whole(Arc::new(terms))),
        };
        self.policies.insert(digest, held);
        Ok(())
    }

    async fn fetch_file(&mut self, key: FileKey, terms: &PolicySettings) -> Result<(), StoreError> {
        let (sha256, _, truncated) = key;
        if self.bytes > KEPT {
            self.files.clear();
            self.bytes = 0;
        }
        if let Entry::Vacant(place) = self.files.entry(key) {
            let text = match self.store.snapshot(sha256).await {
                // The other decisions are proven all the same.
                Err(error) if error.kind == StoreErrorKind::Corrupt => {
                    place.insert(StoredObject::Altered);
                    return Ok(());
                }
                text => text?,
            };
            place.insert(match text {
                None => StoredObject::Missing,
                Some(text) if digest::digest(&digest::SHA256, &text).as_ref() != sha256 => {
                    StoredObject::Altered
                }
                Some(text) => {
                    let snapshot = replay::snapshot(&text, terms, truncated);
                    self.bytes += snapshot.bytes() + text.len(); // the text, and about as much for compiled rules
                    StoredObject::Whole(snapshot)
                }
            });
        }
        Ok(())
    }
}
