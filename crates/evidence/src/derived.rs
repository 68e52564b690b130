//! The lines of a batch, derived from its entries for the sinks, with the events that the store has appended before it.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::error;

use super::live::Live;
use super::queue::{Batch, Queue};
use crawlgate_record::{Digest, Entry, Objects, write_line};
use crawlgate_system::clock::Moment;

/// The lines of the current batch, and the objects that later batches may name.
#[derive(Debug, Default)]
pub(super) struct DerivedLines {
    objects: Bodies,
    text: Vec<u8>,
    is_current: bool,
    /// Lines of events that the store has appended before the current batch, once they are taken.
    before: Option<Vec<Box<str>>>,
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
    /// Returns the lines of the current batch. If the store has the batch, the events that it has appended before come
    /// first. If the store fails, all its events so far come first.
    pub(super) fn of(&mut self, batch: &Batch, queue: &Queue) -> &[u8] {
        if !self.is_current {
            self.derive(batch, queue);
        }
        &self.text
    }

    /// Shows the events of the current batch, and those before it, to watchers.
    pub(super) fn show(&mut self, batch: &Batch, queue: &Queue, live: &Live, now: Moment) {
        let before = self.before.get_or_insert_with(|| queue.take_appended());
        if !live.is_watched() {
            return;
        }
        for line in before {
            live.show_event(line, now);
        }
        let mut line = Vec::new();
        for entry in batch.content.entries.iter() {
            line.clear();
            if let Ok(entry @ Entry::Event(_)) = Entry::read(entry)
                && write_line(&entry, &self.objects, &mut line).is_ok()
                && let Ok(text) = std::str::from_utf8(&line)
            {
                live.show_event(text.trim_end_matches('\n'), now);
            }
        }
    }

    /// Discards the lines: the current batch has changed.
    pub(super) fn discard(&mut self) {
        self.is_current = false;
    }

    fn derive(&mut self, batch: &Batch, queue: &Queue) {
        let Self { objects, text, before, .. } = self;
        text.clear();
        for line in before.get_or_insert_with(|| queue.take_appended()) {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        for object in &batch.content.objects {
            let body = Arc::clone(&object.body);
            objects.0.insert(object.sha256, body);
        }
        for entry in batch.content.entries.iter() {
            let failed = match Entry::read(entry) {
                Ok(entry) => write_line(&entry, objects, text).err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = failed {
                debug_assert!(false, "{error}");
                error!(error, "a record has no line; the store keeps its entry");
            }
        }
        self.is_current = true;
    }

    /// Ends the current batch. Objects that the queue has forgotten are dropped: later entries come with theirs again.
    pub(super) fn end(&mut self, batch: &Batch) {
        /// Buffers that had to grow far are not kept.
        const SPARE: usize = 1024 * 1024;

        self.is_current = false;
        self.before = None;
        self.text.clear();
        self.text.shrink_to(SPARE);
        if let Some(forgotten) = batch.forgotten {
            let kept = batch.content.objects.iter().skip(forgotten);
            self.objects.0 = kept.map(|object| (object.sha256, Arc::clone(&object.body))).collect();
        }
    }
}
