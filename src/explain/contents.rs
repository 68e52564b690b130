//! The contents of a robots.txt besides its rules, for people and for programs.

use serde::{Serialize, Serializer};

use crawlgate_robots::{Field, Lint, LintKind, Robots};
use crawlgate_usage::{RobotsLine, notes, robots_lines};

/// The contents of a robots.txt besides its rules.
#[derive(Debug, Default, Serialize)]
pub(crate) struct File {
    pub(crate) groups: Vec<GroupEntry>,
    pub(crate) sitemaps: Vec<String>,
    /// Preferences about use, and licences.
    pub(crate) usage: Vec<UsageEntry>,
    /// Other fields: delays, hosts and the like.
    pub(crate) others: Vec<OtherEntry>,
    /// Lines without the effect that they seem to have, as `crawlgate check --robots` tells them.
    pub(crate) notes: Vec<NoteEntry>,
}

#[derive(Debug, Serialize)]
pub(crate) struct NoteEntry {
    pub(crate) line: u32,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) text: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct GroupEntry {
    pub(crate) line: u32,
    pub(crate) user_agents: Vec<String>,
    pub(crate) rules: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct OtherEntry {
    pub(crate) line: u32,
    pub(crate) field: &'static str,
    pub(crate) value: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct UsageEntry {
    pub(crate) line: u32,
    pub(crate) field: &'static str,
    pub(crate) value: String,
    /// The first user-agent lines of its group; empty above all groups.
    pub(crate) user_agents: Vec<String>,
    /// The number of its other user-agent lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) more_user_agents: Option<usize>,
    /// The reason why it has another effect than it seems to have.
    #[serde(serialize_with = "code")]
    pub(crate) note: Option<LintKind>,
}

impl File {
    /// Reads a file; `text` writes its octets.
    pub(crate) fn of(robots: &Robots, text: impl Fn(&[u8]) -> String) -> File {
        let groups = robots.groups().map(|group| GroupEntry {
            line: group.user_agents().next().map_or(0, |(_, line)| line),
            user_agents: group.user_agents().map(|(value, _)| text(value)).collect(),
            rules: group.rules().count(),
        });
        let usage = robots_lines(robots, usize::MAX);
        let mut file = File {
            groups: groups.collect(),
            usage: usage.iter().map(|one| UsageEntry::of(one, &text)).collect(),
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

    /// Adds the notes.
    pub(crate) fn with_notes(mut self, robots: &Robots) -> File {
        self.notes = notes(robots).into_iter().map(NoteEntry::of).collect();
        self
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
    fn of(one: &RobotsLine<'_>, text: impl Fn(&[u8]) -> String) -> UsageEntry {
        UsageEntry {
            line: one.line,
            field: one.field.as_str(),
            value: text(one.value),
            user_agents: one.group.iter().map(|name| text(name)).collect(),
            more_user_agents: Some(one.more).filter(|more| *more > 0),
            note: one.remark,
        }
    }

    /// Names the group.
    pub(crate) fn speakers(&self) -> String {
        let names = self.user_agents.join(", ");
        match self.more_user_agents {
            _ if self.user_agents.is_empty() => "above all groups".to_owned(),
            None => names,
            Some(more) => format!("{names} and {more} more"),
        }
    }
}

fn code<S: Serializer>(note: &Option<LintKind>, serializer: S) -> Result<S::Ok, S::Error> {
    note.map(LintKind::as_str).serialize(serializer)
}
