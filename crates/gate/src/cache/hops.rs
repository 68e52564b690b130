//! Judges the redirects of a robots.txt into another origin by the rules there.
//!
//! A hop to a URL of another origin, except its `/robots.txt`, is a request there. The operator's overrides decide about
//! it first. Then it is made only if the rules of that origin allow it to the identity that the fetched state belongs
//! to: crawlers with the same first token share that state, whatever their other tokens are. Unknown rules are fetched
//! first, so the outcome of a fetch never depends on the order in which a crawler visits two origins:
//!
//! | at the hop's origin | the hop | the origin that redirects |
//! |---|---|---|
//! | an override allows the URL | is made | has the rules that the hop leads to |
//! | an override denies the URL | is not made | *unreachable*: the assertion is not about this origin, and must not open it |
//! | the rules allow the URL, or there is no robots.txt | is made | has the rules that the hop leads to |
//! | the rules disallow the URL, and are fresh | is not made | *unavailable* (Google's RFC 9309 edition), if `*` is answered so, too, and no copy of the origin's own file is held for any crawler; else *unreachable* |
//! | the rules allow the URL as written, but not as a server may read it (path guard) | is not made | *unreachable* |
//! | the rules cannot be had | is not made | *unreachable* |
//!
//! So a disallowed hop opens an origin only if nothing else is known about it.
//!
//! A fetch that waits for another one never waits for itself: if two origins redirect into each other, neither hop can
//! be judged. A chain of fetches, each for a hop of the one before, ends after [`DEEPEST`]. Then the first origin of the
//! chain is unreachable until its next attempt, so for it the order of visits still matters, on the closed side. The
//! origins in the middle keep their states: foreign origins that redirect into an origin cannot shut it, because a
//! request there begins a new chain.

use parking_lot::Mutex;

use super::Shared;
use super::fetch_handle::Ended;
use crawlgate_origins::access::{Cause, Hop};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, Identity};
use crawlgate_origins::requesting_client::RequestingClient;
use crawlgate_origins::state::{Due, Stance, State};
use crawlgate_robots::{ComparisonPath, GuardVerdict, Origin, RuleKind};
use crawlgate_turns::client::ClientKey;

use std::sync::Arc;

/// Longest chain of fetches that wait for each other, so that an origin cannot make an endless one.
const DEEPEST: u8 = 2;

/// The verdict on a hop without rules that settle it.
const UNJUDGED: Hop = Hop::Refused(Cause::UnjudgedHop);

/// The verdict on a hop at the end of too long a chain.
const TOO_DEEP: Hop = Hop::Refused(Cause::HopChain);

/// The origin and identity of a fetch, and the client that it counts against.
#[derive(Clone)]
pub(super) struct FetchSubject {
    pub(super) origin: Origin,
    /// The identity that the fetched state belongs to.
    pub(super) identity: Identity,
    /// The client that it counts against; none: crawlgate itself.
    pub(super) client: Option<ClientKey>,
    /// Number of flights that wait for it because of their hops.
    pub(super) depth: u8,
}

impl FetchSubject {
    /// Returns the client that it counts against.
    pub(super) fn requester(&self) -> Option<RequestingClient<'_>> {
        self.client.as_ref().map(ClientKey::requester)
    }
}

/// A document of an origin: its tdmrep.json may wait for a robots.txt that waits for the robots.txt beside it.
type Awaited = (Origin, Document);

/// The pairs of a waiting document and the one that it waits for.
#[derive(Default)]
pub(super) struct WaitGraph(Mutex<Vec<(Awaited, Awaited)>>);

/// One document's wait for another, until this is dropped.
struct WaitEdge<'a> {
    waits: &'a WaitGraph,
    edge: (Awaited, Awaited),
}

impl WaitGraph {
    /// Lets `from` wait for `to`, unless `to` waits for `from`, directly or not.
    fn enter(&self, from: &Awaited, to: &Awaited) -> Option<WaitEdge<'_>> {
        let edge = (from.clone(), to.clone());
        let mut edges = self.0.lock();
        if leads(&edges, to, from) {
            return None;
        }
        edges.push(edge.clone());
        Some(WaitEdge { waits: self, edge })
    }
}

impl Drop for WaitEdge<'_> {
    fn drop(&mut self) {
        let mut edges = self.waits.0.lock();
        if let Some(at) = edges.iter().position(|edge| *edge == self.edge) {
            edges.swap_remove(at);
        }
    }
}

/// Tells whether `from` waits for `to`, directly or not.
fn leads(edges: &[(Awaited, Awaited)], from: &Awaited, to: &Awaited) -> bool {
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(here) = reached.get(at).copied() {
        if here == to {
            return true;
        }
        for (_, next) in edges.iter().filter(|(waits, _)| waits == here) {
            if !reached.contains(&next) {
                reached.push(next);
            }
        }
        at += 1;
    }
    false
}

impl Shared {
    /// Judges a hop to a path of `origin`, by the overrides or by the rules there; unknown rules are fetched first.
    pub(super) async fn judge_hop(
        self: &Arc<Self>,
        subject: &FetchSubject,
        origin: &Origin,
        path: &str,
    ) -> Hop {
        if let Some(decided) = self.hop_by_override(origin, path) {
            return decided;
        }
        let tokens = subject.identity.token();
        let crawler = Crawler::with(&subject.identity, tokens.map_or(&[], std::slice::from_ref))
            .asking(Document::RobotsTxt)
            .asked_by(subject.requester());
        let known = self.hop_as_known(origin, path, crawler);
        if known != UNJUDGED {
            return known;
        }
        let depth = subject.depth + 1;
        if self.is_too_deep(origin, crawler, depth) {
            return TOO_DEEP;
        }
        let from = (subject.origin.clone(), subject.identity.document());
        let to = (origin.clone(), Document::RobotsTxt);
        let Some(_waiting) = self.waits.enter(&from, &to) else {
            return UNJUDGED;
        };
        let entry = self.entry(origin);
        if let (_, Some(awaited)) = self.look(&entry, origin, crawler, None, depth) {
            let waiting = self.wait_for_fetch(&entry, origin, crawler, None, awaited, depth);
            if let Ended::Cut(_) = waiting.await {
                return TOO_DEEP;
            }
        }
        self.hop_as_known(origin, path, crawler)
    }

    /// Judges a hop by the overrides in force; `None` if they say nothing about it.
    pub(super) fn hop_by_override(&self, origin: &Origin, path: &str) -> Option<Hop> {
        let overrides = self.overrides.load();
        let is_allowed = overrides.is_allowed(origin, path.as_bytes(), self.clock.now())?;
        Some(match is_allowed {
            true => Hop::Allowed,
            false => Hop::Refused(Cause::DeniedHop),
        })
    }

    /// Tells whether the rules of `origin` need a fetch that would be cut short, because this many others wait for it.
    fn is_too_deep(&self, origin: &Origin, crawler: Crawler<'_>, depth: u8) -> bool {
        let is_beyond = depth > DEEPEST;
        let Some(entry) = self.entries.get(origin).map(|entry| Arc::clone(&entry)) else {
            return is_beyond;
        };
        let by = self.settings.load().under(None);
        let mut slots = entry.slots.lock();
        let now = self.clock.now();
        let Some(slot) = slots.held(crawler, now) else {
            return is_beyond;
        };
        let is_due = slot.state.due(now, &by.config.timing.profile) == Due::Now;
        let is_unconfirmed = self.sharing.is_some() && slot.is_unconfirmed();
        (is_due || is_unconfirmed) && (is_beyond || slot.is_cut(now, depth))
    }

    /// Judges a hop by the cached state of its origin. The hop's verdict is unknown if the crawler has no state of its
    /// own there.
    pub(super) fn hop_as_known(&self, origin: &Origin, path: &str, crawler: Crawler<'_>) -> Hop {
        let Some(entry) = self.entries.get(origin).map(|entry| Arc::clone(&entry)) else {
            return UNJUDGED;
        };
        let config = Arc::clone(&self.settings.load().ours.config);
        let (state, now) = {
            let mut slots = entry.slots.lock();
            let now = self.clock.now();
            match slots.held(crawler, now) {
                // The fleet may have another one.
                Some(slot) if self.sharing.is_some() && slot.is_unconfirmed() => return UNJUDGED,
                Some(slot) => (slot.normalize(now, &config), now),
                None => return UNJUDGED,
            }
        };
        let snapshot = match state.stance(now, &config.timing.profile) {
            Stance::Rules(snapshot) => snapshot,
            Stance::AllowAll => return Hop::Allowed,
            Stance::Unknown | Stance::DisallowAll { .. } => return UNJUDGED,
        };
        let rules = snapshot.rules(crawler.tokens());
        let path = ComparisonPath::new(path.as_bytes());
        let verdict = rules.verdict(&path).map(|found| found.kind);
        // Another reading of the path is reason enough not to make the hop.
        if verdict != Some(RuleKind::Disallow)
            && config.path_guard
            && !matches!(rules.guard(&path), GuardVerdict::Allowed)
        {
            return UNJUDGED;
        }
        match (verdict, &*state) {
            (Some(RuleKind::Disallow), State::Successful { fresh, .. }) if now < fresh.until => {
                Hop::Disallowed
            }
            // A stale copy is reason enough not to make the hop, but not to treat the redirecting origin as one without
            // rules.
            (Some(RuleKind::Disallow), _) => UNJUDGED,
            _ => Hop::Allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_origin_waits_for_itself() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| {
            let url = format!("http://{name}.example/");
            (Origin::parse(&url).expect("a URL").0, Document::RobotsTxt)
        });
        let waits = WaitGraph::default();
        let first = waits.enter(&a, &b).expect("nothing waits");
        assert!(waits.enter(&b, &a).is_none(), "directly");
        let _second = waits.enter(&b, &c).expect("c waits for nothing");
        assert!(waits.enter(&c, &a).is_none(), "over b");
        // Another crawler's fetch of a is a second wait of the same kind.
        let again = waits.enter(&a, &b).expect("b waits for c alone");
        let _aside = waits.enter(&a, &d).expect("d waits for nothing");
        assert!(waits.enter(&d, &b).is_some(), "b waits for c alone");
        drop(first);
        assert!(waits.enter(&c, &a).is_none(), "one of the two still waits");
        drop(again);
        assert!(waits.enter(&c, &a).is_some(), "a waits for d alone");
    }

    #[test]
    fn a_tdmrep_json_waits_beside_the_robots_txt_of_its_origin() {
        let [a, b] = ["a", "b"].map(|name| {
            let url = format!("http://{name}.example/");
            Origin::parse(&url).expect("a URL").0
        });
        let robots = |origin: &Origin| (origin.clone(), Document::RobotsTxt);
        let waits = WaitGraph::default();
        let file = (a.clone(), Document::TdmRep);
        let _first = waits.enter(&file, &robots(&b)).expect("nothing waits");
        let second = waits.enter(&robots(&b), &robots(&a));
        assert!(second.is_some(), "a's robots.txt waits for nothing");
    }
}
