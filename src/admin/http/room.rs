//! Limits of the admin side: its connections, and the decisions that may wait.
//!
//! If all slots are taken, the connection that has been idle for longest closes for a new one. A connection is idle if
//! no request is in progress on it: silence between two requests, or half a head. So hundreds of silent or slow
//! connections take each other's slots and no others.
//!
//! If every slot has a request in progress, a few spare slots remain for health checks: a probe that has to wait would
//! make a busy process look dead. Other requests on a spare slot are told to try again.
//!
//! A decision may wait for a slow robots.txt, and for its turn. The number of waiting decisions stays below the number
//! of slots: one slow origin must not keep people from seeing that it is slow.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Site;
use super::problem::Problem;

/// Spare connections, for health checks only.
const SPARE: usize = 16;

/// Returns how many decision requests may be in progress, of so many connections.
pub(super) fn decisions_of(connections: usize) -> usize {
    (connections - connections / 4).clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
}

/// The connection slots. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Room {
    seats: Arc<Mutex<Seats>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Counts finished requests: a smaller number means longer idle, without reading a clock.
    ends: u64,
    taken: HashMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    kind: Kind,
    state: Activity,
    leave: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// Idle since this count of finished requests.
    Idle(u64),
    Busy,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any request.
    Ordinary,
    /// One health check, when all other slots are busy.
    Spare,
}

/// A connection's slot, given back on drop.
#[derive(Debug)]
pub(super) struct Seat {
    room: Room,
    number: u64,
    kind: Kind,
    leave: Arc<Notify>,
}

/// A request in progress on a connection, until its answer is sent or given up.
#[derive(Debug)]
pub(super) struct Question {
    room: Room,
    number: u64,
}

impl Room {
    /// Creates so many slots, at least one.
    pub(super) fn new(most: usize) -> Room {
        Room {
            seats: Arc::default(),
            most: most.max(1),
        }
    }

    /// Returns a slot for a new connection; none if even the spare ones are busy.
    pub(super) fn seat(&self) -> Option<Seat> {
        let mut seats = self.seats.lock();
        let kinds = [(Kind::Ordinary, self.most), (Kind::Spare, SPARE)];
        let (kind, _) = kinds
            .into_iter()
            .find(|(kind, most)| seats.count(*kind) < *most || seats.make_room(*kind))?;
        let number = seats.next;
        seats.next += 1;
        let leave = Arc::<Notify>::default();
        let taken = Taken {
            kind,
            state: seats.idle(),
            leave: Arc::clone(&leave),
        };
        seats.taken.insert(number, taken);
        Some(Seat {
            room: self.clone(),
            number,
            kind,
            leave,
        })
    }

    /// Asks the connection that has been idle for longest to leave, if one is idle.
    pub(super) fn make_room(&self) {
        self.seats.lock().make_room(Kind::Ordinary);
    }
}

impl Seats {
    fn idle(&mut self) -> Activity {
        self.ends += 1;
        Activity::Idle(self.ends)
    }

    fn count(&self, kind: Kind) -> usize {
        let taken = self.taken.values();
        taken.filter(|taken| taken.kind == kind).count()
    }

    /// Frees a slot of this kind, if one is idle.
    fn make_room(&mut self, kind: Kind) -> bool {
        let idle = self.taken.iter().filter_map(|(number, taken)| {
            let Activity::Idle(since) = taken.state else {
                return None;
            };
            (taken.kind == kind).then_some((since, *number))
        });
        let longest = idle.min();
        let Some(left) = longest.and_then(|(_, number)| self.taken.remove(&number)) else {
            return false;
        };
        // The slot is free at once: no request is in progress on it.
        left.leave.notify_one();
        true
    }
}

impl Seat {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Resolves when another connection needs the slot.
    pub(super) fn asked_to_leave(&self) -> impl Future<Output = ()> + use<> {
        let leave = Arc::clone(&self.leave);
        async move { leave.notified().await }
    }

    /// Marks the beginning of a request.
    pub(super) fn question(&self) -> Question {
        let question = Question {
            room: self.room.clone(),
            number: self.number,
        };
        question.set(|_| Activity::Busy);
        question
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.seats.lock().taken.remove(&self.number);
    }
}

impl Question {
    /// Sets the activity, unless the connection was asked to leave.
    fn set(&self, state: impl FnOnce(&mut Seats) -> Activity) {
        let mut seats = self.room.seats.lock();
        let state = state(&mut seats);
        if let Some(taken) = seats.taken.get_mut(&self.number) {
            taken.state = state;
        }
    }

    /// Wraps the answer's body; the request ends with it.
    pub(super) fn ends_with(self, body: Body) -> Body {
        Body::new(Answer {
            body,
            _question: self,
        })
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.set(Seats::idle);
    }
}

/// A body that holds its request.
struct Answer {
    body: Body,
    _question: Question,
}

impl http_body::Body for Answer {
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
pub(super) async fn spare(request: Request, next: Next) -> Response {
    let is_spare = request.extensions().get::<Kind>() == Some(&Kind::Spare);
    if is_spare && !matches!(request.uri().path(), "/live" | "/ready" | "/metrics") {
        let why = "[admin] connections are open, and none of them is idle; try again";
        return Problem::busy(why).into_response();
    }
    next.run(request).await
}

/// Bounds the decision requests in progress. A request beyond the limit is refused in the form that its sender takes
/// for a refusal.
pub(super) async fn bound_decisions(
    State(site): State<Site>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(_place) = site.decisions().try_acquire() else {
        let why = "as many decisions are under way as may; try again, or raise [admin] connections";
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

    fn is_asked_to_leave(seat: &Seat) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(seat.asked_to_leave()).poll(&mut context).is_ready()
    }

    #[test]
    fn the_longest_idle_makes_room() {
        let room = Room::new(2);
        let (first, second) = (room.seat().unwrap(), room.seat().unwrap());
        // The first one sent a request since, so the second has been idle for longer.
        drop(first.question());
        let third = room.seat().unwrap();
        assert_eq!(third.kind(), Kind::Ordinary);
        assert!(is_asked_to_leave(&second));
        assert!(!is_asked_to_leave(&first));
        // The second has left and takes no slot.
        drop(second.question());
        drop(second);
        assert_eq!(room.seats.lock().taken.len(), 2);
        drop((first, third));
        assert_eq!(room.seats.lock().taken.len(), 0);
    }

    #[test]
    fn busy_connections_stay_and_spare_slots_remain() {
        let room = Room::new(1);
        let busy = room.seat().unwrap();
        let question = busy.question();
        let spare: Vec<Seat> = (0..SPARE).map(|_| room.seat().unwrap()).collect();
        assert!(spare.iter().all(|seat| seat.kind() == Kind::Spare));
        assert!(!is_asked_to_leave(&busy));
        assert!(!spare.iter().any(is_asked_to_leave), "there is room");
        let answers: Vec<Question> = spare.iter().map(Seat::question).collect();
        assert!(room.seat().is_none(), "all are busy");
        drop(answers);
        // Idle spare slots make room for each other.
        assert_eq!(room.seat().unwrap().kind(), Kind::Spare);
        drop((spare, question));
        assert_eq!(room.seat().unwrap().kind(), Kind::Ordinary);
        assert!(is_asked_to_leave(&busy));
    }

    #[test]
    fn a_question_lasts_as_long_as_its_answer() {
        let room = Room::new(1);
        let seat = room.seat().unwrap();
        let body = seat.question().ends_with(Body::from("abc"));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(room.seat().unwrap().kind(), Kind::Spare);
        drop(body);
        assert_eq!(room.seat().unwrap().kind(), Kind::Ordinary);
        assert!(is_asked_to_leave(&seat));
    }

    #[test]
    fn decisions_leave_some_connections_to_others() {
        for (connections, decisions) in [(1, 1), (2, 2), (4, 3), (256, 192)] {
            assert_eq!(decisions_of(connections), decisions, "{connections}");
        }
    }
}
