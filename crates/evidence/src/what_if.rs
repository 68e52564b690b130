//! The summary of a what-if: which recorded requests another robots.txt decides otherwise.
//!
//! ```text
//! summary.count(&told, time, &review.otherwise(&told, &file, exempt).await?)   each recorded request
//! summary.groups()                                                                   the changes, by rule
//! ```
//!
//! The summary holds a bounded number of groups, each with a few URLs, so the log may be of any size. What comes beyond is
//! counted. The room knows no IO, clock or log; `crawlgate check --since` reads the store.

use std::collections::{BTreeMap, HashMap};

use super::replay::otherwise::Inapplicable;
use crawlgate_policy::{Decision, Reason, Verdict};
use crawlgate_record::Told;
use crawlgate_robots::Rule;
use crawlgate_system::clock::Moment;

/// Groups of changes that are told apart.
const MAX_GROUPS: usize = 1_000;

/// URLs that a group names.
const EXAMPLES: usize = 3;

/// The counts of a what-if.
#[derive(Debug, Default)]
pub struct WhatIf {
    judged: u64,
    denied: u64,
    allowed: u64,
    beyond: u64,
    exempted: u64,
    exempt: u64,
    groups: HashMap<Key, Group>,
    aside: BTreeMap<Inapplicable, u64>,
}

/// Changes in the same direction, by the same rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The new verdict.
    pub to: Verdict,
    /// The new reason.
    pub reason: Reason,
    /// The rule of the other file that decides; `None` if no rule does.
    pub rule: Option<Rule>,
    /// The grounds of the recorded decision; `None` for requests that were allowed without an exemption, as each has
    /// its own grounds.
    pub was: Option<RecordedDenial>,
    /// Number of requests.
    pub count: u64,
    /// Time of the first.
    pub first: Moment,
    /// Time of the last.
    pub last: Moment,
    /// Some of their URLs, as the records have them.
    pub examples: Vec<String>,
}

/// The grounds of a recorded denial, or of an exemption from one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordedDenial {
    /// The reason code.
    pub reason: String,
    /// The rule, as its file had it.
    pub rule: Option<String>,
    /// The operator's reason for which the client was exempt.
    pub exempt: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    reason: Reason,
    line: Option<u32>,
    was: Option<RecordedDenial>,
}

impl WhatIf {
    /// Counts a request with the decision by the other file. True if that is another one than the recorded.
    pub fn count(
        &mut self,
        one: &Told<'_>,
        time: Moment,
        decision: &Result<Decision, Inapplicable>,
    ) -> bool {
        let decision = match decision {
            Ok(decision) => decision,
            Err(aside) => {
                self.leave_aside(*aside);
                return false;
            }
        };
        self.judged += 1;
        self.exempted += u64::from(one.exempt.is_some());
        self.exempt += u64::from(decision.exempt.is_some());
        let to = decision.verdict();
        if one.verdict == to {
            return false;
        }
        match to {
            Verdict::Allow => self.allowed += 1,
            Verdict::Deny | Verdict::Defer => self.denied += 1,
        }
        let exempt = one.exempt.map(|one| one.reason.to_owned());
        let was = (to == Verdict::Allow || exempt.is_some()).then(|| RecordedDenial {
            reason: one.reason.to_owned(),
            rule: one.rule.map(|rule| rule.text.to_string()),
            exempt,
        });
        let key = Key {
            reason: decision.reason,
            line: decision.rule.as_ref().map(|rule| rule.line),
            was,
        };
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            self.beyond += 1;
            return true;
        }
        let was = key.was.clone();
        let group = self.groups.entry(key).or_insert_with(|| Group {
            to,
            reason: decision.reason,
            rule: decision.rule.clone(),
            was,
            count: 0,
            first: time,
            last: time,
            examples: Vec::new(),
        });
        group.count += 1;
        group.first = group.first.min(time);
        group.last = group.last.max(time);
        if group.examples.len() < EXAMPLES {
            let url = one.url_text();
            if !group.examples.contains(&url) {
                group.examples.push(url);
            }
        }
        true
    }

    /// Counts a request that the other file changes nothing about.
    pub fn leave_aside(&mut self, why: Inapplicable) {
        *self.aside.entry(why).or_default() += 1;
    }

    /// Returns the number of requests that robots.txt decides about.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.judged
    }

    /// Returns the number of requests that were allowed, and would be denied.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.denied
    }

    /// Returns the number of requests that were denied, and would be allowed.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Returns the number of requests of which the record has an exemption.
    #[must_use]
    pub fn exempted(&self) -> u64 {
        self.exempted
    }

    /// Returns the number of requests that the other file disallows to a client that is exempt now.
    #[must_use]
    pub fn exempt(&self) -> u64 {
        self.exempt
    }

    /// Returns the number of requests that would be decided otherwise.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.denied + self.allowed
    }

    /// Returns the number of changes that belong to no group, because there are too many groups.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Returns the number of requests that were left aside, by the reason.
    pub fn aside(&self) -> impl Iterator<Item = (Inapplicable, u64)> {
        self.aside.iter().map(|(why, count)| (*why, *count))
    }

    /// Returns the changes: new denials first, then by the number of requests.
    #[must_use]
    pub fn groups(&self) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.groups.values().collect();
        groups.sort_by_key(|group| {
            let line = group.rule.as_ref().map(|rule| rule.line);
            let was = group.was.as_ref().map(|was| (&was.rule, &was.reason));
            let most_first = std::cmp::Reverse(group.count);
            (group.to == Verdict::Allow, most_first, line, group.reason.as_str(), was)
        });
        groups
    }
}
