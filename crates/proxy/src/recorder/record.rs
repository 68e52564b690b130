//! The record of an exchange: its last charge, its trace, and the entry that the log keeps.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderValue, Method};

use super::{Phase, Recorder};
use crate::telemetry::{self, Trace};
use crawlgate_config::Recorded;
use crawlgate_egress::Signer;
use crawlgate_evidence::{Exceeds, Ground, GroundDigests, Grounds};
use crawlgate_policy::Reason;
use crawlgate_policy::settings::PolicyDigest;
use crawlgate_policy::tdmrep::{Reservations, TdmRepStance};
use crawlgate_policy::usage::Usage;
use crawlgate_record::{Bounds, Decision, Exempt, Pace, Rule, Signed, Url, Verdict, has_failed};
use crawlgate_robots::Origin;
use crawlgate_signing::Outcome;

impl Recorder {
    fn error(&self) -> Option<&'static str> {
        let is_stalled = self.state.is_stalled();
        // Asked only if the exchange has no answer: the token has a lock.
        let is_cut_off = || self.proxy.cut.is_cancelled();
        self.phase.error(self.reply.error, is_stalled, is_cut_off)
    }

    fn end_trace(&self, trace: &Trace) {
        let decision = &self.judgement.decision;
        trace.end(&telemetry::Exchange {
            began: self.facts.began,
            ended: self.proxy.clock.tick(),
            id: self.facts.id.to_string(),
            method: self.facts.method.as_ref(),
            origin: self.facts.origin.as_ref(),
            path: self.facts.url.path(),
            verdict: decision.verdict().as_str(),
            reason: decision.reason.as_str(),
            mode: decision.mode.as_str(),
            client: self.identified.client.name.as_deref(),
            held: self.judgement.waited.as_secs_f64(),
            status: self.reply.status,
            error: self.error(),
        });
    }

    pub(super) fn bytes_in(&self) -> u64 {
        let octets = self.sending.bytes_in.as_ref();
        octets.map_or(0, |octets| octets.load(Ordering::Relaxed))
    }

    /// Charges the octets sent to an origin and received from one to the client, if its octets are counted. The proxy's
    /// own answers cost nothing.
    pub(super) fn charge(&self) {
        let counts = self.identified.client.quota.is_some_and(|quota| quota.bytes.is_some());
        if !counts {
            return;
        }
        let octets_out = self.sending.upstream.map_or(0, |_| self.reply.bytes_out);
        let octets = self.bytes_in().saturating_add(octets_out);
        let now = self.proxy.clock.now();
        self.identified.client.account.add_bytes(octets, now);
    }

    /// Charges a request that was refused before the gate was asked, and tells whether it exceeds the client's
    /// allowance.
    fn enter_account(&self) -> Exceeds {
        if self.judgement.decision.reason == Reason::QuotaSpent {
            return Exceeds::ItsAllowance;
        }
        let is_strange = self.judgement.decision.reason.is_unidentified();
        if self.judgement.is_charged || is_strange || !self.identified.client.is_bounded() {
            return Exceeds::Nothing;
        }
        let now = self.proxy.clock.now();
        match self.proxy.gate.clients().count(&self.identified.client, now) {
            Ok(()) => Exceeds::Nothing,
            Err(_) => Exceeds::ItsAllowance,
        }
    }

    /// Counts the exchange and writes its record, if the log wants it. Returns false if the record is lost.
    pub(super) fn record(&self) -> bool {
        let exceeds = self.enter_account();
        let octets_in = self.sending.bytes_in.as_deref();
        self.proxy.counts.exchanged(&self.judgement.decision, octets_in, self.reply.bytes_out);
        if let Some(trace) = &self.trace {
            self.end_trace(trace);
        }
        let verdict = self.judgement.decision.verdict();
        let error = self.error();
        let log = &self.proxy.log;
        let has_failed = has_failed(error, self.reply.status);
        let reason = self.judgement.decision.reason.as_str();
        let least =
            Recorded::least(reason, verdict.as_str(), has_failed, self.identified.client.purposes);
        if !log.records(least) {
            let (name, address) = (self.identified.client.name.as_ref(), self.facts.address.ip());
            log.forwarded(name, address, self.facts.time);
        }
        if self.identified.agent.mismatch {
            let user_agent = self.facts.user_agent.as_ref().map(HeaderValue::as_bytes);
            let summary = &self.proxy.summary;
            summary.count_mismatch(&self.identified.agent.tokens, user_agent);
        }
        if error.is_none() && verdict == Verdict::Allow && !log.wants(least) {
            self.proxy.summary.count_forwarded();
            true
        } else {
            self.write(least, exceeds, error)
        }
    }

    fn write(&self, least: Recorded, exceeds: Exceeds, error: Option<&str>) -> bool {
        thread_local! {
            /// A buffer for URLs that come in parts.
            static URL: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
        }

        // A thread that ends has no buffer any more.
        let mut url = URL.try_with(std::cell::Cell::take).unwrap_or_default();
        url.clear();
        self.facts.url.write(&mut url);
        let usage = match &self.judgement.decision.usage {
            Some(usage) => usage.text(),
            None => Usage::text_of(self.identified.client.purposes),
        };
        let signed = self.sending.signer.as_ref().and_then(Signer::outcome);
        let decision = self.to_record(&url, usage.as_deref(), signed.as_ref(), error);
        let grounds = self.grounds(usage.is_some());
        let digests = self.digests(&grounds);
        let decision = digests.named_by(decision);
        // A failing log would only be flooded with its own failures.
        let has_room = self.judgement.decision.reason == Reason::LogFailed
            || self.proxy.log.record(&decision, &grounds, least, exceeds);
        self.proxy.summary.count(&decision, &grounds);
        let _ = URL.try_with(|buffer| buffer.set(url));
        has_room
    }

    /// Returns the record of an exchange that ends now, without the digests of its grounds.
    fn to_record<'r>(
        &'r self,
        url: &'r [u8],
        usage: Option<&'r str>,
        signed: Option<&'r Outcome>,
        error: Option<&'r str>,
    ) -> Decision<'r> {
        let now = self.proxy.clock.now();
        let decision = &self.judgement.decision;
        let reason = decision.reason.as_str();
        let origin = self.facts.origin.as_ref().map(Origin::as_str);
        let redacts = self.proxy.log.redacts_query();
        let waited_ms = decision.at.as_millis().wrapping_sub(self.facts.time.as_millis());
        let hold = match self.phase {
            Phase::Held { .. } => now.since(self.facts.time),
            _ => self.judgement.hold,
        };
        Decision {
            id: self.facts.id.octets(),
            decided_after: waited_ms.cast_signed(),
            mode: decision.mode,
            verdict: decision.verdict(),
            reason,
            policy: decision.policy.as_ref().map(|PolicyDigest(digest)| digest),
            client: self.facts.address,
            client_name: self.identified.client.name.as_deref().map(Into::into),
            chain: (&*self.identified.agent.tokens).into(),
            source: self.identified.agent.source,
            mismatch: self.identified.agent.mismatch,
            user_agent: self.facts.user_agent.as_ref().map(|value| value.as_bytes().into()),
            method: self.facts.method.as_ref().map_or("", Method::as_str).into(),
            version: self.facts.version,
            origin,
            url: Url::public(url, origin, redacts, Bounds::of(reason)),
            via: self.facts.via,
            opaque: self.judgement.is_opaque,
            rule: decision.rule.as_ref().map(|rule| Rule {
                group: (&*rule.group).into(),
                text: rule.text.as_bytes().into(),
                line: rule.line,
            }),
            reading: decision.reading.as_deref().map(|path| path.as_bytes().into()),
            overridden: None,
            exempt: decision
                .exempt
                .as_ref()
                .map(|exempt| Exempt { from: exempt.from.as_str(), reason: &exempt.reason }),
            basis: None,
            hold: micros(hold),
            pace: self.judgement.pace.map(|pace| Pace {
                interval: micros(pace.interval),
                source: pace.source.as_str(),
                clamped: pace.clamped,
            }),
            upstream: self.sending.upstream,
            upstream_version: self.sending.upstream_version,
            signed: signed.map(signed_of),
            status: self.reply.status,
            bytes_in: self.bytes_in(),
            bytes_out: self.reply.bytes_out,
            duration: micros(now.since(self.facts.time)),
            error: error.map(Into::into),
            detail: self.reply.detail.as_deref().map(Into::into),
            usage,
            tdmrep: None,
        }
    }

    /// Returns what the decision rests on. A tdmrep.json counts if the record tells of use.
    fn grounds(&self, tells_of_use: bool) -> Grounds<'_> {
        let decision = &self.judgement.decision;
        let basis = decision.basis.as_deref();
        Grounds {
            overridden: decision.asserted.as_deref().map(|asserted| &**asserted),
            robots: basis.map(|state| (state, decision.fetched_as.as_deref())),
            tdmrep: self.tdmrep().filter(|_| tells_of_use),
        }
    }

    /// Returns the digests of the grounds. The override and the state that the decision rests on keep them.
    fn digests(&self, grounds: &Grounds<'_>) -> GroundDigests {
        let decision = &self.judgement.decision;
        let compute =
            |ground| grounds.digest(ground, self.facts.origin.as_ref().map(Origin::as_str));
        GroundDigests {
            overridden: decision
                .asserted
                .as_ref()
                .map(|asserted| asserted.digest(|_| compute(Ground::Override))),
            robots: decision.basis.as_ref().map(|state| {
                let digest = || compute(Ground::Robots);
                match &decision.fetched_as {
                    Some(fetched_as) => fetched_as.digest(state, digest),
                    // Nothing was fetched.
                    None => digest(),
                }
            }),
            tdmrep: grounds.tdmrep.map(|file| {
                let digest = || compute(Ground::TdmRep);
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
        self.judgement.decision.usage.as_ref()?.tdmrep.as_deref()
    }
}

fn signed_of(outcome: &Outcome) -> Signed<'_> {
    match outcome {
        Outcome::Signed { identity, key, created } => {
            Signed::With { identity, key, created: *created }
        }
        Outcome::Left => Signed::Left,
        Outcome::Unsignable => Signed::Unsignable,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
