//! One request, from its head to its answer. Plain requests and intercepted ones take the same way.

use std::sync::Arc;

use http::header::{ACCEPT, CONNECTION, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper_util::rt::TokioIo;
use tracing::warn;

use super::body::{Answer, Passing};
use super::client_stream::OnClientStream;
use super::connect::Switching;
use super::crawler_body::CrawlerBody;
use super::downstream::{Connection, Downstream};
use super::exchange_state::ExchangeState;
use super::framing::Switch;
use super::limits::LimitExceeded;
use super::recorder::{ExchangeRecorder, Opening};
use super::refused::{Refused, bad, last, told_to_wait, turned_away, unread, unsent};
use super::respond::{self, Audience, Refusal, RequestTraits};
use super::stall::StallLimit;
use super::target::{self, Scope};
use super::upstream::{self, Received, Unanswered, UpstreamTimeouts};
use super::{Proxy, Trouble, connect, fields, http1_exchange, self_test};
use crate::client::{AuthError, Client};
use crate::config::{Mismatch, OnFailure};
use crate::egress::{Failure, ResponseBody};
use crate::gate::Kind;
use crate::policy::{Decision, Permit, Reason, Target};
use crate::rep::Origin;

/// Facts about a request that its answer needs after the request is gone.
#[derive(Debug)]
struct Shape {
    is_head: bool,
    is_connect: bool,
    framing: BodyFraming,
    accept: Vec<HeaderValue>,
}

/// Framing of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyFraming {
    /// No body.
    Empty,
    /// By Content-Length.
    Sized,
    /// In chunks.
    Chunked,
}

impl Shape {
    fn of(request: &Request<CrawlerBody>) -> Shape {
        // Most crawlers send `*/*`, which states no preference.
        let says = |value: &&HeaderValue| value.as_bytes() != b"*/*";
        let accept = request.headers().get_all(ACCEPT).iter().filter(says);
        Shape {
            is_head: *request.method() == Method::HEAD,
            is_connect: *request.method() == Method::CONNECT,
            framing: BodyFraming::of(request),
            accept: accept.cloned().collect(),
        }
    }
}

impl BodyFraming {
    fn of(request: &Request<CrawlerBody>) -> BodyFraming {
        if request.body().is_end_stream() {
            BodyFraming::Empty
        } else if request.headers().contains_key(TRANSFER_ENCODING) {
            BodyFraming::Chunked
        } else {
            BodyFraming::Sized
        }
    }

    /// Tells whether an answer that leaves the body unread must be the last one of its connection.
    fn ends_connection(self, state: &ExchangeState) -> bool {
        match self {
            BodyFraming::Empty => false,
            BodyFraming::Sized => state.needs_whole_body(false),
            BodyFraming::Chunked => state.needs_whole_body(true),
        }
    }
}

/// The refusal of a request before its target is read.
#[derive(Debug)]
struct NotAdmitted {
    refusal: Refusal,
    /// True if its answer is the last one of its connection.
    is_last: bool,
}

impl NotAdmitted {
    /// The recorder's decision refuses the request.
    const DECIDED: NotAdmitted = NotAdmitted {
        refusal: Refusal::Decided,
        is_last: false,
    };

    /// Refuses a request beyond a limit. One beyond a limit on connections ends its connection.
    fn by(exceeded: LimitExceeded) -> NotAdmitted {
        NotAdmitted {
            is_last: matches!(exceeded, LimitExceeded::Connections(_)),
            ..NotAdmitted::DECIDED
        }
    }
}

impl Connection {
    /// Answers one request. `state` is that of its exchange.
    pub async fn exchange(
        &self,
        state: &Arc<ExchangeState>,
        mut request: Request<CrawlerBody>,
    ) -> Response<Answer> {
        if let Some(uri) = target::of_handshake(request.uri()) {
            *request.uri_mut() = uri;
        }
        let opening = Opening {
            address: self.downstream.peer.address,
            client: &self.downstream.client,
            scope: &self.scope,
            method: request.method().clone(),
            version: Some(request.version()),
            uri: request.uri().clone(),
        };
        let mut recorder = ExchangeRecorder::open(&self.downstream.proxy, state, opening);
        let shape = Shape::of(&request);
        let is_token = self.downstream.proxy.refusal_token.is(request.uri().path());
        if let Some(refused) = state.take_refused(is_token) {
            self.warn_of(&refused);
            if let Some(excerpt) = &refused.excerpt {
                recorder.enter_excerpt(excerpt);
            }
            recorder.decide_by(Reason::BadRequest);
            return self
                .refuse(&Refusal::Form(refused.violation), recorder, shape)
                .await;
        }
        recorder.trace(request.headers());
        fields::drop_nominated_agent(request.headers_mut());
        recorder.enter_user_agent(request.headers());
        // The checked stream takes such a request for a protocol switch and waits for the answer.
        let may_switch = !shape.is_connect
            && request.headers().contains_key(UPGRADE)
            && request.body().is_end_stream();
        let response = match self.admit(request.headers(), &mut recorder).await {
            Ok(()) => self.answer(request, recorder, shape, may_switch).await,
            Err(NotAdmitted { refusal, is_last }) => {
                // Boxed: it should not burden the future of every request.
                let response = Box::pin(self.refuse(&refusal, recorder, shape)).await;
                if is_last { last(response) } else { response }
            }
        };
        if may_switch {
            state.decide(match response.status() {
                StatusCode::SWITCHING_PROTOCOLS => Switch::Switched,
                _ => Switch::Stayed,
            });
        }
        response
    }

    /// Tells the operator, once per address, of a crawler that begins HTTP/2 where it is not spoken.
    fn warn_of(&self, refused: &http1_exchange::Refused) {
        let client = self.downstream.peer.address;
        let proxy = &self.downstream.proxy;
        if refused.is_prior_knowledge() && proxy.is_news(client, Trouble::Protocol) {
            warn!(
                %client,
                "the crawler speaks HTTP/2 without TLS, which the gate does not: have it use HTTP/1.1 to the proxy"
            );
        }
    }

    /// Answers an admitted request.
    async fn answer(
        &self,
        request: Request<CrawlerBody>,
        recorder: Box<ExchangeRecorder>,
        shape: Shape,
        may_switch: bool,
    ) -> Response<Answer> {
        let answered = match shape.is_connect {
            true => Box::pin(self.open_tunnel(request, recorder)).await,
            false => self.forward(request, recorder, may_switch).await,
        };
        match answered {
            Ok(response) => response,
            Err((refusal, recorder)) => self.refuse(&refusal, recorder, shape).await,
        }
    }

    /// Admits a request if its connection has room, its client is identified, a request slot is free and its User-Agent
    /// is clear. Identifies client and agent.
    ///
    /// # Errors
    /// When the request is refused; the recorder has the decision.
    async fn admit(
        &self,
        headers: &HeaderMap,
        recorder: &mut ExchangeRecorder,
    ) -> Result<(), NotAdmitted> {
        if let Some(reason) = self.downstream.turned_away {
            let exceeded = LimitExceeded::Connections(reason);
            recorder.decide(told_to_wait(exceeded, recorder.time()));
            return Err(NotAdmitted::by(exceeded));
        }
        let gate = &self.downstream.proxy.gate;
        let client = match gate.clients().cached(&self.auth_cache, headers) {
            Some(client) => client,
            None => {
                // Recorded if the crawler disconnects before it is identified.
                recorder.decide_by(Reason::Unauthenticated);
                // Boxed: the authentication cache answers most requests.
                let recognised = Box::pin(self.recognise(headers)).await;
                recorder.decide_by(Reason::RobotsPending);
                recognised.map_err(|auth_error| {
                    recorder.decide(turned_away(auth_error, recorder.time()));
                    NotAdmitted::DECIDED
                })?
            }
        };
        recorder.set_client(client);
        if let Err(exceeded) = self.find_request_slot(recorder) {
            recorder.decide(told_to_wait(exceeded, recorder.time()));
            return Err(NotAdmitted::by(exceeded));
        }
        recorder.set_agent(gate.identify(recorder.client(), headers));
        if self.downstream.proxy.is_ambiguous(recorder) {
            recorder.decide_by(Reason::BadRequest);
            return Err(NotAdmitted {
                refusal: Refusal::Agents,
                is_last: false,
            });
        }
        Ok(())
    }

    /// Takes a request slot for the exchange.
    fn find_request_slot(&self, recorder: &mut ExchangeRecorder) -> Result<(), LimitExceeded> {
        let Downstream {
            proxy, peer, slot, ..
        } = &self.downstream;
        let settings = proxy.settings.load();
        let place = slot.request(recorder.client(), peer.address.ip(), &settings.limits)?;
        recorder.set_request_slot(place);
        Ok(())
    }

    /// Identifies the client of a request with these fields.
    async fn recognise(&self, headers: &HeaderMap) -> Result<Arc<Client>, AuthError> {
        let clients = self.downstream.proxy.gate.clients();
        let peer = &self.downstream.peer;
        match &self.scope {
            Scope::Plain => clients.recognise(peer, headers, &self.auth_cache).await,
            // The client of the CONNECT.
            Scope::Inside { .. } => clients.again(&self.downstream.client, peer, &self.auth_cache),
        }
    }

    /// Answers a CONNECT.
    async fn open_tunnel(
        &self,
        request: Request<CrawlerBody>,
        mut recorder: Box<ExchangeRecorder>,
    ) -> Result<Response<Answer>, Refused> {
        if self.downstream.proxy.name.has_signed(request.headers()) {
            return Err((bad(Refusal::Loop, &mut recorder), recorder));
        }
        let mut connection = self.clone();
        connection.downstream.way = fields::way(request.headers());
        connect::connect(&connection, request, recorder).await
    }

    /// Answers any other request: asks the gate, and passes on what the origin answers.
    async fn forward(
        &self,
        mut request: Request<CrawlerBody>,
        mut recorder: Box<ExchangeRecorder>,
        may_switch: bool,
    ) -> Result<Response<Answer>, Refused> {
        let target = match self.read_target(&request, &mut recorder).await {
            Ok(target) => target,
            Err(refusal) => return Err((refusal, recorder)),
        };
        let origin = target.origin.clone();
        if self_test::is_meant(&origin) {
            let is_last = BodyFraming::of(&request).ends_connection(recorder.state());
            let answer = self_test::answer(recorder, &origin, request.method());
            return Ok(if is_last { last(answer) } else { answer });
        }
        // RFC 6455 4.1: the handshake is a GET.
        let may_switch = may_switch && *request.method() == Method::GET;
        let switching =
            may_switch.then(|| Switching::to(&target, self.downstream.proxy.gate.changes()));
        let Some(permit) = self.clear(Kind::Request, target, &mut recorder).await else {
            return Err((Refusal::Decided, recorder));
        };
        let client_stream = OnClientStream::take(&mut request);
        let wants_websocket = self.prepare(&mut request, &origin, may_switch);
        // Boxed, so that a denial does not pay for the room that forwarding needs.
        let received = Box::pin(self.receive(permit, request, &mut recorder)).await;
        let (response, passing) = match received {
            Ok(received) => received,
            Err(refusal) => return Err((refusal, recorder)),
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return match (client_stream, switching) {
                (Some(client_stream), Some(switching))
                    if wants_websocket && is_websocket(response.headers()) =>
                {
                    Ok(self.switch(response, client_stream, recorder, switching))
                }
                _ => Err((Refusal::Upgrade, recorder)),
            };
        }
        if !fields::is_framed_plainly(response.headers()) {
            return Err((Refusal::Upstream(Failure::Protocol), recorder));
        }
        Ok(self.pass(response, recorder, passing))
    }

    /// Reads the target of a request that may be forwarded.
    ///
    /// # Errors
    /// The refusal; the recorder has the decision.
    async fn read_target(
        &self,
        request: &Request<CrawlerBody>,
        recorder: &mut ExchangeRecorder,
    ) -> Result<Target, Refusal> {
        let proxy = &self.downstream.proxy;
        if *request.method() == Method::TRACE {
            return Err(bad(Refusal::Trace, recorder));
        }
        if proxy.name.has_signed(request.headers()) {
            return Err(bad(Refusal::Loop, recorder));
        }
        let target = target::read(request.uri(), request.headers(), &self.scope)
            .map_err(|unreadable| unread(unreadable, recorder))?;
        recorder.set_origin(target.origin.clone());
        // The CONNECT was let through, so that the refusal comes inside, where the client shows it.
        if let Scope::Inside { .. } = self.scope
            && proxy.egress.check_connect(&target.origin).is_err()
            // Boxed: few requests ask for such ports.
            && let Err(prohibited) = Box::pin(proxy.egress.check_inside(&target.origin)).await
        {
            return Err(unsent(Failure::Prohibited(prohibited), recorder));
        }
        Ok(target)
    }

    /// Makes the request that goes to the origin, and tells whether it asks for a WebSocket.
    fn prepare(
        &self,
        request: &mut Request<CrawlerBody>,
        origin: &Origin,
        may_switch: bool,
    ) -> bool {
        let version = request.version();
        let wants_websocket = fields::to_origin(request.headers_mut(), origin, may_switch);
        self.downstream
            .proxy
            .name
            .sign(request.headers_mut(), version);
        if let Some(way) = &self.downstream.way {
            request.extensions_mut().insert(way.clone());
        }
        wants_websocket
    }

    /// Sends the request and waits for the head of the origin's response.
    ///
    /// # Errors
    /// The refusal, if no response came.
    async fn receive(
        &self,
        permit: Permit,
        request: Request<CrawlerBody>,
        recorder: &mut ExchangeRecorder,
    ) -> Result<(Response<ResponseBody>, Passing), Refusal> {
        let version = request.version();
        // Copied first: the settings would stay borrowed for as long as the origin takes.
        let (timeouts, silence) = {
            let settings = self.downstream.proxy.settings.load();
            let timeouts = UpstreamTimeouts {
                origin: settings.upstream.response_timeout,
                crawler: StallLimit::of(&settings.limits),
            };
            (timeouts, settings.upstream.body_timeout)
        };
        let received = upstream::send(self, permit, request, recorder, timeouts).await;
        let Received {
            response,
            peer,
            continue_signal,
            mut timer,
        } = match received {
            Ok(received) => {
                recorder.observe(Ok(&received.response));
                received
            }
            Err(Unanswered::Failed(failure)) => {
                recorder.observe::<()>(Err(failure));
                return Err(unsent(failure, recorder));
            }
            Err(Unanswered::Denied) => return Err(Refusal::Decided),
        };
        recorder.set_upstream(Some(peer));
        if silence < timeouts.origin {
            timer.restart(silence);
        }
        let length = response.body().size_hint().exact();
        let passing = Passing {
            continue_signal,
            timer,
            patience: silence,
            is_open_ended: version == Version::HTTP_10 && length.is_none(),
        };
        Ok((response, passing))
    }

    /// Passes the origin's answer on to the crawler.
    fn pass(
        &self,
        mut response: Response<ResponseBody>,
        mut recorder: Box<ExchangeRecorder>,
        passing: Passing,
    ) -> Response<Answer> {
        recorder.response_started(response.status().as_u16(), None);
        let version = response.version();
        fields::to_crawler(response.headers_mut());
        self.downstream
            .proxy
            .name
            .sign(response.headers_mut(), version);
        *response.version_mut() = Version::HTTP_11;
        // The response's extensions stay: the spelling of its names and its reason phrase.
        response.map(|incoming| Answer::forwarded(incoming, recorder, passing))
    }

    /// Relays octets both ways from now on. The record is written when both sides have finished.
    fn switch(
        &self,
        mut response: Response<ResponseBody>,
        client_stream: OnClientStream,
        mut recorder: Box<ExchangeRecorder>,
        switching: Switching,
    ) -> Response<Answer> {
        let upstream = hyper::upgrade::on(&mut response);
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = switching_fields(response.headers());
        self.downstream
            .proxy
            .name
            .sign(answer.headers_mut(), response.version());
        recorder.response_started(StatusCode::SWITCHING_PROTOCOLS.as_u16(), None);
        let downstream = self.downstream.clone();
        self.downstream.proxy.spawn(async move {
            let both = tokio::join!(client_stream.ready(), upstream);
            let (Ok(client_stream), Ok(upstream)) = both else {
                recorder.client_closed();
                return;
            };
            let upstream = TokioIo::new(upstream);
            switching
                .relay(&downstream, client_stream, upstream, recorder)
                .await;
            drop(downstream);
        });
        answer.map(|()| Answer::empty())
    }

    async fn refuse(
        &self,
        refusal: &Refusal,
        mut recorder: Box<ExchangeRecorder>,
        shape: Shape,
    ) -> Response<Answer> {
        if shape.is_connect {
            recorder.state().refuse_tunnel();
        }
        let traits = RequestTraits {
            is_head: shape.is_head,
            // A client may stop sending at an answer that announces the close, and expects the end (RFC 9112 9.5).
            ends_connection: shape.is_connect || shape.framing.ends_connection(recorder.state()),
            wants_text: respond::wants_text(&shape.accept),
            unreachable_status: self
                .downstream
                .proxy
                .settings
                .load()
                .robots
                .unreachable_status,
            audience: Audience::Crawler,
        };
        // Read the clock only if the answer needs it.
        let now = match recorder.decision().retry_at {
            Some(_) => self.downstream.proxy.clock.now(),
            None => recorder.time(),
        };
        let mut response = respond::refuse(refusal, &mut recorder, traits, now);
        if self
            .downstream
            .proxy
            .must_be_kept_first(recorder.decision())
        {
            recorder.record_now(response.body().len() as u64);
            // Boxed: a wait for the disk should not burden every request's future.
            let kept = Box::pin(self.downstream.proxy.log.flush()).await;
            if kept.is_err() && self.downstream.proxy.denies_unrecorded() {
                // The decision may not be on disk, so it is not disclosed.
                recorder.decide(Decision::bare(Reason::LogFailed, now));
                response = respond::refuse(&Refusal::Decided, &mut recorder, traits, now);
            }
        }
        response.map(|body| Answer::own(body, recorder))
    }
}

impl Proxy {
    /// Tells whether a decision that cannot be recorded must not be disclosed.
    pub(super) fn denies_unrecorded(&self) -> bool {
        self.settings.load().log.on_failure == OnFailure::Deny
    }

    /// Tells whether a request with a mandatory User-Agent has several: the origin may choose any of them.
    pub(super) fn is_ambiguous(&self, recorder: &ExchangeRecorder) -> bool {
        recorder.has_several_user_agents() && self.settings.load().agent.mismatch == Mismatch::Deny
    }

    /// Tells whether an answer may leave only after its record is on disk.
    pub(super) fn must_be_kept_first(&self, decision: &Decision) -> bool {
        !decision.lets_out()
            // A failing log cannot keep even that record.
            && decision.reason != Reason::LogFailed
            && self.log.is_strict()
    }
}

/// Tells whether a 101 switches to WebSocket and to nothing else.
fn is_websocket(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(UPGRADE).iter();
    let is_one = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    values.next().is_some_and(is_one) && values.next().is_none()
}

/// Returns the fields of a 101, all of which are about this connection.
fn switching_fields(origins: &HeaderMap) -> HeaderMap {
    let mut headers = origins.clone();
    fields::to_crawler_without_body(&mut headers);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers
}
