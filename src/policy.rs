//! From what is known to one [`Decision`]; the only place where a [`Permit`] is made.
//!
//! Precedence, first that applies:
//! 1. a target that cannot be read or agrees with nothing is refused before it comes here
//!    ([`Reason::BadRequest`], [`Reason::Misdirected`]);
//! 2. `/robots.txt` itself is always allowed (RFC 9309 2.2.2);
//! 3. what a crawler must say of itself ([`identity`]), before anything is asked of the origin;
//! 4. what a person has asserted ([`overrides`]): robots.txt is not even asked for then;
//! 5. what the origin's robots.txt, or its absence, says;
//! 6. the path guard: a path that the origin may read as another one must be allowed in every reading
//!    ([`crate::rep::Readings`]).
//!
//! [`crate::gate`] adds what takes waiting: nothing is decided that cannot be recorded
//! ([`Reason::LogFailed`]), a robots.txt that does not come in time defers ([`Reason::RobotsPending`]), and what
//! is allowed still waits for its origin's turn ([`Reason::Paced`]).
//!
//! In report mode ([`reporting`]) the same is decided, and a permit is made all the same. The decision says so:
//! nothing else lets out what is denied.
//!
//! Pure: no clock, no IO. What is judged here is what leaves: a [`Permit`] owns the judged target and
//! [`crate::egress`] builds the upstream request from it, so skipping the check does not compile. A permit carries the
//! [`generation`] of settings and robots.txt that it was made under, and only a [`Current`] one sends.

pub mod generation;
pub mod identity;
pub mod overrides;
mod reason;
pub mod reporting;
pub mod terms;

use std::sync::Arc;

use http::uri::PathAndQuery;

use self::generation::{Changes, Generation};
use self::overrides::{Action, Override, Overrides};
pub use self::reason::{Reason, Verdict};
use self::terms::{Terms, TermsDigest};
use crate::agent::Agent;
use crate::clock::Moment;
use crate::config::{Mode, RobotsConfig};
use crate::egress::Prohibited;
use crate::rep::{ComparisonPath, Finding, Guarded, Origin, Rule, RuleKind, Rules};
use crate::robots::access::Cause;
use crate::robots::identity::FetchedAs;
use crate::robots::state::{Stance, State};

/// What a request asks for: all that is ever judged, and all that is ever sent.
#[derive(Debug, Clone)]
pub struct Target {
    /// Scheme, host and port, in canonical form.
    pub origin: Origin,
    /// Path and query, octet for octet as the crawler wrote them.
    pub path: PathAndQuery,
}

/// Proof that a target was judged and may be fetched once. Made by this module only: elsewhere a permit
/// can be used,
///
/// ```
/// fn path(permit: crawlgate::policy::Permit) -> String {
///     permit.target().path.to_string()
/// }
/// ```
///
/// but neither be made up
///
/// ```compile_fail,E0451
/// fn forge(target: crawlgate::policy::Target) -> crawlgate::policy::Permit {
///     crawlgate::policy::Permit { target, generation: Default::default() }
/// }
/// ```
///
/// nor be made to speak for another target
///
/// ```compile_fail,E0616
/// fn divert(permit: &mut crawlgate::policy::Permit, target: crawlgate::policy::Target) {
///     permit.target = target;
/// }
/// ```
///
/// nor be used twice.
///
/// ```compile_fail,E0599
/// fn copy(permit: &crawlgate::policy::Permit) -> crawlgate::policy::Permit {
///     permit.clone()
/// }
/// ```
#[derive(Debug)]
pub struct Permit {
    target: Target,
    generation: Generation,
}

/// Proof that a permit was checked against all changes right before it is used. Made by [`Permit::current`] only:
///
/// ```compile_fail,E0423
/// fn forge(permit: &crawlgate::policy::Permit) -> crawlgate::policy::Current<'_> {
///     crawlgate::policy::Current(permit)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Current<'a>(#[allow(dead_code, reason = "held, not read")] &'a Permit);

impl Permit {
    /// Proves that what the permit rests on has not changed; nothing where it has, or where the permit was made for no
    /// request at all.
    #[must_use]
    pub fn current(&self, changes: &Changes) -> Option<Current<'_>> {
        changes.is_current(self.generation).then_some(Current(self))
    }

    /// Gives the permit up, to be judged again.
    pub fn surrender(self) -> Target {
        self.target
    }

    /// What may be fetched.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// The mode that a decision is made in, and the changes that it takes into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Under {
    /// Whether what is denied is kept from its origin.
    pub mode: Mode,
    /// Of the permit, where one is made.
    pub generation: Generation,
}

impl From<Mode> for Under {
    /// What is judged only to be told: its permit sends nothing.
    fn from(mode: Mode) -> Under {
        Under {
            mode,
            generation: Generation::default(),
        }
    }
}

/// What of the configuration a decision is made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether what is denied is kept from its origin.
    pub mode: Mode,
    /// Of the permit, where one is made.
    pub generation: Generation,
    /// Paths are judged in all their readings.
    pub path_guard: bool,
    /// Names all that a verdict follows from.
    pub terms: TermsDigest,
}

impl Settings {
    /// As configured, in `mode`. What is judged by them is only told: its permit sends nothing.
    pub fn of(config: &RobotsConfig, mode: Mode) -> Settings {
        Settings {
            mode,
            generation: Generation::default(),
            path_guard: config.path_guard,
            terms: Terms::of(config).digest(),
        }
    }
}

/// The answer to "may this go out?", with all that it rests on. One value feeds the response, the
/// record and the summary.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Why; the verdict follows from it.
    pub reason: Reason,
    /// Whether the verdict is done, or only told.
    pub mode: Mode,
    /// As of when: what depends on time was judged by this moment.
    pub at: Moment,
    /// The rule that decided, where one did.
    pub rule: Option<Rule>,
    /// The reading of the path that the rule is about, in comparison form, where that is not the path as written.
    pub reading: Option<Box<str>>,
    /// The override that decided, where one did.
    pub asserted: Option<Arc<Override>>,
    /// What was known of the origin's robots.txt, where that was asked.
    pub basis: Option<Arc<State>>,
    /// How that was learnt: for which identity and with which User-Agent. It tells, and decides nothing.
    pub fetched_as: Option<Arc<FetchedAs>>,
    /// The settings that counted, where robots.txt was asked.
    pub terms: Option<TermsDigest>,
    /// When the same request may fare better.
    pub retry_at: Option<Moment>,
    /// What stands before the address, where something does.
    pub wall: Option<Prohibited>,
}

impl Decision {
    /// A decision that rests on nothing but its reason, enforced.
    pub fn bare(reason: Reason, at: Moment) -> Decision {
        Decision {
            reason,
            mode: Mode::Enforce,
            at,
            rule: None,
            reading: None,
            asserted: None,
            basis: None,
            fetched_as: None,
            terms: None,
            retry_at: None,
            wall: None,
        }
    }

    /// The decision on what may not be dialled.
    pub fn walled(wall: Prohibited, at: Moment) -> Decision {
        Decision {
            wall: Some(wall),
            ..Decision::bare(Reason::AddressProhibited, at)
        }
    }

    /// What to do; in report mode, what enforcement would have done.
    pub fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// Whether the request goes out although the verdict is not to let it.
    pub fn is_only_reported(&self) -> bool {
        self.mode == Mode::Report && self.verdict() != Verdict::Allow && !self.reason.is_wall()
    }

    /// Whether the request goes out: it is allowed, or its denial is only reported.
    pub fn lets_out(&self) -> bool {
        self.verdict() == Verdict::Allow || self.is_only_reported()
    }

    /// Why robots.txt cannot be had at present, if it cannot.
    pub fn cause(&self) -> Option<Cause> {
        self.basis.as_ref()?.outage().map(|outage| outage.cause)
    }
}

/// A decision, and the permit where it allows or is only reported.
#[derive(Debug)]
pub enum Ruling {
    /// It may go out.
    Clear(Permit, Decision),
    /// It may not.
    Refuse(Decision),
}

impl Ruling {
    /// The decision, whichever it is.
    pub fn decision(&self) -> &Decision {
        match self {
            Ruling::Clear(_, decision) | Ruling::Refuse(decision) => decision,
        }
    }

    /// Tells how what it rests on was learnt.
    #[must_use]
    pub fn with_fetched_as(mut self, fetched_as: Option<Arc<FetchedAs>>) -> Ruling {
        let (Ruling::Clear(_, decision) | Ruling::Refuse(decision)) = &mut self;
        decision.fetched_as = fetched_as;
        self
    }

    /// The only place where a permit is made.
    fn of(target: Target, decision: Decision, generation: Generation) -> Ruling {
        if decision.lets_out() {
            Ruling::Clear(Permit { target, generation }, decision)
        } else {
            Ruling::Refuse(decision)
        }
    }
}

/// Clears a target that is `/robots.txt` itself; gives any other back.
///
/// # Errors
/// The target, when it is not `/robots.txt`.
pub fn clear_robots_txt(
    target: Target,
    under: impl Into<Under>,
    now: Moment,
) -> Result<Ruling, Target> {
    let Under { mode, generation } = under.into();
    let path = target.path.as_str().as_bytes();
    if ComparisonPath::new(path).is_robots_txt() {
        let decision = Decision {
            mode,
            ..Decision::bare(Reason::RobotsTxt, now)
        };
        Ok(Ruling::of(target, decision, generation))
    } else {
        Err(target)
    }
}

/// Judges one request by what a person has asserted of it, without asking robots.txt; gives a target back of which
/// nobody has asserted anything.
///
/// # Errors
/// The target, when no override decides.
pub fn decide_by_override(
    target: Target,
    overrides: &Overrides,
    under: impl Into<Under>,
    now: Moment,
) -> Result<Ruling, Target> {
    let path = target.path.as_str().as_bytes();
    match overrides.about(&target.origin, path, now) {
        Some(asserted) => Ok(by_hand(target, asserted, under.into(), now)),
        None => Err(target),
    }
}

/// The same for a tunnel that cannot be looked into.
///
/// # Errors
/// The target, when no override decides about all that may come through.
pub fn decide_tunnel_by_override(
    target: Target,
    overrides: &Overrides,
    under: impl Into<Under>,
    now: Moment,
) -> Result<Ruling, Target> {
    match overrides.about_all(&target.origin, now) {
        Some(asserted) => Ok(by_hand(target, asserted, under.into(), now)),
        None => Err(target),
    }
}

fn by_hand(target: Target, asserted: &Arc<Override>, under: Under, now: Moment) -> Ruling {
    let Under { mode, generation } = under;
    let reason = match asserted.action {
        Action::Allow => Reason::OperatorAllow,
        Action::Deny => Reason::OperatorDeny,
    };
    let decision = Decision {
        mode,
        asserted: Some(Arc::clone(asserted)),
        ..Decision::bare(reason, now)
    };
    Ruling::of(target, decision, generation)
}

/// Judges one request by what is known of its origin. [`Stance::Unknown`] is never judged: it gives
/// [`Reason::RobotsPending`].
pub fn decide(
    target: Target,
    agent: &Agent,
    state: &Arc<State>,
    stance: &Stance,
    settings: Settings,
    now: Moment,
) -> Ruling {
    let grounds = match stance {
        Stance::Rules(snapshot) => {
            let rules = snapshot.rules(&agent.tokens);
            let path = ComparisonPath::new(target.path.as_str().as_bytes());
            by_rules(&rules, &path, settings.path_guard)
        }
        other => Grounds::bare(without_rules(other)),
    };
    conclude(target, grounds, state, stance, settings, now)
}

/// Why, and by which rule about which reading.
struct Grounds {
    reason: Reason,
    rule: Option<Rule>,
    reading: Option<Box<str>>,
}

impl Grounds {
    fn bare(reason: Reason) -> Grounds {
        Grounds::by(reason, None)
    }

    fn by(reason: Reason, rule: Option<Finding<'_>>) -> Grounds {
        Grounds {
            reason,
            rule: rule.map(Finding::into_rule),
            reading: None,
        }
    }
}

fn by_rules(rules: &Rules, path: &ComparisonPath<'_>, path_guard: bool) -> Grounds {
    let found = rules.verdict(path);
    match &found {
        _ if rules.is_empty() => return Grounds::bare(Reason::NoRules),
        Some(rule) if rule.kind == RuleKind::Disallow => {
            return Grounds::by(Reason::RobotsDisallow, found);
        }
        _ if !path_guard => return Grounds::by(Reason::RobotsAllow, found),
        _ => {}
    }
    match rules.guard(path) {
        Guarded::Clear => Grounds::by(Reason::RobotsAllow, found),
        Guarded::Disallowed { reading, rule } => Grounds {
            // A comparison form is ASCII.
            reading: Some(String::from_utf8_lossy(&reading).into()),
            ..Grounds::by(Reason::PathGuard, Some(rule))
        },
        Guarded::TooMany => Grounds::bare(Reason::PathGuard),
    }
}

/// Judges a tunnel that cannot be looked into: it may pass only where nothing is disallowed to this
/// crawler.
pub fn decide_tunnel(
    target: Target,
    agent: &Agent,
    state: &Arc<State>,
    stance: &Stance,
    settings: Settings,
    now: Moment,
) -> Ruling {
    let reason = match stance {
        Stance::Rules(snapshot) => {
            let rules = snapshot.rules(&agent.tokens);
            if rules.is_empty() {
                Reason::NoRules
            } else if rules.disallows_nothing() {
                Reason::RobotsAllow
            } else {
                Reason::OpaqueTunnel
            }
        }
        other => without_rules(other),
    };
    let grounds = Grounds::bare(reason);
    conclude(target, grounds, state, stance, settings, now)
}

/// Defers a request whose robots.txt has not come in time; the same request may fare better at `retry_at`.
pub fn await_robots(
    target: Target,
    state: Arc<State>,
    retry_at: Moment,
    settings: Settings,
    now: Moment,
) -> Ruling {
    let decision = Decision {
        mode: settings.mode,
        basis: Some(state),
        terms: Some(settings.terms),
        retry_at: Some(retry_at),
        ..Decision::bare(Reason::RobotsPending, now)
    };
    Ruling::of(target, decision, settings.generation)
}

/// Takes a permit back: the turn of its origin comes later than a request is held for.
pub fn await_turn(permit: Permit, allowed: Decision, retry_at: Moment) -> Ruling {
    let decision = Decision {
        reason: Reason::Paced,
        rule: None,
        reading: None,
        retry_at: Some(retry_at),
        ..allowed
    };
    Ruling::of(permit.target, decision, permit.generation)
}

/// Judges what comes through a tunnel and is neither TLS nor HTTP: nobody can tell what it asks for.
pub fn decide_opaque(target: Target, under: impl Into<Under>, now: Moment) -> Ruling {
    let Under { mode, generation } = under.into();
    let decision = Decision {
        mode,
        ..Decision::bare(Reason::OpaqueTunnel, now)
    };
    Ruling::of(target, decision, generation)
}

fn without_rules(stance: &Stance) -> Reason {
    match stance {
        Stance::AllowAll => Reason::RobotsUnavailable,
        Stance::DisallowAll { .. } => Reason::RobotsUnreachable,
        Stance::Unknown | Stance::Rules(_) => Reason::RobotsPending,
    }
}

fn conclude(
    target: Target,
    grounds: Grounds,
    state: &Arc<State>,
    stance: &Stance,
    settings: Settings,
    now: Moment,
) -> Ruling {
    let decision = Decision {
        reason: grounds.reason,
        mode: settings.mode,
        at: now,
        rule: grounds.rule,
        reading: grounds.reading,
        asserted: None,
        basis: Some(Arc::clone(state)),
        fetched_as: None,
        terms: Some(settings.terms),
        retry_at: match stance {
            Stance::DisallowAll { next_attempt, .. } => Some((*next_attempt).max(now)),
            _ => None,
        },
        wall: None,
    };
    Ruling::of(target, decision, settings.generation)
}

#[cfg(test)]
mod tests;
