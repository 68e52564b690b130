//! A robots.txt, parsed once.
//!
//! Parsing keeps the text and, for every line that counts, where in the text it stands; nothing is
//! copied out of it until somebody asks. A group here is what the file shows: a run of user-agent
//! lines with the rules below it. Merging the groups of one token is left to whoever selects them.

use super::field::Field;
use super::line::{Line, Lines, is_space};
use super::names::Names;
use super::note::{Note, notes};
use super::rules::RuleKind;
use super::token::{narrow, wide};

/// How a robots.txt is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// Whether field names may be misspelt in the frequent ways and a line of two words may lack
    /// its colon.
    pub lenient: bool,
    /// How many octets count. RFC 9309 section 2.5 asks for at least 512,000.
    pub limit: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            lenient: true,
            limit: 512_000,
        }
    }
}

/// A parsed robots.txt.
#[derive(Clone, Debug)]
pub struct Robots {
    pub(super) text: Box<[u8]>,
    is_truncated: bool,
    lenient: bool,
    pub(super) groups: Vec<GroupLines>,
    pub(super) agents: Vec<AgentLine>,
    pub(super) rules: Vec<RuleLine>,
    pub(super) others: Vec<OtherLine>,
    /// The tokens that user-agent lines name, numbered.
    pub(super) names: Names,
    pub(super) is_global_named: bool,
}

/// Where a piece of the text stands. Texts are cut far below 4 GiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, length: usize) -> Self {
        Self {
            start: index(start),
            end: index(start + length),
        }
    }

    pub(super) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// The first user-agent line and the first rule of a group; the next group's end them.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupLines {
    pub(super) agents: u32,
    pub(super) rules: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AgentLine {
    pub(super) line: u32,
    pub(super) value: Span,
    pub(super) named: Named,
}

/// Whom a user-agent line names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named {
    Global,
    /// A token of letters, and the longer one that the line is for crawlers with digits or dots in
    /// their token.
    Tokens(Option<u32>, Option<u32>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RuleLine {
    pub(super) line: u32,
    pub(super) kind: RuleKind,
    pub(super) content: Span,
    /// Where in the content the path begins; it ends with the content.
    pub(super) value: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OtherLine {
    pub(super) line: u32,
    pub(super) field: Field,
    pub(super) value: Span,
    pub(super) group: Option<u32>,
}

impl Robots {
    /// Parses a robots.txt. Any octets are one; what makes no sense is passed over.
    ///
    /// Of `text`, the first `options.limit` octets count; the line that the limit cuts is dropped.
    /// To tell a file that ends at the limit from one that goes on, hand over one octet more where
    /// there is one.
    pub fn parse(text: &[u8], options: ParseOptions) -> Self {
        let kept = within(text, options.limit.min(u32::MAX as usize));
        let mut robots = Self {
            text: Box::from(kept),
            is_truncated: text.len() > options.limit,
            lenient: options.lenient,
            groups: Vec::new(),
            agents: Vec::new(),
            rules: Vec::new(),
            others: Vec::new(),
            names: Names::default(),
            is_global_named: false,
        };
        // Whether the next user-agent line joins the group before it.
        let mut is_group_open = false;
        for line in Lines::new(kept) {
            let Some(pair) = line.pair(options.lenient) else {
                continue;
            };
            let value = Span::new(line.start + pair.value_start, pair.value.len());
            match pair.field {
                Some(Field::UserAgent) => {
                    if !is_group_open {
                        is_group_open = true;
                        let group = GroupLines {
                            agents: index(robots.agents.len()),
                            rules: index(robots.rules.len()),
                        };
                        robots.groups.push(group);
                    }
                    let named = robots.name(pair.value, value.start);
                    robots.agents.push(AgentLine {
                        line: line.number,
                        value,
                        named,
                    });
                }
                Some(Field::Allow) => {
                    is_group_open = false;
                    robots.rule(&line, RuleKind::Allow, pair.value_start);
                }
                Some(Field::Disallow) => {
                    is_group_open = false;
                    robots.rule(&line, RuleKind::Disallow, pair.value_start);
                }
                Some(field) => {
                    let group = robots.groups.len().checked_sub(1).map(index);
                    robots.others.push(OtherLine {
                        line: line.number,
                        field,
                        value,
                        group,
                    });
                }
                None => {}
            }
        }
        robots
    }

    /// The text that counts: all of it, or its whole lines within the limit.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether the text was longer than the limit.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Heap used, in octets, about.
    pub fn bytes(&self) -> usize {
        self.text.len()
            + size_of::<GroupLines>() * self.groups.capacity()
            + size_of::<AgentLine>() * self.agents.capacity()
            + size_of::<RuleLine>() * self.rules.capacity()
            + size_of::<OtherLine>() * self.others.capacity()
            + self.names.bytes()
    }

    /// What its author should know: lines that do not do what they seem to. Reads the text anew.
    pub fn notes(&self) -> Vec<Note> {
        notes(&self.text, self.lenient)
    }

    /// Reads the value of a user-agent line.
    fn name(&mut self, value: &[u8], start: u32) -> Named {
        if let [b'*', after @ ..] = value
            && after.first().is_none_or(|octet| is_space(*octet))
        {
            self.is_global_named = true;
            return Named::Global;
        }
        let (letters, all) = (narrow(value), wide(value));
        let mut number = |name: &[u8]| self.names.number(name, start, &self.text);
        let longer = (all.len() > letters.len()).then(|| number(all)).flatten();
        Named::Tokens(number(letters), longer)
    }

    /// Keeps a rule. One before the first user-agent line is in no group's range.
    fn rule(&mut self, line: &Line<'_>, kind: RuleKind, value_start: usize) {
        let content = Span::new(line.start, line.content.len());
        self.rules.push(RuleLine {
            line: line.number,
            kind,
            content,
            value: index(value_start),
        });
    }
}

/// The whole lines of `text` within `limit`.
fn within(text: &[u8], limit: usize) -> &[u8] {
    let Some((kept, beyond)) = text.split_at_checked(limit) else {
        return text;
    };
    let is_end = |octet: &u8| matches!(octet, b'\n' | b'\r');
    if beyond.first().is_none_or(is_end) {
        return kept;
    }
    let end = kept.iter().rposition(is_end).map_or(0, |at| at + 1);
    kept.get(..end).unwrap_or_default()
}

pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test.
    use super::*;
    use crate::rep::{ProductToken, Selection};

    #[test]
    fn ours_the_line_that_the_limit_cuts_is_dropped() {
        let cases: &[(&str, usize, &str, bool)] = &[
            ("the whole text fits", 6, "a:b\nc:", false),
            ("cut inside a line", 5, "a:b\n", true),
            ("cut after a line", 4, "a:b\n", true),
            ("cut before its ending", 3, "a:b", true),
            ("cut inside the first line", 2, "", true),
            ("nothing counts", 0, "", true),
        ];
        for (name, limit, kept, is_truncated) in cases {
            let file = Robots::parse(
                b"a:b\nc:",
                ParseOptions {
                    limit: *limit,
                    lenient: true,
                },
            );
            assert_eq!(
                (file.text(), file.is_truncated()),
                (kept.as_bytes(), *is_truncated),
                "{name}"
            );
        }
    }

    #[test]
    fn strictness_is_one_switch() {
        let text = b"useragent: a\nuser-agent: *\ndissallow: /3\ndisallow /4\ndisallow: /5\n";
        let found = |lenient| {
            let file = Robots::parse(
                text,
                ParseOptions {
                    lenient,
                    ..ParseOptions::default()
                },
            );
            let rules: Vec<u32> = file
                .groups()
                .flat_map(|group| group.rules())
                .map(|(_, _, line)| line)
                .collect();
            (file.selection(&[ProductToken::new("a").unwrap()]), rules)
        };
        assert_eq!(found(true), (Selection::Token(0), vec![3, 4, 5]));
        assert_eq!(found(false), (Selection::Global, vec![5]));
    }
}
