//! The same question without a request: another proxy asks what may go out, and sends it itself.
//!
//! It takes the way that a request takes, through the same gate, and leaves through the same exit: a denial that another
//! proxy acts on is a denial, and is kept as one (`via` is `decide`). Nothing is said before it is recorded as surely as
//! the settings want it. What cannot be read or judged is never advised.
//!
//! A question under way is waited for like an exchange when the proxy stops, and one that comes later is not taken: an
//! answer that nobody could record any more is not given.
//!
//! What crawlgate cannot see, it does not vouch for: that the other proxy asks about what it sends, octet for octet,
//! and about all of it; and where it dials.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};

use super::Proxy;
use super::exchange::unread;
use super::ledger::{Charge, Ledger, Opening};
use super::respond::{self, Asked, Audience, Refusal};
use super::target::{self, Scope, Unreadable};
use crate::audit::json::Object;
use crate::client::Client;
use crate::gate::{Kind, Meantime, Pacing, Questioner};
use crate::policy::{Decision, Reason, Target};
use crate::rep::{Origin, Scheme};

const VERDICT: HeaderName = HeaderName::from_static("x-crawlgate-verdict");
const REASON: HeaderName = HeaderName::from_static("x-crawlgate-reason");
const DECISION: HeaderName = HeaderName::from_static("x-crawlgate-decision");

/// What another proxy wants to know.
#[derive(Debug)]
pub struct Question<'a> {
    /// Who asks.
    pub address: SocketAddr,
    /// For whom.
    pub client: Arc<Client>,
    /// The method of the request that would go out. It decides nothing, but that CONNECT opens a tunnel, whatever its
    /// target looks like.
    pub method: Method,
    /// What it would ask for.
    pub subject: Subject,
    /// The crawler's identification: its User-Agent fields, as far as they are known. Others are not looked at.
    pub headers: &'a HeaderMap,
    /// Whether a turn of the origin's pace is taken.
    pub pacing: Pacing,
    /// How it is answered.
    pub manner: Manner,
}

/// What may go out or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A request for this URL, in absolute-form (RFC 9112 3.2.2), octet for octet as it would be sent.
    Url(Vec<u8>),
    /// A tunnel that nobody will look into, to `host:port` (RFC 9112 3.2.3) or to the origin of a URL.
    Tunnel(Vec<u8>),
}

/// How a question is answered.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Without a body.
    pub is_head: bool,
    /// With no status but 200 and 403.
    pub only_forbids: bool,
}

/// The proxy stops and answers no more questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping;

impl Proxy {
    /// Answers a question: 200 where it may go out, and else the status that the crawler would have been answered.
    ///
    /// # Errors
    /// The proxy stops: nothing is decided any more, or what was decided is not told.
    pub async fn advise(
        self: &Arc<Self>,
        question: Question<'_>,
    ) -> Result<Response<Bytes>, Stopping> {
        // Before looking: `drain` waits for everybody who has not seen it stop.
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

    async fn answer(self: &Arc<Self>, question: Question<'_>) -> Response<Bytes> {
        let Question {
            address,
            client,
            method,
            subject,
            headers,
            pacing,
            manner,
        } = question;
        let subject = match subject {
            Subject::Url(url) if method == Method::CONNECT => Subject::Tunnel(url),
            subject => subject,
        };
        let opening = Opening {
            address,
            client: &client,
            scope: &Scope::Plain,
            method,
            uri: Uri::default(),
        };
        let mut ledger = Ledger::open(self, &Arc::default(), opening);
        ledger.enter_question(subject.octets());
        // What another proxy sends, it counts itself, unless it asks for a turn.
        ledger.account = Charge::Entered;
        ledger.agent = self.gate.identify(&ledger.client, headers);
        ledger.enter_user_agent(headers);
        let settings = self.settings.load_full();
        let asked = Asked {
            is_head: manner.is_head,
            ends_connection: false,
            wants_text: false,
            unreachable_status: settings.robots.unreachable_status,
            audience: match manner.only_forbids {
                true => Audience::Subrequest,
                false => Audience::Asker,
            },
        };
        let (kind, target) = match subject.read(settings.limits.uri_bytes) {
            Ok(read) => read,
            Err(unreadable) => {
                let (refusal, ledger) = unread(unreadable, ledger);
                return self.tell(&refusal, ledger, asked).await;
            }
        };
        ledger.origin = Some(target.origin.clone());
        if self.is_ambiguous(&ledger) {
            ledger.decision = Decision::bare(Reason::BadRequest, ledger.time);
            return self.tell(&Refusal::Agents, ledger, asked).await;
        }
        if kind == Kind::Tunnel
            && let Err(wall) = self.egress.judge_connect(&target.origin)
        {
            ledger.decision = Decision::walled(wall, ledger.time);
            return self.tell(&Refusal::Decided, ledger, asked).await;
        }
        let asker = Questioner {
            address: address.ip(),
            client: &client,
            headers,
        };
        ledger.hold = None;
        let meantime = Meantime {
            decision: &mut ledger.decision,
            pace: &mut ledger.pace,
        };
        let advised = self
            .gate
            .advise(kind, target, &asker, ledger.time, pacing, meantime)
            .await;
        ledger.opaque = kind == Kind::Tunnel;
        ledger.hold = Some(advised.hold);
        ledger.pace = advised.pace;
        (ledger.client, ledger.agent) = (advised.client, advised.agent);
        ledger.decision = advised.decision;
        self.tell(&Refusal::Decided, ledger, asked).await
    }

    /// Records what was decided, and says it.
    async fn tell(
        &self,
        refusal: &Refusal,
        mut ledger: Box<Ledger>,
        asked: Asked,
    ) -> Response<Bytes> {
        let now = self.clock.now();
        let mut response = match ledger.decision.lets_out() {
            true => consent(&mut ledger, asked),
            false => respond::refuse(refusal, &mut ledger, asked, now),
        };
        let must_be_kept = self.must_be_kept_first(&ledger.decision);
        ledger.settle(response.body().len() as u64);
        let is_lost = self.log.is_closed()
            || must_be_kept && self.log.flush().await.is_err() && self.denies_unrecorded();
        if is_lost {
            // What was decided is not known to be kept, so it is not told.
            ledger.decision = Decision::bare(Reason::LogFailed, now);
            response = respond::refuse(&Refusal::Decided, &mut ledger, asked, now);
        }
        sign(response.headers_mut(), &ledger);
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
        // `Uri` would leave a fragment out, and the other proxy might not: RFC 9112 3.2 knows none.
        if octets.len() > longest || memchr::memchr(b'#', octets).is_some() {
            return Err(Unreadable::Malformed);
        }
        let uri = Uri::try_from(octets).map_err(|_| Unreadable::Malformed)?;
        match self {
            Subject::Url(_) => {
                let target = target::read(&uri, &HeaderMap::new(), &Scope::Plain)?;
                Ok((Kind::Request, target))
            }
            Subject::Tunnel(_) => {
                let origin = match uri.scheme() {
                    Some(_) => target::read(&uri, &HeaderMap::new(), &Scope::Plain)?.origin,
                    None => target::read_connect(&uri)?,
                };
                // What is inside is not seen: it counts as HTTPS, as in a tunnel of our own.
                let origin = Origin::new(Scheme::Https, origin.host(), Some(origin.port()))
                    .map_err(|_| Unreadable::Malformed)?;
                let path = PathAndQuery::from_static("/");
                Ok((Kind::Tunnel, Target { origin, path }))
            }
        }
    }
}

/// The answer that lets a request go out.
fn consent(ledger: &mut Ledger, asked: Asked) -> Response<Bytes> {
    let mut body = Vec::with_capacity(512);
    let mut answer = Object::open(&mut body);
    respond::Facts::of(ledger, true).write(&mut answer, asked.audience);
    answer.close();
    body.push(b'\n');
    ledger.answered(StatusCode::OK.as_u16(), None);
    let length = body.len();
    let mut response = Response::new(match asked.is_head {
        true => Bytes::new(),
        false => body.into(),
    });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The decision in header fields, for proxies that read no body.
fn sign(headers: &mut HeaderMap, ledger: &Ledger) {
    let decision = &ledger.decision;
    headers.insert(
        VERDICT,
        HeaderValue::from_static(decision.verdict().as_str()),
    );
    headers.insert(REASON, HeaderValue::from_static(decision.reason.as_str()));
    if let Ok(id) = HeaderValue::from_bytes(&ledger.id.text()) {
        headers.insert(DECISION, id);
    }
}
