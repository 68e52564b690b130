//! Room on the admin side: who may be connected at once, and how many may wait for a decision.
//!
//! A connection on which nothing is under way is the first to go: where all seats are taken, whoever has been idle for
//! longest makes room for whoever comes. "Idle" is all that is not a question under way: silence between two, or half a
//! head. So hundreds of connections that say nothing, or say it slowly, take each other's seats and nobody else's.
//!
//! Where every seat has a question under way there are a few spare ones, for whoever asks whether the process is well:
//! a probe that has to wait would have a busy process taken for a dead one. All else is told there to try again.
//!
//! A decision may wait for a robots.txt that is slow, and for its turn. Those that wait are bounded below the number of
//! seats: one origin's slowness is not to keep people from seeing that it is slow.

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

/// Connections beside the others that are only told how the process is.
const SPARE: usize = 16;

/// How many questions to the decision service may be under way, of so many connections.
pub(super) fn decisions_of(connections: usize) -> usize {
    (connections - connections / 4).clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
}

/// The seats. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Room {
    seats: Arc<Mutex<Seats>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Counts the ends of questions: a smaller number is a longer idleness, and costs no look at a clock.
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
    /// Since this end.
    Idle(u64),
    Busy,
}

/// What a seat is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// For everything.
    Ordinary,
    /// For one question about health, when there is no other seat.
    Spare,
}

/// A connection's right to be there, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    room: Room,
    number: u64,
    kind: Kind,
    leave: Arc<Notify>,
}

/// A question under way on a connection, until its answer has gone or is given up.
#[derive(Debug)]
pub(super) struct Question {
    room: Room,
    number: u64,
}

impl Room {
    /// So many seats, at least one.
    pub(super) fn new(most: usize) -> Room {
        Room {
            seats: Arc::default(),
            most: most.max(1),
        }
    }

    /// A seat for a new connection; none where even the spare ones are busy.
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

    /// Has the connection that has been idle for longest leave, if one is idle.
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

    /// Frees a seat of this kind, if one is idle.
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
        // Its seat is free at once: nothing is under way on it.
        left.leave.notify_one();
        true
    }
}

impl Seat {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Until somebody else needs the seat more.
    pub(super) fn asked_to_leave(&self) -> impl Future<Output = ()> + use<> {
        let leave = Arc::clone(&self.leave);
        async move { leave.notified().await }
    }

    /// A question begins.
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
    /// Nothing is set where the connection has been asked to leave.
    fn set(&self, state: impl FnOnce(&mut Seats) -> Activity) {
        let mut seats = self.room.seats.lock();
        let state = state(&mut seats);
        if let Some(taken) = seats.taken.get_mut(&self.number) {
            taken.state = state;
        }
    }

    /// The answer's body, with which the question ends.
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

/// A body that holds its question.
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

/// Answers on spare seats what they are for, and nothing else.
pub(super) async fn spare(request: Request, next: Next) -> Response {
    let is_spare = request.extensions().get::<Kind>() == Some(&Kind::Spare);
    if is_spare && !matches!(request.uri().path(), "/live" | "/ready" | "/metrics") {
        let why = "[admin] connections are open, and none of them is idle; try again";
        return Problem::busy(why).into_response();
    }
    next.run(request).await
}

/// Bounds the questions to the decision service that are under way. One too many is not decided, so it is refused, in the
/// way that who asks takes for a refusal.
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
        // The first has asked since: the second is idle for longer.
        drop(first.question());
        let third = room.seat().unwrap();
        assert_eq!(third.kind(), Kind::Ordinary);
        assert!(is_asked_to_leave(&second));
        assert!(!is_asked_to_leave(&first));
        // What has left is in nobody's way.
        drop(second.question());
        drop(second);
        assert_eq!(room.seats.lock().taken.len(), 2);
        drop((first, third));
        assert_eq!(room.seats.lock().taken.len(), 0);
    }

    #[test]
    fn who_is_answered_stays_and_spare_seats_are_left() {
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
        // Idle spare seats make room for each other.
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
