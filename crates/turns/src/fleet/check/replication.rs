//! Sentinels and replicas: is there ever more than one engine that grants?

use std::collections::BTreeMap;

use super::{Checker, Settings};
use crate::fleet::survey::{Refusal, SentinelFacts, Survey};
use crawlgate_config::Endpoint;

/// The time after which sentinels may take a primary for lost: it refuses writes earlier when it has lost its replicas.
const DOWN_AFTER: u64 = 5_000;

/// The lag in seconds after which a replica counts as lost to its primary.
const LAG: u64 = 2;

/// Sentinels of which a majority is left when one is lost.
const SENTINELS: u64 = 3;

/// Judges the sentinels one by one, and all together.
pub(super) fn sentinels(checker: &mut Checker<'_>, survey: &Survey) {
    let master = checker.config.master.clone().unwrap_or_default();
    for (at, answer) in &survey.sentinels {
        checker.about(at);
        match answer {
            Ok(SentinelFacts {
                primary: Some(primary),
                fields,
                quorum,
            }) => {
                checker.ok("sentinel", format!("it names {primary}"));
                sentinel(checker, &master, fields, quorum.as_ref());
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
                checker.failure(
                    "sentinel",
                    says,
                    breaks,
                    "start it, or correct [fleet] sentinels".to_owned(),
                );
            }
        }
    }
    let answers = survey
        .sentinels
        .iter()
        .filter_map(|(at, answer)| Some((at, answer.as_ref().ok()?)));
    let named: Vec<_> = answers
        .filter_map(|(at, facts)| Some((at, facts.primary.as_ref()?)))
        .collect();
    agreement(checker, &master, &named);
}

fn agreement(checker: &mut Checker<'_>, master: &str, named: &[(&Endpoint, &Endpoint)]) {
    let Some((_, first)) = named.first() else {
        return;
    };
    for (at, primary) in named.iter().filter(|(_, primary)| primary != first) {
        checker.about(at);
        let says = format!("it names {primary}, another one {first}");
        let mend = checker.command(&format!(
            "SENTINEL RESET {master}   (once no failover goes on)"
        ));
        let breaks = "instances go to different engines, each of which grants";
        checker.failure("agreement", says, breaks, mend);
    }
}

fn sentinel(
    checker: &mut Checker<'_>,
    master: &str,
    fields: &BTreeMap<String, String>,
    quorum: Option<&Refusal>,
) {
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok());
    let all = number("num-other-sentinels").unwrap_or_default() + 1;
    let votes = number("quorum").unwrap_or_default();
    match quorum {
        None => checker.ok("quorum", format!("{votes} of {all} sentinels")),
        Some(why) => {
            let breaks = "no new primary is named when the present one is lost";
            checker.failure(
                "quorum",
                why.to_string(),
                breaks,
                "start the other sentinels".to_owned(),
            );
        }
    }
    if all < SENTINELS {
        let breaks = "without one of them, no majority names a new primary";
        checker.warning(
            "quorum",
            format!("only {all} sentinels"),
            breaks,
            "run three sentinels, on three machines".to_owned(),
        );
    }
    match number("down-after-milliseconds") {
        Some(after @ DOWN_AFTER..) => checker.ok("down-after", format!("{after} ms")),
        Some(after) => {
            let words = format!("SENTINEL SET {master} down-after-milliseconds {DOWN_AFTER}");
            let mend = checker.command(&words);
            let breaks = "a new primary grants while the old one, cut off from it, still does: two paces for an origin";
            checker.failure("down-after", format!("{after} ms"), breaks, mend);
        }
        None => {
            let mend = checker.command(&format!("SENTINEL MASTER {master}"));
            checker.warning(
                "down-after",
                "the sentinel does not tell it",
                "it cannot be judged",
                mend,
            );
        }
    }
}

/// Judges the replicas of the engine, and whether it stops without them.
pub(super) fn replicas(checker: &mut Checker<'_>, settings: &Settings<'_>, survey: &Survey) {
    let has_sentinels = !survey.sentinels.is_empty();
    let connected = settings.info.get("connected_slaves");
    let connected = connected
        .and_then(|count| count.parse::<u64>().ok())
        .unwrap_or_default();
    match (connected, has_sentinels) {
        (0, false) => {
            return checker.ok(
                "replicas",
                "none: a single engine; while it is away, every instance is cut off",
            );
        }
        (0, true) => {
            let breaks = "the sentinels have no engine to name when this one is lost";
            let at = survey.at.as_ref();
            let at = at.map_or_else(String::new, |at| format!("{} {}", at.host, at.port));
            let mend = format!("redis-cli -h REPLICA -p 6379 REPLICAOF {at}");
            checker.failure("replicas", "none", breaks, mend);
        }
        (count, _) => checker.ok("replicas", format!("{count} connected")),
    }
    let breaks = "a primary that is cut off from its replicas grants beside the new one: two paces for an origin";
    let number = |name: &str| settings.get(name, None)?.parse::<u64>().ok();
    // INFO has this field only where the setting is on.
    let is_on_in_info = settings.info.contains_key("min_slaves_good_slaves");
    match (number("min-replicas-to-write"), is_on_in_info) {
        (Some(0), _) => {
            let mend = checker.command("CONFIG SET min-replicas-to-write 1");
            checker.failure("min-replicas-to-write", "0", breaks, mend);
        }
        (Some(count), _) => checker.ok("min-replicas-to-write", count.to_string()),
        (None, true) => checker.ok("min-replicas-to-write", "at least 1"),
        (None, false) => {
            checker.unread("min-replicas-to-write", "min-replicas-to-write");
        }
    }
    match number("min-replicas-max-lag") {
        // 0 switches the whole check off.
        Some(lag @ 1..=LAG) => checker.ok("min-replicas-max-lag", format!("{lag} s")),
        Some(lag) => {
            let mend = checker.command(&format!("CONFIG SET min-replicas-max-lag {LAG}"));
            checker.failure("min-replicas-max-lag", format!("{lag} s"), breaks, mend);
        }
        None => checker.unread("min-replicas-max-lag", "min-replicas-max-lag"),
    }
}
