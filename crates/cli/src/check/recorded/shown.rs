//! The answer to a what-if, for people and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Answer, Decision, Recorded, Told};
use crate::terminal::{json_line, printable};
use crawlgate_evidence::what_if::Group;
use crawlgate_evidence::words::time;
use crawlgate_policy::{Reason, Verdict};
use crawlgate_record::token_texts;
use crawlgate_robots::Rule;
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// Groups to print for people.
const FEW: usize = 20;

impl Answer<'_> {
    /// Returns the answer for people.
    pub(super) fn text(&self, recorded: Recorded) -> String {
        let summary = &self.summary;
        let asked = self.asked;
        let until =
            asked.until.map_or_else(String::new, |until| format!(" until {}", seconds(until)));
        let mut text = format!(
            "{}, as the robots.txt of {}, for requests since {}{until}\n",
            printable(&asked.file.to_string_lossy()),
            asked.origin,
            seconds(asked.since),
        );
        let judged = summary.judged();
        let changed = summary.changed();
        line(
            &mut text,
            "judged",
            &format!(
                "{judged} recorded request{}, {}",
                plural(judged),
                match changed {
                    0 => "none would be decided otherwise".to_owned(),
                    _ => format!("{changed} would be decided otherwise"),
                }
            ),
        );
        let groups = summary.groups();
        for (label, count, verdict, was) in [
            ("denied", summary.denied(), Verdict::Deny, "allowed"),
            ("allowed", summary.allowed(), Verdict::Allow, "denied"),
        ] {
            if count == 0 {
                continue;
            }
            let were = if count == 1 { "was" } else { "were" };
            line(&mut text, label, &format!("{count} that {were} {was}"));
            let groups: Vec<_> = groups.iter().filter(|group| group.to == verdict).collect();
            for group in groups.iter().take(FEW) {
                self::group(&mut text, group);
            }
            if let Some(left @ 1..) = groups.len().checked_sub(FEW) {
                line(&mut text, "", &format!("… and {left} more rules: --json has all"));
            }
        }
        if summary.beyond() > 0 {
            let said = format!("{} more, by further rules", summary.beyond());
            line(&mut text, "beyond", &said);
        }
        if summary.exempted() + summary.exempt() > 0 {
            line(
                &mut text,
                "exempt",
                &format!(
                    "{} by the record; {} by this file, of clients that are exempt now",
                    summary.exempted(),
                    summary.exempt()
                ),
            );
        }
        for (at, (why, count)) in summary.aside().enumerate() {
            let label = if at == 0 { "aside" } else { "" };
            line(&mut text, label, &format!("{count}: {why}"));
        }
        for (at, words) in self.unrecorded.words(recorded).iter().enumerate() {
            let label = if at == 0 { "unknown" } else { "" };
            line(&mut text, label, words);
        }
        text
    }

    /// Returns the answer as one object.
    pub(super) fn json(&self, recorded: Recorded) -> Value {
        let summary = &self.summary;
        let groups = summary.groups();
        let aside = summary.aside().map(|(why, count)| (why.as_str(), count));
        json!({
            "robots": self.asked.file.to_string_lossy(),
            "origin": self.asked.origin.as_str(),
            "since": time_text(self.asked.since),
            "until": self.asked.until.map(time_text),
            "judged": summary.judged(),
            "changed": summary.changed(),
            "denied": summary.denied(),
            "allowed": summary.allowed(),
            "groups": groups.into_iter().map(of_group).collect::<Vec<_>>(),
            "beyond": summary.beyond(),
            "exempt": {"recorded": summary.exempted(), "now": summary.exempt()},
            "aside": aside.collect::<std::collections::BTreeMap<_, _>>(),
            "unknown": {
                "forwarded": self.unrecorded.forwarded,
                "refused": self.unrecorded.refused,
                "said": self.unrecorded.words(recorded),
            },
        })
    }
}

/// Returns the line of a request that would be decided otherwise.
pub(super) fn change(one: &Told<'_>, decision: &Decision) -> Vec<u8> {
    let recorded = one.rule;
    let (was, is) = (one.exempt, decision.exempt.as_ref());
    json_line(&json!({
        "id": one.id_text(),
        "time": time(one.time()),
        "url": one.url_text(),
        "agent": token_texts(&one.chain),
        "mode": one.mode.as_str(),
        "from": {
            "verdict": one.verdict.as_str(),
            "reason": one.reason,
            "rule": recorded.map(|rule| json!({"group": rule.group.to_string(), "text": rule.text.to_string(), "line": rule.line})),
            "exempt": was.map(|one| json!({"from": one.from, "reason": one.reason})),
        },
        "to": {
            "verdict": decision.verdict().as_str(),
            "reason": decision.reason.as_str(),
            "rule": decision.rule.as_ref().map(of_rule),
            "exempt": is.map(|one| json!({"from": one.from.as_str(), "reason": &*one.reason})),
        },
    }))
}

fn group(text: &mut String, group: &Group) {
    let by = match &group.rule {
        Some(rule) => format!(
            "{}{} (line {}, of {})",
            match group.reason {
                Reason::ClientExempt => "exempt from ",
                _ => "",
            },
            printable(&rule.text),
            rule.line,
            printable(&rule.group)
        ),
        None => group.reason.info().meaning.to_owned(),
    };
    let was = group.was.as_ref().map_or_else(String::new, |was| match &was.exempt {
        Some(reason) => format!("; before: exempt ({})", printable(reason)),
        None => {
            let was = was.rule.as_ref().unwrap_or(&was.reason);
            format!("; before: {}", printable(was))
        }
    });
    line(text, "", &format!("{:>6}  {by}{was}", group.count));
    let (first, last) = (seconds(group.first), seconds(group.last));
    let span = if first == last { first } else { format!("{first} to {last}") };
    line(text, "", &format!("{:>6}  {span}", ""));
    for url in &group.examples {
        line(text, "", &format!("{:>6}  {}", "", printable(url)));
    }
}

fn of_group(group: &Group) -> Value {
    json!({
        "to": group.to.as_str(),
        "reason": group.reason.as_str(),
        "rule": group.rule.as_ref().map(of_rule),
        "was": group.was.as_ref().map(|was| json!({"reason": was.reason, "rule": was.rule, "exempt": was.exempt})),
        "count": group.count,
        "first": time_text(group.first),
        "last": time_text(group.last),
        "examples": group.examples,
    })
}

fn of_rule(rule: &Rule) -> Value {
    json!({"group": &*rule.group, "text": &*rule.text, "line": rule.line})
}

fn line(text: &mut String, label: &str, content: &str) {
    let label = match label {
        "" => String::new(),
        label => format!("{label}:"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {label:<9} {content}");
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns a time as people read it.
fn seconds(time: Moment) -> String {
    let text = time_text(time);
    text.get(..19).unwrap_or_default().replace('T', " ")
}
