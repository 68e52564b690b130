//! The search for decisions in entries and blocks, without lines.
//!
//! A [`Search`] prepares the conditions of a [`DecisionQuery`] once and answers in two ways, always the same:
//!
//! ```text
//! let search = Search::new(&query)?;
//! search.admits(&decision, acknowledged)                   one decision: of the tail, or just recorded
//! search.places(&block, range, newest_first, acknowledged) the matching places of a block, one after the other
//! search.wanted().may_be_in(&segment_keys)                 false: the segment has no such decision
//!
//! let mut counts = GroupCounts::new(key);
//! counts.count(&decision)
//! counts.count_block(&search, &block, range, acknowledged)?
//! counts.into_most_frequent(limit)
//!
//! let ids = DecisionId::with_prefix(prefix)                the range of a prefix, of which the ends tell the times
//! decisions_by_id(&block, &ids)                            the places with these identifiers
//! ```
//!
//! `range` is the part of the block that the search may visit. `acknowledged` tells the search, by the place of a
//! decision, whether a person has acknowledged that decision; it is called only if the query asks for it. `limit`,
//! `after`, `from` and `to` of the query are left to the engine. In a block each condition is evaluated once per word of the dictionaries, then
//! on the numbers of the columns; the section of the paths is unpacked only for a query that asks for a path, and each
//! path is read where all else holds.
//!
//! Texts are compared as lines show them: an octet that is not UTF-8 is `\xNN`. Of a text that was cut the kept part is
//! compared. A path is compared as it was sent.
//!
//! The room knows no IO, clock or log.

mod columns;
mod group_counts;
pub(super) mod words;

pub use self::columns::Places;
pub(super) use self::group_counts::Group;
pub use self::group_counts::GroupCounts;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use self::words::{path_of, shown};
use crate::segment::{Kind, SegmentKeys, key};
use crate::{DecisionQuery, StoreError, failed};
use crawlgate_block::Block;
use crawlgate_policy::Outcome;
use crawlgate_record::{Decision, Mode, Verdict, has_failed, origin_parts};
use crawlgate_robots::{ComparisonPath, PathPattern};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// The conditions of a [`DecisionQuery`], prepared for many decisions.
#[derive(Clone, Debug)]
pub struct Search {
    query: DecisionQuery,
    path: Option<PathPattern>,
    client: Option<ClientIs>,
}

/// A wanted client.
#[derive(Clone, Debug)]
struct ClientIs {
    name: String,
    /// The address, if the name is one.
    address: Option<IpAddr>,
    /// The port beside the address.
    port: Option<u16>,
}

/// The answer of a client's word to a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientMatch {
    No,
    Yes,
    /// If the port is this one, too.
    IfPort(u16),
}

/// The facts that decisions of one shape share.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShapeFacts<'a> {
    pub(super) mode: Mode,
    pub(super) verdict: Verdict,
    pub(super) reason: &'a str,
    pub(super) error: Option<&'a str>,
    /// True if error and status mean a failure ([`has_failed`]). A refusal of ours may have an error, too.
    pub(super) ends_in_failure: bool,
}

impl ShapeFacts<'_> {
    /// Tells whether the exchange failed, other than by a refusal of ours.
    fn has_failed(&self) -> bool {
        let is_refusal = self.mode == Mode::Enforce && self.verdict != Verdict::Allow;
        self.ends_in_failure && !is_refusal
    }
}

impl ClientIs {
    fn of(text: &str) -> Self {
        let with_port = text.parse::<SocketAddr>().ok();
        let address = text.parse().ok();
        Self {
            name: text.to_owned(),
            address: address.or(with_port.map(|at| at.ip())),
            port: with_port.map(|at| at.port()),
        }
    }

    fn holds(&self, address: Option<IpAddr>, name: Option<&str>) -> ClientMatch {
        let is_there = self.address.is_some() && self.address == address;
        match self.port {
            _ if name == Some(&self.name) => ClientMatch::Yes,
            Some(port) if is_there => ClientMatch::IfPort(port),
            None if is_there => ClientMatch::Yes,
            _ => ClientMatch::No,
        }
    }
}

impl Search {
    /// Prepares a query.
    ///
    /// # Errors
    /// When no path can match the pattern.
    pub fn new(query: &DecisionQuery) -> Result<Self, StoreError> {
        let path = query
            .path
            .as_deref()
            .map(|text| PathPattern::new(text).map_err(|error| failed(format!("{text}: {error}"))));
        Ok(Self {
            path: path.transpose()?,
            client: query.client.as_deref().map(ClientIs::of),
            query: query.clone(),
        })
    }

    /// Tells whether a decision matches. `acknowledged` is true of a decision that a person has acknowledged.
    #[must_use]
    pub fn admits(&self, decision: &Decision<'_>, acknowledged: bool) -> bool {
        let error = decision.error.map(|error| error.kept);
        let facts = ShapeFacts {
            mode: decision.mode,
            verdict: decision.verdict,
            reason: decision.reason,
            error,
            ends_in_failure: has_failed(error, decision.status),
        };
        let client = decision.client;
        let name = decision.client_name.map(|name| name.kept);
        self.holds_acknowledged(acknowledged)
            && self.holds_time(decision.time())
            && self.holds_shape(&facts)
            && self.holds_origin(decision.origin)
            && match self.holds_client(Some(client.ip()), name) {
                ClientMatch::Yes => true,
                ClientMatch::IfPort(port) => port == client.port(),
                ClientMatch::No => false,
            }
            && self.holds_agent(decision.chain.iter().map(|token| token.kept))
            && self.holds_rule(decision.rule.map(|rule| rule.text.kept))
            && (self.path.is_none() || {
                let (pieces, _) = decision.url.pieces(None);
                self.holds_path(&pieces.concat(), decision.url.follows_origin())
            })
    }

    /// Tells whether the query asks only for what the sums of a segment tell: mode, verdict, reason, origin, rule, time.
    pub(super) fn asks_only_for_sums(&self) -> bool {
        let query = &self.query;
        let others = query.failed.is_some() || query.acknowledged.is_some();
        !others && query.agent.is_none() && self.client.is_none() && self.path.is_none()
    }

    /// Tells whether the span of the query lies between two times, both of which are outside.
    pub(super) fn lies_between(&self, first: u64, last: u64) -> bool {
        let since = self.query.since.map_or(0, Moment::as_millis);
        let until = self.query.until.map_or(u64::MAX, Moment::as_millis);
        first < since && last >= until
    }

    fn holds_acknowledged(&self, acknowledged: bool) -> bool {
        let wanted = self.query.acknowledged;
        wanted.is_none_or(|wanted| wanted == acknowledged)
    }

    pub(super) fn holds_time(&self, time: u64) -> bool {
        let query = &self.query;
        query.since.is_none_or(|since| time >= since.as_millis())
            && query.until.is_none_or(|until| time < until.as_millis())
    }

    /// Tells whether one of two times, or one between them, may be wanted.
    pub(super) fn meets_time(&self, earliest: u64, latest: u64) -> bool {
        let query = &self.query;
        query.since.is_none_or(|since| latest >= since.as_millis())
            && query.until.is_none_or(|until| earliest < until.as_millis())
    }

    /// Tells whether only acknowledged decisions are wanted.
    pub(super) fn is_of_acknowledged(&self) -> bool {
        self.query.acknowledged == Some(true)
    }

    pub(super) fn holds_shape(&self, facts: &ShapeFacts<'_>) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        let wanted = self.query.failed;
        is(&self.query.mode, facts.mode.as_str())
            && is(&self.query.verdict, facts.verdict.as_str())
            && is(&self.query.reason, facts.reason)
            && self.query.denial.is_none_or(|wanted| {
                facts.verdict == Verdict::Deny && wanted == Outcome::of_denial(facts.reason)
            })
            && wanted.is_none_or(|wanted| wanted == facts.has_failed())
    }

    pub(super) fn holds_origin(&self, origin: Option<&str>) -> bool {
        let Some(wanted) = self.query.origin.as_deref() else {
            return true;
        };
        let origin = origin.unwrap_or_default();
        if self.is_any_scheme() {
            origin_parts(origin).1.eq_ignore_ascii_case(wanted)
        } else {
            origin.eq_ignore_ascii_case(wanted)
        }
    }

    /// Tells whether the query asks for a host, whatever the scheme and the port.
    fn is_any_scheme(&self) -> bool {
        let origin = self.query.origin.as_deref();
        origin.is_some_and(|origin| !origin.contains("://"))
    }

    fn holds_client(&self, address: Option<IpAddr>, name: Option<&str>) -> ClientMatch {
        let wanted = self.client.as_ref();
        wanted.map_or(ClientMatch::Yes, |wanted| wanted.holds(address, name))
    }

    /// Tells whether the query asks for this client, on whatever port.
    pub(super) fn holds_client_at(&self, address: IpAddr, name: Option<&str>) -> bool {
        self.holds_client(Some(address), name) != ClientMatch::No
    }

    /// Tells whether the query asks for an origin.
    pub(super) fn has_origin(&self) -> bool {
        self.query.origin.is_some()
    }

    fn holds_agent<'t>(&self, mut chain: impl Iterator<Item = &'t str>) -> bool {
        let wanted = self.query.agent.as_deref();
        wanted.is_none_or(|wanted| chain.any(|token| token.eq_ignore_ascii_case(wanted)))
    }

    pub(super) fn holds_rule(&self, rule: Option<&[u8]>) -> bool {
        let wanted = self.query.rule.as_deref();
        wanted.is_none_or(|wanted| rule.is_some_and(|rule| shown(rule) == wanted))
    }

    /// Tells whether the pattern matches what follows the origin, or the path of a whole URL.
    fn holds_path(&self, octets: &[u8], follows_origin: bool) -> bool {
        self.path.as_ref().is_none_or(|pattern| {
            let path = if follows_origin { octets } else { path_of(octets) };
            pattern.matches(&ComparisonPath::new(path))
        })
    }
}

/// Returns the decisions of a block with identifiers in `ids`: their places and identifiers, in the order of the block.
/// [`DecisionId::with_prefix`] gives the range of a prefix; the prefix is ambiguous if there are two decisions in all blocks
/// and the tail together.
pub fn decisions_by_id(
    block: &Block<'_>,
    ids: &RangeInclusive<DecisionId>,
) -> impl Iterator<Item = (u32, DecisionId)> {
    let keys = block.keys();
    let times = ids.start().time().as_millis()..=ids.end().time().as_millis();
    let rows = keys.time.iter().enumerate();
    let in_time = rows.filter(move |(_, time)| times.contains(time));
    let with_ids = in_time.filter_map(|(row, _)| {
        let id = DecisionId::from_octets(block.id(row)?);
        keys.place(row).map(|place| (place, id))
    });
    with_ids.filter(|(_, id)| ids.contains(id))
}

/// The keys that a search wants of a segment.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Of each group, one key at least.
    groups: Vec<Vec<u32>>,
}

impl Search {
    /// Returns the keys that a segment must have to hold a matching decision.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let query = &self.query;
        let mut groups = Vec::new();
        if let Some(origin) = query.origin.as_ref().filter(|origin| !origin.is_empty()) {
            let kind = if self.is_any_scheme() { Kind::Host } else { Kind::Origin };
            groups.push(vec![key(kind, origin.to_ascii_lowercase().as_bytes())]);
        }
        if let Some(rule) = &query.rule {
            groups.push(vec![key(Kind::Rule, rule.as_bytes())]);
        }
        if let Some(token) = &query.agent {
            groups.push(vec![key(Kind::Token, token.to_ascii_lowercase().as_bytes())]);
        }
        if let Some(client) = &self.client {
            let mut either = vec![key(Kind::ClientName, client.name.as_bytes())];
            let address = client.address.map(|address| address.to_string());
            either.extend(address.map(|address| key(Kind::ClientAddress, address.as_bytes())));
            groups.push(either);
        }
        if let Some(reason) = &query.reason {
            groups.push(vec![key(Kind::Reason, reason.as_bytes())]);
        }
        Wanted { groups }
    }
}

impl Wanted {
    /// Tells whether a segment with these keys can hold a matching decision.
    #[must_use]
    pub fn may_be_in(&self, keys: SegmentKeys<'_>) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.iter().any(|key| keys.has(*key)))
    }
}

#[cfg(test)]
mod tests;
