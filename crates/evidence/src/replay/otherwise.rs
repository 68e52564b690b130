//! A recorded request, judged by another robots.txt than the one that decided about it.
//!
//! The premises are those of the record, as for a replay: the crawler, the path, the mode, the settings, what the response
//! said of use. The file is exchanged, and the exemption of the client: a client counts as exempt if it is exempt now. A
//! request that no robots.txt would have decided about is left aside, with the reason.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::premises::NoDecision;
use super::{NotReplayable, UndecidedRequest, by_robots, terms_of, unproven, without_robots};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, State};
use crawlgate_policy::settings::PolicySettings;
use crawlgate_policy::{Decision, Reason, Verdict};
use crawlgate_record::Told;

/// A robots.txt that recorded requests are judged by, instead of the origin's own.
#[derive(Debug)]
pub struct OtherFile {
    lenient: Arc<Snapshot>,
    strict: Arc<Snapshot>,
}

/// The reason why another robots.txt changes nothing about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inapplicable {
    /// Something else decided: an override, the crawler's identity, the address, the form of the request, `/robots.txt`.
    WithoutRobots,
    /// The request was deferred, not decided.
    Deferred,
    /// The origin was unreachable, and would not have served the other file either.
    Unreachable,
    /// The record has the URL without its query.
    Redacted,
    /// The record has a part of the URL, or of the crawler's names.
    Cut,
    /// The record, or the evidence that it names, is missing or unreadable.
    Incomplete,
}

impl OtherFile {
    /// Parses a file both ways that the settings of a decision know.
    #[must_use]
    pub fn of(file: &Snapshot) -> Self {
        Self { lenient: Arc::new(file.reparsed(true)), strict: Arc::new(file.reparsed(false)) }
    }

    fn under(&self, terms: &PolicySettings) -> &Arc<Snapshot> {
        match terms.lenient {
            true => &self.lenient,
            false => &self.strict,
        }
    }
}

impl Inapplicable {
    /// Returns the name for summaries.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WithoutRobots => "without_robots",
            Self::Deferred => "deferred",
            Self::Unreachable => "unreachable",
            Self::Redacted => "redacted",
            Self::Cut => "cut",
            Self::Incomplete => "incomplete",
        }
    }
}

impl fmt::Display for Inapplicable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WithoutRobots => {
                "something else than robots.txt decided: an override, the identity, the address or the form of the request"
            }
            Self::Deferred => "the request was deferred, and not decided",
            Self::Unreachable => {
                "the origin was unreachable, and would not have served this file either"
            }
            Self::Redacted => {
                "the URL's query was left out of the record ([log] redact_query)"
            }
            Self::Cut => "the request was too long to be recorded whole",
            Self::Incomplete => {
                "the record, or the evidence that it names, is missing or cannot be read"
            }
        })
    }
}

impl From<NoDecision> for Inapplicable {
    fn from(no_decision: NoDecision) -> Self {
        match no_decision {
            NoDecision::Attested(why) => why.into(),
            NoDecision::Missing(_) | NoDecision::Contradiction(_) => Self::Incomplete,
        }
    }
}

impl From<NotReplayable> for Inapplicable {
    fn from(why: NotReplayable) -> Self {
        match why {
            NotReplayable::Unjudged | NotReplayable::Unrecorded | NotReplayable::NotHttp => {
                Self::WithoutRobots
            }
            NotReplayable::Pending | NotReplayable::Paced => Self::Deferred,
            NotReplayable::Redacted => Self::Redacted,
            NotReplayable::Cut => Self::Cut,
            NotReplayable::NoRoom | NotReplayable::NoSettings | NotReplayable::Unknown => {
                Self::Incomplete
            }
        }
    }
}

/// Decides about a recorded request as if its origin had served `file`, and its client were exempt for the reason `exempt`.
/// The caller guarantees that `terms` are those of the record's `policy`, and `tdmrep` the file of its digest.
///
/// # Errors
/// The reason why robots.txt does not decide about the request.
pub fn otherwise(
    one: &Told<'_>,
    terms: Option<&PolicySettings>,
    file: &OtherFile,
    tdmrep: Option<&Arc<Snapshot>>,
    exempt: Option<Arc<str>>,
) -> Result<Decision, Inapplicable> {
    let reason = Reason::from_name(one.reason).ok_or(Inapplicable::Incomplete)?;
    if let Some(why) = unproven(reason, one) {
        return Err(why.into());
    }
    if one.missing.is_some() {
        return Err(Inapplicable::Incomplete);
    }
    if one.url.is_cut() && !one.opaque {
        return Err(Inapplicable::Cut);
    }
    let question = match without_robots(one)? {
        Ok(_) => return Err(Inapplicable::WithoutRobots),
        Err(question) => UndecidedRequest { exempt, ..question },
    };
    let terms = terms_of(one, terms)?;
    let robots = one.robots.ok_or(Inapplicable::Incomplete)?;
    if robots.sha256.is_none() && robots.state != "unavailable" {
        return Err(Inapplicable::Unreachable);
    }
    let until = question.decided + Duration::from_secs(1);
    let state = State::Successful {
        snapshot: Arc::clone(file.under(terms)),
        fresh: Fresh { refresh_from: until, until },
        outage: None,
    };
    let decision = by_robots(one, question, terms, Arc::new(state), tdmrep)?;
    match decision.verdict() {
        Verdict::Defer => Err(Inapplicable::Deferred),
        Verdict::Allow | Verdict::Deny => Ok(decision),
    }
}
