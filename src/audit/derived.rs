//! The lines of a batch, derived from its entries for the sinks.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::error;

use super::queue::Batch;
use crate::entry::{Digest, Entry, Objects, write_line};

/// The lines of the batch at hand, and the objects that later batches may name.
#[derive(Debug, Default)]
pub(super) struct DerivedLines {
    objects: Bodies,
    text: Vec<u8>,
    is_current: bool,
}

/// Bodies by digest.
#[derive(Debug, Default)]
struct Bodies(HashMap<Digest, Arc<[u8]>, ahash::RandomState>);

impl Objects for Bodies {
    fn body(&self, sha256: &Digest) -> Option<&[u8]> {
        self.0.get(sha256).map(|body| &**body)
    }
}

impl DerivedLines {
    /// Returns the lines of the batch at hand.
    pub(super) fn of(&mut self, batch: &Batch) -> &[u8] {
        if !self.is_current {
            self.derive(batch);
        }
        &self.text
    }

    /// Discards the lines: the batch at hand has changed.
    pub(super) fn discard(&mut self) {
        self.is_current = false;
    }

    fn derive(&mut self, batch: &Batch) {
        let Self { objects, text, .. } = self;
        text.clear();
        for object in &batch.content.objects {
            let body = Arc::clone(&object.body);
            objects.0.insert(object.sha256, body);
        }
        for entry in batch.content.entries.iter() {
            let failed = match Entry::read(entry) {
                Ok(entry) => write_line(&entry, objects, text)
                    .err()
                    .map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = failed {
                debug_assert!(false, "{error}");
                error!(error, "a record has no line; the store keeps its entry");
            }
        }
        self.is_current = true;
    }

    /// Ends the batch at hand. Objects that the queue has forgotten are dropped: later entries come with theirs again.
    pub(super) fn end(&mut self, batch: &Batch) {
        /// Buffers that had to grow far are not kept.
        const SPARE: usize = 1024 * 1024;

        self.is_current = false;
        self.text.clear();
        self.text.shrink_to(SPARE);
        if let Some(forgotten) = batch.forgotten {
            let kept = batch.content.objects.iter().skip(forgotten);
            self.objects.0 = kept
                .map(|object| (object.sha256, Arc::clone(&object.body)))
                .collect();
        }
    }
}
