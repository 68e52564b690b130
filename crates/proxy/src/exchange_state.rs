//! State of an exchange that its recorder shares with the stream that carries it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use http::{HeaderMap, StatusCode};

use super::carrier::Http2Exchange;
use super::carrier::{Http1Exchange, MalformedRequest};
use super::connection::ConnectionState;
use super::framing::Switch;
use super::limits::ConnectionSlot;

/// State of an exchange. HTTP/1.1 has one exchange at a time under way, and one state serves all exchanges of a
/// connection in turn.
#[derive(Debug, Default)]
pub struct ExchangeState {
    connection: Arc<ConnectionState>,
    carrier: Carrier,
    /// A [`Stage`].
    stage: AtomicU8,
    /// True if the connection's slot counts the exchange.
    is_counted: AtomicBool,
}

/// Progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// No exchange: silence is idleness.
    Idle = 0,
    /// The final answer is awaited.
    Waiting = 1,
    /// The final answer is being written.
    Answering = 2,
}

/// The protocol that carries an exchange, as far as the exchange has more to tell it than an answer.
#[derive(Debug, Default)]
enum Carrier {
    /// None: another proxy asks.
    #[default]
    None,
    /// HTTP/1.1, through a checked stream.
    Http1(Arc<Http1Exchange>),
    /// A stream of HTTP/2.
    Http2(Arc<Http2Exchange>),
}

impl ExchangeState {
    /// Creates the state for the exchanges of a HTTP/1.1 connection.
    pub fn of_http1(
        connection: &Arc<ConnectionState>,
        http1: &Arc<Http1Exchange>,
    ) -> ExchangeState {
        ExchangeState {
            connection: Arc::clone(connection),
            carrier: Carrier::Http1(Arc::clone(http1)),
            ..ExchangeState::default()
        }
    }

    /// Creates the state for the one exchange of an HTTP/2 stream.
    pub fn of_http2(
        connection: &Arc<ConnectionState>,
        http2: &Arc<Http2Exchange>,
    ) -> ExchangeState {
        ExchangeState {
            connection: Arc::clone(connection),
            carrier: Carrier::Http2(Arc::clone(http2)),
            ..ExchangeState::default()
        }
    }

    /// Returns the state of the exchange's connection.
    pub fn connection(&self) -> &ConnectionState {
        &self.connection
    }

    /// Notes that a request is complete, and its exchange is about to begin.
    pub fn expect(&self) {
        self.enter(Stage::Waiting);
    }

    /// Notes that the exchange begins.
    pub fn begin(&self) {
        self.enter(Stage::Waiting);
        self.resume();
    }

    /// Suspends the exchange: the connection is idle if it carries no other one.
    pub fn suspend(&self) {
        if let Some(slot) = self.slot()
            && self.is_counted.swap(false, Ordering::Relaxed)
        {
            slot.end();
        }
    }

    /// Notes that a suspended exchange continues. Changes nothing for one that is under way.
    pub fn resume(&self) {
        if let Some(slot) = self.slot()
            && !self.is_counted.swap(true, Ordering::Relaxed)
        {
            slot.begin();
        }
    }

    /// Counts the exchange on this slot from now on: it is a tunnel on a stream.
    pub fn move_to(&self, slot: &Arc<ConnectionSlot>) {
        if let Carrier::Http2(http2) = &self.carrier {
            self.suspend();
            http2.set_slot(slot);
            self.resume();
        }
    }

    /// Returns the slot that counts the exchange.
    fn slot(&self) -> Option<&ConnectionSlot> {
        let own = match &self.carrier {
            Carrier::Http2(http2) => http2.slot(),
            Carrier::None | Carrier::Http1(_) => None,
        };
        own.or_else(|| self.connection.slot())
    }

    /// Has the connection of HTTP/2 end behind the answer. On HTTP/1.1 the answer says so.
    pub fn end_connection(&self) {
        if let Carrier::Http2(http2) = &self.carrier {
            http2.end_connection();
        }
    }

    /// Notes that the head of the final answer is about to be written.
    pub fn answer(&self) {
        self.enter(Stage::Answering);
    }

    /// Notes that the exchange has ended.
    pub fn end(&self) {
        self.enter(Stage::Idle);
        // The end of a suspended exchange begins the idleness of its connection anew.
        self.resume();
        self.suspend();
        if let Some(http1) = self.http1() {
            http1.end();
        }
    }

    /// Returns the progress of the exchange.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            1 => Stage::Waiting,
            2 => Stage::Answering,
            _ => Stage::Idle,
        }
    }

    fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Passes an interim response on to the crawler. Drops it if the final answer came first.
    pub fn push_interim(&self, status: StatusCode, fields: &HeaderMap) {
        if self.stage() != Stage::Waiting {
            return;
        }
        match &self.carrier {
            Carrier::None => {}
            Carrier::Http1(http1) => http1.push_interim(status, fields),
            Carrier::Http2(http2) => http2.push_interim(status, fields),
        }
    }

    /// Tells the crawler to send its body (RFC 9110 15.2.1). On HTTP/1.1 hyper does when the body is read.
    pub fn push_continue(&self) {
        if let Carrier::Http2(_) = &self.carrier {
            self.push_interim(StatusCode::CONTINUE, &HeaderMap::new());
        }
    }

    /// Sets the answer to a request to switch protocols.
    pub fn decide(&self, switch: Switch) {
        if let Some(http1) = self.http1() {
            http1.decide(switch);
        }
    }

    /// Tells whether the connection carries no other request before the rest of this one's body. hyper reads once more
    /// from the part of a body that has arrived; of a chunked body that is only the first chunk.
    pub fn needs_whole_body(&self, is_chunked: bool) -> bool {
        self.http1().is_some_and(|http1| is_chunked || http1.is_in_body())
    }

    /// Has the answer end with a reset.
    pub fn reset(&self) {
        match &self.carrier {
            Carrier::None => {}
            // The connection carries only this answer.
            Carrier::Http1(_) => self.connection.reset(),
            // An answer that broke off resets its stream in any case.
            Carrier::Http2(_) => {}
        }
    }

    /// Notes that a CONNECT was refused.
    pub fn refuse_tunnel(&self) {
        if let Some(http1) = self.http1() {
            http1.refuse_tunnel();
        }
    }

    /// Takes the refused request that a request stands for. On HTTP/1.1 only a refusal token stands for one.
    pub fn take_refused(&self, is_token: bool) -> Option<MalformedRequest> {
        match &self.carrier {
            Carrier::None => None,
            Carrier::Http1(http1) if is_token => http1.take_refused(),
            Carrier::Http1(_) => None,
            Carrier::Http2(http2) => http2.violation().map(MalformedRequest::of),
        }
    }

    /// Tells whether the crawler took the answer too slowly.
    pub fn is_stalled(&self) -> bool {
        match &self.carrier {
            Carrier::Http2(http2) => http2.is_stalled(),
            Carrier::None | Carrier::Http1(_) => self.connection.is_stalled(),
        }
    }

    fn http1(&self) -> Option<&Http1Exchange> {
        match &self.carrier {
            Carrier::None | Carrier::Http2(_) => None,
            Carrier::Http1(http1) => Some(http1),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::LINK;

    use super::super::limits::Limiter;
    use super::*;

    /// Returns the limiter of a single connection, and that connection's state.
    fn connection() -> (Arc<Limiter>, Arc<ConnectionState>) {
        let limiter = Arc::<Limiter>::default();
        let slot = Arc::new(limiter.slot(1).expect("room"));
        (limiter, Arc::new(ConnectionState::of(&slot)))
    }

    fn exchange(connection: &Arc<ConnectionState>) -> ExchangeState {
        ExchangeState::of_http1(connection, &Arc::default())
    }

    #[test]
    fn a_connection_is_busy_until_its_last_exchange_has_ended() {
        type Step = fn(&ExchangeState);
        let steps: [(&str, &[Step], bool); 8] = [
            ("begun", &[ExchangeState::begin], true),
            ("ended", &[ExchangeState::begin, ExchangeState::end], false),
            ("suspended", &[ExchangeState::begin, ExchangeState::suspend], false),
            (
                "suspended twice",
                &[ExchangeState::begin, ExchangeState::suspend, ExchangeState::suspend],
                false,
            ),
            (
                "suspended and ended",
                &[ExchangeState::begin, ExchangeState::suspend, ExchangeState::end],
                false,
            ),
            (
                "resumed",
                &[ExchangeState::begin, ExchangeState::suspend, ExchangeState::resume],
                true,
            ),
            (
                "resumed without a pause, and ended",
                &[ExchangeState::begin, ExchangeState::resume, ExchangeState::end],
                false,
            ),
            (
                "one after another",
                &[ExchangeState::begin, ExchangeState::end, ExchangeState::begin],
                true,
            ),
        ];
        for (name, steps, is_busy) in steps {
            // Another exchange on the same connection keeps it busy, whatever the first one does.
            for is_other_under_way in [false, true] {
                let (limiter, connection) = connection();
                let (one, other) = (exchange(&connection), exchange(&connection));
                if is_other_under_way {
                    other.begin();
                }
                for step in steps {
                    step(&one);
                }
                let is_idle = limiter.make_room();
                assert_eq!(!is_idle, is_busy || is_other_under_way, "{name}");
                if is_other_under_way {
                    other.end();
                    assert_eq!(!limiter.make_room(), is_busy, "{name}, the other ended");
                }
            }
        }
    }

    #[test]
    fn only_the_final_answer_of_http_1_ends_its_interim_responses() {
        let http1 = Arc::<Http1Exchange>::default();
        let state = ExchangeState::of_http1(&Arc::default(), &http1);
        let fields = HeaderMap::from_iter([(LINK, HeaderValue::from_static("</a>"))]);
        let push = || {
            state.push_interim(StatusCode::EARLY_HINTS, &fields);
            String::from_utf8(http1.take_interim()).unwrap()
        };
        let head = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        assert_eq!(push(), "", "no exchange");
        state.begin();
        assert_eq!(push(), head);
        state.answer();
        assert_eq!(push(), "", "answered");
        state.end();
        state.begin();
        assert_eq!(push(), head, "the next exchange");
        let none = ExchangeState::default();
        none.begin();
        none.push_interim(StatusCode::EARLY_HINTS, &fields);
    }
}
