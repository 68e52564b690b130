//! One decision and what came of it, as one line.

mod basis;

use std::{net::SocketAddr, time::Duration};

use aws_lc_rs::digest::{SHA256, digest};

use super::{
    field,
    id::DecisionId,
    json::{Object, Written},
    public_url::public_url,
    stamp,
};
use crate::clock::Moment;
use crate::policy::overrides::OverrideId;
use crate::policy::terms::TermsDigest;
use crate::store::{Kind, Note, Party, is_strange};

/// One exchange: what was asked, what was decided and why, what came of it.
///
/// Plain values, so that whoever ends an exchange can fill it in from what is at hand, without copies.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When the exchange began: its request's head was read. The decision came at most `hold` later.
    pub time: Moment,
    /// The identifier that the answer carries, too.
    pub id: DecisionId,
    /// As of when it was decided: by this moment copies were fresh or stale, outages long or short, and overrides held.
    pub decided_at: Moment,
    /// `enforce`, or `report` where nothing is denied and the verdict says what would have been.
    pub mode: &'static str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code, such as `robots_disallow`.
    pub reason: &'static str,
    /// Names the settings that the verdict follows from; none where robots.txt was not asked.
    pub policy: Option<TermsDigest>,
    /// Who asked.
    pub client: Client<'a>,
    /// As whom the crawler was judged.
    pub agent: Agent<'a>,
    /// The request's User-Agent field, octets as received.
    pub user_agent: Option<&'a [u8]>,
    /// The method, as received.
    pub method: &'a str,
    /// The URL, octets as received. The line leaves its userinfo out and, where so configured, its query.
    pub url: &'a [u8],
    /// The scheme of the origin; empty where the target could not be read.
    pub scheme: &'a str,
    /// Its host, in canonical form; empty where the target could not be read.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// How the request came: `plain`, `intercepted` or `tunnel`; `decide` where another proxy asked and sends it itself.
    pub via: &'a str,
    /// The exchange is a tunnel that was not looked into.
    pub opaque: bool,
    /// The rule that decided; none where no rule did.
    pub rule: Option<RuleLine<'a>>,
    /// What the origin may read the path as, where the rule is about that; none where it is about the path as received.
    pub reading: Option<&'a str>,
    /// The override that decided; none where no override did.
    pub overridden: Option<Assertion<'a>>,
    /// The robots.txt that the decision rests on; none where it rests on none.
    pub robots: Option<RobotsCopy<'a>>,
    /// How long the request was held: for robots.txt, and for politeness.
    pub hold: Duration,
    /// What held or refused it of its origin's pace, or was shortened there; none where it went as it came.
    pub pace: Option<PaceLine<'a>>,
    /// The address that the request was sent to; none where it was not.
    pub upstream: Option<SocketAddr>,
    /// The status code that the crawler was answered with; none where it hung up first.
    pub status: Option<u16>,
    /// Octets of the request's body.
    pub bytes_in: u64,
    /// Octets of the response's body; of a tunnel, all that flowed to the crawler.
    pub bytes_out: u64,
    /// From the request's head to the end of the response.
    pub duration: Duration,
    /// What went wrong: the error type of the answer's Proxy-Status field (RFC 9209, section 2.3).
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
    /// Where they came from, such as `config` or `user_agent`.
    pub source: &'a str,
    /// None of them is part of the User-Agent that was sent.
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

/// What an origin's pace has done to a request.
#[derive(Clone, Copy, Debug)]
pub struct PaceLine<'a> {
    /// The least time from one request to the next; zero where time is not what was waited for.
    pub interval: Duration,
    /// What makes it so, such as `own` or `crawl_delay`.
    pub source: &'a str,
    /// The robots.txt asks for more than it is given.
    pub clamped: bool,
}

/// What a person has asserted over robots.txt.
#[derive(Clone, Copy, Debug)]
pub struct Assertion<'a> {
    /// Which one it is.
    pub id: OverrideId,
    /// The origin that it speaks of.
    pub origin: &'a str,
    /// Of which paths of it.
    pub pattern: &'a str,
    /// `allow` or `deny`.
    pub action: &'a str,
    /// Who asserted it.
    pub by: &'a str,
    /// Why.
    pub reason: &'a str,
    /// When it ends to hold; none where it stands in the configuration without an end.
    pub until: Option<Moment>,
}

/// The copy of an origin's robots.txt that was in force.
#[derive(Clone, Copy, Debug)]
pub struct RobotsCopy<'a> {
    /// Where it was asked for.
    pub url: &'a str,
    /// For which identity it was fetched: a product token, or `*`; none where nothing was fetched.
    pub identity: Option<&'a str>,
    /// With which User-Agent.
    pub user_agent: Option<&'a str>,
    /// Where it was found after redirects; none where nothing was found.
    pub final_url: Option<&'a str>,
    /// The origin's state, such as `successful`, `unavailable` or `unreachable`.
    pub state: &'a str,
    /// The status code of the fetch; none where there was no answer.
    pub status: Option<u16>,
    /// When this copy was fetched. The record's `age_s` is counted from here.
    pub fetched_at: Option<Moment>,
    /// SHA-256 of its content.
    pub sha256: Option<[u8; 32]>,
    /// Octets of its content.
    pub bytes: Option<u64>,
    /// The file was longer than the size limit.
    pub truncated: bool,
    /// Until when this copy, or that there is none, counts without another fetch; none while unreachable.
    pub fresh_until: Option<Moment>,
    /// The row of failed fetches since; none after a fetch that did not fail.
    pub unreachable: Option<Outage<'a>>,
}

/// Fetches of a robots.txt that failed, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Outage<'a> {
    /// When the first one failed.
    pub since: Moment,
    /// When the last one failed by the origin's doing; none where only the gate's own have failed.
    pub last_failure: Option<Moment>,
    /// Why the last one did: a code such as `dns` or `status_503`.
    pub cause: &'a str,
    /// The origin's server answered at all, if not as it should.
    pub answers: bool,
    /// How many there were.
    pub attempts: u32,
    /// When the next one is allowed.
    pub next_attempt: Moment,
}

/// Bounds, in octets of the line. Together they keep every line below what a file is given in one write.
mod most {
    /// What is cut is named by the digest of the whole.
    pub(super) const URL: usize = 2 * 1024;
    /// URL and User-Agent of whoever is no client: anybody could fill the store with them.
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
    /// What the store puts it away by.
    pub(super) fn note(&self) -> Note {
        Note {
            time: self.time,
            kind: Some(Kind {
                mode: self.mode,
                verdict: self.verdict,
                reason: self.reason,
            }),
            sha256: self.robots.as_ref().and_then(|robots| robots.sha256),
            party: self.party(),
            count: 1,
        }
    }

    /// Whether the request was kept from its origin. One that went out in report mode is none: it is recorded like all
    /// that go out.
    pub(super) fn is_refusal(&self) -> bool {
        self.verdict != "allow" && self.mode != "report"
    }

    /// Whose room it takes.
    pub(super) fn party(&self) -> Party {
        Party::of(self.client.name, self.client.address.ip(), self.reason)
    }

    /// Whether it was refused because nobody answers for it.
    fn is_of_a_stranger(&self) -> bool {
        is_strange(self.reason)
    }

    /// Appends the record to `out` as one line: a JSON object and a line feed.
    ///
    /// `redact_query` replaces the query of the URL, which may hold what concerns nobody.
    pub fn write_line(&self, out: &mut Vec<u8>, redact_query: bool) {
        use field as f;
        let mut record = Object::open(out);
        record.plain(f::TIME, &stamp::rfc3339(self.time));
        record.plain(f::ID, &self.id.text());
        record.plain(f::DECIDED_AT, &stamp::rfc3339(self.decided_at));
        record.text(f::MODE, self.mode.as_bytes(), most::TOKEN);
        record.text(f::VERDICT, self.verdict.as_bytes(), most::TOKEN);
        record.text(f::REASON, self.reason.as_bytes(), most::TOKEN);
        match self.policy {
            Some(TermsDigest(half)) => record.plain(f::POLICY, &hex::<16, 32>(&half)),
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
        let url = public_url(self.url, redact_query);
        if record.text(f::URL, &url, most_of(most::URL)) == Written::Cut {
            let whole = digest(&SHA256, &url);
            let whole: [u8; 32] = whole.as_ref().try_into().unwrap_or_default();
            record.plain(f::URL_SHA256, &hex::<32, 64>(&whole));
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
        outage.plain(f::SINCE, &stamp::rfc3339(self.since));
        moment_or_null(&mut outage, f::LAST_FAILURE, self.last_failure);
        outage.text(f::CAUSE, self.cause.as_bytes(), most::TOKEN);
        outage.truth(f::ANSWERS, self.answers);
        outage.number(f::ATTEMPTS, self.attempts.into());
        outage.plain(f::NEXT_ATTEMPT, &stamp::rfc3339(self.next_attempt));
        outage.close();
    }
}

fn moment_or_null(object: &mut Object<'_>, name: &str, moment: Option<Moment>) {
    match moment {
        Some(moment) => object.plain(name, &stamp::rfc3339(moment)),
        None => object.null(name),
    }
}

impl RobotsCopy<'_> {
    fn write(&self, now: Moment, mut robots: Object<'_>) {
        use field as f;
        robots.text(f::URL, self.url.as_bytes(), most::HOST);
        // A redirect's target is foreign: it may name a user, and be of any length.
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
            Some(digest) => robots.plain(f::SHA256, &hex::<32, 64>(digest)),
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

/// `DIGITS` is twice `OCTETS`.
fn hex<const OCTETS: usize, const DIGITS: usize>(digest: &[u8; OCTETS]) -> [u8; DIGITS] {
    let digit = |half: u8| match half {
        0..=9 => b'0' + half,
        _ => b'a' + half - 10,
    };
    let mut text = [0; DIGITS];
    for (pair, octet) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[digit(octet >> 4), digit(octet & 15)]);
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
