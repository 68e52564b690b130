//! The permit of a request, and the proof that it holds at the moment of sending.

use std::time::Duration;

use http::uri::PathAndQuery;

use super::key::Key;
use super::pinned::Pinned;
use super::{Crawler, RobotsPermit};
use crawlgate_policy::generation::Changes;
use crawlgate_policy::{Current, Permit};

/// The purpose of a request, with its permit.
#[derive(Debug, Clone, Copy)]
pub(super) enum SendPermit<'a> {
    /// A cleared page, for this crawler: no other client's requests share its connections.
    Page(&'a Permit, &'a Crawler),
    /// A robots.txt, which needs no clearance.
    Robots(&'a RobotsPermit),
}

/// The proof that one request may leave right now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Proof<'a> {
    Page(#[allow(dead_code, reason = "held, not read")] Current<'a>),
    Robots(#[allow(dead_code, reason = "held, not read")] &'a RobotsPermit),
}

impl<'a> SendPermit<'a> {
    /// Returns the proof that the request may leave; `None` if a change has overtaken the permit.
    pub(super) fn proof(self, changes: &Changes) -> Option<Proof<'a>> {
        match self {
            SendPermit::Page(permit, _) => permit.current(changes).map(Proof::Page),
            SendPermit::Robots(send_permit) => Some(Proof::Robots(send_permit)),
        }
    }

    /// Returns the pinned connections of the crawler connection that the request came by.
    pub(super) fn pinned(self) -> Option<&'a Pinned> {
        match self {
            SendPermit::Page(_, crawler) => Some(&crawler.pinned),
            SendPermit::Robots(_) => None,
        }
    }

    /// Returns the time-outs for a connection and, from then on, for the response head: a page waits for the head
    /// as long as its caller does.
    pub(super) fn timeouts(self, to_connect: Duration) -> (Duration, Option<Duration>) {
        match self {
            SendPermit::Page(..) => (to_connect, None),
            SendPermit::Robots(permit) => {
                let (to_connect, to_answer) = permit.timeouts();
                (to_connect, Some(to_answer))
            }
        }
    }

    /// Returns the connections that may carry the request, and its path there.
    pub(super) fn destination(self) -> (Key, &'a PathAndQuery) {
        match self {
            SendPermit::Page(permit, crawler) => {
                let target = permit.target();
                (
                    Key::new(&target.origin, crawler.client.clone()),
                    &target.path,
                )
            }
            SendPermit::Robots(permit) => {
                let (origin, path) = permit.target();
                (Key::new(origin, None), path)
            }
        }
    }
}
