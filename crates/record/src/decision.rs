//! The entry of a decision, in parts.

use std::net::SocketAddr;

use self::key::*;
use super::Digest;
use super::bounds::{is_of_unknown_client, most};
use super::table::{keyed, numbered};
use super::url::Url;
use super::value::{Octets, Text, Texts};
use crawlgate_policy::Outcome;
pub use crawlgate_policy::agent::Source;
pub use crawlgate_policy::{Mode, Verdict};
use crawlgate_text::{DecisionId, named};

/// The keys of all entries. One key has one meaning in every kind; the type is that of its value. Those of a decision:
///
/// | key | value | type |
/// |---:|---|---|
/// | 0 | kind: absent in a decision, else see below | uint |
/// | 1 | identifier; its first 48 bits are the time in milliseconds | 16 octets |
/// | 2 | milliseconds from the time to the decision | int |
/// | 3, 4 | mode: 0 enforce, 1 report; verdict: 0 allow, 1 deny, 2 defer | uint |
/// | 5 | reason code | text |
/// | 6 | SHA-256 of the settings behind the verdict | 32 octets |
/// | 7, 8 | client: address and port; name | \[4 or 16 octets, uint\]; text |
/// | 9 | product tokens | \[text…\] |
/// | 10, 11 | their source: 0 none, 1 client, 2 config, 3 user_agent; mismatch | uint; true |
/// | 12, 13 | User-Agent, method | octets; text |
/// | 14 | canonical origin | text |
/// | 15 | what follows the origin in the URL: empty, or from `/` or `?` on | octets |
/// | 16 | instead of 15, a URL that does not begin with the origin | octets |
/// | 17, 18 | via: 0 plain, 1 intercepted, 2 tunnel, 3 decide; opaque | uint; true |
/// | 19 | rule: group, text, line | \[text, octets, uint\] |
/// | 20, 21 | SHA-256 of the override; of the basis | 32 octets |
/// | 22, 23 | hold in µs; pace: interval in µs, source, clamped | uint; \[uint, text, bool\] |
/// | 24, 25 | upstream's address and port; status | as 7; uint |
/// | 26, 27, 28 | octets of both bodies, duration in µs | uint |
/// | 29 | error type | text |
/// | 30 | by key, the number of octets cut off (of 9: of tokens left out; of 19: of octets of the text) | map of uint |
/// | 31 | what the site says of use, as [one JSON object](crawlgate_usage::record) | text |
/// | 32, 33 | version of HTTP that the crawler spoke; of the origin's answer | text |
/// | 34 | the path as the origin may read it | octets |
/// | 35 | SHA-256 of a URL that is cut | 32 octets |
/// | 36 | the words of the answer, where they tell what no other value does | text |
/// | 37 | the signature of the request: identity, thumbprint of the key, its time in seconds; 1 left to the crawler; 2 impossible | \[text, text, uint\]; uint |
/// | 38 | with 31: SHA-256 of another basis, the state of the origin's tdmrep.json | 32 octets |
/// | 39 | exempt: the reason that would have denied, and the operator's reason | \[text, text\] |
///
/// A token, or the group of a rule, that is cut itself stands as an array: the text, and the number of octets cut off.
#[expect(missing_docs, reason = "each is the name of its value")]
pub mod key {
    pub const KIND: u8 = 0;
    pub const ID: u8 = 1;
    pub const DECIDED_AFTER: u8 = 2;
    pub const MODE: u8 = 3;
    pub const VERDICT: u8 = 4;
    pub const REASON: u8 = 5;
    pub const POLICY: u8 = 6;
    pub const CLIENT: u8 = 7;
    pub const CLIENT_NAME: u8 = 8;
    pub const CHAIN: u8 = 9;
    pub const SOURCE: u8 = 10;
    pub const MISMATCH: u8 = 11;
    pub const USER_AGENT: u8 = 12;
    pub const METHOD: u8 = 13;
    pub const ORIGIN: u8 = 14;
    pub const PATH: u8 = 15;
    pub const URL: u8 = 16;
    pub const VIA: u8 = 17;
    pub const OPAQUE: u8 = 18;
    pub const RULE: u8 = 19;
    pub const OVERRIDE: u8 = 20;
    pub const BASIS: u8 = 21;
    pub const HOLD: u8 = 22;
    pub const PACE: u8 = 23;
    pub const UPSTREAM: u8 = 24;
    pub const STATUS: u8 = 25;
    pub const BYTES_IN: u8 = 26;
    pub const BYTES_OUT: u8 = 27;
    pub const DURATION: u8 = 28;
    pub const ERROR: u8 = 29;
    pub const CUTS: u8 = 30;
    pub const USAGE: u8 = 31;
    pub const VERSION: u8 = 32;
    pub const UPSTREAM_VERSION: u8 = 33;
    pub const READING: u8 = 34;
    pub const URL_SHA256: u8 = 35;
    pub const DETAIL: u8 = 36;
    pub const SIGNED: u8 = 37;
    pub const TDMREP: u8 = 38;
    pub const EXEMPT: u8 = 39;
    pub const COUNT: u8 = 40;
    pub const FIRST: u8 = 41;
    pub const LAST: u8 = 42;
    pub const PROCESS: u8 = 43;
    pub const RELEASE: u8 = 44;
    pub const CONFIGURATION: u8 = 45;
    pub const REPORT_ORIGINS: u8 = 46;
    pub const REPORT_CLIENTS: u8 = 47;
    pub const BY: u8 = 48;
    pub const NOTE: u8 = 49;
    pub const INDEX: u8 = 50;
    pub const CAUSE: u8 = 51;
    pub const VKEY: u8 = 52;
    pub const LOG: u8 = 53;
    pub const SIZE: u8 = 54;
    pub const ROOT: u8 = 55;
    pub const ROWS: u8 = 56;
    pub const DECISION: u8 = 57;
    pub const OLD_VKEY: u8 = 58;
    pub const EXEMPT_CLIENTS: u8 = 59;
}

named! {
    /// The way of a request.
    Via {
        /// A request line with the whole URL.
        #[default]
        Plain = 0 "plain",
        /// Inside a CONNECT that is intercepted.
        Intercepted = 1 "intercepted",
        /// The CONNECT itself.
        Tunnel = 2 "tunnel",
        /// The question of another proxy, which sends the request itself.
        Decide = 3 "decide",
    }
}

numbered!(Via);

keyed! {
    /// One decision and the outcome of its exchange.
    ///
    /// Both sides of the format: an encoder is given one, a reader returns one. Objects are named by their SHA-256.
    Decision, "a decision without reason, client or method", |bounds| {
        /// The identifier. Its first 48 bits are the start of the exchange, in milliseconds since the epoch.
        id: [u8; 16] = ID (needed);
        /// Milliseconds from the start to the decision; negative if the clock was set back between.
        decided_after: i64 = DECIDED_AFTER;
        /// The mode.
        mode: Mode = MODE;
        /// The verdict.
        verdict: Verdict = VERDICT;
        /// The reason code.
        reason: &'a str = REASON (needed) [most::TOKEN];
        /// SHA-256 of the settings behind the verdict.
        policy: Option<&'a Digest> = POLICY;
        /// The client's address.
        client: SocketAddr = CLIENT (needed);
        /// The client's name.
        client_name: Option<Text<'a>> = CLIENT_NAME [most::TOKEN];
        /// Product tokens, most specific first; empty for the global group.
        chain: Texts<'a> = CHAIN [most::TOKENS];
        /// The source of the tokens.
        source: Source = SOURCE;
        /// True if none of the tokens is part of the User-Agent.
        mismatch: bool = MISMATCH;
        /// The User-Agent field.
        user_agent: Option<Octets<'a>> = USER_AGENT [bounds.user_agent];
        /// The method.
        method: Text<'a> = METHOD (needed) [most::TOKEN];
        /// The canonical origin; `None` for an unreadable target.
        origin: Option<&'a str> = ORIGIN [most::ORIGIN];
        /// The URL.
        url: Url<'a> = PATH [bounds.url];
        /// The way of the request.
        via: Via = VIA;
        /// True for a tunnel that is relayed without interception.
        opaque: bool = OPAQUE;
        /// The rule that decided.
        rule: Option<Rule<'a>> = RULE [most::RULE];
        /// SHA-256 of the override that decided.
        overridden: Option<&'a Digest> = OVERRIDE;
        /// SHA-256 of the basis: the state of the origin's robots.txt.
        basis: Option<&'a Digest> = BASIS;
        /// Microseconds for which the request was held.
        hold: u64 = HOLD;
        /// The origin's pace, if it mattered.
        pace: Option<Pace<'a>> = PACE;
        /// The address that received the request.
        upstream: Option<SocketAddr> = UPSTREAM;
        /// The status code of the answer.
        status: Option<u16> = STATUS;
        /// Octets of the request's body.
        bytes_in: u64 = BYTES_IN;
        /// Octets of the response's body.
        bytes_out: u64 = BYTES_OUT;
        /// Microseconds from the request's head to the end of the response.
        duration: u64 = DURATION;
        /// The failure: an error type of Proxy-Status.
        error: Option<Text<'a>> = ERROR [most::TOKEN] => write_cuts;
        /// Statements of the site about the use of its content: text of a
        /// [`UsageRecord`](crawlgate_usage::record::UsageRecord::text).
        usage: Option<&'a str> = USAGE;
        /// The version of HTTP that the crawler spoke.
        version: Option<&'a str> = VERSION [most::TOKEN];
        /// The version of HTTP that it answered in.
        upstream_version: Option<&'a str> = UPSTREAM_VERSION [most::TOKEN];
        /// The path as the origin may read it, if the rule matched that.
        reading: Option<Octets<'a>> = READING [most::URL] => write_url_sha256;
        /// The words of the answer, where they tell what no other value does.
        detail: Option<Text<'a>> = DETAIL [most::DETAIL];
        /// The signature of the request; `None` where its client has no identity.
        signed: Option<Signed<'a>> = SIGNED;
        /// SHA-256 of the basis that the state of the origin's tdmrep.json is. Only with `usage`.
        tdmrep: Option<&'a Digest> = TDMREP;
        /// The exemption without which robots.txt would have denied the request.
        exempt: Option<Exempt<'a>> = EXEMPT;
    }
}

impl Decision<'_> {
    /// Returns the start of the exchange, in milliseconds since the epoch.
    #[must_use]
    pub fn time(&self) -> u64 {
        time_of(&self.id)
    }

    /// Returns the identifier as the line has it.
    #[must_use]
    pub fn id_text(&self) -> String {
        DecisionId::from_octets(self.id).to_string()
    }

    /// Returns the time of the decision, in milliseconds since the epoch.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.time().saturating_add_signed(self.decided_after)
    }

    /// Returns the outcome of the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(self.mode, self.verdict, self.reason, self.has_failed())
    }

    /// Tells whether the request went out and failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        has_failed(self.error.map(|error| error.kept), self.status)
    }

    /// Tells whether the request was kept from its origin. A request that went out in report mode was not: it is
    /// recorded like all that go out.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.verdict != Verdict::Allow && self.mode != Mode::Report
    }

    /// Tells whether an identified client is denied for good, and not only put off.
    #[must_use]
    pub fn is_denial_of_a_client(&self) -> bool {
        let is_denial = self.is_refusal() && self.verdict == Verdict::Deny;
        is_denial && !is_of_unknown_client(self.reason)
    }
}

/// Tells whether an exchange with this error, and this status of its answer, has failed. If the origin has answered and
/// the crawler had enough, it has not.
#[must_use]
pub fn has_failed(error: Option<&str>, status: Option<u16>) -> bool {
    match error {
        None => false,
        Some("client_closed") => status.is_none(),
        Some(_) => true,
    }
}

/// Returns the outcome of a request with this record; `has_failed` is that of its error and status.
#[must_use]
pub fn outcome(mode: Mode, verdict: Verdict, reason: &str, has_failed: bool) -> Outcome {
    match (verdict, mode) {
        (Verdict::Allow, _) | (_, Mode::Report) if has_failed => Outcome::Failed,
        (Verdict::Allow, _) | (_, Mode::Report) => Outcome::Forwarded,
        (Verdict::Defer, Mode::Enforce) => Outcome::Deferred,
        (Verdict::Deny, Mode::Enforce) => Outcome::of_denial(reason),
    }
}

/// Returns the time in an identifier, in milliseconds since the epoch.
pub(super) fn time_of(id: &[u8; 16]) -> u64 {
    (u128::from_be_bytes(*id) >> 80) as u64
}

/// One line of a robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The product token of the group, or `*`.
    pub group: Text<'a>,
    /// The rule as the file has it.
    pub text: Octets<'a>,
    /// Its line, counted from 1.
    pub line: u32,
}

/// The rules from which the operator has exempted a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exempt<'a> {
    /// The reason code for which it would have been denied.
    pub from: &'a str,
    /// The operator's reason for the exemption.
    pub reason: &'a str,
}

/// The signature of a request that went to an origin (Web Bot Auth).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed<'a> {
    /// crawlgate signed it.
    With {
        /// The name of the identity.
        identity: &'a str,
        /// The thumbprint of the key.
        key: &'a str,
        /// The time in the signature, in seconds since the epoch.
        created: u64,
    },
    /// It carried a signature of the crawler's own, and was left as it was.
    Left,
    /// It could not be signed.
    Unsignable,
}

/// Number of [`Signed::Left`] in entries.
pub(super) const LEFT: u64 = 1;

/// Number of [`Signed::Unsignable`] in entries.
pub(super) const UNSIGNABLE: u64 = 2;

/// The effect of an origin's pace on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace<'a> {
    /// Microseconds from one request to the next.
    pub interval: u64,
    /// The source of the interval.
    pub source: &'a str,
    /// True if the robots.txt asks for a longer interval.
    pub clamped: bool,
}
