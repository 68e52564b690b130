//! Forwarding: a request that the gate lets out goes to its origin, and the origin's answer to the crawler.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;

use super::body::{Answer, Passing};
use super::client_stream::OnClientStream;
use super::connect::Switching;
use super::crawler_body::CrawlerBody;
use super::downstream::Connection;
use super::exchange::BodyFraming;
use super::recorder::ExchangeRecorder;
use super::refused::{RefusedExchange, bad, last, unread, unsent};
use super::respond::{self, Refusal, Unforwardable};
use super::stall::StallLimit;
use super::target::{self, Scope};
use super::upstream::{self, Received, Unanswered, UpstreamTimeouts};
use super::{fields, self_test};
use crawlgate_egress::{EndsLogin, Failure, ResponseBody, offers_login, switched};
use crawlgate_ftp as ftp;
use crawlgate_gate::Kind;
use crawlgate_policy::usage::Release;
use crawlgate_policy::{Permit, Reason, Target};
use crawlgate_robots::{Origin, Scheme, TransferType};

impl Connection {
    /// Answers any other request: asks the gate, and passes on what the origin answers.
    pub(super) async fn forward(
        &self,
        mut request: Box<Request<CrawlerBody>>,
        mut recorder: Box<ExchangeRecorder>,
        may_switch: bool,
    ) -> Result<Response<Answer>, RefusedExchange> {
        let (target, transfer_type) = match self.read_target(&request, &mut recorder).await {
            Ok(read) => read,
            Err(refusal) => return Err((refusal, recorder)),
        };
        let origin = target.origin.clone();
        if let Some(transfer_type) = transfer_type {
            request.extensions_mut().insert(transfer_type);
        }
        if self_test::is_self_test(&origin) {
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
        if *request.method() == Method::OPTIONS && !fields::count_forward(request.headers_mut()) {
            let is_last = BodyFraming::of(&request).ends_connection(recorder.state());
            let answer = respond::as_last_recipient(recorder);
            return Ok(if is_last { last(answer) } else { answer });
        }
        let client_stream = OnClientStream::take(&mut request);
        let wants_websocket = self.prepare(&mut request, &origin, may_switch);
        // Boxed, so that a denial does not pay for the room that forwarding needs.
        let received = Box::pin(self.receive(permit, request, &mut recorder)).await;
        let (response, passing) = match received {
            Ok(received) => received,
            Err(refusal) => return Err((refusal, recorder)),
        };
        if let Some(client_stream) = &client_stream
            && !client_stream.fits(&response)
        {
            return Err((Refusal::Handshake, recorder));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return match (client_stream, switching) {
                (Some(client_stream), Some(switching))
                    if wants_websocket && is_websocket(response.headers()) =>
                {
                    recorder.response_started(response.status().as_u16(), None);
                    if !self.is_kept(&mut recorder).await {
                        return Err((Refusal::Decided, recorder));
                    }
                    Ok(self.switch(*response, client_stream, recorder, switching))
                }
                _ => Err((Refusal::Upgrade, recorder)),
            };
        }
        if !fields::is_framed_plainly(response.headers()) {
            let failure = match response.version() {
                Version::HTTP_2 => Failure::Http2,
                _ => Failure::Protocol,
            };
            return Err((Refusal::Upstream(failure), recorder));
        }
        let Some(release) = recorder.judge_response(&response) else {
            response.into_body().discard();
            return Err((Refusal::Decided, recorder));
        };
        let refusal = ftp_refusal(&response, &recorder);
        let error = refusal.as_ref().and_then(ftp::status::Refusal::error_type);
        recorder.response_started(response.status().as_u16(), error);
        match self.is_kept(&mut recorder).await {
            true => Ok(self.pass(response, recorder, passing, (release, refusal))),
            false => {
                response.into_body().discard();
                Err((Refusal::Decided, recorder))
            }
        }
    }

    /// Waits until the record of an exempted request is on disk, where durability asks for that. False if it cannot be
    /// kept, and the crawler must not get the answer: the recorder has the decision then.
    async fn is_kept(&self, recorder: &mut ExchangeRecorder) -> bool {
        let proxy = &self.downstream.proxy;
        if !proxy.needs_durable_record(recorder.decision()) {
            return true;
        }
        let has_room = recorder.record_now(0);
        // Boxed: a wait for the disk should not burden every request's future.
        if Box::pin(proxy.may_answer(has_room)).await {
            return true;
        }
        if has_room {
            recorder.answered_log_failed();
        }
        recorder.decide_by(Reason::LogFailed);
        false
    }

    /// Reads the target of a request that may be forwarded, and its transfer type over FTP.
    ///
    /// # Errors
    /// The refusal; the recorder has the decision.
    async fn read_target(
        &self,
        request: &Request<CrawlerBody>,
        recorder: &mut ExchangeRecorder,
    ) -> Result<(Target, Option<TransferType>), Refusal> {
        let proxy = &self.downstream.proxy;
        if *request.method() == Method::TRACE {
            return Err(bad(Refusal::Trace, recorder));
        }
        if proxy.name.has_signed(request.headers()) {
            return Err(bad(Refusal::Loop, recorder));
        }
        let takes_ftp = proxy.settings.load().upstream.ftp;
        let (target, transfer_type) =
            target::read(request.uri(), request.headers(), &self.scope, takes_ftp)
                .map_err(|unreadable| unread(unreadable, recorder))?;
        recorder.set_origin(target.origin.clone());
        if target.origin.scheme() == Scheme::Ftp {
            check_ftp(request).map_err(|refusal| bad(refusal, recorder))?;
        }
        // The CONNECT was let through, so that the refusal comes inside, where the client shows it.
        if let Scope::Inside { .. } = self.scope
            && proxy.egress.check_connect(&target.origin).is_err()
            // Boxed: few requests ask for such ports.
            && let Err(prohibited) = Box::pin(proxy.egress.check_inside(&target.origin)).await
        {
            return Err(unsent(Failure::Prohibited(prohibited), recorder));
        }
        Ok((target, transfer_type))
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
        if let Some(via) = &self.downstream.via {
            request.extensions_mut().insert(via.clone());
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
        request: Box<Request<CrawlerBody>>,
        recorder: &mut ExchangeRecorder,
    ) -> Result<(Box<Response<ResponseBody>>, Passing), Refusal> {
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
            ..
        } = match received {
            Ok(received) => {
                recorder.observe(Ok((&received.response, received.was_crowded)));
                received
            }
            Err(Unanswered::Failed(failure)) => {
                recorder.observe::<()>(Err(&failure));
                return Err(unsent(failure, recorder));
            }
            Err(Unanswered::Denied) => return Err(Refusal::Decided),
        };
        recorder.set_upstream(Some(peer));
        if recorder.origin().map(Origin::scheme) != Some(Scheme::Ftp) {
            recorder.set_upstream_version(response.version());
        }
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

    /// Passes the origin's answer on to the crawler, or what an FTP server has refused.
    fn pass(
        &self,
        mut response: Box<Response<ResponseBody>>,
        recorder: Box<ExchangeRecorder>,
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
        if self.downstream.proxy.settings.load().robots.signals.stamp {
            let (decision, id) = (recorder.decision(), recorder.id());
            fields::usage::stamp(response.headers_mut(), decision, id);
        }
        self.downstream
            .proxy
            .name
            .sign(response.headers_mut(), version);
        *response.version_mut() = Version::HTTP_11;
        // The response's extensions stay: the spelling of its names and its reason phrase.
        let answer =
            response.map(|incoming| Answer::forwarded(incoming, release, recorder, passing));
        if is_last { last(answer) } else { answer }
    }

    /// Relays octets both ways from now on. The record is written when both sides have finished.
    fn switch(
        &self,
        response: Response<ResponseBody>,
        client_stream: OnClientStream,
        mut recorder: Box<ExchangeRecorder>,
        switching: Switching,
    ) -> Response<Answer> {
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = switching_fields(response.headers());
        self.downstream
            .proxy
            .name
            .sign(answer.headers_mut(), response.version());
        let downstream = self.downstream.clone();
        self.downstream.proxy.spawn(async move {
            let both = tokio::join!(client_stream.ready(&downstream.slot), switched(response));
            let (Ok(client_stream), Ok(upstream)) = both else {
                recorder.client_closed();
                return;
            };
            switching
                .relay(&downstream, client_stream, upstream, recorder)
                .await;
            drop(downstream);
        });
        answer.map(|()| Answer::empty())
    }
}

/// Returns what an FTP server has refused.
fn ftp_refusal(
    response: &Response<ResponseBody>,
    recorder: &ExchangeRecorder,
) -> Option<ftp::status::Refusal> {
    match recorder.origin().map(Origin::scheme) {
        Some(Scheme::Ftp) => response.extensions().get().cloned(),
        _ => None,
    }
}

/// Checks that a request for an `ftp` URL only reads.
fn check_ftp(request: &Request<CrawlerBody>) -> Result<(), Refusal> {
    match *request.method() {
        Method::GET | Method::HEAD if request.body().is_end_stream() => Ok(()),
        Method::GET | Method::HEAD => Err(Refusal::Ftp(Unforwardable::Body)),
        _ => Err(Refusal::Ftp(Unforwardable::Method)),
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
