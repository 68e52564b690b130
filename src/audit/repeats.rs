//! Counts of repeated refusals: one line stands for many with the same client and reason.
//!
//! A refusal costs its client nothing, so a client could fill the store with as many as it can send requests. A limited
//! number of refusals a minute is recorded one by one for each client (each address without one) and each reason; the
//! rest are counted, and at the end of the minute one line reports their number. A kill before that loses the count, so
//! `[audit] durability = "strict"` records each refusal instead.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::field;
use crate::client::ClientKey;
use crate::clock::Moment;
use crate::store::{DecisionKind, Party, REFUSALS_REPEATED, RecordSummary};
use crate::text::json::Object;
use crate::text::timestamp;

/// The span over which refusals are counted together.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Clients and reasons with counts of their own; beyond, there is one count for each reason.
const MOST: usize = 4_096;

/// Single records of refusals beyond a client's rate or quota, for each reason in a minute: enough for a diagnosis.
const BEYOND_ITS_RATE: u64 = 10;

/// Counts refusals by client and reason.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    windows: HashMap<(Party, &'static str), Window>,
    /// Time of the last search for ended minutes.
    looked: Moment,
}

/// One minute of one client and one reason.
#[derive(Debug)]
struct Window {
    began: Moment,
    kind: DecisionKind,
    recorded: u64,
    /// Refusals without a record of their own: the first, the last, their number.
    beyond: Option<(Moment, Moment, u64)>,
}

/// A line to be recorded, with its note.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) note: RecordSummary,
    pub(super) text: Vec<u8>,
}

/// The handling of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The refusal gets a record of its own.
    Recorded,
    /// The refusal is counted as the first of its minute: its count has to be reported at the end of the minute.
    CountedFirst,
    /// The refusal is added to a count.
    Counted,
}

/// The number of refusals recorded one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// The configured number.
    Ordinary(u64),
    /// A small number, for a request beyond its client's limits.
    Exceeded,
}

impl Repeats {
    /// Decides on the handling of a refusal, and counts it unless it gets a record of its own. Gives an ended count to
    /// `tell`.
    pub(super) fn admits(
        &mut self,
        note: &RecordSummary,
        allowance: Allowance,
        tell: impl FnOnce(Line),
    ) -> Admission {
        let Some(kind) = note.kind else {
            return Admission::Recorded;
        };
        let most = match allowance {
            Allowance::Ordinary(most) => most,
            Allowance::Exceeded => BEYOND_ITS_RATE,
        };
        let mut key = (note.party.clone(), kind.reason);
        if self.windows.len() >= MOST && !self.windows.contains_key(&key) {
            key.0 = Party::Client(ClientKey::At(OTHERS));
        }
        let window = self.windows.entry(key.clone());
        let window = window.or_insert(Window::at(note.time, kind));
        if window.is_over(note.time) {
            let over = std::mem::replace(window, Window::at(note.time, kind));
            if let Some(line) = over.line(&key.0) {
                tell(line);
            }
        }
        if window.recorded < most {
            window.recorded += 1;
            return Admission::Recorded;
        }
        match &mut window.beyond {
            Some((_, last, count)) => {
                *last = note.time.max(*last);
                *count += 1;
                Admission::Counted
            }
            none => {
                *none = Some((note.time, note.time, 1));
                Admission::CountedFirst
            }
        }
    }

    /// Gives `tell` the counts of ended minutes, or all of them. Called often, it searches once a second.
    pub(super) fn drain(&mut self, now: Moment, all: bool, mut tell: impl FnMut(Line)) {
        let since = now.since(self.looked).max(self.looked.since(now));
        if self.windows.is_empty() || (since < Duration::from_secs(1) && !all) {
            return;
        }
        self.looked = now;
        self.windows.retain(|(party, _), window| {
            let is_over = all || window.is_over(now);
            if is_over && let Some(line) = window.line(party) {
                tell(line);
            }
            !is_over
        });
    }

    /// Tells whether there is a count to report later.
    pub(super) fn is_pending(&self) -> bool {
        self.windows.values().any(|window| window.beyond.is_some())
    }
}

/// The address that stands for all clients without a count of their own.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Window {
    fn at(began: Moment, kind: DecisionKind) -> Window {
        Window {
            began,
            kind,
            recorded: 0,
            beyond: None,
        }
    }

    /// True also if the clock was set back: otherwise the count would wait for that time to come again.
    fn is_over(&self, now: Moment) -> bool {
        now.since(self.began).max(self.began.since(now)) >= WINDOW
    }

    fn line(&self, party: &Party) -> Option<Line> {
        let (first, last, count) = self.beyond?;
        let mut text = Vec::with_capacity(320);
        let mut event = Object::open(&mut text);
        event.plain(field::TIME, &timestamp::rfc3339(last));
        event.plain(field::EVENT, REFUSALS_REPEATED.as_bytes());
        let mut client = event.object(field::CLIENT);
        let (address, name) = match party {
            Party::Client(ClientKey::Named(name)) => (OTHERS, Some(name.as_bytes())),
            Party::Client(ClientKey::At(address)) => (*address, None),
            Party::Strangers | Party::Own => (OTHERS, None),
        };
        client.address(field::ADDRESS, SocketAddr::new(address, 0));
        client.text_or_null(field::NAME, name, NAME);
        client.close();
        event.plain(field::MODE, self.kind.mode.as_bytes());
        event.plain(field::VERDICT, self.kind.verdict.as_bytes());
        event.plain(field::REASON, self.kind.reason.as_bytes());
        event.number(field::COUNT, count);
        event.plain(field::FIRST, &timestamp::rfc3339(first));
        event.plain(field::LAST, &timestamp::rfc3339(last));
        event.close();
        text.push(b'\n');
        let note = RecordSummary {
            time: last,
            party: party.clone(),
            kind: Some(self.kind),
            count,
            sha256: None,
        };
        Some(Line { note, text })
    }
}

/// The longest name, in octets of the line.
const NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    fn note(name: &str, reason: &'static str, after: u64) -> RecordSummary {
        RecordSummary {
            time: NOON + Duration::from_secs(after),
            party: Party::Client(ClientKey::Named(name.into())),
            kind: Some(DecisionKind {
                mode: "enforce",
                verdict: "deny",
                reason,
            }),
            count: 1,
            sha256: None,
        }
    }

    #[test]
    fn refusals_beyond_the_number_of_a_minute_are_one_line() {
        let mut repeats = Repeats::default();
        let mut told = Vec::new();
        let mut admitted = 0;
        let mut see = |note: &RecordSummary| {
            let allowance = Allowance::Ordinary(3);
            let admission = repeats.admits(note, allowance, |line| told.push(line));
            admitted += u64::from(admission == Admission::Recorded);
        };
        for _ in 0..1_000 {
            see(&note("a", "robots_disallow", 0));
        }
        // Another reason, another client: each has its own.
        see(&note("a", "path_guard", 1));
        see(&note("b", "robots_disallow", 1));
        see(&note("a", "robots_disallow", 59));
        see(&note("a", "robots_disallow", 60));
        assert_eq!(admitted, 3 + 1 + 1 + 1);
        let [line] = told.as_slice() else {
            panic!("{told:?}")
        };
        let read: serde_json::Value = serde_json::from_slice(&line.text).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "time": "2026-11-20T12:00:59.000Z", "event": "refusals_repeated",
                "client": {"address": "0.0.0.0:0", "name": "a"}, "mode": "enforce", "verdict": "deny",
                "reason": "robots_disallow", "count": 998, "first": "2026-11-20T12:00:00.000Z",
                "last": "2026-11-20T12:00:59.000Z",
            })
        );
        assert_eq!(line.note.count, 998);
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
                repeats.admits(&note("a", "quota_spent", 0), Allowance::Exceeded, |_| {});
            }
            let mut told = Vec::new();
            repeats.drain(now, all, |line| told.push(line.note.count));
            assert_eq!(told, vec![10; want], "{name}");
            assert_eq!(repeats.is_pending(), want == 0, "{name}");
        }
    }

    #[test]
    fn clients_beyond_the_bound_are_counted_together() {
        let mut repeats = Repeats::default();
        let mut admitted = 0;
        for n in 0..3 * MOST {
            let note = note(&n.to_string(), "robots_disallow", 0);
            let admission = repeats.admits(&note, Allowance::Ordinary(5), |_| {});
            admitted += usize::from(admission == Admission::Recorded);
        }
        assert_eq!(admitted, MOST + 5);
        assert!(repeats.windows.len() <= MOST + 1);
    }
}
