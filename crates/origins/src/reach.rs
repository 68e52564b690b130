//! Detects that the gate reaches no origin at all.
//!
//! A broken cable, a failed resolver or a captive portal makes every origin look dead. That is the gate's own outage,
//! not the origins': if at least three origins were tried since one was last reached, and all failed by the network,
//! the gate reaches nothing. Any answer of any origin ends this.
//!
//! Pure, except for the lock: results go in, a judgement comes out.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::access::AccessResult;
use crawlgate_robots::Origin;

/// Number of failed origins that makes it the gate's own outage.
const ENOUGH: usize = 3;

/// The gate's reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Some origins, or no evidence to the contrary.
    #[default]
    Some,
    /// No origin.
    Nothing,
}

/// Tracks the recent results.
#[derive(Debug, Default)]
pub struct Tracker {
    /// True if `failing` is not empty: the only check for a request that reaches its origin.
    is_failing: AtomicBool,
    /// Origins that failed by the network since one was reached, at most [`ENOUGH`].
    failing: Mutex<Vec<Origin>>,
}

impl Tracker {
    /// Records the result of a robots.txt fetch; returns the gate's reach now.
    pub fn fetched(&self, origin: &Origin, result: &AccessResult) -> Reach {
        match result {
            AccessResult::Unreachable { cause, .. } if cause.is_network() => self.failed(origin),
            AccessResult::Unreachable { cause, .. } if !cause.tells_of_origin() => self.reach(),
            _ => {
                self.reached();
                Reach::Some
            }
        }
    }

    /// Records that an origin has answered.
    pub fn reached(&self) {
        if self.is_failing.load(Ordering::Relaxed) {
            let mut failing = self.failing.lock();
            failing.clear();
            self.is_failing.store(false, Ordering::Relaxed);
        }
    }

    fn failed(&self, origin: &Origin) -> Reach {
        let mut failing = self.failing.lock();
        if failing.len() < ENOUGH && !failing.contains(origin) {
            failing.push(origin.clone());
            self.is_failing.store(true, Ordering::Relaxed);
        }
        judge(&failing)
    }

    fn reach(&self) -> Reach {
        judge(&self.failing.lock())
    }
}

fn judge(failing: &[Origin]) -> Reach {
    if failing.len() < ENOUGH { Reach::Some } else { Reach::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tls_fault::TlsFault;
    use crate::access::{Absence, Cause, Freshness};

    #[test]
    fn three_failing_origins_in_a_row_are_the_gates_own_outage() {
        use Cause::{Connect, Dns, Incomplete, Internal, Prohibited, Status, Timeout};
        let no_tls = || Cause::from(TlsFault::NotTls);
        let dead = [Dns, Connect, Timeout, no_tls(), Incomplete];
        /// Name, fetches (origin and cause of failure; none: there is no robots.txt), reach after each.
        type Case<'a> = (&'a str, &'a [(&'a str, Option<Cause>)], &'a str);
        #[rustfmt::skip] // one row, one case
        let cases: &[Case<'_>] = &[
            ("two are two", &[("a", Some(Dns)), ("b", Some(Dns))], "++"),
            ("the third tells", &[("a", Some(Dns)), ("b", Some(Connect)), ("c", Some(Timeout))], "++-"),
            ("one three times is one", &[("a", Some(Dns)), ("a", Some(Dns)), ("a", Some(Dns))], "+++"),
            ("it goes on for all", &[("a", Some(Dns)), ("b", Some(Dns)), ("c", Some(Dns)), ("a", Some(Dns)), ("d", Some(no_tls()))], "++---"),
            ("until one answers", &[("a", Some(Dns)), ("b", Some(Dns)), ("c", Some(Dns)), ("d", None), ("a", Some(Dns))], "++-++"),
            ("an error is an answer", &[("a", Some(Dns)), ("b", Some(Dns)), ("c", Some(Status(503))), ("d", Some(Dns))], "++++"),
            ("a fetch that asked no origin tells nothing", &[("a", Some(Dns)), ("b", Some(Dns)), ("c", Some(Internal)), ("d", Some(Prohibited)), ("e", Some(Dns))], "++++-"),
            ("and changes nothing", &[("a", Some(Dns)), ("b", Some(Dns)), ("c", Some(Dns)), ("d", Some(Internal))], "++--"),
        ];
        for (name, rows, expected) in cases {
            let tracker = Tracker::default();
            let mut found = String::new();
            for (origin, cause) in *rows {
                let (origin, _) = Origin::parse(&format!("http://{origin}.example/")).expect(name);
                let result = match cause {
                    None => AccessResult::Unavailable {
                        why: Absence::Status(404),
                        freshness: Freshness::Unsaid,
                    },
                    Some(cause) => {
                        AccessResult::Unreachable { cause: cause.clone(), retry_after: None }
                    }
                };
                found.push(match tracker.fetched(&origin, &result) {
                    Reach::Some => '+',
                    Reach::Nothing => '-',
                });
            }
            assert_eq!(found, *expected, "{name}");
            tracker.reached();
            assert_eq!(tracker.reach(), Reach::Some, "{name}, and a page was answered");
        }
        assert!(dead.iter().all(|cause| cause.is_network()));
    }
}
