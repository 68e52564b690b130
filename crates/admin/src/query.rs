//! Conditions and overrides as people write them, read into queries of the store.
//!
//! The command line, the API and the console share this one reader and its words. A condition that makes no sense is
//! refused with a reason: a condition with another meaning than meant would still give an answer.

pub mod params;
pub mod when;

use std::fmt;
use std::time::Duration;

use self::when::Edge;
use crawlgate_config::{Mode, parse_duration, parse_moment};
use crawlgate_gate::explain::with_slashes;
use crawlgate_origins::identity::Identity;
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_policy::{Reason, Verdict};
use crawlgate_robots::{Origin, PathPattern, Scheme};
use crawlgate_store::DecisionQuery;
use crawlgate_system::clock::Moment;

/// Longest time that an override may last: a person should look at it once a year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A text that cannot be read. The message gives the text and the valid forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

/// A parameter that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {message}")]
pub struct InvalidParam {
    /// The parameter: `since`, `reason`, …
    pub name: String,
    /// The given value, and the valid ones.
    pub message: String,
}

impl InvalidParam {
    /// Creates the error about this parameter.
    pub fn new(name: &str, message: impl fmt::Display) -> InvalidParam {
        InvalidParam { name: name.to_owned(), message: message.to_string() }
    }
}

/// Conditions on decisions; all that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct Conditions {
    /// Earliest time: `2026-11-20`, `2026-11-20T12:00`, `2026-11-20T12:00:00Z` (UTC), or a span back from now: `2h`,
    /// `7d`.
    #[cfg_attr(feature = "openapi", param(example = "7d"))]
    pub since: Option<String>,
    /// Latest time, exclusive; a day counts whole.
    #[cfg_attr(feature = "openapi", param(example = "2027-12-31"))]
    pub until: Option<String>,
    /// The origin (`https://site.example`), or a host with any scheme and port.
    #[cfg_attr(feature = "openapi", param(example = "https://site.example"))]
    pub origin: Option<String>,
    /// A pattern that matches the path, as in robots.txt.
    #[cfg_attr(feature = "openapi", param(pattern = "^[/*]"))]
    pub path: Option<String>,
    /// The text of the deciding rule, as its file has it: `Disallow: /private`.
    pub rule: Option<String>,
    /// The client's address or name.
    pub client: Option<String>,
    /// The product token that judges the crawler.
    pub agent: Option<String>,
    /// The reason.
    #[cfg_attr(feature = "openapi", param(schema_with = schema::reason))]
    pub reason: Option<String>,
    /// The verdict.
    #[cfg_attr(feature = "openapi", param(schema_with = schema::verdict))]
    pub verdict: Option<String>,
    /// The mode.
    #[cfg_attr(feature = "openapi", param(schema_with = schema::mode))]
    pub mode: Option<String>,
    /// True for requests that were let through and then failed, false for the others.
    pub failed: Option<bool>,
    /// True for acknowledged decisions, false for the others.
    pub acknowledged: Option<bool>,
}

impl Conditions {
    /// Returns the query for the store.
    ///
    /// # Errors
    /// The first condition that can never hold.
    pub fn query(&self, now: Moment) -> Result<DecisionQuery, InvalidParam> {
        let time = |name, text: &Option<String>, edge| {
            let time = text.as_deref().map(|text| when::moment(text, edge, now));
            time.transpose().map_err(|message| InvalidParam::new(name, message))
        };
        if let Some(pattern) = &self.path {
            PathPattern::new(pattern)
                .map_err(|error| InvalidParam::new("path", format_args!("{pattern}: {error}")))?;
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
            failed: self.failed,
            acknowledged: self.acknowledged,
            ..DecisionQuery::default()
        })
    }
}

/// Returns the words for verdicts.
pub fn verdicts() -> [&'static str; 3] {
    [Verdict::Allow, Verdict::Deny, Verdict::Defer].map(Verdict::as_str)
}

/// Returns the words for modes.
pub fn modes() -> [&'static str; 2] {
    [Mode::Enforce, Mode::Report].map(Mode::as_str)
}

/// Words for the states of an origin.
pub const STATES: [&str; 3] = ["successful", "unavailable", "unreachable"];

/// Returns the origin or host in canonical form, as in records.
fn origin_or_host(text: &str) -> Result<String, InvalidParam> {
    let wrong =
        |message: &dyn fmt::Display| InvalidParam::new("origin", format_args!("{text}: {message}"));
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

/// Reads one of `words`: a mistyped word would match nothing, which would look like an answer.
pub fn one_of(
    name: &str,
    text: &Option<String>,
    words: &[&str],
) -> Result<Option<String>, InvalidParam> {
    match text {
        Some(text) if !words.contains(&text.as_str()) => {
            Err(InvalidParam::new(name, format_args!("{text}: it is one of {}", words.join(", "))))
        }
        text => Ok(text.clone()),
    }
}

/// Reads an origin. The rest of a URL after it is ignored.
///
/// # Errors
/// When the text is no origin.
pub fn origin(text: &str) -> Result<Origin, ReadError> {
    match (Origin::parse(text), with_slashes(text)) {
        (Ok((origin, _)), _) => Ok(origin),
        (Err(error), Some(mended)) => {
            Err(ReadError(format!("{error}; write two slashes behind the scheme: {mended}")))
        }
        (Err(error), None) if !text.contains("://") => Err(ReadError(format!(
            "{error}; an origin has a scheme: https://{text}, or http://{text}"
        ))),
        (Err(error), None) => Err(ReadError(error.to_string())),
    }
}

/// Reads the identity of an origin's state.
///
/// # Errors
/// When the text is no identity.
pub fn identity(text: &str) -> Result<Identity, ReadError> {
    Identity::parse(text).ok_or_else(|| {
        ReadError(format!(
            "{text}: expected a product token (GoodBot), with a client's name (GoodBot@news), or *; for the state of its \
             tdmrep.json, tdmrep.json: before it"
        ))
    })
}

/// An override as a person writes it.
#[derive(Clone, Copy, Debug)]
pub struct Asserted<'a> {
    /// The origin; nothing may follow it.
    pub origin: &'a str,
    /// The paths: a pattern as in robots.txt; none: all.
    pub pattern: Option<&'a str>,
    /// The effect on these paths.
    pub action: overrides::Action,
    /// The end: a day, a time, or a span; at most a year ahead.
    pub until: &'a str,
    /// The person who answers for the override.
    pub by: &'a str,
    /// The reason.
    pub reason: &'a str,
}

/// Reads the name of an override's action.
///
/// # Errors
/// When no action has this name.
pub fn action(name: &str) -> Result<overrides::Action, InvalidParam> {
    overrides::Action::from_name(name).ok_or_else(|| {
        let message = format_args!("{name}: it is allow, allow_usage or deny");
        InvalidParam::new("action", message)
    })
}

impl Asserted<'_> {
    /// Returns the override; the store gives it a number.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn read(&self, now: Moment) -> Result<Override, InvalidParam> {
        let pattern = self.pattern.unwrap_or("/");
        PathPattern::new(pattern)
            .map_err(|error| InvalidParam::new("pattern", format_args!("{pattern}: {error}")))?;
        let words = |name, text| {
            overrides::words(text).map_err(|error| InvalidParam::new(name, format_args!("{error}")))
        };
        Ok(Override {
            id: OverrideId::Stored(0), // the store numbers it
            origin: forwarded(self.origin)
                .map_err(|message| InvalidParam::new("origin", message))?,
            pattern: pattern.to_owned(),
            action: self.action,
            until: Some(
                end(self.until, now).map_err(|message| InvalidParam::new("until", message))?,
            ),
            by: words("by", self.by)?,
            reason: words("reason", self.reason)?,
            created: now,
            instance: None,
        })
    }
}

/// Reads an origin that requests can be forwarded to, with nothing after it.
fn forwarded(text: &str) -> Result<Origin, ReadError> {
    let refused = |why: String| ReadError(format!("{text}: {why}"));
    let (origin, path) = Origin::parse(text)
        .map_err(|error| refused(format!("{error}; write an origin: https://site.example")))?;
    if path != "/" {
        return Err(refused(format!(
            "this is more than an origin; write {origin} and {path} apart"
        )));
    }
    Ok(origin)
}

/// Returns the end of an override.
fn end(text: &str, now: Moment) -> Result<Moment, ReadError> {
    let refused = |why: &str| ReadError(format!("{text}: {why}"));
    let until = parse_duration(text).map(|span| now + span);
    let until = until.or_else(|| parse_moment(text)).ok_or_else(|| {
        refused("write a day (2026-12-31), a time (2026-12-31T12:00:00Z) or a span (30d)")
    })?;
    if until <= now {
        return Err(refused("this has passed already"));
    }
    if until.since(now) > LONGEST {
        return Err(refused(
            "this is more than a year ahead; say it again next year, or put it into the configuration as [[override]]",
        ));
    }
    Ok(until)
}

/// The schemas of conditions that take one of some words.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

    use crate::query::{Reason, modes, verdicts};

    fn words(words: &[&str]) -> Object {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.to_vec())).build()
    }

    pub(super) fn reason() -> Object {
        words(&Reason::ALL.map(Reason::as_str))
    }

    pub(super) fn verdict() -> Object {
        words(&verdicts())
    }

    pub(super) fn mode() -> Object {
        words(&modes())
    }
}

#[cfg(test)]
mod tests;
