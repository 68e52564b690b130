//! Counts of repeated refusals: one entry stands for many with the same client and reason.
//!
//! A refusal costs its client nothing. By default each denial is recorded all the same: it is what the log is for, the store
//! takes more of them than a client can cause, and `[audit] max_size` bounds the disk. What tells of no denial (a request that
//! is put off, or has no right credentials) is recorded one by one up to a number a minute, for each client (each address
//! without one) and each reason; the rest are counted, and at the end of the minute one entry reports their number. `[audit]
//! refusals_per_minute` sets such a number for denials, too. A kill before the end of the minute loses the count, so `[audit]
//! durability = "strict"` records each refusal instead.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crawlgate_record::{Decision, Event, EventKind, Mode, Repeated, Verdict, is_of_unknown_client};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;
use crawlgate_turns::client::network_of;

/// The span over which refusals are counted together.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Single records of refusals that are no denials of a client, for each reason in a minute.
const NO_DENIALS: u64 = 6_000;

/// Clients and reasons with counts of their own; beyond, there is one count for each reason.
const MAX_CLIENTS: usize = 4_096;

/// Single records of refusals beyond a client's rate or quota, for each reason in a minute: enough for a diagnosis.
const BEYOND_ITS_RATE: u64 = 10;

/// Counts refusals by client and reason. A look-up by name allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    named: HashMap<Box<str>, Vec<Window>>,
    unnamed: HashMap<Unnamed, Vec<Window>>,
    /// Number of windows.
    count: usize,
    /// Time of the last search for ended minutes.
    looked: Moment,
}

/// A client without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unnamed {
    /// The client at this address.
    At(IpAddr),
    /// All requests without an identified client.
    Unidentified,
}

/// The client of a refusal.
#[derive(Clone, Copy, Debug)]
enum ClientRef<'a> {
    Named(&'a str),
    Unnamed(Unnamed),
}

/// One minute of one client and one reason.
#[derive(Debug)]
struct Window {
    began: Moment,
    mode: Mode,
    verdict: Verdict,
    reason: Box<str>,
    recorded: u64,
    /// Refusals without a record of their own: the first, the last, their number.
    beyond: Option<(Moment, Moment, u64)>,
}

/// A refusal, as far as counting needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal<'a> {
    time: Moment,
    mode: Mode,
    verdict: Verdict,
    reason: &'a str,
    who: ClientRef<'a>,
}

impl<'a> Refusal<'a> {
    /// Returns the refusal that this decision is.
    pub(super) fn of(decision: &Decision<'a>) -> Self {
        let is_unidentified = is_of_unknown_client(decision.reason);
        Self {
            time: Moment::from_millis(decision.time()),
            mode: decision.mode,
            verdict: decision.verdict,
            reason: decision.reason,
            who: match decision.client_name {
                _ if is_unidentified => ClientRef::Unnamed(Unnamed::Unidentified),
                Some(name) => ClientRef::Named(name.kept),
                None => ClientRef::Unnamed(Unnamed::At(network_of(decision.client.ip()))),
            },
        }
    }
}

/// The handling of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The refusal gets its own record.
    Recorded,
    /// The refusal is counted as the first of its minute: its count has to be reported at the end of the minute.
    CountedFirst,
    /// The refusal is added to a count.
    Counted,
}

/// The limit that a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeds {
    /// No limit.
    Nothing,
    /// The client's rate or its quota.
    ItsAllowance,
}

/// The number of refusals recorded one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// The configured number.
    Ordinary(u64),
    /// A small number, for a request beyond its client's limits.
    Exceeded,
}

impl Allowance {
    /// Returns the allowance of a refusal, where each client and reason has this limit; `None` without any. `u64::MAX` is no
    /// limit.
    pub(super) fn of(decision: &Decision<'_>, exceeds: Exceeds, limit: u64) -> Option<Allowance> {
        match exceeds {
            Exceeds::ItsAllowance => Some(Allowance::Exceeded),
            Exceeds::Nothing if !decision.is_denial_of_a_client() => {
                Some(Allowance::Ordinary(limit.min(NO_DENIALS)))
            }
            Exceeds::Nothing => (limit < u64::MAX).then_some(Allowance::Ordinary(limit)),
        }
    }
}

impl Repeats {
    /// Decides on the handling of a refusal, and counts it unless it gets its own record. Gives the entry of an
    /// ended count to `tell`.
    pub(super) fn admits(
        &mut self,
        refusal: &Refusal<'_>,
        allowance: Allowance,
        tell: impl FnOnce(Vec<u8>),
    ) -> Admission {
        let limit = match allowance {
            Allowance::Ordinary(limit) => limit,
            Allowance::Exceeded => BEYOND_ITS_RATE,
        };
        let Some((who, window)) = self.window(refusal) else {
            return Admission::Recorded;
        };
        if window.is_over(refusal.time) {
            let over = std::mem::replace(window, Window::at(refusal));
            if let Some(entry) = over.entry(who) {
                tell(entry);
            }
        }
        if window.recorded < limit {
            window.recorded += 1;
            return Admission::Recorded;
        }
        match &mut window.beyond {
            Some((_, last, count)) => {
                *last = refusal.time.max(*last);
                *count += 1;
                Admission::Counted
            }
            none => {
                *none = Some((refusal.time, refusal.time, 1));
                Admission::CountedFirst
            }
        }
    }

    /// Returns the window of a refusal, made if need be, and the client that it counts for.
    fn window<'w>(&mut self, refusal: &Refusal<'w>) -> Option<(ClientRef<'w>, &mut Window)> {
        let is_known = |windows: &Vec<Window>| windows.iter().any(|one| one.is_of(refusal));
        let is_known = match refusal.who {
            ClientRef::Named(name) => self.named.get(name).is_some_and(is_known),
            ClientRef::Unnamed(who) => self.unnamed.get(&who).is_some_and(is_known),
        };
        let who = if is_known || self.count < MAX_CLIENTS {
            refusal.who
        } else {
            ClientRef::Unnamed(Unnamed::At(OTHERS))
        };
        let windows = match who {
            ClientRef::Named(name) => {
                if !self.named.contains_key(name) {
                    self.named.insert(name.into(), Vec::new());
                }
                self.named.get_mut(name)?
            }
            ClientRef::Unnamed(who) => self.unnamed.entry(who).or_default(),
        };
        if !windows.iter().any(|one| one.is_of(refusal)) {
            windows.push(Window::at(refusal));
            self.count += 1;
        }
        let window = windows.iter_mut().find(|one| one.is_of(refusal));
        window.map(|window| (who, window))
    }

    /// Gives `tell` the entries of ended minutes, or of all. Called often, it searches once a second.
    pub(super) fn drain(&mut self, now: Moment, all: bool, mut tell: impl FnMut(Vec<u8>)) {
        let since = now.since(self.looked).max(self.looked.since(now));
        if self.count == 0 || (since < Duration::from_secs(1) && !all) {
            return;
        }
        self.looked = now;
        let mut count = 0;
        let mut stays = |who: ClientRef<'_>, windows: &mut Vec<Window>| {
            windows.retain(|window| {
                let is_over = all || window.is_over(now);
                if is_over && let Some(entry) = window.entry(who) {
                    tell(entry);
                }
                !is_over
            });
            count += windows.len();
            !windows.is_empty()
        };
        self.named.retain(|name, windows| stays(ClientRef::Named(name), windows));
        self.unnamed.retain(|who, windows| stays(ClientRef::Unnamed(*who), windows));
        self.count = count;
    }

    /// Gives `tell` the entries of what was counted so far. Single records that a minute had are not given again.
    pub(super) fn tell_so_far(&mut self, mut tell: impl FnMut(Vec<u8>)) {
        let mut of = |who: ClientRef<'_>, windows: &mut Vec<Window>| {
            for window in windows {
                if let Some(entry) = window.entry(who) {
                    tell(entry);
                }
                window.beyond = None;
            }
        };
        for (name, windows) in &mut self.named {
            of(ClientRef::Named(name), windows);
        }
        for (who, windows) in &mut self.unnamed {
            of(ClientRef::Unnamed(*who), windows);
        }
    }

    /// Tells whether there is a count to report later.
    pub(super) fn is_pending(&self) -> bool {
        let mut all = self.named.values().chain(self.unnamed.values()).flatten();
        all.any(|window| window.beyond.is_some())
    }
}

/// The address that stands for all clients without a count of their own.
pub(super) const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Window {
    fn at(refusal: &Refusal<'_>) -> Window {
        Window {
            began: refusal.time,
            mode: refusal.mode,
            verdict: refusal.verdict,
            reason: refusal.reason.into(),
            recorded: 0,
            beyond: None,
        }
    }

    fn is_of(&self, refusal: &Refusal<'_>) -> bool {
        *self.reason == *refusal.reason
    }

    /// True also if the clock was set back: otherwise the count would wait for that time to come again.
    fn is_over(&self, now: Moment) -> bool {
        now.since(self.began).max(self.began.since(now)) >= WINDOW
    }

    /// Returns the entry of the count, unless nothing was counted.
    fn entry(&self, who: ClientRef<'_>) -> Option<Vec<u8>> {
        let (first, last, count) = self.beyond?;
        let (client, client_name) = match who {
            ClientRef::Named(name) => (OTHERS, Some(name.into())),
            ClientRef::Unnamed(Unnamed::At(address)) => (address, None),
            ClientRef::Unnamed(Unnamed::Unidentified) => (OTHERS, None),
        };
        let event = Event {
            id: DecisionId::mint(last).octets(),
            kind: EventKind::Repeated(Repeated {
                mode: self.mode,
                verdict: self.verdict,
                reason: &self.reason,
                client,
                client_name,
                count,
                first: first.as_millis(),
                last: last.as_millis(),
            }),
        };
        let mut entry = Vec::new();
        event.encode(&mut entry);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crawlgate_record::Entry;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    fn refusal<'a>(name: &'a str, reason: &'static str, after: u64) -> Refusal<'a> {
        Refusal {
            time: NOON + Duration::from_secs(after),
            mode: Mode::Enforce,
            verdict: Verdict::Deny,
            reason,
            who: ClientRef::Named(name),
        }
    }

    fn count(entry: &[u8]) -> u64 {
        match Entry::read(entry).unwrap() {
            Entry::Event(Event { kind: EventKind::Repeated(Repeated { count, .. }), .. }) => count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refusals_beyond_the_number_of_a_minute_are_one_line() {
        let mut repeats = Repeats::default();
        let mut entries = Vec::new();
        let mut admitted = 0;
        let mut see = |refusal: &Refusal<'_>| {
            let allowance = Allowance::Ordinary(3);
            let admission = repeats.admits(refusal, allowance, |entry| entries.push(entry));
            admitted += u64::from(admission == Admission::Recorded);
        };
        for _ in 0..1_000 {
            see(&refusal("a", "robots_disallow", 0));
        }
        // Another reason, another client: each has its own.
        see(&refusal("a", "path_guard", 1));
        see(&refusal("b", "robots_disallow", 1));
        see(&refusal("a", "robots_disallow", 59));
        see(&refusal("a", "robots_disallow", 60));
        assert_eq!(admitted, 3 + 1 + 1 + 1);
        let [entry] = entries.as_slice() else { panic!("{entries:?}") };
        let mut line = Vec::new();
        let read = Entry::read(entry).unwrap();
        crawlgate_record::write_line(&read, &HashMap::new(), &mut line).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "time": "2026-11-20T12:00:59.000Z", "event": "refusals_repeated",
                "client": {"address": "0.0.0.0:0", "name": "a"}, "mode": "enforce", "verdict": "deny",
                "reason": "robots_disallow", "count": 998, "first": "2026-11-20T12:00:00.000Z",
                "last": "2026-11-20T12:00:59.000Z",
            })
        );
    }

    #[test]
    fn a_count_is_recorded_at_the_end_of_its_minute_or_of_the_log() {
        let after = |secs| NOON + Duration::from_secs(secs);
        for (name, now, all, want) in [
            ("not yet", after(30), false, 0),
            ("over", after(60), false, 1),
            ("a clock set back", NOON - WINDOW, false, 1),
            ("closed", after(1), true, 1),
        ] {
            let mut repeats = Repeats::default();
            for _ in 0..20 {
                repeats.admits(&refusal("a", "quota_spent", 0), Allowance::Exceeded, |_| {});
            }
            let mut entries = Vec::new();
            repeats.drain(now, all, |entry| entries.push(count(&entry)));
            assert_eq!(entries, vec![10; want], "{name}");
            assert_eq!(repeats.is_pending(), want == 0, "{name}");
        }
    }

    #[test]
    fn clients_beyond_the_bound_are_counted_together() {
        let mut repeats = Repeats::default();
        let mut admitted = 0;
        for n in 0..3 * MAX_CLIENTS {
            let name = n.to_string();
            let refusal = refusal(&name, "robots_disallow", 0);
            let admission = repeats.admits(&refusal, Allowance::Ordinary(5), |_| {});
            admitted += usize::from(admission == Admission::Recorded);
        }
        assert_eq!(admitted, MAX_CLIENTS + 5);
        assert_eq!(repeats.count, MAX_CLIENTS + 1);
    }
}
