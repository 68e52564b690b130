//! Selection of records for a query.
//!
//! An engine may narrow the search by its indexes; this filter decides, so that every engine gives the same answer. The
//! filter reads each record as JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{
    Acknowledgement, DecisionQuery, HOUR, Hourly, Party, Sha256, StoreError, StoreErrorKind, Tally,
    TallyKey, failed,
};
use crate::clock::Moment;
use crate::entry::{Entry, Event, EventKind};
use crate::rep::{ComparisonPath, PathPattern};

/// The facts of a record that a query may ask for.
#[derive(Deserialize)]
pub(super) struct Facts<'r> {
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
    error: Option<IgnoredAny>,
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

/// The facts by which an engine files a record.
pub(super) struct Head<'r> {
    /// Number of decisions that the record covers; `None` for a record about something else.
    decisions: Option<u64>,
    time: Moment,
    mode: Cow<'r, str>,
    verdict: Cow<'r, str>,
    reason: Cow<'r, str>,
    sha256: Option<Sha256>,
    party: Party,
}

/// The facts of a head, as the record writes them.
#[derive(Deserialize)]
struct Written<'r> {
    /// `None` for a line that is no decision.
    id: Option<IgnoredAny>,
    #[serde(borrow, default)]
    event: Cow<'r, str>,
    #[serde(default)]
    count: u64,
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
    robots: Option<Robots<'r>>,
}

#[derive(Deserialize)]
struct Robots<'r> {
    #[serde(borrow, default)]
    sha256: Option<Cow<'r, str>>,
}

impl<'r> Head<'r> {
    /// Reads a record.
    pub(super) fn of(record: &'r str) -> Result<Self, StoreError> {
        let written: Written<'r> =
            serde_json::from_str(record).map_err(|error| failed(format!("a record: {error}")))?;
        let sha256 = written.robots.as_ref().and_then(|one| one.sha256.as_ref());
        Ok(Head {
            decisions: match (&written.id, &*written.event) {
                (Some(_), _) => Some(1),
                (None, super::REFUSALS_REPEATED) => Some(written.count),
                (None, _) => None,
            },
            time: moment(&written.time),
            sha256: sha256.and_then(|digest| crate::text::from_hex(digest)),
            party: written.party(),
            mode: written.mode,
            verdict: written.verdict,
            reason: written.reason,
        })
    }

    /// Returns the facts of an entry; `sha256` is the digest of the robots.txt behind the decision.
    pub(super) fn of_entry(entry: &Entry<'r>, sha256: Option<Sha256>) -> Head<'r> {
        let time = Moment::from_millis(entry.time());
        let (decisions, mode, verdict, reason, client) = match entry {
            Entry::Decision(one) => {
                let client = (one.client_name, one.client.ip());
                (1, one.mode, one.verdict, one.reason, client)
            }
            Entry::Event(Event {
                kind:
                    EventKind::Repeated {
                        mode,
                        verdict,
                        reason,
                        client,
                        client_name,
                        count,
                        ..
                    },
                ..
            }) => (*count, *mode, *verdict, *reason, (*client_name, *client)),
            Entry::Event(_) => return Head::of_own(time),
        };
        let (name, address) = client;
        Head {
            decisions: Some(decisions),
            time,
            mode: mode.name().into(),
            verdict: verdict.name().into(),
            reason: reason.into(),
            sha256,
            party: Party::of(name.map(|name| name.kept), address, reason),
        }
    }

    /// Returns the facts of a record about crawlgate itself.
    fn of_own(time: Moment) -> Head<'r> {
        Head {
            decisions: None,
            time,
            mode: "".into(),
            verdict: "".into(),
            reason: "".into(),
            sha256: None,
            party: Party::Own,
        }
    }

    /// Returns the party that pays for the room of the record.
    pub(super) fn party(&self) -> Party {
        self.party.clone()
    }

    pub(super) fn time(&self) -> Moment {
        self.time
    }

    /// Returns the record's count for its hour; `None` unless it is a decision.
    pub(super) fn hourly(&self) -> Option<Hourly<&str>> {
        let count = self.decisions?;
        let time = self.time.as_millis();
        let hour = u64::try_from(HOUR.as_millis()).unwrap_or(1);
        Some(Hourly {
            hour: Moment::from_millis(time - time % hour),
            mode: &self.mode,
            verdict: &self.verdict,
            reason: &self.reason,
            count,
        })
    }

    /// Returns the digest of the robots.txt behind the decision.
    pub(super) fn sha256(&self) -> Option<Sha256> {
        self.sha256
    }
}

impl Written<'_> {
    /// Returns the party that pays for the room of the record.
    fn party(&self) -> Party {
        let Some(client) = &self.client else {
            return Party::Own;
        };
        let address = without_port(&client.address).parse();
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Party::of(client.name.as_deref(), address, &self.reason)
    }
}

/// The conditions of a [`DecisionQuery`], prepared for many records.
pub(crate) struct Filter<'q> {
    query: &'q DecisionQuery,
    path: Option<PathPattern>,
    /// True for a query by host alone, whatever the scheme and the port.
    any_scheme: bool,
}

impl<'q> Filter<'q> {
    pub(crate) fn new(query: &'q DecisionQuery) -> Result<Self, StoreError> {
        let path = query.path.as_deref().map(PathPattern::new).transpose();
        let path = path.map_err(|error| StoreError {
            kind: StoreErrorKind::Failed,
            message: format!("{}: {error}", query.path.as_deref().unwrap_or_default()),
        })?;
        let origin = query.origin.as_deref();
        Ok(Self {
            query,
            path,
            any_scheme: origin.is_some_and(|origin| !origin.contains("://")),
        })
    }

    /// Returns the host that all matching records have.
    pub(super) fn host(&self) -> Option<&'q str> {
        let origin = self.query.origin.as_deref()?;
        if self.any_scheme {
            return Some(origin);
        }
        let (_, authority) = origin.split_once("://")?;
        let host = match authority.rsplit_once(':') {
            // The colons of an IPv6 address are inside its brackets.
            Some((host, port)) if !port.ends_with(']') => host,
            _ => authority,
        };
        Some(host)
    }

    /// Returns the facts of a record that matches.
    pub(super) fn facts<'r>(
        &self,
        record: &'r str,
        acknowledged: Option<&Acknowledgement>,
    ) -> Option<Facts<'r>> {
        let facts: Facts<'r> = serde_json::from_str(record).ok()?;
        self.holds(&facts, acknowledged.is_some()).then_some(facts)
    }

    /// Tells whether a record without an acknowledgement matches.
    pub(crate) fn admits(&self, record: &str) -> bool {
        self.facts(record, None).is_some()
    }

    fn holds(&self, facts: &Facts<'_>, acknowledged: bool) -> bool {
        let query = self.query;
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        facts.id.is_some()
            && query
                .acknowledged
                .is_none_or(|wanted| wanted == acknowledged)
            && is(&query.verdict, &facts.verdict)
            && is(&query.reason, &facts.reason)
            && is(&query.mode, &facts.mode)
            && query
                .failed
                .is_none_or(|wanted| wanted == facts.has_failed())
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
    pub(super) fn time(&self) -> Moment {
        moment(&self.time)
    }

    /// Tells whether the exchange failed, other than by a refusal of ours.
    fn has_failed(&self) -> bool {
        let is_refusal = self.mode == "enforce" && self.verdict != "allow";
        self.error.is_some() && !is_refusal
    }

    /// Returns the origin as [`crate::rep::Origin`] writes it; empty for an unreadable target.
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
        let after = self
            .url
            .split_once("://")
            .map_or(&*self.url, |(_, rest)| rest);
        let start = after.find(['/', '?']);
        start.and_then(|start| after.get(start..)).unwrap_or("/")
    }

    fn key(&self, key: TallyKey) -> Vec<String> {
        match key {
            TallyKey::Origin => vec![self.origin()],
            TallyKey::Reason => vec![self.reason.clone().into_owned()],
            TallyKey::Rule => {
                let rule = self
                    .rule
                    .as_ref()
                    .map(|rule| rule.text.clone().into_owned());
                vec![self.origin(), rule.unwrap_or_default()]
            }
        }
    }
}

/// Counts of records by key, updated record by record.
pub(super) struct Tallies {
    key: TallyKey,
    counts: HashMap<Vec<String>, Tally>,
}

impl Tallies {
    pub(super) fn new(key: TallyKey) -> Self {
        let counts = HashMap::new();
        Self { key, counts }
    }

    pub(super) fn count(&mut self, facts: &Facts<'_>) {
        let (key, time) = (facts.key(self.key), facts.time());
        let tally = self.counts.entry(key).or_insert_with_key(|key| Tally {
            key: key.clone(),
            count: 0,
            first: time,
            last: time,
        });
        tally.count += 1;
        tally.first = tally.first.min(time);
        tally.last = tally.last.max(time);
    }

    /// Returns the groups, the most frequent first; groups of equal size by name.
    pub(super) fn into_most_frequent(self, limit: usize) -> Vec<Tally> {
        let mut tallies: Vec<_> = self.counts.into_values().collect();
        tallies.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        tallies.truncate(limit);
        tallies
    }
}

/// Parses a time of RFC 3339; the epoch for any other text.
fn moment(text: &str) -> Moment {
    let time = text
        .parse::<Timestamp>()
        .map_or(0, |time| time.as_millisecond());
    Moment::from_millis(u64::try_from(time).unwrap_or_default())
}

/// Returns `127.0.0.1` of `127.0.0.1:40000`, `::1` of `[::1]:40000`.
fn without_port(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
