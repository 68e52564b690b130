//! The decision log in another place, too, continuously (`[ship]`).
//!
//! A pass writes what is new up to a checkpoint, by the code of `crawlgate audit export`, and then notes in the store how far
//! the place has the log: retention drops nothing behind that. A place that is away is tried again, ever later; no request
//! and no record waits for it. A pass is bounded (`STEP`): behind a long pause, many follow each other.
//!
//! - `pass`: one pass, on a thread that may wait for a disk; `remote`: a service that takes files by PUT
//! - `status`: how far the place has the log, for the API and `/metrics`

mod error;
mod pass;
mod remote;
mod status;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use self::error::Failure;
pub use self::error::ShipError;
use self::remote::Client;
pub use self::remote::TokenError;
pub use self::status::Status;
use self::status::{Instruments, StatusCell};
use crawlgate_block::MAX_ENTRIES;
use crawlgate_config::{Config, ShipConfig, ShipTo};
use crawlgate_egress as egress;
use crawlgate_store::{LogKey, ShipMark, Store};
use crawlgate_system::clock::Clock;
use crawlgate_system::metrics::Registry;
use crawlgate_system::retry::delay;
use crawlgate_tlog::KeyName;

/// Entries after which a pass ends at the next checkpoint.
const STEP: u64 = MAX_ENTRIES as u64;

/// A pause between two passes of which the first left something, in which others read.
const PASS_PAUSE: Duration = Duration::from_millis(20);

/// Time for witnesses to cosign a new checkpoint before it is shipped.
const WITNESSES: Duration = Duration::from_secs(2);

/// Time for the last pass: the end of a process waits for it.
const LAST_PASS_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which another process may keep the place, before that is told as a failure.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The first and the longest delay after a failure.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The shipping of a log.
#[derive(Debug)]
pub struct Shipper {
    store: Arc<Store>,
    config: Arc<Config>,
    to: Target,
    mark: ShipMark,
    /// The name of the log, by which witnesses know it.
    log: KeyName,
    clock: Clock,
    status: Arc<StatusCell>,
    /// Held by a pass.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The place.
#[derive(Debug)]
enum Target {
    Folder(PathBuf),
    /// A service, and the URL of the log there.
    Service(Box<Client>, String),
}

/// The end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassResult {
    /// The place has everything that is signed: so many entries.
    Whole(u64),
    /// More is left.
    Part,
}

/// Returns the fault of the token's file, if one is configured.
#[must_use]
pub fn fault(config: &ShipConfig) -> Option<TokenError> {
    let path = config.to.as_ref().and(config.token_file.as_deref())?;
    remote::token(path).err()
}

impl Shipper {
    /// Returns the configured shipping of the log in `store`, and sets where its retention stops. Nothing is shipped before
    /// [`Shipper::run`]. Without a configured place, retention stops where it did: only `crawlgate store release` lets go.
    ///
    /// # Errors
    /// When the store or the trusted roots cannot be read; the message names the way out.
    pub async fn of(
        config: &Arc<Config>,
        store: &Arc<Store>,
        key: &LogKey,
        clock: Clock,
    ) -> Result<Option<Arc<Self>>, ShipError> {
        let Some(to) = &config.ship.to else {
            // Another process may ship the log: this one has no say in it.
            if let Some(records) = store.shipped().await? {
                warn!(
                    shipped = records,
                    "this configuration has no [ship] to, and the log is shipped by another process, or was: retention drops \
                     nothing that is not there; if no process ships it any more, `crawlgate store release` lets go of it"
                );
            }
            return Ok(None);
        };
        let place = match to {
            ShipTo::Folder(path) => Target::Folder(path.clone()),
            ShipTo::Url(url) => {
                let tls = egress::tls_config(&config.tls.extra_roots)?;
                let client = Client::new(tls, config.ship.token_file.clone());
                Target::Service(Box::new(client), remote::url_of(url, key.name()))
            }
        };
        let mark = mark(to, key);
        let shipped = store.ship_to(Some(mark)).await?;
        info!(%to, records = shipped, "the decision log is shipped");
        let shipper = Self {
            store: Arc::clone(store),
            config: Arc::clone(config),
            to: place,
            mark,
            log: key.name().clone(),
            clock,
            status: Arc::new(StatusCell::new(to.to_string(), shipped)),
            turn: Arc::default(),
        };
        shipper.look().await?;
        Ok(Some(Arc::new(shipper)))
    }

    /// Ships each new checkpoint with what it covers, until the future is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut attempt = 0;
        loop {
            match self.pass().await {
                Ok(PassResult::Part) => {
                    attempt = 0;
                    sleep(PASS_PAUSE).await;
                }
                Ok(PassResult::Whole(size)) => {
                    attempt = 0;
                    sleep(self.config.ship.every).await;
                    // A store that cannot be read is told by the next pass.
                    let signed = self.store.signed(size).await;
                    if signed.is_ok() && !self.config.audit.witnesses.is_empty() {
                        sleep(WITNESSES).await;
                    }
                }
                Err(Failure::Busy) => sleep(self.config.ship.every).await,
                Err(_) => {
                    sleep(delay(attempt, RETRY, LONGEST)).await;
                    attempt += 1;
                }
            }
        }
    }

    /// Ships the last checkpoint of a process, for a few seconds at most.
    pub async fn last(self: &Arc<Self>) {
        let passes = async { while let Ok(PassResult::Part) = self.pass().await {} };
        let is_over = timeout(LAST_PASS_TIMEOUT, passes).await.is_ok();
        // A failure is told.
        if !is_over {
            warn!(
                to = self.status.to(),
                "the last records are not shipped yet: the next process ships them"
            );
        }
    }

    /// Returns how far the place has the log.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.status(self.clock.now())
    }

    /// Registers the instruments.
    pub fn register(&self, registry: &mut Registry) {
        let status = Arc::clone(&self.status);
        registry.register_collector(Box::new(Instruments(status, self.clock.clone())));
    }

    /// Makes one pass, and tells of a failure that is new.
    async fn pass(self: &Arc<Self>) -> Result<PassResult, Failure> {
        let outcome = pass::run(self).await;
        let to = self.status.to();
        match &outcome {
            Ok(_) => {
                if let Some(size) = self.status.succeeded(self.clock.now()) {
                    info!(to, records = size, "the decision log is shipped again");
                }
            }
            Err(Failure::Busy) => {
                if self.status.busy(self.clock.uptime()) >= LOCK_TIMEOUT {
                    self.tell(
                        "another process has kept this place for more than a minute (it holds the lock of log.json there): end \
                         it if it hangs; if two gates name one directory, give each one of its own ([ship] to)",
                    );
                }
            }
            Err(why) => self.tell(&why.to_string()),
        }
        outcome
    }

    /// Tells the reason why nothing is shipped, unless it was told.
    fn tell(&self, why: &str) {
        if self.status.failed(why, self.clock.now()) {
            warn!(
                to = self.status.to(),
                "the decision log is not shipped: {why}; it is tried again, and retention drops nothing that is not there"
            );
        }
    }

    /// Notes what waits to be shipped.
    async fn look(&self) -> Result<(), crawlgate_store::StoreError> {
        let checkpoints = self.store.checkpoints().await?;
        self.status.look(&checkpoints);
        Ok(())
    }
}

/// Returns the mark of a place for one log.
fn mark(to: &ShipTo, key: &LogKey) -> ShipMark {
    let named = digest(&SHA256, format!("{to}\n{}", key.name()).as_bytes());
    let mut mark = [0; 8];
    for (octet, from) in mark.iter_mut().zip(named.as_ref()) {
        *octet = *from;
    }
    ShipMark(mark)
}

#[cfg(test)]
mod tests;
