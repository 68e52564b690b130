//! Groups: from a chain of product tokens to the rules that apply to it.
//!
//! RFC 9309 section 2.2.1: groups that name the same token are merged, groups that name `*` are merged, and a crawler
//! follows the most specific merged group and no other. A [`Selection`] names a merged group; two crawlers with the
//! same selection share its compiled [`Rules`].

use std::ops::Range;
use std::sync::Arc;

use super::field::Field;
use super::parse::{EntryKind, File, Robots, is_global};
use super::rule::{RuleKind, Selection, Source, rule_kind};
use super::rules::Rules;
use super::token::{ProductToken, is_narrow, is_wide, narrow, wide};

impl Robots {
    /// Returns the groups for a crawler with this chain of product tokens, most specific first: the groups of the first
    /// token that any group names, otherwise those that name `*` (RFC 9309 section 2.2.1).
    pub fn selection(&self, chain: &[ProductToken]) -> Selection {
        let token = |token: &ProductToken| self.file.selection(token.as_str().as_bytes());
        match chain.iter().find_map(token) {
            Some(selection) => selection,
            None if self.file.is_global_named => Selection::Global,
            None => Selection::Nobody,
        }
    }

    /// Returns the rules of the selected groups, merged and compiled.
    pub fn rules(&self, selection: Selection) -> Rules {
        Rules::compile(&self.file, selection)
    }

    /// Returns the rule lines of the selected groups, in file order.
    pub(super) fn sources(&self, selection: Selection) -> impl Iterator<Item = Source<'_>> {
        let file = &*self.file;
        let name = file.name(selection);
        file.groups().flat_map(move |group| {
            let speaker = name.and_then(|name| file.speaker(group.clone(), name));
            let speaker = speaker.map(|(entry, name)| {
                let name: Arc<str> = Arc::from(String::from_utf8_lossy(name));
                (file.number(entry), name)
            });
            speaker.into_iter().flat_map(move |(group_line, name)| {
                let rules = group.clone().zip(file.entries(group.clone()));
                rules.filter_map(move |(at, entry)| {
                    let kind = rule_kind(*entry)?;
                    Some(Source {
                        kind,
                        content: file.line(entry.place()).content,
                        value: file.pair(entry.place()).1,
                        line: file.number(at),
                        group: Arc::clone(&name),
                        group_line,
                    })
                })
            })
        })
    }

    /// Returns the groups of the file, in order.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let file = &*self.file;
        file.groups().map(move |Range { start, end }| Group { file, start, end })
    }

    /// Returns the lines with other fields that crawlgate knows, in order: sitemaps, crawl delays and so on.
    pub fn others(&self) -> impl Iterator<Item = OtherLine<'_>> {
        self.file.others(0..self.file.entry_count())
    }

    /// Returns those of [`Robots::others`] that stand in the selected groups.
    pub fn others_of(&self, selection: Selection) -> impl Iterator<Item = OtherLine<'_>> {
        self.named_others_of(selection).map(|(_, other)| other)
    }

    /// Returns the same lines, each with the name of its group as the file spells it.
    pub fn named_others_of(
        &self,
        selection: Selection,
    ) -> impl Iterator<Item = (&[u8], OtherLine<'_>)> {
        let file = &*self.file;
        let name = file.name(selection);
        file.groups().flat_map(move |group| {
            let speaker = name.and_then(|name| file.speaker(group.clone(), name));
            let named = speaker.map(|(_, name)| file.others(group).map(move |it| (name, it)));
            named.into_iter().flatten()
        })
    }

    /// Returns those of [`Robots::others`] that stand before the first user-agent line.
    pub fn others_above_groups(&self) -> impl Iterator<Item = OtherLine<'_>> {
        let first = self.file.groups().next();
        let end = first.map_or(self.file.entry_count(), |group| group.start);
        self.file.others(0..end)
    }
}

/// The name to look for in user-agent lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name<'a> {
    Global,
    /// A token of letters, `-` and `_`.
    Narrow(&'a [u8]),
    /// A token with digits or dots.
    Wide(&'a [u8]),
}

impl<'a> Name<'a> {
    fn token(token: &'a [u8]) -> Self {
        if token.iter().all(|octet| is_narrow(*octet)) {
            Self::Narrow(token)
        } else {
            Self::Wide(token)
        }
    }

    /// Returns the name as `value` spells it at its start; `None` if `value` names another crawler. `value` extends to
    /// the end of the text.
    fn written(self, value: &[u8]) -> Option<&[u8]> {
        let (token, belongs): (_, fn(u8) -> bool) = match self {
            Self::Global => return is_global(value).then_some(b"*"),
            Self::Narrow(token) => (token, is_narrow),
            Self::Wide(token) => (token, is_wide),
        };
        let (name, after) = value.split_at_checked(token.len())?;
        let is_whole = after.first().is_none_or(|octet| !belongs(*octet));
        (is_whole && name.eq_ignore_ascii_case(token)).then_some(name)
    }
}

impl File {
    /// Selects the groups of a token, if any group names it: [`Selection::Token`] holds the place of the first value
    /// that names it, and whether the name is the whole token or only its letters.
    fn selection(&self, token: &[u8]) -> Option<Selection> {
        let name = Name::token(token);
        let (entry, _) = self.groups().find_map(|group| self.speaker(group, name))?;
        let place = self.entry(entry)?.place();
        let is_wide = matches!(name, Name::Wide(_));
        Some(Selection::Token(place << 1 | u32::from(is_wide)))
    }

    /// Returns the name of a selection; `None` for [`Selection::Nobody`] or a selection of another file.
    pub(super) fn name(&self, selection: Selection) -> Option<Name<'_>> {
        let place = match selection {
            Selection::Token(place) => place,
            Selection::Global => return Some(Name::Global),
            Selection::Nobody => return None,
        };
        let entry = self.entry(self.entry_at(place >> 1)?)?;
        if entry.kind() != EntryKind::Agent {
            return None;
        }
        let value = self.from(entry.place());
        let token = if place & 1 == 0 { narrow(value) } else { wide(value) };
        (!token.is_empty()).then(|| Name::token(token))
    }

    /// Returns the first user-agent line of a group with this name: its entry, and the name as written.
    pub(super) fn speaker(&self, group: Range<usize>, name: Name<'_>) -> Option<(usize, &[u8])> {
        group
            .clone()
            .zip(self.entries(group))
            .take_while(|(_, entry)| rule_kind(**entry).is_none())
            .filter(|(_, entry)| entry.kind() == EntryKind::Agent)
            .find_map(|(at, entry)| Some((at, name.written(self.from(entry.place()))?)))
    }

    fn others(&self, range: Range<usize>) -> impl Iterator<Item = OtherLine<'_>> {
        let entries = range.clone().zip(self.entries(range));
        entries.filter_map(|(at, entry)| {
            if entry.kind() != EntryKind::Other {
                return None;
            }
            let line = self.line(entry.place());
            let pair = line.pair(self.is_lenient())?;
            Some(OtherLine {
                field: pair.field?,
                value: pair.value,
                content: line.content,
                is_cut: line.is_cut,
                line: self.number(at),
            })
        })
    }
}

/// A group in the file: its user-agent lines, then its rules.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    file: &'a File,
    /// The group's first entry, and the first entry behind the group.
    start: usize,
    end: usize,
}

impl<'a> Group<'a> {
    /// Returns the values of the group's user-agent lines and the lines' numbers.
    pub fn user_agents(self) -> impl Iterator<Item = (&'a [u8], u32)> {
        let file = self.file;
        let entries = (self.start..).zip(file.entries(self.start..self.end));
        entries
            .filter(|(_, entry)| entry.kind() == EntryKind::Agent)
            .map(move |(at, entry)| (file.pair(entry.place()).1, file.number(at)))
    }

    /// Returns the lines of the group with other fields that crawlgate knows.
    pub fn others(self) -> impl Iterator<Item = OtherLine<'a>> {
        self.file.others(self.start..self.end)
    }

    /// Returns the group's allow and disallow lines without comments, and their numbers; also lines without a path.
    pub fn rules(self) -> impl Iterator<Item = (RuleKind, &'a [u8], u32)> {
        let file = self.file;
        let entries = (self.start..).zip(file.entries(self.start..self.end));
        entries.filter_map(move |(at, entry)| {
            let kind = rule_kind(*entry)?;
            Some((kind, file.line(entry.place()).content, file.number(at)))
        })
    }
}

/// A line with a field that the matcher does not enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherLine<'a> {
    /// The field.
    pub field: Field,
    /// Its value, as written.
    pub value: &'a [u8],
    /// The line without its comment and the white space around it.
    pub content: &'a [u8],
    /// True if the line was too long and only its beginning counts.
    pub is_cut: bool,
    /// The line's number, from 1.
    pub line: u32,
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test; a table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use super::*;
    use crate::{ComparisonPath, ParseOptions};

    fn robots(text: &str) -> Robots {
        Robots::parse(text.as_bytes(), ParseOptions::default())
    }

    fn selected(robots: &Robots, chain: &[&str]) -> Selection {
        let chain: Vec<ProductToken> =
            chain.iter().map(|token| ProductToken::new(token).unwrap()).collect();
        robots.selection(&chain)
    }

    /// Returns the numbers of the lines that apply to a crawler.
    fn lines(text: &str, chain: &[&str]) -> Vec<u32> {
        let robots = robots(text);
        let rules = robots.rules(selected(&robots, chain));
        let decide = |line: u32| {
            Some(rules.verdict(&ComparisonPath::new(format!("/{line}").as_bytes()))?.line)
        };
        (1..30).filter(|line| decide(*line) == Some(*line)).collect()
    }

    /// Every rule in these files disallows the number of the line that it stands on.
    #[test]
    fn the_rules_that_apply_to_a_crawler() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[&str], &[u32])] = &[
            ("rfc9309: a group applies to the crawlers that it names", "user-agent: a\ndisallow: /2$", &["a"], &[2]),
            ("rfc9309: whatever the case", "user-agent: AB\ndisallow: /2$", &["aB"], &[2]),
            ("rfc9309: equality, not a search", "user-agent: bot\ndisallow: /2$", &["mybot"], &[]),
            ("rfc9309: nor a prefix", "user-agent: bot\ndisallow: /2$", &["bots"], &[]),
            ("rfc9309: groups of one name are merged", "user-agent: a\ndisallow: /2$\nuser-agent: b\ndisallow: /4$\nuser-agent: a\ndisallow: /6$", &["a"], &[2, 6]),
            ("rfc9309: no group names it, the global groups", "user-agent: *\ndisallow: /2$\nuser-agent: b\ndisallow: /4$\nuser-agent: *\ndisallow: /6$", &["a"], &[2, 6]),
            ("rfc9309: named, only these", "user-agent: *\ndisallow: /2$\nuser-agent: a\ndisallow: /4$", &["a"], &[4]),
            ("rfc9309: even without rules", "user-agent: *\ndisallow: /2$\nuser-agent: a", &["a"], &[]),
            ("rfc9309: several names share a group", "user-agent: a\nuser-agent: b\ndisallow: /3$", &["b"], &[3]),
            ("google: a list of a name and a star is the name's", "user-agent: a\nuser-agent: *\ndisallow: /3$", &["a"], &[3]),
            ("google: and everybody's", "user-agent: a\nuser-agent: *\ndisallow: /3$", &["b"], &[3]),
            ("google: rules before any name apply to no crawler", "disallow: /1$\nuser-agent: *\ndisallow: /3$", &["a"], &[3]),
            ("google: a blank line ends nothing", "user-agent: a\n\ndisallow: /3$\n\n\ndisallow: /6$", &["a"], &[3, 6]),
            ("google: nor does another field", "user-agent: a\ncrawl-delay: 1\nuser-agent: b\ndisallow: /4$", &["a"], &[4]),
            ("google: nor a sitemap", "user-agent: a\nsitemap: https://x/\nuser-agent: b\ndisallow: /4$", &["a"], &[4]),
            ("rfc9309: a rule does", "user-agent: a\nallow: /x\nuser-agent: b\ndisallow: /4$", &["a"], &[]),
            ("google: an empty rule does", "user-agent: a\ndisallow:\nuser-agent: b\ndisallow: /4$", &["a"], &[]),
            ("google: a name ends where letters do", "user-agent: a/1.2\nuser-agent: b*\nuser-agent: c d\ndisallow: /4$", &["c"], &[4]),
            ("google: also before a star", "user-agent: a/1.2\nuser-agent: b*\nuser-agent: c d\ndisallow: /4$", &["b"], &[4]),
            ("google: also before a digit", "user-agent: mj12bot\ndisallow: /2$", &["mj"], &[2]),
            ("google: a star and more is the global group", "user-agent: * x\ndisallow: /2$", &["a"], &[2]),
            ("google: a star with more behind it names no crawler", "user-agent: *x\ndisallow: /2$", &["x"], &[]),
            ("google: an empty name names no crawler", "user-agent:\ndisallow: /2$", &["a"], &[]),
            ("google: and opens a group all the same", "user-agent: a\ndisallow: /2$\nuser-agent:\ndisallow: /4$", &["a"], &[2]),
            ("ours: a token with digits is compared with them", "user-agent: MJ12bot/v1\ndisallow: /2$", &["mj12bot"], &[2]),
            ("ours: one that begins with a digit", "user-agent: 360Spider\ndisallow: /2$", &["360spider"], &[2]),
            ("ours: one with a dot", "user-agent: archive.org_bot\ndisallow: /2$", &["archive.org_bot"], &[2]),
            ("ours: whole", "user-agent: MJ12bots\ndisallow: /2$", &["MJ12bot"], &[]),
            ("google: the first of the chain that is named", "user-agent: b\ndisallow: /2$\nuser-agent: c\ndisallow: /4$", &["a", "b", "c"], &[2]),
            ("google: before the global group", "user-agent: *\ndisallow: /2$\nuser-agent: c\ndisallow: /4$", &["a", "c"], &[4]),
            ("an empty chain has the global group", "user-agent: *\ndisallow: /2$\nuser-agent: c\ndisallow: /4$", &[], &[2]),
        ];
        for (name, text, chain, expected) in cases {
            assert_eq!(lines(text, chain), *expected, "{name}");
        }
    }

    #[test]
    fn selections() {
        let file =
            robots("user-agent: a\nuser-agent: a1\nallow: /\nuser-agent: *\nuser-agent: b\n");
        assert_eq!(selected(&file, &["a1"]), selected(&file, &["x", "A1", "a"]));
        assert_ne!(selected(&file, &["a1"]), selected(&file, &["a"]));
        assert_eq!(selected(&file, &["c"]), Selection::Global);
        assert_eq!(selected(&robots("user-agent: a"), &["c"]), Selection::Nobody);
        assert!(
            file.rules(Selection::Token(99)).is_empty(),
            "a selection of another file selects nothing"
        );
    }

    #[test]
    fn the_deciding_rule_says_where_it_stands() {
        let text = "# x\r\nUser-agent: b\r\nUser-Agent: MJ12bot/1.0\r\n  Disallow :  /t\u{fffd}  # why\r\n".replace('\u{fffd}', "\u{e9}");
        let file = robots(&text);
        let rules = file.rules(selected(&file, &["mj12bot"]));
        let rule = rules.verdict(&ComparisonPath::new("/té".as_bytes())).unwrap();
        assert_eq!(
            (&*rule.text, rule.line, &*rule.group, rule.group_line),
            ("Disallow :  /té", 4, "MJ12bot", 3)
        );
        let rules = file.rules(selected(&file, &["mj"]));
        assert_eq!(&*rules.verdict(&ComparisonPath::new("/té".as_bytes())).unwrap().group, "MJ");
    }

    #[test]
    fn other_fields_belong_to_the_group_above() {
        let file = robots(
            "sitemap: https://x/\nuser-agent: a\ncrawl-delay: 5\ndisallow: /\nclean-param: p\nuser-agent: *\nhost: h\nnoindex: /\n",
        );
        let shown = |others: Vec<OtherLine<'_>>| {
            others.iter().map(|other| (other.field, other.line)).collect::<Vec<_>>()
        };
        let [sitemap, delay, param, host] =
            [(Field::Sitemap, 1), (Field::CrawlDelay, 3), (Field::CleanParam, 5), (Field::Host, 7)];
        assert_eq!(shown(file.others().collect()), [sitemap, delay, param, host]);
        assert_eq!(shown(file.others_of(selected(&file, &["a"])).collect()), [delay, param]);
        assert_eq!(shown(file.others_of(Selection::Global).collect()), [host]);
        assert_eq!(shown(file.others_above_groups().collect()), [sitemap]);
        let named = file.named_others_of(selected(&file, &["A"]));
        let named: Vec<_> = named.map(|(name, other)| (name, other.line)).collect();
        assert_eq!(named, [(&b"a"[..], 3), (b"a", 5)]);
        assert_eq!(file.others().next().unwrap().value, b"https://x/");
    }

    #[test]
    fn groups_are_shown_as_they_stand() {
        let file = robots("user-agent: a/1\nuser-agent: *\nallow: /x\ndisallow:\nuser-agent: b\n");
        let shown: Vec<_> = file
            .groups()
            .map(|group| {
                (group.user_agents().collect::<Vec<_>>(), group.rules().collect::<Vec<_>>())
            })
            .collect();
        let first: (Vec<(&[u8], u32)>, Vec<(RuleKind, &[u8], u32)>) = (
            vec![(b"a/1", 1), (b"*", 2)],
            vec![(RuleKind::Allow, b"allow: /x", 3), (RuleKind::Disallow, b"disallow:", 4)],
        );
        assert_eq!(shown, [first, (vec![(b"b", 5)], vec![])]);
    }
}
