//! Explains a decision: the verdict on a URL, and every step to it.
//!
//! `crawlgate check`, the API and the console show the same explanation, which this module computes. It sends nothing
//! except the fetches of the caller's robots cache, and it records nothing: a question is no request.

pub mod contents;
pub mod document;
mod documents;
mod error;
pub mod sitemaps;
pub mod states;
mod url;
pub mod usage;

pub use self::documents::Documents;
pub use self::error::{AgentError, PurposeError, SitemapError, UrlError};
pub use self::url::{origin, target, with_slashes};

use std::sync::Arc;

use http::HeaderValue;

use crate::cache::{EffectiveSettings, View};
use crawlgate_config::{Config, Mode, RobotsConfig};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, Stance, State};
use crawlgate_policy::agent::{self, Agent, Agents};
use crawlgate_policy::generation::OriginUpdates;
use crawlgate_policy::identity::{Required, decide_by_identity};
use crawlgate_policy::overrides::{ActiveOverride, Overrides};
use crawlgate_policy::{self as policy, Decision, Reason, Target, Verdict};
use crawlgate_robots::{Explanation, Group, Lint, OtherLine, ParseOptions, ProductToken, Robots};
use crawlgate_system::clock::Moment;

/// A robots.txt to judge by.
pub type File = Arc<Snapshot>;

/// A URL, judged.
#[derive(Debug)]
pub struct Judgement {
    /// The URL in question.
    pub target: Target,
    /// The crawler's identity.
    pub agent: Arc<Agent>,
    /// The decision about the URL.
    pub decision: Decision,
    /// The robots.txt that holds the deciding rules.
    pub snapshot: Option<File>,
    /// The evaluation of its rules.
    pub explanation: Option<Explanation>,
    /// The other source that has an opinion.
    pub alternative: Option<Alternative>,
    /// The site's statements about the use of the page; `None` if robots.txt does not allow it.
    pub usage: Option<usage::Usage>,
}

impl Judgement {
    /// Returns the notes on its robots.txt.
    pub fn notes(&self) -> Vec<Lint> {
        let file = self.snapshot.as_ref();
        file.map_or_else(Vec::new, |file| crawlgate_usage::notes(&file.robots))
    }
}

/// A source that would decide otherwise.
#[derive(Debug)]
pub enum Alternative {
    /// An override: the proxy would apply it, but the question was about a file.
    Override(Arc<ActiveOverride>),
    /// robots.txt: an override decided instead of it.
    Robots(Box<Decision>),
}

/// A URL that could not be judged.
#[derive(Debug)]
pub struct Unjudged {
    /// The URL.
    pub url: String,
    /// The reason.
    pub why: String,
}

/// The identity and settings that URLs are judged by.
#[derive(Debug)]
pub struct Evaluator {
    /// The crawler's identity.
    pub agent: Arc<Agent>,
    /// The identification that crawlers must send.
    pub required: Required,
    /// The operators' overrides.
    pub overrides: Overrides,
    /// The settings of the decision.
    pub settings: policy::DecisionInputs,
    /// The part of the question about use.
    pub asked: usage::UsageQuery,
}

/// The result of a judgement without robots.txt.
#[derive(Debug)]
pub enum Evaluation {
    /// The final judgement.
    Judged(Box<Judgement>),
    /// Undecided without robots.txt, with the decision of a matching override.
    Open(Target, Option<Box<Decision>>),
}

impl Evaluator {
    /// Returns an evaluator with the settings of a configuration.
    #[must_use]
    pub fn of(
        agent: Arc<Agent>,
        asked: usage::UsageQuery,
        overrides: Overrides,
        config: &Config,
    ) -> Evaluator {
        Evaluator {
            agent,
            required: config.agent.required(),
            overrides,
            settings: config.robots.settings(Mode::Enforce),
            asked,
        }
    }

    /// Judges by everything except robots.txt.
    pub fn begin(&self, target: Target, now: Moment) -> Evaluation {
        let mode = self.settings.mode;
        let target = match policy::clear_robots_txt(target.clone(), mode, now) {
            Ok(ruling) => {
                return Evaluation::Judged(Box::new(self.bare(target, ruling.into_decision())));
            }
            Err(target) => target,
        };
        let identified = decide_by_identity(target.clone(), &self.agent, self.required, mode, now);
        if let Ok(ruling) = identified {
            return Evaluation::Judged(Box::new(self.bare(target, ruling.into_decision())));
        }
        let asserted = policy::decide_by_override(target.clone(), &self.overrides, mode, now);
        let asserted = asserted.ok().map(|ruling| Box::new(ruling.into_decision()));
        Evaluation::Open(target, asserted)
    }

    /// Judges by a file that the user names. The file decides, since the question is about it; a matching override is
    /// only mentioned.
    pub fn by_file(
        &self,
        target: Target,
        asserted: Option<Box<Decision>>,
        view: View,
    ) -> Judgement {
        let asserted = asserted.and_then(|decision| decision.asserted);
        Judgement {
            alternative: asserted.map(Alternative::Override),
            ..self.judge(target, view, None)
        }
    }

    /// Judges by the documents of the origin, as the proxy does.
    pub fn by_origin(
        &self,
        target: Target,
        asserted: Option<Box<Decision>>,
        documents: Documents,
    ) -> Judgement {
        let judged = self.judge(target, documents.view, documents.tdmrep.as_deref());
        match asserted {
            // The proxy checks the address policy before the overrides.
            Some(asserted) if judged.decision.reason != Reason::AddressProhibited => Judgement {
                alternative: Some(Alternative::Robots(Box::new(judged.decision))),
                decision: *asserted,
                ..judged
            },
            _ => judged,
        }
    }

    /// Returns a judgement that rests on no robots.txt.
    pub fn bare(&self, target: Target, decision: Decision) -> Judgement {
        Judgement {
            target,
            agent: Arc::clone(&self.agent),
            decision,
            snapshot: None,
            explanation: None,
            alternative: None,
            usage: None,
        }
    }

    fn judge(&self, target: Target, view: View, tdmrep: Option<&usage::File>) -> Judgement {
        let View { state, fetched_as, stance, now, .. } = view;
        let (asked, settings) = (target.clone(), self.settings.clone());
        let ruling = policy::decide(asked, &self.agent, &state, &stance, settings, now);
        let mut decision = ruling.with_fetched_as(fetched_as).into_decision();
        if stance.is_prohibited() {
            // The proxy checks the address policy first.
            decision.reason = Reason::AddressProhibited;
        }
        let snapshot = match stance {
            Stance::Rules(snapshot) => Some(snapshot),
            _ => None,
        };
        let path = target.path.as_str().as_bytes();
        let usage = (decision.verdict() == Verdict::Allow).then(|| {
            let tokens = &self.agent.tokens;
            let statements = snapshot.as_ref().and_then(|file| file.statements(tokens));
            let is_guarded = self.settings.path_guard;
            let file = tdmrep.or(self.asked.tdmrep.as_deref());
            self.asked.judge(statements.as_deref(), file, tokens, path, is_guarded)
        });
        let lifted = self.overrides.about_usage(&target.origin, path, now);
        if let Some(reason) = usage.as_ref().and_then(|usage| usage.refusal) {
            match lifted {
                Some(lifted) => decision.asserted = Some(Arc::clone(lifted)),
                None => {
                    decision.reason = reason;
                    // No rule of robots.txt decided.
                    decision.rule = None;
                }
            }
        }
        Judgement {
            explanation: snapshot
                .as_ref()
                .map(|snapshot| snapshot.robots.explain(&self.agent.tokens, path)),
            snapshot,
            decision,
            agent: Arc::clone(&self.agent),
            target,
            alternative: None,
            usage,
        }
    }
}

/// Returns the view of a file as if it had just been fetched.
pub fn view(file: &File, config: &RobotsConfig, now: Moment) -> View {
    let until = now + config.timing.fresh;
    let state = State::Successful {
        snapshot: Arc::clone(file),
        fresh: Fresh { refresh_from: until, until },
        outage: None,
    };
    View {
        state: Arc::new(state),
        fetched_as: None,
        stance: Stance::Rules(Arc::clone(file)),
        now,
        is_exhausted: false,
        by: Arc::new(EffectiveSettings::of(config.clone())),
        updates: OriginUpdates::default(),
    }
}

/// Parses a text as a robots.txt of this name.
pub fn file(text: &[u8], name: &str, config: &RobotsConfig, now: Moment) -> File {
    let robots = Robots::parse(text, options(config));
    Arc::new(Snapshot::new(robots, now, 200, name))
}

/// Returns the settings for parsing robots.txt.
pub fn options(config: &RobotsConfig) -> ParseOptions {
    ParseOptions { lenient: config.lenient, limit: config.size_limit }
}

/// Returns the crawler to judge: from product tokens or whole User-Agents, otherwise the configured one.
///
/// # Errors
/// When a name is neither.
pub fn agent(named: &[String], config: &Config) -> Result<Arc<Agent>, AgentError> {
    if named.is_empty() {
        let nothing = http::HeaderMap::new();
        return Ok(Agents::new(&config.agent.product_tokens).identify(None, &nothing));
    }
    self::named(named)
}

/// Returns the crawler of these product tokens, or of these User-Agents.
///
/// # Errors
/// When a name is neither.
pub fn named(named: &[String]) -> Result<Arc<Agent>, AgentError> {
    let tokens: Result<Vec<ProductToken>, _> =
        named.iter().map(|name| ProductToken::new(name)).collect();
    if let Ok(tokens) = tokens {
        let source = agent::Source::Config;
        return Ok(Arc::new(Agent { tokens, source, mismatch: false }));
    }
    let mut headers = http::HeaderMap::new();
    for name in named {
        let value = HeaderValue::from_str(name).map_err(|_| AgentError(name.clone()))?;
        headers.append(http::header::USER_AGENT, value);
    }
    Ok(Agents::new(&[]).identify(None, &headers))
}

/// Describes the reason for a decision, with the facts that the decision adds to the reason's meaning.
pub fn meaning(decision: &Decision) -> String {
    let reason = decision.reason;
    match (reason, decision.cause()) {
        (Reason::RobotsAllow, _) if decision.rule.is_some() => "a rule allows it".to_owned(),
        (Reason::RobotsUnavailable, Some(cause)) => {
            format!("robots.txt cannot be had, and the profile allows that: {cause}")
        }
        (Reason::RobotsUnreachable, Some(cause)) => format!("{}: {cause}", reason.info().meaning),
        (Reason::PathGuard, _) if decision.rule.is_none() => {
            "the origin may read the path in more ways than can be judged".to_owned()
        }
        _ => reason.info().meaning.to_owned(),
    }
}

/// Returns the index of the group that a field belongs to: the last group that begins above it. A Sitemap belongs to
/// none.
pub fn group_of(other: &OtherLine<'_>, groups: &[Group<'_>]) -> Option<usize> {
    if other.field == crawlgate_robots::Field::Sitemap {
        return None;
    }
    let begins_above = |group: &Group<'_>| {
        let first = group.user_agents().next();
        first.is_some_and(|(_, line)| line < other.line)
    };
    groups.partition_point(begins_above).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judged_agent_is_named_or_configured() {
        let config = Config::default();
        let chain = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
            let agent = agent(&named, &config).expect("an agent");
            let chain: Vec<String> = agent.tokens.iter().map(ToString::to_string).collect();
            chain.join(" ")
        };
        assert_eq!(chain(&[]), "");
        assert_eq!(chain(&["Googlebot-Image", "Googlebot"]), "Googlebot-Image Googlebot");
        assert_eq!(chain(&["Mozilla/5.0 (compatible; bingbot/2.0)"]), "bingbot");
        assert_eq!(chain(&["*"]), "");
        assert!(agent(&["a\nb".to_owned()], &config).is_err());
    }

    #[test]
    fn every_reason_is_explained_in_words() {
        for reason in Reason::ALL {
            let words = meaning(&Decision::bare(reason, Moment::default()));
            assert_ne!(words, reason.as_str());
            // Without a rule, no reading of the path is disallowed.
            let is_meaning = words == reason.info().meaning;
            assert_eq!(is_meaning, reason != Reason::PathGuard, "{words}");
        }
        let by_rule = |reason| {
            let rule = crawlgate_robots::Rule {
                kind: crawlgate_robots::RuleKind::Disallow,
                text: "disallow: /".into(),
                line: 2,
                group: "*".into(),
                group_line: 1,
            };
            meaning(&Decision { rule: Some(rule), ..Decision::bare(reason, Moment::default()) })
        };
        assert_eq!(by_rule(Reason::RobotsAllow), "a rule allows it");
        assert_eq!(
            by_rule(Reason::PathGuard),
            "a rule disallows what the origin may read the path as"
        );
    }
}
