//! From what is known to one [`Decision`]; the only place where a [`Permit`] is made.
//!
//! Precedence, first that applies:
//! 1. a target that cannot be read or agrees with nothing is refused before it comes here
//!    ([`Reason::BadRequest`], [`Reason::Misdirected`]);
//! 2. `/robots.txt` itself is always allowed (RFC 9309 2.2.2);
//! 3. what the origin's robots.txt, or its absence, says;
//! 4. the path guard: a path that dot segments or doubled slashes would make into another one for
//!    the origin must be allowed in both forms.
//!
//! [`crate::gate`] adds what takes waiting: nothing is decided that cannot be recorded
//! ([`Reason::LogFailed`]), a robots.txt that does not come in time defers ([`Reason::RobotsPending`]), and what
//! is allowed still waits for its origin's turn ([`Reason::Paced`]).
//!
//! Pure: no clock, no IO. What is judged here is what leaves: a [`Permit`] owns the judged target and
//! [`crate::egress`] builds the upstream request from it, so skipping the check does not compile.

pub mod overrides;

use std::sync::Arc;

use http::uri::PathAndQuery;

use crate::agent::Agent;
use crate::clock::Moment;
use crate::rep::{ComparisonPath, Origin, Rule, RuleKind, readings};
use crate::robots::access::Cause;
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
///     crawlgate::policy::Permit { target }
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
}

impl Permit {
    /// Gives the permit up, to be judged again.
    pub fn surrender(self) -> Target {
        self.target
    }

    /// What may be fetched.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// What crawlgate does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Forward it.
    Allow,
    /// Refuse it.
    Deny,
    /// Refuse it for now: the same request may be allowed later.
    Defer,
}

impl Verdict {
    /// The verdict's name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::Defer => "defer",
        }
    }
}

/// Why. The same code in the answer, the record and the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A rule allows the path, or rules exist and none matches.
    RobotsAllow,
    /// robots.txt holds no rules for this crawler.
    NoRules,
    /// The origin has no robots.txt, or was unreachable for longer than the profile disallows: the record's
    /// `robots.state` tells which.
    RobotsUnavailable,
    /// The target is `/robots.txt` itself.
    RobotsTxt,
    /// A rule disallows the path.
    RobotsDisallow,
    /// A rule disallows what the origin may make of the path.
    PathGuard,
    /// robots.txt cannot be had: complete disallow for now.
    RobotsUnreachable,
    /// A tunnel that cannot be looked into, to an origin that disallows something; or one in which neither TLS
    /// nor HTTP is spoken.
    OpaqueTunnel,
    /// The fetch of robots.txt outlasts the longest hold.
    RobotsPending,
    /// Politeness would hold the request longer than allowed.
    Paced,
    /// CONNECT authority, SNI and inner Host disagree.
    Misdirected,
    /// The request is malformed, or of a form that a proxy refuses.
    BadRequest,
    /// Decisions cannot be recorded, so none is made.
    LogFailed,
}

impl Reason {
    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::RobotsAllow => "robots_allow",
            Reason::NoRules => "no_rules",
            Reason::RobotsUnavailable => "robots_unavailable",
            Reason::RobotsTxt => "robots_txt",
            Reason::RobotsDisallow => "robots_disallow",
            Reason::PathGuard => "path_guard",
            Reason::RobotsUnreachable => "robots_unreachable",
            Reason::OpaqueTunnel => "opaque_tunnel",
            Reason::RobotsPending => "robots_pending",
            Reason::Paced => "paced",
            Reason::Misdirected => "misdirected",
            Reason::BadRequest => "bad_request",
            Reason::LogFailed => "log_failed",
        }
    }

    /// The verdict that goes with it.
    pub fn verdict(self) -> Verdict {
        match self {
            Reason::RobotsAllow
            | Reason::NoRules
            | Reason::RobotsUnavailable
            | Reason::RobotsTxt => Verdict::Allow,
            Reason::RobotsDisallow
            | Reason::PathGuard
            | Reason::RobotsUnreachable
            | Reason::OpaqueTunnel
            | Reason::Misdirected
            | Reason::BadRequest => Verdict::Deny,
            Reason::RobotsPending | Reason::Paced | Reason::LogFailed => Verdict::Defer,
        }
    }
}

/// The answer to "may this go out?", with all that it rests on. One value feeds the response, the
/// record and the summary.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Why; the verdict follows from it.
    pub reason: Reason,
    /// The rule that decided, where one did.
    pub rule: Option<Rule>,
    /// What was known of the origin's robots.txt, where that was asked.
    pub basis: Option<Arc<State>>,
    /// When the same request may fare better.
    pub retry_at: Option<Moment>,
}

impl Decision {
    /// A decision that rests on nothing but its reason.
    pub fn bare(reason: Reason) -> Decision {
        Decision {
            reason,
            rule: None,
            basis: None,
            retry_at: None,
        }
    }

    /// A deferral that is worth a new try at `retry_at`.
    pub fn deferred(reason: Reason, basis: Option<Arc<State>>, retry_at: Moment) -> Decision {
        Decision {
            retry_at: Some(retry_at),
            basis,
            ..Decision::bare(reason)
        }
    }

    /// What to do.
    pub fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// Why robots.txt cannot be had at present, if it cannot.
    pub fn cause(&self) -> Option<Cause> {
        self.basis.as_ref()?.outage().map(|outage| outage.cause)
    }
}

/// A decision, and the permit where it allows.
#[derive(Debug)]
pub enum Ruling {
    /// It may go out.
    Clear(Permit, Decision),
    /// It may not.
    Refuse(Decision),
}

/// Clears a target that is `/robots.txt` itself; gives any other back.
///
/// # Errors
/// The target, when it is not `/robots.txt`.
pub fn clear_robots_txt(target: Target) -> Result<Ruling, Target> {
    let path = target.path.as_str().as_bytes();
    if ComparisonPath::new(path).is_robots_txt() {
        let decision = Decision::bare(Reason::RobotsTxt);
        Ok(Ruling::Clear(Permit { target }, decision))
    } else {
        Err(target)
    }
}

/// Judges one request by what is known of its origin. [`Stance::Unknown`] is never judged: it gives
/// [`Reason::RobotsPending`].
pub fn decide(
    target: Target,
    agent: &Agent,
    state: &Arc<State>,
    stance: &Stance,
    path_guard: bool,
    now: Moment,
) -> Ruling {
    let (reason, rule) = match stance {
        Stance::Rules(snapshot) => {
            let rules = snapshot.rules(&agent.tokens);
            let raw = target.path.as_str().as_bytes();
            let path = ComparisonPath::new(raw);
            match rules.verdict(&path) {
                _ if rules.is_empty() => (Reason::NoRules, None),
                Some(rule) if rule.kind == RuleKind::Disallow => {
                    (Reason::RobotsDisallow, Some(rule.clone()))
                }
                found => match guarded(raw, path_guard, &rules) {
                    Some(rule) => (Reason::PathGuard, Some(rule)),
                    None => (Reason::RobotsAllow, found.cloned()),
                },
            }
        }
        other => (without_rules(other), None),
    };
    conclude(target, reason, rule, state, stance, now)
}

/// Judges a tunnel that cannot be looked into: it may pass only where nothing is disallowed to this
/// crawler.
pub fn decide_tunnel(
    target: Target,
    agent: &Agent,
    state: &Arc<State>,
    stance: &Stance,
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
    conclude(target, reason, None, state, stance, now)
}

fn without_rules(stance: &Stance) -> Reason {
    match stance {
        Stance::AllowAll => Reason::RobotsUnavailable,
        Stance::DisallowAll { .. } => Reason::RobotsUnreachable,
        Stance::Unknown | Stance::Rules(_) => Reason::RobotsPending,
    }
}

fn guarded(raw: &[u8], path_guard: bool, rules: &crate::rep::Rules) -> Option<Rule> {
    if !path_guard {
        return None;
    }
    readings(raw).find_map(|reading| {
        let rule = rules.verdict(&ComparisonPath::new(&reading))?;
        (rule.kind == RuleKind::Disallow).then(|| rule.clone())
    })
}

fn conclude(
    target: Target,
    reason: Reason,
    rule: Option<Rule>,
    state: &Arc<State>,
    stance: &Stance,
    now: Moment,
) -> Ruling {
    let decision = Decision {
        reason,
        rule,
        basis: Some(Arc::clone(state)),
        retry_at: match stance {
            Stance::DisallowAll { next_attempt, .. } => Some((*next_attempt).max(now)),
            _ => None,
        },
    };
    match reason.verdict() {
        Verdict::Allow => Ruling::Clear(Permit { target }, decision),
        Verdict::Deny | Verdict::Defer => Ruling::Refuse(decision),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::agent;
    use crate::rep::{ParseOptions, ProductToken, Robots};
    use crate::robots::snapshot::Snapshot;

    const NOW: Moment = Moment::from_millis(1_790_000_000_000);

    fn target(path: &'static str) -> Target {
        let (origin, _) = Origin::parse("https://a.example/").expect("a URL");
        Target {
            origin,
            path: PathAndQuery::from_static(path),
        }
    }

    fn example_bot() -> Agent {
        Agent {
            tokens: vec![ProductToken::new("ExampleBot").expect("a valid token")],
            source: agent::Source::UserAgent,
        }
    }

    fn rules(text: &str) -> Stance {
        let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
        Stance::Rules(Arc::new(Snapshot::new(robots, NOW, 200, "")))
    }

    fn outage(next_attempt: Moment) -> Stance {
        Stance::DisallowAll {
            cause: Cause::Dns,
            next_attempt,
        }
    }

    fn judge(path: &'static str, stance: &Stance, path_guard: bool) -> Ruling {
        let state = Arc::default();
        decide(
            target(path),
            &example_bot(),
            &state,
            stance,
            path_guard,
            NOW,
        )
    }

    /// The decision; a permit must be there exactly where it allows, and for what was asked.
    fn decision(ruling: Ruling, path: &str) -> Decision {
        match ruling {
            Ruling::Clear(permit, decision) => {
                assert_eq!(decision.verdict(), Verdict::Allow);
                assert_eq!(permit.target().path.as_str(), path);
                decision
            }
            Ruling::Refuse(decision) => {
                assert_ne!(decision.verdict(), Verdict::Allow);
                decision
            }
        }
    }

    #[test]
    fn the_rules_decide_and_the_one_that_did_is_named() {
        use Reason::{NoRules, RobotsAllow, RobotsDisallow};
        const FILE: &str = "User-agent: *\nDisallow: /\n\n\
                            User-agent: ExampleBot\nDisallow: /p\nAllow: /p/open\nDisallow: /*?q\n";
        const EMPTY_GROUP: &str =
            "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow:\n";
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &'static str, Reason, Option<u32>)] = &[
            ("a rule disallows", FILE, "/p/x", RobotsDisallow, Some(5)),
            ("a more specific rule allows", FILE, "/p/open/x", RobotsAllow, Some(6)),
            ("the query takes part", FILE, "/x?q", RobotsDisallow, Some(7)),
            ("no rule matches", FILE, "/x", RobotsAllow, None),
            ("another spelling of a disallowed path", FILE, "/%70/x", RobotsDisallow, Some(5)),
            ("another path that only looks alike", FILE, "/P/x", RobotsAllow, None),
            ("its own group is empty", EMPTY_GROUP, "/x", NoRules, None),
            ("no group at all", "Sitemap: https://a.example/s\n", "/x", NoRules, None),
            ("an empty file", "", "/x", NoRules, None),
            ("only others are named", "User-agent: Other\nDisallow: /\n", "/x", NoRules, None),
        ];
        for (name, text, path, reason, line) in cases {
            for path_guard in [true, false] {
                let decision = decision(judge(path, &rules(text), path_guard), path);
                assert_eq!(decision.reason, *reason, "{name}");
                assert_eq!(decision.rule.map(|rule| rule.line), *line, "{name}");
                assert_eq!(decision.retry_at, None, "{name}");
            }
        }
    }

    #[test]
    fn the_path_guard_judges_what_the_origin_may_make_of_a_path() {
        use Reason::{PathGuard, RobotsAllow, RobotsDisallow};
        const FILE: &str = "User-agent: *\nDisallow: /private\nAllow: /a/\nDisallow: /a/b/c\n";
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &'static str, Reason, Option<u32>, Reason)] = &[
            ("a dot segment leads to it", "/a/../private", PathGuard, Some(2), RobotsAllow),
            ("an encoded one does", "/a/%2e%2E/private/x", PathGuard, Some(2), RobotsAllow),
            ("doubled slashes hide it", "//private", PathGuard, Some(2), RobotsAllow),
            ("either order of resolving counts", "/a//../b/c", PathGuard, Some(4), RobotsAllow),
            ("a dot segment leads elsewhere", "/a/../b", RobotsAllow, Some(3), RobotsAllow),
            ("the path as written is judged first", "/private/../a/", RobotsDisallow, Some(2), RobotsDisallow),
            ("dots in the query lead nowhere", "/x?/../private", RobotsAllow, None, RobotsAllow),
            ("an encoded slash is none", "/%2Fprivate", RobotsAllow, None, RobotsAllow),
        ];
        for (name, path, guarded, line, unguarded) in cases {
            let with = decision(judge(path, &rules(FILE), true), path);
            assert_eq!(with.reason, *guarded, "{name}");
            assert_eq!(with.rule.map(|rule| rule.line), *line, "{name}");
            let without = decision(judge(path, &rules(FILE), false), path);
            assert_eq!(without.reason, *unguarded, "{name}, switched off");
        }
    }

    #[test]
    fn without_rules_the_stance_decides() {
        use Reason::{RobotsPending, RobotsUnavailable, RobotsUnreachable};
        let later = NOW + Duration::from_secs(60);
        let earlier = NOW - Duration::from_secs(60);
        for (name, stance, reason, retry_at) in [
            ("no robots.txt", Stance::AllowAll, RobotsUnavailable, None),
            ("an outage", outage(later), RobotsUnreachable, Some(later)),
            (
                "an outage, a fetch overdue",
                outage(earlier),
                RobotsUnreachable,
                Some(NOW),
            ),
            ("nothing known", Stance::Unknown, RobotsPending, None),
        ] {
            let state = Arc::default();
            let tunnel = decide_tunnel(target("/"), &example_bot(), &state, &stance, NOW);
            for ruling in [judge("/", &stance, true), tunnel] {
                let decision = decision(ruling, "/");
                assert_eq!(decision.reason, reason, "{name}");
                assert_eq!(decision.retry_at, retry_at, "{name}");
                assert!(decision.rule.is_none(), "{name}");
                assert!(decision.basis.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_tunnel_passes_only_where_nothing_is_disallowed() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("no rules", "", Reason::NoRules),
            ("an empty disallow", "User-agent: *\nDisallow:\n", Reason::NoRules),
            ("nothing but allow", "User-agent: *\nAllow: /\n", Reason::RobotsAllow),
            ("anything disallowed", "User-agent: *\nDisallow: /x\n", Reason::OpaqueTunnel),
            ("disallowed to others", "User-agent: Other\nDisallow: /\n", Reason::NoRules),
            ("its own group decides", "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nAllow: /\n", Reason::RobotsAllow),
        ];
        for (name, text, reason) in cases {
            let state = Arc::default();
            let ruling = decide_tunnel(target("/"), &example_bot(), &state, &rules(text), NOW);
            assert_eq!(decision(ruling, "/").reason, reason, "{name}");
        }
    }

    #[test]
    fn robots_txt_itself_needs_no_rules() {
        for (path, is_cleared) in [
            ("/robots.txt", true),
            ("/%72obots.txt", true),
            ("/robots.txt?x", false),
            ("//robots.txt", false),
            ("/a/../robots.txt", false),
            ("/Robots.txt", false),
            ("/a/robots.txt", false),
        ] {
            match clear_robots_txt(target(path)) {
                Ok(ruling) => {
                    assert!(is_cleared, "{path}");
                    assert_eq!(decision(ruling, path).reason, Reason::RobotsTxt);
                }
                Err(target) => {
                    assert!(!is_cleared, "{path}");
                    assert_eq!(target.path.as_str(), path);
                }
            }
        }
    }
}
