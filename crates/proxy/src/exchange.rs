//! One request, from its head to its answer. Plain requests and intercepted ones take the same way.

use std::sync::Arc;

use http::header::{ACCEPT, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use tracing::warn;

use super::admission::NotAdmitted;
use super::body::Answer;
use super::client_stream::CrawlerBody;
use super::connection::Connection;
use super::exchange_state::ExchangeState;
use super::framing::Switch;
use super::recorder::{Admitted, Exchange, Opening};
use super::refused::{Refused, last_if};
use super::respond::{self, Audience, Refusal, RequestTraits};
use super::{ConnectionFailure, carrier, connect, fields, target};
use crawlgate_egress::AsteriskForm;
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
        let mut opened = Exchange::open(self.proxy(), state, opening);
        let context = AnswerContext::of(&request);
        let is_token = self.proxy().refusal_token.is(request.uri().path());
        if let Some(malformed) = state.take_refused(is_token) {
            self.warn_of(&malformed);
            if let Some(excerpt) = &malformed.excerpt {
                opened.enter_excerpt(excerpt);
            }
            let refused = opened.bad(Refusal::Form(malformed.violation));
            return self.refuse(refused, context).await;
        }
        opened.trace(request.headers());
        fields::drop_nominated_agent(request.headers_mut());
        opened.enter_user_agent(request.headers());
        // The checked stream takes such a request for a protocol switch and waits for the answer.
        let may_switch = !context.is_connect
            && request.headers().contains_key(UPGRADE)
            && request.body().is_end_stream();
        let admitted = self.admit(request.headers(), opened).await;
        let admitted = admitted.and_then(|exchange| match request.body() {
            CrawlerBody::Tunnel(_) => {
                let (tunnel, exchange) = self.of_tunnel(exchange)?;
                Ok((Some(tunnel), exchange))
            }
            _ => Ok((None, exchange)),
        });
        let response = match admitted {
            Ok((None, exchange)) => self.answer(request, exchange, context, may_switch).await,
            Ok((Some(tunnel), exchange)) => {
                Box::pin(tunnel.answer(request, exchange, context, may_switch)).await
            }
            Err(NotAdmitted { mut refused, is_last }) => {
                if is_last {
                    state.end_connection();
                }
                // Searches find the record by it. Inside a tunnel, the exchange has that of the tunnel.
                let exchange = &mut refused.exchange;
                if exchange.decision().reason.is_unidentified()
                    && exchange.origin().is_none()
                    && let Some(origin) = self.named_origin(&request)
                {
                    exchange.set_origin(origin);
                }
                // Boxed: it should not burden the future of every request.
                let response = Box::pin(self.refuse(refused, context)).await;
                last_if(is_last, response)
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
    fn warn_of(&self, refused: &carrier::MalformedRequest) {
        let client = self.downstream.peer.address;
        let proxy = self.proxy();
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
        exchange: Exchange<Admitted>,
        context: AnswerContext,
        may_switch: bool,
    ) -> Response<Answer> {
        let answered = if context.is_connect {
            Box::pin(self.open_tunnel(request, exchange)).await
        } else {
            self.forward(request, exchange, may_switch).await
        };
        match answered {
            Ok(response) => response,
            Err(refused) => self.refuse(refused, context).await,
        }
    }

    /// Answers a CONNECT.
    async fn open_tunnel(
        &self,
        request: Box<Request<CrawlerBody>>,
        exchange: Exchange<Admitted>,
    ) -> Result<Response<Answer>, Refused> {
        if self.proxy().name.has_signed(request.headers()) {
            return Err(exchange.bad(Refusal::Loop));
        }
        let mut connection = self.clone();
        connection.downstream.via = fields::via_chain(request.headers());
        connect::connect(&connection, request, exchange).await
    }

    async fn refuse(&self, refused: Refused, context: AnswerContext) -> Response<Answer> {
        let Refused { refusal, exchange } = refused;
        let state = exchange.state();
        if context.is_connect {
            state.refuse_tunnel();
        }
        let traits = RequestTraits {
            is_head: context.is_head,
            // A client may stop sending at an answer that announces the close, and expects the end (RFC 9112 9.5).
            ends_connection: context.is_connect || context.framing.ends_connection(state),
            wants_text: respond::wants_text(&context.accept),
            audience: Audience::Crawler,
        };
        // Read the clock only if the answer needs it.
        let now = match exchange.decision().retry_at {
            Some(_) => self.proxy().clock.now(),
            None => exchange.time(),
        };
        let refused = respond::refuse(&refusal, exchange, traits, now);
        let (response, exchange) = respond::keep(refused, traits, now).await;
        response.map(|body| Answer::own(body, exchange))
    }
}
