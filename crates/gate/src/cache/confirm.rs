//! The confirmation of a refusal to one identity by the answer to `*`.
//!
//! A refusal to one identity says nothing about the robots.txt until the origin refuses crawlgate's own User-Agent,
//! too: the flight of that identity then joins or starts the flight of `*`, within its own deadline, and the stricter
//! answer counts. So one fetch confirms the refusals of any number of identities.
//!
//! If `*` itself is signed, a verifier that refuses the signature refuses both. So a refusal to a signed fetch that
//! `*` cannot confirm is confirmed by one without a signature, and the stricter answer counts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::Shared;
use super::entry::{Change, Entry, FlightReason};
use super::fetch::FetchRequest;
use super::fetch_handle::{Ended, FetchHandle};
use super::flight::FetchTask;
use super::hops::FetchSubject;
use super::settings::Settings;
use crawlgate_config::RobotsConfig;
use crawlgate_origins::access::{Absence, AccessResult, Cause, Freshness};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, FetchedAs, Identity};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, State};
use crawlgate_store::{self as store, OtherAnswer};
use crawlgate_system::clock::Moment;

/// Greatest age of the state of `*` that may confirm a new answer to another identity.
const RECENT: Duration = Duration::from_secs(300);

/// The state of `*`.
struct Common {
    state: Arc<State>,
    fetched_as: Option<Arc<FetchedAs>>,
    /// The cause that the fetch changed no state; none if it did.
    failure: Option<Cause>,
}

impl Shared {
    /// Returns the state of `*`, if it is recent or its next attempt is not due; otherwise fetches it. `None` if that
    /// takes longer than `patience`.
    async fn common(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        subject: &FetchSubject,
        config: &RobotsConfig,
        patience: Duration,
    ) -> Option<Common> {
        let depth = subject.depth;
        let learnt = async {
            loop {
                let (common, flight) = self.look_at_common(entry, subject, config)?;
                let Some(mut flight) = flight else {
                    return Some(common);
                };
                match flight.ended().await {
                    Ended::Cut(waiting) if waiting > depth => {}
                    ended => {
                        let document = subject.identity.document();
                        return self.common_after(ended, entry, document, config);
                    }
                }
            }
        };
        timeout(patience, learnt).await.ok()?
    }

    /// Returns the state of `*` as it is, and the fetch to wait for unless it is recent.
    fn look_at_common(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        subject: &FetchSubject,
        config: &RobotsConfig,
    ) -> Option<(Common, Option<FetchHandle>)> {
        let mut slots = entry.slots.lock();
        let now = self.clock.now();
        let crawler = Crawler::common(subject.identity.document());
        let slot = slots.slot(crawler, now, &mut |change: Change<'_>| self.count(change))?;
        slot.used = now;
        let common = Common {
            state: slot.normalize(now, config),
            fetched_as: slot.fetched_as.clone(),
            failure: None,
        };
        let asked = (&subject.origin, subject.requester());
        let flight = (!is_recent(&common.state, now))
            .then(|| self.join(entry, asked, slot, subject.depth, FlightReason::Fetch));
        self.recount(&mut slots);
        Some((common, flight))
    }

    /// Returns the state of `*` after a fetch that has `ended`.
    fn common_after(
        &self,
        ended: Ended,
        entry: &Entry,
        document: Document,
        config: &RobotsConfig,
    ) -> Option<Common> {
        let mut slots = entry.slots.lock();
        let slot = slots.of(&Identity::common(document))?;
        let now = self.clock.now();
        Some(Common {
            state: slot.normalize(now, config),
            fetched_as: slot.fetched_as.clone(),
            failure: match ended {
                Ended::Cut(_) => Some(Cause::HopChain),
                Ended::Completed => slot.is_exhausted(now).then_some(Cause::Exhausted),
            },
        })
    }
}

/// Tells whether the state of `*` can confirm a new answer without a fetch.
fn is_recent(state: &State, now: Moment) -> bool {
    let is_waited_for = state.outage().is_some_and(|outage| now < outage.next_attempt);
    let learnt = match state {
        State::Successful { snapshot, .. } => Some(snapshot.fetched),
        State::Unavailable { fetched, .. } => Some(*fetched),
        State::NeverFetched | State::Unreachable { .. } => None,
    };
    is_waited_for || learnt.is_some_and(|learnt| now.since(learnt) < RECENT)
}

impl FetchTask {
    /// Returns the answer that counts: for a refusal that may concern only this identity, the stricter one of it and
    /// the answer to `*`.
    pub(super) async fn confirmed(
        &self,
        settings: &Settings,
        result: AccessResult,
        fetch: store::Fetch,
    ) -> (AccessResult, store::Fetch) {
        let own = settings.user_agents.own();
        let refusal = match &result {
            AccessResult::Unavailable { why, .. } if why.may_be_personal() => *why,
            _ => return (result, fetch),
        };
        let signed = settings.signed_as.of(self.subject.identity.client());
        let is_as_common = fetch.user_agent == own && signed == settings.signed_as.of(None);
        match (is_as_common, signed) {
            (true, None) => return (result, fetch),
            (true, Some(_)) => {
                return self.compare_unsigned(settings, result, refusal, fetch).await;
            }
            // Another User-Agent, or another signature.
            (false, _) => {}
        }
        // No crawler at all asks for the file where robots.txt disallows it to `*`.
        let document = self.subject.identity.document();
        let common = Identity::common(document);
        if document == Document::TdmRep
            && !self.shared.allows(&self.subject.origin, &common, document.path())
        {
            return (result, fetch);
        }
        let config = &settings.ours.config;
        let patience = config.fetch_timeout.saturating_sub(fetch.duration);
        let common = self.shared.common(&self.entry, &self.subject, config, patience);
        let (state, fetched_as, failure) = match common.await {
            Some(common) => (Some(common.state), common.fetched_as, common.failure),
            None => (None, None, Some(Cause::Timeout)),
        };
        let now = self.shared.clock.now();
        let compared = Compared {
            now,
            user_agent: match fetched_as {
                Some(fetched_as) => fetched_as.user_agent.to_string(),
                None => own.to_owned(),
            },
            refused: OtherAnswer { user_agent: fetch.user_agent.clone(), code: refusal.code() },
            fetch,
        };
        match state.as_deref() {
            Some(State::Successful { snapshot, fresh, .. }) if now < fresh.until => {
                compared.successful(snapshot, fresh)
            }
            Some(State::Unavailable { why, fresh, .. }) if now < fresh.until => {
                (result, compared.unavailable(*why))
            }
            other => {
                let outage = || other.and_then(State::outage);
                let cause = failure.or_else(|| Some(outage()?.cause.clone()));
                compared.unreachable(cause.unwrap_or(Cause::Internal))
            }
        }
    }

    /// Fetches again without a signature, after a `refusal` to a signed fetch; returns the stricter answer.
    async fn compare_unsigned(
        &self,
        settings: &Settings,
        result: AccessResult,
        refusal: Absence,
        fetch: store::Fetch,
    ) -> (AccessResult, store::Fetch) {
        let asked = FetchRequest { signed_as: None, ..self.asked(settings) };
        let (unsigned, second) = (self.shared.fetch)(asked).await;
        if let AccessResult::Unavailable { why, .. } = unsigned {
            let other = OtherAnswer { user_agent: second.user_agent, code: why.code() };
            let other = Some(other);
            return (result, store::Fetch { other, ..fetch });
        }
        let other = OtherAnswer { user_agent: fetch.user_agent, code: refusal.code() };
        let stricter = store::Fetch {
            other: Some(other),
            duration: fetch.duration + second.time.since(fetch.time),
            ..second
        };
        (unsigned, stricter)
    }
}

/// A refusal to one identity beside the answer to `*`.
struct Compared {
    now: Moment,
    /// The User-Agent of the answer to `*`.
    user_agent: String,
    /// The refusal.
    refused: OtherAnswer,
    /// The fetch that was refused.
    fetch: store::Fetch,
}

impl Compared {
    /// Returns the answer that counts where `*` is given a file.
    fn successful(self, snapshot: &Arc<Snapshot>, fresh: &Fresh) -> (AccessResult, store::Fetch) {
        let result = AccessResult::Successful {
            snapshot: Arc::clone(snapshot),
            freshness: Freshness::MaxAge(fresh.until.since(self.now)),
        };
        let fetch = store::Fetch {
            time: self.now,
            duration: self.duration(),
            user_agent: self.user_agent,
            other: Some(self.refused),
            result: result.name().to_owned(),
            cause: None,
            status: Some(snapshot.status),
            hops: vec![snapshot.final_url.to_string()],
            sha256: Some(snapshot.sha256),
            fields: Vec::new(),
            identity: self.fetch.identity,
        };
        (result, fetch)
    }

    /// Returns the record of the refusal where `*` is refused, too.
    fn unavailable(self, why: Absence) -> store::Fetch {
        let other = OtherAnswer { user_agent: self.user_agent, code: why.code() };
        store::Fetch { other: Some(other), ..self.fetch }
    }

    /// Returns the answer that counts where that to `*` is unknown.
    fn unreachable(self, cause: Cause) -> (AccessResult, store::Fetch) {
        let result = AccessResult::Unreachable { cause: cause.clone(), retry_after: None };
        let fetch = store::Fetch {
            time: self.now,
            duration: self.duration(),
            user_agent: self.user_agent,
            other: Some(self.refused),
            result: result.name().to_owned(),
            cause: Some(cause.code()),
            status: match cause {
                Cause::Status(status) => Some(status),
                _ => None,
            },
            fields: Vec::new(),
            ..self.fetch
        };
        (result, fetch)
    }

    /// Returns the time that both fetches took.
    fn duration(&self) -> Duration {
        self.fetch.duration + self.now.since(self.fetch.time)
    }
}
