//! The one asynchronous question: may this request go out now?
//!
//! Plain requests, intercepted requests and tunnels all ask here, and nowhere else. The gate checks in this order: that
//! the decision can be recorded; who the crawler says it is; overrides; the origin's robots.txt; its tdmrep.json; the client's quota;
//! the origin's pace.

pub mod cache;
pub mod explain;
mod hold;
mod judge;
mod operator;
mod tdmrep;
mod view;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::operator::{Asserted, Operator};
use crate::cache::{PersistentStates, RobotsCache};
use crawlgate_config::Config;
use crawlgate_egress::{Egress, RobotsFetcher};
use crawlgate_evidence::Log;
use crawlgate_origins::identity::Crawler;
use crawlgate_policy::agent::{Agent, Agents};
use crawlgate_policy::generation::{Changes, Generation};
use crawlgate_policy::overrides::Override;
use crawlgate_policy::{Decision, Reason, Ruling, Target, Verdict};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_turns::client::account::ClientAccount;
use crawlgate_turns::client::{Client, Clients};
use crawlgate_turns::fleet::{Fleet, LinkState};
use crawlgate_turns::pace::{self, Ask, EffectivePace, Pace, SharedPace as _};

/// Decides about requests, after fetching and waiting for the inputs of each decision.
pub struct Gate {
    egress: Egress,
    robots_cache: RobotsCache,
    pace: Pace,
    log: Arc<Log>,
    clock: Clock,
    clients: Clients,
    /// None without a fleet.
    fleet: Option<Arc<Fleet>>,
    agents: ArcSwap<Agents>,
    operator: ArcSwap<Operator>,
    /// Settings and overrides by source, combined again when one source changes.
    asserted: Mutex<Asserted>,
    /// Notifies subscribers that settings or overrides have changed.
    changes: watch::Sender<()>,
    /// Counts these changes and updates of robots.txt files; permits are compared with it.
    generations: Arc<Changes>,
}

/// The requester of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// Address that the request came from.
    pub address: IpAddr,
    /// The client that the request belongs to.
    pub client: &'a Client,
    /// The crawler, as it is judged.
    pub agent: &'a Agent,
    /// Generation read before client and agent were found, so that a permit is never newer than either.
    pub generation: Generation,
}

impl<'a> Requester<'a> {
    /// Returns the crawler under which robots.txt is fetched and cached.
    fn crawler(&self) -> Crawler<'a> {
        let requester = self.client.requester(self.address);
        self.client.crawler(self.agent).asked_by(Some(requester))
    }
}

/// Turn and charge that a request already has when it is judged again.
#[derive(Debug, Default)]
pub struct PriorClaim {
    /// The request's turn at its origin.
    pub turn: Option<pace::Turn>,
    /// True if the request was already sent once under this turn, so that the turn is not given back.
    pub is_used: bool,
    /// The client usage that counted the request.
    pub charged: Option<Arc<ClientAccount>>,
}

/// Outcome to record if the client disconnects while its request is held.
#[derive(Debug)]
pub struct HeldOutcome<'a> {
    /// The decision made before the request was held. The request has not been sent.
    pub decision: &'a mut Decision,
    /// The pace limit that the request waits for.
    pub pace: &'a mut Option<EffectivePace>,
}

/// A ruling, with the hold, turn and charge of its request.
#[derive(Debug)]
pub struct Cleared {
    /// Permit or refusal.
    pub ruling: Ruling,
    /// Time that the request was held for robots.txt and for politeness.
    pub hold: Duration,
    /// The request's turn while it is under way; `None` if it takes none.
    pub turn: Option<pace::Turn>,
    /// The pace limit that held or refused the request, or a crawl delay that was clamped.
    pub pace: Option<EffectivePace>,
    /// The client usage that counted the request, if its client has bounds.
    pub charged: Option<Arc<ClientAccount>>,
}

impl Cleared {
    /// Builds a result without a turn.
    fn at_once(ruling: Ruling, hold: Duration, charged: Option<Arc<ClientAccount>>) -> Cleared {
        Cleared { ruling, hold, turn: None, pace: None, charged }
    }
}

/// Pacing of a decision for an external proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// The decision waits for a turn and takes it.
    InTurn,
    /// The other proxy keeps the pace itself.
    AtOnce,
}

/// Kind of traffic to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request with a known path.
    Request,
    /// An opaque tunnel: it will not be intercepted.
    Tunnel,
}

impl Gate {
    /// Creates a gate that knows no origin yet.
    pub fn new(
        config: &Config,
        (egress, fetcher): (Egress, RobotsFetcher),
        log: Arc<Log>,
        fleet: Option<Arc<Fleet>>,
        clock: Clock,
    ) -> Gate {
        let asserted = Asserted {
            config: config.policy.clone(),
            agent: config.agent.clone(),
            signals: Arc::clone(&config.robots.signals),
            stored: Vec::new(),
        };
        let operator = asserted.operator();
        let pace = Pace::in_fleet(&config.pace, fleet.as_ref(), clock.clone());
        let robots_cache = RobotsCache::with_memory(
            config,
            fetcher,
            PersistentStates::of(&log),
            fleet.clone(),
            pace.clone(),
            clock.clone(),
        );
        robots_cache.set_overrides(Arc::clone(&operator.overrides));
        let gate = Gate {
            robots_cache,
            pace,
            clients: Clients::new(config, fleet.clone(), clock.clone()),
            fleet,
            log,
            clock,
            agents: ArcSwap::from_pointee(Agents::new(&config.agent.product_tokens)),
            operator: ArcSwap::from_pointee(operator),
            asserted: Mutex::new(asserted),
            changes: watch::Sender::new(()),
            generations: egress.changes(),
            egress,
        };
        gate.register_policy_settings(config);
        gate
    }

    /// Puts new settings in force for decisions from now on.
    pub fn reconfigure(&self, config: &Config) {
        // Stored before a record can refer to them.
        self.register_policy_settings(config);
        self.robots_cache.reconfigure(config);
        self.pace.reconfigure(&config.pace);
        self.clients.reconfigure(config);
        if let Some(fleet) = &self.fleet {
            fleet.reconfigure(config);
        }
        let agents = Agents::new(&config.agent.product_tokens);
        self.agents.store(Arc::new(agents));
        let mut asserted = self.asserted.lock();
        asserted.config = config.policy.clone();
        asserted.agent = config.agent.clone();
        asserted.signals = Arc::clone(&config.robots.signals);
        self.put_in_force(&asserted);
    }

    /// Puts the store's overrides in force beside the configured ones, from the next request on. Replaces those of
    /// earlier calls.
    pub fn set_overrides(&self, stored: Vec<Override>) {
        let mut asserted = self.asserted.lock();
        if asserted.stored != stored {
            asserted.stored = stored;
            self.put_in_force(&asserted);
        }
    }

    /// Puts the operator's assertions in force, for requests and for redirects of a robots.txt.
    fn put_in_force(&self, asserted: &Asserted) {
        let operator = asserted.operator();
        self.robots_cache.set_overrides(Arc::clone(&operator.overrides));
        self.operator.store(Arc::new(operator));
        self.invalidate_permits();
    }

    /// Makes all permits stale and has open tunnels judged again. Called once the change is in force.
    fn invalidate_permits(&self) {
        self.generations.settings_changed();
        self.changes.send_replace(());
    }

    /// Returns the generation of settings, overrides and clients in force.
    pub fn generation(&self) -> Generation {
        self.generations.generation()
    }

    /// Tells whether `ruling`, made under `generation`, still follows from the settings in force. A request that was
    /// held until this instance was cut off from its fleet does not go.
    pub fn stands(&self, ruling: &Ruling, generation: Generation) -> bool {
        match ruling {
            Ruling::Allow(permit, _) => {
                permit.current(&self.generations).is_some() && !self.is_cut_off()
            }
            Ruling::Refuse(_) => self.generations.is_current(generation),
        }
    }

    /// Subscribes to changes of settings and overrides, so that open tunnels are judged again.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Tells whether an open tunnel or WebSocket to this address, as far as it is known, would be denied now.
    pub async fn denies(
        &self,
        kind: Kind,
        target: Target,
        dialled: Option<SocketAddr>,
        requester: &Requester<'_>,
    ) -> bool {
        let now = self.clock.now();
        // Without a connection to make, nothing looks the name up.
        let is_prohibited = |peer| self.egress.check_peer(&target.origin, peer).is_err();
        self.is_cut_off()
            || dialled.is_some_and(is_prohibited)
            || is_denied(&self.judge(kind, target, requester, now).await)
    }

    /// Tells the same of a tunnel that carries neither TLS nor HTTP.
    pub fn denies_opaque(&self, target: Target, requester: &Requester<'_>) -> bool {
        self.is_cut_off() || is_denied(&self.judge_opaque(target, requester, self.clock.now()))
    }

    /// Stores the policy settings that records refer to.
    fn register_policy_settings(&self, config: &Config) {
        let profiles = config.clients.iter().filter_map(|client| client.profile);
        let profiles: HashSet<_> = profiles.collect();
        let clients = profiles.into_iter().map(|name| config.robots.under(name));
        let all = std::iter::once(config.robots.clone()).chain(clients);
        for settings in all.map(|robots| robots.policy_settings()) {
            self.log.policy(&settings.text());
        }
    }

    /// Returns the crawler that a request of `client` with these fields is judged as.
    pub fn identify(&self, client: &Client, headers: &HeaderMap) -> Arc<Agent> {
        self.agents.load().identify(client.chain.as_ref(), headers)
    }

    /// Returns the clients.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Returns the robots cache.
    pub fn robots_cache(&self) -> &RobotsCache {
        &self.robots_cache
    }

    /// Decides whether `target`, asked for at `asked`, may be sent. While the request waits, `outcome` holds its
    /// outcome so far. A request that has waited before keeps its `prior` claim.
    ///
    /// The decision ignores changes during the wait: [`Gate::stands`] reports them, and the caller then judges the
    /// request again, with its client and agent as they are after the wait.
    pub async fn clear(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        asked: Moment,
        prior: PriorClaim,
        mut outcome: HeldOutcome<'_>,
    ) -> Cleared {
        let PriorClaim { turn, is_used, mut charged } = prior;
        if let Err(refusal) = self.ready(asked).await {
            let ruling = Ruling::refuse(refusal);
            return Cleared::at_once(ruling, Duration::ZERO, charged);
        }
        let account = &requester.client.account;
        let is_charged = charged.as_ref().is_some_and(|prior| Arc::ptr_eq(prior, account));
        let is_bounded = requester.client.is_bounded() && !is_charged;
        let quota = match is_bounded {
            true => account.has_left(requester.client, asked).err(),
            false => None,
        };
        let mut ruling = self.judge_within(kind, target, requester, asked, quota).await;
        if is_bounded {
            // Boxed: most clients have no bounds.
            ruling = Box::pin(self.charge(kind, ruling, requester, &mut outcome)).await;
            let reason = ruling.decision().reason;
            let is_entered = !matches!(reason, Reason::QuotaSpent | Reason::FleetCut);
            charged = is_entered.then(|| Arc::clone(account));
        }
        let hold = ruling.decision().at.since(asked);
        let (permit, decision) = match ruling {
            Ruling::Allow(permit, decision) if self.takes_turn(&decision) => (permit, decision),
            ruling => {
                if let Some(turn) = turn.filter(|_| !is_used) {
                    self.pace.give_back(turn);
                }
                return Cleared::at_once(ruling, hold, charged);
            }
        };
        let crawl_delay = self.crawl_delay(&decision, requester);
        let ask = Ask { origin: &permit.target().origin, crawl_delay: crawl_delay.as_ref() };
        if let Some(turn) = turn.or_else(|| self.pace.try_turn(ask, decision.at)) {
            let kept = crawl_delay.and_then(|crawl_delay| self.pace.kept_of(&crawl_delay));
            return Cleared {
                ruling: Ruling::Allow(permit, decision),
                hold,
                turn: Some(turn),
                pace: kept.filter(|pace| pace.clamped),
                charged,
            };
        }
        // Boxed: a rare wait should not burden every request's future.
        outcome.decision.clone_from(&decision);
        let held = self.await_turn(kind, permit, decision, requester, hold, outcome.pace);
        let cleared = Box::pin(held).await;
        Cleared { charged, ..cleared }
    }

    /// Decides like [`clear`](Gate::clear), but charges no client and waits for no turn: another proxy that sends the
    /// request keeps the pace itself.
    pub async fn clear_at_once(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        asked: Moment,
    ) -> Cleared {
        if let Err(refusal) = self.ready(asked).await {
            let ruling = Ruling::refuse(refusal);
            return Cleared::at_once(ruling, Duration::ZERO, None);
        }
        let ruling = self.judge(kind, target, requester, asked).await;
        let hold = ruling.decision().at.since(asked);
        Cleared::at_once(ruling, hold, None)
    }

    /// Waits until decisions can be made: the log takes them, and the fleet is heard.
    ///
    /// # Errors
    /// The decision on every request while they cannot.
    async fn ready(&self, asked: Moment) -> Result<(), Decision> {
        if self.log.ready().await.is_err() {
            return Err(Decision::bare(Reason::LogFailed, asked));
        }
        match self.is_cut_off() {
            true => Err(cut_off(asked)),
            false => Ok(()),
        }
    }

    /// Tells whether this instance has not heard from its fleet for too long to let anything out.
    fn is_cut_off(&self) -> bool {
        let fleet = self.fleet.as_ref();
        fleet.is_some_and(|fleet| fleet.link() == LinkState::CutOff)
    }

    /// Waits until this instance is cut off from its fleet: then no held request goes any more.
    async fn until_cut_off(&self) {
        let mut changes = self.changes.subscribe();
        while !self.is_cut_off() {
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// Makes all permits stale and ends open tunnels, because this instance is cut off from its fleet.
    pub fn cut_off(&self) {
        self.invalidate_permits();
    }

    /// Returns this instance's part in its fleet, if it has one.
    pub fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.as_ref()
    }

    /// Returns the pace of all origins.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Decides whether a tunnel that carries neither TLS nor HTTP may be opened. Like all others, it is refused if it
    /// cannot be recorded.
    pub async fn clear_opaque(
        &self,
        target: Target,
        requester: &Requester<'_>,
        now: Moment,
    ) -> Ruling {
        if let Err(refusal) = self.ready(now).await {
            return Ruling::refuse(refusal);
        }
        self.judge_opaque(target, requester, now)
    }
}

/// Limit on judgements of one request. Each but the first follows a change by the operator or an origin update while
/// the request waited.
pub const MAX_JUDGEMENTS: usize = 8;

/// Delay before a request that was refused for lack of the fleet may be repeated.
const CUT_OFF: Duration = Duration::from_secs(5);

/// Delay before a request that was overtaken by one change after another may be repeated.
const UNSETTLED: Duration = Duration::from_secs(1);

/// Returns the decision on a request that a change overtook at each of [`MAX_JUDGEMENTS`].
pub fn always_overtaken(now: Moment) -> Decision {
    Decision { retry_at: Some(now + UNSETTLED), ..Decision::bare(Reason::RobotsPending, now) }
}

/// Returns the decision on a request that cannot go because the fleet's engine does not answer.
fn cut_off(now: Moment) -> Decision {
    Decision { retry_at: Some(now + CUT_OFF), ..Decision::bare(Reason::FleetCut, now) }
}

/// Tells whether what is open under this ruling must end. A tdmrep.json that has not come counts as a denial: the file
/// may reserve what is open, and nothing asks again when it comes.
fn is_denied(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Refuse(decision)
        if decision.verdict() == Verdict::Deny || decision.reason == Reason::UsagePending)
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("robots_cache", &self.robots_cache)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
