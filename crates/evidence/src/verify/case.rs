//! The proof of one decision: its evidence looked up, the decision made again, and its place in the signed log.

use std::path::Path;

use super::keys::{CoveringCheckpoint, Keys};
use super::named_keys::{KeyError, named_keys};
use super::review::{Finding, Replayer};
use crate::replay::{Missing, Outcome};
use crawlgate_config::Config;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::OWN_STATES;
use crawlgate_policy::settings::PolicySettings;
use crawlgate_record::{Told, Untold};
use crawlgate_robots::Origin;
use crawlgate_store::log_key::{LogKey, log_key_file};
use crawlgate_store::public_keys::{collected_keys, collected_keys_file, earlier_keys};
use crawlgate_store::state_file::End;
use crawlgate_store::{
    FETCHES_KEPT, Fetch, Store, StoreError, StoreErrorKind, StoredCheckpoint, StoredDecision,
};
use crawlgate_tlog::{KeyKind, VerifierKey, leaf_hash};

/// A decision with all evidence for its proof.
#[derive(Debug)]
pub struct Case<'a> {
    /// The decision.
    pub decision: &'a StoredDecision,
    /// The decision with its objects.
    pub told: Result<Told<'a>, Untold>,
    /// Result of making the decision again.
    pub finding: Finding,
    /// Its place in the log.
    pub in_log: LogStatus,
    /// The robots.txt behind the decision, if it is stored and agrees with the record.
    pub file: Option<Vec<u8>>,
    /// The settings of the decision, if they are stored.
    pub terms: Option<PolicySettings>,
    /// The fetch that brought the file, if it is still stored.
    pub fetch: Option<Fetch>,
}

/// The place of a decision in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogStatus {
    /// The log that a trusted key has signed holds the decision.
    Signed {
        /// Number of records in that log.
        size: u64,
    },
    /// The decision is newer than the last checkpoint.
    Unsigned,
    /// The signed log holds another record at this place.
    Altered(String),
    /// No trusted key has signed a checkpoint that covers the decision.
    Keyless(String),
}

impl LogStatus {
    async fn of(
        decision: &StoredDecision,
        store: &Store,
        trusted: &Trusted,
    ) -> Result<Self, StoreError> {
        let index = decision.seq.saturating_sub(1);
        let covering = match trusted.covering(index, &store.checkpoints().await?) {
            Ok(covering) => covering,
            Err(Uncovered::Unsigned) => return Ok(Self::Unsigned),
            Err(Uncovered::Keyless(fault)) => return Ok(Self::Keyless(fault)),
        };
        let size = covering.checkpoint.size;
        let altered = |why: &dyn std::fmt::Display| {
            Self::Altered(format!(
                "record {} is not the one in the log of {size} records that was signed: {why}",
                decision.seq
            ))
        };
        Ok(match store.inclusion(index, size).await {
            Ok(proof) => match covering.verify(&decision.entry, &proof) {
                Ok(()) => Self::Signed { size },
                Err(error) => altered(&error),
            },
            Err(error) if error.kind == StoreErrorKind::Corrupt => altered(&error),
            Err(error) => return Err(error),
        })
    }

    /// Returns the contradiction, if there is one.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        match self {
            Self::Signed { .. } | Self::Unsigned => None,
            Self::Altered(why) | Self::Keyless(why) => Some(why),
        }
    }

    /// Returns the size of the signed log that holds the decision.
    #[must_use]
    pub fn signed(&self) -> Option<u64> {
        match self {
            Self::Signed { size } => Some(*size),
            _ => None,
        }
    }
}

/// The verdict on a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseVerdict {
    /// The decision follows from stored evidence.
    Proven,
    /// Only the record attests the decision.
    Attested,
    /// Evidence contradicts the decision.
    Broken,
}

impl<'a> Case<'a> {
    /// Looks up all evidence of `decision`, and its place in the log.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(
        decision: &'a StoredDecision,
        store: &Store,
        trusted: &Trusted,
    ) -> Result<Case<'a>, StoreError> {
        let in_log = LogStatus::of(decision, store, trusted).await?;
        let told = decision.told();
        let finding = Replayer::new(store).look(decision, &told).await?;
        let (mut file, mut terms, mut fetch) = (None, None, None);
        if let Ok(one) = &told {
            if let Some(sha256) = one.robots.and_then(|robots| robots.sha256.copied())
                && !matches!(finding, Finding::Altered(Missing::Snapshot))
            {
                file = store.snapshot(sha256).await?;
                fetch = fetch_of(one, store).await?;
            }
            if let Some(digest) = one.policy {
                let text = store.policy(*digest).await?;
                terms = text.and_then(|text| PolicySettings::read(&text).ok());
            }
        }
        Ok(Case { decision, told, finding, in_log, file, terms, fetch })
    }
}

impl Case<'_> {
    /// Compares a record that no checkpoint covers yet with the root that the state file names.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn compare(&mut self, store: &Store, (size, root): End) -> Result<(), StoreError> {
        let seq = self.decision.seq;
        if self.in_log != LogStatus::Unsigned || seq > size {
            return Ok(());
        }
        let why = match store.inclusion(seq.saturating_sub(1), size).await {
            Ok(proof) => match proof.verify(&leaf_hash(&self.decision.entry), &root) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind == StoreErrorKind::Corrupt => error.to_string(),
            Err(error) => return Err(error),
        };
        self.in_log = LogStatus::Altered(format!(
            "record {seq} is not the one in the log of {size} records that the state file beside the store names: {why}"
        ));
        Ok(())
    }

    /// Tells whether no evidence contradicts the decision.
    #[must_use]
    pub fn holds(&self) -> bool {
        let fits = matches!(
            self.finding,
            Finding::Replayed(Outcome::Same | Outcome::Attested(_))
                | Finding::Event(_)
                | Finding::Dropped
        );
        fits && self.in_log.fault().is_none()
    }

    /// Returns the verdict and its first sentence.
    #[must_use]
    pub fn headline(&self) -> (CaseVerdict, String) {
        match (&self.in_log, &self.finding) {
            (LogStatus::Altered(_), _) => (
                CaseVerdict::Broken,
                "altered: the store has changed since the decision was recorded".to_owned(),
            ),
            (LogStatus::Keyless(_), Finding::Replayed(Outcome::Same | Outcome::Attested(_))) => (
                CaseVerdict::Broken,
                "not proven: whether it was altered cannot be told".to_owned(),
            ),
            (_, Finding::Replayed(Outcome::Same)) => (
                CaseVerdict::Proven,
                "proven: the same decision follows from what was kept".to_owned(),
            ),
            (_, Finding::Replayed(Outcome::Attested(why))) => {
                (CaseVerdict::Attested, format!("attested, not proven: {why}"))
            }
            (_, Finding::Event(event)) => (CaseVerdict::Attested, format!("no decision: {event}")),
            (_, finding) => (CaseVerdict::Broken, format!("not proven: {finding}")),
        }
    }

    /// Returns a sentence about the checkpoint over the decision.
    #[must_use]
    pub fn signed(&self, trusted: &Trusted) -> String {
        let seq = self.decision.seq;
        match self.in_log {
            LogStatus::Signed { size } => format!(
                "record {seq}, in the log of {size} records signed by {}",
                trusted.describe()
            ),
            LogStatus::Unsigned => format!("record {seq}; no checkpoint covers it yet"),
            LogStatus::Altered(_) => format!("record {seq}; the log has another one there"),
            LogStatus::Keyless(_) => format!("record {seq}; no trusted key has signed it"),
        }
    }
}

/// Returns the fetch that brought the file, by its time.
async fn fetch_of(one: &Told<'_>, store: &Store) -> Result<Option<Fetch>, StoreError> {
    let Some(robots) = one.robots else {
        return Ok(None);
    };
    let (Ok((origin, _)), Some(fetched)) = (Origin::parse(robots.origin), robots.fetched_at) else {
        return Ok(None);
    };
    let limit = FETCHES_KEPT * (OWN_STATES + 1) * Document::ALL.len();
    let fetches = store.fetches(&origin, limit).await?;
    let identity = robots.identity;
    let is_its = |fetch: &Fetch| {
        let is_of_it = identity.is_none_or(|name| fetch.identity.to_string() == name);
        is_of_it && fetch.time.as_millis() == fetched
    };
    Ok(fetches.into_iter().find(is_its))
}

/// The reason why no trusted checkpoint covers an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// The entry is newer than the last checkpoint.
    Unsigned,
    /// No trusted key has signed a checkpoint that covers the entry.
    Keyless(String),
}

/// The trusted keys of the log.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// The keys.
    pub keys: Keys,
    /// Source of the keys.
    pub from: String,
}

impl Trusted {
    /// Returns the named keys, each a verifier key or a file, or else the one beside the store, with those of lost logs that
    /// it continues; of a collected log, those that the collection trusts.
    ///
    /// A key that the present one has replaced is not among them: only the proof of that says up to which size it
    /// counts ([`Keys::follow`]).
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn of(named: &[String], config: &Config) -> Result<Trusted, KeyError> {
        let name = config.audit.log_name.clone();
        if !named.is_empty() {
            return Ok(Trusted {
                keys: named_keys("--key", named, KeyKind::Ed25519, name)?.into(),
                from: "the command line".to_owned(),
            });
        }
        let store = config.store.path.as_deref().unwrap_or(Path::new(""));
        let file = log_key_file(store);
        match LogKey::load(&file, name) {
            Ok(key) => Ok(Trusted {
                keys: with_lost(key.vkey(), earlier_keys(store)?).into(),
                from: file.display().to_string(),
            }),
            Err(error) if error.kind == StoreErrorKind::Missing => {
                let keys = collected_keys(store)?;
                let from = if keys.is_empty() {
                    format!("{}, which is not there", file.display())
                } else {
                    collected_keys_file(store).display().to_string()
                };
                Ok(Trusted { keys: keys.into(), from })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the keys of [`of`](Self::of), with those that the store proves to be of the same log.
    ///
    /// # Errors
    /// When one, or the store, cannot be read.
    pub async fn of_store(
        named: &[String],
        config: &Config,
        store: &Store,
    ) -> Result<Trusted, KeyError> {
        let mut trusted = Self::of(named, config)?;
        trusted.keys.follow(&store.rotations().await?);
        Ok(trusted)
    }

    /// Returns no key, for one of several logs of which the keys cannot be read.
    #[must_use]
    pub fn unread(error: &KeyError) -> Trusted {
        Trusted { keys: Keys::default(), from: error.to_string() }
    }

    /// Returns the newest checkpoint that covers the entry `index` and that a trusted key has signed.
    ///
    /// # Errors
    /// When no checkpoint is such.
    pub fn covering(
        &self,
        index: u64,
        checkpoints: &[StoredCheckpoint],
    ) -> Result<CoveringCheckpoint, Uncovered> {
        let covering = CoveringCheckpoint::of(index, checkpoints, &self.keys);
        let is_covered = checkpoints.iter().any(|one| one.size > index);
        covering.ok_or_else(|| {
            if is_covered { Uncovered::Keyless(self.fault()) } else { Uncovered::Unsigned }
        })
    }

    /// Returns the fault of checkpoints that none of the keys has signed.
    #[must_use]
    pub fn fault(&self) -> String {
        if self.keys.all.is_empty() {
            format!(
                "the log is signed, and there is no key to check it with: none in {}; name the public key with --key",
                self.from
            )
        } else {
            format!(
                "no trusted key has signed a checkpoint of it: trusted is {}; name an earlier key of this log, too (--key, \
                 more than once)",
                self.describe()
            )
        }
    }

    /// Returns the keys in a sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let keys: Vec<String> = self.keys.all.iter().map(ToString::to_string).collect();
        match keys.as_slice() {
            [] => format!("no key: none found in {}", self.from),
            keys => format!("{} ({})", keys.join(" or "), self.from),
        }
    }
}

/// Returns the present key, and those that signed earlier under another name: as the keys of lost logs.
fn with_lost(present: VerifierKey, earlier: Vec<VerifierKey>) -> Vec<VerifierKey> {
    let mut keys = vec![present];
    for one in earlier {
        if keys.first().is_some_and(|present| present.name() != one.name()) && !keys.contains(&one)
        {
            keys.push(one);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_log_without_a_key_is_a_fault() {
        let trusted = |keys: Vec<VerifierKey>| Trusted {
            keys: keys.into(),
            from: "crawlgate.log.key, which is not there".to_owned(),
        };
        let fault = trusted(Vec::new()).fault();
        assert!(fault.ends_with("which is not there; name the public key with --key"), "{fault}");
        let other = LogKey::generate(None).expect("a key").vkey();
        let fault = trusted(vec![other.clone()]).fault();
        assert!(fault.contains(&other.to_string()), "{fault}");
    }
}
