//! Counts of matching decisions by a common trait.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::Search;
use super::words::{origin, rule, shape_facts, shown};
use crate::{GroupBy, GroupCount};
use crawlgate_block::{Block, BlockError, NO_WORD, WordKind};
use crawlgate_record::{Decision, Entry};
use crawlgate_system::clock::Moment;

/// Counts of decisions by key.
#[derive(Debug)]
pub struct GroupCounts {
    key: Key,
    /// By the parts of the key; [`NUL`](END) ends each part but the last.
    groups: HashMap<String, Group, ahash::RandomState>,
    /// The key of the group counted last.
    text: String,
}

/// The traits that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    By(GroupBy),
    /// Origin, reason, rule.
    RuleAndReason,
}

/// The end of an origin or a reason in a key. Origins are canonical, and reasons our own codes: none contains it.
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
    pub(crate) const NOTHING: Self = Self {
        count: 0,
        first: u64::MAX,
        last: 0,
    };

    /// Counts one decision.
    #[inline]
    pub(crate) fn count(&mut self, time: u64) {
        self.add(Self {
            count: 1,
            first: time,
            last: time,
        });
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
        Self::by(Key::By(key))
    }

    /// Returns counts of nothing, by origin, reason and rule.
    pub(crate) fn of_rules_and_reasons() -> Self {
        Self::by(Key::RuleAndReason)
    }

    fn by(key: Key) -> Self {
        Self {
            key,
            groups: HashMap::default(),
            text: String::new(),
        }
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
        let mut others = Vec::new();
        let other = |entry: &Entry<'_>| {
            if let Entry::Decision(decision) = entry {
                let mut counts = Self::by(self.key);
                counts.count(decision);
                others.push(counts);
            }
        };
        match self.key {
            Key::By(GroupBy::Origin) => {
                let words = words(WordKind::Origin);
                let mut groups = vec![Group::default(); words.len() + 1];
                let row = |row| {
                    // The last group is that of decisions without an origin.
                    let origin = (word(&keys.origin, row) as usize).min(words.len());
                    if let Some(group) = groups.get_mut(origin) {
                        group.count(time(row));
                    }
                };
                places.each(row, other)?;
                for (nth, group) in groups.into_iter().enumerate() {
                    self.add("", words.get(nth).and_then(origin), None, group);
                }
            }
            Key::By(GroupBy::Reason) => {
                let words = words(WordKind::Shape);
                let mut groups = vec![Group::default(); words.len()];
                let row = |row| {
                    let shape = word(&keys.shape, row);
                    if let Some(group) = groups.get_mut(shape as usize) {
                        group.count(time(row));
                    }
                };
                places.each(row, other)?;
                for (shape, group) in words.iter().zip(groups) {
                    let facts = shape_facts(shape);
                    self.add(facts.map_or("", |facts| facts.reason), None, None, group);
                }
            }
            Key::By(GroupBy::Rule) | Key::RuleAndReason => {
                let (origins, rules) = (words(WordKind::Origin), words(WordKind::Rule));
                let shapes = words(WordKind::Shape);
                let mut groups: HashMap<[u32; 3], Group, ahash::RandomState> = HashMap::default();
                let row = |row| {
                    let shape = match self.key {
                        Key::RuleAndReason => word(&keys.shape, row),
                        Key::By(_) => NO_WORD,
                    };
                    let key = [word(&keys.origin, row), word(&keys.rule, row), shape];
                    groups.entry(key).or_default().count(time(row));
                };
                places.each(row, other)?;
                for ([of_origin, of_rule, shape], group) in groups {
                    let of_origin = origins.get(of_origin as usize).and_then(origin);
                    let of_rule = rules.get(of_rule as usize).and_then(rule);
                    let facts = shapes.get(shape as usize).and_then(shape_facts);
                    let reason = facts.map_or("", |facts| facts.reason);
                    self.add(reason, of_origin, of_rule, group);
                }
            }
        }
        for (key, group) in others.into_iter().flat_map(|counts| counts.groups) {
            self.groups.entry(key).or_default().add(group);
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
            Key::By(GroupBy::Reason) => text.push_str(reason),
            Key::By(GroupBy::Origin) => text.push_str(origin.unwrap_or_default()),
            Key::By(GroupBy::Rule) | Key::RuleAndReason => {
                text.push_str(origin.unwrap_or_default());
                text.push(END);
                if self.key == Key::RuleAndReason {
                    text.push_str(reason);
                    text.push(END);
                }
                text.push_str(&shown(rule.unwrap_or_default()));
            }
        }
        match self.groups.get_mut(text.as_str()) {
            Some(known) => known.add(group),
            None => drop(self.groups.insert(text.clone(), group)),
        }
    }

    /// Leaves the most frequent groups alone, at most `most` of them, once there are twice as many. A group that went and
    /// comes back is counted from there on.
    pub(crate) fn shrink(&mut self, most: usize) {
        if self.groups.len() <= most.saturating_mul(2) {
            return;
        }
        let groups = std::mem::take(&mut self.groups);
        let mut groups: Vec<(String, Group)> = groups.into_iter().collect();
        if let Some(last) = most.checked_sub(1) {
            groups.select_nth_unstable_by_key(last, |(_, group)| Reverse(group.count));
        }
        groups.truncate(most);
        self.groups.extend(groups);
    }

    /// Returns the groups, the most frequent first; groups of equal size by name.
    #[must_use]
    pub fn into_most_frequent(self, limit: usize) -> Vec<GroupCount> {
        let parts = |text: String| {
            let most = match self.key {
                Key::By(GroupBy::Origin | GroupBy::Reason) => 1,
                Key::By(GroupBy::Rule) => 2,
                Key::RuleAndReason => 3,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_groups_stay_when_there_are_too_many() {
        for (most, left) in [(3, 5), (2, 2), (1, 1), (0, 0)] {
            let mut counts = GroupCounts::of_rules_and_reasons();
            for count in 1..=5 {
                let rule = format!("Disallow: /{count}");
                let group = Group {
                    count,
                    first: 1,
                    last: 2,
                };
                counts.add("deny\u{e9}", None, Some(rule.as_bytes()), group);
            }
            counts.shrink(most);
            let groups = counts.into_most_frequent(9);
            let found: Vec<_> = groups.iter().map(|group| group.key.join("|")).collect();
            let want = (1..=5).rev().take(left);
            let want: Vec<_> = want
                .map(|count| format!("|deny\u{e9}|Disallow: /{count}"))
                .collect();
            assert_eq!(found, want, "{most}");
        }
    }
}
