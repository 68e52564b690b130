//! What a record says, for people.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::audit::replay::Evidence;
use crate::audit::time_text;
use crate::cli::screen::printable;
use crate::policy::Reason;
use crate::rep::{ComparisonPath, Origin, PathPattern, readings};
use crate::store::StoredDecision;

/// The record's essentials, a line each, and who has acknowledged it.
pub(in crate::cli) fn told(evidence: &Evidence<'_>, decision: &StoredDecision) -> String {
    let mut text = format!("{}\n", printable(&evidence.id));
    essentials(&mut text, evidence);
    line(
        &mut text,
        "record",
        &format!("{} in the chain", decision.seq),
    );
    if let Some(seen) = &decision.acknowledged {
        let seen = format!("{} at {}: {}", seen.by, time_text(seen.time), seen.note);
        line(&mut text, "seen by", &seen);
    }
    text
}

/// One fact, with its name in front; without a name, one that goes with the fact above.
pub(super) fn line(text: &mut String, name: &str, fact: &str) {
    let _ = writeln!(text, "  {name:<9} {}", printable(fact)); // a String takes all
}

/// What was asked, decided, and why.
pub(super) fn essentials(text: &mut String, evidence: &Evidence<'_>) {
    decided(text, evidence);
    let asked = format!("{} {} ({})", evidence.method, evidence.url, evidence.via);
    line(text, "asked", &asked);
    for reading in guarded(evidence) {
        line(text, "read as", &String::from_utf8_lossy(&reading));
    }
    let chain = match evidence.agent.chain.as_slice() {
        [] => "nobody in particular".to_owned(),
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
        line(text, "", &format!("asserted by {}: {}", one.by, one.reason));
    }
    robots(text, evidence);
    if let Some(policy) = &evidence.policy {
        line(text, "settings", policy);
    }
}

/// What the origin may read the path as, where that is why it was denied: the readings that the rule matches. All of
/// them, where that cannot be told.
fn guarded(evidence: &Evidence<'_>) -> Vec<Vec<u8>> {
    if evidence.reason != Reason::PathGuard.as_str() {
        return Vec::new();
    }
    let Ok((_, path)) = Origin::parse(&evidence.url) else {
        return Vec::new();
    };
    let all: Vec<Vec<u8>> = readings(path.as_bytes()).collect();
    let rule = evidence.rule.as_ref();
    let value = rule.and_then(|rule| rule.text.split_once(':'));
    let pattern = value.and_then(|(_, value)| PathPattern::new(value.trim()).ok());
    let matched = |reading: &&Vec<u8>| {
        pattern
            .as_ref()
            .is_none_or(|pattern| pattern.matches(&ComparisonPath::new(reading)))
    };
    let found: Vec<Vec<u8>> = all.iter().filter(matched).cloned().collect();
    if found.is_empty() { all } else { found }
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
    let answer = match (evidence.status, &evidence.error) {
        (Some(status), None) => format!("{status}"),
        (Some(status), Some(error)) => format!("{status}, {error}"),
        (None, Some(error)) => error.clone(),
        (None, None) => return,
    };
    line(text, "answered", &answer);
}

fn robots(text: &mut String, evidence: &Evidence<'_>) {
    let Some(robots) = &evidence.robots else {
        return;
    };
    let status = robots
        .status
        .map(|status| format!(", {status}"))
        .unwrap_or_default();
    line(
        text,
        "robots",
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
        let cut: Cow<'_, str> = match robots.truncated {
            true => ", cut at the size limit".into(),
            false => "".into(),
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
    fn a_guarded_path_is_shown_as_it_may_be_read() {
        #[rustfmt::skip] // one row, one case
        let cases: [(&str, &str, &str, &str, &[&str]); 5] = [
            ("the reading that the rule matches", "path_guard", "/open/../private/diary", "Disallow: /private", &["/private/diary"]),
            ("one of several", "path_guard", "/a//../b", "Disallow: /a/b", &["/a/b"]),
            ("a rule that is written oddly", "path_guard", "/open/../private", "Disallow /private", &["/private"]),
            ("a rule that matches none", "path_guard", "/open/../private", "Disallow: /else", &["/private"]),
            ("another reason", "robots_disallow", "/open/../private", "Disallow: /open", &[]),
        ];
        for (name, reason, path, rule, want) in cases {
            let record = format!(
                "{{\"time\":\"2026-11-20T12:00:00.123Z\",\"id\":\"01KB7W3Y5E000000000VY7H1Q2\",\"mode\":\"enforce\",\
                 \"verdict\":\"deny\",\"reason\":\"{reason}\",\"client\":{{\"address\":\"127.0.0.1:1\",\"name\":null}},\
                 \"agent\":{{\"chain\":[],\"source\":\"config\"}},\"user_agent\":null,\"method\":\"GET\",\
                 \"url\":\"https://site.example{path}\",\"scheme\":\"https\",\"host\":\"site.example\",\"port\":443,\
                 \"via\":\"plain\",\"opaque\":false,\"rule\":{{\"group\":\"*\",\"text\":\"{rule}\",\"line\":2}},\
                 \"robots\":null,\"status\":403,\"error\":null}}"
            );
            let evidence = Evidence::read(&record).expect(name);
            let found: Vec<String> = guarded(&evidence)
                .into_iter()
                .map(|reading| String::from_utf8(reading).expect("UTF-8"))
                .collect();
            assert_eq!(found, want, "{name}");
            let mut text = String::new();
            essentials(&mut text, &evidence);
            assert_eq!(text.contains("read as"), !want.is_empty(), "{name}: {text}");
        }
    }
}
