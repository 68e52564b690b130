//! One rule, as its author wrote it.

use std::fmt;
use std::sync::Arc;

use super::parse::{Entry, EntryKind};

/// The kind of a rule: it allows or disallows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// `allow`
    Allow,
    /// `disallow`
    Disallow,
}

impl RuleKind {
    /// Returns the field's name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Disallow => "disallow",
        }
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule in its author's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's kind.
    pub kind: RuleKind,
    /// The line, trimmed and without its comment; octets that are not UTF-8 are replaced.
    pub text: Box<str>,
    /// The line's number, from 1.
    pub line: u32,
    /// The name of its group: the product token as the file writes it, or `*`.
    pub group: Arc<str>,
    /// The number of the user-agent line that names the group.
    pub group_line: u32,
}

/// A rule line, borrowed from its file.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    pub(super) kind: RuleKind,
    /// The line, trimmed and without its comment.
    pub(super) content: &'a [u8],
    /// The rule's path.
    pub(super) value: &'a [u8],
    pub(super) line: u32,
    pub(super) group: Arc<str>,
    pub(super) group_line: u32,
}

impl Source<'_> {
    pub(super) fn rule(&self) -> Rule {
        Rule {
            kind: self.kind,
            text: Box::from(String::from_utf8_lossy(self.content)),
            line: self.line,
            group: Arc::clone(&self.group),
            group_line: self.group_line,
        }
    }
}

/// Returns the kind of a rule; `None` for an entry of another kind.
pub(super) fn rule_kind(entry: Entry) -> Option<RuleKind> {
    match entry.kind() {
        EntryKind::Allow => Some(RuleKind::Allow),
        EntryKind::Disallow => Some(RuleKind::Disallow),
        EntryKind::Agent | EntryKind::Other => None,
    }
}

/// The groups of a file that apply to a crawler. Valid only with the [`Robots`](super::Robots) that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// All groups that name this token of the file.
    Token(u32),
    /// All groups that name `*`.
    Global,
    /// No group, so no rules.
    Nobody,
}
