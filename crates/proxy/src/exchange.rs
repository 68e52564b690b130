//! One request, from its head to its answer. Plain requests and intercepted ones take the same way.

use std::sync::Arc;

use http::header::{ACCEPT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use tracing::warn;

use super::admission::NotAdmitted;
use super::body::Answer;
use super::crawler_body::CrawlerBody;
use super::downstream::Connection;
use super::exchange_state::ExchangeState;
use super::framing::Switch;
use super::recorder::{ExchangeRecorder, Opening};
use super::refused::{RefusedExchange, bad, last};
use super::respond::{self, Audience, Refusal, RequestTraits};
use super::{ConnectionFailure, Proxy, connect, fields, http1_exchange, target};
use crawlgate_config::{Mismatch, OnFailure};
use crawlgate_egress::AsteriskForm;
use crawlgate_policy::{Decision, Reason};
use crawlgate_robots::Origin;

/// Facts about a request that its answer needs after the request is gone.
#[derive(Debug)]
struct AnswerContext {
    is_head: bool,
    is_connect: bool,
    framing: BodyFraming,
    accept: Vec<HeaderValue>,
}

/// Framing of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// No body.
    Empty,
    /// By Content-Length.
    Sized,
    /// In chunks.
    Chunked,
}

impl AnswerContext {
    fn of(request: &Request<CrawlerBody>) -> AnswerContext {
        // Most crawlers send `*/*`, which states no preference.
        let says = |value: &&HeaderValue| value.as_bytes() != b"*/*";
        let accept = request.headers().get_all(ACCEPT).iter().filter(says);
        AnswerContext {
            is_head: *request.method() == Method::HEAD,
            is_connect: *request.method() == Method::CONNECT,
            framing: BodyFraming::of(request),
            accept: accept.cloned().collect(),
        }
    }
}

impl BodyFraming {
    /// Reads the framing of a request that hyper has read.
    pub(super) fn of(request: &Request<CrawlerBody>) -> BodyFraming {
        if request.body().is_end_stream() {
            BodyFraming::Empty
        } else if request.headers().contains_key(TRANSFER_ENCODING) {
            BodyFraming::Chunked
        } else {
            BodyFraming::Sized
        }
    }

    /// Tells whether an answer that leaves the body unread must be the last one of its connection.
    pub(super) fn ends_connection(self, state: &ExchangeState) -> bool {
        match self {
            BodyFraming::Empty => false,
            BodyFraming::Sized => state.needs_whole_body(false),
            BodyFraming::Chunked => state.needs_whole_body(true),
        }
    }
}

impl Connection {
    /// Answers one request. `state` is that of its exchange. The request is boxed: it passes through many futures, each of which
    /// would have room for it.
    pub async fn exchange(
        &self,
        state: &Arc<ExchangeState>,
        mut request: Box<Request<CrawlerBody>>,
    ) -> Response<Answer> {
        if let Some(uri) = target::of_handshake(request.uri()) {
            *request.uri_mut() = uri;
        }
        if let Some(uri) = target::of_server(request.method(), request.uri()) {
            *request.uri_mut() = uri;
            request.extensions_mut().insert(AsteriskForm);
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
        let context = AnswerContext::of(&request);
        let is_token = self.downstream.proxy.refusal_token.is(request.uri().path());
        if let Some(refused) = state.take_refused(is_token) {
            self.warn_of(&refused);
            if let Some(excerpt) = &refused.excerpt {
                recorder.enter_excerpt(excerpt);
            }
            recorder.decide_by(Reason::BadRequest);
            return self
                .refuse(&Refusal::Form(refused.violation), recorder, context)
                .await;
        }
        recorder.trace(request.headers());
        fields::drop_nominated_agent(request.headers_mut());
        recorder.enter_user_agent(request.headers());
        // The checked stream takes such a request for a protocol switch and waits for the answer.
        let may_switch = !context.is_connect
            && request.headers().contains_key(UPGRADE)
            && request.body().is_end_stream();
        let admitted = self.admit(request.headers(), &mut recorder).await;
        let admitted = admitted.and_then(|()| match request.body() {
            CrawlerBody::Tunnel(_) => self.of_tunnel(&mut recorder).map(Some),
            _ => Ok(None),
        });
        let response = match admitted {
            Ok(None) => self.answer(request, recorder, context, may_switch).await,
            Ok(Some(tunnel)) => {
                Box::pin(tunnel.answer(request, recorder, context, may_switch)).await
            }
            Err(NotAdmitted { refusal, is_last }) => {
                if is_last {
                    state.end_connection();
                }
                // Searches find the record by it. Inside a tunnel, the recorder has that of the tunnel.
                if recorder.decision().reason.is_unidentified()
                    && recorder.origin().is_none()
                    && let Some(origin) = self.named_origin(&request)
                {
                    recorder.set_origin(origin);
                }
                // Boxed: it should not burden the future of every request.
                let response = Box::pin(self.refuse(&refusal, recorder, context)).await;
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

    /// Returns the origin that a request names, if its target can be read.
    fn named_origin(&self, request: &Request<CrawlerBody>) -> Option<Origin> {
        match *request.method() {
            Method::CONNECT => target::read_connect(request.uri()).ok(),
            _ => {
                let read = target::read(request.uri(), request.headers(), &self.scope, true);
                read.ok().map(|(target, _)| target.origin)
            }
        }
    }

    /// Tells the operator, once per address, of a crawler that begins TLS or HTTP/2 where it is not spoken.
    fn warn_of(&self, refused: &http1_exchange::MalformedRequest) {
        let client = self.downstream.peer.address;
        let proxy = &self.downstream.proxy;
        if refused.is_prior_knowledge() && proxy.should_warn(client, ConnectionFailure::Protocol) {
            warn!(
                %client,
                "the crawler speaks HTTP/2 without TLS, which the gate does not: have it use HTTP/1.1 to the proxy"
            );
        }
        if refused.is_tls() && proxy.should_warn(client, ConnectionFailure::Protocol) {
            warn!(
                %client,
                "the crawler begins TLS where HTTP is spoken: have it name the proxy by an http:// URL; if it does (Wget2 begins TLS \
                 nevertheless), give it a [[listener]] with tls = true"
            );
        }
    }

    /// Answers an admitted request.
    async fn answer(
        &self,
        request: Box<Request<CrawlerBody>>,
        recorder: Box<ExchangeRecorder>,
        context: AnswerContext,
        may_switch: bool,
    ) -> Response<Answer> {
        let answered = match context.is_connect {
            true => Box::pin(self.open_tunnel(request, recorder)).await,
            false => self.forward(request, recorder, may_switch).await,
        };
        match answered {
            Ok(response) => response,
            Err((refusal, recorder)) => self.refuse(&refusal, recorder, context).await,
        }
    }

    /// Answers a CONNECT.
    async fn open_tunnel(
        &self,
        request: Box<Request<CrawlerBody>>,
        mut recorder: Box<ExchangeRecorder>,
    ) -> Result<Response<Answer>, RefusedExchange> {
        if self.downstream.proxy.name.has_signed(request.headers()) {
            return Err((bad(Refusal::Loop, &mut recorder), recorder));
        }
        let mut connection = self.clone();
        connection.downstream.via = fields::via_chain(request.headers());
        connect::connect(&connection, request, recorder).await
    }

    async fn refuse(
        &self,
        refusal: &Refusal,
        mut recorder: Box<ExchangeRecorder>,
        context: AnswerContext,
    ) -> Response<Answer> {
        if context.is_connect {
            recorder.state().refuse_tunnel();
        }
        let traits = RequestTraits {
            is_head: context.is_head,
            // A client may stop sending at an answer that announces the close, and expects the end (RFC 9112 9.5).
            ends_connection: context.is_connect
                || context.framing.ends_connection(recorder.state()),
            wants_text: respond::wants_text(&context.accept),
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
            .needs_durable_record(recorder.decision())
        {
            let has_room = recorder.record_now(response.body().len() as u64);
            // Boxed: a wait for the disk should not burden every request's future.
            if !Box::pin(self.downstream.proxy.may_answer(has_room)).await {
                // The decision may not be on disk, so it is not disclosed.
                if has_room {
                    recorder.withdraw_record();
                }
                recorder.decide(Decision::bare(Reason::LogFailed, now));
                response = respond::refuse(&Refusal::Decided, &mut recorder, traits, now);
            }
        }
        response.map(|body| Answer::own(body, recorder))
    }
}

impl Proxy {
    /// Waits until the disk has a record that was made before its answer leaves, and tells whether the answer may leave.
    /// A record without room is lost.
    pub(super) async fn may_answer(&self, has_room: bool) -> bool {
        let is_kept = has_room && self.log.flush().await.is_ok();
        is_kept || self.settings.load().log.on_failure == OnFailure::Continue
    }

    /// Tells whether a request with a mandatory User-Agent has several: the origin may choose any of them.
    pub(super) fn is_ambiguous(&self, recorder: &ExchangeRecorder) -> bool {
        recorder.has_several_user_agents() && self.settings.load().agent.mismatch == Mismatch::Deny
    }

    /// Tells whether an answer may leave only after its record is on disk: a denial, or a page that an exemption lets out.
    pub(super) fn needs_durable_record(&self, decision: &Decision) -> bool {
        (!decision.lets_out() || decision.exempt.is_some())
            // A failing log cannot keep even that record.
            && decision.reason != Reason::LogFailed
            && self.log.is_strict()
    }
}
