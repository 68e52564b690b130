//! The exchange's one exit: each exchange is recorded once, when it ends, whatever happens to it.
//!
//! An [`Exchange`] opens with the request and travels with it: into the response's body, into an upgraded connection. It
//! goes through typed steps, each of which consumes the one before:
//!
//! ```text
//! Opened -> Admitted -> Decided -> Sent -> Answered -> dropped
//!    |         |           |                 ^   |
//!    |         |           +-----------------+   +-> Decided   (its record is lost: another answer leaves)
//!    |         +-> Suspended                                   (a CONNECT asks for nothing by itself)
//!    +-> Decided                                               (refused before it was admitted)
//! ```
//!
//! So a request is sent only after its decision, and answered once. Each step reads the facts that the [`Recorder`] below
//! it holds; each group of facts is written only by the steps that it belongs to. Dropping the exchange in any step writes
//! the record, so an error, a crawler that hangs up and a cancelled task all leave the same kind of line. Until a decision
//! is made the record says so. A record that must be on disk before its answer leaves is written
//! [earlier](Exchange::keep). Only the phase tells which error an exchange is recorded with if it breaks off.

mod facts;
mod held;
mod record;
mod steps;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::HeaderMap;

pub use self::facts::Opening;
use self::facts::{Facts, Identified};
pub use self::held::Held;
pub use self::steps::{
    Admitted, Answered, Decided, Exchange, Opened, Ruled, Sent, Suspended, Unanswered,
};
use super::Proxy;
use super::exchange_state::ExchangeState;
use super::limits::RequestSlot;
use crate::telemetry::Trace;
use crawlgate_config::{Config, Mismatch, OnFailure};
use crawlgate_egress::Signer;
use crawlgate_evidence::DecisionId;
use crawlgate_gate::{PriorClaim, Requester};
use crawlgate_policy::agent::Agent;
use crawlgate_policy::generation::Generation;
use crawlgate_policy::{Decision, Reason};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::Client;
use crawlgate_turns::pace::EffectivePace;

/// Error of an exchange that the crawler left before the answer.
const HUNG_UP: &str = "client_closed";

/// Error of an exchange in which the crawler took the answer too slowly or not at all.
const STALLED: &str = "client_stalled";

/// Error of an exchange that was cut off when the proxy stopped.
const CUT_OFF: &str = "proxy_stopped";

/// All that is known of an exchange so far.
pub struct Recorder {
    proxy: Arc<Proxy>,
    state: Arc<ExchangeState>,
    facts: Facts,
    identified: Identified,
    judgement: Judgement,
    sending: Sending,
    reply: Reply,
    phase: Phase,
    /// The exchange's trace, if exchanges are traced.
    trace: Option<Box<Trace>>,
    /// The exchange's request slot; `None` while nothing is asked for.
    request_slot: Option<RequestSlot>,
}

/// The decision, and the gate's part in it.
struct Judgement {
    /// The decision; until it is made, the one to record if the crawler disconnects.
    decision: Decision,
    /// True if the exchange is a tunnel that is not intercepted.
    is_opaque: bool,
    /// Time that the request was held before it was sent, once it is held no longer.
    hold: Duration,
    /// Turn and charge that the gate gave the request; the gate has them while it holds the request.
    prior: PriorClaim,
    /// True if the gate has charged the request to its client, or nothing is to be charged.
    is_charged: bool,
    /// The pace limit that held or refused the request, or a crawl delay that was clamped.
    pace: Option<EffectivePace>,
    /// Time that the request waited for anything, measured more finely.
    waited: Duration,
}

/// The way of the request to its origin.
#[derive(Default)]
struct Sending {
    /// Address that the request was sent to.
    upstream: Option<SocketAddr>,
    /// Version of HTTP that its answer came by.
    upstream_version: Option<&'static str>,
    /// Signer of the request, if its client has an identity.
    signer: Option<Signer>,
    /// Octets of the request's body so far; `None` if it has no body.
    bytes_in: Option<Arc<AtomicU64>>,
}

/// The answer to the crawler.
#[derive(Default)]
struct Reply {
    status: Option<u16>,
    /// Octets of its body so far.
    bytes_out: u64,
    /// Octets of the request's body that were counted before the answer of a forwarded request left.
    counted_early: Option<u64>,
    /// The error, as a Proxy-Status error type.
    error: Option<&'static str>,
    /// The words of our answer, where they tell more than the rest of the record.
    detail: Option<Box<str>>,
}

/// Progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is asked for, as in a tunnel without an octet. Leaves no record.
    Suspended,
    /// Not answered yet.
    Pending,
    /// At the gate, which may hold the request.
    Held {
        /// The limit that held it before.
        before: Option<EffectivePace>,
    },
    /// The head of the answer is on its way, or the exchange has failed.
    Answered,
    /// The crawler disconnected or broke off.
    Left,
    /// Recorded already; later events change nothing.
    Recorded,
}

/// Proof that a decision was entered, without which no exchange counts as decided.
pub struct Judged(());

impl Recorder {
    /// Returns the state that the exchange shares with the stream that carries it.
    pub fn state(&self) -> &Arc<ExchangeState> {
        &self.state
    }

    /// Returns the decision's identifier.
    pub fn id(&self) -> DecisionId {
        self.facts.id
    }

    /// Returns the start of the exchange.
    pub fn time(&self) -> Moment {
        self.facts.time
    }

    /// Returns the settings that the request is judged and answered under.
    pub fn settings(&self) -> &Config {
        &self.identified.settings
    }

    /// Returns the client of the request.
    pub fn client(&self) -> &Arc<Client> {
        &self.identified.client
    }

    /// Returns the crawler, as it is judged.
    pub fn agent(&self) -> &Arc<Agent> {
        &self.identified.agent
    }

    /// Returns the generation that client and agent were found in.
    pub fn generation(&self) -> Generation {
        self.identified.generation
    }

    /// Returns the requester that the gate judges.
    pub fn requester(&self) -> Requester<'_> {
        self.identified.requester(self.facts.address)
    }

    /// Returns the origin, if the target was read.
    pub fn origin(&self) -> Option<&Origin> {
        self.facts.origin.as_ref()
    }

    /// Returns the decision so far.
    pub fn decision(&self) -> &Decision {
        &self.judgement.decision
    }

    /// Returns the pace limit that held or refused the request, or a crawl delay that was clamped.
    pub fn pace(&self) -> Option<EffectivePace> {
        self.judgement.pace
    }

    /// Returns the address that the request was sent to.
    pub fn upstream(&self) -> Option<SocketAddr> {
        self.sending.upstream
    }

    /// Returns the fields by which the crawler identifies itself.
    pub fn user_agents(&self) -> HeaderMap {
        self.facts.user_agents()
    }

    /// Tells whether a request with a mandatory User-Agent has several: the origin may choose any of them.
    pub fn is_ambiguous(&self) -> bool {
        !self.facts.more_user_agents.is_empty() && self.settings().agent.mismatch == Mismatch::Deny
    }

    /// Takes the generation and the settings in force now, and tells whether they are others than before. Client and agent
    /// are then to be found again.
    pub fn renew(&mut self) -> bool {
        // First: settings come into force before their generation.
        let generation = self.proxy.gate.generation();
        let is_new = generation != self.identified.generation;
        if is_new {
            self.identified.generation = generation;
            self.identified.settings = self.proxy.settings.load_full();
        }
        is_new
    }

    /// Enters the client and the agent that were found again.
    pub fn identify(&mut self, client: Arc<Client>, agent: Arc<Agent>) {
        self.identified.client = client;
        self.identified.agent = agent;
    }

    fn enter(&mut self, decision: Decision) {
        self.judgement.decision = decision;
    }

    /// Tells whether an answer may leave only after its record is on disk: a denial, or a page that an exemption lets out.
    fn needs_durable_record(&self) -> bool {
        let decision = self.decision();
        (!decision.lets_out() || decision.exempt.is_some())
            // A failing log cannot keep even that record.
            && decision.reason != Reason::LogFailed
            && self.proxy.log.is_strict()
    }

    /// Waits until the disk has a record that was made before its answer leaves, and tells whether the answer may leave.
    /// A record without room is lost. Both rules are those in force now, as the log is not the exchange's.
    async fn may_leave(&self, has_room: bool) -> bool {
        let is_kept = has_room && self.proxy.log.flush().await.is_ok();
        is_kept || self.proxy.settings.load().log.on_failure == OnFailure::Continue
    }

    /// Records the exchange now, before its answer with a body of `octets` leaves. Later events are not recorded. Returns
    /// false if the record is lost.
    fn record_now(&mut self, octets: u64) -> bool {
        self.reply.bytes_out = octets;
        let octets_in = self.bytes_in();
        let has_room = self.record();
        // Octets of an origin follow; our own answer is counted whole.
        self.reply.counted_early = (octets == 0 && self.decision().lets_out()).then_some(octets_in);
        self.phase = Phase::Recorded;
        has_room
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // First, so that a reader of the record finds the client charged.
        self.charge();
        if self.phase.leaves_record() {
            self.record();
        }
        if let Some(octets_in) = self.reply.counted_early {
            let rest = self.bytes_in().saturating_sub(octets_in);
            self.proxy.counts.carried(rest, self.reply.bytes_out);
        }
        self.state.end();
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("phase", &self.phase)
            .field("decision", self.decision())
            .field("status", &self.reply.status)
            .finish_non_exhaustive()
    }
}

impl Phase {
    /// Enters the `next` phase; nothing follows a record.
    fn enter(&mut self, next: Phase) {
        if *self != Phase::Recorded {
            *self = next;
        }
    }

    /// Tells whether an exchange that ends in this phase is still to be recorded.
    fn leaves_record(self) -> bool {
        !matches!(self, Phase::Suspended | Phase::Recorded)
    }

    /// Returns the error of an exchange that ends in this phase, where `known` is the one entered so far. An exchange
    /// without an answer ends as if the crawler had hung up.
    fn error(
        self,
        known: Option<&'static str>,
        is_stalled: bool,
        is_cut_off: impl Fn() -> bool,
    ) -> Option<&'static str> {
        match self {
            Phase::Left | Phase::Answered if is_stalled => Some(STALLED),
            Phase::Pending | Phase::Held { .. } | Phase::Left if is_cut_off() => Some(CUT_OFF),
            Phase::Pending | Phase::Held { .. } => Some(HUNG_UP),
            Phase::Left => known.or(Some(HUNG_UP)),
            Phase::Suspended | Phase::Answered | Phase::Recorded => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Phase = Phase::Held { before: None };

    #[test]
    fn an_exchange_without_an_answer_ends_as_if_the_crawler_had_hung_up() {
        let known = Some("connection_terminated");
        let [asked, held, answered, left] = [Phase::Pending, HELD, Phase::Answered, Phase::Left];
        for (phase, is_stalled, is_cut_off, without, with) in [
            (asked, false, false, Some(HUNG_UP), Some(HUNG_UP)),
            (held, false, false, Some(HUNG_UP), Some(HUNG_UP)),
            (answered, false, false, None, known),
            (left, false, false, Some(HUNG_UP), known),
            (asked, true, false, Some(HUNG_UP), Some(HUNG_UP)),
            (answered, true, false, Some(STALLED), Some(STALLED)),
            (left, true, false, Some(STALLED), Some(STALLED)),
            (asked, false, true, Some(CUT_OFF), Some(CUT_OFF)),
            (held, false, true, Some(CUT_OFF), Some(CUT_OFF)),
            (answered, false, true, None, known),
            (left, false, true, Some(CUT_OFF), Some(CUT_OFF)),
            (left, true, true, Some(STALLED), Some(STALLED)),
            (Phase::Recorded, false, false, None, known),
        ] {
            let error = |entered| phase.error(entered, is_stalled, || is_cut_off);
            let name = format!("{phase:?}, stalled {is_stalled}, cut off {is_cut_off}");
            assert_eq!((error(None), error(known)), (without, with), "{name}");
        }
    }

    #[test]
    fn an_exchange_is_recorded_once() {
        for (phase, leaves_record) in [
            (Phase::Suspended, false),
            (Phase::Pending, true),
            (HELD, true),
            (Phase::Answered, true),
            (Phase::Left, true),
            (Phase::Recorded, false),
        ] {
            assert_eq!(phase.leaves_record(), leaves_record, "{phase:?}");
            let mut recorded = Phase::Recorded;
            recorded.enter(phase);
            assert_eq!(recorded, Phase::Recorded, "{phase:?} after the record");
            let mut asked = Phase::Pending;
            asked.enter(phase);
            assert_eq!(asked, phase);
        }
    }
}
