//! The parts of a record about the grounds of a decision.

use super::{Assertion, Outage, RobotsCopy};
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::identity::FetchedAs;
use crawlgate_origins::state::State;
use crawlgate_policy::overrides::Override;
use crawlgate_policy::tdmrep::{Reservations, TdmRepStance};

/// State in records of a tdmrep.json that the crawler may not fetch.
pub const DISALLOWED: &str = "disallowed";

/// State in records of a tdmrep.json that has not come.
pub const PENDING: &str = "pending";

impl<'a> Assertion<'a> {
    /// Returns the record's part about an override.
    #[must_use]
    pub fn of(asserted: &'a Override) -> Self {
        Self {
            id: asserted.id,
            origin: asserted.origin.as_str(),
            pattern: &asserted.pattern,
            action: asserted.action.as_str(),
            by: &asserted.by,
            reason: &asserted.reason,
            until: asserted.until,
            created: asserted.created,
            instance: asserted.instance.as_deref(),
        }
    }
}

impl<'a> RobotsCopy<'a> {
    /// Returns the record's part about the state of an origin.
    #[must_use]
    pub fn of(state: &'a State, fetched_as: Option<&'a FetchedAs>) -> Self {
        let snapshot = state.snapshot();
        let status = match state {
            State::Unreachable { outage, .. } => match &outage.cause {
                Cause::Status(status) => Some(*status),
                _ => None,
            },
            State::Unavailable { why, .. } => match why {
                Absence::Status(status) | Absence::NotFoundBehind(status) => Some(*status),
                Absence::Ftp(_)
                | Absence::TooManyRedirects
                | Absence::RedirectLoop
                | Absence::DisallowedHop => None,
            },
            State::NeverFetched | State::Successful { .. } => snapshot.map(|s| s.status),
        };
        let fetched_at = match state {
            State::Unavailable { fetched, .. } => Some(*fetched),
            _ => snapshot.map(|snapshot| snapshot.fetched),
        };
        let fresh_until = match state {
            State::Successful { fresh, .. } | State::Unavailable { fresh, .. } => Some(fresh.until),
            State::NeverFetched | State::Unreachable { .. } => None,
        };
        let unreachable = state.outage().map(|outage| Outage {
            since: outage.since,
            last_failure: outage.last_failure,
            cause: &outage.cause,
            attempts: outage.attempts,
            next_attempt: outage.next_attempt,
        });
        Self {
            identity: fetched_as.map(|known| &*known.name),
            user_agent: fetched_as.map(|known| &*known.user_agent),
            final_url: snapshot.map(|snapshot| &*snapshot.final_url),
            state: state.name(),
            status,
            fetched_at,
            sha256: snapshot.map(|snapshot| snapshot.sha256),
            bytes: snapshot.map(|snapshot| snapshot.robots.text().len() as u64),
            truncated: snapshot.is_some_and(|snapshot| snapshot.robots.is_truncated()),
            fresh_until,
            unreachable,
        }
    }

    /// Returns the record's part about the tdmrep.json of an origin.
    #[must_use]
    pub fn of_tdmrep(file: &'a Reservations) -> Self {
        let copy = RobotsCopy::of(&file.state, file.fetched_as.as_deref());
        match file.stance {
            TdmRepStance::Disallowed => Self {
                state: DISALLOWED,
                ..copy
            },
            TdmRepStance::Pending => Self {
                state: PENDING,
                ..copy
            },
            TdmRepStance::Unset | TdmRepStance::Copy(_) => copy,
        }
    }
}
