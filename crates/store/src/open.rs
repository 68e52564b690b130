//! Opens the store that the configuration names, together with the files beside it: the key of its log and its state file.

use std::path::Path;
use std::sync::Arc;

use crawlgate_config::Config;
use crawlgate_system::clock::Moment;

use super::log_key::{self, LogKey};
use super::rotation::{self, Rotation, RotationReason};
use super::state_file::{self, StateFile};
use super::{Access, Store, StoreError, StoreErrorKind, public_keys, sqlite};

/// Opens the store that the configuration names.
///
/// # Errors
/// When the configuration names none, or the store cannot be opened; the message names the file and the way out.
pub fn open(config: &Config, access: Access) -> Result<Arc<Store>, StoreError> {
    let path = named(config)?;
    let store = Store::open(path, access, config.store.synchronous)?;
    if access == Access::Write {
        sqlite::finish_rotation(path)?;
        // The key is made together with the store: later, an empty store beside a key was emptied by others.
        let key = log_key(config)?;
        sqlite::require_name(path, &key)?;
        StateFile::of(path)
            .set_key(*key.vkey().public())
            .map_err(|error| state_file::unwritable(path, &error))?;
    }
    Ok(Arc::new(store))
}

/// Replaces the key that signs the log of the configured store by a new one (see [`rotation`]). Other processes may have the
/// store open: each finds the new key before it signs again.
///
/// # Errors
/// When the store or the key cannot be read or written. Once the new key is in the log, the next process that opens the
/// store does what is left.
pub async fn rotate_key(
    config: &Config,
    words: RotationReason,
    now: Moment,
) -> Result<Rotation, StoreError> {
    let path = named(config)?;
    let store = open(config, Access::Write)?;
    let file = log_key::log_key_file(path);
    let lock = rotation::lock(&file).map_err(|error| rotation::unwritable(&file, &error))?;
    let old = kept_log_key(config)?;
    let new = old.successor()?;
    let earlier = public_keys::earlier_keys_file(path);
    public_keys::add_earlier_key(path, &old.vkey())
        .map_err(|error| rotation::unwritable(&earlier, &error))?;
    rotation::prepare(path, &new)?;
    let rotation = store.rotate(new, words, now).await?;
    rotation::put_in_place(path, &lock)?;
    StateFile::of(path)
        .set_key(*rotation.new.public())
        .map_err(|error| state_file::unwritable(path, &error))?;
    Ok(rotation)
}

/// Returns the key of the configured store's log, and creates it if it is missing.
///
/// # Errors
/// When no store is configured, or the key can neither be read nor made.
pub fn log_key(config: &Config) -> Result<Arc<LogKey>, StoreError> {
    let path = log_key::log_key_file(named(config)?);
    let key = LogKey::load_or_create(&path, config.audit.log_name.clone())?;
    Ok(Arc::new(key))
}

/// Returns the key of the configured store's log, which must be there.
///
/// # Errors
/// When no store is configured, or the key is missing or cannot be read.
pub fn kept_log_key(config: &Config) -> Result<Arc<LogKey>, StoreError> {
    let path = log_key::log_key_file(named(config)?);
    LogKey::load(&path, config.audit.log_name.clone()).map(Arc::new)
}

/// Returns the file of the configured store.
///
/// # Errors
/// When no store is configured.
pub fn named(config: &Config) -> Result<&Path, StoreError> {
    config.store.path.as_deref().ok_or_else(|| {
        StoreErrorKind::Missing.error("there is no store: [store] path is \"\"; name a file there")
    })
}
