//! Counts of matching decisions by a common trait.

use std::collections::HashMap;
use std::ops::Range;

use super::Search;
use super::words::{origin, rule, shape_facts, shown};
use crate::{GroupBy, GroupCount};
use crawlgate_block::{Block, BlockError, NO_WORD, WordKind};
use crawlgate_record::Decision;
use crawlgate_system::clock::Moment;

/// Counts of decisions by key.
#[derive(Debug)]
pub struct GroupCounts {
    key: GroupBy,
    /// By the parts of the key; [`NUL`](END) ends the origin before a rule.
    groups: HashMap<String, Group, ahash::RandomState>,
    /// The key of the group counted last.
    text: String,
}

/// The end of an origin in a key. Origins are canonical: none contains it.
const END: char = '\0';

/// A number of decisions, and their span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Group {
    pub(crate) const NOTHING: Self = Self { count: 0, first: u64::MAX, last: 0 };

    /// Counts one decision.
    #[inline]
    pub(crate) fn count(&mut self, time: u64) {
        self.add(Self { count: 1, first: time, last: time });
    }

    /// Adds the decisions of another group.
    #[inline]
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

impl GroupCounts {
    /// Returns counts of nothing.
    #[must_use]
    pub fn new(key: GroupBy) -> Self {
        Self { key, groups: HashMap::default(), text: String::new() }
    }

    /// Counts one decision.
    pub fn count(&mut self, decision: &Decision<'_>) {
        let mut group = Group::default();
        group.count(decision.time());
        let rule = decision.rule.map(|rule| rule.text.kept);
        self.add(decision.reason, decision.origin, rule, group);
    }

    /// Counts the matching decisions of a block within `range`.
    ///
    /// # Errors
    /// When a section of the block is damaged. A part of its decisions may then be counted.
    pub fn count_block(
        &mut self,
        search: &Search,
        block: &Block<'_>,
        range: Range<usize>,
        acknowledged: impl Fn(u32) -> bool,
    ) -> Result<(), BlockError> {
        let keys = block.keys();
        let places = search.places(block, range, false, acknowledged);
        let word = |column: &[u32], row: usize| column.get(row).copied().unwrap_or(NO_WORD);
        let time = |row: usize| keys.time.get(row).copied().unwrap_or_default();
        let words = |kind| block.words(kind).collect::<Vec<_>>();
        match self.key {
            GroupBy::Origin => {
                let words = words(WordKind::Origin);
                let mut groups = vec![Group::default(); words.len() + 1];
                let row = |row| {
                    // The last group is that of decisions without an origin.
                    let origin = (word(&keys.origin, row) as usize).min(words.len());
                    if let Some(group) = groups.get_mut(origin) {
                        group.count(time(row));
                    }
                };
                places.each(row)?;
                for (nth, group) in groups.into_iter().enumerate() {
                    self.add("", words.get(nth).and_then(origin), None, group);
                }
            }
            GroupBy::Reason => {
                let words = words(WordKind::Shape);
                let mut groups = vec![Group::default(); words.len()];
                let row = |row| {
                    let shape = word(&keys.shape, row);
                    if let Some(group) = groups.get_mut(shape as usize) {
                        group.count(time(row));
                    }
                };
                places.each(row)?;
                for (shape, group) in words.iter().zip(groups) {
                    let facts = shape_facts(shape);
                    self.add(facts.map_or("", |facts| facts.reason), None, None, group);
                }
            }
            GroupBy::Rule => {
                let (origins, rules) = (words(WordKind::Origin), words(WordKind::Rule));
                let mut groups: HashMap<[u32; 2], Group, ahash::RandomState> = HashMap::default();
                let row = |row| {
                    let key = [word(&keys.origin, row), word(&keys.rule, row)];
                    groups.entry(key).or_default().count(time(row));
                };
                places.each(row)?;
                for ([of_origin, of_rule], group) in groups {
                    let of_origin = origins.get(of_origin as usize).and_then(origin);
                    let of_rule = rules.get(of_rule as usize).and_then(rule);
                    self.add("", of_origin, of_rule, group);
                }
            }
        }
        Ok(())
    }

    /// Adds decisions with these traits, of which the key takes its own.
    pub(crate) fn add(
        &mut self,
        reason: &str,
        origin: Option<&str>,
        rule: Option<&[u8]>,
        group: Group,
    ) {
        if group.count == 0 {
            return;
        }
        let text = &mut self.text;
        text.clear();
        match self.key {
            GroupBy::Reason => text.push_str(reason),
            GroupBy::Origin => text.push_str(origin.unwrap_or_default()),
            GroupBy::Rule => {
                text.push_str(origin.unwrap_or_default());
                text.push(END);
                text.push_str(&shown(rule.unwrap_or_default()));
            }
        }
        match self.groups.get_mut(text.as_str()) {
            Some(known) => known.add(group),
            None => drop(self.groups.insert(text.clone(), group)),
        }
    }

    /// Returns the groups, the most frequent first; groups of equal size by name.
    #[must_use]
    pub fn into_most_frequent(self, limit: usize) -> Vec<GroupCount> {
        let parts = |text: String| {
            let most = match self.key {
                GroupBy::Origin | GroupBy::Reason => 1,
                GroupBy::Rule => 2,
            };
            text.splitn(most, END).map(str::to_owned).collect()
        };
        let mut groups: Vec<(String, Group)> = self.groups.into_iter().collect();
        groups.sort_unstable_by(|(a, of_a), (b, of_b)| {
            of_b.count.cmp(&of_a.count).then_with(|| a.cmp(b))
        });
        groups.truncate(limit);
        let group_count = |(text, group): (String, Group)| GroupCount {
            key: parts(text),
            count: group.count,
            first: Moment::from_millis(group.first),
            last: Moment::from_millis(group.last),
        };
        groups.into_iter().map(group_count).collect()
    }
}
