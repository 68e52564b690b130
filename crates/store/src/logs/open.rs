//! The copies that are open, so that not each question opens them anew.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::lost;
use crate::{Access, Store, StoreError};
use crawlgate_config::Synchronous;

/// Stores that stay open. Each has three threads and connections.
pub const MAX_OPEN: usize = 16;

/// Stores that were opened to be read: those that were asked last stay open. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OpenCopies(Arc<Mutex<VecDeque<OpenStore>>>);

#[derive(Clone, Debug)]
struct OpenStore {
    path: PathBuf,
    /// The file that was opened: another one may have its place by now.
    file: FileId,
    store: Arc<Store>,
}

/// The device and the inode of a file.
type FileId = (u64, u64);

impl OpenCopies {
    /// Returns the store at `path`, opened to be read.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) async fn get(&self, path: &Path) -> Result<Arc<Store>, StoreError> {
        if let Some(known) = self.known(path) {
            return Ok(known);
        }
        let place = path.to_owned();
        let open = move || -> Result<OpenStore, StoreError> {
            // Before the opening: a file that takes its place meanwhile is opened once more later.
            let file = file_at(&place).unwrap_or_default();
            let store = Store::open(&place, Access::Read, Synchronous::Full)?;
            Ok(OpenStore { path: place, file, store: Arc::new(store) })
        };
        let opened = spawn_blocking(open).await.map_err(|_| lost(path))??;
        let store = Arc::clone(&opened.store);
        let evicted = self.put(opened);
        // The end of a store waits for its threads.
        drop(spawn_blocking(move || drop(evicted)));
        Ok(store)
    }

    fn known(&self, path: &Path) -> Option<Arc<Store>> {
        let file = file_at(path);
        let mut open = self.0.lock();
        let is_it = |one: &OpenStore| one.path == path && Some(one.file) == file;
        let place = open.iter().position(is_it)?;
        let known = open.remove(place)?;
        let store = Arc::clone(&known.store);
        open.push_back(known);
        Some(store)
    }

    /// Adds an open store, and returns those that go for it.
    fn put(&self, opened: OpenStore) -> Vec<OpenStore> {
        let mut open = self.0.lock();
        let known = open.iter().position(|one| one.path == opened.path);
        let mut gone: Vec<OpenStore> =
            known.and_then(|known| open.remove(known)).into_iter().collect();
        open.push_back(opened);
        while open.len() > MAX_OPEN {
            gone.extend(open.pop_front());
        }
        gone
    }

    /// Returns the number of open stores.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

fn file_at(path: &Path) -> Option<FileId> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
