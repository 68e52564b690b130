//! The turns that the engine of a fleet has reserved for this instance at one origin, until they are used.
//!
//! A turn is used when it is due, or shortly after: the next turns do not wait for one that is late, so a turn that is
//! used much later would come close to them. It is lost instead, as is every turn in hand when trouble becomes known.
//!
//! Pure: moments go in and come out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::bound::Group;
use super::slots::Slot;
use crate::fleet::EngineTime;
use crate::fleet::reservation::{ENGINE_RETRY, LATE, NEAR, Reserved};
use crawlgate_system::clock::Uptime;

/// The least time between two questions for turns that are too far ahead.
const SOON: Duration = Duration::from_millis(10);

/// Groups that are kept.
const GROUPS: usize = 16;

/// The turns in hand at one origin.
#[derive(Debug, Default)]
pub(super) struct Grants {
    groups: BTreeMap<Option<Group>, GroupGrants>,
    /// Counts the times at which the turns became void. An answer to an earlier question is void, too.
    epoch: u64,
}

/// The turns of one group of the robots.txt.
#[derive(Debug, Default)]
struct GroupGrants {
    grants: VecDeque<Grant>,
    question: QuestionState,
    /// The earliest time of a turn that is not in hand, as far as the engine has told.
    next: Uptime,
    /// The latest time until which a request waits.
    latest: Uptime,
}

/// The state of the questions for turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionState {
    /// The next one may be asked from this time on. True if a new request does not make it earlier.
    NotBefore(Uptime, bool),
    /// One is under way.
    Asked,
}

impl Default for QuestionState {
    fn default() -> QuestionState {
        QuestionState::NotBefore(Uptime::default(), false)
    }
}

/// A question for turns that the engine was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenReservation {
    /// The epoch in which it was asked.
    pub(super) epoch: u64,
    /// Its horizon.
    pub(super) horizon: Duration,
    /// True if a request may wait longer than that.
    pub(super) is_cut: bool,
}

/// A turn in hand.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) due: Uptime,
    /// Its moment in the engine, which names it.
    pub(super) at: EngineTime,
    pub(super) slot: Option<Slot>,
}

/// The next step for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A turn is due.
    Go,
    /// Turns are to be reserved, the first of them by this time. The number is that of the epoch.
    Ask(Uptime, u64),
    /// Nothing, until this time.
    Wait(Uptime),
    /// Nothing, until the engine has answered.
    AwaitReply,
}

impl Grants {
    /// Drops turns that are too late, and groups without any.
    pub(super) fn settle(&mut self, now: Uptime) {
        for of_group in self.groups.values_mut() {
            while of_group.grants.front().is_some_and(|grant| grant.due + LATE < now) {
                of_group.grants.pop_front();
            }
        }
        if self.groups.len() > GROUPS {
            self.groups.retain(|_, of_group| {
                !of_group.grants.is_empty()
                    || of_group.question == QuestionState::Asked
                    || of_group.latest > now
            });
        }
    }

    /// Returns the present epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Makes all turns in hand void, and those that are on their way.
    pub(super) fn void(&mut self) {
        self.epoch += 1;
        for of_group in self.groups.values_mut() {
            of_group.grants.clear();
            of_group.next = Uptime::default();
            if of_group.question != QuestionState::Asked {
                of_group.question = QuestionState::NotBefore(Uptime::default(), false);
            }
        }
    }

    /// Records that a request waits until `latest`.
    pub(super) fn waits(&mut self, group: Option<&Group>, latest: Uptime) {
        let of_group = self.of_group(group);
        of_group.latest = of_group.latest.max(latest);
        if let QuestionState::NotBefore(at, false) = &mut of_group.question {
            *at = Uptime::default();
        }
    }

    /// Tells what is to be done for a group.
    pub(super) fn next(&self, group: Option<&Group>, now: Uptime) -> Next {
        let Some(of_group) = self.get(group) else {
            return Next::Ask(now, self.epoch);
        };
        match (of_group.grants.front(), of_group.question) {
            (Some(grant), _) if grant.due <= now => Next::Go,
            (Some(grant), _) => Next::Wait(grant.due),
            (None, QuestionState::Asked) => Next::AwaitReply,
            (None, QuestionState::NotBefore(at, _)) if at <= now => {
                Next::Ask(of_group.latest, self.epoch)
            }
            (None, QuestionState::NotBefore(at, _)) => Next::Wait(at),
        }
    }

    /// Returns the earliest time at which a request may go, as far as is known.
    pub(super) fn earliest(&self, group: Option<&Group>) -> Uptime {
        let of_group = self.get(group);
        of_group.map_or(Uptime::default(), |of_group| match of_group.grants.front() {
            Some(grant) => grant.due,
            None => of_group.next,
        })
    }

    /// Takes a turn that is due.
    pub(super) fn take(&mut self, group: Option<&Group>, now: Uptime) -> Option<Grant> {
        let of_group = self.groups.get_mut(&group.cloned())?;
        match of_group.grants.front() {
            Some(grant) if grant.due <= now => of_group.grants.pop_front(),
            _ => None,
        }
    }

    /// Records that turns are being reserved.
    pub(super) fn asked(&mut self, group: Option<&Group>) {
        self.of_group(group).question = QuestionState::Asked;
    }

    /// Takes in the answer to a question, which arrived now, with the slots of its turns.
    pub(super) fn answered(
        &mut self,
        group: Option<&Group>,
        asked: OpenReservation,
        reserved: &Reserved,
        slots: Vec<Slot>,
        now: Uptime,
    ) {
        let is_void = asked.epoch != self.epoch;
        let of_group = self.of_group(group);
        if is_void {
            of_group.question = QuestionState::NotBefore(now, false);
            return;
        }
        of_group.next = now + reserved.next;
        let horizon = if reserved.is_of_group { asked.horizon.min(NEAR) } else { asked.horizon };
        of_group.question = match (reserved.turns.is_empty(), reserved.is_full) {
            (false, false) => QuestionState::NotBefore(now, false),
            (_, true) => {
                of_group.next = Uptime::default();
                QuestionState::NotBefore(now + ENGINE_RETRY, true)
            }
            (true, false) => {
                let wait = reserved.next.saturating_sub(horizon).max(SOON);
                QuestionState::NotBefore(now + wait, reserved.is_of_group || asked.is_cut)
            }
        };
        let mut slots = slots.into_iter();
        of_group.grants.extend(reserved.turns.iter().map(|turn| Grant {
            // Turns of one millisecond go together, as they do without a fleet.
            due: (now + turn.after).up_to_millis(),
            at: turn.at,
            slot: slots.next(),
        }));
    }

    /// Records that a question has no answer.
    pub(super) fn unanswered(&mut self, group: Option<&Group>, now: Uptime) {
        self.of_group(group).question = QuestionState::NotBefore(now + ENGINE_RETRY, true);
    }

    /// Records that a slot is free: groups that waited for one ask again.
    pub(super) fn has_room(&mut self) {
        for of_group in self.groups.values_mut() {
            if let QuestionState::NotBefore(at, _) = &mut of_group.question
                && of_group.next == Uptime::default()
            {
                *at = Uptime::default();
            }
        }
    }

    fn get(&self, group: Option<&Group>) -> Option<&GroupGrants> {
        self.groups.get(&group.cloned())
    }

    fn of_group(&mut self, group: Option<&Group>) -> &mut GroupGrants {
        self.groups.entry(group.cloned()).or_default()
    }
}
