//! A record's facts for people.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::excerpt::{Extent, excerpt};
use crate::terminal::{Paint, printable};
use crawlgate_evidence::replay::evidence::Robots;
use crawlgate_evidence::replay::{self, Difference, Evidence};
use crawlgate_policy::settings::PolicySettings;
use crawlgate_store::StoredDecision;
use crawlgate_text::time_text;
use crawlgate_tlog::KeyName;
use crawlgate_usage::record::UsageRecord;

/// Writes the record's essentials, a line each, the log if it is named, and the person who has acknowledged it.
pub(crate) fn text(
    evidence: &Evidence<'_>,
    decision: &StoredDecision,
    log: Option<&KeyName>,
) -> String {
    let mut text = format!("{}\n", printable(&evidence.id));
    essentials(&mut text, evidence);
    let place = match log {
        Some(log) => format!("{} in the log {log}", decision.seq),
        None => format!("{} in the log", decision.seq),
    };
    line(&mut text, "record", &place);
    if let Some(seen) = &decision.acknowledged {
        let seen = format!("{} at {}: {}", seen.by, time_text(seen.time), seen.note);
        line(&mut text, "seen by", &seen);
    }
    text
}

/// Writes one fact, with its name in front; a fact without a name belongs to the one above.
pub(super) fn line(text: &mut String, name: &str, fact: &str) {
    let _ = writeln!(text, "  {name:<9} {}", printable(fact)); // a String takes all
}

/// Writes what differs where a decision was made again.
pub(super) fn differences(text: &mut String, differences: &[Difference]) {
    for one in differences {
        let said = format!(
            "{}: recorded \"{}\", replayed \"{}\"",
            one.what, one.recorded, one.replayed
        );
        line(text, "differs", &said);
    }
}

/// Writes the robots.txt behind a decision, read by its settings, as far as it is asked for.
pub(super) fn file(
    text: &mut String,
    (file, terms): (&[u8], &PolicySettings),
    read: Option<&Evidence<'_>>,
    extent: Extent,
    paint: Paint,
) {
    let deciding = read.and_then(|read| Some(read.rule.as_ref()?.line));
    if deciding.is_some() || extent == Extent::Whole {
        let robots = read.and_then(|read| read.robots.as_ref());
        let truncated = robots.is_some_and(|robots| robots.truncated);
        let snapshot = replay::snapshot(file, terms, truncated);
        text.push('\n');
        text.push_str(&excerpt(&snapshot.robots, deciding, extent, paint));
    }
}

/// Writes the request, the decision, and its reason.
pub(super) fn essentials(text: &mut String, evidence: &Evidence<'_>) {
    decided(text, evidence);
    let (method, url, came_by) = (&evidence.method, &evidence.url, evidence.came_by());
    line(text, "asked", &format!("{method} {url} ({came_by})"));
    if let Some(reading) = &evidence.reading {
        line(text, "read as", reading);
    }
    let chain = match evidence.agent.chain.as_slice() {
        [] => "no product token".to_owned(),
        chain => chain.join(", "),
    };
    let name = evidence
        .client
        .name
        .as_ref()
        .map(|name| format!(" ({name})"));
    let client = format!("{}{}", evidence.client.address, name.unwrap_or_default());
    line(text, "by", &format!("{chain}, from {client}"));
    if let Some(user_agent) = &evidence.user_agent {
        line(text, "", user_agent);
    }
    if let Some(rule) = &evidence.rule {
        let rule = format!(
            "{} (line {}, of the group {})",
            rule.text, rule.line, rule.group
        );
        line(text, "rule", &rule);
    }
    if let Some(one) = &evidence.overridden {
        let until = one.until.as_deref().unwrap_or("it is removed");
        let what = format!("{} {}{} until {until}", one.action, one.origin, one.pattern);
        line(text, "override", &format!("{}: {what}", one.id));
        line(
            text,
            "",
            &format!("asserted by {}: {}", one.author(), one.reason),
        );
    }
    if let Some(one) = &evidence.exempt {
        let what = format!("the client, from {}: {}", one.from, one.reason);
        line(text, "exempt", &what);
    }
    if let Some(robots) = &evidence.robots {
        document(text, "robots", robots);
    }
    if let Ok(Some(file)) = evidence.tdmrep() {
        document(text, "tdmrep", &file);
    }
    if let Some(policy) = &evidence.policy {
        line(text, "settings", policy);
    }
}

fn decided(text: &mut String, evidence: &Evidence<'_>) {
    let mode = match &*evidence.mode {
        "enforce" => String::new(),
        mode => format!(", in {mode} mode: nothing was denied"),
    };
    let at = evidence.decided_at.as_ref().unwrap_or(&evidence.time);
    let (verdict, reason) = (&evidence.verdict, &evidence.reason);
    line(
        text,
        "decided",
        &format!("{verdict}, {reason}, at {at}{mode}"),
    );
    if let Some(answer) = evidence.answered() {
        line(text, "answered", &answer);
    }
    if let Some(signature) = evidence.signature() {
        line(text, "signed", &signature);
    }
    if let Some(detail) = &evidence.detail {
        line(text, "", detail);
    }
    if let Some(said) = &evidence.usage {
        usage(text, said);
    }
}

/// Writes what the site says of use, and for which purposes the page was asked for.
fn usage(text: &mut String, said: &UsageRecord<'_>) {
    if !said.purposes.is_empty() {
        let refused = if said.refused.is_empty() {
            String::new()
        } else {
            format!("; refused: {}", said.refused)
        };
        line(text, "purposes", &format!("{}{refused}", said.purposes));
    }
    let mut label = "usage";
    for one in &said.preferences {
        let (place, shown) = (&one.place, &one.text);
        let what = format!("{}: {} ({place}: {shown})", one.category, one.value);
        line(text, std::mem::take(&mut label), &what);
    }
    for one in &said.invalid {
        let what = format!("{} not used: {} ({})", one.signal, one.why, one.place);
        line(text, std::mem::take(&mut label), &what);
    }
    for license in &said.licenses {
        line(text, "licence", license);
    }
}

/// Tells the state of robots.txt, or of tdmrep.json.
fn document(text: &mut String, label: &'static str, robots: &Robots<'_>) {
    let status = robots
        .status
        .map(|status| format!(", {status}"))
        .unwrap_or_default();
    line(
        text,
        label,
        &format!("{}: {}{status}", robots.url, robots.state),
    );
    if let Some(fetched) = &robots.fetched_at {
        let until = robots.fresh_until.as_ref();
        let until = until
            .map(|until| format!(", fresh until {until}"))
            .unwrap_or_default();
        line(text, "", &format!("fetched {fetched}{until}"));
    }
    if let Some(user_agent) = &robots.user_agent {
        let identity = robots.identity.as_deref().unwrap_or("*");
        line(
            text,
            "",
            &format!("with {user_agent} (known as {identity})"),
        );
    }
    if let Some(url) = robots.final_url.as_ref().filter(|url| **url != robots.url) {
        line(text, "", &format!("from {url}"));
    }
    if let (Some(sha256), Some(bytes)) = (&robots.sha256, robots.bytes) {
        let cut: Cow<'_, str> = if robots.truncated {
            ", cut at the size limit".into()
        } else {
            "".into()
        };
        line(text, "", &format!("SHA-256 {sha256}, {bytes} octets{cut}"));
    }
    if let Some(outage) = &robots.unreachable {
        let (cause, since) = (&outage.cause, &outage.since);
        let attempts = outage.attempts;
        let plural = if attempts == 1 { "" } else { "es" };
        line(
            text,
            "outage",
            &format!("since {since}: {cause}, {attempts} failed fetch{plural}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_shown_with_its_version() {
        for (fields, asked, answered) in [
            ("", "(plain)", "answered  200"),
            (
                "\"version\":\"2\",\"upstream_version\":\"1.1\",",
                "(plain, HTTP/2)",
                "answered  200, the origin by HTTP/1.1",
            ),
        ] {
            let record = format!(
                "{{\"time\":\"2026-11-20T12:00:00.123Z\",\"id\":\"01KB7W3Y5E000000000VY7H1Q2\",\"mode\":\"enforce\",\
                 \"verdict\":\"allow\",\"reason\":\"robots_allow\",\"client\":{{\"address\":\"127.0.0.1:1\",\"name\":null}},\
                 \"agent\":{{\"chain\":[],\"source\":\"config\"}},\"user_agent\":null,\"method\":\"GET\",\
                 \"url\":\"https://site.example/\",\"scheme\":\"https\",\"host\":\"site.example\",\"port\":443,\
                 \"via\":\"plain\",{fields}\"opaque\":false,\"rule\":null,\"robots\":null,\"status\":200,\"error\":null}}"
            );
            let evidence = Evidence::read(&record).expect("a record");
            let mut text = String::new();
            essentials(&mut text, &evidence);
            assert!(text.contains(asked) && text.contains(answered), "{text}");
        }
    }

    #[test]
    fn a_guarded_path_is_shown_with_its_reading() {
        for (reading, want) in [
            ("\"/private/diary\"", Some("read as   /private/diary")),
            ("null", None),
        ] {
            let record = format!(
                "{{\"time\":\"2026-11-20T12:00:00.123Z\",\"id\":\"01KB7W3Y5E000000000VY7H1Q2\",\"mode\":\"enforce\",\
                 \"verdict\":\"deny\",\"reason\":\"path_guard\",\"client\":{{\"address\":\"127.0.0.1:1\",\"name\":null}},\
                 \"agent\":{{\"chain\":[],\"source\":\"config\"}},\"user_agent\":null,\"method\":\"GET\",\
                 \"url\":\"https://site.example/open/../private/diary\",\"scheme\":\"https\",\"host\":\"site.example\",\"port\":443,\
                 \"via\":\"plain\",\"opaque\":false,\"rule\":{{\"group\":\"*\",\"text\":\"Disallow: /private\",\"line\":2}},\
                 \"reading\":{reading},\"robots\":null,\"status\":403,\"error\":null}}"
            );
            let evidence = Evidence::read(&record).expect("a record");
            let mut text = String::new();
            essentials(&mut text, &evidence);
            match want {
                Some(want) => assert!(text.contains(want), "{text}"),
                None => assert!(!text.contains("read as"), "{text}"),
            }
        }
    }
}
