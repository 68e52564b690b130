//! A record's facts for people.

use std::fmt::Write as _;

use super::excerpt::{Extent, excerpt};
use crate::terminal::{Paint, printable};
use crawlgate_evidence::replay::{self, Difference};
use crawlgate_evidence::words::{answered, author, came_by, signature, time};
use crawlgate_policy::settings::PolicySettings;
use crawlgate_record::{File, Mode, Told, token_texts};
use crawlgate_store::StoredDecision;
use crawlgate_text::{hex, time_text};
use crawlgate_tlog::KeyName;
use crawlgate_usage::record::UsageRecord;

/// Writes the record's essentials, a line each, the log if it is named, and the person who has acknowledged it.
pub(crate) fn text(one: &Told<'_>, decision: &StoredDecision, log: Option<&KeyName>) -> String {
    let mut text = format!("{}\n", one.id_text());
    essentials(&mut text, one);
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
        let said =
            format!("{}: recorded \"{}\", replayed \"{}\"", one.what, one.recorded, one.replayed);
        line(text, "differs", &said);
    }
}

/// Writes the robots.txt behind a decision, read by its settings, as far as it is asked for.
pub(super) fn file(
    text: &mut String,
    (file, terms): (&[u8], &PolicySettings),
    read: Option<&Told<'_>>,
    extent: Extent,
    paint: Paint,
) {
    let deciding = read.and_then(|read| Some(read.rule?.line));
    if deciding.is_some() || extent == Extent::Whole {
        let robots = read.and_then(|read| read.robots);
        let truncated = robots.is_some_and(|robots| robots.truncated);
        let snapshot = replay::snapshot(file, terms, truncated);
        text.push('\n');
        text.push_str(&excerpt(&snapshot.robots, deciding, extent, paint));
    }
}

/// Writes the request, the decision, and its reason.
pub(super) fn essentials(text: &mut String, one: &Told<'_>) {
    decided(text, one);
    let asked = format!("{} {} ({})", one.method, one.url_text(), came_by(one));
    line(text, "asked", &asked);
    if let Some(reading) = one.reading {
        line(text, "read as", &reading.to_string());
    }
    let chain = match token_texts(&one.chain).as_slice() {
        [] => "no product token".to_owned(),
        chain => chain.join(", "),
    };
    let name = one.client_name.map(|name| format!(" ({name})"));
    let client = format!("{}{}", one.client, name.unwrap_or_default());
    line(text, "by", &format!("{chain}, from {client}"));
    if let Some(user_agent) = one.user_agent {
        line(text, "", &user_agent.to_string());
    }
    if let Some(rule) = one.rule {
        let rule = format!("{} (line {}, of the group {})", rule.text, rule.line, rule.group);
        line(text, "rule", &rule);
    }
    if let Some(one) = &one.overridden {
        let until = one.until.map_or_else(|| "it is removed".to_owned(), time);
        let action = one.action.as_str();
        let what = format!("{action} {}{} until {until}", one.origin, one.pattern);
        line(text, "override", &format!("{}: {what}", one.id));
        line(text, "", &format!("asserted by {}: {}", author(one), one.reason));
    }
    if let Some(one) = one.exempt {
        let what = format!("the client, from {}: {}", one.from, one.reason);
        line(text, "exempt", &what);
    }
    if let Some(robots) = &one.robots {
        document(text, "robots", robots);
    }
    if let Some(file) = &one.tdmrep {
        document(text, "tdmrep", file);
    }
    if let Some(policy) = one.policy {
        line(text, "settings", &hex(policy));
    }
}

fn decided(text: &mut String, one: &Told<'_>) {
    let mode = match one.mode {
        Mode::Enforce => "",
        Mode::Report => ", in report mode: nothing was denied",
    };
    let (verdict, reason) = (one.verdict.as_str(), one.reason);
    let at = time(one.decided());
    line(text, "decided", &format!("{verdict}, {reason}, at {at}{mode}"));
    if let Some(answer) = answered(one) {
        line(text, "answered", &answer);
    }
    if let Some(signature) = signature(one) {
        line(text, "signed", &signature);
    }
    if let Some(detail) = one.detail {
        line(text, "", &detail.to_string());
    }
    if let Some(said) = &one.usage_record() {
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
fn document(text: &mut String, label: &'static str, robots: &File<'_>) {
    let status = robots.status.map(|status| format!(", {status}")).unwrap_or_default();
    let url = robots.url();
    line(text, label, &format!("{url}: {}{status}", robots.state));
    if let Some(fetched) = robots.fetched_at {
        let until = robots
            .fresh_until
            .map(|until| format!(", fresh until {}", time(until)))
            .unwrap_or_default();
        line(text, "", &format!("fetched {}{until}", time(fetched)));
    }
    if let Some(user_agent) = robots.user_agent {
        let identity = robots.identity.unwrap_or("*");
        line(text, "", &format!("with {user_agent} (known as {identity})"));
    }
    if let Some(from) = robots.final_url_text().filter(|from| *from != url) {
        line(text, "", &format!("from {from}"));
    }
    if let (Some(sha256), Some(bytes)) = (robots.sha256, robots.bytes) {
        let cut = if robots.truncated { ", cut at the size limit" } else { "" };
        let sha256 = hex(sha256);
        line(text, "", &format!("SHA-256 {sha256}, {bytes} octets{cut}"));
    }
    if let Some(outage) = &robots.outage {
        let (cause, since) = (outage.cause, time(outage.since));
        let attempts = outage.attempts;
        let plural = if attempts == 1 { "" } else { "es" };
        line(text, "outage", &format!("since {since}: {cause}, {attempts} failed fetch{plural}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_record::{Decision, Octets};

    fn shown(decision: Decision<'_>) -> String {
        let mut text = String::new();
        let objects = std::collections::HashMap::new();
        essentials(&mut text, &Told::of(decision, &objects));
        text
    }

    #[test]
    fn each_side_is_shown_with_its_version() {
        for (version, upstream_version, asked, answered) in [
            (None, None, "(intercepted)", "answered  403"),
            (
                Some("2"),
                Some("1.1"),
                "(intercepted, HTTP/2)",
                "answered  403, the origin by HTTP/1.1",
            ),
        ] {
            let text = shown(Decision { version, upstream_version, ..Decision::sample() });
            assert!(text.contains(asked) && text.contains(answered), "{text}");
        }
    }

    #[test]
    fn a_guarded_path_is_shown_with_its_reading() {
        let path: Octets<'_> = (&b"/private/diary"[..]).into();
        for (reading, want) in [(Some(path), true), (None, false)] {
            let text = shown(Decision { reading, ..Decision::sample() });
            assert_eq!(text.contains("read as   /private/diary"), want, "{text}");
            assert_eq!(text.contains("read as"), want, "{text}");
        }
    }
}
