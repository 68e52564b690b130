//! The proof of a decision on its page: the record in the tree of the log, its checkpoint, the replay.

use super::super::super::problem::Problem;
use super::super::format::{Timestamp, line};
use crawlgate_config::AuditConfig;
use crawlgate_evidence::replay::Outcome;
use crawlgate_evidence::verify::case::{Case, CaseVerdict, Trusted};
use crawlgate_evidence::verify::review::Finding;
use crawlgate_store::{Store, StoredCheckpoint};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_tlog::leaf_hash;

/// The proof of the decision.
pub(super) struct Proof {
    /// `good`, `fair` or `bad`.
    pub(super) class: &'static str,
    pub(super) headline: String,
    pub(super) signed: String,
    /// The hash of the record's leaf in the tree over the log.
    pub(super) leaf: String,
    pub(super) checkpoint: Option<SignedRoot>,
    pub(super) faults: Vec<String>,
    pub(super) differences: Vec<(String, String, String)>,
}

/// The checkpoint over the decision.
pub(super) struct SignedRoot {
    pub(super) time: Timestamp,
    /// The signed note.
    pub(super) note: String,
    /// The witnesses that have cosigned it, with the time of each.
    pub(super) cosigned: Vec<(String, Timestamp)>,
    /// The number that have, and the number that a witnessed checkpoint has, where that is larger.
    pub(super) lacking: Option<(usize, usize)>,
}

/// Returns the checkpoint that covers the record, if there is one.
pub(super) async fn checkpoint_of(
    case: &Case<'_>,
    store: &Store,
) -> Result<Option<StoredCheckpoint>, Problem> {
    let Some(size) = case.in_log.signed() else {
        return Ok(None);
    };
    let checkpoints = store.checkpoints().await?;
    Ok(checkpoints.into_iter().find(|one| one.size == size))
}

impl SignedRoot {
    pub(super) fn of(
        checkpoint: &StoredCheckpoint,
        config: &AuditConfig,
        now: Moment,
    ) -> SignedRoot {
        let lines: Vec<String> = checkpoint.note.lines().map(line).collect();
        let cosigned = config.witnesses.iter().filter_map(|witness| {
            let vkey = std::slice::from_ref(&witness.vkey);
            let (_, time) = *checkpoint.cosigned(vkey).first()?;
            Some((line(&witness.name), Timestamp::at(time, now)))
        });
        let cosigned: Vec<_> = cosigned.collect();
        let is_lacking = !config.witnesses.is_empty() && cosigned.len() < config.quorum;
        SignedRoot {
            lacking: is_lacking.then_some((cosigned.len(), config.quorum)),
            cosigned,
            time: Timestamp::at(checkpoint.time, now),
            note: lines.join("\n"),
        }
    }
}

impl Proof {
    pub(super) fn of(case: &Case<'_>, trusted: &Trusted, checkpoint: Option<SignedRoot>) -> Proof {
        let (held, headline) = case.headline();
        let differences = match &case.finding {
            Finding::Replayed(Outcome::Differs(differences)) => differences.as_slice(),
            _ => &[],
        };
        Proof {
            class: match held {
                CaseVerdict::Proven => "good",
                CaseVerdict::Attested => "fair",
                CaseVerdict::Broken => "bad",
            },
            headline: line(&headline),
            signed: line(&case.signed(trusted)),
            leaf: hex(leaf_hash(&case.decision.entry)),
            checkpoint,
            faults: case.in_log.fault().map(line).into_iter().collect(),
            differences: differences
                .iter()
                .map(|one| (one.what.to_owned(), line(&one.recorded), line(&one.replayed)))
                .collect(),
        }
    }
}
