//! A second implementation of a query: it reads each line as JSON and compares the fields one by one.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

use crate::DecisionQuery;
use crawlgate_robots::{ComparisonPath, PathPattern};
use crawlgate_system::clock::Moment;

/// The facts of a record that a query may ask for.
#[derive(Deserialize)]
struct Facts<'r> {
    /// `None` for a line that is no decision, such as one about lost records.
    id: Option<Cow<'r, str>>,
    #[serde(borrow, default)]
    time: Cow<'r, str>,
    #[serde(borrow, default)]
    mode: Cow<'r, str>,
    #[serde(borrow, default)]
    verdict: Cow<'r, str>,
    #[serde(borrow, default)]
    reason: Cow<'r, str>,
    #[serde(borrow)]
    client: Option<Client<'r>>,
    #[serde(borrow)]
    agent: Option<Agent<'r>>,
    #[serde(borrow, default)]
    url: Cow<'r, str>,
    #[serde(borrow, default)]
    scheme: Cow<'r, str>,
    #[serde(borrow, default)]
    host: Cow<'r, str>,
    #[serde(default)]
    port: u16,
    #[serde(borrow)]
    rule: Option<Rule<'r>>,
    #[serde(borrow)]
    error: Option<Cow<'r, str>>,
    status: Option<u16>,
}

#[derive(Deserialize)]
struct Client<'r> {
    #[serde(borrow, default)]
    address: Cow<'r, str>,
    name: Option<Cow<'r, str>>,
}

#[derive(Deserialize)]
struct Agent<'r> {
    #[serde(borrow, default)]
    chain: Vec<Cow<'r, str>>,
}

#[derive(Deserialize)]
struct Rule<'r> {
    #[serde(borrow, default)]
    text: Cow<'r, str>,
}

/// The conditions of a [`DecisionQuery`], prepared for many records.
pub(super) struct Filter<'q> {
    query: &'q DecisionQuery,
    path: Option<PathPattern>,
    /// True for a query by only the host, whatever the scheme and the port.
    any_scheme: bool,
}

impl<'q> Filter<'q> {
    pub(super) fn new(query: &'q DecisionQuery) -> Self {
        let path = query.path.as_deref();
        let origin = query.origin.as_deref();
        Self {
            query,
            path: path.map(|path| PathPattern::new(path).unwrap()),
            any_scheme: origin.is_some_and(|origin| !origin.contains("://")),
        }
    }

    pub(super) fn admits(&self, record: &str, acknowledged: bool) -> bool {
        let facts: Facts<'_> = serde_json::from_str(record).unwrap();
        self.holds(&facts, acknowledged)
    }

    fn holds(&self, facts: &Facts<'_>, acknowledged: bool) -> bool {
        let query = self.query;
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        facts.id.is_some()
            && query.acknowledged.is_none_or(|wanted| wanted == acknowledged)
            && is(&query.verdict, &facts.verdict)
            && is(&query.reason, &facts.reason)
            && is(&query.mode, &facts.mode)
            && query.failed.is_none_or(|wanted| wanted == facts.has_failed())
            && self.holds_rule(facts)
            && self.holds_time(facts)
            && self.holds_origin(facts)
            && self.holds_client(facts)
            && self.holds_agent(facts)
            && self.holds_path(facts)
    }

    fn holds_time(&self, facts: &Facts<'_>) -> bool {
        if self.query.since.is_none() && self.query.until.is_none() {
            return true;
        }
        let time = facts.time();
        self.query.since.is_none_or(|since| time >= since)
            && self.query.until.is_none_or(|until| time < until)
    }

    fn holds_origin(&self, facts: &Facts<'_>) -> bool {
        match self.query.origin.as_deref() {
            None => true,
            Some(host) if self.any_scheme => facts.host.eq_ignore_ascii_case(host),
            Some(origin) => facts.origin().eq_ignore_ascii_case(origin),
        }
    }

    fn holds_client(&self, facts: &Facts<'_>) -> bool {
        let Some(wanted) = self.query.client.as_deref() else {
            return true;
        };
        facts.client.as_ref().is_some_and(|client| {
            client.name.as_deref() == Some(wanted)
                || without_port(&client.address) == wanted
                || client.address == wanted
        })
    }

    fn holds_agent(&self, facts: &Facts<'_>) -> bool {
        let Some(wanted) = self.query.agent.as_deref() else {
            return true;
        };
        facts.agent.as_ref().is_some_and(|agent| {
            let mut chain = agent.chain.iter();
            chain.any(|token| token.eq_ignore_ascii_case(wanted))
        })
    }

    fn holds_rule(&self, facts: &Facts<'_>) -> bool {
        self.query
            .rule
            .as_deref()
            .is_none_or(|wanted| facts.rule.as_ref().is_some_and(|rule| rule.text == wanted))
    }

    fn holds_path(&self, facts: &Facts<'_>) -> bool {
        self.path
            .as_ref()
            .is_none_or(|pattern| pattern.matches(&ComparisonPath::new(facts.path().as_bytes())))
    }
}

impl Facts<'_> {
    fn time(&self) -> Moment {
        moment(&self.time)
    }

    /// Tells whether the exchange failed, other than by a refusal of ours.
    fn has_failed(&self) -> bool {
        let is_refusal = self.mode == "enforce" && self.verdict != "allow";
        // A crawler that had enough of an answer did not see it fail.
        let failed = match self.error.as_deref() {
            Some("client_closed") => self.status.is_none(),
            error => error.is_some(),
        };
        failed && !is_refusal
    }

    /// Returns the origin as [`crawlgate_robots::Origin`] writes it; empty for an unreadable target.
    fn origin(&self) -> String {
        let (scheme, host, port) = (&self.scheme, &self.host, self.port);
        if host.is_empty() {
            return String::new();
        }
        match (scheme.as_ref(), port) {
            ("http", 80) | ("https", 443) | ("ftp", 21) => format!("{scheme}://{host}"),
            _ => format!("{scheme}://{host}:{port}"),
        }
    }

    /// Returns the path with its query; `/` for a URL without a path.
    fn path(&self) -> &str {
        let after = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let start = after.find(['/', '?']);
        start.and_then(|start| after.get(start..)).unwrap_or("/")
    }
}

/// Parses a time of RFC 3339; the epoch for any other text.
fn moment(text: &str) -> Moment {
    let time = text.parse::<Timestamp>().map_or(0, |time| time.as_millisecond());
    Moment::from_millis(u64::try_from(time).unwrap_or_default())
}

/// Returns `127.0.0.1` of `127.0.0.1:40000`, `::1` of `[::1]:40000`.
fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
