//! Which decisions: the conditions of `crawlgate log`.

use clap::Args;

use crate::cli::when::{self, Edge};
use crate::clock::Moment;
use crate::config::Mode;
use crate::policy::{Reason, Verdict};
use crate::rep::{Origin, PathPattern, Scheme};
use crate::store::DecisionQuery;

/// Conditions; all that are given must hold.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FilterArgs {
    /// Not before
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before; a day counts whole
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Of this origin (https://example.com), or of this host whatever the scheme and port
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// With a path that this matches: a pattern as in robots.txt
    #[arg(long, value_name = "PATTERN")]
    path: Option<String>,
    /// From this address, or of this name
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// By a crawler that is judged by this product token
    #[arg(long, value_name = "TOKEN")]
    agent: Option<String>,
    /// For this reason, such as robots_disallow
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// With this verdict: allow, deny or defer
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// In this mode: enforce or report
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Those that somebody has acknowledged
    #[arg(long)]
    acknowledged: bool,
    /// Those that nobody has acknowledged
    #[arg(long, conflicts_with = "acknowledged")]
    unacknowledged: bool,
}

impl FilterArgs {
    /// The question to the store.
    pub(super) fn query(&self, now: Moment) -> Result<DecisionQuery, String> {
        let time = |text: &Option<String>, edge| {
            let text = text.as_deref();
            text.map(|text| when::moment(text, edge, now)).transpose()
        };
        if let Some(pattern) = &self.path {
            PathPattern::new(pattern).map_err(|error| format!("--path {pattern}: {error}"))?;
        }
        Ok(DecisionQuery {
            since: time(&self.since, Edge::Since).map_err(|error| format!("--since {error}"))?,
            until: time(&self.until, Edge::Until).map_err(|error| format!("--until {error}"))?,
            origin: self.origin.as_deref().map(origin).transpose()?,
            path: self.path.clone(),
            client: self.client.clone(),
            agent: self.agent.clone(),
            reason: one_of("--reason", &self.reason, &Reason::ALL.map(Reason::as_str))?,
            verdict: one_of(
                "--verdict",
                &self.verdict,
                &[Verdict::Allow, Verdict::Deny, Verdict::Defer].map(Verdict::as_str),
            )?,
            mode: one_of(
                "--mode",
                &self.mode,
                &[Mode::Enforce, Mode::Report].map(Mode::as_str),
            )?,
            acknowledged: match (self.acknowledged, self.unacknowledged) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            ..DecisionQuery::default()
        })
    }
}

/// In canonical form, as records have it.
fn origin(text: &str) -> Result<String, String> {
    if text.contains("://") {
        let origin = Origin::parse(text).map_err(|error| format!("--origin {text}: {error}"))?;
        return Ok(origin.0.to_string());
    }
    let host = Origin::new(Scheme::Https, text, None);
    let host = host.map_err(|error| {
        format!("--origin {text}: {error}; write a host, or an origin with its scheme: https://example.com:8443")
    })?;
    Ok(host.host().to_owned())
}

/// A word that is one of `words`: a mistyped one would match nothing, which reads like an answer.
fn one_of(name: &str, text: &Option<String>, words: &[&str]) -> Result<Option<String>, String> {
    match text {
        Some(text) if !words.contains(&text.as_str()) => {
            Err(format!("{name} {text}: it is one of {}", words.join(", ")))
        }
        text => Ok(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_mistakes_are_told() {
        let with = |change: fn(&mut FilterArgs)| {
            let mut args = FilterArgs::default();
            change(&mut args);
            args.query(Moment::from_millis(1_795_176_000_123))
        };
        type Change = fn(&mut FilterArgs);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(with(|_| {}).unwrap().acknowledged, None);
        let origin: Change = |args| args.origin = Some("HTTPS://B\u{fc}cher.example:443/x".into());
        assert_eq!(
            with(origin).unwrap().origin,
            some("https://xn--bcher-kva.example")
        );
        let host: Change = |args| args.origin = Some("A.Example.".into());
        assert_eq!(with(host).unwrap().origin, some("a.example"));
        #[rustfmt::skip] // one row, one case
        let mistakes: &[(&str, Change, &str)] = &[
            ("a reason that is none", |args| args.reason = Some("disallow".into()), "--reason disallow: it is one of robots_allow"),
            ("a verdict that is none", |args| args.verdict = Some("denied".into()), "--verdict denied: it is one of allow, deny, defer"),
            ("a mode that is none", |args| args.mode = Some("dry".into()), "--mode dry: it is one of enforce, report"),
            ("a pattern that matches nothing", |args| args.path = Some("private".into()), "--path private: a path pattern begins with"),
            ("a time that is none", |args| args.since = Some("soon".into()), "--since soon: not a time"),
            ("a host that is none", |args| args.origin = Some("a b".into()), "--origin a b: "),
        ];
        for (name, change, says) in mistakes {
            let error = with(*change).expect_err(name);
            assert!(error.starts_with(says), "{name}: {error}");
        }
    }
}
