//! tdmrep.json: the second document of an origin, with the same flights and states as robots.txt.
//!
//! It is fetched only where robots.txt allows it to the crawler: [`crate`] asks before each look-up, and a refresh by
//! an operator asks here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::entry::Entry;
use super::lookup::View;
use super::{RobotsCache, Shared};
use crawlgate_config::ProfileName;
use crawlgate_origins::access::Hop;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, Identity};
use crawlgate_robots::Origin;

/// The effort for a tdmrep.json that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Fetch it, and wait for it.
    Wait,
    /// Fetch it in the background.
    Start,
    /// Take what is in memory.
    Look,
}

impl RobotsCache {
    /// Returns the state of the tdmrep.json of `origin` for `crawler`. The caller has asked robots.txt whether the crawler
    /// may fetch the file.
    pub async fn tdmrep(
        &self,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        effort: Effort,
    ) -> View {
        let shared = &self.shared;
        let crawler = crawler.asking(Document::TdmRep);
        let entry = shared.entry(origin);
        if effort == Effort::Look {
            return shared.present(&entry, crawler, profile);
        }
        let (view, awaited) = shared.look(&entry, origin, crawler, profile, 0);
        match awaited {
            Some(awaited) if effort == Effort::Wait => {
                let waiting = shared.wait(&entry, origin, crawler, profile, awaited);
                Box::pin(waiting).await
            }
            Some(_) | None => view,
        }
    }
}

impl Shared {
    /// Returns the view of what is in memory.
    fn present(&self, entry: &Entry, crawler: Crawler<'_>, profile: Option<ProfileName>) -> View {
        let (mut slots, context) = self.begin_view(entry, crawler.document(), profile);
        let now = context.now();
        entry.used.store(now.as_millis(), Ordering::Relaxed);
        context.view(slots.held(crawler, now))
    }

    /// Tells whether the document may be fetched for this identity without a request: tdmrep.json only while it is read,
    /// and where an override or the known robots.txt allows it.
    pub(super) fn may_refresh(self: &Arc<Self>, origin: &Origin, identity: &Identity) -> bool {
        match identity.document() {
            Document::RobotsTxt => true,
            document @ Document::TdmRep => {
                let is_read = || {
                    let settings = self.settings.load();
                    settings.ours.config.signals.tdmrep.is_read()
                };
                is_read() && self.allows(origin, identity, document.path())
            }
        }
    }

    /// Tells whether a path of the origin may be fetched, by an override or by the known robots.txt for this identity.
    pub(super) fn allows(&self, origin: &Origin, identity: &Identity, path: &str) -> bool {
        if let Some(decided) = self.hop_by_override(origin, path) {
            return decided == Hop::Allowed;
        }
        let tokens = identity.token().map_or(&[][..], std::slice::from_ref);
        let crawler = Crawler::with(identity, tokens).asking(Document::RobotsTxt);
        self.hop_as_known(origin, path, crawler) == Hop::Allowed
    }
}
