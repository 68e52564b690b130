//! The permit of a request, and the proof that it holds at the moment of sending.

use std::time::Duration;

use http::uri::PathAndQuery;

use super::Crawler;
use super::key::Key;
use super::pinned::Pinned;
use super::robots_fetcher::{FetchTimeouts, RobotsTarget};
use crawlgate_policy::generation::Changes;
use crawlgate_policy::{Current, Permit};

/// The purpose of a request, with its permit.
#[derive(Debug, Clone, Copy)]
pub(super) enum SendPermit<'a> {
    /// A cleared page, for this crawler: no other client's requests share its connections.
    Page(&'a Permit, &'a Crawler),
    /// A robots.txt, which needs no clearance.
    Robots(&'a RobotsTarget),
}

/// The proof that one request may leave right now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Proof<'a> {
    Page(#[allow(dead_code, reason = "held, not read")] Current<'a>),
    Robots(#[allow(dead_code, reason = "held, not read")] &'a RobotsTarget),
}

impl<'a> SendPermit<'a> {
    /// Returns the proof that the request may leave; `None` if a change has overtaken the permit.
    pub(super) fn proof(self, changes: &Changes) -> Option<Proof<'a>> {
        match self {
            SendPermit::Page(permit, _) => permit.current(changes).map(Proof::Page),
            SendPermit::Robots(target) => Some(Proof::Robots(target)),
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
            SendPermit::Robots(target) => {
                let FetchTimeouts {
                    connect,
                    first_byte,
                } = target.timeouts;
                (connect, Some(first_byte))
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
            SendPermit::Robots(target) => (Key::new(&target.origin, None), &target.path),
        }
    }
}
