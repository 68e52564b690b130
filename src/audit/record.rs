//! One decision and the outcome of its exchange, as the proxy gives it to the log.

pub(super) mod basis;

use std::{net::SocketAddr, time::Duration};

use crawlgate_config::Recorded;
use crawlgate_origins::access::Cause;
use crawlgate_policy::overrides::OverrideId;
use crawlgate_policy::settings::PolicyDigest;
pub use crawlgate_record::has_failed;
use crawlgate_record::{Exempt, Signed, Texts, is_of_unknown_client};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;
use crawlgate_usage::Purposes;

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
    /// The method, as received; empty if the request line begins with no token.
    pub method: &'a str,
    /// The version of HTTP that the crawler spoke: `1.0`, `1.1` or `2`; `None` if another proxy asked.
    pub version: Option<&'a str>,
    /// The URL, octets as received. The entry leaves its userinfo out and, if so configured, its query.
    pub url: &'a [u8],
    /// The canonical origin; `None` for an unreadable target.
    pub origin: Option<&'a str>,
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
    /// The exemption without which robots.txt would have denied the request.
    pub exempt: Option<Exempt<'a>>,
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
    /// The signature of the request; `None` where its client has no identity, or none was to be made.
    pub signed: Option<Signed<'a>>,
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
    /// The words of the answer, where they tell the crawler more than its reason and the rest of the record do.
    pub detail: Option<&'a str>,
    /// The purposes that the client declares.
    pub purposes: Purposes,
    /// Statements of the site about the use of its content, as text of a
    /// [`UsageRecord`](crawlgate_usage::record::UsageRecord::text). `None` if the site states nothing and the client declares
    /// no purpose.
    pub usage: Option<&'a str>,
    /// The origin's tdmrep.json, if it was asked and `usage` tells of use.
    pub tdmrep: Option<RobotsCopy<'a>>,
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
    pub chain: Texts<'a>,
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
    /// Time of its creation; the epoch for a configured one.
    pub created: Moment,
    /// The instance of a fleet that added it.
    pub instance: Option<&'a str>,
}

/// The copy of an origin's robots.txt, or tdmrep.json, that was in force.
#[derive(Clone, Copy, Debug)]
pub struct RobotsCopy<'a> {
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
    /// Time of the fetch. The line's `age_s` is counted from here.
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
    /// Cause of the last failure.
    pub cause: &'a Cause,
    /// Number of failed fetches.
    pub attempts: u32,
    /// Earliest time of the next fetch.
    pub next_attempt: Moment,
}

impl Record<'_> {
    /// Tells whether the request was kept from its origin. A request that went out in report mode was not: it is
    /// recorded like all that go out.
    pub(super) fn is_refusal(&self) -> bool {
        self.verdict != "allow" && self.mode != "report"
    }

    /// Tells whether an identified client is denied for good, and not only put off.
    pub(super) fn is_denial_of_a_client(&self) -> bool {
        self.is_refusal() && self.verdict == "deny" && !self.is_unidentified()
    }

    /// Returns the least setting that records the decision.
    pub(super) fn least(&self) -> Recorded {
        Recorded::least(self.reason, self.verdict, self.has_failed(), self.purposes)
    }

    /// Tells whether the request went out and failed.
    pub(super) fn has_failed(&self) -> bool {
        has_failed(self.error, self.status)
    }

    /// Tells whether the request was refused because its client is unidentified.
    pub(super) fn is_unidentified(&self) -> bool {
        is_of_unknown_client(self.reason)
    }
}

#[cfg(test)]
pub(super) mod tests;
