//! Lints a robots.txt for people: its groups, its other fields, and lines without the effect that they seem to have.

use std::path::Path;

use super::page::{Escaped, Page};
use super::text::{self, plural};
use crate::terminal::{Paint, Tone};
use crawlgate_gate::explain::{File, group_of};
use crawlgate_robots::{Group, OtherLine, RuleKind};
use crawlgate_usage as usage;

/// Returns the file's groups, other fields and notes.
pub(super) fn text(snapshot: &File, file: &Path, paint: Paint) -> Vec<u8> {
    let robots = &snapshot.robots;
    let groups: Vec<Group<'_>> = robots.groups().collect();
    let notes = usage::notes(robots);
    let mut page = Page::new(paint);
    page.raw(format_args!(
        "{}: {} octets{}, {} group{}, {} note{}",
        file.display(),
        robots.text().len(),
        if robots.is_truncated() { ", cut at the size limit" } else { "" },
        groups.len(),
        plural(groups.len()),
        notes.len(),
        plural(notes.len()),
    ));
    // In order of their lines, as the groups are.
    let mut inside =
        robots.others().filter_map(|other| Some((group_of(&other, &groups)?, other))).peekable();
    for (at, group) in groups.iter().enumerate() {
        page.raw("");
        for (value, line) in group.user_agents() {
            let name = paint.tone(Tone::Strong, Escaped(value));
            page.raw(format_args!("user-agent: {name} (line {line})"));
        }
        for (kind, content, line) in group.rules() {
            let tone = match kind {
                RuleKind::Allow => Tone::Good,
                RuleKind::Disallow => Tone::Bad,
            };
            let rule = paint.tone(tone, Escaped(content));
            page.raw(format_args!("  {rule} (line {line})"));
        }
        while let Some((_, other)) = inside.next_if(|(group, _)| *group == at) {
            page.raw(format_args!("  {}", field(&other)));
        }
    }
    let mut apart = robots.others().filter(|other| group_of(other, &groups).is_none()).peekable();
    if apart.peek().is_some() {
        page.raw("");
    }
    for other in apart {
        page.raw(field(&other));
    }
    if !notes.is_empty() {
        page.raw("");
        text::notes(&mut page, &notes, usize::MAX);
    }
    page.into_text().into_bytes()
}

fn field(other: &OtherLine<'_>) -> String {
    let (name, value) = (other.field.as_str(), Escaped(other.value));
    format!("{name}: {value} (line {})", other.line)
}
