//! Tests of the SQLite file: damage, other processes, room.

mod beside;
mod damage;
mod fetches;
mod flips;
mod opening;
mod retention;
mod room;
mod searching;
mod telling;
mod witnesses;
mod writing;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::file::beside;
use super::*;
use crate::log_key::{LogKey, log_key_file};
use crate::tests::{ROW, Row, origin_update, record, rows, successful, update_origin};
use crate::{
    Acknowledgement, Appended, Batch, DecisionQuery, OriginQuery, Pruned, Retention, Sha256,
    ShipMark, StoredOrigin,
};
use crawlgate_policy::overrides::Override;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/crawlgate.db");
    (folder, path)
}

fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(path, Access::Write, Synchronous::Normal)
}

/// Opens the database as an operator's shell does.
fn shell(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

async fn filled(path: &Path, decisions: u64) {
    let store = open(path).unwrap();
    update_origin(&store, origin_update("site.example", successful("User-agent: *\n", NOON), NOON))
        .await;
    record(&store, &rows(decisions)).await;
}
