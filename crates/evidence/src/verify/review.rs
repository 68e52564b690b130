//! Replays of stored decisions: each piece of evidence is looked up once and kept for later decisions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use serde::Deserialize;

use super::exemptions::{ExemptionStatus, Exemptions};
use crate::replay::evidence::Robots;
use crate::replay::otherwise::{Inapplicable, OtherFile, otherwise};
use crate::replay::{
    self, Difference, Evidence, Files, Missing, NotReplayable, Outcome, Unreadable,
};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_policy::Decision;
use crawlgate_policy::settings::{PolicyDigest, PolicySettings};
use crawlgate_store::{Sha256, Store, StoreError, StoreErrorKind, StoredDecision};

/// Approximate octets of kept robots.txt files. A walk in the order of writing meets few at a time.
const KEPT: usize = 64 << 20;

/// A replay of decisions, one after the other.
#[derive(Debug)]
pub struct Replayer<'s> {
    store: &'s Store,
    policies: HashMap<String, StoredObject<Arc<PolicySettings>>>,
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
    Event(String),
    /// Retention has dropped the decision meanwhile.
    Dropped,
    /// The store's index has another time than the record: a query by the record's time misses it.
    Misfiled,
    /// The record does not have crawlgate's form.
    Unreadable(Unreadable),
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

/// A line that is no decision.
#[derive(Deserialize)]
struct Event {
    event: String,
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

    /// Replays one decision; `evidence` is the content of its record.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn look(
        &mut self,
        decision: &StoredDecision,
        evidence: &Result<Evidence<'_>, Unreadable>,
    ) -> Result<Finding, StoreError> {
        let evidence = match evidence {
            Ok(evidence) => evidence,
            Err(error) => {
                return Ok(match serde_json::from_str::<Event>(&decision.record) {
                    Ok(event) => Finding::Event(event.event),
                    Err(_) => Finding::Unreadable(error.clone()),
                });
            }
        };
        if replay::evidence::moment(&evidence.time) != Some(decision.time) {
            return Ok(Finding::Misfiled);
        }
        let finding = self.replay(evidence).await?;
        if let (Finding::Replayed(Outcome::Same), Some(exempt)) = (&finding, &evidence.exempt) {
            let standing = self.exemptions.standing(self.store, decision).await?;
            return Ok(Finding::Replayed(match standing {
                ExemptionStatus::Exempt => Outcome::Same,
                ExemptionStatus::Unknown => Outcome::Attested(NotReplayable::NoSettings),
                ExemptionStatus::NotExempt => Outcome::Differs(vec![Difference {
                    what: "exempt.reason in the settings of that time",
                    recorded: exempt.reason.clone(),
                    replayed: "none".to_owned(),
                }]),
            }));
        }
        if let Finding::Replayed(Outcome::Missing(missing)) = finding {
            // Retention may have dropped both since the record was read.
            let page = self
                .store
                .records(decision.seq.saturating_sub(1), 1)
                .await?;
            if page.first().is_none_or(|found| found.seq != decision.seq) {
                return Ok(Finding::Dropped);
            }
            let file = match missing {
                Missing::Snapshot => evidence.snapshot(),
                Missing::TdmRep => evidence.tdmrep().and_then(|file| digest_of(file.as_ref())),
                Missing::PolicySettings | Missing::State | Missing::Override => Ok(None),
            };
            if let Ok(Some(sha256)) = file
                && self.store.is_dropped(sha256).await?
            {
                return Ok(Finding::Replayed(Outcome::Attested(NotReplayable::NoRoom)));
            }
        }
        Ok(finding)
    }

    async fn replay(&mut self, evidence: &Evidence<'_>) -> Result<Finding, StoreError> {
        let sha256 = match evidence.snapshot() {
            Ok(sha256) => sha256,
            Err(error) => return Ok(Finding::Unreadable(error)),
        };
        if let Some(digest) = &evidence.policy {
            self.fetch_policy(digest).await?;
        }
        let policy = evidence.policy.as_ref();
        let terms = match policy.and_then(|digest| self.policies.get(&**digest)) {
            Some(StoredObject::Altered) => return Ok(Finding::Altered(Missing::PolicySettings)),
            Some(StoredObject::Whole(terms)) => Some(Arc::clone(terms)),
            Some(StoredObject::Missing) | None => None,
        };
        let (mut robots, mut tdmrep) = (None, None);
        if let Some(terms) = &terms {
            let named = evidence.robots.as_ref();
            let truncated = named.is_some_and(|robots| robots.truncated);
            robots = match self.file(sha256, truncated, terms).await? {
                Some(StoredObject::Altered) => return Ok(Finding::Altered(Missing::Snapshot)),
                Some(StoredObject::Whole(snapshot)) => Some(Arc::clone(snapshot)),
                Some(StoredObject::Missing) | None => None,
            };
            let named = evidence.tdmrep();
            let sha256 = named.as_ref().map_err(Clone::clone);
            let sha256 = match sha256.and_then(|named| digest_of(named.as_ref())) {
                Ok(sha256) => sha256,
                Err(error) => return Ok(Finding::Unreadable(error)),
            };
            let truncated = named.is_ok_and(|named| named.is_some_and(|file| file.truncated));
            tdmrep = match self.file(sha256, truncated, terms).await? {
                Some(StoredObject::Altered) => return Ok(Finding::Altered(Missing::TdmRep)),
                Some(StoredObject::Whole(snapshot)) => Some(Arc::clone(snapshot)),
                Some(StoredObject::Missing) | None => None,
            };
        }
        let files = Files {
            robots: robots.as_ref(),
            tdmrep: tdmrep.as_ref(),
        };
        Ok(Finding::Replayed(replay::replay(
            evidence,
            terms.as_deref(),
            files,
        )))
    }

    /// Decides about a recorded request as if its origin had served another robots.txt, and its client were exempt for
    /// the reason `exempt`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn otherwise(
        &mut self,
        evidence: &Evidence<'_>,
        file: &OtherFile,
        exempt: Option<Arc<str>>,
    ) -> Result<Result<Decision, Inapplicable>, StoreError> {
        if let Some(digest) = &evidence.policy {
            self.fetch_policy(digest).await?;
        }
        let policy = evidence.policy.as_ref();
        let terms = match policy.and_then(|digest| self.policies.get(&**digest)) {
            Some(StoredObject::Altered) => return Ok(Err(Inapplicable::Incomplete)),
            Some(StoredObject::Whole(terms)) => Some(Arc::clone(terms)),
            Some(StoredObject::Missing) | None => None,
        };
        let mut tdmrep = None;
        if let (Some(terms), Ok(Some(named))) = (&terms, evidence.tdmrep()) {
            let Ok(sha256) = digest_of(Some(&named)) else {
                return Ok(Err(Inapplicable::Incomplete));
            };
            tdmrep = match self.file(sha256, named.truncated, terms).await? {
                Some(StoredObject::Altered) => return Ok(Err(Inapplicable::Incomplete)),
                Some(StoredObject::Whole(snapshot)) => Some(Arc::clone(snapshot)),
                Some(StoredObject::Missing) | None => None,
            };
        }
        let terms = terms.as_deref();
        Ok(otherwise(evidence, terms, file, tdmrep.as_ref(), exempt))
    }

    /// Returns a file of this digest, if there is one.
    async fn file(
        &mut self,
        sha256: Option<Sha256>,
        truncated: bool,
        terms: &PolicySettings,
    ) -> Result<Option<&StoredObject<Arc<Snapshot>>>, StoreError> {
        let Some(sha256) = sha256 else {
            return Ok(None);
        };
        let key = (sha256, terms.lenient, truncated);
        self.fetch_file(key, terms).await?;
        Ok(self.files.get(&key))
    }

    async fn fetch_policy(&mut self, digest: &str) -> Result<(), StoreError> {
        if self.policies.contains_key(digest) {
            return Ok(());
        }
        let named = PolicyDigest::from_digits(digest);
        let text = match named {
            Some(PolicyDigest(sha256)) => self.store.policy(sha256).await?,
            None => None,
        };
        let held = match text {
            None => StoredObject::Missing,
            Some(text) if Some(PolicyDigest::of(&text)) != named => StoredObject::Altered,
            Some(text) => PolicySettings::read(&text).map_or(StoredObject::Altered, |terms| {
                StoredObject::Whole(Arc::new(terms))
            }),
        };
        self.policies.insert(digest.to_owned(), held);
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

/// Returns the digest of a tdmrep.json.
fn digest_of(file: Option<&Robots<'_>>) -> Result<Option<Sha256>, Unreadable> {
    file.map_or(Ok(None), |file| file.digest("usage.tdmrep.sha256"))
}
