//! Sentinels: do they name another primary in time, and not too early?

use super::Checker;
use crate::fleet::survey::{SentinelFacts, Survey};

/// The time after which sentinels may take a primary for lost: it refuses writes earlier when it has lost its replicas.
const DOWN_AFTER: u64 = 5_000;

/// Judges the sentinels one by one.
pub(super) fn sentinels(checker: &mut Checker<'_>, survey: &Survey) {
    let master = checker.config.master.clone().unwrap_or_default();
    for (at, answer) in &survey.sentinels {
        checker.about(at);
        match answer {
            Ok(SentinelFacts {
                primary: Some(primary),
                down_after,
            }) => {
                checker.ok("sentinel", format!("it names {primary}"));
                sentinel(checker, &master, *down_after);
            }
            Ok(_) => {
                let says = format!("it knows no primary {master:?}");
                let mend = checker.command(&format!("SENTINEL MONITOR {master} HOST PORT 2"));
                let breaks = "it names no new primary when the present one is lost";
                checker.failure("sentinel", says, breaks, mend);
            }
            Err(why) => {
                let says = format!("it does not answer: {why}");
                let breaks = "one more, and no majority names a new primary";
                let mend = "start it, or correct [fleet] sentinels";
                checker.failure("sentinel", says, breaks, mend);
            }
        }
    }
}

fn sentinel(checker: &mut Checker<'_>, master: &str, down_after: Option<u64>) {
    match down_after {
        Some(after @ DOWN_AFTER..) => checker.ok("down-after", format!("{after} ms")),
        Some(after) => {
            let words = format!("SENTINEL SET {master} down-after-milliseconds {DOWN_AFTER}");
            let mend = checker.command(&words);
            let breaks = "a new primary grants while the old one, cut off from it, still does: two paces for an origin";
            checker.failure("down-after", format!("{after} ms"), breaks, mend);
        }
        None => {
            let mend = checker.command(&format!("SENTINEL MASTER {master}"));
            let says = "the sentinel does not tell it";
            checker.warning("down-after", says, "it cannot be judged", mend);
        }
    }
}
