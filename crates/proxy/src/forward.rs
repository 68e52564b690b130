//! Forwarding: a request that the gate lets out goes to its origin, and the origin's answer to the crawler.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;

use super::body::{Answer, Passing};
use super::client_stream::CrawlerBody;
use super::client_stream::OnClientStream;
use super::connect::Switching;
use super::connection::Connection;
use super::exchange::BodyFraming;
use super::fields;
use super::recorder::{Admitted, Answered, Decided, Exchange, Sent};
use super::refused::{Refused, last_if};
use super::respond::{self, Refusal, Unforwardable};
use super::target::{self, Scope};
use super::upstream::{self, Received, Unanswered};
use crawlgate_egress::{EndsLogin, Failure, ResponseBody, offers_login, switched};
use crawlgate_ftp as ftp;
use crawlgate_gate::Kind;
use crawlgate_policy::usage::Release;
use crawlgate_policy::{Permit, Target};
use crawlgate_robots::{Origin, Scheme, TransferType};

impl Connection {
    /// Answers any other request: asks the gate, and passes on what the origin answers.
    pub(super) async fn forward(
        &self,
        mut request: Box<Request<CrawlerBody>>,
        exchange: Exchange<Admitted>,
        may_switch: bool,
    ) -> Result<Response<Answer>, Refused> {
        let (target, transfer_type, exchange) = self.read_target(&request, exchange).await?;
        let origin = target.origin.clone();
        if let Some(transfer_type) = transfer_type {
            request.extensions_mut().insert(transfer_type);
        }
        if respond::is_self_test(&origin) {
            let is_last = BodyFraming::of(&request).ends_connection(exchange.state());
            let answer = respond::self_test(exchange, &origin, request.method());
            return Ok(last_if(is_last, answer));
        }
        // RFC 6455 4.1: the handshake is a GET.
        let may_switch = may_switch && *request.method() == Method::GET;
        let switching = may_switch.then(|| Switching::to(&target, self.proxy().gate.changes()));
        let (permit, exchange) = self.clear(Kind::Request, target, exchange).await?;
        if *request.method() == Method::OPTIONS && !fields::count_forward(request.headers_mut()) {
            let is_last = BodyFraming::of(&request).ends_connection(exchange.state());
            let answer = respond::as_last_recipient(exchange);
            return Ok(last_if(is_last, answer));
        }
        let client_stream = OnClientStream::take(&mut request);
        let wants_websocket = self.prepare(&mut request, &origin, may_switch);
        // Boxed, so that a denial does not pay for the room that forwarding needs.
        let received = Box::pin(self.receive(permit, request, exchange)).await;
        let (response, passing, mut exchange) = received?;
        if let Some(client_stream) = &client_stream
            && !client_stream.fits(&response)
        {
            return Err(exchange.refuse(Refusal::Handshake));
        }
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return match (client_stream, switching) {
                (Some(client_stream), Some(switching))
                    if wants_websocket && is_websocket(response.headers()) =>
                {
                    match exchange.answer(status, None).keep(None).await {
                        Ok(exchange) => {
                            Ok(self.switch(*response, client_stream, exchange, switching))
                        }
                        Err(exchange) => Err(exchange.refuse(Refusal::Decided)),
                    }
                }
                _ => Err(exchange.refuse(Refusal::Upgrade)),
            };
        }
        if !fields::is_framed_plainly(response.headers()) {
            let failure = match response.version() {
                Version::HTTP_2 => Failure::Http2,
                _ => Failure::Protocol,
            };
            return Err(exchange.refuse(Refusal::Upstream(failure)));
        }
        let Some(release) = exchange.judge_response(&response) else {
            response.into_body().discard();
            return Err(exchange.refuse(Refusal::Decided));
        };
        let refusal = ftp_refusal(&response, &exchange);
        let error = refusal.as_ref().and_then(ftp::status::Refusal::error_type);
        match exchange.answer(status, error).keep(None).await {
            Ok(exchange) => Ok(self.pass(response, exchange, passing, (release, refusal))),
            Err(exchange) => {
                response.into_body().discard();
                Err(exchange.refuse(Refusal::Decided))
            }
        }
    }

    /// Reads the target of a request that may be forwarded, and its transfer type over FTP.
    ///
    /// # Errors
    /// When the target cannot be judged, or nothing may be asked of it.
    async fn read_target(
        &self,
        request: &Request<CrawlerBody>,
        mut exchange: Exchange<Admitted>,
    ) -> Result<(Target, Option<TransferType>, Exchange<Admitted>), Refused> {
        let proxy = self.proxy();
        if *request.method() == Method::TRACE {
            return Err(exchange.bad(Refusal::Trace));
        }
        if proxy.name.has_signed(request.headers()) {
            return Err(exchange.bad(Refusal::Loop));
        }
        let takes_ftp = exchange.settings().upstream.ftp;
        let read = target::read(request.uri(), request.headers(), &self.scope, takes_ftp);
        let (target, transfer_type) = match read {
            Ok(read) => read,
            Err(unreadable) => return Err(exchange.unread(unreadable)),
        };
        exchange.set_origin(target.origin.clone());
        if target.origin.scheme() == Scheme::Ftp
            && let Err(unforwardable) = check_ftp(request)
        {
            return Err(exchange.bad(Refusal::Ftp(unforwardable)));
        }
        // The CONNECT was let through, so that the refusal comes inside, where the client shows it.
        if let Scope::Inside { .. } = self.scope
            && proxy.egress.check_connect(&target.origin).is_err()
            // Boxed: few requests ask for such ports.
            && let Err(prohibited) = Box::pin(proxy.egress.check_inside(&target.origin)).await
        {
            return Err(exchange.prohibited(prohibited));
        }
        Ok((target, transfer_type, exchange))
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
        self.proxy().name.sign(request.headers_mut(), version);
        if let Some(via) = &self.downstream.via {
            request.extensions_mut().insert(via.clone());
        }
        wants_websocket
    }

    /// Sends the request and waits for the head of the origin's response.
    ///
    /// # Errors
    /// When no response came.
    async fn receive(
        &self,
        permit: Permit,
        request: Box<Request<CrawlerBody>>,
        exchange: Exchange<Decided>,
    ) -> Result<(Box<Response<ResponseBody>>, Passing, Exchange<Sent>), Refused> {
        let version = request.version();
        let (mut exchange, now) = exchange.send();
        let received = upstream::send(self, permit, request, (&mut exchange, now)).await;
        let Received { head, continue_signal, mut timer } = match received {
            Ok(received) => received,
            Err(Unanswered::Failed(failure)) => {
                exchange.observe::<()>(Err(&failure));
                return Err(exchange.unsent(failure));
            }
            Err(Unanswered::Denied) => return Err(exchange.refuse(Refusal::Decided)),
        };
        let response = head.response;
        exchange.observe(Ok((&response, head.was_crowded)));
        let is_ftp = exchange.origin().map(Origin::scheme) == Some(Scheme::Ftp);
        exchange.received(head.peer, (!is_ftp).then(|| response.version()));
        let timeouts = &exchange.settings().upstream;
        let silence = timeouts.body_timeout;
        if silence < timeouts.response_timeout {
            timer.restart(silence);
        }
        let length = response.body().size_hint().exact();
        let passing = Passing {
            continue_signal,
            timer,
            patience: silence,
            is_open_ended: version == Version::HTTP_10 && length.is_none(),
        };
        Ok((response, passing, exchange))
    }

    /// Passes the origin's answer on to the crawler, or what an FTP server has refused.
    fn pass(
        &self,
        mut response: Box<Response<ResponseBody>>,
        exchange: Exchange<Answered>,
        passing: Passing,
        (release, refusal): (Release, Option<ftp::status::Refusal>),
    ) -> Response<Answer> {
        let version = response.version();
        fields::to_crawler(response.headers_mut());
        if matches!(self.scope, Scope::Plain) && offers_login(response.headers()) {
            fields::support_logins(response.headers_mut());
        }
        let is_last = response.extensions_mut().remove::<EndsLogin>().is_some();
        if let Some(refusal) = refusal {
            respond::add_ftp_reply(response.headers_mut(), &refusal);
        }
        if exchange.settings().robots.signals.stamp {
            let (decision, id) = (exchange.decision(), exchange.id());
            fields::own::stamp(response.headers_mut(), decision, id);
        }
        self.proxy().name.sign(response.headers_mut(), version);
        *response.version_mut() = Version::HTTP_11;
        // The response's extensions stay: the spelling of its names and its reason phrase.
        let answer =
            response.map(|incoming| Answer::forwarded(incoming, release, exchange, passing));
        last_if(is_last, answer)
    }

    /// Relays octets both ways from now on. The record is written when both sides have finished.
    fn switch(
        &self,
        response: Response<ResponseBody>,
        client_stream: OnClientStream,
        mut exchange: Exchange<Answered>,
        switching: Switching,
    ) -> Response<Answer> {
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = switching_fields(response.headers());
        self.proxy().name.sign(answer.headers_mut(), response.version());
        let downstream = self.downstream.clone();
        self.proxy().spawn(async move {
            let both = tokio::join!(client_stream.ready(&downstream.slot), switched(response));
            let (Ok(client_stream), Ok(upstream)) = both else {
                exchange.leave();
                return;
            };
            switching.relay(&downstream, client_stream, upstream, exchange).await;
            drop(downstream);
        });
        answer.map(|()| Answer::empty())
    }
}

/// Returns what an FTP server has refused.
fn ftp_refusal(
    response: &Response<ResponseBody>,
    exchange: &Exchange<Sent>,
) -> Option<ftp::status::Refusal> {
    match exchange.origin().map(Origin::scheme) {
        Some(Scheme::Ftp) => response.extensions().get().cloned(),
        _ => None,
    }
}

/// Checks that a request for an `ftp` URL only reads.
fn check_ftp(request: &Request<CrawlerBody>) -> Result<(), Unforwardable> {
    match *request.method() {
        Method::GET | Method::HEAD if request.body().is_end_stream() => Ok(()),
        Method::GET | Method::HEAD => Err(Unforwardable::Body),
        _ => Err(Unforwardable::Method),
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
