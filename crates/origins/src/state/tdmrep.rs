//! The meaning of a state for tdmrep.json: a file that cannot be had reserves nothing.
//!
//! TDMRep reads an absent file as an origin that takes no part. So only a copy can disallow, a failure of the origin never
//! does: until the next attempt, an unreachable file leaves the last good copy in force for as long as the profile keeps
//! one. A failure of crawlgate, or a redirect that may not be followed, tells nothing: without a copy, the file stays
//! unknown.

use std::sync::Arc;

use super::{Due, Stance, State};
use crate::timing::ProfileRules;
use crawlgate_text::Moment;

impl State {
    /// Returns the stance of a tdmrep.json: its entries, nothing, or unknown until a fetch ends.
    pub(super) fn stance_of_tdmrep(&self, now: Moment, profile: &ProfileRules) -> Stance {
        let copy = self.snapshot();
        if self.is_fresh(now) {
            return copy.map_or(Stance::AllowAll, |copy| Stance::Rules(Arc::clone(copy)));
        }
        let outage = match self.outage() {
            Some(outage) if now < outage.next_attempt => outage,
            Some(_) | None => return Stance::Unknown,
        };
        let until = profile.last_good_until;
        let is_kept = until.is_none_or(|until| outage.length() < until);
        match copy {
            Some(copy) if is_kept => Stance::Rules(Arc::clone(copy)),
            _ if outage.is_of_the_document() => Stance::AllowAll,
            // The origin was not asked, so it may reserve something.
            _ => Stance::Unknown,
        }
    }

    /// Tells whether a fetch of tdmrep.json should start at `now`. Only a fresh copy is refreshed in the background.
    pub(super) fn due_of_tdmrep(&self, now: Moment) -> Due {
        match self.outage() {
            Some(outage) if now < outage.next_attempt => return Due::No,
            Some(_) | None => {}
        }
        match self {
            State::Successful { fresh, .. } | State::Unavailable { fresh, .. }
                if now < fresh.until =>
            {
                if now < fresh.refresh_from {
                    Due::No
                } else {
                    Due::Ahead
                }
            }
            _ => Due::Now,
        }
    }
}
