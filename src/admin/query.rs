//! What people ask for, read into questions to the store.
//!
//! The command line, the API and the console ask the same questions in the same words; here they are read, once. A
//! question that makes no sense is refused and says why: one that silently means something else reads like an answer.

pub mod params;
pub mod when;

use std::fmt;
use std::time::Duration;

use self::when::Edge;
use crate::clock::Moment;
use crate::config::{Mode, parse_duration, parse_moment};
use crate::policy::overrides::{self, Override, OverrideId};
use crate::policy::{Reason, Verdict};
use crate::rep::{Origin, PathPattern, Scheme};
use crate::robots::identity::Identity;
use crate::store::DecisionQuery;

/// How far ahead an override may end: what nobody has looked at for a year should not hold for another one.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A part of a question that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which part: `since`, `reason`, …
    pub name: String,
    /// What was said, and what can be.
    pub said: String,
}

impl Wrong {
    /// About this part, this is to be said.
    pub fn new(name: &str, said: impl fmt::Display) -> Wrong {
        Wrong {
            name: name.to_owned(),
            said: said.to_string(),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.said)
    }
}

/// Conditions on decisions, as they were written; all that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Not before this time, see [`when::moment`].
    pub since: Option<String>,
    /// Before this time; a day counts whole.
    pub until: Option<String>,
    /// Of this origin (`https://example.com`), or of this host whatever the scheme and port.
    pub origin: Option<String>,
    /// With a path that this matches: a pattern as in robots.txt.
    pub path: Option<String>,
    /// From this address, or of this name.
    pub client: Option<String>,
    /// By a crawler that is judged by this product token.
    pub agent: Option<String>,
    /// For this reason.
    pub reason: Option<String>,
    /// By the rule of this text: `Disallow: /private`.
    pub rule: Option<String>,
    /// With this verdict.
    pub verdict: Option<String>,
    /// In this mode.
    pub mode: Option<String>,
    /// Acknowledged, or not.
    pub acknowledged: Option<bool>,
}

impl Conditions {
    /// The question to the store.
    ///
    /// # Errors
    /// The first condition that can never hold.
    pub fn query(&self, now: Moment) -> Result<DecisionQuery, Wrong> {
        let time = |name, text: &Option<String>, edge| {
            let time = text.as_deref().map(|text| when::moment(text, edge, now));
            time.transpose().map_err(|said| Wrong::new(name, said))
        };
        if let Some(pattern) = &self.path {
            PathPattern::new(pattern)
                .map_err(|error| Wrong::new("path", format_args!("{pattern}: {error}")))?;
        }
        Ok(DecisionQuery {
            since: time("since", &self.since, Edge::Since)?,
            until: time("until", &self.until, Edge::Until)?,
            origin: self.origin.as_deref().map(origin_or_host).transpose()?,
            path: self.path.clone(),
            client: self.client.clone(),
            agent: self.agent.clone(),
            reason: one_of("reason", &self.reason, &Reason::ALL.map(Reason::as_str))?,
            rule: self.rule.clone(),
            verdict: one_of("verdict", &self.verdict, &verdicts())?,
            mode: one_of("mode", &self.mode, &modes())?,
            acknowledged: self.acknowledged,
            ..DecisionQuery::default()
        })
    }
}

/// Words for verdicts.
pub fn verdicts() -> [&'static str; 3] {
    [Verdict::Allow, Verdict::Deny, Verdict::Defer].map(Verdict::as_str)
}

/// Words for modes.
pub fn modes() -> [&'static str; 2] {
    [Mode::Enforce, Mode::Report].map(Mode::as_str)
}

/// Words for the states of an origin.
pub const STATES: [&str; 3] = ["successful", "unavailable", "unreachable"];

/// In canonical form, as records have it.
fn origin_or_host(text: &str) -> Result<String, Wrong> {
    let wrong = |said: &dyn fmt::Display| Wrong::new("origin", format_args!("{text}: {said}"));
    if text.contains("://") {
        let origin = Origin::parse(text).map_err(|error| wrong(&error))?;
        return Ok(origin.0.to_string());
    }
    let host = Origin::new(Scheme::Https, text, None).map_err(|error| {
        wrong(&format_args!(
            "{error}; write a host, or an origin with its scheme: https://example.com:8443"
        ))
    })?;
    Ok(host.host().to_owned())
}

/// A word that is one of `words`: a mistyped one would match nothing, which reads like an answer.
pub fn one_of(name: &str, text: &Option<String>, words: &[&str]) -> Result<Option<String>, Wrong> {
    match text {
        Some(text) if !words.contains(&text.as_str()) => Err(Wrong::new(
            name,
            format_args!("{text}: it is one of {}", words.join(", ")),
        )),
        text => Ok(text.clone()),
    }
}

/// An origin by itself. Whatever follows it in a URL is of no account.
///
/// # Errors
/// When it is none.
pub fn origin(text: &str) -> Result<Origin, String> {
    match Origin::parse(text) {
        Ok((origin, _)) => Ok(origin),
        Err(error) if !text.contains("://") => Err(format!(
            "{error}; an origin has a scheme: https://{text}, or http://{text}"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// An identity that a state of an origin belongs to.
///
/// # Errors
/// When it is none.
pub fn identity(text: &str) -> Result<Identity, String> {
    Identity::parse(text).ok_or_else(|| {
        format!(
            "{text}: expected a product token (GoodBot), with a client's name (GoodBot@news), or *"
        )
    })
}

/// An override as somebody asserts it.
#[derive(Clone, Copy, Debug)]
pub struct Asserted<'a> {
    /// Of which origin; nothing may follow it.
    pub origin: &'a str,
    /// Of which paths: a pattern as in robots.txt; none: all of them.
    pub pattern: Option<&'a str>,
    /// What holds for them.
    pub action: overrides::Action,
    /// When it ends: with a day, at a time, or after a span; at most a year ahead.
    pub until: &'a str,
    /// Who vouches for it.
    pub by: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Asserted<'_> {
    /// The override; its number is the store's to give.
    ///
    /// # Errors
    /// The first part that makes no sense.
    pub fn read(&self, now: Moment) -> Result<Override, Wrong> {
        let pattern = self.pattern.unwrap_or("/");
        PathPattern::new(pattern)
            .map_err(|error| Wrong::new("pattern", format_args!("{pattern}: {error}")))?;
        let words = |name, text| {
            overrides::words(text).map_err(|error| Wrong::new(name, format_args!("{error}")))
        };
        Ok(Override {
            id: OverrideId::Stored(0), // the store numbers it
            origin: forwarded(self.origin).map_err(|said| Wrong::new("origin", said))?,
            pattern: pattern.to_owned(),
            action: self.action,
            until: Some(end(self.until, now).map_err(|said| Wrong::new("until", said))?),
            by: words("by", self.by)?,
            reason: words("reason", self.reason)?,
            created: now,
        })
    }
}

/// An origin that requests can be forwarded to, and nothing else.
fn forwarded(text: &str) -> Result<Origin, String> {
    let (origin, path) = Origin::parse(text)
        .map_err(|error| format!("{text}: {error}; write an origin: https://site.example"))?;
    if origin.scheme() == Scheme::Ftp {
        return Err(format!("{text}: only http and https are forwarded"));
    }
    if path != "/" {
        return Err(format!(
            "{text}: this is more than an origin; write {origin} and {path} apart"
        ));
    }
    Ok(origin)
}

/// When an override ends.
fn end(text: &str, now: Moment) -> Result<Moment, String> {
    let until = parse_duration(text).map(|span| now + span);
    let until = until.or_else(|| parse_moment(text)).ok_or_else(|| {
        format!("{text}: write a day (2026-12-31), a time (2026-12-31T12:00:00Z) or a span (30d)")
    })?;
    if until <= now {
        return Err(format!("{text}: this has passed already"));
    }
    if until.since(now) > LONGEST {
        return Err(format!(
            "{text}: this is more than a year ahead; say it again next year, or put it into the configuration as [[override]]"
        ));
    }
    Ok(until)
}

#[cfg(test)]
mod tests;
