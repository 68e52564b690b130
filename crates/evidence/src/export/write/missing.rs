//! Entries that the store does not have as they were signed, and the gap that is written in their place.

use std::sync::Arc;

use super::signed::SignedRoots;
use super::{Export, NoProof, PAGE, WriteError};
use crate::export::{Gap, gap_file};
use crawlgate_store::{Records, Store, StoreError, StoreErrorKind, StoredDecision};
use crawlgate_tlog::{BUNDLE, Hash};

/// The records of a bundle; `None` if some cannot be read, or are not there.
type Bundle = Option<Vec<StoredDecision>>;

/// Returns the next bundles from `at` on, the last one up to `size`.
///
/// # Errors
/// When the store cannot be read for another reason than damage.
pub(super) async fn bundles(
    store: &Arc<Store>,
    at: u64,
    size: u64,
) -> Result<Vec<Bundle>, WriteError> {
    let end = size.min(at + PAGE as u64);
    if let Some(page) = range(store, at, end).await? {
        let bundles = page.chunks(BUNDLE as usize);
        return Ok(bundles.map(|bundle| Some(bundle.to_vec())).collect());
    }
    let mut bundles = Vec::new();
    for first in (at..end).step_by(BUNDLE as usize) {
        bundles.push(range(store, first, end.min(first + BUNDLE)).await?);
    }
    match store.extent().await?.first > at {
        true => Err(WriteError::DroppedMeanwhile { after: at }),
        false => Ok(bundles),
    }
}

/// Returns the records of a range. `None` unless all can be read.
async fn range(store: &Arc<Store>, first: u64, end: u64) -> Result<Bundle, StoreError> {
    let count = usize::try_from(end - first).unwrap_or(PAGE);
    let read = match store.records(first, count).await {
        Err(error) if error.kind == StoreErrorKind::Corrupt => return Ok(None),
        read => read?,
    };
    let in_order = (first + 1..).zip(&read).all(|(seq, one)| one.seq == seq);
    Ok((read.len() == count && in_order).then_some(read))
}

impl Export<'_> {
    /// Writes the statement that the entries from `first` to before `end` are missing.
    pub(super) async fn gap(
        &mut self,
        signed: &SignedRoots,
        first: u64,
        end: u64,
    ) -> Result<(), WriteError> {
        let records = Records::at(first, end - 1);
        let to_bundle = match first.is_multiple_of(BUNDLE) {
            true => Vec::new(),
            false => self.rest_of_bundle(signed, first).await?,
        };
        let whole = signed.roots(first.next_multiple_of(BUNDLE), end);
        let gap = Gap::new((first, end), [to_bundle, whole].concat());
        let gap = gap.ok_or(WriteError::NoPlace(records))?;
        self.destination
            .put(&gap_file(first, end), &gap.to_bytes())
            .await?;
        self.gaps.push((first, end));
        let are = records.are();
        self.listener.missing(end - first);
        self.listener.fault(&format!(
            "{records} {are} damaged, or other than signed: a statement of the gap stands in their place; `crawlgate store \
             check` tells more"
        ));
        Ok(())
    }

    /// Returns the hashes that follow the first entries of a damaged bundle, up to its end. They are kept with the checkpoint
    /// over those entries.
    async fn rest_of_bundle(
        &self,
        signed: &SignedRoots,
        first: u64,
    ) -> Result<Vec<Hash>, WriteError> {
        let end = first.next_multiple_of(BUNDLE);
        let failed = |why: NoProof| WriteError::NotContinued {
            records: Records::at(first, end - 1),
            before: first,
            why,
        };
        let proof = self.store.consistency(first, end).await;
        let proof = proof.map_err(|error| failed(error.into()))?;
        let checkpoints = self.store.checkpoints().await?;
        let known = checkpoints.iter().find(|one| one.size == first);
        let known = known.and_then(|one| one.content());
        let known = known.ok_or_else(|| failed(NoProof::NoCheckpoint))?;
        let root = signed.root(end).ok_or_else(|| failed(NoProof::NoRoot))?;
        let proven = proof.verify(&known.root, &root);
        proven.map_err(|error| failed(error.into()))?;
        Ok(proof.behind())
    }
}
