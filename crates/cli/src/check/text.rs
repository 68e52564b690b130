//! A judgement for people: the verdict, and each step to it.

use std::fmt::Write as _;

use super::page::{Escaped, Page};
use crate::overrides::sentence;
use crate::terminal::{Paint, Tone};
use crawlgate_gate::explain::document::{families, family_of};
use crawlgate_gate::explain::states::ago;
use crawlgate_gate::explain::{Alternative, File, Judgement, meaning};
use crawlgate_policy::{Reason, Verdict};
use crawlgate_robots::{
    ApplicableGroup, Explanation, Field, Judged, Lint, MatchedBy, RuleKind, Selection, TokenRole,
};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;
use crawlgate_usage as usage;

/// Lines of a kind to show if they are not the main subject.
const FEW: usize = 10;

/// Returns all steps; the file's notes only with `with_notes`. A fetch from before `began` is another process's.
pub(super) fn of(judged: &Judgement, began: Moment, with_notes: bool, paint: Paint) -> String {
    let mut page = Page::new(paint);
    let Judgement { target, decision, .. } = judged;
    let tone = match decision.verdict() {
        Verdict::Allow => Tone::Good,
        Verdict::Deny | Verdict::Defer => Tone::Bad,
    };
    let verdict = paint.tone(tone, decision.verdict().as_str());
    page.raw(format_args!(
        "{verdict}: {}{}",
        target.origin,
        Escaped(target.path.as_str().as_bytes())
    ));
    let reason = decision.reason.as_str();
    page.line("reason", format_args!("{reason} ({})", meaning(decision)));
    if let Some(asserted) = &decision.asserted {
        page.line("override", sentence(asserted));
    }
    match &judged.alternative {
        Some(Alternative::Override(asserted)) => {
            let id = &asserted.id;
            let says = sentence(asserted);
            let says = says.split_once(": ").map_or(&*says, |(_, says)| says);
            let aside = format_args!("{id} is left aside for --robots, and would decide: {says}");
            page.line("override", aside);
        }
        Some(Alternative::Robots(otherwise)) => {
            let (verdict, reason) = (otherwise.verdict().as_str(), otherwise.reason.as_str());
            let meaning = meaning(otherwise);
            page.line("without", format_args!("{verdict}, {reason} ({meaning})"));
        }
        None => {}
    }
    page.line("agent", chain(judged));
    for family in families(judged) {
        page.line("", family.message);
    }
    match (&judged.snapshot, &decision.asserted) {
        (Some(snapshot), _) => page.line("robots", file(snapshot)),
        (None, None) => page.line("robots", target.origin.robots_url()),
        // The override decides without the file; its own line is printed above.
        (None, Some(_)) => {}
    }
    let by_robots = judged.by_robots();
    if let Some(fetched_as) = &by_robots.fetched_as {
        let user_agent = Escaped(fetched_as.user_agent.as_bytes());
        match judged.fetched().filter(|fetched| *fetched < began) {
            None => page.line("fetched", format_args!("with {user_agent}")),
            Some(fetched) => {
                let (at, ago) = (time_text(fetched), ago(fetched, by_robots.at));
                page.line("fetched", format_args!("{at} ({ago} ago), with {user_agent}"));
                let origin = &target.origin;
                page.line(
                    "",
                    format_args!(
                        "the gate here judges by it: `crawlgate origins refresh {origin}` has it fetch anew; --fresh asks \
                         the origin for this answer alone"
                    ),
                );
            }
        }
    }
    if let Some(explanation) = &judged.explanation {
        explain(&mut page, explanation, decision.reason);
    }
    if let Some(snapshot) = &judged.snapshot {
        fields(&mut page, judged, snapshot);
    }
    if let Some(usage) = &judged.usage {
        super::usage_text::lines(&mut page, usage);
    }
    if let Some(snapshot) = judged.snapshot.as_ref().filter(|_| with_notes) {
        notes(&mut page, &usage::notes(&snapshot.robots), FEW);
    }
    page.into_text()
}

/// Returns the source of a file, and its length.
pub(super) fn file(snapshot: &File) -> String {
    let octets = snapshot.robots.text().len();
    let cut = if snapshot.robots.is_truncated() { ", cut at the size limit" } else { "" };
    let url = Escaped(snapshot.final_url.as_bytes());
    format!("{url} ({octets} octets{cut})")
}

/// Returns the tokens, each with its result.
fn chain(judged: &Judgement) -> String {
    let Some(explanation) = &judged.explanation else {
        let tokens: Vec<&str> = judged.agent.tokens.iter().map(|it| it.as_str()).collect();
        return if tokens.is_empty() { "*".to_owned() } else { tokens.join(", ") };
    };
    let described: Vec<String> = explanation
        .chain
        .iter()
        .map(|(token, standing)| match standing {
            TokenRole::Named => match family_of(token.as_str(), &judged.agent.tokens) {
                Some(name) => format!("{token} (named: the family of {name}, which is not)"),
                None => format!("{token} (named)"),
            },
            TokenRole::NotNamed => format!("{token} (not named)"),
            TokenRole::NotAsked => format!("{token} (not asked for)"),
        })
        .collect();
    match (described.is_empty(), explanation.is_named()) {
        (true, _) => "*".to_owned(),
        (false, true) => described.join(", "),
        (false, false) => format!("{}, so `*`", described.join(", ")),
    }
}

/// Writes the groups, the rules that match, and which one wins.
fn explain(page: &mut Page, explanation: &Explanation, reason: Reason) {
    for (at, group) in explanation.groups.iter().enumerate() {
        let label = if at == 0 { "group" } else { "" };
        page.line(label, speaker(group, at));
    }
    let written = &explanation.written;
    if let Some(form) = written.other_form() {
        page.line("path", format_args!("{} (as it is compared)", Escaped(form)));
    }
    matches(
        page,
        "rules",
        written,
        reason == Reason::RobotsDisallow || reason == Reason::RobotsAllow,
    );
    page.line("why", written.why);
    for reading in &explanation.readings {
        let path = Escaped(&reading.path);
        let verdict = match (reading.is_disallowed(), reading.rule()) {
            (true, _) => "disallowed",
            (false, Some(_)) => "allowed",
            (false, None) => "allowed, no rule matches",
        };
        page.line("read as", format_args!("{path} ({verdict})"));
        matches(page, "", reading, reason == Reason::PathGuard && reading.is_disallowed());
    }
    if !explanation.are_all_readings {
        page.line("read as", "more paths than are judged");
    }
}

fn speaker(group: &ApplicableGroup, at: usize) -> String {
    let mut text = format!("{} (line {}", Escaped(group.name.as_bytes()), group.line);
    let others = group.user_agents.len().saturating_sub(1);
    if others > 0 {
        let _ = write!(text, ", with {others} more user-agent line{}", plural(others));
    }
    let _ = write!(text, "; {} rule{}", group.rules, plural(group.rules));
    if at > 0 {
        text.push_str("; merged");
    }
    text.push(')');
    text
}

/// Writes the rules that match, the deciding one first.
fn matches(page: &mut Page, label: &str, judged: &Judged, decides: bool) {
    let widest = judged.matches.first().map_or(0, |found| found.octets.to_string().len());
    for (at, found) in judged.matches.iter().take(FEW).enumerate() {
        let label = if at == 0 { label } else { "" };
        let rule = format!("{} (line {})", Escaped(found.rule.text.as_bytes()), found.rule.line);
        let by = match found.by {
            MatchedBy::Path => String::new(),
            MatchedBy::Folder => format!(", as {}", Escaped(found.pattern.as_bytes())),
        };
        let octets = found.octets;
        let octets = format!("{octets:>widest$} octet{}", plural(octets));
        if at == 0 && decides {
            let tone = match found.rule.kind {
                RuleKind::Allow => Tone::Good,
                RuleKind::Disallow => Tone::Bad,
            };
            let paint = page.paint;
            let rule = paint.tone(tone, rule);
            page.line(label, format_args!("{octets}  {rule}{by} decides"));
        } else {
            page.line(label, format_args!("{octets}  {rule}{by}"));
        }
    }
    more(page, judged.matches.len());
}

/// Writes the file's other fields for the crawler, and its sitemaps.
fn fields(page: &mut Page, judged: &Judgement, snapshot: &File) {
    let robots = &snapshot.robots;
    let selection = robots.selection(&judged.agent.tokens);
    let own = robots.others_of(selection).filter(|other| other.field != Field::Sitemap);
    let sitemaps = robots.others().filter(|other| other.field == Field::Sitemap);
    let other_lines: Vec<_> = match selection {
        Selection::Nobody => sitemaps.collect(),
        _ => own.chain(sitemaps).collect(),
    };
    for (at, other) in other_lines.iter().take(FEW).enumerate() {
        let label = if at == 0 { "fields" } else { "" };
        page.line(
            label,
            format_args!(
                "{}: {} (line {})",
                other.field.as_str(),
                Escaped(other.value),
                other.line
            ),
        );
    }
    more(page, other_lines.len());
}

/// Writes at most `max` remarks.
pub(super) fn notes(page: &mut Page, notes: &[Lint], max: usize) {
    let paint = page.paint;
    for (at, note) in notes.iter().take(max).enumerate() {
        let label = if at == 0 { "notes" } else { "" };
        let kind = paint.tone(Tone::Remark, note.kind);
        let text = Escaped(note.text.as_bytes());
        let gap = if note.text.is_empty() { "" } else { ": " };
        page.line(label, format_args!("line {}: {kind}{gap}{text}", note.line));
    }
    if notes.len() > max {
        let left = notes.len() - max;
        let what =
            format_args!("… and {left} more: `crawlgate check --robots FILE` shows all of them")
                .to_string();
        page.line("", what);
    }
}

fn more(page: &mut Page, all: usize) {
    if let Some(left @ 1..) = all.checked_sub(FEW) {
        page.line("", format_args!("… and {left} more"));
    }
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
