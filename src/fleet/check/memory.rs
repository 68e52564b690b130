//! Memory and disk of an engine: does it forget?

use super::{Settings, Sheet};

/// The share of its memory, in hundredths, from which an engine is said to be full soon.
const FULL_SOON: u64 = 80;

/// Judges the bound of the memory, and what the engine does at it.
pub(super) fn memory(sheet: &mut Sheet<'_>, settings: &Settings<'_>) {
    match settings.get("maxmemory-policy", Some("maxmemory_policy")) {
        Some("noeviction") => sheet.ok("eviction", "noeviction"),
        Some(policy) => {
            let mend = sheet.command("CONFIG SET maxmemory-policy noeviction");
            let breaks = "a full engine forgets turns, back-offs and removals one by one, and no instance notices";
            sheet.failure("eviction", policy, breaks, mend);
        }
        None => sheet.unread("eviction", "maxmemory-policy"),
    }
    let number = |name: &str, in_info: &str| settings.get(name, Some(in_info))?.parse::<u64>().ok();
    let used = settings
        .info
        .get("used_memory")
        .and_then(|used| used.parse::<u64>().ok());
    match (used, number("maxmemory", "maxmemory")) {
        (Some(used), Some(0)) => {
            let mend = sheet.command("CONFIG SET maxmemory 2gb");
            let says = format!("{} in use, without a limit", mebibytes(used));
            let breaks = "the system kills an engine that outgrows the machine";
            sheet.warning("memory", says, breaks, mend);
        }
        (Some(used), Some(most)) => {
            let share = used.saturating_mul(100) / most.max(1);
            let says = format!("{share} % of {} in use", mebibytes(most));
            if share < FULL_SOON {
                return sheet.ok("memory", says);
            }
            let mend = sheet.command(&format!("CONFIG SET maxmemory {}", most.saturating_mul(2)));
            let breaks = "a full engine refuses writes, and every instance is cut off";
            sheet.warning("memory", says, breaks, mend);
        }
        _ => sheet.unread("memory", "maxmemory"),
    }
}

fn mebibytes(octets: u64) -> String {
    format!("{:.1} MiB", octets as f64 / f64::from(1 << 20))
}

/// Judges what the engine writes to its disk.
pub(super) fn persistence(sheet: &mut Sheet<'_>, settings: &Settings<'_>) {
    const BREAKS: &str = "a restart forgets the back-off from origins in trouble, and every robots.txt is fetched anew";
    match settings.get("appendonly", Some("aof_enabled")) {
        Some("yes" | "1") => sheet.ok("appendonly", "yes"),
        Some(_) => {
            let mend = sheet.command("CONFIG SET appendonly yes");
            sheet.failure("appendonly", "no", BREAKS, mend);
            return;
        }
        None => sheet.unread("appendonly", "appendonly"),
    }
    match settings.get("appendfsync", None) {
        Some(often @ ("everysec" | "always")) => sheet.ok("appendfsync", often),
        Some(other) => {
            let mend = sheet.command("CONFIG SET appendfsync everysec");
            let breaks =
                "a power cut forgets what the system has not written yet, half a minute and more";
            sheet.failure("appendfsync", other, breaks, mend);
        }
        None => sheet.unread("appendfsync", "appendfsync"),
    }
}
