//! Memory and disk of an engine: does it forget?

use super::{Checker, Level, NOTHING_GOES, Settings};
use crate::fleet::survey::{Refusal, RefusalKind};

/// The share of its memory, in hundredths, from which an engine is said to be full soon.
const FULL_SOON: u64 = 80;

/// Judges the bound of the memory, and what the engine does at it. `refusal` is its answer to a write.
pub(super) fn memory(
    checker: &mut Checker<'_>,
    settings: &Settings<'_>,
    refusal: Option<&Refusal>,
) {
    let is_full = refusal.is_some_and(|why| why.kind() == RefusalKind::Memory);
    match settings.get("maxmemory-policy", Some("maxmemory_policy")) {
        Some("noeviction") => checker.ok("eviction", "noeviction"),
        Some(policy) => {
            let mend = checker.command("CONFIG SET maxmemory-policy noeviction");
            let breaks = "a full engine forgets turns, back-offs and removals one by one, and no instance notices";
            checker.failure("eviction", policy, breaks, mend);
        }
        None => checker.unread("eviction", "maxmemory-policy"),
    }
    let number = |name: &str, in_info: &str| settings.get(name, Some(in_info))?.parse::<u64>().ok();
    let used = settings
        .info
        .get("used_memory")
        .and_then(|used| used.parse::<u64>().ok());
    match (used, number("maxmemory", "maxmemory")) {
        (Some(used), Some(0)) => {
            let mend = checker.command("CONFIG SET maxmemory 2gb");
            let says = format!("{} in use, without a limit", mebibytes(used));
            let breaks = "the system kills an engine that outgrows the machine";
            checker.warning("memory", says, breaks, mend);
        }
        (Some(used), Some(most)) => {
            let share = used.saturating_mul(100) / most.max(1);
            let says = format!("{share} % of {} in use", mebibytes(most));
            let (level, breaks) = match is_full {
                true => (Level::Failure, NOTHING_GOES),
                false if share < FULL_SOON => return checker.ok("memory", says),
                false => (
                    Level::Warning,
                    "a full engine refuses writes, and every instance is cut off",
                ),
            };
            let more = most.max(used).saturating_mul(2);
            let mend = checker.command(&format!("CONFIG SET maxmemory {more}"));
            checker.fault(level, ("memory", says), breaks, mend);
        }
        _ if is_full => {
            let mend = checker.command("CONFIG SET maxmemory 2gb");
            checker.failure("memory", "it is full", NOTHING_GOES, mend);
        }
        _ => checker.unread("memory", "maxmemory"),
    }
}

fn mebibytes(octets: u64) -> String {
    format!("{:.1} MiB", octets as f64 / f64::from(1 << 20))
}

/// Judges what the engine writes to its disk.
pub(super) fn persistence(checker: &mut Checker<'_>, settings: &Settings<'_>) {
    const BREAKS: &str = "a restart forgets the back-off from origins in trouble, and every robots.txt is fetched anew";
    match settings.get("appendonly", Some("aof_enabled")) {
        Some("yes" | "1") => checker.ok("appendonly", "yes"),
        Some(_) => {
            let mend = checker.command("CONFIG SET appendonly yes");
            checker.failure("appendonly", "no", BREAKS, mend);
            return;
        }
        None => checker.unread("appendonly", "appendonly"),
    }
    match settings.get("appendfsync", None) {
        Some(often @ ("everysec" | "always")) => checker.ok("appendfsync", often),
        Some(other) => {
            let mend = checker.command("CONFIG SET appendfsync everysec");
            let breaks =
                "a power cut forgets what the system has not written yet, half a minute and more";
            checker.failure("appendfsync", other, breaks, mend);
        }
        None => checker.unread("appendfsync", "appendfsync"),
    }
}
