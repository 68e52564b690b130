//! Lists the collected logs.

use std::sync::Arc;

use crate::{Failure, small_runtime, terminal};
use crawlgate_config::{Config, Synchronous, format_bytes};
use crawlgate_store::collection::{CollectedLog, Collection};
use crawlgate_store::{Access, Store, StoreError, StoredCheckpoint};
use crawlgate_text::time_text;

const HEADING: [&str; 6] = ["LOG", "RECORDS", "SIZE", "CHECKPOINT", "LAST RECORD", "WITNESSES"];

/// Writes a row for each log. False if one cannot be read.
pub(super) fn list(collection: &Collection, config: &Config) -> Result<bool, Failure> {
    let logs = collection.logs()?;
    if logs.is_empty() {
        terminal::eprint("no log is collected yet");
        return Ok(true);
    }
    let (mut rows, mut are_right) = (Vec::new(), true);
    small_runtime()?.block_on(async {
        for log in logs {
            match row(&log, config).await {
                Ok(row) => rows.push(row),
                Err(error) => {
                    are_right = false;
                    terminal::eprint(&format!("{}: {error}", log.name));
                }
            }
        }
    });
    let text = terminal::table(HEADING, rows.into_iter(), terminal::width());
    terminal::print(text.as_bytes())?;
    Ok(are_right)
}

async fn row(log: &CollectedLog, config: &Config) -> Result<[String; 6], StoreError> {
    let store = Store::open(&log.path, Access::Read, Synchronous::Normal)?;
    let store: Arc<Store> = Arc::new(store);
    let extent = store.extent().await?;
    let newest = store.checkpoints().await?.pop();
    let last = store.records(extent.size.saturating_sub(1), 1).await?.pop();
    let size = store.size().await?;
    let none = || "-".to_owned();
    Ok([
        log.name.to_string(),
        size.decisions.to_string(),
        format_bytes(size.bytes),
        newest.as_ref().map_or_else(none, |one| one.size.to_string()),
        last.map_or_else(none, |last| time_text(last.time)),
        newest.map_or_else(none, |newest| witnesses(&newest, config)),
    ])
}

/// Returns the witnesses of the configuration that have cosigned a checkpoint, and how many others say that they have.
fn witnesses(newest: &StoredCheckpoint, config: &Config) -> String {
    let all = &config.audit.witnesses;
    let vkeys = config.audit.witness_keys();
    let seen = newest.cosigned(&vkeys);
    let mut names: Vec<String> = seen
        .iter()
        .filter_map(|(vkey, _)| all.iter().find(|one| one.vkey == **vkey))
        .map(|one| one.name.clone())
        .collect();
    let others = newest.cosignatures().saturating_sub(seen.len());
    if others > 0 {
        names.push(format!("{others} unknown"));
    }
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}
