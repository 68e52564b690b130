//! The grounds of a decision, as the objects that its entry names by their SHA-256.

use aws_lc_rs::digest::{SHA256, digest};

use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::identity::FetchedAs;
use crawlgate_origins::state::State;
use crawlgate_policy::overrides::Override;
use crawlgate_policy::tdmrep::{Reservations, TdmRepStance};
use crawlgate_record::{Asserted, Basis, Bounds, Decision, Digest, Outage};
use crawlgate_store::{Batch, Object, ObjectKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::public_url;

/// State in records of a tdmrep.json that the crawler may not fetch.
pub const DISALLOWED: &str = "disallowed";

/// State in records of a tdmrep.json that has not come.
pub const PENDING: &str = "pending";

/// The facts that a decision rests on, as the proxy knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grounds<'a> {
    /// The override that decided; `None` if no override did.
    pub overridden: Option<&'a Override>,
    /// The state of the origin's robots.txt, and its last fetch; `None` if the decision rests on none.
    pub robots: Option<(&'a State, Option<&'a FetchedAs>)>,
    /// The origin's tdmrep.json, if it was asked and the entry tells of use.
    pub tdmrep: Option<&'a Reservations>,
}

/// One of the grounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The override that decided.
    Override,
    /// The state of the origin's robots.txt.
    Robots,
    /// The state of the origin's tdmrep.json.
    TdmRep,
}

impl Ground {
    /// Returns the kind of its object.
    #[must_use]
    pub fn kind(self) -> ObjectKind {
        match self {
            Ground::Override => ObjectKind::Override,
            Ground::Robots | Ground::TdmRep => ObjectKind::Basis,
        }
    }
}

/// The digests of the grounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroundDigests {
    /// Of [`Ground::Override`].
    pub overridden: Option<Digest>,
    /// Of [`Ground::Robots`].
    pub robots: Option<Digest>,
    /// Of [`Ground::TdmRep`].
    pub tdmrep: Option<Digest>,
}

impl GroundDigests {
    /// Returns the decision with these digests.
    #[must_use]
    pub fn named_by<'a>(&'a self, decision: Decision<'a>) -> Decision<'a> {
        Decision {
            overridden: self.overridden.as_ref(),
            basis: self.robots.as_ref(),
            tdmrep: self.tdmrep.as_ref(),
            ..decision
        }
    }
}

/// Returns the digests that a decision names, with what they are of.
pub(super) fn named<'a>(decision: &Decision<'a>) -> impl Iterator<Item = (Ground, &'a Digest)> {
    let all = [
        (Ground::Override, decision.overridden),
        (Ground::Robots, decision.basis),
        (Ground::TdmRep, decision.tdmrep),
    ];
    let named = |(ground, digest): (_, Option<_>)| Some((ground, digest?));
    all.into_iter().filter_map(named)
}

impl Grounds<'_> {
    /// Returns the cause for which the origin's robots.txt cannot be fetched at present.
    pub(super) fn cause(&self) -> Option<&Cause> {
        let (state, _) = self.robots?;
        state.outage().map(|outage| &outage.cause)
    }

    /// Returns the digests, computed anew. `origin` is that of the decision.
    #[must_use]
    pub fn digests(&self, origin: Option<&str>) -> GroundDigests {
        let digest = |ground| self.digest(ground, origin);
        GroundDigests {
            overridden: self.overridden.map(|_| digest(Ground::Override)),
            robots: self.robots.map(|_| digest(Ground::Robots)),
            tdmrep: self.tdmrep.map(|_| digest(Ground::TdmRep)),
        }
    }

    /// Returns the SHA-256 of one of them, computed anew.
    #[must_use]
    pub fn digest(&self, ground: Ground, origin: Option<&str>) -> Digest {
        let mut body = Vec::with_capacity(512);
        self.encode(ground, origin, &mut body);
        let digest = digest(&SHA256, &body);
        digest.as_ref().try_into().unwrap_or_default()
    }

    /// Adds a decision to a batch, with the objects that it names.
    pub fn file(&self, decision: &Decision<'_>, batch: &mut Batch) {
        for (ground, sha256) in named(decision) {
            if batch.objects.iter().any(|one| one.sha256 == *sha256) {
                continue;
            }
            let mut body = Vec::new();
            self.encode(ground, decision.origin, &mut body);
            batch.objects.push(Object::new(ground.kind(), &body));
        }
        let bounds = Bounds::of(decision.reason);
        batch.entries.push(|out| decision.encode(bounds, out));
    }

    /// Appends the body of one of them to `out`.
    pub(super) fn encode(&self, ground: Ground, origin: Option<&str>, out: &mut Vec<u8>) {
        let origin = origin.unwrap_or_default();
        match ground {
            Ground::Override => {
                if let Some(overridden) = self.overridden {
                    asserted(overridden, |body| body.encode(out));
                }
            }
            Ground::Robots => {
                if let Some((state, fetched_as)) = self.robots {
                    encode_basis(origin, state, state.name(), fetched_as, out);
                }
            }
            Ground::TdmRep => {
                if let Some(file) = self.tdmrep {
                    let name = match file.stance {
                        TdmRepStance::Disallowed => DISALLOWED,
                        TdmRepStance::Pending => PENDING,
                        TdmRepStance::Unset | TdmRepStance::Copy(_) => file.state.name(),
                    };
                    encode_basis(origin, &file.state, name, file.fetched_as.as_deref(), out);
                }
            }
        }
    }
}

/// Gives `visit` an override as entries have it.
pub(crate) fn asserted<T>(one: &Override, visit: impl FnOnce(&Asserted<'_>) -> T) -> T {
    visit(&Asserted {
        id: &one.id.to_string(),
        origin: one.origin.as_str(),
        pattern: &one.pattern,
        action: one.action,
        by: &one.by,
        reason: &one.reason,
        until: one.until.map(Moment::as_millis),
        created: one.created.as_millis(),
        instance: one.instance.as_deref(),
    })
}

/// Appends the state of a document of the origin.
fn encode_basis(
    origin: &str,
    state: &State,
    name: &str,
    fetched_as: Option<&FetchedAs>,
    out: &mut Vec<u8>,
) {
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
    // A redirect's target is foreign: it may contain userinfo.
    let final_url = snapshot.map(|one| public_url(one.final_url.as_bytes(), false));
    let cause = state.outage().map(|outage| outage.cause.code());
    let outage = state.outage().map(|outage| Outage {
        since: outage.since.as_millis(),
        cause: cause.as_deref().unwrap_or_default(),
        answers: outage.cause.is_answer(),
        attempts: outage.attempts,
        next_attempt: outage.next_attempt.as_millis(),
        last_failure: outage.last_failure.map(Moment::as_millis),
    });
    let basis = Basis {
        origin,
        final_url: final_url.as_deref(),
        state: name,
        status,
        fetched_at: fetched_at.map(Moment::as_millis),
        sha256: snapshot.map(|snapshot| &snapshot.sha256),
        bytes: snapshot.map(|snapshot| snapshot.robots.text().len() as u64),
        truncated: snapshot.is_some_and(|snapshot| snapshot.robots.is_truncated()),
        fresh_until: fresh_until.map(Moment::as_millis),
        outage,
        identity: fetched_as.map(|known| &*known.name),
        user_agent: fetched_as.map(|known| &*known.user_agent),
    };
    basis.encode(out);
}

#[cfg(test)]
pub(super) mod tests;
