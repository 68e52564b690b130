//! The proof of one decision: its evidence looked up, the decision made again, and the chain walked around it.

use std::path::{Path, PathBuf};

use super::review::{Finding, Review};
use super::{Chain, ChainVerifier, Fault, Head, is_signed};
use crate::audit::replay::{Evidence, Missing, Outcome, Unreadable};
use crate::config::Config;
use crate::policy::terms::{PolicyDigest, PolicySettings};
use crate::rep::Origin;
use crate::robots::identity::OWN_STATES;
use crate::store::chain::{self, SealingKey};
use crate::store::{FETCHES_KEPT, Fetch, Store, StoreError, StoreErrorKind, StoredDecision};
use crate::text::{from_hex, hex, time_text};

/// Links read at once.
const PAGE: usize = 1_000;

/// A decision with all evidence for its proof.
#[derive(Debug)]
pub struct Case<'a> {
    /// The decision.
    pub decision: &'a StoredDecision,
    /// Content of the record.
    pub evidence: Result<Evidence<'a>, Unreadable>,
    /// Result of making the decision again.
    pub finding: Finding,
    /// Contradictions in the chain around it.
    pub faults: Vec<Fault>,
    /// The fault of the seals' key, if there is one.
    pub keyless: Option<String>,
    /// The walked part of the chain, from the record before the decision on.
    pub chain: Chain,
    /// True if the walk ended before a seal or the end of the chain.
    pub is_cut: bool,
    /// The robots.txt behind the decision, if it is stored and agrees with the record.
    pub file: Option<Vec<u8>>,
    /// The settings of the decision, if they are stored.
    pub terms: Option<PolicySettings>,
    /// The fetch that brought the file, if it is still stored.
    pub fetch: Option<Fetch>,
}

/// The verdict on a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The decision follows from stored evidence.
    Proven,
    /// The record alone attests the decision.
    Attested,
    /// Evidence contradicts the decision.
    Broken,
}

impl<'a> Case<'a> {
    /// Looks up all evidence of `decision`, and walks the chain from the record before it to the first seal after it,
    /// over `reach` records at most.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(
        decision: &'a StoredDecision,
        store: &dyn Store,
        trusted: &Trusted,
        reach: u64,
    ) -> Result<Case<'a>, StoreError> {
        let mut faults = Vec::new();
        let (chain, is_cut) = walk(decision.seq, store, trusted, reach, &mut faults).await?;
        let keyless = trusted.fault(&store.seals().await?);
        let evidence = Evidence::read(&decision.record);
        let finding = Review::new(store).look(decision, &evidence).await?;
        let (mut file, mut terms, mut fetch) = (None, None, None);
        if let Ok(evidence) = &evidence {
            if let Ok(Some(sha256)) = evidence.snapshot()
                && !matches!(finding, Finding::Altered(Missing::Snapshot))
            {
                file = store.snapshot(sha256).await?;
                fetch = fetch_of(evidence, store).await?;
            }
            if let Some(digest) = &evidence.policy {
                let text = match PolicyDigest::from_digits(digest) {
                    Some(PolicyDigest(digest)) => store.policy(digest).await?,
                    None => None,
                };
                terms = text.and_then(|text| PolicySettings::read(&text).ok());
            }
        }
        Ok(Case {
            decision,
            evidence,
            finding,
            faults,
            keyless,
            chain,
            is_cut,
            file,
            terms,
            fetch,
        })
    }
}

impl Case<'_> {
    /// Tells whether no evidence contradicts the decision.
    #[must_use]
    pub fn holds(&self) -> bool {
        let fits = matches!(
            self.finding,
            Finding::Replayed(Outcome::Same | Outcome::Attested(_))
                | Finding::Event(_)
                | Finding::Dropped
        );
        fits && self.faults.is_empty() && self.keyless.is_none()
    }

    /// Returns the verdict and its first sentence.
    #[must_use]
    pub fn headline(&self) -> (Held, String) {
        if !self.faults.is_empty() {
            return (
                Held::Broken,
                "altered: the store has changed since the decision was recorded".to_owned(),
            );
        }
        match &self.finding {
            Finding::Replayed(Outcome::Same | Outcome::Attested(_)) if self.keyless.is_some() => (
                Held::Broken,
                "not proven: whether it was altered cannot be told".to_owned(),
            ),
            Finding::Replayed(Outcome::Same) => (
                Held::Proven,
                "proven: the same decision follows from what was kept".to_owned(),
            ),
            Finding::Replayed(Outcome::Attested(why)) => {
                (Held::Attested, format!("attested, not proven: {why}"))
            }
            Finding::Event(event) => (Held::Attested, format!("no decision: {event}")),
            finding => (Held::Broken, format!("not proven: {finding}")),
        }
    }

    /// Returns a sentence about the seal over the decision.
    #[must_use]
    pub fn sealed(&self, trusted: &Trusted) -> String {
        let seq = self.decision.seq;
        match self.chain.sealed {
            Some(sealed) if sealed >= seq => format!(
                "record {seq}, linked to the seal of record {sealed}, by {}",
                trusted.told()
            ),
            _ if self.is_cut => format!(
                "record {seq}, linked to record {}; the next seal is further on",
                self.chain.head.seq
            ),
            _ => format!("record {seq}, linked to the last one; not sealed yet"),
        }
    }
}

/// Walks from the record before this one to the first seal after it; tells whether the walk ended earlier.
async fn walk(
    seq: u64,
    store: &dyn Store,
    trusted: &Trusted,
    reach: u64,
    faults: &mut Vec<Fault>,
) -> Result<(Chain, bool), StoreError> {
    let seals = store.seals().await?;
    let mut seals_faults = Vec::new();
    let mut verifier = ChainVerifier::new(&seals, &trusted.keys, None, &mut seals_faults);
    // A fault of a seal matters here only if that seal should confirm this record.
    faults.extend(seals_faults.into_iter().filter(|fault| match fault {
        Fault::Signature { seq: sealed } | Fault::Key { seq: sealed, .. } => *sealed >= seq,
        _ => true,
    }));
    if let Some(before) = seq.checked_sub(2) {
        let page = store.links(before, 1).await?;
        if let Some(before) = page.first().filter(|link| link.seq < seq) {
            verifier.resume(Head {
                seq: before.seq,
                hash: before.hash,
            });
        } else if let Some(gap) = store.gaps(seq - 1, seq - 1).await?.first()
            && is_signed(gap, &trusted.keys)
        {
            verifier.resume(Head {
                seq: gap.last,
                hash: gap.after,
            });
        }
    }
    let mut after = seq.saturating_sub(1);
    let end = seq.saturating_add(reach);
    while after < end {
        let page = store.links(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok((verifier.end(faults), false));
        };
        if last.seq.saturating_sub(after) != page.len() as u64 {
            verifier.admit(store.gaps(after, last.seq).await?);
        }
        after = last.seq;
        for link in &page {
            verifier.step(link, faults);
            let is_sealed = verifier.sealed().is_some_and(|sealed| sealed >= seq);
            if is_sealed || !faults.is_empty() {
                return Ok((verifier.so_far(), false));
            }
        }
    }
    Ok((verifier.so_far(), true))
}

/// Returns the fetch that brought the file, by its time.
async fn fetch_of(evidence: &Evidence<'_>, store: &dyn Store) -> Result<Option<Fetch>, StoreError> {
    let robots = evidence.robots.as_ref();
    let origin = robots.and_then(|robots| Origin::parse(&robots.url).ok());
    let fetched = robots.and_then(|robots| robots.fetched_at.as_deref());
    let (Some((origin, _)), Some(fetched)) = (origin, fetched) else {
        return Ok(None);
    };
    let most = FETCHES_KEPT * (OWN_STATES + 1);
    let fetches = store.fetches(&origin, most).await?;
    let identity = robots.and_then(|robots| robots.identity.as_deref());
    let is_its = |fetch: &Fetch| {
        let is_of_it = identity.is_none_or(|name| fetch.identity.to_string() == name);
        is_of_it && time_text(fetch.time) == fetched
    };
    Ok(fetches.into_iter().find(is_its))
}

/// A key of seals that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The named file cannot be read.
    #[error("--key {named}: {error}")]
    File {
        /// The file.
        named: String,
        /// The failure.
        error: std::io::Error,
    },
    /// The named file holds no key.
    #[error("--key {0}")]
    Named(StoreError),
    /// The key beside the store cannot be read.
    #[error(transparent)]
    Own(#[from] StoreError),
}

/// The trusted keys of seals.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// The public keys; without any, each seal counts as genuine by the key that it names.
    pub keys: Vec<[u8; 32]>,
    /// Source of the keys.
    pub from: String,
}

impl Trusted {
    /// Returns the named keys, each a file or in hexadecimal, or else the one beside the store.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn of(named: &[String], config: &Config) -> Result<Trusted, KeyError> {
        if !named.is_empty() {
            let keys = named.iter().map(|named| public(named));
            return Ok(Trusted {
                keys: keys.collect::<Result<_, _>>()?,
                from: "the command line".to_owned(),
            });
        }
        let store = config.store.path.as_deref().unwrap_or(Path::new(""));
        let file = chain::key_file(store);
        match SealingKey::load(&file) {
            Ok(key) => Ok(Trusted {
                keys: vec![key.public()],
                from: file.display().to_string(),
            }),
            Err(error) if error.kind == StoreErrorKind::Missing => Ok(Trusted {
                keys: Vec::new(),
                from: format!("{}, which is not there", file.display()),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the fault if there are seals and no key to check them: without a key, seals by a forger look genuine.
    #[must_use]
    pub fn fault(&self, seals: &[chain::Seal]) -> Option<String> {
        let is_lost = self.keys.is_empty() && !seals.is_empty();
        is_lost.then(|| {
            format!(
                "the chain is sealed, and there is no key to check the seals with: none in {}; name the public key with --key",
                self.from
            )
        })
    }

    /// Returns the keys in a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        if self.keys.is_empty() {
            return format!(
                "whatever key each seal names: there is none in {}",
                self.from
            );
        }
        let keys: Vec<String> = self.keys.iter().map(hex).collect();
        format!("key {} ({})", keys.join(" or "), self.from)
    }
}

/// Returns the public key from hexadecimal, or from a file with hexadecimal or the sealing key.
fn public(named: &str) -> Result<[u8; 32], KeyError> {
    if let Some(key) = from_hex(named) {
        return Ok(key);
    }
    let file = PathBuf::from(named);
    let text = std::fs::read_to_string(&file).map_err(|error| KeyError::File {
        named: named.to_owned(),
        error,
    })?;
    match from_hex(text.trim()) {
        Some(key) => Ok(key),
        None => {
            let key = SealingKey::load(&file).map_err(KeyError::Named)?;
            Ok(key.public())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_without_a_key_are_a_fault() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = SealingKey::load_or_create(&folder.path().join("key")).expect("a key");
        let seal = chain::Seal {
            time: crate::clock::Moment::default(),
            seq: 1,
            hash: chain::GENESIS,
            start: (1, chain::GENESIS),
            signature: [0; 64],
            key: key.public(),
        };
        let trusted = |keys: &[[u8; 32]]| Trusted {
            keys: keys.to_vec(),
            from: "crawlgate.seal.key, which is not there".to_owned(),
        };
        assert_eq!(trusted(&[]).fault(&[]), None, "nothing is sealed");
        assert_eq!(
            trusted(&[key.public()]).fault(std::slice::from_ref(&seal)),
            None
        );
        let fault = trusted(&[]).fault(&[seal]).expect("there is no key");
        assert!(
            fault.ends_with("which is not there; name the public key with --key"),
            "{fault}"
        );
    }
}
