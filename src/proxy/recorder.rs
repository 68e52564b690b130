//! The exchange's one exit: each exchange is recorded once, when it ends, whatever happens to it.
//!
//! A [`ExchangeRecorder`] opens with the exchange and travels with it: into the response's body, into an upgraded connection.
//! Dropping it writes the record, so an error, a crawler that hangs up and a cancelled task all leave the same kind of
//! line. Until a decision is made the record says so. A record that must be on disk before its answer leaves is
//! [settled](ExchangeRecorder::record_now) earlier.

mod record;
mod url;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Method, Response, Uri, Version};

use self::url::Url;
use super::Proxy;
use super::exchange_state::ExchangeState;
use super::limits::RequestSlot;
use super::target::Scope;
use crate::agent::Agent;
use crate::audit::DecisionId;
use crate::cache::fetch::retry_after;
use crate::client::Client;
use crate::client::account::ClientAccount;
use crate::clock::{Moment, Tick};
use crate::egress::Failure;
use crate::metrics::GaugeGuard;
use crate::pace;
use crate::policy::generation::Generation;
use crate::policy::{Decision, Reason};
use crate::rep::Origin;
use crate::telemetry::trace::Trace;

/// Facts known about an exchange so far.
pub struct ExchangeRecorder {
    proxy: Arc<Proxy>,
    state: Arc<ExchangeState>,
    /// The decision's identifier.
    pub id: DecisionId,
    /// Start of the exchange.
    pub time: Moment,
    /// The same start, to measure from.
    began: Tick,
    /// The exchange's trace, if exchanges are traced.
    trace: Option<Box<Trace>>,
    address: SocketAddr,
    /// Generation read before the client was found, so that it is never newer than the client.
    pub generation: Generation,
    /// The client of the request.
    pub client: Arc<Client>,
    via: &'static str,
    /// True if the exchange is a tunnel that is not intercepted.
    pub opaque: bool,
    method: Method,
    version: Option<&'static str>,
    url: Url,
    /// The origin, once the target was read.
    pub origin: Option<Origin>,
    /// The crawler, as it is judged.
    pub agent: Arc<Agent>,
    /// The request's User-Agent.
    pub user_agent: Option<HeaderValue>,
    /// Further User-Agent fields; most requests have none.
    pub more_user_agents: Vec<HeaderValue>,
    /// The decision, once it is made.
    pub decision: Decision,
    /// The exchange's request slot; `None` while nothing is asked for.
    pub request_slot: Option<RequestSlot>,
    /// Time that the request was held; `None` while it is held.
    pub hold: Option<Duration>,
    /// The request's turn at its origin while it is under way; `None` if it takes none.
    pub turn: Option<pace::Turn>,
    /// True if the request was already sent once under this turn.
    pub was_sent: bool,
    /// The client usage that counted the request, if its client has bounds.
    pub charged: Option<Arc<ClientAccount>>,
    /// The pace limit that held or refused the request, or a crawl delay that was clamped.
    pub pace: Option<pace::EffectivePace>,
    /// Time that the request waited for anything, measured more finely.
    pub waited: Duration,
    /// Address that the request was sent to.
    pub upstream: Option<SocketAddr>,
    /// Status of the answer to the crawler.
    pub status: Option<u16>,
    /// Octets of the request's body so far; `None` if it has no body.
    pub bytes_in: Option<Arc<AtomicU64>>,
    /// Octets of the response's body so far.
    pub bytes_out: u64,
    /// The error, as a Proxy-Status error type.
    error: Option<&'static str>,
    /// State of the charge to the client.
    pub account: Charge,
    stage: Stage,
}

/// State of a request's charge to its client. The gate charges the requests that it judges; those refused earlier are
/// charged here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// Not charged yet.
    Due,
    /// Charged, or not to be charged.
    Entered,
}

/// Progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is asked for yet, as in a tunnel without an octet. Leaves no record.
    Silent,
    /// Asked, not answered.
    Asked,
    /// The head of the answer is on its way.
    Answered,
    /// The crawler disconnected or broke off.
    Left,
    /// Recorded already; later events change nothing.
    Settled,
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
            Method::CONNECT => "tunnel",
            _ => opening.scope.name(),
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
            opaque: false,
            method: opening.method,
            version: opening.version.map(|version| proxy.counts.came_by(version)),
            url,
            origin: match opening.scope {
                Scope::Inside { origin, .. } => Some(origin.clone()),
                Scope::Plain => None,
            },
            agent: Arc::default(),
            user_agent: None,
            more_user_agents: Vec::new(),
            decision: Decision::bare(Reason::RobotsPending, time),
            request_slot: None,
            hold: Some(Duration::ZERO),
            turn: None,
            was_sent: false,
            charged: None,
            pace: None,
            waited: Duration::ZERO,
            upstream: None,
            status: None,
            bytes_in: None,
            bytes_out: 0,
            error: None,
            account: Charge::Due,
            stage: Stage::Asked,
        })
    }

    /// Returns the state that the exchange shares with the stream that carries it.
    pub fn state(&self) -> &Arc<ExchangeState> {
        &self.state
    }

    /// Enters a request that could not be read, by its first octets. Octets that do not begin like a request line may
    /// be anything, a field with a password or the rest of a body, so none of them are kept.
    pub fn enter_excerpt(&mut self, excerpt: Box<[u8]>) {
        let line_end = memchr::memchr2(b'\r', b'\n', &excerpt).unwrap_or(excerpt.len());
        let line = excerpt.get(..line_end).unwrap_or(&excerpt);
        let mut words = line.split(|byte| *byte == b' ');
        let method = words.next().and_then(|word| Method::from_bytes(word).ok());
        let target = words.next().unwrap_or_default();
        let is_target = target.starts_with(b"/")
            || memchr::memmem::find(target, b"://").is_some()
            || method == Some(Method::CONNECT);
        let target = match method {
            Some(_) if is_target => target,
            _ => b"",
        };
        self.method = method.unwrap_or_default();
        self.url = Url::Excerpt(target.into());
    }

    /// Enters the question of another proxy, which sends the request itself.
    pub fn enter_question(&mut self, octets: &[u8]) {
        self.via = "decide";
        self.url = Url::Excerpt(octets.into());
    }

    /// Enters that the answer's head is on its way.
    pub fn response_started(&mut self, status: u16, error: Option<&'static str>) {
        self.status = Some(status);
        self.error = error;
        self.enter(Stage::Answered);
        self.state.answer();
        if let Some(trace) = &mut self.trace {
            trace.answered = Some(self.proxy.clock.tick());
        }
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
            trace.left = Some(now);
        }
        moment
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

    /// Waits for another turn of a request that is to be sent again, and tells whether it may be.
    pub async fn retry_turn(&self) -> bool {
        match &self.turn {
            Some(turn) => self.proxy.gate.pace().again(turn).await,
            None => true,
        }
    }

    /// Counts an open tunnel until the returned guard is dropped.
    pub fn tunnels(&self) -> GaugeGuard {
        self.proxy.counts.tunnelling()
    }

    /// Records the exchange now, before its answer with a body of `octets` leaves. Later events are not recorded.
    pub fn record_now(&mut self, octets: u64) {
        self.bytes_out = octets;
        self.record();
        self.stage = Stage::Settled;
    }

    /// Reports the origin's response or failure to its pace, which adapts to it.
    pub fn observe<B>(&self, received: Result<&Response<B>, Failure>) {
        if received.is_ok() {
            self.proxy.gate.robots_cache().reached();
        }
        let Some(turn) = &self.turn else { return };
        let pace = self.proxy.gate.pace();
        match received {
            Ok(response) => {
                let wish = || retry_after(response.headers(), &self.proxy.clock);
                // With a body, the time depends on the crawler, too.
                let is_telling = self.bytes_in.is_none();
                pace.answered(turn, response.status().as_u16(), wish, is_telling);
            }
            Err(failure) if failure.is_of_the_origin() => pace.failed(turn),
            Err(_) => {}
        }
    }

    fn enter(&mut self, stage: Stage) {
        if self.stage != Stage::Settled {
            self.stage = stage;
        }
    }

    /// Enters the error of the exchange.
    pub fn failed(&mut self, error: &'static str) {
        self.error = Some(error);
        self.enter(Stage::Answered);
    }

    /// Ends the answer with a reset, the only sign that it is incomplete.
    pub fn resets(&self) {
        self.state.reset();
    }

    /// Enters that both sides have finished.
    pub fn finished(&mut self) {
        self.enter(Stage::Answered);
    }

    /// Discards the record: the exchange was about the proxy alone.
    pub fn discard(&mut self) {
        self.stage = Stage::Settled;
    }

    /// Enters that the crawler disconnected before it had the whole answer.
    pub fn client_closed(&mut self) {
        self.enter(Stage::Left);
    }

    /// Suspends the exchange: nothing is asked for until further notice.
    pub fn suspend(&mut self) {
        self.enter(Stage::Silent);
        self.request_slot = None;
        self.state.rest();
    }

    /// Resumes a suspended exchange.
    pub fn resume(&mut self) {
        self.state.go_on();
    }

    /// Enters the URL with the origin that the crawler named, if it is not the connection's.
    pub fn set_misdirected(&mut self, found: &str) {
        let scheme = self
            .origin
            .as_ref()
            .map_or("http", |origin| origin.scheme().as_str());
        let path = match &self.url {
            Url::Whole(uri) | Url::Inside(_, uri) => uri.path_and_query(),
            Url::Excerpt(_) => None,
        };
        let path = path.map_or("", |path| path.as_str());
        let url = match found.contains("://") {
            true => format!("{found}{path}"),
            false => format!("{scheme}://{found}{path}"),
        };
        self.url = Url::Excerpt(url.into_bytes().into());
    }
}

impl Drop for ExchangeRecorder {
    fn drop(&mut self) {
        // First, so that a reader of the record finds the client charged.
        self.charge();
        if !matches!(self.stage, Stage::Silent | Stage::Settled) {
            self.record();
        }
        self.state.end();
    }
}

impl std::fmt::Debug for ExchangeRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExchangeRecorder")
            .field("decision", &self.decision)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
