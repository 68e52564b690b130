//! External authorization: another proxy asks whether a request may go out, and sends it itself.
//!
//! A question takes the way of a request, through the same gate and the same exit: a denial that another proxy acts on
//! is recorded like any other (`via` is `decide`). No answer is given before it is recorded as surely as the settings
//! demand. A request that cannot be read or judged is never approved.
//!
//! When the proxy stops, a question under way is waited for like an exchange, and a later one is refused: its answer
//! could not be recorded any more.
//!
//! crawlgate does not vouch for facts that it cannot see: that the other proxy asks about the octets that it sends, and
//! about all of them; and the address that it dials.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};

use super::Proxy;
use super::clearing::Sender;
use super::recorder::{Admitted, Answered, Decided, Exchange, Opening, Recorder};
use super::refused::Refused;
pub use super::respond::Audience;
use super::respond::{self, Refusal, RequestTraits};
use super::target::{self, Scope, Unreadable};
use crawlgate_gate::{Kind, Pacing};
use crawlgate_policy::{Decision, Target};
use crawlgate_robots::{Origin, Scheme};
use crawlgate_text::json::Object;
use crawlgate_turns::client::{AuthError, Client};

/// The field with the verdict.
pub const VERDICT: HeaderName = HeaderName::from_static("x-crawlgate-verdict");
/// The field with the code of the reason.
pub const REASON: HeaderName = HeaderName::from_static("x-crawlgate-reason");
/// The field with the identifier of the decision.
pub const DECISION: HeaderName = HeaderName::from_static("x-crawlgate-decision");

/// A question of another proxy.
#[derive(Debug)]
pub struct DecideRequest<'a> {
    /// Address that the question came from.
    pub address: SocketAddr,
    /// The client that the request belongs to.
    pub client: Arc<Client>,
    /// The method of the request in question. Only CONNECT matters: it opens a tunnel, whatever its target looks like.
    pub method: Method,
    /// The target in question.
    pub subject: Subject,
    /// The crawler's User-Agent fields, as far as they are known. Other fields are ignored.
    pub headers: &'a HeaderMap,
    /// Pacing: with a turn at the origin, or without.
    pub pacing: Pacing,
    /// The form of the answer.
    pub manner: AnswerFormat,
}

/// The traffic that a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A request for this URL, in absolute-form (RFC 9112 3.2.2), octet for octet as it would be sent.
    Url(Vec<u8>),
    /// A tunnel that is not intercepted, to `host:port` (RFC 9112 3.2.3) or to the origin of a URL.
    Tunnel(Vec<u8>),
}

/// Form of the answer to a question.
#[derive(Debug, Clone, Copy)]
pub struct AnswerFormat {
    /// True for an answer without a body.
    pub is_head: bool,
    /// The program that reads the answer.
    pub audience: Audience,
}

/// The proxy stops and answers no more questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping;

impl Proxy {
    /// Answers a question: 200 if the request may go out, else the status that the crawler would have been answered.
    ///
    /// # Errors
    /// The proxy stops: it decides nothing any more, or does not disclose its decision.
    pub async fn decide(
        self: &Arc<Self>,
        question: DecideRequest<'_>,
    ) -> Result<Response<Bytes>, Stopping> {
        // Taken first: `drain` waits for every question that has not seen the proxy stop.
        let _under_way = self.tasks.token();
        if self.is_stopping() {
            return Err(Stopping);
        }
        tokio::select! {
            biased;
            () = self.cut.cancelled() => Err(Stopping),
            answer = self.answer(question) => Ok(answer),
        }
    }

    async fn answer(self: &Arc<Self>, question: DecideRequest<'_>) -> Response<Bytes> {
        let DecideRequest { address, client, method, subject, headers, pacing, manner } = question;
        let subject = match subject {
            Subject::Url(url) if method == Method::CONNECT => Subject::Tunnel(url),
            subject => subject,
        };
        let opening = Opening {
            address,
            client: &client,
            scope: &Scope::Plain,
            method,
            version: None,
            uri: Uri::default(),
        };
        let mut opened = Exchange::open(self, &Arc::default(), opening);
        opened.enter_question(subject.octets());
        opened.enter_user_agent(headers);
        let agent = self.gate.identify(&client, headers);
        let exchange = opened.admit(agent, None);
        let traits = RequestTraits {
            is_head: manner.is_head,
            ends_connection: false,
            wants_text: false,
            audience: manner.audience,
        };
        let judged = self.judge_question(subject, pacing, exchange).await;
        self.tell(judged, traits).await
    }

    /// Judges a request that another proxy sends. A denial by the gate is refused like a request that cannot be judged.
    async fn judge_question(
        &self,
        subject: Subject,
        pacing: Pacing,
        mut exchange: Exchange<Admitted>,
    ) -> Refused {
        let read = subject.read(exchange.settings().limits.uri_bytes);
        let (kind, target) = match read {
            Ok(read) => read,
            Err(unreadable) => return exchange.unread(unreadable),
        };
        exchange.set_origin(target.origin.clone());
        if exchange.is_ambiguous() {
            return exchange.bad(Refusal::Agents);
        }
        if kind == Kind::Tunnel
            && let Err(prohibited) = self.egress.check_connect(&target.origin)
        {
            return exchange.prohibited(prohibited);
        }
        let identify = |recorder: &mut Recorder| {
            recorder.renew();
            let client = self.gate.clients().standing(recorder.client());
            let client = client.ok_or(AuthError::UnknownClient)?;
            let agent = self.gate.identify(&client, &recorder.user_agents());
            recorder.identify(client, agent);
            Ok(())
        };
        let sender = Sender::AnotherProxy(pacing);
        let (permit, judged) =
            self.gate_and_record(kind, target, sender, exchange.gated(), identify).await;
        let mut exchange = exchange.decided(judged);
        // The turn was waited for and taken; nothing goes out here.
        exchange.give_up_turn();
        if kind == Kind::Tunnel {
            exchange.set_opaque();
        }
        // The address policy is enforced when dialling. A decision that fetched no robots.txt dialled nothing, so check
        // here.
        if let Some(permit) = permit
            && exchange.decision().basis.is_none()
            && let Err(prohibited) = self.egress.resolve_and_check(&permit.target().origin).await
        {
            let at = exchange.decision().at;
            return exchange.deny(Decision::prohibited(prohibited, at));
        }
        exchange.refuse(Refusal::Decided)
    }

    /// Records the decision, and answers.
    async fn tell(&self, judged: Refused, traits: RequestTraits) -> Response<Bytes> {
        let now = self.clock.now();
        let Refused { refusal, exchange } = judged;
        let told = if exchange.decision().lets_out() {
            allow_response(exchange, traits)
        } else {
            respond::refuse(&refusal, exchange, traits, now)
        };
        let (mut response, exchange) = respond::keep(told, traits, now).await;
        sign(response.headers_mut(), &exchange);
        response
    }
}

impl Subject {
    fn octets(&self) -> &[u8] {
        match self {
            Subject::Url(octets) | Subject::Tunnel(octets) => octets,
        }
    }

    fn read(self, longest: usize) -> Result<(Kind, Target), Unreadable> {
        let octets = self.octets();
        // `Uri` would leave a fragment out, and the other proxy might not: RFC 9112 3.2 allows none.
        if octets.len() > longest || memchr::memchr(b'#', octets).is_some() {
            return Err(Unreadable::Malformed);
        }
        let uri = Uri::try_from(octets).map_err(|_| Unreadable::Malformed)?;
        match self {
            Subject::Url(_) => {
                // Another proxy may make another path of an `ftp` URL than we do: such questions are refused.
                let (target, _) = target::read(&uri, &HeaderMap::new(), &Scope::Plain, false)?;
                Ok((Kind::Request, target))
            }
            Subject::Tunnel(_) => {
                let origin = match uri.scheme() {
                    Some(_) => {
                        let read = target::read(&uri, &HeaderMap::new(), &Scope::Plain, false);
                        read?.0.origin
                    }
                    None => target::read_connect(&uri)?,
                };
                // Requests inside are not seen: the tunnel counts as HTTPS, like one of our own.
                let origin = Origin::new(Scheme::Https, origin.host(), Some(origin.port()))
                    .map_err(|_| Unreadable::Malformed)?;
                let path = PathAndQuery::from_static("/");
                Ok((Kind::Tunnel, Target { origin, path }))
            }
        }
    }
}

/// Builds the answer that lets a request go out.
fn allow_response(
    exchange: Exchange<Decided>,
    traits: RequestTraits,
) -> (Response<Bytes>, Exchange<Answered>) {
    let mut body = Vec::with_capacity(512);
    let mut answer = Object::open(&mut body);
    respond::Facts::of(&exchange, true, None).write(&mut answer, traits.audience);
    answer.close();
    body.push(b'\n');
    let length = body.len();
    let mut response = Response::new(if traits.is_head { Bytes::new() } else { body.into() });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (response, exchange.answer(StatusCode::OK, None))
}

/// Adds the decision in header fields, for proxies that read no body.
fn sign(headers: &mut HeaderMap, recorder: &Recorder) {
    let decision = recorder.decision();
    headers.insert(VERDICT, HeaderValue::from_static(decision.verdict().as_str()));
    headers.insert(REASON, HeaderValue::from_static(decision.reason.as_str()));
    if let Ok(id) = HeaderValue::from_bytes(&recorder.id().text()) {
        headers.insert(DECISION, id);
    }
}
