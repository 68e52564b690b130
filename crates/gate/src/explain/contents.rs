//! The contents of a robots.txt besides its rules, for people and for programs.

use serde::{Serialize, Serializer};

use crawlgate_robots::{Field, Lint, LintKind, Robots};
use crawlgate_usage::{RobotsLine, notes, robots_lines};

/// The contents of a robots.txt besides its rules.
#[derive(Debug, Default, Serialize)]
pub struct File {
    /// The groups of its rules.
    pub groups: Vec<GroupEntry>,
    /// The URLs of its sitemaps.
    pub sitemaps: Vec<String>,
    /// Preferences about use, and licences.
    pub usage: Vec<UsageEntry>,
    /// Other fields: delays, hosts and the like.
    pub others: Vec<OtherEntry>,
    /// Lines without the effect that they seem to have, as `crawlgate check --robots` tells them.
    pub notes: Vec<NoteEntry>,
}

/// A line without the effect that it seems to have.
#[derive(Debug, Serialize)]
pub struct NoteEntry {
    /// The number of the line, from 1.
    pub line: u32,
    /// The name of the fault.
    pub kind: &'static str,
    /// The fault in words.
    pub message: String,
    /// The line.
    pub text: String,
}

/// A group of rules.
#[derive(Debug, Serialize)]
pub struct GroupEntry {
    /// The number of the line, from 1.
    pub line: u32,
    /// Its user-agent lines.
    pub user_agents: Vec<String>,
    /// The number of its rules.
    pub rules: usize,
}

/// A line with another field.
#[derive(Debug, Serialize)]
pub struct OtherEntry {
    /// The number of the line, from 1.
    pub line: u32,
    /// Its name.
    pub field: &'static str,
    /// Its value.
    pub value: String,
}

/// A line with a preference about use, or a licence.
#[derive(Debug, Serialize)]
pub struct UsageEntry {
    /// The number of the line, from 1.
    pub line: u32,
    /// Its name.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// The first user-agent lines of its group; empty above all groups.
    pub user_agents: Vec<String>,
    /// The number of its other user-agent lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_user_agents: Option<usize>,
    /// The reason why it has another effect than it seems to have.
    #[serde(serialize_with = "code")]
    pub note: Option<LintKind>,
}

impl File {
    /// Reads a file, lossily decoded.
    pub fn of(robots: &Robots) -> File {
        let groups = robots.groups().map(|group| GroupEntry {
            line: group.user_agents().next().map_or(0, |(_, line)| line),
            user_agents: group.user_agents().map(|(value, _)| text(value)).collect(),
            rules: group.rules().count(),
        });
        let usage = robots_lines(robots, usize::MAX);
        let mut file = File {
            groups: groups.collect(),
            usage: usage.iter().map(|one| UsageEntry::of(one)).collect(),
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
    pub fn with_notes(mut self, robots: &Robots) -> File {
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
    fn of(one: &RobotsLine<'_>) -> UsageEntry {
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
    pub fn speakers(&self) -> String {
        let names = self.user_agents.join(", ");
        match self.more_user_agents {
            _ if self.user_agents.is_empty() => "above all groups".to_owned(),
            None => names,
            Some(more) => format!("{names} and {more} more"),
        }
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn code<S: Serializer>(note: &Option<LintKind>, serializer: S) -> Result<S::Ok, S::Error> {
    note.map(LintKind::as_str).serialize(serializer)
}
