//! The newest checkpoints that witnesses have cosigned, and the witnesses that know more than the store.

use std::collections::BTreeSet;

use crate::Failure;
use crawlgate_config::{AuditConfig, WitnessConfig};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::log_key::last_witnessed;
use crawlgate_store::{Store, StoredCheckpoint};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{KeyName, VerifierKey};

/// The size of a checkpoint, and the time by which it was cosigned.
pub(super) type CosignedSize = Option<(u64, Moment)>;

/// The newest checkpoints that the configured witnesses have cosigned.
pub(super) struct Witnessed<'c> {
    /// The name of each witness, and the newest that it has cosigned.
    pub(super) each: Vec<(&'c str, CosignedSize)>,
    /// The number of witnesses that a witnessed checkpoint has.
    pub(super) quorum: usize,
    /// The newest that so many have cosigned.
    pub(super) last: CosignedSize,
    /// The witnesses that know a checkpoint of this size, which the store does not have.
    pub(super) ahead: Vec<(String, u64)>,
}

impl<'c> Witnessed<'c> {
    pub(super) fn of(config: &'c AuditConfig, checkpoints: &[StoredCheckpoint]) -> Self {
        let last = |keys: &[VerifierKey], quorum| {
            let last = last_witnessed(checkpoints, keys, quorum);
            last.map(|(one, time)| (one.size, time))
        };
        let one = |one: &'c WitnessConfig| {
            let vkey = std::slice::from_ref(&one.vkey);
            (one.name.as_str(), last(vkey, 1))
        };
        Self {
            each: config.witnesses.iter().map(one).collect(),
            quorum: config.quorum,
            last: last(&config.witness_keys(), config.quorum),
            ahead: Vec::new(),
        }
    }

    /// Reads which witnesses know more than the store: no checkpoint is signed any more then.
    pub(super) async fn with_ahead(
        mut self,
        store: &Store,
        trusted: &Trusted,
    ) -> Result<Self, Failure> {
        let names: BTreeSet<&KeyName> = trusted.keys.all.iter().map(VerifierKey::name).collect();
        for name in names {
            let ahead = store.ahead(name).await;
            self.ahead.extend(ahead?);
        }
        Ok(self)
    }
}
