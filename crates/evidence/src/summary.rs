//! A summary of a run, in a few lines. [`Facts`] are the same for programs.
//!
//! Denials are counted by their [`Outcome`]: what the site disallows, what cannot be judged because its robots.txt is
//! unreachable, and what is refused here.

mod distrust;
mod facts;
mod mismatch;

pub use self::distrust::EndedSession;
pub use self::facts::{Codes, Denial, Facts, OriginFacts};
pub use self::mismatch::Mismatched;

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::{self, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use self::distrust::{EndedSessions, Line};
use self::facts::Remembered;
use self::mismatch::Mismatches;
use super::grounds::Grounds;
use crawlgate_policy::{Mode, Outcome, Verdict};
use crawlgate_record::Decision;
use crawlgate_robots::ProductToken;
use crawlgate_text::json::misleads;

/// Origins with counts of their own; later ones are counted together.
const ORIGINS: usize = 10_000;

/// Rules with counts of their own for one origin.
const RULES: usize = 8;

/// Origins in the text.
const MAX_SHOWN: usize = 10;

/// Counts records. Its [`Display`](fmt::Display) is a short text for people, without a line feed at its end.
#[derive(Debug, Default)]
pub struct Summary {
    /// Apart from the rest, because only this counter is on the fast way.
    forwarded: AtomicU64,
    /// Counted without the lock: each request of a run may be one.
    mismatched: Mismatches,
    ended_sessions: EndedSessions,
    rest: Mutex<Rest>,
}

#[derive(Debug, Default)]
struct Rest {
    /// Denials by reason.
    denied: CodeCounts,
    /// The same, in the order of [`Outcome::DENIALS`].
    kinds: [CodeCounts; KINDS],
    deferred: CodeCounts,
    failed: CodeCounts,
    /// Requests that went out in report mode and would have been denied or deferred.
    reported: CodeCounts,
    origins: HashMap<String, Denials>,
    denied_elsewhere: u64,
    first: Vec<Remembered>,
}

/// Counts by one of our codes, of which there are few.
#[derive(Debug, Default)]
struct CodeCounts(Vec<(String, u64)>);

/// The denials of one origin, in the order of [`Outcome::DENIALS`].
#[derive(Debug, Default)]
struct Denials([OfKind; KINDS]);

/// The denials of one origin with one outcome.
#[derive(Debug, Default)]
struct OfKind {
    count: u64,
    /// The rules that decided, or else the causes.
    grounds: CodeCounts,
}

const KINDS: usize = Outcome::DENIALS.len();

/// The words of the text for each of [`Outcome::DENIALS`], and the heading of its origins.
const WORDS: [(&str, &str); KINDS] = [
    ("disallowed", "most disallowed origins"),
    ("unreachable", "unreachable origins"),
    ("refused here", "origins of what was refused here"),
];

/// Returns the place of a denial's outcome in [`Outcome::DENIALS`].
fn place_of(outcome: Outcome) -> usize {
    let place = Outcome::DENIALS.iter().position(|one| *one == outcome);
    place.unwrap_or_default()
}

impl Summary {
    /// Counts one exchange.
    pub fn count(&self, decision: &Decision<'_>, grounds: &Grounds<'_>) {
        match (decision.verdict, decision.mode) {
            (Verdict::Allow, _) => self.count_outcome(decision),
            (_, Mode::Report) => {
                self.rest.lock().report(decision, grounds);
                self.count_outcome(decision);
            }
            (Verdict::Defer, _) => self.rest.lock().deferred.add(decision.reason, usize::MAX),
            (Verdict::Deny, _) => self.rest.lock().deny(decision, grounds),
        }
    }

    /// Counts the outcome of a request that went out.
    fn count_outcome(&self, decision: &Decision<'_>) {
        match decision.error {
            Some(error) if decision.has_failed() => {
                self.rest.lock().failed.add(error.kept, usize::MAX);
            }
            _ => self.count_forwarded(),
        }
    }

    /// Counts one exchange that was forwarded successfully and needs no record.
    pub fn count_forwarded(&self) {
        self.forwarded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts, beside its outcome, an exchange that is judged by these tokens and sends another User-Agent.
    pub fn count_mismatch(&self, judged_as: &[ProductToken], user_agent: Option<&[u8]>) {
        self.mismatched.add(judged_as, user_agent);
    }

    /// Counts a TLS session in a tunnel to `origin` that the client ended before a request: by an `alert`, or without one.
    pub fn count_ended_session(&self, origin: &str, server_name: Option<&str>, alert: Option<u8>) {
        self.ended_sessions.add(origin, server_name, alert);
    }
}

impl Summary {
    /// Tells whether any request was kept from its origin, or would have been.
    #[must_use]
    pub fn has_denials(&self) -> bool {
        let rest = self.rest.lock();
        rest.denied.sum() + rest.deferred.sum() + rest.reported.sum() > 0
    }
}

impl Summary {
    /// Names the sessions that clients ended before a request, if they do not trust the local CA as it seems: they said so by
    /// an alert, or there were no requests at all.
    #[must_use]
    pub fn distrust(&self) -> Option<String> {
        let has_requests = self.has_requests();
        let mut sessions = self.ended_sessions.all();
        sessions.retain(|one| one.alert.is_some() || !has_requests);
        (!sessions.is_empty()).then(|| Line(&sessions).to_string())
    }

    /// Tells whether anything was counted at all.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        let rest = self.rest.lock();
        let kept_or_lost = rest.denied.sum() + rest.deferred.sum() + rest.failed.sum();
        kept_or_lost > 0 || self.forwarded.load(Ordering::Relaxed) > 0
    }
}

/// All counts so far. Counts by code come most frequent first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that went out and were answered.
    pub forwarded: u64,
    /// Denials by reason.
    pub denied: Vec<(String, u64)>,
    /// Of these, what the site disallows, by reason.
    pub disallowed: Vec<(String, u64)>,
    /// Of these, what cannot be judged, by the [cause](crawlgate_origins::access::Cause) that robots.txt is unreachable.
    pub unreachable: Vec<(String, u64)>,
    /// Of these, what the proxy or its operator refuses, by reason.
    pub refused_here: Vec<(String, u64)>,
    /// Requests put off, by reason.
    pub deferred: Vec<(String, u64)>,
    /// Requests that went out and failed, by error.
    pub failed: Vec<(String, u64)>,
    /// Requests that went out only in report mode, by the reason that would have kept them back. The counts of
    /// forwarded and failed requests contain them, too.
    pub reported: Vec<(String, u64)>,
}

impl Summary {
    /// Returns all present counts.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let rest = self.rest.lock();
        let sorted = |codes: &CodeCounts| codes.sorted().into_iter().cloned().collect();
        let [disallowed, unreachable, refused_here] = &rest.kinds;
        Totals {
            forwarded: self.forwarded.load(Ordering::Relaxed),
            denied: sorted(&rest.denied),
            disallowed: sorted(disallowed),
            unreachable: sorted(unreachable),
            refused_here: sorted(refused_here),
            deferred: sorted(&rest.deferred),
            failed: sorted(&rest.failed),
            reported: sorted(&rest.reported),
        }
    }
}

impl Totals {
    /// Returns the number of all requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let sums = [&self.denied, &self.deferred, &self.failed].map(|codes| sum(codes));
        self.forwarded + sums.iter().sum::<u64>()
    }
}

/// Returns the sum of counts by code.
pub fn sum(codes: &[(String, u64)]) -> u64 {
    codes.iter().map(|(_, count)| count).sum()
}

impl Rest {
    fn deny(&mut self, decision: &Decision<'_>, grounds: &Grounds<'_>) {
        let outcome = Outcome::of_denial(decision.reason);
        let code = code(decision, grounds, outcome);
        self.denied.add(decision.reason, usize::MAX);
        if let Some(codes) = self.kinds.get_mut(place_of(outcome)) {
            codes.add(&code, usize::MAX);
        }
        self.add_denial(decision, outcome, &code);
    }

    fn report(&mut self, decision: &Decision<'_>, grounds: &Grounds<'_>) {
        self.reported.add(decision.reason, usize::MAX);
        if decision.verdict == Verdict::Deny {
            let outcome = Outcome::of_denial(decision.reason);
            self.add_denial(decision, outcome, &code(decision, grounds, outcome));
        }
    }

    /// Counts a denial by its origin, and remembers it if it is among the first.
    fn add_denial(&mut self, decision: &Decision<'_>, outcome: Outcome, code: &str) {
        Remembered::add(&mut self.first, decision, outcome);
        let Some(origin) = decision.origin else {
            return; // an unreadable target
        };
        if !self.origins.contains_key(origin) {
            if self.origins.len() >= ORIGINS {
                self.denied_elsewhere += 1;
                return;
            }
            self.origins.insert(origin.to_owned(), Denials::default());
        }
        let denials = self.origins.get_mut(origin);
        if let Some(Denials(kinds)) = denials
            && let Some(denials) = kinds.get_mut(place_of(outcome))
        {
            denials.count += 1;
            match decision.rule {
                Some(rule) => {
                    let text = String::from_utf8_lossy(rule.text.kept);
                    denials.grounds.add(&text, RULES);
                }
                None => denials.grounds.add(code, RULES),
            }
        }
    }

    /// Returns the origins with the most denials of a kind, most first.
    fn most_denied(&self, kind: usize) -> Vec<(&str, &OfKind)> {
        let origins = self.origins.iter();
        let mut origins: Vec<_> = origins
            .filter_map(|(name, Denials(kinds))| {
                let denials = kinds.get(kind).filter(|denials| denials.count > 0)?;
                Some((name.as_str(), denials))
            })
            .collect();
        origins.sort_unstable_by(|(name, denials), (other_name, other)| {
            other.count.cmp(&denials.count).then(name.cmp(other_name))
        });
        origins
    }
}

impl Denials {
    /// Returns the sum over all kinds.
    fn count(&self) -> u64 {
        self.0.iter().map(|kind| kind.count).sum()
    }
}

/// Returns the code that a denial counts under: its reason, or the cause that a robots.txt is unreachable.
fn code<'a>(decision: &Decision<'a>, grounds: &Grounds<'_>, outcome: Outcome) -> Cow<'a, str> {
    match (outcome, grounds.cause()) {
        (Outcome::Unreachable, Some(cause)) => cause.word().into(),
        _ => decision.reason.into(),
    }
}

impl CodeCounts {
    /// Counts `code`, unless it is a new one and there are `max` already.
    fn add(&mut self, code: &str, max: usize) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| known == code) {
            *count += 1;
        } else if self.0.len() < max {
            self.0.push((code.to_owned(), 1));
        }
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Writes the codes with their counts, set off from the text before.
    fn write_codes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (code, count)) in self.sorted().into_iter().enumerate() {
            let lead = if index == 0 { "  " } else { ", " };
            write!(f, "{lead}{code} {count}")?;
        }
        Ok(())
    }

    /// Returns the codes, most frequent first.
    fn sorted(&self) -> Vec<&(String, u64)> {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        sorted
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forwarded = self.forwarded.load(Ordering::Relaxed);
        let distrust = self.distrust();
        let rest = self.rest.lock();
        let denied = WORDS.iter().map(|(word, _)| *word).zip(&rest.kinds);
        let others = [("deferred", &rest.deferred), ("failed", &rest.failed)];
        let tallies: Vec<_> = denied.chain(others).collect();
        let requests = tallies.iter().fold(forwarded, |sum, (_, codes)| sum + codes.sum());
        write!(f, "{:<12} {requests:>7}", "requests")?;
        write!(f, "\n{:<12} {forwarded:>7}", "forwarded")?;
        for (name, codes) in tallies {
            write!(f, "\n{name:<12} {:>7}", codes.sum())?;
            codes.write_codes(f)?;
        }
        // Counted above by outcome, so these are not part of the sum.
        if rest.reported.sum() > 0 {
            write!(f, "\n{:<12} {:>7}", "reported", rest.reported.sum())?;
            rest.reported.write_codes(f)?;
            f.write_str(" (sent all the same: report mode)")?;
        }
        if let Some(mismatched) = self.mismatched.all() {
            write!(f, "\n{mismatched}")?;
        }
        if let Some(distrust) = distrust {
            write!(
                f,
                "\nTLS sessions ended before a request: {distrust}; such a client does not trust the local CA (`crawlgate ca setup`)"
            )?;
        }
        let condition = match (rest.denied.sum(), rest.reported.sum()) {
            (_, 0) => "",
            (0, _) => ", had it been enforced",
            _ => ", had all of it been enforced",
        };
        for (kind, (_, heading)) in WORDS.iter().enumerate() {
            rest.write_origins(f, kind, heading, condition)?;
        }
        if rest.denied_elsewhere > 0 {
            write!(f, "\n{:>10}  further origins", rest.denied_elsewhere)?;
        }
        Ok(())
    }
}

impl Rest {
    /// Writes the origins with the most denials of a kind, under a heading.
    fn write_origins(
        &self,
        f: &mut fmt::Formatter<'_>,
        kind: usize,
        heading: &str,
        condition: &str,
    ) -> fmt::Result {
        let origins = self.most_denied(kind);
        if !origins.is_empty() {
            write!(f, "\n{heading}{condition}")?;
        }
        for (origin, denials) in origins.iter().take(MAX_SHOWN) {
            write!(f, "\n{:>10}  {origin}  ", denials.count)?;
            if let Some((ground, _)) = denials.grounds.sorted().first() {
                write_foreign(f, ground)?;
            }
            let more = denials.grounds.0.len().saturating_sub(1);
            if more > 0 {
                write!(f, " (and {more} more)")?;
            }
        }
        Ok(())
    }
}

/// Writes a site's own words for a terminal: without control characters, and no more than fits a line.
fn write_foreign(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const WIDTH: usize = 80;
    for (index, c) in text.chars().enumerate() {
        if index == WIDTH {
            return f.write_char('…');
        }
        if misleads(c) {
            write!(f, "{}", c.escape_default())?;
        } else {
            f.write_char(c)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
