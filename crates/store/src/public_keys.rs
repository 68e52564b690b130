//! The files of public keys beside a store: those that signed its log earlier, and those of a collected log.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{StoreError, StoreErrorKind};
use crawlgate_system::atomic_file::replace;
use crawlgate_tlog::VerifierKey;

/// Returns the place of the public keys that signed a store's log earlier: `crawlgate.log.earlier` for `crawlgate.db`.
#[must_use]
pub fn earlier_keys_file(store: &Path) -> PathBuf {
    store.with_extension("log.earlier")
}

/// Returns the place of the public keys of a collected log: `NAME.log.vkey` for `NAME.db`.
#[must_use]
pub fn collected_keys_file(store: &Path) -> PathBuf {
    store.with_extension("log.vkey")
}

/// Returns the public keys that signed a store's log earlier, each with the name of the log at that time.
///
/// # Errors
/// When their file cannot be read.
pub fn earlier_keys(store: &Path) -> Result<Vec<VerifierKey>, StoreError> {
    keys_in(&earlier_keys_file(store), "it holds the public keys that signed the log earlier")
}

/// Returns the public keys that a collection trusts for a log; none for the store of a gate.
///
/// # Errors
/// When their file cannot be read.
pub fn collected_keys(store: &Path) -> Result<Vec<VerifierKey>, StoreError> {
    keys_in(&collected_keys_file(store), "it holds the trusted public keys of the collected log")
}

/// Reads public keys, a line each; none if there is no file.
fn keys_in(path: &Path, what: &str) -> Result<Vec<VerifierKey>, StoreError> {
    let store_error = |error: &dyn fmt::Display| {
        StoreErrorKind::Denied
            .at(path, format_args!("{error}; {what}, a line each; bring it back, or move it away"))
    };
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| store_error(&error))?,
    };
    let keys = text.lines().map(|line| line.parse());
    keys.collect::<Result<_, _>>().map_err(|error| store_error(&error))
}

/// Adds a public key that signs a store's log no longer, unless it is there.
pub(crate) fn add_earlier_key(store: &Path, key: &VerifierKey) -> io::Result<()> {
    let known = earlier_keys(store).map_err(|error| io::Error::other(error.message))?;
    if known.contains(key) {
        return Ok(());
    }
    let keys = [known, vec![key.clone()]].concat();
    write_keys(&earlier_keys_file(store), &keys)
}

/// Sets the public keys that a collection trusts for a log.
pub(crate) fn set_collected_keys(store: &Path, keys: &[VerifierKey]) -> io::Result<()> {
    write_keys(&collected_keys_file(store), keys)
}

/// Replaces a file of public keys.
fn write_keys(path: &Path, keys: &[VerifierKey]) -> io::Result<()> {
    let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
    replace(path, &text)
}
