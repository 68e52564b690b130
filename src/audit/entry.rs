//! The entry of a record: the record's parts, and the SHA-256 of each ground.

use aws_lc_rs::digest::{Context, SHA256};

use super::record::{Assertion, Record, RobotsCopy};
use crate::clock::Moment;
use crate::entry::{
    Action, Asserted, Basis, Bounds, Decision, Digest, Mode, Outage, Pace, Rule, Source, Url,
    Verdict, Via,
};
use crate::text::{public_parts, public_url};

/// The parts of an entry that a record does not hold in the entry's form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grounds<'a> {
    /// The canonical origin; `None` for an unreadable target.
    pub origin: Option<&'a str>,
    /// SHA-256 of the settings behind the verdict.
    pub policy: Option<&'a Digest>,
    /// SHA-256 of the override that decided ([`Assertion::encode`]).
    pub overridden: Option<&'a Digest>,
    /// SHA-256 of the basis ([`RobotsCopy::encode`]).
    pub basis: Option<&'a Digest>,
}

impl Record<'_> {
    /// Appends the record's entry to `out`. Allocates nothing once the buffer has grown.
    ///
    /// `redact_query` replaces the query of the URL, which may be private.
    pub fn encode(&self, grounds: &Grounds<'_>, redact_query: bool, out: &mut Vec<u8>) {
        let bounds = match self.is_of_a_stranger() {
            true => Bounds::STRANGERS,
            false => Bounds::CLIENTS,
        };
        self.decision(grounds, redact_query, bounds)
            .encode(bounds, out);
    }

    fn decision<'a>(
        &'a self,
        grounds: &Grounds<'a>,
        redact_query: bool,
        bounds: Bounds,
    ) -> Decision<'a> {
        let id = self.id.octets();
        let parts = public_parts(self.url, redact_query);
        let mut url = Url::of(parts, grounds.origin);
        if url.len() > bounds.url {
            url = url.with_sha256(sha256_of(parts));
        }
        Decision {
            id,
            decided_after: between(self.time, self.decided_at),
            mode: known(Mode::from_name, self.mode),
            verdict: known(Verdict::from_name, self.verdict),
            reason: self.reason,
            policy: grounds.policy,
            client: self.client.address,
            client_name: self.client.name.map(Into::into),
            chain: self.agent.chain.into(),
            source: known(Source::from_name, self.agent.source),
            mismatch: self.agent.mismatch,
            user_agent: self.user_agent.map(Into::into),
            method: self.method.into(),
            version: self.version,
            origin: grounds.origin,
            url,
            via: known(Via::from_name, self.via),
            opaque: self.opaque,
            rule: self.rule.map(|rule| Rule {
                group: rule.group.into(),
                text: rule.text.as_bytes().into(),
                line: rule.line,
            }),
            reading: self.reading.map(|reading| reading.as_bytes().into()),
            overridden: grounds.overridden,
            basis: grounds.basis,
            hold: micros(self.hold),
            pace: self.pace.map(|pace| Pace {
                interval: micros(pace.interval),
                source: pace.source,
                clamped: pace.clamped,
            }),
            upstream: self.upstream,
            upstream_version: self.upstream_version,
            status: self.status,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            duration: micros(self.duration),
            error: self.error.map(Into::into),
        }
    }
}

/// Returns the variant of a name that this program has written itself.
fn known<T: Default>(from: fn(&str) -> Option<T>, name: &str) -> T {
    let found = from(name);
    debug_assert!(found.is_some(), "unknown name {name}");
    found.unwrap_or_default()
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the milliseconds from `start` to `end`, which may come before.
fn between(start: Moment, end: Moment) -> i64 {
    let millis = end.as_millis().wrapping_sub(start.as_millis());
    millis.cast_signed()
}

fn sha256_of(parts: [&[u8]; 3]) -> Digest {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().unwrap_or_default()
}

impl RobotsCopy<'_> {
    /// Appends the body of the basis object to `out`: this state of the origin's robots.txt.
    pub fn encode(&self, origin: &str, out: &mut Vec<u8>) {
        // A redirect's target is foreign: it may contain userinfo.
        let final_url = self.final_url.map(|url| public_url(url.as_bytes(), false));
        let millis = |moment: Option<Moment>| moment.map(Moment::as_millis);
        let outage = self.unreachable.map(|outage| Outage {
            since: outage.since.as_millis(),
            cause: outage.cause,
            answers: outage.answers,
            attempts: outage.attempts,
            next_attempt: outage.next_attempt.as_millis(),
            last_failure: millis(outage.last_failure),
        });
        let basis = Basis {
            origin,
            final_url: final_url.as_deref(),
            state: self.state,
            status: self.status,
            fetched_at: millis(self.fetched_at),
            sha256: self.sha256.as_ref(),
            bytes: self.bytes,
            truncated: self.truncated,
            fresh_until: millis(self.fresh_until),
            outage,
            identity: self.identity,
            user_agent: self.user_agent,
        };
        basis.encode(out);
    }
}

impl Assertion<'_> {
    /// Appends the body of the override object to `out`. `created` is the time of the override's creation.
    pub fn encode(&self, created: Moment, out: &mut Vec<u8>) {
        let asserted = Asserted {
            id: &self.id.to_string(),
            origin: self.origin,
            pattern: self.pattern,
            action: known(Action::from_name, self.action),
            by: self.by,
            reason: self.reason,
            until: self.until.map(Moment::as_millis),
            created: created.as_millis(),
        };
        asserted.encode(out);
    }
}

#[cfg(test)]
mod tests;
