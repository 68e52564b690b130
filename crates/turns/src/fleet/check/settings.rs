//! The settings of an engine without which a promise breaks: does it forget, and may two engines grant?
//!
//! Sentinels: do they name another primary in time, and not too early?

use std::collections::BTreeMap;

use super::{Checker, NOTHING_GOES};
use crate::fleet::survey::{EngineFacts, RefusalKind, SentinelFacts, Survey};

/// A setting.
struct Rule {
    check: &'static str,
    /// Its name in `CONFIG GET`, and the field of `INFO` that tells it where the engine refuses that.
    names: (&'static str, Option<&'static str>),
    is_right: fn(&str) -> bool,
    right: &'static str,
    breaks: &'static str,
}

const EVICTION: Rule = Rule {
    check: "eviction",
    names: ("maxmemory-policy", Some("maxmemory_policy")),
    is_right: |policy| policy == "noeviction",
    right: "noeviction",
    breaks: "a full engine forgets turns, back-offs and removals one by one, and no instance notices",
};

const APPENDONLY: Rule = Rule {
    check: "appendonly",
    names: ("appendonly", Some("aof_enabled")),
    is_right: |is_on| matches!(is_on, "yes" | "1"),
    right: "yes",
    breaks: "a restart forgets the back-off from origins in trouble, and every robots.txt is fetched anew",
};

const APPENDFSYNC: Rule = Rule {
    check: "appendfsync",
    names: ("appendfsync", None),
    is_right: |often| matches!(often, "everysec" | "always"),
    right: "everysec",
    breaks: "a power cut forgets what the system has not written yet, half a minute and more",
};

const TWO_PACES: &str = "a primary that is cut off from its replicas grants beside the new one: two paces for an origin";

/// INFO has its field only where the setting is on.
const TO_WRITE: Rule = Rule {
    check: "min-replicas-to-write",
    names: ("min-replicas-to-write", Some("min_slaves_good_slaves")),
    is_right: |count| count != "0",
    right: "1",
    breaks: TWO_PACES,
};

/// The lag in seconds after which a replica counts as lost to its primary. 0 switches the whole check off.
const MAX_LAG: Rule = Rule {
    check: "min-replicas-max-lag",
    names: ("min-replicas-max-lag", None),
    is_right: |lag| matches!(lag, "1" | "2"),
    right: "2",
    breaks: TWO_PACES,
};

/// Judges the settings of an engine; with replicas or sentinels, also those that keep it the only one to take writes.
pub(super) fn settings(
    checker: &mut Checker<'_>,
    facts: &EngineFacts,
    info: &BTreeMap<String, String>,
    has_sentinels: bool,
) {
    let from_config = facts.settings.as_ref().ok();
    let judge = |checker: &mut Checker<'_>, rule: &Rule| {
        let (name, in_info) = rule.names;
        let told =
            from_config.and_then(|settings| settings.get(name)).or_else(|| info.get(in_info?));
        match told.map(String::as_str) {
            None => checker.unread(rule.check, name),
            Some(value) if (rule.is_right)(value) => {
                let shown = if value == "1" { rule.right } else { value };
                checker.ok(rule.check, shown);
            }
            Some(value) => {
                let mend = checker.command(&format!("CONFIG SET {name} {}", rule.right));
                let shown = if value == "0" && rule.right == "yes" { "no" } else { value };
                checker.failure(rule.check, shown, rule.breaks, mend);
                return false;
            }
        }
        true
    };
    judge(checker, &EVICTION);
    if judge(checker, &APPENDONLY) {
        judge(checker, &APPENDFSYNC);
    }
    memory(checker, facts, info);
    let connected = info.get("connected_slaves").map_or("0", String::as_str);
    match (connected, has_sentinels) {
        ("0", false) => {
            let says = "none: a single engine; while it is away, every instance is cut off";
            return checker.ok("replicas", says);
        }
        ("0", true) => {
            let breaks = "the sentinels have no engine to name when this one is lost";
            let mend = checker.replicaof();
            checker.failure("replicas", "none", breaks, mend);
        }
        (count, _) => checker.ok("replicas", format!("{count} connected")),
    }
    judge(checker, &TO_WRITE);
    judge(checker, &MAX_LAG);
}

/// Judges whether the engine has room for what it is told.
fn memory(checker: &mut Checker<'_>, facts: &EngineFacts, info: &BTreeMap<String, String>) {
    let is_full = |why: &crate::fleet::survey::Refusal| why.kind() == RefusalKind::Memory;
    if !facts.write.as_ref().is_some_and(is_full) {
        return;
    }
    let number = |name: &str| info.get(name)?.parse::<u64>().ok();
    let most = number("maxmemory").max(number("used_memory"));
    let more = most.map_or("2gb".to_owned(), |most| most.saturating_mul(2).to_string());
    let mend = checker.command(&format!("CONFIG SET maxmemory {more}"));
    checker.failure("memory", "it is full", NOTHING_GOES, mend);
}

/// The time after which sentinels may take a primary for lost: it refuses writes earlier when it has lost its replicas.
const DOWN_AFTER: u64 = 5_000;

/// Judges the sentinels one by one.
pub(super) fn sentinels(checker: &mut Checker<'_>, survey: &Survey) {
    let master = checker.config.master.clone().unwrap_or_default();
    for (at, answer) in &survey.sentinels {
        checker.about(at);
        match answer {
            Ok(SentinelFacts { primary: Some(primary), down_after }) => {
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
