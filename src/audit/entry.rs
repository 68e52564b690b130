//! The entry of a record: the record's parts, and the SHA-256 of each ground.

use aws_lc_rs::digest::{Context, SHA256};

use super::record::{Assertion, Record, RobotsCopy};
use crawlgate_policy::settings::PolicyDigest;
use crawlgate_record::{
    Action, Asserted, Basis, Bounds, Decision, Digest, Mode, Outage, Pace, Rule, Source, Url,
    Verdict, Via,
};
use crawlgate_store::{Batch, Object, ObjectKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::{public_parts, public_url};

/// The digests of the objects that a record names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectDigests {
    /// SHA-256 of the override that decided ([`Assertion::encode`]).
    pub overridden: Option<Digest>,
    /// SHA-256 of the basis ([`RobotsCopy::encode`]).
    pub basis: Option<Digest>,
    /// SHA-256 of the basis of tdmrep.json.
    pub tdmrep: Option<Digest>,
}

/// An object of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordObject {
    /// The override that decided.
    Override,
    /// The state of the origin's robots.txt.
    Basis,
    /// The state of the origin's tdmrep.json.
    TdmRep,
}

impl RecordObject {
    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(self) -> ObjectKind {
        match self {
            RecordObject::Override => ObjectKind::Override,
            RecordObject::Basis | RecordObject::TdmRep => ObjectKind::Basis,
        }
    }
}

impl ObjectDigests {
    /// Returns the digests with what they are of.
    pub(super) fn named(&self) -> impl Iterator<Item = (RecordObject, Digest)> {
        let overridden = self
            .overridden
            .map(|digest| (RecordObject::Override, digest));
        let basis = self.basis.map(|digest| (RecordObject::Basis, digest));
        let tdmrep = self.tdmrep.map(|digest| (RecordObject::TdmRep, digest));
        [overridden, basis, tdmrep].into_iter().flatten()
    }
}

impl Record<'_> {
    /// Returns the digests of the record's objects, computed anew.
    #[must_use]
    pub fn object_digests(&self) -> ObjectDigests {
        let digest = |object| self.object_digest(object);
        ObjectDigests {
            overridden: self.overridden.map(|_| digest(RecordObject::Override)),
            basis: self.robots.map(|_| digest(RecordObject::Basis)),
            tdmrep: self.tdmrep.map(|_| digest(RecordObject::TdmRep)),
        }
    }

    /// Returns the SHA-256 of this object of the record, computed anew.
    #[must_use]
    pub fn object_digest(&self, object: RecordObject) -> Digest {
        let mut body = Vec::with_capacity(512);
        self.encode_object(object, &mut body);
        sha256_of([&body, &[], &[]])
    }

    /// Adds the record to a batch, with its objects.
    pub fn file(&self, redact_query: bool, batch: &mut Batch) {
        let digests = self.object_digests();
        for (object, sha256) in digests.named() {
            if batch.objects.iter().any(|one| one.sha256 == sha256) {
                continue;
            }
            let mut body = Vec::new();
            self.encode_object(object, &mut body);
            batch.objects.push(Object::new(object.kind(), &body));
        }
        batch
            .entries
            .push(|out| self.encode(&digests, redact_query, out));
    }

    /// Appends the body of this object of the record to `out`.
    pub(super) fn encode_object(&self, object: RecordObject, out: &mut Vec<u8>) {
        let basis = match object {
            RecordObject::Override => {
                if let Some(overridden) = &self.overridden {
                    overridden.encode(out);
                }
                return;
            }
            RecordObject::Basis => &self.robots,
            RecordObject::TdmRep => &self.tdmrep,
        };
        if let Some(basis) = basis {
            basis.encode(self.origin.unwrap_or_default(), out);
        }
    }

    /// Appends the record's entry to `out`. Allocates nothing once the buffer has grown.
    ///
    /// `redact_query` replaces the query of the URL, which may be private.
    pub fn encode(&self, digests: &ObjectDigests, redact_query: bool, out: &mut Vec<u8>) {
        let bounds = match self.is_unidentified() {
            true => Bounds::STRANGERS,
            false => Bounds::CLIENTS,
        };
        self.decision(digests, redact_query, bounds)
            .encode(bounds, out);
    }

    fn decision<'a>(
        &'a self,
        digests: &'a ObjectDigests,
        redact_query: bool,
        bounds: Bounds,
    ) -> Decision<'a> {
        let id = self.id.octets();
        let parts = public_parts(self.url, redact_query);
        let mut url = Url::of(parts, self.origin);
        if url.len() > bounds.url {
            url = url.with_sha256(sha256_of(parts));
        }
        Decision {
            id,
            decided_after: between(self.time, self.decided_at),
            mode: known(Mode::from_name, self.mode),
            verdict: known(Verdict::from_name, self.verdict),
            reason: self.reason,
            policy: self.policy.as_ref().map(|PolicyDigest(digest)| digest),
            client: self.client.address,
            client_name: self.client.name.map(Into::into),
            chain: self.agent.chain,
            source: known(Source::from_name, self.agent.source),
            mismatch: self.agent.mismatch,
            user_agent: self.user_agent.map(Into::into),
            method: self.method.into(),
            version: self.version,
            origin: self.origin,
            url,
            via: known(Via::from_name, self.via),
            opaque: self.opaque,
            rule: self.rule.map(|rule| Rule {
                group: rule.group.into(),
                text: rule.text.as_bytes().into(),
                line: rule.line,
            }),
            reading: self.reading.map(|reading| reading.as_bytes().into()),
            overridden: digests.overridden.as_ref(),
            exempt: self.exempt,
            basis: digests.basis.as_ref(),
            hold: micros(self.hold),
            pace: self.pace.map(|pace| Pace {
                interval: micros(pace.interval),
                source: pace.source,
                clamped: pace.clamped,
            }),
            upstream: self.upstream,
            upstream_version: self.upstream_version,
            signed: self.signed,
            status: self.status,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            duration: micros(self.duration),
            error: self.error.map(Into::into),
            detail: self.detail.map(Into::into),
            usage: self.usage,
            tdmrep: digests.tdmrep.as_ref().filter(|_| self.usage.is_some()),
        }
    }
}

/// Returns the variant of a name that this program has written itself.
pub(super) fn known<T: Default>(from: fn(&str) -> Option<T>, name: &str) -> T {
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
    /// Appends the body of the basis object to `out`: this state of a document of the origin.
    pub fn encode(&self, origin: &str, out: &mut Vec<u8>) {
        // A redirect's target is foreign: it may contain userinfo.
        let final_url = self.final_url.map(|url| public_url(url.as_bytes(), false));
        let millis = |moment: Option<Moment>| moment.map(Moment::as_millis);
        let cause = self.unreachable.map(|outage| outage.cause.code());
        let outage = self.unreachable.map(|outage| Outage {
            since: outage.since.as_millis(),
            cause: cause.as_deref().unwrap_or_default(),
            answers: outage.cause.is_answer(),
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
    /// Appends the body of the override object to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let asserted = Asserted {
            id: &self.id.to_string(),
            origin: self.origin,
            pattern: self.pattern,
            action: known(Action::from_name, self.action),
            by: self.by,
            reason: self.reason,
            until: self.until.map(Moment::as_millis),
            created: self.created.as_millis(),
            instance: self.instance,
        };
        asserted.encode(out);
    }
}

#[cfg(test)]
mod tests;
