//! HTTP/2's part of an exchange: facts that pass between the exchange and its stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;

use super::fields;
use super::framing::Violation;
use super::limits::ConnectionSlot;

/// Interim responses that wait for the stream's task; an origin that sends more loses the rest.
const MAX_INTERIM: usize = 64;

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
    waker: Option<Waker>,
}

impl Http2Exchange {
    /// Creates the state for a stream, with the fault of its request's form.
    pub fn of(violation: Option<Violation>) -> Http2Exchange {
        Http2Exchange {
            violation,
            ..Http2Exchange::default()
        }
    }

    /// Queues an interim response.
    pub fn push_interim(&self, status: StatusCode, fields: &HeaderMap) {
        let mut response = Response::new(());
        *response.status_mut() = status;
        response.headers_mut().clone_from(fields);
        fields::to_crawler_without_body(response.headers_mut());
        let mut interim = self.interim.lock();
        if interim.responses.len() < MAX_INTERIM {
            interim.responses.push(response);
        }
        if let Some(waker) = interim.waker.take() {
            waker.wake();
        }
    }

    /// Takes the interim responses that wait; the stream is woken by the next one.
    pub fn take_interim(&self, cx: &Context<'_>) -> Vec<Response<()>> {
        let mut interim = self.interim.lock();
        match &mut interim.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => interim.waker = Some(cx.waker().clone()),
        }
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
