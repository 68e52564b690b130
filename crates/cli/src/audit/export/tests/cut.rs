//! An export that is cut off anywhere is continued.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crawlgate_evidence::destination::{Destination, DestinationError, Placing};
use crawlgate_evidence::verify::keys::{CoveringCheckpoint, Keys};

/// A directory that takes so many files.
struct Cut<'f> {
    folder: &'f Folder,
    left: AtomicUsize,
}

impl Destination for Cut<'_> {
    fn has(&self, name: &str) -> bool {
        self.folder.has(name)
    }

    fn put<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Placing<'a, ()> {
        let left = self.left.load(Ordering::Relaxed);
        match left.checked_sub(1) {
            Some(left) => {
                self.left.store(left, Ordering::Relaxed);
                self.folder.put(name, content)
            }
            None => Box::pin(std::future::ready(Err(DestinationError::new("cut off")))),
        }
    }
}

/// A listener to nothing.
struct Deaf;

impl Listener for Deaf {
    fn fault(&mut self, what: &str) {
        panic!("{what}");
    }
}

/// Exports up to the newest checkpoint, or as many files as `files` says. Tells whether it came to its end.
async fn export(gate: &ExportedLog, to: &Path, files: usize) -> bool {
    let keys = vec![gate.key.vkey().to_owned()];
    let checkpoints = gate.store.checkpoints().await.unwrap();
    let newest = CoveringCheckpoint::of(0, &checkpoints, &Keys::from(keys.clone())).unwrap();
    std::fs::create_dir_all(to).unwrap();
    let folder = Folder::of_export(to, &newest.checkpoint, &keys, "--to").unwrap();
    let cut = Cut { folder: &folder, left: files.into() };
    let (end, signed) = (folder.end(), (&newest.checkpoint, &newest.note));
    let written = write::write(&gate.store, &cut, end, signed, &mut Deaf).await;
    written.is_ok_and(|is_whole| is_whole)
}

/// Returns the entries of an export, in order, and the names of its bodies and of its newest checkpoint.
fn content(folder: &Path) -> (Vec<Vec<u8>>, Vec<String>) {
    let export = crawlgate_evidence::export::Exported::open(folder).unwrap();
    let newest = *export.checkpoints.last().unwrap();
    let (mut at, mut all) = (0, Vec::new());
    while at < newest {
        let file = export.block_with(at).unwrap();
        let read = export.entries::<crawlgate_evidence::export::Faulty>(file, |index, entry| {
            if index >= at && index < newest {
                all.push(entry.to_vec());
            }
            Ok(())
        });
        read.unwrap();
        at = file.1;
    }
    let mut names: Vec<String> = files(folder).into_keys().collect();
    names.retain(|name| name.starts_with("objects/") || name.starts_with("robots/"));
    names.push(checkpoint_file(newest));
    (all, names)
}

#[tokio::test]
async fn any_part_of_the_files_and_the_rest_are_the_whole() {
    let mut gate = ExportedLog::new().await;
    gate.signed(700, ROW.time).await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: String| folder.path().join(name);
    let mut exports = Vec::new();
    let whole = at("first".to_owned());
    assert!(export(&gate, &whole, usize::MAX).await);
    let count = files(&whole).len() - 1; // without the head, which is there before
    assert!(count >= 4, "{count} files");
    for files in 0..count {
        let to = at(files.to_string());
        assert!(!export(&gate, &to, files).await, "{files}");
        exports.push(to);
    }
    // More is signed before the exports are continued.
    gate.signed(1_200, ROW.time + DAY).await;
    let whole = at("whole".to_owned());
    assert!(export(&gate, &whole, usize::MAX).await);
    let want = content(&whole);
    assert_eq!(want.0.len(), 1_900);
    for (cut, to) in exports.iter().enumerate() {
        for files in 0.. {
            // Cut off again, at each place.
            if export(&gate, to, files).await {
                break;
            }
        }
        assert_eq!(content(to), want, "cut off after {cut} files");
    }
}
