//! One decision and the outcome of its exchange, as one line.

mod basis;

use std::{net::SocketAddr, time::Duration};

use aws_lc_rs::digest::{SHA256, digest};

use super::field;
use crate::clock::Moment;
use crate::entry::is_strange;
use crate::policy::overrides::OverrideId;
use crate::policy::terms::PolicyDigest;
use crate::store::{DecisionKind, Party, RecordSummary};
use crate::text::json::{Object, Written};
use crate::text::{DecisionId, hex::digits, public_url, timestamp};

/// One exchange: the request, the decision with its reason, the outcome.
///
/// Plain values, so that the end of an exchange fills it in without copies.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Start of the exchange: the request's head was read. The decision came at most `hold` later.
    pub time: Moment,
    /// The identifier that the answer carries, too.
    pub id: DecisionId,
    /// Time of the decision: at this moment copies were fresh or stale, outages long or short, and overrides in force.
    pub decided_at: Moment,
    /// `enforce`, or `report` if nothing is denied and the verdict is the one that would apply.
    pub mode: &'static str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code, such as `robots_disallow`.
    pub reason: &'static str,
    /// Names the settings behind the verdict; `None` if the decision did not need robots.txt.
    pub policy: Option<PolicyDigest>,
    /// The client.
    pub client: Client<'a>,
    /// The identity by which the crawler was judged.
    pub agent: Agent<'a>,
    /// The request's User-Agent field, octets as received.
    pub user_agent: Option<&'a [u8]>,
    /// The method, as received.
    pub method: &'a str,
    /// The version of HTTP that the crawler spoke: `1.0`, `1.1` or `2`; `None` if another proxy asked.
    pub version: Option<&'a str>,
    /// The URL, octets as received. The line leaves its userinfo out and, if so configured, its query.
    pub url: &'a [u8],
    /// The scheme of the origin; empty for an unreadable target.
    pub scheme: &'a str,
    /// Its host, in canonical form; empty for an unreadable target.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// The way of the request: `plain`, `intercepted` or `tunnel`; `decide` if another proxy asked and sends it itself.
    pub via: &'a str,
    /// True for a tunnel that is relayed without interception.
    pub opaque: bool,
    /// The rule that decided; `None` if no rule did.
    pub rule: Option<RuleLine<'a>>,
    /// The path as the origin may read it, if the rule matched that; `None` if it matched the path as received.
    pub reading: Option<&'a str>,
    /// The override that decided; `None` if no override did.
    pub overridden: Option<Assertion<'a>>,
    /// The robots.txt behind the decision; `None` if there is none.
    pub robots: Option<RobotsCopy<'a>>,
    /// Time for which the request was held: for robots.txt, and for politeness.
    pub hold: Duration,
    /// The origin's pace, if it held or refused the request or its crawl delay was shortened; else `None`.
    pub pace: Option<PaceLine<'a>>,
    /// The address that received the request; `None` if none did.
    pub upstream: Option<SocketAddr>,
    /// The version of HTTP that it answered in: `1.0`, `1.1` or `2`; `None` without an answer.
    pub upstream_version: Option<&'a str>,
    /// The status code of the answer; `None` if the crawler hung up first.
    pub status: Option<u16>,
    /// Octets of the request's body.
    pub bytes_in: u64,
    /// Octets of the response's body; of a tunnel, all that flowed to the crawler.
    pub bytes_out: u64,
    /// Time from the request's head to the end of the response.
    pub duration: Duration,
    /// The failure: the error type of the answer's Proxy-Status field (RFC 9209, section 2.3).
    pub error: Option<&'a str>,
}

/// The crawler's end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Its address.
    pub address: SocketAddr,
    /// The name that it authenticated with.
    pub name: Option<&'a str>,
}

/// The crawler's identity towards robots.txt.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// Product tokens, most specific first; empty for the global group.
    pub chain: &'a [&'a str],
    /// Source of the tokens, such as `config` or `user_agent`.
    pub source: &'a str,
    /// True if none of the tokens is part of the User-Agent that was sent.
    pub mismatch: bool,
}

/// One line of a robots.txt.
#[derive(Clone, Copy, Debug)]
pub struct RuleLine<'a> {
    /// The product token of the group that holds the rule, or `*`.
    pub group: &'a str,
    /// The rule as the file has it, such as `Disallow: /private`.
    pub text: &'a str,
    /// Its line, counted from 1.
    pub line: u32,
}

/// The effect of an origin's pace on a request.
#[derive(Clone, Copy, Debug)]
pub struct PaceLine<'a> {
    /// The least time from one request to the next; zero if the request waited for another reason.
    pub interval: Duration,
    /// Source of the interval, such as `own` or `crawl_delay`.
    pub source: &'a str,
    /// True if the robots.txt asks for a longer interval.
    pub clamped: bool,
}

/// An override that decided.
#[derive(Clone, Copy, Debug)]
pub struct Assertion<'a> {
    /// The identifier of the override.
    pub id: OverrideId,
    /// The origin of the override.
    pub origin: &'a str,
    /// The paths of the override.
    pub pattern: &'a str,
    /// `allow` or `deny`.
    pub action: &'a str,
    /// The person who added it.
    pub by: &'a str,
    /// The person's reason.
    pub reason: &'a str,
    /// End of the override; `None` for a configured one without an end.
    pub until: Option<Moment>,
}

/// The copy of an origin's robots.txt that was in force.
#[derive(Clone, Copy, Debug)]
pub struct RobotsCopy<'a> {
    /// The URL of the fetch.
    pub url: &'a str,
    /// The identity of the fetch: a product token, or `*`; `None` without a fetch.
    pub identity: Option<&'a str>,
    /// The User-Agent of the fetch.
    pub user_agent: Option<&'a str>,
    /// The URL of the file after redirects; `None` if there was no file.
    pub final_url: Option<&'a str>,
    /// The origin's state, such as `successful`, `unavailable` or `unreachable`.
    pub state: &'a str,
    /// The status code of the fetch; `None` without an answer.
    pub status: Option<u16>,
    /// Time of the fetch. The record's `age_s` is counted from here.
    pub fetched_at: Option<Moment>,
    /// SHA-256 of its content.
    pub sha256: Option<[u8; 32]>,
    /// Octets of its content.
    pub bytes: Option<u64>,
    /// True if the file was longer than the size limit.
    pub truncated: bool,
    /// End of the time for which this copy, or its absence, counts without another fetch; `None` while unreachable.
    pub fresh_until: Option<Moment>,
    /// The failed fetches since; `None` after a fetch that did not fail.
    pub unreachable: Option<Outage<'a>>,
}

/// A series of failed fetches of a robots.txt.
#[derive(Clone, Copy, Debug)]
pub struct Outage<'a> {
    /// Time of the first failure.
    pub since: Moment,
    /// Time of the last failure caused by the origin; `None` if only the gate's own fetches have failed.
    pub last_failure: Option<Moment>,
    /// Cause of the last failure: a code such as `dns` or `status_503`.
    pub cause: &'a str,
    /// True if the origin's server answered at all, if not as it should.
    pub answers: bool,
    /// Number of failed fetches.
    pub attempts: u32,
    /// Earliest time of the next fetch.
    pub next_attempt: Moment,
}

/// Bounds, in octets of the line. Together they keep every line below the size of one write to a file.
mod most {
    /// A record with a longer URL names it by the digest of the whole.
    pub(super) const URL: usize = 2 * 1024;
    /// Bound on URL and User-Agent of unidentified clients: anyone could fill the store with them.
    pub(super) const OF_STRANGERS: usize = 512;
    pub(super) const REDIRECTED_URL: usize = 4 * 1024;
    pub(super) const USER_AGENT: usize = 1_024;
    pub(super) const RULE: usize = 4 * 1024;
    pub(super) const HOST: usize = 1_024;
    pub(super) const TOKENS: usize = 32;
    pub(super) const TOKEN: usize = 256;
    pub(super) const PATTERN: usize = 4 * 1024;
    pub(super) const WORDS: usize = 4 * 1024;
}

impl Record<'_> {
    /// Returns the facts by which the store files the record.
    pub(super) fn note(&self) -> RecordSummary {
        RecordSummary {
            time: self.time,
            kind: Some(DecisionKind {
                mode: self.mode,
                verdict: self.verdict,
                reason: self.reason,
            }),
            sha256: self.robots.as_ref().and_then(|robots| robots.sha256),
            party: self.party(),
            count: 1,
        }
    }

    /// Tells whether the request was kept from its origin. A request that went out in report mode was not: it is
    /// recorded like all that go out.
    pub(super) fn is_refusal(&self) -> bool {
        self.verdict != "allow" && self.mode != "report"
    }

    /// Returns the party that pays for the room of the record.
    pub(super) fn party(&self) -> Party {
        Party::of(self.client.name, self.client.address.ip(), self.reason)
    }

    /// Tells whether the request was refused because its client is unidentified.
    pub(super) fn is_of_a_stranger(&self) -> bool {
        is_strange(self.reason)
    }

    /// Appends the record to `out` as one line: a JSON object and a line feed.
    ///
    /// `redact_query` replaces the query of the URL, which may be private.
    pub fn write_line(&self, out: &mut Vec<u8>, redact_query: bool) {
        use field as f;
        let mut record = Object::open(out);
        record.plain(f::TIME, &timestamp::rfc3339(self.time));
        record.plain(f::ID, &self.id.text());
        record.plain(f::DECIDED_AT, &timestamp::rfc3339(self.decided_at));
        record.text(f::MODE, self.mode.as_bytes(), most::TOKEN);
        record.text(f::VERDICT, self.verdict.as_bytes(), most::TOKEN);
        record.text(f::REASON, self.reason.as_bytes(), most::TOKEN);
        match self.policy {
            Some(PolicyDigest(half)) => record.plain(f::POLICY, &digits::<16, 32>(&half)),
            None => record.null(f::POLICY),
        }

        let mut client = record.object(f::CLIENT);
        client.address(f::ADDRESS, self.client.address);
        client.text_or_null(f::NAME, self.client.name.map(str::as_bytes), most::TOKEN);
        client.close();

        let mut agent = record.object(f::AGENT);
        agent.texts(f::CHAIN, self.agent.chain, most::TOKENS, most::TOKEN);
        agent.text(f::SOURCE, self.agent.source.as_bytes(), most::TOKEN);
        agent.truth(f::MISMATCH, self.agent.mismatch);
        agent.close();

        let most_of = |most: usize| match self.is_of_a_stranger() {
            true => most.min(most::OF_STRANGERS),
            false => most,
        };
        record.text_or_null(f::USER_AGENT, self.user_agent, most_of(most::USER_AGENT));
        record.text(f::METHOD, self.method.as_bytes(), most::TOKEN);
        record.text_or_null(f::VERSION, self.version.map(str::as_bytes), most::TOKEN);
        let url = public_url(self.url, redact_query);
        if record.text(f::URL, &url, most_of(most::URL)) == Written::Cut {
            let whole = digest(&SHA256, &url);
            let whole: [u8; 32] = whole.as_ref().try_into().unwrap_or_default();
            record.plain(f::URL_SHA256, &digits::<32, 64>(&whole));
        }
        record.text(f::SCHEME, self.scheme.as_bytes(), most::TOKEN);
        record.text(f::HOST, self.host.as_bytes(), most::HOST);
        record.number(f::PORT, self.port.into());
        record.text(f::VIA, self.via.as_bytes(), most::TOKEN);
        record.truth(f::OPAQUE, self.opaque);
        match &self.rule {
            Some(rule) => rule.write(record.object(f::RULE)),
            None => record.null(f::RULE),
        }
        record.text_or_null(f::READING, self.reading.map(str::as_bytes), most::URL);
        match &self.overridden {
            Some(assertion) => assertion.write(record.object(f::OVERRIDE)),
            None => record.null(f::OVERRIDE),
        }
        match &self.robots {
            Some(robots) => robots.write(self.time, record.object(f::ROBOTS)),
            None => record.null(f::ROBOTS),
        }
        record.millis(f::HOLD_MS, self.hold);
        match &self.pace {
            Some(pace) => pace.write(record.object(f::PACE)),
            None => record.null(f::PACE),
        }
        match self.upstream {
            Some(address) => record.address(f::UPSTREAM, address),
            None => record.null(f::UPSTREAM),
        }
        let version = self.upstream_version.map(str::as_bytes);
        record.text_or_null(f::UPSTREAM_VERSION, version, most::TOKEN);
        record.number_or_null(f::STATUS, self.status.map(u64::from));
        record.number(f::BYTES_IN, self.bytes_in);
        record.number(f::BYTES_OUT, self.bytes_out);
        record.millis(f::DURATION_MS, self.duration);
        record.text_or_null(f::ERROR, self.error.map(str::as_bytes), most::TOKEN);
        record.close();
        out.push(b'\n');
    }
}

impl RuleLine<'_> {
    fn write(&self, mut rule: Object<'_>) {
        use field as f;
        rule.text(f::GROUP, self.group.as_bytes(), most::TOKEN);
        rule.text(f::TEXT, self.text.as_bytes(), most::RULE);
        rule.number(f::LINE, self.line.into());
        rule.close();
    }
}

impl PaceLine<'_> {
    fn write(&self, mut pace: Object<'_>) {
        use field as f;
        pace.millis(f::INTERVAL_MS, self.interval);
        pace.text(f::SOURCE, self.source.as_bytes(), most::TOKEN);
        pace.truth(f::CLAMPED, self.clamped);
        pace.close();
    }
}

impl Assertion<'_> {
    fn write(&self, mut assertion: Object<'_>) {
        use field as f;
        assertion.plain(f::ID, self.id.to_string().as_bytes());
        assertion.text(f::ORIGIN, self.origin.as_bytes(), most::HOST);
        assertion.text(f::PATTERN, self.pattern.as_bytes(), most::PATTERN);
        assertion.text(f::ACTION, self.action.as_bytes(), most::TOKEN);
        assertion.text(f::BY, self.by.as_bytes(), most::WORDS);
        assertion.text(f::REASON, self.reason.as_bytes(), most::WORDS);
        moment_or_null(&mut assertion, f::UNTIL, self.until);
        assertion.close();
    }
}

impl Outage<'_> {
    fn write(&self, mut outage: Object<'_>) {
        use field as f;
        outage.plain(f::SINCE, &timestamp::rfc3339(self.since));
        moment_or_null(&mut outage, f::LAST_FAILURE, self.last_failure);
        outage.text(f::CAUSE, self.cause.as_bytes(), most::TOKEN);
        outage.truth(f::ANSWERS, self.answers);
        outage.number(f::ATTEMPTS, self.attempts.into());
        outage.plain(f::NEXT_ATTEMPT, &timestamp::rfc3339(self.next_attempt));
        outage.close();
    }
}

fn moment_or_null(object: &mut Object<'_>, name: &str, moment: Option<Moment>) {
    match moment {
        Some(moment) => object.plain(name, &timestamp::rfc3339(moment)),
        None => object.null(name),
    }
}

impl RobotsCopy<'_> {
    fn write(&self, now: Moment, mut robots: Object<'_>) {
        use field as f;
        robots.text(f::URL, self.url.as_bytes(), most::HOST);
        // A redirect's target is foreign: it may contain userinfo, and be of any length.
        let final_url = self.final_url.map(|url| public_url(url.as_bytes(), false));
        robots.text_or_null(f::FINAL_URL, final_url.as_deref(), most::REDIRECTED_URL);
        robots.text(f::STATE, self.state.as_bytes(), most::TOKEN);
        let identity = self.identity.map(str::as_bytes);
        robots.text_or_null(f::IDENTITY, identity, most::TOKEN);
        let user_agent = self.user_agent.map(str::as_bytes);
        robots.text_or_null(f::USER_AGENT, user_agent, most::USER_AGENT);
        robots.number_or_null(f::STATUS, self.status.map(u64::from));
        moment_or_null(&mut robots, f::FETCHED_AT, self.fetched_at);
        let age = self.fetched_at.map(|at| now.since(at).as_secs());
        robots.number_or_null(f::AGE_S, age);
        match &self.sha256 {
            Some(digest) => robots.plain(f::SHA256, &digits::<32, 64>(digest)),
            None => robots.null(f::SHA256),
        }
        robots.number_or_null(f::BYTES, self.bytes);
        robots.truth(f::TRUNCATED, self.truncated);
        moment_or_null(&mut robots, f::FRESH_UNTIL, self.fresh_until);
        match &self.unreachable {
            Some(outage) => outage.write(robots.object(f::UNREACHABLE)),
            None => robots.null(f::UNREACHABLE),
        }
        robots.close();
    }
}

#[cfg(test)]
pub(super) mod tests;
