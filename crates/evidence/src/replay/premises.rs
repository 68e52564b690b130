//! The premises of a decision, restored from its record.
//!
//! Only facts that a decision needs are filled in. A contradiction or a missing fact ends the replay.

use std::sync::Arc;

use http::uri::PathAndQuery;

use super::{Difference, Missing, NotReplayable, Outcome};
use crate::grounds::{DISALLOWED, PENDING};
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, Outage, State};
use crawlgate_policy::Target;
use crawlgate_policy::agent::{Agent, Source};
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_policy::settings::PolicySettings;
use crawlgate_policy::tdmrep::Reservations;
use crawlgate_record::{Asserted, Basis, Decision, File, Octets, Text, Told};
use crawlgate_robots::{Origin, ProductToken};
use crawlgate_system::clock::Moment;

/// The reason why a replay has no decision.
pub(super) enum NoDecision {
    Missing(Missing),
    Attested(NotReplayable),
    Contradiction(Difference),
}

impl From<NoDecision> for Outcome {
    fn from(no_decision: NoDecision) -> Self {
        match no_decision {
            NoDecision::Missing(missing) => Self::Missing(missing),
            NoDecision::Attested(why) => Self::Attested(why),
            NoDecision::Contradiction(difference) => Self::Differs(vec![difference]),
        }
    }
}

/// Returns the target: the origin as it was judged, the path as it stands in the URL.
pub(super) fn target(one: &Decision<'_>) -> Result<Target, NoDecision> {
    let named = one.origin.unwrap_or_default();
    let (origin, _) =
        Origin::parse(named).map_err(|_| contradiction("origin", named, "an origin".to_owned()))?;
    if one.opaque {
        let path = PathAndQuery::from_static("/");
        return Ok(Target { origin, path });
    }
    // A cut URL is judged only if the path does not decide, see `policy::Replay`.
    let (pieces, _) = one.url.pieces(one.origin);
    let url = Octets::from(&*pieces.concat()).to_string();
    if url.ends_with(REDACTED) {
        return Err(NoDecision::Attested(NotReplayable::Redacted));
    }
    let (found, path) = Origin::parse(&url)
        .map_err(|_| contradiction("url", &url, format!("a URL of {origin}")))?;
    if found != origin {
        return Err(contradiction("url", &url, format!("a URL of {origin}")));
    }
    let path = PathAndQuery::try_from(path)
        .map_err(|_| contradiction("url", &url, "a URL that can be sent".to_owned()))?;
    Ok(Target { origin, path })
}

pub(super) fn agent(one: &Decision<'_>) -> Result<Agent, NoDecision> {
    if one.chain.more() > 0 {
        return Err(NoDecision::Attested(NotReplayable::Cut));
    }
    let token = |name: Text<'_>| {
        let name = name.to_string();
        ProductToken::new(&name)
            .map_err(|error| contradiction("agent.chain", &name, error.to_string()))
    };
    Ok(Agent {
        tokens: one.chain.iter().map(token).collect::<Result<_, _>>()?,
        source: Source::Nothing,
        // Checked before robots.txt; a replay repeats only the decision by robots.txt.
        mismatch: false,
    })
}

/// Returns the origin's state, as far as a decision needs it.
pub(super) fn state(
    robots: &Basis<'_>,
    snapshot: Option<&Arc<Snapshot>>,
) -> Result<State, NoDecision> {
    let snapshot = match (robots.sha256, snapshot) {
        (None, _) => None,
        (Some(_), None) => return Err(NoDecision::Missing(Missing::Snapshot)),
        (Some(_), Some(snapshot)) => Some(Arc::clone(snapshot)),
    };
    if let (Some(snapshot), Some(bytes)) = (&snapshot, robots.bytes)
        && snapshot.robots.text().len() as u64 != bytes
    {
        let octets = snapshot.robots.text().len().to_string();
        return Err(contradiction("robots.bytes", &bytes.to_string(), octets));
    }
    let lacks = |what| contradiction(what, "null", format!("what a {} state has", robots.state));
    let fresh = || {
        let until = robots.fresh_until;
        let until = Moment::from_millis(until.ok_or_else(|| lacks("robots.fresh_until"))?);
        // A decision does not depend on the time of the next fetch.
        let refresh_from = until;
        Ok(Fresh { refresh_from, until })
    };
    let outage = robots.outage.as_ref().map(outage_of);
    let outage = outage.transpose()?;
    match robots.state {
        "successful" => Ok(State::Successful {
            snapshot: snapshot.ok_or_else(|| lacks("robots.sha256"))?,
            fresh: fresh()?,
            outage,
        }),
        "unavailable" => Ok(State::Unavailable {
            why: Absence::Status(robots.status.unwrap_or_default()),
            fetched: Moment::default(),
            fresh: fresh()?,
            outage,
        }),
        "unreachable" => Ok(State::Unreachable {
            outage: outage.ok_or_else(|| lacks("robots.unreachable"))?,
            last_good: snapshot,
        }),
        "never_fetched" => Ok(State::NeverFetched),
        other => Err(contradiction("robots.state", other, "a state".to_owned())),
    }
}

/// Returns what the record says of the origin's tdmrep.json. That the crawler might not fetch it, or that it had not come,
/// is taken from the record.
pub(super) fn reservations(
    one: &Told<'_>,
    snapshot: Option<&Arc<Snapshot>>,
    decided: Moment,
    terms: &PolicySettings,
) -> Result<Option<Arc<Reservations>>, NoDecision> {
    let Some(named) = one.tdmrep else {
        return Ok(None);
    };
    is_of_its_origin(one, "usage.tdmrep.url", &named)?;
    let file = match named.state {
        DISALLOWED => Reservations::disallowed(),
        PENDING => Reservations::pending(),
        _ => {
            let missing = |no_decision| match no_decision {
                NoDecision::Missing(Missing::Snapshot) => NoDecision::Missing(Missing::TdmRep),
                no_decision => no_decision,
            };
            let state = state(&named, snapshot).map_err(missing)?;
            Reservations::of(Arc::new(state), None, decided, &terms.profile())
        }
    };
    Ok(Some(Arc::new(file)))
}

fn outage_of(outage: &crawlgate_record::Outage<'_>) -> Result<Outage, NoDecision> {
    let cause = Cause::from_code(outage.cause).ok_or_else(|| {
        contradiction("robots.unreachable.cause", outage.cause, "a cause".to_owned())
    })?;
    if cause.is_answer() != outage.answers {
        let (recorded, replayed) = (outage.answers.to_string(), cause.is_answer().to_string());
        return Err(contradiction("robots.unreachable.answers", &recorded, replayed));
    }
    let since = Moment::from_millis(outage.since);
    let last_failure = outage.last_failure.map(Moment::from_millis);
    Ok(Outage {
        cause,
        since,
        last_failure,
        // A decision does not depend on the time of the next fetch.
        last_attempt: last_failure.unwrap_or(since),
        attempts: outage.attempts,
        next_attempt: Moment::from_millis(outage.next_attempt),
    })
}

/// Checks that a file is one of the origin that the decision is about: an entry names the origin of each.
pub(super) fn is_of_its_origin(
    one: &Told<'_>,
    what: &'static str,
    file: &File<'_>,
) -> Result<(), NoDecision> {
    let origin = one.origin.unwrap_or_default();
    if file.origin == origin {
        return Ok(());
    }
    Err(contradiction(what, &file.url(), format!("a file of {origin}")))
}

pub(super) fn contradiction(what: &'static str, recorded: &str, replayed: String) -> NoDecision {
    NoDecision::Contradiction(Difference { what, recorded: recorded.to_owned(), replayed })
}

pub(super) fn asserted(named: &Asserted<'_>) -> Result<Override, NoDecision> {
    let (origin, _) = Origin::parse(named.origin)
        .map_err(|error| contradiction("override.origin", named.origin, error.to_string()))?;
    Ok(Override {
        id: OverrideId::Stored(0), // a single override needs no number
        origin,
        pattern: named.pattern.to_owned(),
        action: named.action,
        until: named.until.map(Moment::from_millis),
        by: named.by.to_owned(),
        reason: named.reason.to_owned(),
        created: Moment::default(),
        instance: None,
    })
}

/// Replacement of a query: see `public_url`.
const REDACTED: &str = "?…redacted";
