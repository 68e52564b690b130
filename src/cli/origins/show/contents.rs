//! The contents of a robots.txt besides its rules, for people and for programs.

use serde::Serialize;

use crawlgate_origins::snapshot::Snapshot;
use crawlgate_robots::{Field, Lint, LintKind};
use crawlgate_usage::{RobotsLine, notes, robots_lines};

/// The contents of a robots.txt besides its rules.
#[derive(Debug, Default, Serialize)]
pub(super) struct File {
    pub(super) groups: Vec<GroupEntry>,
    pub(super) sitemaps: Vec<String>,
    /// Preferences about use, and licences.
    pub(super) usage: Vec<UsageEntry>,
    /// Other fields: delays, hosts and the like.
    pub(super) others: Vec<OtherEntry>,
    /// Lines without the effect that they seem to have, as `crawlgate check --robots` tells them.
    pub(super) notes: Vec<NoteEntry>,
}

#[derive(Debug, Serialize)]
pub(super) struct NoteEntry {
    pub(super) line: u32,
    pub(super) kind: &'static str,
    pub(super) message: String,
    pub(super) text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct GroupEntry {
    pub(super) line: u32,
    pub(super) user_agents: Vec<String>,
    pub(super) rules: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct OtherEntry {
    pub(super) line: u32,
    pub(super) field: &'static str,
    pub(super) value: String,
}

#[derive(Debug, Serialize)]
pub(super) struct UsageEntry {
    pub(super) line: u32,
    pub(super) field: &'static str,
    pub(super) value: String,
    /// The first user-agent lines of its group; empty above all groups.
    pub(super) user_agents: Vec<String>,
    /// The number of its other user-agent lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) more_user_agents: Option<usize>,
    /// The reason why it has another effect than it seems to have.
    pub(super) note: Option<&'static str>,
}

impl File {
    pub(super) fn of(snapshot: Option<&Snapshot>) -> File {
        let Some(snapshot) = snapshot else {
            return File::default();
        };
        let robots = &snapshot.robots;
        let groups = robots.groups().map(|group| GroupEntry {
            line: group.user_agents().next().map_or(0, |(_, line)| line),
            user_agents: group.user_agents().map(|(value, _)| text(value)).collect(),
            rules: group.rules().count(),
        });
        let mut file = File {
            groups: groups.collect(),
            usage: robots_lines(robots, usize::MAX)
                .iter()
                .map(UsageEntry::of)
                .collect(),
            notes: notes(robots).into_iter().map(NoteEntry::of).collect(),
            ..File::default()
        };
        for other in robots.others() {
            match other.field {
                Field::Sitemap => file.sitemaps.push(text(other.value)),
                // `usage` has it, with its group.
                field if field.is_of_usage() => {}
                field => file.others.push(OtherEntry {
                    line: other.line,
                    field: field.as_str(),
                    value: text(other.value),
                }),
            }
        }
        file
    }
}

impl NoteEntry {
    fn of(note: Lint) -> NoteEntry {
        NoteEntry {
            line: note.line,
            kind: note.kind.as_str(),
            message: note.kind.to_string(),
            text: note.text.into(),
        }
    }
}

impl UsageEntry {
    fn of(one: &RobotsLine<'_>) -> UsageEntry {
        UsageEntry {
            line: one.line,
            field: one.field.as_str(),
            value: text(one.value),
            user_agents: one.group.iter().map(|name| text(name)).collect(),
            more_user_agents: Some(one.more).filter(|more| *more > 0),
            note: one.remark.map(LintKind::as_str),
        }
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}
