//! Turns known facts into one [`Decision`]; the only module that makes a [`Permit`].
//!
//! Precedence, first that applies:
//! 1. a target that cannot be read or does not fit its connection is refused before it comes here
//!    ([`Reason::BadRequest`], [`Reason::Misdirected`]);
//! 2. `/robots.txt` itself is always allowed (RFC 9309 2.2.2);
//! 3. the required identification of the crawler ([`identity`]), checked before the origin is asked anything;
//! 4. an operator's override ([`overrides`]): with one, robots.txt is not even fetched;
//! 5. the origin's robots.txt, or its absence;
//! 6. the path guard: a path that the origin may read as another one must be allowed in every reading
//!    ([`crawlgate_robots::PathVariants`]). An [exempt](Exemption) client passes the rules and the guard, but not the complete
//!    disallow of an unreachable robots.txt;
//! 7. what the origin says of the use of its content, for the purposes that the client declares ([`usage`]): in robots.txt
//!    and [`tdmrep`].json before the request is sent, in the response before its body passes.
//!
//! `crawlgate::gate` adds the cases that involve waiting: nothing is decided if it cannot be recorded
//! ([`Reason::LogFailed`]), a robots.txt that is late defers the request ([`Reason::RobotsPending`]), and an allowed
//! request still waits for its origin's turn ([`Reason::Paced`]).
//!
//! Report mode ([`reporting`]) decides the same, but makes a permit in any case, and the decision says so. Nothing else
//! lets out a denied request.
//!
//! Longer than 400 lines of code because permits are made only here.
//!
//! Pure: no clock, no IO. Exactly the judged target leaves: a [`Permit`] owns it and `crawlgate_egress` builds the
//! upstream request from it, so skipping the check does not compile. A permit carries the [`generation`] of settings
//! and robots.txt that it was made under, and only a [`Current`] one sends.

pub mod address_policy;
pub mod agent;
pub mod destination;
pub mod generation;
pub mod host;
pub mod identity;
pub mod overrides;
mod reason;
pub mod reporting;
pub mod settings;
pub mod tdmrep;
pub mod usage;

use std::sync::Arc;

use http::uri::PathAndQuery;

use self::address_policy::Prohibited;
use self::generation::{Changes, Generation};
use self::overrides::{Action, ActiveOverride, Overrides};
pub use self::reason::{Answer, Info, Outcome, Reason, Replay, Verdict};
use self::settings::PolicyDigest;
use self::usage::{Signals, Usage};
use crate::agent::Agent;
pub use crate::reporting::Mode;
use crawlgate_origins::access::Cause;
use crawlgate_origins::identity::FetchedAs;
use crawlgate_origins::state::{Stance, State};
use crawlgate_robots::{ComparisonPath, Finding, GuardVerdict, Origin, Rule, RuleKind, Rules};
use crawlgate_text::Moment;
use crawlgate_usage::{Modes, Purposes, Said};

/// The target of a request: all that is judged, and all that is sent.
#[derive(Debug, Clone)]
pub struct Target {
    /// Scheme, host and port, in canonical form.
    pub origin: Origin,
    /// Path and query, octet for octet as the crawler wrote them.
    pub path: PathAndQuery,
}

/// Proof that a target was judged and may be fetched once. Only this module makes one: elsewhere a permit can be used,
///
/// ```
/// fn path(permit: crawlgate_policy::Permit) -> String {
///     permit.target().path.to_string()
/// }
/// ```
///
/// but cannot be made up,
///
/// ```compile_fail,E0451
/// fn forge(target: crawlgate_policy::Target) -> crawlgate_policy::Permit {
///     crawlgate_policy::Permit { target, generation: Default::default() }
/// }
/// ```
///
/// nor changed to another target,
///
/// ```compile_fail,E0616
/// fn divert(permit: &mut crawlgate_policy::Permit, target: crawlgate_policy::Target) {
///     permit.target = target;
/// }
/// ```
///
/// nor be used twice.
///
/// ```compile_fail,E0599
/// fn copy(permit: &crawlgate_policy::Permit) -> crawlgate_policy::Permit {
///     permit.clone()
/// }
/// ```
#[derive(Debug)]
pub struct Permit {
    target: Target,
    generation: Generation,
}

/// Proof that a permit was checked against all changes right before its use. Only [`Permit::current`] makes one:
///
/// ```compile_fail,E0423
/// fn forge(permit: &crawlgate_policy::Permit) -> crawlgate_policy::Current<'_> {
///     crawlgate_policy::Current(permit)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Current<'a>(#[allow(dead_code, reason = "held, not read")] &'a Permit);

impl Permit {
    /// Proves that no change has overtaken the permit; `None` if one has, or if the permit was made for no real
    /// request.
    #[must_use]
    pub fn current(&self, changes: &Changes) -> Option<Current<'_>> {
        changes.is_current(self.generation).then_some(Current(self))
    }

    /// Gives the permit up, to be judged again.
    pub fn into_target(self) -> Target {
        self.target
    }

    /// Returns the target that may be fetched.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// The mode that a decision is made in, and the changes that it takes into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionContext {
    /// The mode: denials are enforced or only reported.
    pub mode: Mode,
    /// The permit's generation, if a permit is made.
    pub generation: Generation,
}

impl From<Mode> for DecisionContext {
    /// For a judgement that is only shown: its permit sends nothing.
    fn from(mode: Mode) -> DecisionContext {
        DecisionContext { mode, generation: Generation::default() }
    }
}

/// The inputs of a decision besides the request and its robots.txt.
#[derive(Debug, Clone)]
pub struct DecisionInputs {
    /// The mode: denials are enforced or only reported.
    pub mode: Mode,
    /// The permit's generation, if a permit is made.
    pub generation: Generation,
    /// True if paths are judged in all their readings.
    pub path_guard: bool,
    /// The digest of all settings that a verdict follows from.
    pub policy: PolicyDigest,
    /// The operator's reason for exempting the client from what robots.txt disallows; `None` if it is not.
    pub exempt: Option<Arc<str>>,
    /// The grounds of a decision about use.
    pub signals: Signals,
}

/// An exemption of a client's request, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exemption {
    /// The reason for which the request would have been denied.
    pub from: Reason,
    /// The operator's reason for exempting the client.
    pub reason: Arc<str>,
}

/// The answer to "may this go out?", with all that it rests on. One value feeds the response, the
/// record and the summary.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The reason; it determines the verdict.
    pub reason: Reason,
    /// The mode: the verdict is enforced or only reported.
    pub mode: Mode,
    /// The moment of judgement, for all that depends on time.
    pub at: Moment,
    /// The deciding rule, if there is one.
    pub rule: Option<Rule>,
    /// The reading of the path that the rule matches, in comparison form, if it differs from the path as written.
    pub reading: Option<Box<str>>,
    /// The deciding override, if there is one.
    pub asserted: Option<Arc<ActiveOverride>>,
    /// The exemption without which robots.txt would deny the request. The rule is the one that disallows. A use that is
    /// refused nevertheless keeps it.
    pub exempt: Option<Exemption>,
    /// The state of the origin's robots.txt, if it was consulted.
    pub basis: Option<Arc<State>>,
    /// The identity and User-Agent of the fetch behind that state. Informative only; it decides nothing.
    pub fetched_as: Option<Arc<FetchedAs>>,
    /// The settings that applied, if robots.txt was consulted.
    pub policy: Option<PolicyDigest>,
    /// The moment from which the same request may be decided otherwise.
    pub retry_at: Option<Moment>,
    /// The prohibition of the address, if there is one.
    pub prohibited: Option<Prohibited>,
    /// The grounds of a decision about use; `None` if the response is not judged.
    pub signals: Option<Signals>,
    /// Statements of the site about the use of its content. `None` if it states nothing and the client declares no purpose.
    pub usage: Option<Box<Usage>>,
}

impl Decision {
    /// Returns an enforced decision that rests only on its reason.
    pub fn bare(reason: Reason, at: Moment) -> Decision {
        Decision {
            reason,
            mode: Mode::Enforce,
            at,
            rule: None,
            reading: None,
            asserted: None,
            exempt: None,
            basis: None,
            fetched_as: None,
            policy: None,
            retry_at: None,
            prohibited: None,
            signals: None,
            usage: None,
        }
    }

    /// Returns the decision about a prohibited address.
    pub fn prohibited(prohibited: Prohibited, at: Moment) -> Decision {
        Decision { prohibited: Some(prohibited), ..Decision::bare(Reason::AddressProhibited, at) }
    }

    /// Returns the verdict; in report mode, the one that enforcement would give.
    pub fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// Tells whether the request leaves in spite of its verdict.
    pub fn is_only_reported(&self) -> bool {
        self.mode == Mode::Report
            && self.verdict() != Verdict::Allow
            && !self.reason.is_always_enforced()
    }

    /// Tells whether the request leaves: it is allowed, or its denial is only reported.
    pub fn lets_out(&self) -> bool {
        self.verdict() == Verdict::Allow || self.is_only_reported()
    }

    /// Returns why robots.txt is unreachable at present, if it is.
    pub fn cause(&self) -> Option<&Cause> {
        self.basis.as_ref()?.outage().map(|outage| &outage.cause)
    }
}

/// A decision, with a permit if it allows or is only reported. The decision is boxed: it passes through many functions.
#[derive(Debug)]
pub enum Ruling {
    /// It may go out.
    Allow(Permit, Box<Decision>),
    /// It may not.
    Refuse(Box<Decision>),
}

impl Ruling {
    /// Refuses by a decision.
    pub fn refuse(decision: Decision) -> Ruling {
        Ruling::Refuse(Box::new(decision))
    }

    /// Returns the decision in either case.
    pub fn decision(&self) -> &Decision {
        match self {
            Ruling::Allow(_, decision) | Ruling::Refuse(decision) => decision,
        }
    }

    /// Returns the decision in either case, and gives up the permit.
    pub fn into_decision(self) -> Decision {
        match self {
            Ruling::Allow(_, decision) | Ruling::Refuse(decision) => *decision,
        }
    }

    /// Has the response judged by these signals, too. An override that allows a page lifts what the page says.
    #[must_use]
    pub fn with_signals(mut self, modes: &Arc<Modes>, purposes: Purposes) -> Ruling {
        let (Ruling::Allow(_, decision) | Ruling::Refuse(decision)) = &mut self;
        if decision.reason == Reason::OperatorAllow {
            decision.signals = Some(Signals {
                purposes,
                modes: Arc::clone(modes),
                lifted: decision.asserted.clone(),
                tdmrep: None,
            });
        }
        self
    }

    /// Adds the identity and User-Agent of the fetch behind the decision.
    #[must_use]
    pub fn with_fetched_as(mut self, fetched_as: Option<Arc<FetchedAs>>) -> Ruling {
        let (Ruling::Allow(_, decision) | Ruling::Refuse(decision)) = &mut self;
        decision.fetched_as = fetched_as;
        self
    }

    /// Makes the ruling: the only function that makes a permit.
    fn of(target: Target, decision: Box<Decision>, generation: Generation) -> Ruling {
        if decision.lets_out() {
            Ruling::Allow(Permit { target, generation }, decision)
        } else {
            Ruling::Refuse(decision)
        }
    }
}

/// Clears a target that is `/robots.txt` itself; returns any other.
///
/// # Errors
/// The target, when it is not `/robots.txt`.
pub fn clear_robots_txt(
    target: Target,
    context: impl Into<DecisionContext>,
    now: Moment,
) -> Result<Ruling, Target> {
    let DecisionContext { mode, generation } = context.into();
    let path = target.path.as_str().as_bytes();
    if ComparisonPath::new(path).is_robots_txt() {
        let decision = Decision { mode, ..Decision::bare(Reason::RobotsTxt, now) };
        Ok(Ruling::of(target, Box::new(decision), generation))
    } else {
        Err(target)
    }
}

/// Judges one request by an operator's override, without consulting robots.txt; returns the target if no override
/// matches.
///
/// # Errors
/// The target, when no override decides.
pub fn decide_by_override(
    target: Target,
    overrides: &Overrides,
    context: impl Into<DecisionContext>,
    now: Moment,
) -> Result<Ruling, Target> {
    let path = target.path.as_str().as_bytes();
    match overrides.about(&target.origin, path, now) {
        Some(asserted) => Ok(by_override(target, asserted, context.into(), now)),
        None => Err(target),
    }
}

/// Judges an opaque tunnel likewise.
///
/// # Errors
/// The target, when no override decides about everything in the tunnel.
pub fn decide_tunnel_by_override(
    target: Target,
    overrides: &Overrides,
    context: impl Into<DecisionContext>,
    now: Moment,
) -> Result<Ruling, Target> {
    match overrides.about_all(&target.origin, now) {
        Some(asserted) => Ok(by_override(target, asserted, context.into(), now)),
        None => Err(target),
    }
}

fn by_override(
    target: Target,
    asserted: &Arc<ActiveOverride>,
    context: DecisionContext,
    now: Moment,
) -> Ruling {
    let DecisionContext { mode, generation } = context;
    let reason = match asserted.action {
        Action::Allow | Action::AllowUsage => Reason::OperatorAllow,
        Action::Deny => Reason::OperatorDeny,
    };
    let decision =
        Decision { mode, asserted: Some(Arc::clone(asserted)), ..Decision::bare(reason, now) };
    Ruling::of(target, Box::new(decision), generation)
}

/// Judges one request by the state of its origin. [`Stance::Unknown`] is never judged: it gives
/// [`Reason::RobotsPending`].
pub fn decide(
    target: Target,
    agent: &Agent,
    state: &Arc<State>,
    stance: &Stance,
    settings: DecisionInputs,
    now: Moment,
) -> Ruling {
    let octets = target.path.as_str().as_bytes();
    let (conclusion, said) = match stance {
        Stance::Rules(snapshot) => {
            let rules = snapshot.rules(&agent.tokens);
            let conclusion = by_rules(&rules, &ComparisonPath::new(octets), settings.path_guard)
                .exempted(settings.exempt.as_ref());
            // A path that the rules disallow has no preferences.
            let said = match conclusion.reason.verdict() {
                Verdict::Allow => snapshot.statements(&agent.tokens).map(|statements| {
                    statements.at(octets, settings.path_guard, &settings.signals.modes)
                }),
                Verdict::Deny | Verdict::Defer => None,
            };
            (conclusion, said.unwrap_or_default())
        }
        other => (Conclusion::bare(without_rules(other)), Said::default()),
    };
    let (conclusion, said) = match &settings.signals.tdmrep {
        Some(file) if conclusion.reason.verdict() == Verdict::Allow => {
            if settings.signals.lack_tdmrep() {
                let exempt = conclusion.exempt;
                let pending = Conclusion::bare(Reason::UsagePending);
                (Conclusion { exempt, ..pending }, Said::default())
            } else {
                (conclusion, said.and(&file.at(octets, settings.path_guard)))
            }
        }
        Some(_) | None => (conclusion, said),
    };
    conclude(target, conclusion, said, state, stance, settings, now)
}

/// The reason of a decision, with the rule and the path variant that the rule matches.
struct Conclusion {
    reason: Reason,
    rule: Option<Rule>,
    reading: Option<Box<str>>,
    exempt: Option<Exemption>,
}

impl Conclusion {
    fn bare(reason: Reason) -> Conclusion {
        Conclusion::by(reason, None)
    }

    fn by(reason: Reason, rule: Option<Finding<'_>>) -> Conclusion {
        Conclusion { reason, rule: rule.map(Finding::into_rule), reading: None, exempt: None }
    }

    /// Lets an exempt client pass what rules disallow. The rule stays on record.
    fn exempted(self, exempt: Option<&Arc<str>>) -> Conclusion {
        match exempt {
            Some(reason) if self.reason.verdict() == Verdict::Deny => Conclusion {
                reason: Reason::ClientExempt,
                exempt: Some(Exemption { from: self.reason, reason: Arc::clone(reason) }),
                ..self
            },
            Some(_) | None => self,
        }
    }
}

fn by_rules(rules: &Rules, path: &ComparisonPath<'_>, path_guard: bool) -> Conclusion {
    let found = rules.verdict(path);
    match &found {
        _ if rules.is_empty() => return Conclusion::bare(Reason::NoRules),
        Some(rule) if rule.kind == RuleKind::Disallow => {
            return Conclusion::by(Reason::RobotsDisallow, found);
        }
        _ if !path_guard => return Conclusion::by(Reason::RobotsAllow, found),
        _ => {}
    }
    match rules.guard(path) {
        GuardVerdict::Allowed => Conclusion::by(Reason::RobotsAllow, found),
        GuardVerdict::Disallowed { reading, rule } => Conclusion {
            // A comparison form is ASCII.
            reading: Some(String::from_utf8_lossy(&reading).into()),
            ..Conclusion::by(Reason::PathGuard, Some(rule))
        },
        GuardVerdict::TooMany => Conclusion::bare(Reason::PathGuard),
    }
}

/// Judges an opaque tunnel: it may pass only if nothing is disallowed to this crawler.
pub fn decide_tunnel(
    target: Target,
    agent: &Agent,
    state: &Arc<State>,
    stance: &Stance,
    settings: DecisionInputs,
    now: Moment,
) -> Ruling {
    let mut lifted = None;
    let conclusion = match stance {
        Stance::Rules(snapshot) => {
            let rules = snapshot.rules(&agent.tokens);
            let is_refused = settings.signals.refuse_somewhere(snapshot, agent)
                || settings.signals.reserved_somewhere();
            lifted = settings.signals.lifted.clone().filter(|_| is_refused);
            if is_refused && lifted.is_none() {
                Conclusion::bare(Reason::OpaqueTunnel)
            } else if rules.is_empty() {
                Conclusion::bare(Reason::NoRules)
            } else if rules.disallows_nothing() {
                Conclusion::bare(Reason::RobotsAllow)
            } else {
                // No exemption lifts this: the requests inside would be on no record.
                Conclusion::bare(Reason::OpaqueTunnel)
            }
        }
        Stance::AllowAll if settings.signals.reserved_somewhere() => {
            lifted = settings.signals.lifted.clone();
            Conclusion::bare(match lifted {
                Some(_) => Reason::RobotsUnavailable,
                None => Reason::OpaqueTunnel,
            })
        }
        other => Conclusion::bare(without_rules(other)),
    };
    let reason = match conclusion.reason.verdict() {
        Verdict::Allow if settings.signals.lack_tdmrep() => Reason::UsagePending,
        _ => conclusion.reason,
    };
    let conclusion = Conclusion { reason, ..conclusion };
    let said = Said::default();
    let mut ruling = conclude(target, conclusion, said, state, stance, settings, now);
    if let Ruling::Allow(_, decision) = &mut ruling
        && lifted.is_some()
    {
        decision.asserted = lifted;
    }
    ruling
}

/// Defers a request that waited too long for its robots.txt; the same request may be allowed at `retry_at`.
pub fn await_robots(
    target: Target,
    state: Arc<State>,
    retry_at: Moment,
    settings: DecisionInputs,
    now: Moment,
) -> Ruling {
    let decision = Decision {
        mode: settings.mode,
        basis: Some(state),
        policy: Some(settings.policy),
        retry_at: Some(retry_at),
        ..Decision::bare(Reason::RobotsPending, now)
    };
    Ruling::of(target, Box::new(decision), settings.generation)
}

/// Takes a permit back: its origin's turn comes later than a request is held for.
pub fn await_turn(permit: Permit, mut decision: Box<Decision>, retry_at: Moment) -> Ruling {
    decision.reason = Reason::Paced;
    decision.rule = None;
    decision.reading = None;
    decision.retry_at = Some(retry_at);
    Ruling::of(permit.target, decision, permit.generation)
}

/// Judges tunnelled octets that are neither TLS nor HTTP: their target is unknown.
pub fn decide_opaque(target: Target, context: impl Into<DecisionContext>, now: Moment) -> Ruling {
    let DecisionContext { mode, generation } = context.into();
    let decision = Decision { mode, ..Decision::bare(Reason::OpaqueTunnel, now) };
    Ruling::of(target, Box::new(decision), generation)
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
    conclusion: Conclusion,
    said: Said,
    state: &Arc<State>,
    stance: &Stance,
    settings: DecisionInputs,
    now: Moment,
) -> Ruling {
    let decision = Decision {
        reason: conclusion.reason,
        mode: settings.mode,
        at: now,
        rule: conclusion.rule,
        reading: conclusion.reading,
        asserted: None,
        exempt: conclusion.exempt,
        basis: Some(Arc::clone(state)),
        fetched_as: None,
        policy: Some(settings.policy),
        retry_at: match stance {
            Stance::DisallowAll { next_attempt, .. } => Some((*next_attempt).max(now)),
            _ => None,
        },
        prohibited: None,
        signals: None,
        usage: None,
    };
    let decision = match decision.reason.verdict() {
        Verdict::Allow => decision.with_usage(settings.signals, said),
        Verdict::Deny | Verdict::Defer => decision.with_purposes(&settings.signals),
    };
    Ruling::of(target, Box::new(decision), settings.generation)
}

#[cfg(test)]
mod tests;
