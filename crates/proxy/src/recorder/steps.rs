//! The steps of an exchange, as types: each method belongs to the steps in which it makes sense.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::{HeaderMap, Method, Response, StatusCode, Version};

use super::facts::{Facts, Identified, Opening, Url};
use super::{Judged, Judgement, Phase, Recorder, Reply, Sending};
use crate::Proxy;
use crate::counts::version_name;
use crate::exchange_state::ExchangeState;
use crate::fields::own::lines;
use crate::limits::RequestSlot;
use crate::target::Scope;
use crawlgate_egress::{ResponseBody, Signer};
use crawlgate_evidence::DecisionId;
use crawlgate_gate::PriorClaim;
use crawlgate_policy::agent::Agent;
use crawlgate_policy::usage::{self, Head, Release};
use crawlgate_policy::{Decision, Reason};
use crawlgate_record::Via;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_system::metrics::GaugeGuard;
use crawlgate_turns::client::Client;

/// An exchange at the step `S`. Dropping it writes its record.
pub struct Exchange<S> {
    pub(super) recorder: Box<Recorder>,
    step: PhantomData<S>,
}

/// The head of the request has come; client and agent are not known.
pub enum Opened {}

/// Client and agent are known and the request has a slot: the gate may be asked.
pub enum Admitted {}

/// The decision is made.
pub enum Decided {}

/// The request is on its way to its origin, under its decision.
pub enum Sent {}

/// The head of the answer is on its way.
pub enum Answered {}

/// A CONNECT that is answered and asks for nothing by itself: it leaves no record until something is entered.
pub enum Suspended {}

/// A step before the answer.
pub trait Unanswered {}

impl Unanswered for Opened {}
impl Unanswered for Admitted {}
impl Unanswered for Decided {}
impl Unanswered for Sent {}

/// A step that has a decision.
pub trait Ruled: Unanswered {}

impl Ruled for Decided {}
impl Ruled for Sent {}

/// A step in which the gate may judge the request.
pub trait Judgeable {}

impl Judgeable for Admitted {}
impl Judgeable for Sent {}
impl Judgeable for Suspended {}

impl<S> Exchange<S> {
    fn at(recorder: Box<Recorder>) -> Exchange<S> {
        let step = PhantomData;
        Exchange { recorder, step }
    }

    fn next<N>(self) -> Exchange<N> {
        Exchange::at(self.recorder)
    }

    /// Enters that the exchange is a tunnel that is not intercepted.
    pub fn set_opaque(&mut self) {
        self.recorder.judgement.is_opaque = true;
    }

    /// Returns the counter of octets that the crawler sends.
    pub fn octets_in(&mut self) -> Arc<AtomicU64> {
        Arc::clone(self.recorder.sending.bytes_in.get_or_insert_default())
    }
}

impl<S> Deref for Exchange<S> {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

impl<S> std::fmt::Debug for Exchange<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.recorder.fmt(f)
    }
}

impl Exchange<Opened> {
    /// Opens an exchange that begins now.
    pub fn open(
        proxy: &Arc<Proxy>,
        state: &Arc<ExchangeState>,
        opening: Opening<'_>,
    ) -> Exchange<Opened> {
        let (time, began) = proxy.clock.read();
        let via = match opening.method {
            Method::CONNECT => Via::Tunnel,
            _ => opening.scope.via(),
        };
        let (url, origin) = match opening.scope {
            Scope::Inside { origin, .. } if opening.uri.scheme().is_none() => {
                (Url::Inside(origin.clone(), opening.uri), Some(origin.clone()))
            }
            Scope::Inside { origin, .. } => (Url::Whole(opening.uri), Some(origin.clone())),
            Scope::Plain => (Url::Whole(opening.uri), None),
        };
        state.begin();
        // First: settings come into force before their generation.
        let generation = proxy.gate.generation();
        let settings = proxy.settings.load_full();
        Exchange::at(Box::new(Recorder {
            proxy: Arc::clone(proxy),
            state: Arc::clone(state),
            facts: Facts {
                id: DecisionId::mint(time),
                time,
                began,
                address: opening.address,
                via,
                method: Some(opening.method),
                version: opening.version.map(|version| proxy.counts.came_by(version)),
                url,
                origin,
                user_agent: None,
                more_user_agents: Vec::new(),
            },
            identified: Identified {
                generation,
                settings,
                client: Arc::clone(opening.client),
                agent: Arc::default(),
            },
            judgement: Judgement {
                decision: Decision::bare(Reason::RobotsPending, time),
                is_opaque: false,
                hold: Duration::ZERO,
                prior: PriorClaim::default(),
                is_charged: false,
                pace: None,
                waited: Duration::ZERO,
            },
            sending: Sending::default(),
            reply: Reply::default(),
            phase: Phase::Pending,
            trace: None,
            request_slot: None,
        }))
    }

    /// Enters a request that could not be read, by its first octets.
    pub fn enter_excerpt(&mut self, excerpt: &[u8]) {
        let facts = &mut self.recorder.facts;
        (facts.method, facts.url) = Url::of_excerpt(excerpt);
    }

    /// Enters the question of another proxy, which sends the request and counts it for its client.
    pub fn enter_question(&mut self, octets: &[u8]) {
        self.recorder.facts.via = Via::Decide;
        self.recorder.facts.url = Url::Excerpt(octets.into());
        self.recorder.judgement.is_charged = true;
    }

    /// Joins the trace that the request's fields name, if exchanges are traced.
    pub fn trace(&mut self, headers: &HeaderMap) {
        let tracer = self.proxy.tracer.get();
        self.recorder.trace = tracer.map(|tracer| tracer.trace(headers));
    }

    /// Enters the fields by which the crawler identifies itself.
    pub fn enter_user_agent(&mut self, headers: &HeaderMap) {
        self.recorder.facts.enter_user_agent(headers);
    }

    /// Sets the reason to record if the crawler disconnects before it is admitted.
    pub fn presume(&mut self, reason: Reason) {
        let time = self.time();
        self.recorder.enter(Decision::bare(reason, time));
    }

    /// Enters the client that the request belongs to.
    pub fn set_client(&mut self, client: Arc<Client>) {
        self.recorder.identified.client = client;
    }

    /// Admits the request of this agent. It keeps its slot until the exchange ends or is suspended; the question of another
    /// proxy has none.
    pub fn admit(mut self, agent: Arc<Agent>, slot: Option<RequestSlot>) -> Exchange<Admitted> {
        self.recorder.identified.agent = agent;
        self.recorder.request_slot = slot;
        self.next()
    }
}

impl<S: Unanswered> Exchange<S> {
    /// Enters the origin of the target.
    pub fn set_origin(&mut self, origin: Origin) {
        self.recorder.facts.origin = Some(origin);
    }

    /// Enters the URL with the origin that the crawler named, if it is not the connection's.
    pub fn set_misdirected(&mut self, found: &str) {
        let facts = &mut self.recorder.facts;
        facts.url = facts.url.at(found, facts.origin.as_ref());
    }

    /// Decides the exchange.
    pub fn decide(mut self, decision: Decision) -> Exchange<Decided> {
        self.recorder.enter(decision);
        self.next()
    }

    /// Decides the exchange only for this reason, as of its beginning.
    pub fn decide_by(self, reason: Reason) -> Exchange<Decided> {
        let time = self.time();
        self.decide(Decision::bare(reason, time))
    }
}

impl<S: Judgeable> Exchange<S> {
    /// Opens the exchange to the gate's judgement.
    pub fn gated(&mut self) -> &mut Recorder {
        &mut self.recorder
    }
}

impl Exchange<Admitted> {
    /// Has the decision that was entered through [`gated`](Exchange::gated) stand.
    pub fn decided(self, _: Judged) -> Exchange<Decided> {
        self.next()
    }

    /// Suspends the exchange behind an answer of this status: nothing is asked for until further notice.
    pub fn suspend(mut self, status: StatusCode) -> Exchange<Suspended> {
        let recorder = &mut *self.recorder;
        recorder.reply.status = Some(status.as_u16());
        recorder.phase.enter(Phase::Suspended);
        recorder.request_slot = None;
        recorder.state.suspend();
        self.next()
    }

    /// Answers without a record: the exchange was only about the proxy.
    pub fn discard(mut self, status: StatusCode) -> Exchange<Answered> {
        self.recorder.answer(status, None);
        self.recorder.phase = Phase::Recorded;
        self.next()
    }
}

impl Exchange<Decided> {
    /// Has the request judged again: a change has overtaken its decision.
    pub fn overtaken(self) -> Exchange<Admitted> {
        self.next()
    }

    /// Gives up the turn of a request that crawlgate does not send.
    pub fn give_up_turn(&mut self) {
        self.recorder.judgement.prior.turn = None;
    }

    /// Enters that the request leaves for its origin, and returns the time.
    pub fn send(mut self) -> (Exchange<Sent>, Moment) {
        let recorder = &mut *self.recorder;
        let (moment, now) = recorder.proxy.clock.read();
        let sojourn = now.since(recorder.facts.began);
        let own = sojourn.saturating_sub(recorder.judgement.waited);
        recorder.proxy.counts.added(own);
        if let Some(trace) = &mut recorder.trace {
            trace.request_sent(now);
        }
        (self.next(), moment)
    }

    /// Enters that a tunnel is connected to its origin.
    pub fn connect(mut self, upstream: Option<SocketAddr>) -> Exchange<Sent> {
        self.recorder.sending.upstream = upstream;
        self.next()
    }
}

impl<S: Ruled> Exchange<S> {
    /// Has the decision stand: nothing more goes out.
    pub fn stand(self) -> Exchange<Decided> {
        self.next()
    }

    /// Enters that the head of the answer is on its way.
    pub fn answer(mut self, status: StatusCode, error: Option<&'static str>) -> Exchange<Answered> {
        self.recorder.answer(status, error);
        self.next()
    }
}

impl Exchange<Sent> {
    /// Enters what signs the request, if anything does.
    pub fn set_signer(&mut self, signer: Option<Signer>) {
        self.recorder.sending.signer = signer;
    }

    /// Enters the address that the response came from, and the version of HTTP that it came by.
    pub fn received(&mut self, upstream: SocketAddr, version: Option<Version>) {
        self.recorder.sending.upstream = Some(upstream);
        self.recorder.sending.upstream_version = version.map(version_name);
    }

    /// Judges what the origin's response says of use, and enters it into the decision; `None`: the body is withheld.
    pub fn judge_response(&mut self, response: &Response<ResponseBody>) -> Option<Release> {
        let recorder = &mut *self.recorder;
        let head = Head {
            status: response.status().as_u16(),
            lines: lines(response.headers()),
            tokens: &recorder.identified.agent.tokens,
        };
        usage::release(&mut recorder.judgement.decision, head)
    }
}

impl Exchange<Suspended> {
    /// Enters a decision on what the tunnel carries.
    pub fn decide(&mut self, decision: Decision) {
        self.recorder.enter(decision);
    }

    /// Ends the exchange with this error.
    pub fn fail(mut self, error: &'static str) {
        self.recorder.fail(error);
    }

    /// Enters that the tunnel is connected to its origin, where it is relayed.
    pub fn connect(mut self, upstream: Option<SocketAddr>) -> Exchange<Answered> {
        self.recorder.sending.upstream = upstream;
        self.next()
    }
}

impl Exchange<Answered> {
    /// Waits until the record is on disk, where durability asks for that before this answer leaves. `own` is the length of
    /// our own body; an origin's follows. The answer to a question is recorded now in any case: another proxy acts on it.
    ///
    /// # Errors
    /// The record cannot be kept: the decision is not disclosed, and another answer leaves.
    pub async fn keep(
        mut self,
        own: Option<usize>,
    ) -> Result<Exchange<Answered>, Exchange<Decided>> {
        let must_be_kept = self.needs_durable_record();
        let is_question = self.facts.via == Via::Decide;
        if !must_be_kept && !is_question {
            return Ok(self);
        }
        let has_room = self.recorder.record_now(own.unwrap_or_default() as u64);
        let is_lost = is_question && self.proxy.log.is_closed()
            // Boxed: a wait for the disk should not burden every request's future.
            || must_be_kept && !Box::pin(self.recorder.may_leave(has_room)).await;
        if !is_lost {
            return Ok(self);
        }
        if has_room && own.is_some() {
            self.proxy.log.withdraw(self.id());
        } else if has_room {
            // The record tells that the request has gone out.
            self.proxy.log.answered_log_failed(self.id());
        }
        Err(self.next::<Sent>().decide_by(Reason::LogFailed))
    }

    /// Enters the words of our answer, where they tell more than the rest of the record.
    pub fn set_detail(&mut self, detail: Option<&str>) {
        self.recorder.reply.detail = detail.map(Into::into);
    }

    /// Enters a decision on what an open tunnel carries.
    pub fn overrule(&mut self, decision: Decision) {
        self.recorder.enter(decision);
    }

    /// Begins to relay octets both ways: returns the guard that counts an open tunnel, and the counter of octets that the
    /// crawler sends. A relay that is dropped is recorded as broken off.
    pub fn relay(&mut self) -> (GaugeGuard, Arc<AtomicU64>) {
        self.state.resume();
        self.leave();
        (self.proxy.counts.tunnelling(), self.octets_in())
    }

    /// Counts octets that go to the crawler.
    pub fn add_octets_out(&mut self, octets: u64) {
        self.recorder.reply.bytes_out += octets;
    }

    /// Enters that both sides have finished.
    pub fn finish(&mut self) {
        self.recorder.phase.enter(Phase::Answered);
    }

    /// Enters that the crawler disconnected before it had the whole answer.
    pub fn leave(&mut self) {
        self.recorder.phase.enter(Phase::Left);
    }

    /// Enters the error of the exchange.
    pub fn fail(&mut self, error: &'static str) {
        self.recorder.fail(error);
    }

    /// Ends the answer with a reset, the only sign that it is incomplete.
    pub fn reset(&self) {
        self.state.reset();
    }
}

impl Recorder {
    fn answer(&mut self, status: StatusCode, error: Option<&'static str>) {
        self.reply.status = Some(status.as_u16());
        self.reply.error = error;
        self.phase.enter(Phase::Answered);
        self.state.answer();
        if let Some(trace) = &mut self.trace {
            trace.response_started(self.proxy.clock.tick());
        }
    }

    fn fail(&mut self, error: &'static str) {
        self.reply.error = Some(error);
        self.phase.enter(Phase::Answered);
    }
}
