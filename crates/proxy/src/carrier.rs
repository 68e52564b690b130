//! The protocols that carry exchanges: facts that pass between an exchange and the
//! [`CheckedStream`](super::checked_stream::CheckedStream) of HTTP/1.1, the only one that knows the octets, or its stream of HTTP/2.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;

use super::fields;
use super::framing::{Switch, Violation};
use super::limits::ConnectionSlot;

/// Octets of interim responses that wait for a crawler on HTTP/1.1 to take them.
const MAX_OCTETS: usize = 65_536;

/// Interim responses that wait for the task of an HTTP/2 stream; an origin that sends more loses the rest.
const MAX_RESPONSES: usize = 64;

/// State that the exchange under way on a HTTP/1.1 connection shares with the checked stream.
#[derive(Debug, Default)]
pub struct Http1Exchange {
    // The flags are read on every read or write, and so without the lock.
    has_interim: AtomicBool,
    has_switch: AtomicBool,
    /// True if the body of the request under way has not come to its end yet.
    is_in_body: AtomicBool,
    /// True if a CONNECT was refused: octets after it mean nothing.
    is_tunnel_refused: AtomicBool,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    switch: Option<Switch>,
    interim: Vec<u8>,
    refused: Option<MalformedRequest>,
    waker: WakerSlot,
}

/// The task to wake, if one waits.
#[derive(Debug, Default)]
struct WakerSlot(Option<Waker>);

/// A request refused for its form.
#[derive(Debug, Clone)]
pub struct MalformedRequest {
    /// The fault of its form.
    pub violation: Violation,
    /// Its first octets; `None` if its target can be read.
    pub excerpt: Option<Box<[u8]>>,
}

impl MalformedRequest {
    /// Refuses a request with a readable target.
    pub fn of(violation: Violation) -> MalformedRequest {
        MalformedRequest { violation, excerpt: None }
    }

    /// Tells whether the crawler began TLS where HTTP is spoken.
    pub fn is_tls(&self) -> bool {
        self.violation == Violation::Tls
    }

    /// Tells whether the crawler began HTTP/2 without TLS (RFC 9113 3.3).
    pub fn is_prior_knowledge(&self) -> bool {
        self.excerpt.as_ref().is_some_and(|excerpt| excerpt.starts_with(b"PRI * HTTP/2"))
    }
}

impl Http1Exchange {
    /// Sets whether the body of a request has begun and not ended.
    pub fn set_in_body(&self, is_in_body: bool) {
        self.is_in_body.store(is_in_body, Ordering::Relaxed);
    }

    /// Tells whether the crawler still has to send a part of its request's body.
    pub fn is_in_body(&self) -> bool {
        self.is_in_body.load(Ordering::Relaxed)
    }

    /// Notes that a CONNECT was refused.
    pub fn refuse_tunnel(&self) {
        self.is_tunnel_refused.store(true, Ordering::Relaxed);
    }

    /// Tells whether a CONNECT was refused.
    pub fn is_tunnel_refused(&self) -> bool {
        self.is_tunnel_refused.load(Ordering::Relaxed)
    }

    /// Notes that the exchange has ended: octets held back until the answer was known are read from now on.
    pub fn end(&self) {
        if self.has_switch.load(Ordering::Acquire) {
            self.shared.lock().waker.wake();
        }
    }

    /// Sets the answer to a request to switch protocols. Called once for each request that the checked stream takes for
    /// one: with an Upgrade field, and without a body.
    pub fn decide(&self, switch: Switch) {
        let mut shared = self.shared.lock();
        shared.switch = Some(switch);
        self.has_switch.store(true, Ordering::Release);
        shared.waker.wake();
    }

    /// Takes the answer to a request to switch protocols; the connection is woken later if the answer is still missing.
    pub fn take_switch(&self, cx: &Context<'_>) -> Option<Switch> {
        let mut shared = self.shared.lock();
        let switch = shared.switch.take();
        match switch {
            Some(_) => self.has_switch.store(false, Ordering::Release),
            None => shared.waker.register(cx),
        }
        switch
    }

    /// Queues an interim response. Drops it if the crawler takes none of those before it.
    pub fn push_interim(&self, status: StatusCode, fields: &HeaderMap) {
        let head = head(status, fields);
        let mut shared = self.shared.lock();
        if shared.interim.len() + head.len() > MAX_OCTETS {
            return;
        }
        shared.interim.extend_from_slice(&head);
        self.has_interim.store(true, Ordering::Release);
        // Nothing else may wake the connection before the final answer comes.
        shared.waker.wake();
    }

    /// Takes the interim responses that wait, if any.
    pub fn take_interim(&self) -> Vec<u8> {
        if self.has_interim.load(Ordering::Acquire) {
            self.has_interim.store(false, Ordering::Release);
            std::mem::take(&mut self.shared.lock().interim)
        } else {
            Vec::new()
        }
    }

    /// Has the next interim response wake the connection.
    pub fn await_interim(&self, cx: &Context<'_>) {
        self.shared.lock().waker.register(cx);
    }

    /// Keeps a refused request for the exchange of its refusal token.
    pub fn leave_refused(&self, refused: MalformedRequest) {
        self.shared.lock().refused = Some(refused);
    }

    /// Takes the refused request that a refusal token stands for.
    pub fn take_refused(&self) -> Option<MalformedRequest> {
        self.shared.lock().refused.take()
    }
}

impl WakerSlot {
    fn register(&mut self, cx: &Context<'_>) {
        match &mut self.0 {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.0 = Some(cx.waker().clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

/// Formats an interim response as it goes to the crawler.
fn head(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    let mut headers = headers.clone();
    fields::to_crawler_without_body(&mut headers);
    for (name, value) in &headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// State that an exchange shares with its stream.
#[derive(Debug, Default)]
pub struct Http2Exchange {
    /// The slot of a tunnel.
    slot: OnceLock<Arc<ConnectionSlot>>,
    /// True if the answer is the last one of the connection.
    pub(super) is_last: AtomicBool,
    /// True if the crawler took its answer too slowly.
    pub(super) is_stalled: AtomicBool,
    /// The fault of the request's form, if any.
    violation: Option<Violation>,
    interim: Mutex<Interim>,
}

#[derive(Debug, Default)]
struct Interim {
    responses: Vec<Response<()>>,
    waker: WakerSlot,
}

impl Http2Exchange {
    /// Creates the state for a stream, with the fault of its request's form.
    pub fn of(violation: Option<Violation>) -> Http2Exchange {
        Http2Exchange { violation, ..Http2Exchange::default() }
    }

    /// Queues an interim response.
    pub fn push_interim(&self, status: StatusCode, fields: &HeaderMap) {
        let mut response = Response::new(());
        *response.status_mut() = status;
        response.headers_mut().clone_from(fields);
        fields::to_crawler_without_body(response.headers_mut());
        let mut interim = self.interim.lock();
        if interim.responses.len() < MAX_RESPONSES {
            interim.responses.push(response);
        }
        interim.waker.wake();
    }

    /// Takes the interim responses that wait; the stream is woken by the next one.
    pub fn take_interim(&self, cx: &Context<'_>) -> Vec<Response<()>> {
        let mut interim = self.interim.lock();
        interim.waker.register(cx);
        std::mem::take(&mut interim.responses)
    }

    /// Returns the fault of the request's form, if any.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Counts the exchange on a separate slot.
    pub fn set_slot(&self, slot: &Arc<ConnectionSlot>) {
        // A stream becomes a tunnel once.
        let _ = self.slot.set(Arc::clone(slot));
    }

    /// Returns the exchange's own slot, if it is a tunnel.
    pub fn slot(&self) -> Option<&ConnectionSlot> {
        self.slot.get().map(|slot| &**slot)
    }

    /// Has the connection end behind the answer.
    pub fn end_connection(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Tells whether the crawler took its answer too slowly.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_responses_that_the_crawler_does_not_take_are_bounded() {
        let http1 = Http1Exchange::default();
        let hints = || http1.push_interim(StatusCode::EARLY_HINTS, &HeaderMap::new());
        hints();
        let one = http1.take_interim().len();
        for _ in 0..=MAX_OCTETS / one {
            hints();
        }
        assert_eq!(http1.take_interim().len(), MAX_OCTETS / one * one);
        assert_eq!(http1.take_interim().len(), 0, "taken");
        hints();
        assert_eq!(http1.take_interim().len(), one, "there is room again");
    }
}
