//! Witnesses of the decision log: they cosign its checkpoints, so that the log cannot show two histories
//! (c2sp.org/tlog-witness@v1.0.0, `[[audit.witness]]`).
//!
//! A witness remembers how far it has seen the log, and cosigns a newer checkpoint only with a proof that the log has grown
//! from there. crawlgate offers each new checkpoint to every witness and keeps the cosignatures with the checkpoint. No
//! request and no record waits for a witness; a witness that is away gets the newest checkpoint when it is back.
//!
//! A witness that knows a checkpoint which the store does not have shows that the store is an older copy. No checkpoint is
//! signed from then on: it would contradict an earlier one. Each process asks before its first checkpoint.
//!
//! - `protocol`: the words of the protocol, pure; `client`: the way to a witness
//! - `offer`: the newest checkpoint for one witness; `status`: the state of each

pub(crate) mod client;
mod offer;
pub mod protocol;
mod status;

use std::sync::Arc;
use std::time::Duration;

use http::uri::InvalidUri;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use self::client::Client;
pub use self::offer::Failure;
use self::offer::Witness;
pub use self::status::Status;
use self::status::{Instruments, Quorum};
use crawlgate_config::{Config, WitnessConfig};
use crawlgate_egress as egress;
use crawlgate_store::{LogKey, Store, StoreError};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_system::metrics::Registry;
use crawlgate_system::retry::delay;
use crawlgate_trust::{self as trust, TrustError};

/// Time for the first answers: the first checkpoint of a process waits for it.
const FIRST: Duration = Duration::from_secs(5);

/// Time for the cosignatures of the last checkpoint: the end of a process waits for it.
const LAST_OFFER_TIMEOUT: Duration = Duration::from_secs(2);

/// The first and the longest delay after a failure.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(600);

/// The reason why the configured witnesses cannot be asked.
#[derive(Debug, Error)]
pub enum WitnessError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trusted roots cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The URL of a witness is invalid.
    #[error("[[audit.witness]] url = {url:?}: {error}")]
    Url {
        /// The configured URL.
        url: String,
        /// The fault.
        error: InvalidUri,
    },
}

/// The witnesses of a process.
#[derive(Debug)]
pub struct Witnesses {
    all: Vec<Arc<Witness>>,
    /// Number of witnesses that have not been asked yet.
    left: watch::Sender<usize>,
    quorum: Arc<Quorum>,
    clock: Clock,
}

impl Witnesses {
    /// Returns the configured witnesses of the log in `store`. None is asked before [`Witnesses::tasks`].
    ///
    /// # Errors
    /// When the store or the trusted roots cannot be read; the message names the way out.
    pub async fn of(
        config: &Config,
        store: &Arc<Store>,
        key: &Arc<LogKey>,
        clock: Clock,
    ) -> Result<Self, WitnessError> {
        let mut all = Vec::new();
        let quorum = Arc::new(Quorum::of(&config.audit));
        if !config.audit.witnesses.is_empty() {
            let usual = usual_client(config)?;
            for one in &config.audit.witnesses {
                let client = client_of(one, &usual)?;
                all.push(Arc::new(Witness::new(one, client, store, key, &quorum)?));
            }
        }
        let log = key.name();
        for (name, size) in store.ahead(log).await? {
            match all.iter().find(|one| one.config.name == name) {
                Some(witness) => witness.status.change(|state| state.ahead = Some(size)),
                None => {
                    warn!(
                        witness = name,
                        "checkpoints are signed again: the witness that knew one of {size} records, which the store does not \
                         have, is no longer configured"
                    );
                    store.note_ahead(&name, log, None).await?;
                }
            }
        }
        if let names @ [_, ..] = &*names(&all) {
            info!(witnesses = ?names, "witnesses cosign the checkpoints of the decision log");
        }
        let left = watch::Sender::new(all.len());
        Ok(Self { all, left, quorum, clock })
    }

    /// Asks each configured witness of the log in `store` once, in their order, without a change to the store. Returns the
    /// size that each knows and the store does not have, if there is one, or the reason why it does not answer.
    ///
    /// # Errors
    /// When the trusted roots cannot be read.
    pub async fn ask(
        config: &Config,
        store: &Arc<Store>,
        key: &Arc<LogKey>,
        now: Moment,
    ) -> Result<Vec<(String, Result<Option<u64>, Failure>)>, WitnessError> {
        let usual = usual_client(config)?;
        let quorum = Arc::new(Quorum::of(&config.audit));
        let mut answers = Vec::new();
        for one in &config.audit.witnesses {
            let witness = Witness::new(one, client_of(one, &usual)?, store, key, &quorum)?;
            answers.push((one.name.clone(), witness.beyond(now).await));
        }
        Ok(answers)
    }

    /// Returns a task for each witness, which ends when it is dropped.
    pub fn tasks(&self) -> impl Iterator<Item = impl Future<Output = ()> + Send + use<>> {
        let (clock, left) = (&self.clock, &self.left);
        let task = |witness: &Arc<Witness>| serve(Arc::clone(witness), clock.clone(), left.clone());
        self.all.iter().map(task).collect::<Vec<_>>().into_iter()
    }

    /// Waits until each witness has been asked once, for a few seconds at most.
    pub async fn asked(&self) {
        let mut left = self.left.subscribe();
        if timeout(FIRST, left.wait_for(|left| *left == 0)).await.is_err() {
            warn!("not every witness answers; the log is signed without their answers");
        }
    }

    /// Offers the last checkpoint of a process to the witnesses that have not cosigned it, for a few seconds at most.
    pub async fn offer_last(&self) {
        let mut offers = JoinSet::new();
        for witness in &self.all {
            let (witness, now) = (Arc::clone(witness), self.clock.now());
            offers.spawn(async move {
                if witness.look().await.is_ok() && witness.status.now().is_pending() {
                    witness.offer(now).await;
                }
            });
        }
        if timeout(LAST_OFFER_TIMEOUT, offers.join_all()).await.is_err() {
            warn!(
                "the last checkpoint is not cosigned by every witness yet: the next process offers it again"
            );
        }
    }

    /// Returns the state of each witness, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let status = |witness: &Arc<Witness>| {
            let state = witness.status.now();
            Status {
                name: witness.config.name.clone(),
                url: witness.config.url.clone(),
                vkey: witness.config.vkey.to_string(),
                cosigned: state.cosigned,
                is_pending: state.is_pending(),
                ahead: state.ahead,
                failure: state.failure,
            }
        };
        self.all.iter().map(status).collect()
    }

    /// Returns the size of the newest checkpoint that a quorum has cosigned, and the time by which it had.
    #[must_use]
    pub fn witnessed(&self) -> Option<(u64, Moment)> {
        self.quorum.last()
    }

    /// Registers the instruments, if there are witnesses.
    pub fn register(&self, registry: &mut Registry) {
        let status = |witness: &Arc<Witness>| {
            let name = witness.config.name.clone();
            (name, Arc::clone(&witness.status))
        };
        let all: Vec<_> = self.all.iter().map(status).collect();
        if !all.is_empty() {
            registry.register_collector(Box::new(Instruments(all)));
        }
    }
}

/// Returns the faults of the files that witnesses name.
#[must_use]
pub fn faults(witnesses: &[WitnessConfig]) -> Vec<TrustError> {
    let files = witnesses.iter().filter_map(|one| one.ca.as_deref());
    let fault = |path| trust::roots_in(CA, path).err();
    files.filter_map(fault).collect()
}

/// The key of the CA of a witness.
const CA: &str = "[[audit.witness]] ca";

/// Returns the client for witnesses without a CA of their own.
fn usual_client(config: &Config) -> Result<Client, TrustError> {
    Ok(Client::new(egress::tls_config(&config.tls.extra_roots)?))
}

/// Returns the client for a witness: one that trusts only the witness's own CA, if it has one.
fn client_of(witness: &WitnessConfig, usual: &Client) -> Result<Client, TrustError> {
    let Some(path) = &witness.ca else {
        return Ok(usual.clone());
    };
    let roots = trust::roots_in(CA, path)?;
    Ok(Client::new(egress::tls_config_of(roots)?))
}

fn names(all: &[Arc<Witness>]) -> Vec<&str> {
    all.iter().map(|one| one.config.name.as_str()).collect()
}

/// Offers each new checkpoint to a witness, and the newest one again after a failure.
async fn serve(witness: Arc<Witness>, clock: Clock, left: watch::Sender<usize>) {
    let mut attempt = 0;
    let mut outcome = witness.offer(clock.now()).await;
    left.send_modify(|left| *left = left.saturating_sub(1));
    loop {
        // A store that cannot be read is a failure like others.
        let news = match outcome {
            Some(size) => witness.signed(size).await.ok(),
            None => None,
        };
        if news.is_some() {
            attempt = 0;
        } else {
            let _ = timeout(delay(attempt, RETRY, LONGEST), witness.follow()).await; // only the time ends it
            attempt += 1;
        }
        outcome = witness.offer(clock.now()).await;
    }
}
