//! The source of the robots.txt: a file, or the origin.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use crate::Failure;
use crawlgate_config::Config;
use crawlgate_egress::Egress;
use crawlgate_gate::cache::{PersistentStates, RobotsCache};
use crawlgate_gate::explain::{self, File};
use crawlgate_signing::Identities;
use crawlgate_store::{self as store, Access, StoreErrorKind};
use crawlgate_system::clock::Clock;
use crawlgate_turns::pace::Pace;

/// The source of robots.txt.
pub(super) enum Source {
    /// One file for all URLs.
    File(File),
    /// Each origin's own.
    Origins(Arc<RobotsCache>),
}

impl Source {
    /// Creates the source from the named file, or from the origins.
    pub(super) fn new(
        file: Option<&Path>,
        known: Known,
        config: &Config,
        clock: &Clock,
    ) -> Result<Source, Failure> {
        match file {
            Some(file) => read(file, config).map(Source::File),
            None => cache(known, config, clock).map(Source::Origins),
        }
    }
}

/// The robots.txt that an answer may rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The copies in the store, by which the gate here judges. A missing one, or one that is due, is fetched.
    Stored,
    /// None: each is fetched.
    Nothing,
}

/// Returns the cache of robots.txt states, which fetches missing ones. It writes nothing into the store.
pub(super) fn cache(
    known: Known,
    config: &Config,
    clock: &Clock,
) -> Result<Arc<RobotsCache>, Failure> {
    let stored = match known {
        Known::Nothing => None,
        Known::Stored => match store::open(config, Access::Read) {
            Ok(store) => Some(PersistentStates::of_others(store)),
            Err(error) if error.kind == StoreErrorKind::Missing => None,
            Err(error) => return Err(error.into()),
        },
    };
    let config = &as_readable(config);
    let (_, fetcher) = Egress::new(config, clock.clone())?;
    let pace = Pace::new(&config.pace, clock.clone());
    let cache = RobotsCache::with_memory(config, fetcher, stored, None, pace, clock.clone());
    Ok(Arc::new(cache))
}

/// Returns the configuration with only the identity of `[agent]`, or without any if this user cannot read its key.
fn as_readable(config: &Config) -> Config {
    let mut config = config.clone();
    let name = config.agent.signing.clone();
    config.signing.retain(|one| Some(&one.name) == name.as_ref());
    if let Err(fault) = Identities::load(&config.signing) {
        warn!(
            "{fault}; robots.txt is fetched without a signature, so the answer may differ from that to the proxy"
        );
        config.signing.clear();
        config.agent.signing = None;
    }
    config
}

/// Reads a robots.txt; `-` is standard input.
pub(super) fn read(file: &Path, config: &Config) -> Result<File, Failure> {
    // One octet beyond the limit tells a file of exactly the limit from a longer one.
    let text = octets(file, config.robots.size_limit as u64 + 1)?;
    let name = file.display().to_string();
    let now = Clock::system().now();
    Ok(explain::file(&text, &name, &config.robots, now))
}

/// Reads at most `max` octets of a file; `-` is standard input.
pub(super) fn octets(file: &Path, max: u64) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(max).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(max).read_to_end(&mut text))
    };
    read.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text)
}

/// Creates a runtime for fetching: one thread, as only one caller waits.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot be started: {error}").into())
}
