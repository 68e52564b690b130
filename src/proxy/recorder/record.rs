//! The record of an exchange: its last charge, its trace, and the line that the log keeps.

use std::sync::atomic::Ordering;

use http::{HeaderValue, Method};

use super::ExchangeRecorder;
use super::phase::Phase;
use crate::audit::{self, Exceeds, ObjectDigests, Record, RecordObject};
use crate::telemetry::{Trace, trace};
use crawlgate_config::Recorded;
use crawlgate_egress::Signer;
use crawlgate_policy::Reason;
use crawlgate_policy::tdmrep::{Reservations, TdmRepStance};
use crawlgate_policy::usage::Usage;
use crawlgate_record::{Exempt, Signed};
use crawlgate_robots::Origin;
use crawlgate_signing::Outcome;

impl ExchangeRecorder {
    fn error(&self) -> Option<&'static str> {
        let is_stalled = self.state.is_stalled();
        // Asked only if the exchange has no answer: the token has a lock.
        let is_cut_off = || self.proxy.cut.is_cancelled();
        self.phase.error(self.error, is_stalled, is_cut_off)
    }

    fn end_trace(&self, trace: &Trace) {
        let decision = &self.decision;
        trace.end(&trace::Exchange {
            began: self.began,
            ended: self.proxy.clock.tick(),
            id: self.id.to_string(),
            method: self.method.as_ref(),
            origin: self.origin.as_ref(),
            path: self.url.path(),
            verdict: decision.verdict().as_str(),
            reason: decision.reason.as_str(),
            mode: decision.mode.as_str(),
            client: self.client.name.as_deref(),
            held: self.waited.as_secs_f64(),
            status: self.status,
            error: self.error(),
        });
    }

    pub(super) fn bytes_in(&self) -> u64 {
        let octets = self.bytes_in.as_ref();
        octets.map_or(0, |octets| octets.load(Ordering::Relaxed))
    }

    /// Charges the octets sent to an origin and received from one to the client, if its octets are counted. The proxy's
    /// own answers cost nothing.
    pub(super) fn charge(&self) {
        let counts = self.client.quota.is_some_and(|quota| quota.bytes.is_some());
        if !counts {
            return;
        }
        let octets_out = self.upstream.map_or(0, |_| self.bytes_out);
        let octets = self.bytes_in().saturating_add(octets_out);
        let now = self.proxy.clock.now();
        self.client.account.add_bytes(octets, now);
    }

    /// Charges a request that was refused before the gate was asked, and tells whether it exceeds the client's
    /// allowance.
    fn enter_account(&self) -> Exceeds {
        if self.decision.reason == Reason::QuotaSpent {
            return Exceeds::ItsAllowance;
        }
        let is_strange = self.decision.reason.is_unidentified();
        if self.is_charged || is_strange || !self.client.is_bounded() {
            return Exceeds::Nothing;
        }
        let now = self.proxy.clock.now();
        match self.proxy.gate.clients().count(&self.client, now) {
            Ok(()) => Exceeds::Nothing,
            Err(_) => Exceeds::ItsAllowance,
        }
    }

    /// Counts the exchange and writes its record, if the log wants it. Returns false if the record is lost.
    pub(super) fn record(&self) -> bool {
        let exceeds = self.enter_account();
        let octets_in = self.bytes_in.as_deref();
        self.proxy
            .counts
            .exchanged(&self.decision, octets_in, self.bytes_out);
        if let Some(trace) = &self.trace {
            self.end_trace(trace);
        }
        let verdict = self.decision.verdict();
        let error = self.error();
        let (verdict, log) = (verdict.as_str(), &self.proxy.log);
        let has_failed = audit::has_failed(error, self.status);
        let reason = self.decision.reason.as_str();
        let least = Recorded::least(reason, verdict, has_failed, self.client.purposes);
        if !log.records(least) {
            let (name, address) = (self.client.name.as_ref(), self.address.ip());
            log.forwarded(name, address, self.time);
        }
        if self.agent.mismatch {
            let user_agent = self.user_agent.as_ref().map(HeaderValue::as_bytes);
            let summary = &self.proxy.summary;
            summary.count_mismatch(&self.agent.tokens, user_agent);
        }
        if error.is_none() && verdict == "allow" && !log.wants(least) {
            self.proxy.summary.count_forwarded();
            true
        } else {
            self.write(exceeds, error)
        }
    }

    fn write(&self, exceeds: Exceeds, error: Option<&str>) -> bool {
        thread_local! {
            /// A buffer for URLs that come in parts.
            static URL: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
        }

        // A thread that ends has no buffer any more.
        let mut url = URL.try_with(std::cell::Cell::take).unwrap_or_default();
        url.clear();
        self.url.write(&mut url);
        let usage = match &self.decision.usage {
            Some(usage) => usage.text(),
            None => Usage::text_of(self.client.purposes),
        };
        let signed = self.signer.as_ref().and_then(Signer::outcome);
        let record = self.to_record(&url, usage.as_deref(), signed.as_ref(), error);
        // A failing log would only be flooded with its own failures.
        let has_room = self.decision.reason == Reason::LogFailed || {
            let digests = self.object_digests(&record);
            self.proxy.log.record_of(&record, &digests, exceeds)
        };
        self.proxy.summary.count(&record);
        let _ = URL.try_with(|buffer| buffer.set(url));
        has_room
    }

    /// Returns the record of an exchange that ends now.
    fn to_record<'r>(
        &'r self,
        url: &'r [u8],
        usage: Option<&'r str>,
        signed: Option<&'r Outcome>,
        error: Option<&'r str>,
    ) -> Record<'r> {
        let now = self.proxy.clock.now();
        let decision = &self.decision;
        Record {
            time: self.time,
            id: self.id,
            decided_at: decision.at,
            mode: decision.mode.as_str(),
            verdict: decision.verdict().as_str(),
            reason: decision.reason.as_str(),
            policy: decision.policy,
            client: audit::Client {
                address: self.address,
                name: self.client.name.as_deref(),
            },
            agent: audit::Agent {
                chain: (&*self.agent.tokens).into(),
                source: self.agent.source.as_str(),
                mismatch: self.agent.mismatch,
            },
            user_agent: self.user_agent.as_ref().map(HeaderValue::as_bytes),
            method: self.method.as_ref().map_or("", Method::as_str),
            version: self.version,
            url,
            origin: self.origin.as_ref().map(Origin::as_str),
            via: self.via,
            opaque: self.is_opaque,
            rule: decision.rule.as_ref().map(|rule| audit::RuleLine {
                group: &rule.group,
                text: &rule.text,
                line: rule.line,
            }),
            reading: decision.reading.as_deref(),
            overridden: decision
                .asserted
                .as_deref()
                .map(|asserted| audit::Assertion::of(asserted)),
            exempt: decision.exempt.as_ref().map(|exempt| Exempt {
                from: exempt.from.as_str(),
                reason: &exempt.reason,
            }),
            robots: decision
                .basis
                .as_deref()
                .map(|state| audit::RobotsCopy::of(state, decision.fetched_as.as_deref())),
            hold: match self.phase {
                Phase::Held { .. } => now.since(self.time),
                _ => self.hold,
            },
            pace: self.pace.map(|pace| audit::PaceLine {
                interval: pace.interval,
                source: pace.source.as_str(),
                clamped: pace.clamped,
            }),
            upstream: self.upstream,
            upstream_version: self.upstream_version,
            signed: signed.map(signed_of),
            status: self.status,
            bytes_in: self.bytes_in(),
            bytes_out: self.bytes_out,
            duration: now.since(self.time),
            error,
            detail: self.detail.as_deref(),
            purposes: self.client.purposes,
            usage,
            tdmrep: self
                .tdmrep()
                .filter(|_| usage.is_some())
                .map(audit::RobotsCopy::of_tdmrep),
        }
    }

    /// Returns the digests of the record's objects. The override and the state that the decision rests on keep them.
    fn object_digests(&self, record: &Record<'_>) -> ObjectDigests {
        let decision = &self.decision;
        let overridden = decision.asserted.as_ref();
        let basis = decision.basis.as_ref();
        ObjectDigests {
            overridden: overridden
                .map(|asserted| asserted.digest(|_| record.object_digest(RecordObject::Override))),
            basis: basis.map(|state| {
                let digest = || record.object_digest(RecordObject::Basis);
                match &decision.fetched_as {
                    Some(fetched_as) => fetched_as.digest(state, digest),
                    // Nothing was fetched.
                    None => digest(),
                }
            }),
            tdmrep: record.tdmrep.and(self.tdmrep()).map(|file| {
                let digest = || record.object_digest(RecordObject::TdmRep);
                match (&file.fetched_as, &file.stance) {
                    (Some(fetched_as), TdmRepStance::Unset | TdmRepStance::Copy(_)) => {
                        fetched_as.digest(&file.state, digest)
                    }
                    _ => digest(),
                }
            }),
        }
    }

    /// Returns the tdmrep.json that was asked, if it was.
    fn tdmrep(&self) -> Option<&Reservations> {
        self.decision.usage.as_ref()?.tdmrep.as_deref()
    }
}

fn signed_of(outcome: &Outcome) -> Signed<'_> {
    match outcome {
        Outcome::Signed {
            identity,
            key,
            created,
        } => Signed::With {
            identity,
            key,
            created: *created,
        },
        Outcome::Left => Signed::Left,
        Outcome::Unsignable => Signed::Unsignable,
    }
}
