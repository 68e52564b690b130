//! Limits of the admin side: its connections, and the decisions that may wait.
//!
//! If all slots are taken, the connection that has been idle for longest closes for a new one (`connection_limit`).
//!
//! If every slot has a request in progress, a few spare slots remain for health checks: a probe that has to wait would
//! make a busy process look dead. Other requests on a spare slot are told to try again.
//!
//! A decision may wait for a slow robots.txt, and for its turn. The number of waiting decisions stays below the number
//! of slots: one slow origin must not keep people from seeing that it is slow.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http_body::{Frame, SizeHint};

use super::AppState;
use super::problem::Problem;
use crawlgate_net::connection_limit::{ConnectionLimit, Slot};

/// Spare connections, for health checks only.
const SPARE: usize = 16;

/// The connection slots.
#[derive(Debug)]
pub(crate) struct Connections {
    ordinary: Arc<ConnectionLimit<()>>,
    spare: Arc<ConnectionLimit<()>>,
    max: usize,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// Any request.
    Ordinary,
    /// One health check, when all other slots are busy.
    Spare,
}

/// A connection's slot, given back on drop.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slot: Arc<Slot<()>>,
    kind: SlotKind,
}

/// A request in progress on a connection, until its answer is sent or given up.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Slot<()>>);

impl Connections {
    /// Creates so many slots, at least one.
    pub(crate) fn new(max: usize) -> Connections {
        Connections { ordinary: Arc::default(), spare: Arc::default(), max: max.max(1) }
    }

    /// Returns a slot for a new connection; none if even the spare ones are busy.
    pub(crate) fn slot(&self) -> Option<ConnectionSlot> {
        let ordinary = self.ordinary.slot(self.max);
        let (slot, kind) = match ordinary {
            Some(slot) => (slot, SlotKind::Ordinary),
            None => (self.spare.slot(SPARE)?, SlotKind::Spare),
        };
        Some(ConnectionSlot { slot: Arc::new(slot), kind })
    }

    /// Asks the connection that has been idle for longest to leave, if one is idle.
    pub(crate) fn make_room(&self) {
        self.ordinary.make_room();
    }
}

impl ConnectionSlot {
    pub(super) fn kind(&self) -> SlotKind {
        self.kind
    }

    /// Waits until another connection needs the slot.
    pub(super) async fn has_to_leave(&self) {
        self.slot.has_to_leave().await;
    }

    /// Marks the beginning of a request.
    pub(super) fn begin_request(&self) -> ActiveRequest {
        self.slot.begin();
        ActiveRequest(Arc::clone(&self.slot))
    }
}

impl ActiveRequest {
    /// Wraps the answer's body; the request ends with it.
    pub(super) fn ends_with(self, body: Body) -> Body {
        Body::new(RequestBody { body, _request: self })
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A body that holds its request.
struct RequestBody {
    body: Body,
    _request: ActiveRequest,
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers health checks on spare slots, and nothing else.
pub(super) async fn limit_spare_slots(request: Request, next: Next) -> Response {
    let is_spare = request.extensions().get::<SlotKind>() == Some(&SlotKind::Spare);
    if is_spare && !matches!(request.uri().path(), "/live" | "/ready" | "/metrics") {
        let why = "[admin] connections are open, and none of them is idle; try again";
        return Problem::busy(why).into_response();
    }
    next.run(request).await
}

/// Bounds the decision requests in progress. A request beyond the limit is refused in the form that its sender takes
/// for a refusal.
pub(super) async fn bound_decisions(
    State(app): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(_permit) = app.decision_permits().try_acquire() else {
        let why = "too many decisions are in progress; try again, or raise [admin] connections";
        return match request.uri().path() {
            "/auth" => Problem::new(StatusCode::FORBIDDEN, why).into_response(),
            _ => Problem::busy(why).into_response(),
        };
    };
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use std::pin::pin;
    use std::task::Waker;

    fn is_asked_to_leave(slot: &ConnectionSlot) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(slot.has_to_leave()).poll(&mut context).is_ready()
    }

    #[test]
    fn the_longest_idle_makes_room() {
        let connections = Connections::new(2);
        let (first, second) = (connections.slot().unwrap(), connections.slot().unwrap());
        // The first one sent a request since, so the second has been idle for longer.
        drop(first.begin_request());
        let third = connections.slot().unwrap();
        assert_eq!(third.kind(), SlotKind::Ordinary);
        assert!(is_asked_to_leave(&second));
        assert!(!is_asked_to_leave(&first));
        // The second has left and takes no slot.
        drop(second.begin_request());
        drop(second);
        assert_eq!(connections.ordinary.taken(), 2);
        drop((first, third));
        assert_eq!(connections.ordinary.taken(), 0);
    }

    #[test]
    fn busy_connections_stay_and_spare_slots_remain() {
        let connections = Connections::new(1);
        let busy = connections.slot().unwrap();
        let request = busy.begin_request();
        let spare: Vec<ConnectionSlot> = (0..SPARE).map(|_| connections.slot().unwrap()).collect();
        assert!(spare.iter().all(|slot| slot.kind() == SlotKind::Spare));
        assert!(!is_asked_to_leave(&busy));
        assert!(!spare.iter().any(is_asked_to_leave), "there is room");
        let answers: Vec<ActiveRequest> = spare.iter().map(ConnectionSlot::begin_request).collect();
        assert!(connections.slot().is_none(), "all are busy");
        drop(answers);
        // Idle spare slots make room for each other.
        assert_eq!(connections.slot().unwrap().kind(), SlotKind::Spare);
        drop((spare, request));
        assert_eq!(connections.slot().unwrap().kind(), SlotKind::Ordinary);
        assert!(is_asked_to_leave(&busy));
    }

    #[test]
    fn a_request_lasts_as_long_as_its_answer() {
        let connections = Connections::new(1);
        let slot = connections.slot().unwrap();
        let body = slot.begin_request().ends_with(Body::from("abc"));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(connections.slot().unwrap().kind(), SlotKind::Spare);
        drop(body);
        assert_eq!(connections.slot().unwrap().kind(), SlotKind::Ordinary);
        assert!(is_asked_to_leave(&slot));
    }
}
