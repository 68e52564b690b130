//! The offer of the newest checkpoint to one witness.
//!
//! An offer names the size at which the witness has last seen the log, and proves that the log continues that one. A
//! witness that has seen another size states it, and the offer is repeated from there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use thiserror::Error;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::WitnessError;
use super::client::{Client, ClientError};
use super::protocol::{AddCheckpoint, Answer, Outcome, Refusal};
use super::status::{Quorum, StatusCell};
use crawlgate_config::WitnessConfig;
use crawlgate_store::{LogKey, Store, StoreError, StoredCheckpoint};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{EMPTY_ROOT, Note, Signature, VerifierKey};

/// Times that an offer begins again at the size that the witness states.
const MAX_RESTARTS: usize = 3;

/// A configured witness.
pub(super) struct Witness {
    pub(super) config: WitnessConfig,
    pub(super) status: Arc<StatusCell>,
    url: Uri,
    client: Client,
    store: Arc<Store>,
    key: Arc<LogKey>,
    quorum: Arc<Quorum>,
    /// The size at which the witness has last seen the log, as far as is known.
    seen: tokio::sync::Mutex<Option<u64>>,
}

/// The reason why an offer brought no cosignature.
#[derive(Debug, Error)]
pub enum Failure {
    /// The witness knows a checkpoint of this size, which the store does not have.
    #[error("it knows a checkpoint of {0} records, which the store does not have")]
    Ahead(u64),
    /// The witness refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The witness states a size that helps nothing.
    #[error("it asks for a proof from {0} records, and refuses the proof")]
    Size(u64),
    /// The witness does not answer.
    #[error(transparent)]
    Unreachable(#[from] ClientError),
    /// The store fails.
    #[error("the store gives it no proof: {0}")]
    Store(#[from] StoreError),
    /// The stored checkpoint is damaged.
    #[error("the newest checkpoint in the store is damaged")]
    Damaged,
}

impl Failure {
    const fn outcome(&self) -> Outcome {
        match self {
            Self::Ahead(_) => Outcome::Ahead,
            Self::Refused(why) => why.outcome(),
            Self::Size(_) => Outcome::Refused,
            Self::Unreachable(_) => Outcome::Unreachable,
            Self::Store(_) | Self::Damaged => Outcome::Store,
        }
    }
}

/// A checkpoint to offer.
struct OfferedCheckpoint {
    size: u64,
    note: Note,
    /// The note with all its signatures, as the witness gets it.
    text: String,
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Witness {
    pub(super) fn new(
        config: &WitnessConfig,
        client: Client,
        store: &Arc<Store>,
        key: &Arc<LogKey>,
        quorum: &Arc<Quorum>,
    ) -> Result<Self, WitnessError> {
        let url = format!("{}/add-checkpoint", config.url).parse::<Uri>();
        Ok(Self {
            url: url.map_err(|error| WitnessError::Url { url: config.url.clone(), error })?,
            config: config.clone(),
            status: Arc::default(),
            client,
            store: Arc::clone(store),
            key: Arc::clone(key),
            quorum: Arc::clone(quorum),
            seen: tokio::sync::Mutex::new(None),
        })
    }

    fn vkey(&self) -> &VerifierKey {
        &self.config.vkey
    }

    /// Returns the checkpoints of the store, and notes what they say of this witness.
    pub(super) async fn look(&self) -> Result<Vec<StoredCheckpoint>, StoreError> {
        let mut checkpoints = self.store.checkpoints().await?;
        // A log that was lost and forked leaves checkpoints under its old name.
        let is_ours = |one: &StoredCheckpoint| {
            let content = one.content();
            content.is_some_and(|content| content.origin == *self.key.name())
        };
        checkpoints.retain(is_ours);
        let vkey = std::slice::from_ref(self.vkey());
        let cosigned = checkpoints.iter().rev().find_map(|one| {
            let (_, time) = *one.cosigned(vkey).first()?;
            Some((one.size, time))
        });
        let newest = checkpoints.last().map_or(0, |newest| newest.size);
        self.quorum.look(&checkpoints);
        self.status.change(|state| {
            state.cosigned = cosigned;
            state.newest = newest;
        });
        Ok(checkpoints)
    }

    /// Offers the newest checkpoint, and tells of a failure that is new. Returns the size of the checkpoint if the witness
    /// has cosigned it. A log without a checkpoint offers the empty one: the answer says whether the witness has seen more.
    pub(super) async fn offer(&self, now: Moment) -> Option<u64> {
        let outcome = match self.try_offer(now).await {
            Ok(size) => self.accepted().await.map(|()| size),
            Err(failure) => Err(failure),
        };
        let name = &self.config.name;
        match outcome {
            Ok(size) => {
                self.status.count(Outcome::Cosigned);
                if self.status.change(|state| state.failure.take()).is_some() {
                    info!(witness = %name, size, "the witness cosigns checkpoints again");
                }
                Some(size)
            }
            Err(failure) => {
                self.status.count(failure.outcome());
                let said = failure.to_string();
                let before = self.status.change(|state| state.failure.replace(said.clone()));
                match failure {
                    Failure::Ahead(size) => self.note_ahead(size).await,
                    _ if before.as_ref() != Some(&said) => warn!(
                        witness = %name, url = %self.config.url,
                        "the witness does not cosign the newest checkpoint: {said}"
                    ),
                    _ => {}
                }
                None
            }
        }
    }

    /// Notes that the witness knows no checkpoint any more that the store does not have.
    async fn accepted(&self) -> Result<(), Failure> {
        if self.status.now().ahead.is_some() {
            let (name, log) = (&self.config.name, self.key.name());
            self.store.note_ahead(name, log, None).await?;
            self.status.change(|state| state.ahead = None);
            info!(witness = %self.config.name, "the witness agrees with the store: checkpoints are signed again");
        }
        self.look().await?;
        Ok(())
    }

    /// Notes that the witness knows a checkpoint that the store does not have. No checkpoint is signed from now on.
    async fn note_ahead(&self, size: u64) {
        let name = &self.config.name;
        if self.status.now().ahead == Some(size) {
            return;
        }
        error!(
            witness = %name,
            "NO CHECKPOINT IS SIGNED ANY MORE: the witness knows a checkpoint of {size} records of this log, and the store \
             does not have it. The store is an older copy, or another store signs with the same key; records are written as \
             before. End crawlgate and bring back the newer store; or, if the witness is wrong, remove its [[audit.witness]] \
             section and restart"
        );
        let log = self.key.name();
        match self.store.note_ahead(name, log, Some(size)).await {
            Ok(()) => self.status.change(|state| state.ahead = Some(size)),
            Err(error) => error!(witness = %name, "this cannot be noted in the store: {error}"),
        }
    }

    /// Returns the size that the witness knows and the store does not have, if there is one. The store stays as it is.
    ///
    /// # Errors
    /// With the reason why the witness does not say so.
    pub(super) async fn beyond(&self, now: Moment) -> Result<Option<u64>, Failure> {
        match self.try_offer(now).await {
            Err(Failure::Ahead(size)) => Ok(Some(size)),
            Ok(_) => Ok(None),
            // It has cosigned, and a store that was opened to be read cannot keep the line.
            Err(Failure::Store(_)) if self.seen.lock().await.is_some() => Ok(None),
            Err(why) => Err(why),
        }
    }

    async fn try_offer(&self, now: Moment) -> Result<u64, Failure> {
        let mut seen = self.seen.lock().await;
        let (mut checkpoints, mut stated) = (self.look().await?, None);
        for _ in 0..=MAX_RESTARTS {
            let offered = self.newest(&checkpoints)?;
            let cosigned = self.status.now().cosigned.map_or(0, |(size, _)| size);
            let old = stated.or(*seen).unwrap_or(cosigned).min(offered.size);
            let answer = self.ask(old, &offered, now).await;
            match answer {
                Ok(Answer::Cosigned(line)) => {
                    *seen = Some(offered.size);
                    self.keep(&offered, line).await?;
                    return Ok(offered.size);
                }
                Ok(Answer::Size(size)) => {
                    stated = Some(size);
                    // Another process may have signed and offered a newer checkpoint meanwhile.
                    checkpoints = self.look().await?;
                    let newest = checkpoints.last().map_or(0, |newest| newest.size);
                    // A witness that knows the offered size as it is cosigns it.
                    if size > newest || (size, size) == (old, offered.size) {
                        return Err(Failure::Ahead(size));
                    }
                    if size == old {
                        return Err(Failure::Size(size));
                    }
                }
                // The log was another one at the size that the witness states.
                Err(Failure::Refused(Refusal::Inconsistent(_)))
                    if stated == Some(old) && old > 0 =>
                {
                    return Err(Failure::Ahead(old));
                }
                // A witness need not take an empty log.
                Err(Failure::Refused(Refusal::Status(..))) if offered.size == 0 => return Ok(0),
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Size(stated.unwrap_or(0)))
    }

    async fn ask(
        &self,
        old: u64,
        offered: &OfferedCheckpoint,
        now: Moment,
    ) -> Result<Answer, Failure> {
        let proof = match old {
            0 => None,
            old if old == offered.size => None,
            old => Some(self.store.consistency(old, offered.size).await?),
        };
        let request = AddCheckpoint {
            old,
            path: proof.map(|proof| proof.path).unwrap_or_default(),
            checkpoint: &offered.text,
        };
        let request = request.to_string();
        let received = self.client.ask(&self.url, request).await?;
        Ok(received.read(&offered.note, self.vkey(), now)?)
    }

    fn newest(&self, checkpoints: &[StoredCheckpoint]) -> Result<OfferedCheckpoint, Failure> {
        let Some(newest) = checkpoints.last() else {
            let note = self.key.checkpoint(0, EMPTY_ROOT);
            let text = note.to_string();
            return Ok(OfferedCheckpoint { size: 0, note, text });
        };
        let note = Note::parse(newest.note.as_bytes()).map_err(|_| Failure::Damaged)?;
        Ok(OfferedCheckpoint { size: newest.size, note, text: newest.note.clone() })
    }

    /// Keeps the line of the witness with the checkpoint.
    async fn keep(&self, offered: &OfferedCheckpoint, line: Signature) -> Result<(), StoreError> {
        // The store has no checkpoint of an empty log.
        if offered.size > 0 {
            self.store.cosign(offered.size, line).await?;
        }
        Ok(())
    }

    /// Keeps the state up to date with the newest checkpoint, until the future is dropped.
    pub(super) async fn follow(&self) {
        loop {
            let seen = self.status.now().newest;
            match self.store.signed(seen).await {
                Ok(newest) => self.status.change(|state| state.newest = newest),
                Err(_) => sleep(Duration::from_secs(1)).await,
            }
        }
    }

    /// Waits until the newest checkpoint is another one than that of `size`.
    pub(super) async fn signed(&self, size: u64) -> Result<u64, StoreError> {
        self.store.signed(size).await
    }
}
