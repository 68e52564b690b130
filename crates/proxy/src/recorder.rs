//! The exchange's one exit: each exchange is recorded once, when it ends, whatever happens to it.
//!
//! An [`ExchangeRecorder`] opens with the exchange and travels with it: into the response's body, into an upgraded
//! connection. Dropping it writes the record, so an error, a crawler that hangs up and a cancelled task all leave the
//! same kind of line. Until a decision is made the record says so. A record that must be on disk before its answer
//! leaves is [written](ExchangeRecorder::record_now) earlier.
//!
//! Its fields are private: the exchange enters each fact by a method, and only its phase tells which error it is
//! recorded with if it breaks off.

mod held;
mod phase;
mod record;
mod url;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version};

pub use self::held::Held;
use self::phase::Phase;
use self::url::Url;
use super::Proxy;
use super::counts::version_name;
use super::exchange_state::ExchangeState;
use super::fields::usage::lines;
use super::limits::RequestSlot;
use super::target::Scope;
use crate::telemetry::Trace;
use crawlgate_egress::{ResponseBody, Signer};
use crawlgate_evidence::DecisionId;
use crawlgate_gate::{PriorClaim, Requester};
use crawlgate_policy::agent::Agent;
use crawlgate_policy::generation::Generation;
use crawlgate_policy::usage::{self, Head, Release};
use crawlgate_policy::{Decision, Reason};
use crawlgate_record::Via;
use crawlgate_robots::Origin;
use crawlgate_system::clock::{Moment, Tick};
use crawlgate_system::metrics::GaugeGuard;
use crawlgate_turns::client::Client;
use crawlgate_turns::pace::EffectivePace;

/// Facts known about an exchange so far.
pub struct ExchangeRecorder {
    proxy: Arc<Proxy>,
    state: Arc<ExchangeState>,
    /// The decision's identifier.
    id: DecisionId,
    /// Start of the exchange.
    time: Moment,
    /// The same start, to measure from.
    began: Tick,
    /// The exchange's trace, if exchanges are traced.
    trace: Option<Box<Trace>>,
    address: SocketAddr,
    /// Generation read before the client was found, so that it is never newer than the client.
    generation: Generation,
    client: Arc<Client>,
    via: Via,
    /// True if the exchange is a tunnel that is not intercepted.
    is_opaque: bool,
    /// `None` if the request line begins with no token.
    method: Option<Method>,
    version: Option<&'static str>,
    url: Url,
    /// The origin, once the target was read.
    origin: Option<Origin>,
    /// The crawler, as it is judged.
    agent: Arc<Agent>,
    /// The request's User-Agent.
    user_agent: Option<HeaderValue>,
    /// Further User-Agent fields; most requests have none.
    more_user_agents: Vec<HeaderValue>,
    phase: Phase,
    /// The decision; until it is made, the one to record if the crawler disconnects.
    decision: Decision,
    /// The exchange's request slot; `None` while nothing is asked for.
    request_slot: Option<RequestSlot>,
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
    /// Address that the request was sent to.
    upstream: Option<SocketAddr>,
    /// Version of HTTP that its answer came by.
    upstream_version: Option<&'static str>,
    /// Signer of the request, if its client has an identity.
    signer: Option<Signer>,
    /// Status of the answer to the crawler.
    status: Option<u16>,
    /// Octets of the request's body so far; `None` if it has no body.
    bytes_in: Option<Arc<AtomicU64>>,
    /// Octets of the response's body so far.
    bytes_out: u64,
    /// Octets of the request's body that were counted before the answer of a forwarded request left.
    counted_early: Option<u64>,
    /// The error, as a Proxy-Status error type.
    error: Option<&'static str>,
    /// The words of our answer, where they tell more than the rest of the record.
    detail: Option<Box<str>>,
}

/// Facts known when an exchange begins.
pub struct Opening<'a> {
    /// The crawler's address.
    pub address: SocketAddr,
    /// The client that the connection belongs to.
    pub client: &'a Arc<Client>,
    /// The way that the request came.
    pub scope: &'a Scope,
    /// Its method.
    pub method: Method,
    /// The version of HTTP that it came by; `None` if another proxy asks.
    pub version: Option<Version>,
    /// Its request target.
    pub uri: Uri,
}

impl ExchangeRecorder {
    /// Opens the recorder of an exchange that begins now.
    pub fn open(
        proxy: &Arc<Proxy>,
        state: &Arc<ExchangeState>,
        opening: Opening<'_>,
    ) -> Box<ExchangeRecorder> {
        let (time, began) = proxy.clock.read();
        let via = match opening.method {
            Method::CONNECT => Via::Tunnel,
            _ => opening.scope.via(),
        };
        let url = match opening.scope {
            Scope::Inside { origin, .. } if opening.uri.scheme().is_none() => {
                Url::Inside(origin.clone(), opening.uri)
            }
            Scope::Inside { .. } | Scope::Plain => Url::Whole(opening.uri),
        };
        state.begin();
        Box::new(ExchangeRecorder {
            proxy: Arc::clone(proxy),
            state: Arc::clone(state),
            id: DecisionId::mint(time),
            time,
            began,
            trace: None,
            address: opening.address,
            generation: proxy.gate.generation(),
            client: Arc::clone(opening.client),
            via,
            is_opaque: false,
            method: Some(opening.method),
            version: opening.version.map(|version| proxy.counts.came_by(version)),
            url,
            origin: match opening.scope {
                Scope::Inside { origin, .. } => Some(origin.clone()),
                Scope::Plain => None,
            },
            agent: Arc::default(),
            user_agent: None,
            more_user_agents: Vec::new(),
            phase: Phase::Pending,
            decision: Decision::bare(Reason::RobotsPending, time),
            request_slot: None,
            hold: Duration::ZERO,
            prior: PriorClaim::default(),
            is_charged: false,
            pace: None,
            waited: Duration::ZERO,
            upstream: None,
            upstream_version: None,
            signer: None,
            status: None,
            bytes_in: None,
            bytes_out: 0,
            counted_early: None,
            error: None,
            detail: None,
        })
    }

    /// Returns the state that the exchange shares with the stream that carries it.
    pub fn state(&self) -> &Arc<ExchangeState> {
        &self.state
    }

    /// Returns the decision's identifier.
    pub fn id(&self) -> DecisionId {
        self.id
    }

    /// Returns the start of the exchange.
    pub fn time(&self) -> Moment {
        self.time
    }

    /// Returns the client of the request.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Returns the crawler, as it is judged.
    pub fn agent(&self) -> &Arc<Agent> {
        &self.agent
    }

    /// Returns the generation that client and agent were found in.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the requester that the gate judges.
    pub fn requester(&self) -> Requester<'_> {
        Requester {
            address: self.address.ip(),
            client: &self.client,
            agent: &self.agent,
            generation: self.generation,
        }
    }

    /// Returns the origin, if the target was read.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the decision so far.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the pace limit that held or refused the request, or a crawl delay that was clamped.
    pub fn pace(&self) -> Option<EffectivePace> {
        self.pace
    }

    /// Enters a request that could not be read, by its first octets.
    pub fn enter_excerpt(&mut self, excerpt: &[u8]) {
        let (method, url) = Url::of_excerpt(excerpt);
        self.method = method;
        self.url = url;
    }

    /// Enters the question of another proxy, which sends the request and counts it for its client.
    pub fn enter_question(&mut self, octets: &[u8]) {
        self.via = Via::Decide;
        self.url = Url::Excerpt(octets.into());
        self.is_charged = true;
    }

    /// Enters the fields by which the crawler identifies itself.
    pub fn enter_user_agent(&mut self, headers: &HeaderMap) {
        let mut values = headers.get_all(USER_AGENT).iter();
        self.user_agent = values.next().cloned();
        self.more_user_agents.extend(values.cloned());
    }

    /// Returns the fields by which the crawler identifies itself.
    pub fn user_agents(&self) -> HeaderMap {
        let values = self.user_agent.iter().chain(&self.more_user_agents);
        values.map(|value| (USER_AGENT, value.clone())).collect()
    }

    /// Tells whether the crawler identifies itself by several fields.
    pub fn has_several_user_agents(&self) -> bool {
        !self.more_user_agents.is_empty()
    }

    /// Enters the client that the request belongs to.
    pub fn set_client(&mut self, client: Arc<Client>) {
        self.client = client;
    }

    /// Enters the crawler, as it is judged.
    pub fn set_agent(&mut self, agent: Arc<Agent>) {
        self.agent = agent;
    }

    /// Enters a generation that client and agent are about to be found in.
    pub fn set_generation(&mut self, generation: Generation) {
        self.generation = generation;
    }

    /// Keeps a request slot until the exchange ends or is suspended.
    pub fn set_request_slot(&mut self, slot: RequestSlot) {
        self.request_slot = Some(slot);
    }

    /// Enters the origin of the target.
    pub fn set_origin(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    /// Enters the URL with the origin that the crawler named, if it is not the connection's.
    pub fn set_misdirected(&mut self, found: &str) {
        self.url = self.url.at(found, self.origin.as_ref());
    }

    /// Enters that the exchange is a tunnel that is not intercepted.
    pub fn set_opaque(&mut self) {
        self.is_opaque = true;
    }

    /// Enters a decision.
    pub fn decide(&mut self, decision: Decision) {
        self.decision = decision;
    }

    /// Judges what the origin's response says of use, and enters it into the decision; `None`: the body is withheld.
    pub fn judge_response(&mut self, response: &Response<ResponseBody>) -> Option<Release> {
        let head = Head {
            status: response.status().as_u16(),
            lines: lines(response.headers()),
            tokens: &self.agent.tokens,
        };
        usage::release(&mut self.decision, head)
    }

    /// Enters a decision made only for this reason when the exchange began.
    pub fn decide_by(&mut self, reason: Reason) {
        self.decision = Decision::bare(reason, self.time);
    }

    /// Joins the trace that the request's fields name, if exchanges are traced.
    pub fn trace(&mut self, headers: &HeaderMap) {
        let tracer = self.proxy.tracer.get();
        self.trace = tracer.map(|tracer| tracer.trace(headers));
    }

    /// Enters that the request leaves for its origin, and returns the time.
    pub fn request_sent(&mut self) -> Moment {
        let (moment, now) = self.proxy.clock.read();
        let sojourn = now.since(self.began);
        self.proxy.counts.added(sojourn.saturating_sub(self.waited));
        if let Some(trace) = &mut self.trace {
            trace.request_sent(now);
        }
        moment
    }

    /// Returns the address that the request was sent to.
    pub fn upstream(&self) -> Option<SocketAddr> {
        self.upstream
    }

    /// Enters the address that the request was sent to.
    pub fn set_upstream(&mut self, upstream: Option<SocketAddr>) {
        self.upstream = upstream;
    }

    /// Enters what signs the request, if anything does.
    pub fn set_signer(&mut self, signer: Option<Signer>) {
        self.signer = signer;
    }

    /// Enters the version of HTTP that the origin's answer came by.
    pub fn set_upstream_version(&mut self, version: Version) {
        self.upstream_version = Some(version_name(version));
    }

    /// Returns the counter of octets that the crawler sends.
    pub fn octets_in(&mut self) -> Arc<AtomicU64> {
        Arc::clone(self.bytes_in.get_or_insert_default())
    }

    /// Counts octets that go to the crawler.
    pub fn add_octets_out(&mut self, octets: u64) {
        self.bytes_out += octets;
    }

    /// Counts an open tunnel until the returned guard is dropped.
    pub fn tunnels(&self) -> GaugeGuard {
        self.proxy.counts.tunnelling()
    }

    /// Enters that the answer's head is on its way.
    pub fn response_started(&mut self, status: u16, error: Option<&'static str>) {
        self.status = Some(status);
        self.error = error;
        self.phase.enter(Phase::Answered);
        self.state.answer();
        if let Some(trace) = &mut self.trace {
            trace.response_started(self.proxy.clock.tick());
        }
    }

    /// Enters the words of our answer, where they tell more than the rest of the record.
    pub fn set_detail(&mut self, detail: Option<&str>) {
        self.detail = detail.map(Into::into);
    }

    /// Enters the error of the exchange.
    pub fn failed(&mut self, error: &'static str) {
        self.error = Some(error);
        self.phase.enter(Phase::Answered);
    }

    /// Ends the answer with a reset, the only sign that it is incomplete.
    pub fn resets(&self) {
        self.state.reset();
    }

    /// Enters that both sides have finished.
    pub fn finished(&mut self) {
        self.phase.enter(Phase::Answered);
    }

    /// Enters that the crawler disconnected before it had the whole answer.
    pub fn client_closed(&mut self) {
        self.phase.enter(Phase::Left);
    }

    /// Suspends the exchange behind an answer of this status: nothing is asked for until further notice.
    pub fn suspend(&mut self, status: StatusCode) {
        self.status = Some(status.as_u16());
        self.phase.enter(Phase::Suspended);
        self.request_slot = None;
        self.state.suspend();
    }

    /// Resumes a suspended exchange.
    pub fn resume(&mut self) {
        self.state.resume();
    }

    /// Discards the record: the exchange was only about the proxy.
    pub fn discard(&mut self) {
        self.phase = Phase::Recorded;
    }

    /// Records the exchange now, before its answer with a body of `octets` leaves. Later events are not recorded. Returns
    /// false if the record is lost.
    pub fn record_now(&mut self, octets: u64) -> bool {
        self.bytes_out = octets;
        let octets_in = self.bytes_in();
        let has_room = self.record();
        // Octets of an origin follow; our own answer is counted whole.
        self.counted_early = (octets == 0 && self.decision.lets_out()).then_some(octets_in);
        self.phase = Phase::Recorded;
        has_room
    }

    /// Takes the record of [`record_now`](Self::record_now) back: another answer leaves.
    pub fn withdraw_record(&self) {
        self.proxy.log.withdraw(self.id);
    }

    /// Enters beside the record of [`record_now`](Self::record_now) that another answer leaves. The record tells that the
    /// request has gone out.
    pub fn answered_log_failed(&self) {
        self.proxy.log.answered_log_failed(self.id);
    }
}

impl Drop for ExchangeRecorder {
    fn drop(&mut self) {
        // First, so that a reader of the record finds the client charged.
        self.charge();
        if self.phase.leaves_record() {
            self.record();
        }
        if let Some(octets_in) = self.counted_early {
            let rest = self.bytes_in().saturating_sub(octets_in);
            self.proxy.counts.carried(rest, self.bytes_out);
        }
        self.state.end();
    }
}

impl std::fmt::Debug for ExchangeRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExchangeRecorder")
            .field("phase", &self.phase)
            .field("decision", &self.decision)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
