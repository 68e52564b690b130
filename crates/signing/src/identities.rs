//! All identities in force, and what a reload makes of them.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

use super::directory::{Directory, PROOF, origin_of};
use super::identity::{Identity, Keys, OutcomeCounters};
use super::key::KeyFault;
use super::settings::Settings;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

/// The identities in force.
#[derive(Debug, Default)]
pub struct Identities {
    /// Those that have a key.
    all: Vec<Arc<Identity>>,
    /// The counts of all that are configured, by name.
    counters: Vec<(Arc<str>, Arc<OutcomeCounters>)>,
    /// The directories that were asked for.
    directories: Mutex<Vec<Kept>>,
}

/// A directory that was made for an origin.
#[derive(Debug)]
struct Kept {
    origin: Origin,
    made: Moment,
    directory: Arc<Directory>,
}

/// The reason that an identity cannot sign.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A file gives no key.
    #[error("[[signing]] name = {name:?}, {key} = {}: {fault}", path.display())]
    Key {
        /// The name of the identity.
        name: Arc<str>,
        /// The configuration key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: KeyFault,
    },
    /// Two crawlers would be one.
    #[error(
        "[[signing]] name = {name:?}, key: {other:?} has the same key, so an origin cannot tell the two identities apart; make one with `crawlgate \
         signing new`"
    )]
    Shared {
        /// The name of the identity.
        name: Arc<str>,
        /// The name of the other one.
        other: Arc<str>,
    },
}

impl Identities {
    /// Loads the keys of all identities.
    ///
    /// # Errors
    /// The first fault.
    pub fn load(all: &[Settings]) -> Result<Identities, IdentityError> {
        let (identities, faults) = Identities::default().reloaded(all);
        match faults.into_iter().next() {
            None => Ok(identities),
            Some(fault) => Err(fault),
        }
    }

    /// Loads the keys again, for new settings. An identity with a bad key keeps the keys that it has, unless another has
    /// taken them; a new one with a bad key is left out.
    #[must_use]
    pub fn reloaded(&self, all: &[Settings]) -> (Identities, Vec<IdentityError>) {
        let mut identities: Vec<Arc<Identity>> = Vec::new();
        let mut counters = Vec::new();
        let mut faults = Vec::new();
        for settings in all {
            let before = self.get(&settings.name);
            let loaded = Keys::load(settings).map_err(|(key, path, fault)| IdentityError::Key {
                name: Arc::clone(&settings.name),
                key,
                path,
                fault,
            });
            let own = |keys: Arc<Keys>| match holder(&identities, &keys) {
                None => Ok(keys),
                Some(other) => {
                    Err(IdentityError::Shared { name: Arc::clone(&settings.name), other })
                }
            };
            let keys = match loaded.map(Arc::new).and_then(own) {
                Ok(keys) => Some(keys),
                Err(fault) => {
                    let kept = before.map(|before| own(before.shared_keys()));
                    let is_told = matches!(fault, IdentityError::Shared { .. });
                    faults.push(fault);
                    match kept {
                        Some(Ok(keys)) => Some(keys),
                        Some(Err(fault)) => {
                            faults.extend((!is_told).then_some(fault));
                            None
                        }
                        None => None,
                    }
                }
            };
            let identity = keys.map(|keys| Identity::new(settings.clone(), keys));
            identities.extend(identity.map(Arc::new));
            let outcomes = self.counters(&settings.name).cloned().unwrap_or_default();
            counters.push((Arc::clone(&settings.name), outcomes));
        }
        let reloaded = Identities { all: identities, counters, directories: Mutex::default() };
        (reloaded, faults)
    }

    /// Returns the identity of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Identity>> {
        self.all.iter().find(|one| *one.settings().name == *name)
    }

    /// Returns the counts of the identity of this name, which may have no key.
    #[must_use]
    pub fn counters(&self, name: &str) -> Option<&Arc<OutcomeCounters>> {
        let mut counters = self.counters.iter();
        let (_, counters) = counters.find(|(known, _)| **known == *name)?;
        Some(counters)
    }

    /// Returns the directory of the identities with this authority; `None` if no identity has it. It is made anew when
    /// half of the time is over for which its proofs count: everyone may ask for it.
    #[must_use]
    pub fn directory(&self, authority: &str, now: Moment) -> Option<Arc<Directory>> {
        let origin = origin_of(authority)?;
        let mut kept = self.directories.lock();
        let is_good = |one: &&Kept| {
            one.origin == origin && one.made <= now && now.since(one.made) < PROOF / 2
        };
        if let Some(one) = kept.iter().find(is_good) {
            return Some(Arc::clone(&one.directory));
        }
        let all = self.all.iter().map(|one| &**one);
        let directory = Arc::new(Directory::at(all, &origin, now)?);
        kept.retain(|one| one.origin != origin);
        kept.push(Kept { origin, made: now, directory: Arc::clone(&directory) });
        Some(directory)
    }

    /// Returns all identities that have a key, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Identity>> + Clone {
        self.all.iter()
    }

    /// Returns the numbers of requests, by identity and outcome.
    pub fn counts(&self) -> impl Iterator<Item = (&str, [(&'static str, u64); 3])> {
        self.counters.iter().map(|(name, counters)| {
            let mut counts = OutcomeCounters::RESULTS.map(|result| (result, 0));
            for (count, now) in counts.iter_mut().zip(counters.now()) {
                count.1 = now;
            }
            (&**name, counts)
        })
    }
}

/// Returns the name of the identity that signs with the same key.
fn holder(identities: &[Arc<Identity>], keys: &Keys) -> Option<Arc<str>> {
    let same = |one: &&Arc<Identity>| one.key().thumbprint() == keys.key.thumbprint();
    let holder = identities.iter().find(same)?;
    Some(Arc::clone(&holder.settings().name))
}
