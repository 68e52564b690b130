//! The meaning of a state for tdmrep.json: a file that cannot be had reserves nothing.
//!
//! TDMRep reads an absent file as an origin that takes no part. So only a copy can disallow, a failure never does: an
//! unreachable file leaves the last good copy in force for as long as the profile keeps one, and is not waited for.

use super::{Due, Stance, State};
use crate::clock::Moment;
use crate::robots::timing::ProfileRules;

impl State {
    /// Returns the stance of a tdmrep.json: its entries, nothing, or unknown until a fetch ends.
    pub(super) fn stance_of_tdmrep(&self, now: Moment, profile: &ProfileRules) -> Stance {
        if !self.is_fresh(now) && self.outage().is_none() {
            return Stance::Unknown;
        }
        let is_kept = self.is_fresh(now)
            || self.outage().is_some_and(|outage| {
                let until = profile.last_good_until;
                until.is_none_or(|until| outage.length() < until)
            });
        match self.snapshot() {
            Some(snapshot) if is_kept => Stance::Rules(snapshot.clone()),
            Some(_) | None => Stance::AllowAll,
        }
    }

    /// Tells whether a fetch of tdmrep.json should start at `now`. A request waits only for the first one, and for the
    /// one after a stale copy.
    pub(super) fn due_of_tdmrep(&self, now: Moment) -> Due {
        match self.outage() {
            Some(outage) if now < outage.next_attempt => return Due::No,
            Some(_) if !self.is_fresh(now) => return Due::Ahead,
            Some(_) | None => {}
        }
        match self {
            State::Successful { fresh, .. } | State::Unavailable { fresh, .. }
                if now < fresh.until =>
            {
                match now < fresh.refresh_from {
                    true => Due::No,
                    false => Due::Ahead,
                }
            }
            _ => Due::Now,
        }
    }
}
