//! The sockets of `crawlgate run`, beside the store that it writes.
//!
//! `[admin] socket` belongs to one process, `crawlgate serve`. Any number of runs may write the same store at the same time, so
//! each listens at its own path, `crawlgate.run-4711.sock` for `crawlgate.db`, where commands that read the store find
//! it. A run has only the routes [`FLUSH`](super::FLUSH) and [`FLUSH_COUNTS`](super::FLUSH_COUNTS).

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the socket of the run with this process identifier.
pub(super) fn run_socket(store: &Path, pid: u32) -> PathBuf {
    store.with_extension(format!("run-{pid}.sock"))
}

/// Returns the sockets of all runs that write a store, those of killed runs included. None if the directory cannot be read.
#[must_use]
pub fn run_sockets(store: &Path) -> Vec<PathBuf> {
    let folder = match store.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let (Some(stem), Ok(files)) = (store.file_stem(), fs::read_dir(folder)) else {
        return Vec::new();
    };
    let is_of_run = |name: &[u8]| {
        let rest = name.strip_prefix(stem.as_encoded_bytes());
        let pid = rest
            .and_then(|rest| rest.strip_prefix(b".run-"))
            .and_then(|rest| rest.strip_suffix(b".sock"));
        pid.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
    };
    let names = files.flatten().map(|file| file.file_name());
    names
        .filter(|name| is_of_run(name.as_encoded_bytes()))
        .map(|name| folder.join(name))
        .collect()
}
