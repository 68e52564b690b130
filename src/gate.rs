//! The one asynchronous question: may this go out, now?
//!
//! Plain requests, intercepted ones and tunnels all ask here, and nowhere else. In order: can the
//! decision be recorded; does the crawler say who it is; has a person asserted anything; what does the origin's
//! robots.txt say; has the client anything left; is it this origin's turn.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::agent::{Agent, Agents};
use crate::audit::Log;
use crate::client::account::{Account, Spent};
use crate::client::{Client, Clients};
use crate::clock::{Clock, Moment};
use crate::config::{AgentConfig, Config, Mode, PolicyConfig};
use crate::egress::{Egress, Prohibited};
use crate::pace::{self, Ask, InForce, Pace, TooEarly};
use crate::policy::generation::{Changes, Generation};
use crate::policy::identity::Required;
use crate::policy::overrides::{Override, Overrides};
use crate::policy::reporting::Reporting;
use crate::policy::terms::Terms;
use crate::policy::{self, Decision, Permit, Reason, Ruling, Target, Under, Verdict};
use crate::rep::Origin;
use crate::robots::identity::Crawler;
use crate::robots::registry::{Memory, Registry, View};
use crate::robots::state::{Stance, State};
use crate::robots::wish::Wish;

/// When a request may come again that was refused for want of descriptors.
const SHORTLY: Duration = Duration::from_secs(1);

/// Decides, after fetching and waiting for what a decision needs.
pub struct Gate {
    egress: Egress,
    registry: Registry,
    pace: Pace,
    log: Arc<Log>,
    clock: Clock,
    clients: Clients,
    agents: ArcSwap<Agents>,
    operator: ArcSwap<Operator>,
    /// Overrides by where they come from, to be put together when one of them changes.
    asserted: Mutex<Asserted>,
    /// Tells that settings or overrides are others now.
    changes: watch::Sender<()>,
    /// Counts that, and landings of robots.txt files: permits are compared with it.
    generations: Arc<Changes>,
}

/// What the operator says over robots.txt.
struct Operator {
    overrides: Overrides,
    reporting: Reporting,
    required: Required,
}

impl Operator {
    /// The mode that what a client asks of an origin is judged in.
    fn mode(&self, origin: &Origin, asker: &Asker<'_>) -> Mode {
        self.reporting
            .mode(origin, asker.client.mode, asker.address)
    }
}

struct Asserted {
    config: PolicyConfig,
    agent: AgentConfig,
    stored: Vec<Override>,
}

impl Asserted {
    fn operator(&self) -> Operator {
        let all = self.config.overrides.iter().chain(&self.stored);
        Operator {
            overrides: Overrides::new(all.cloned()),
            reporting: Reporting::of(&self.config),
            required: Required::of(&self.agent),
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// From where.
    pub address: IpAddr,
    /// For whom.
    pub client: &'a Client,
    /// As whom the crawler is judged.
    pub agent: &'a Agent,
    /// Read before client and agent were found: a permit is no newer than these are.
    pub generation: Generation,
}

impl<'a> Asker<'a> {
    /// As whom robots.txt is fetched and known.
    fn crawler(&self) -> Crawler<'a> {
        Crawler::of(self.client, self.agent)
    }
}

/// Who asks a question for a crawler.
#[derive(Debug, Clone, Copy)]
pub struct Questioner<'a> {
    /// From where.
    pub address: IpAddr,
    /// For whom.
    pub client: &'a Arc<Client>,
    /// The crawler's identification.
    pub headers: &'a HeaderMap,
}

/// What a request has had of its client and its origin when it is judged again.
#[derive(Debug, Default)]
pub struct Had {
    /// Its turn at its origin.
    pub turn: Option<pace::Turn>,
    /// The request has gone out by this turn once: nothing gives the turn back.
    pub is_used: bool,
    /// The account that it was entered in.
    pub charged: Option<Arc<Account>>,
}

/// What stands of a request that is held, for whoever has to tell of it should it be broken off.
#[derive(Debug)]
pub struct Meantime<'a> {
    /// What was decided before it was held. It has not gone all the same.
    pub decision: &'a mut Decision,
    /// What it waits for, of its origin's pace.
    pub pace: &'a mut Option<InForce>,
}

/// A ruling, and what it took.
#[derive(Debug)]
pub struct Cleared {
    /// Whether it may go out.
    pub ruling: Ruling,
    /// How long the request was held for robots.txt and for politeness.
    pub hold: Duration,
    /// Its turn, for as long as it is under way; none where it takes none.
    pub turn: Option<pace::Turn>,
    /// What held or refused it, or was shortened, of its origin's pace.
    pub pace: Option<InForce>,
    /// The account that it was entered in, where its client's has bounds.
    pub charged: Option<Arc<Account>>,
}

impl Cleared {
    /// What takes no turn.
    fn at_once(ruling: Ruling, hold: Duration, charged: Option<Arc<Account>>) -> Cleared {
        Cleared {
            ruling,
            hold,
            turn: None,
            pace: None,
            charged,
        }
    }
}

/// A decision without a permit: somebody else sends what it lets out.
#[derive(Debug)]
pub struct Advised {
    /// What was decided.
    pub decision: Decision,
    /// For whom.
    pub client: Arc<Client>,
    /// As whom the crawler was judged.
    pub agent: Arc<Agent>,
    /// How long that was held for robots.txt and, where a turn was taken, for politeness.
    pub hold: Duration,
    /// What held or refused it, or was shortened, of its origin's pace.
    pub pace: Option<InForce>,
}

impl Advised {
    fn refused(decision: Decision, client: Arc<Client>, asked: Moment) -> Advised {
        Advised {
            hold: decision.at.since(asked),
            decision,
            client,
            agent: Arc::default(),
            pace: None,
        }
    }

    fn of(cleared: Cleared, client: Arc<Client>, agent: Arc<Agent>) -> Advised {
        let decision = match cleared.ruling {
            Ruling::Clear(_, decision) | Ruling::Refuse(decision) => decision,
        };
        Advised {
            decision,
            client,
            agent,
            hold: cleared.hold,
            pace: cleared.pace,
        }
    }
}

/// Whether advice waits for its origin's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// It waits for a turn, and takes it.
    InTurn,
    /// Whoever asks sees to the pace.
    AtOnce,
}

/// What wants to go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request whose path is known.
    Request,
    /// A tunnel that will not be looked into.
    Tunnel,
}

impl Gate {
    /// A gate that knows nothing yet.
    pub fn new(config: &Config, egress: Egress, log: Arc<Log>, clock: Clock) -> Gate {
        let asserted = Asserted {
            config: config.policy.clone(),
            agent: config.agent.clone(),
            stored: Vec::new(),
        };
        let pace = Pace::new(&config.pace, clock.clone());
        let gate = Gate {
            registry: Registry::with_memory(
                config,
                egress.clone(),
                Memory::of(&log),
                pace.clone(),
                clock.clone(),
            ),
            pace,
            clients: Clients::new(config, clock.clone()),
            log,
            clock,
            agents: ArcSwap::from_pointee(Agents::new(&config.agent.product_tokens)),
            operator: ArcSwap::from_pointee(asserted.operator()),
            asserted: Mutex::new(asserted),
            changes: watch::Sender::new(()),
            generations: egress.changes(),
            egress,
        };
        gate.register_terms(config);
        gate
    }

    /// Puts new settings in force for decisions from now on.
    pub fn reconfigure(&self, config: &Config) {
        // Kept before a record can name them.
        self.register_terms(config);
        self.registry.reconfigure(config);
        self.pace.reconfigure(&config.pace);
        self.clients.reconfigure(config);
        let agents = Agents::new(&config.agent.product_tokens);
        self.agents.store(Arc::new(agents));
        let mut asserted = self.asserted.lock();
        asserted.config = config.policy.clone();
        asserted.agent = config.agent.clone();
        self.operator.store(Arc::new(asserted.operator()));
        self.tell_changed();
    }

    /// Puts the overrides of the store in force beside those of the configuration, from the next request on. Replaces
    /// those that it was given before.
    pub fn set_overrides(&self, stored: Vec<Override>) {
        let mut asserted = self.asserted.lock();
        if asserted.stored != stored {
            asserted.stored = stored;
            self.operator.store(Arc::new(asserted.operator()));
            self.tell_changed();
        }
    }

    /// Makes all permits stale, and has what is open judged again. Called when the change is in force.
    fn tell_changed(&self) {
        self.generations.settings_changed();
        self.changes.send_replace(());
    }

    /// Returns the generation of settings, overrides and clients in force.
    pub fn generation(&self) -> Generation {
        self.generations.generation()
    }

    /// Tells whether `ruling`, on what was asked under `generation`, still follows from what is in force.
    pub fn stands(&self, ruling: &Ruling, generation: Generation) -> bool {
        match ruling {
            Ruling::Clear(permit, _) => permit.current(&self.generations).is_some(),
            Ruling::Refuse(_) => self.generations.is_current(generation),
        }
    }

    /// Tells of each change of settings and overrides from now on: what was let out once and still goes on is to be
    /// judged again.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether what was let through and still goes on would be denied now.
    pub async fn denies(&self, kind: Kind, target: Target, asker: &Asker<'_>) -> bool {
        let now = self.clock.now();
        is_denied(&self.judge(kind, target, asker, now).await)
    }

    /// The same for a tunnel in which neither TLS nor HTTP is spoken.
    pub fn denies_opaque(&self, target: Target, asker: &Asker<'_>) -> bool {
        is_denied(&self.judge_opaque(target, asker, self.clock.now()))
    }

    /// Sees to it that the settings that records name are kept with them.
    fn register_terms(&self, config: &Config) {
        let profiles = config.clients.iter().filter_map(|client| client.profile);
        let profiles: HashSet<_> = profiles.collect();
        let clients = profiles.into_iter().map(|name| config.robots.under(name));
        let all = std::iter::once(config.robots.clone()).chain(clients);
        for terms in all.map(|robots| Terms::of(&robots)) {
            let digest = terms.digest().to_string();
            self.log.policy(digest.into(), terms.text().into());
        }
    }

    /// As whom a request of `client` with these fields is judged.
    pub fn identify(&self, client: &Client, headers: &HeaderMap) -> Arc<Agent> {
        self.agents.load().identify(client, headers)
    }

    /// Who the clients are.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// What is known of origins.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Decides whether `target`, asked for at `asked`, goes out. While the request waits, what is known stands in
    /// `meantime`. It may have waited before, and keeps what it `had` then.
    ///
    /// What has changed while it waited is not taken into account: [`Gate::stands`] tells that, and the request is to be
    /// judged again, as whoever its client and agent are then.
    pub async fn clear(
        &self,
        kind: Kind,
        target: Target,
        asker: &Asker<'_>,
        asked: Moment,
        had: Had,
        mut meantime: Meantime<'_>,
    ) -> Cleared {
        let Had {
            turn,
            is_used,
            mut charged,
        } = had;
        if self.log.ready().await.is_err() {
            let ruling = Ruling::Refuse(Decision::bare(Reason::LogFailed, asked));
            return Cleared::at_once(ruling, Duration::ZERO, charged);
        }
        let account = &asker.client.account;
        let is_charged = charged
            .as_ref()
            .is_some_and(|had| Arc::ptr_eq(had, account));
        let is_bounded = asker.client.is_bounded() && !is_charged;
        let quota = match is_bounded {
            true => account.has_left(asker.client, asked).err(),
            false => None,
        };
        let mut ruling = self.judge_within(kind, target, asker, asked, quota).await;
        if is_bounded {
            // Boxed: most clients are not.
            ruling = Box::pin(self.charge(kind, ruling, asker, &mut meantime)).await;
            let is_entered = ruling.decision().reason != Reason::QuotaSpent;
            charged = is_entered.then(|| Arc::clone(account));
        }
        let hold = ruling.decision().at.since(asked);
        let (permit, decision) = match ruling {
            Ruling::Clear(permit, decision) if self.takes_turn(&decision) => (permit, decision),
            ruling => {
                if let Some(turn) = turn.filter(|_| !is_used) {
                    turn.give_back();
                }
                return Cleared::at_once(ruling, hold, charged);
            }
        };
        let wish = self.wish(&decision, asker);
        let ask = Ask {
            origin: &permit.target().origin,
            wish: wish.as_ref(),
        };
        if let Some(turn) = turn.or_else(|| self.pace.try_turn(ask, decision.at)) {
            let kept = wish.and_then(|wish| self.pace.kept_of(&wish));
            return Cleared {
                ruling: Ruling::Clear(permit, decision),
                hold,
                turn: Some(turn),
                pace: kept.filter(|pace| pace.clamped),
                charged,
            };
        }
        // Boxed: a rare wait should not burden every request's future.
        *meantime.decision = decision.clone();
        let held = self.await_turn(kind, permit, decision, asker, hold, meantime.pace);
        let cleared = Box::pin(held).await;
        Cleared { charged, ..cleared }
    }

    /// Decides whether `target` may go out, now, by the hand of another proxy. As [`clear`](Gate::clear), but nothing can be
    /// sent on it from here. What changes meanwhile is judged again; the question is `asker`'s as it stands then.
    pub async fn advise(
        &self,
        kind: Kind,
        target: Target,
        asker: &Questioner<'_>,
        asked: Moment,
        pacing: Pacing,
        meantime: Meantime<'_>,
    ) -> Advised {
        let Meantime { decision, pace } = meantime;
        let mut client = Arc::clone(asker.client);
        let mut had = Had::default();
        for _ in 0..MOST_JUDGEMENTS {
            let generation = self.generation();
            let Some(standing) = self.clients.standing(&client) else {
                let decision = Decision::bare(Reason::UnknownClient, self.clock.now());
                return Advised::refused(decision, client, asked);
            };
            client = standing;
            let agent = self.identify(&client, asker.headers);
            let asker = Asker {
                address: asker.address,
                client: &client,
                agent: &agent,
                generation,
            };
            let meantime = Meantime {
                decision: &mut *decision,
                pace: &mut *pace,
            };
            let cleared = self
                .clear_for(kind, target.clone(), &asker, asked, had, pacing, meantime)
                .await;
            if !self.stands(&cleared.ruling, generation) {
                had = Had {
                    turn: cleared.turn,
                    is_used: false,
                    charged: cleared.charged,
                };
                continue;
            }
            let mut advised = Advised::of(cleared, Arc::clone(&client), Arc::clone(&agent));
            // Our own walls stand where we dial. What nobody has dialled for this decision is looked up for it.
            if advised.decision.basis.is_none()
                && advised.decision.lets_out()
                && let Err(wall) = self.egress.examine(&target.origin).await
            {
                advised.decision = Decision::walled(wall, advised.decision.at);
            }
            return advised;
        }
        Advised::refused(unsettled(self.clock.now()), client, asked)
    }

    #[allow(clippy::too_many_arguments, reason = "those of `clear`, and one more")]
    async fn clear_for(
        &self,
        kind: Kind,
        target: Target,
        asker: &Asker<'_>,
        asked: Moment,
        had: Had,
        pacing: Pacing,
        meantime: Meantime<'_>,
    ) -> Cleared {
        match pacing {
            Pacing::InTurn => self.clear(kind, target, asker, asked, had, meantime).await,
            Pacing::AtOnce if self.log.ready().await.is_err() => {
                let ruling = Ruling::Refuse(Decision::bare(Reason::LogFailed, asked));
                Cleared::at_once(ruling, Duration::ZERO, None)
            }
            Pacing::AtOnce => {
                let ruling = self.judge(kind, target, asker, asked).await;
                let hold = ruling.decision().at.since(asked);
                Cleared::at_once(ruling, hold, None)
            }
        }
    }

    /// Enters a request in its client's account. What would go out is held until it is the client's turn, and judged anew
    /// then. Before its origin's turn: one that was given is not kept waiting.
    async fn charge(
        &self,
        kind: Kind,
        ruling: Ruling,
        asker: &Asker<'_>,
        meantime: &mut Meantime<'_>,
    ) -> Ruling {
        let now = self.clock.now();
        let (permit, decision) = match ruling {
            Ruling::Clear(permit, decision) => (permit, decision),
            // It counts like any other, and is not held: a refusal costs nobody else anything.
            refused @ Ruling::Refuse(_) => {
                return match self.clients.enter(asker.client, now, &self.clock) {
                    Ok(entered) => {
                        entered.goes();
                        refused
                    }
                    Err(Spent(retry_at)) => Ruling::Refuse(spent(retry_at, now)),
                };
            }
        };
        match self.clients.enter(asker.client, now, &self.clock) {
            Ok(entered) if entered.hold().is_zero() => {
                entered.goes();
                Ruling::Clear(permit, decision)
            }
            Ok(entered) => {
                *meantime.decision = decision;
                // Broken off here, it gives its turn back.
                tokio::time::sleep(entered.hold()).await;
                let now = self.clock.now();
                let ruling = self.judge(kind, permit.surrender(), asker, now).await;
                // It is answered, whatever it is now.
                entered.goes();
                ruling
            }
            Err(Spent(retry_at)) => Ruling::Refuse(spent(retry_at, now)),
        }
    }

    /// Waits for the turn of what was cleared.
    async fn await_turn(
        &self,
        kind: Kind,
        permit: Permit,
        decision: Decision,
        asker: &Asker<'_>,
        hold: Duration,
        waits_for: &mut Option<InForce>,
    ) -> Cleared {
        let began = self.clock.now();
        let wish = self.wish(&decision, asker);
        let origin = permit.target().origin.clone();
        let address = match self.pace.is_per_address() {
            true => self.egress.address_of(&origin).await,
            false => None,
        };
        let ask = Ask {
            origin: &origin,
            wish: wish.as_ref(),
        };
        let client = asker.client.key(asker.address);
        match self
            .pace
            .turn_telling(ask, &client, address, waits_for)
            .await
        {
            Ok((turn, pace)) => {
                let now = self.clock.now();
                let paced = now.since(began);
                let kept = wish.and_then(|wish| self.pace.kept_of(&wish));
                let cleared = Cleared {
                    ruling: Ruling::Clear(permit, decision),
                    hold: hold + paced,
                    turn: Some(turn),
                    pace: pace.or(kept.filter(|pace| pace.clamped)),
                    charged: None,
                };
                match cleared.pace {
                    _ if paced.is_zero() => cleared,
                    // What was known when the wait began may not hold any more.
                    _ => self.judge_again(kind, cleared, asker, now).await,
                }
            }
            Err(TooEarly { at, pace }) => Cleared {
                ruling: policy::await_turn(permit, decision, at),
                hold: hold + self.clock.now().since(began),
                turn: None,
                pace: Some(pace),
                charged: None,
            },
        }
    }

    /// Judges anew what was held. A turn that it does not need now is given back.
    async fn judge_again(
        &self,
        kind: Kind,
        held: Cleared,
        asker: &Asker<'_>,
        now: Moment,
    ) -> Cleared {
        let Cleared {
            ruling,
            hold,
            turn,
            pace,
            charged,
        } = held;
        let ruling = match ruling {
            Ruling::Clear(permit, _) => self.judge(kind, permit.surrender(), asker, now).await,
            refused @ Ruling::Refuse(_) => refused,
        };
        let is_allowed = ruling.decision().verdict() == Verdict::Allow;
        let turn = match turn {
            Some(turn) if !is_allowed => {
                turn.give_back();
                None
            }
            turn => turn,
        };
        Cleared {
            ruling,
            hold,
            turn,
            pace,
            charged,
        }
    }

    /// Whether it goes out only when it is its origin's turn. What enforcement would have denied takes no turn.
    fn takes_turn(&self, decision: &Decision) -> bool {
        !self.pace.is_unlimited() && decision.verdict() == Verdict::Allow
    }

    /// What the origin's robots.txt asks this crawler to keep, where that is honoured and the file is what was judged by.
    fn wish(&self, decision: &Decision, asker: &Asker<'_>) -> Option<Arc<Wish>> {
        if !self.pace.honours_wishes() {
            return None;
        }
        match decision.reason {
            Reason::RobotsAllow | Reason::NoRules => {
                let snapshot = decision.basis.as_ref()?.snapshot()?;
                snapshot.wish(&asker.agent.tokens)
            }
            _ => None,
        }
    }

    /// The pace of all origins.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Whether something may open a tunnel in which neither TLS nor HTTP is spoken. As for all others, nothing goes out
    /// that cannot be recorded.
    pub async fn clear_opaque(&self, target: Target, asker: &Asker<'_>, now: Moment) -> Ruling {
        if self.log.ready().await.is_err() {
            return Ruling::Refuse(Decision::bare(Reason::LogFailed, now));
        }
        self.judge_opaque(target, asker, now)
    }

    fn judge_opaque(&self, target: Target, asker: &Asker<'_>, now: Moment) -> Ruling {
        let operator = self.operator.load();
        let mode = operator.mode(&target.origin, asker);
        let generation = asker.generation;
        policy::decide_opaque(target, Under { mode, generation }, now)
    }

    /// Judges by what is known of the origin, once that is known, or by what needs no robots.txt.
    async fn judge(&self, kind: Kind, target: Target, asker: &Asker<'_>, now: Moment) -> Ruling {
        self.judge_within(kind, target, asker, now, None).await
    }

    /// The same for a client whose `quota` may be spent.
    async fn judge_within(
        &self,
        kind: Kind,
        target: Target,
        asker: &Asker<'_>,
        now: Moment,
        quota: Option<Spent>,
    ) -> Ruling {
        if let Err(wall) = self.egress.judge(&target.origin) {
            return Ruling::Refuse(Decision::walled(wall, now));
        }
        let (target, mode) = match self.judge_without_robots(kind, target, asker, now) {
            Ok(ruling) => return ruling,
            Err(open) => open,
        };
        // A request that its client's quota refuses is no reason to fetch anything. Where nothing is to be fetched, robots.txt
        // comes first.
        if let Some(Spent(retry_at)) = quota
            && self
                .registry
                .would_fetch(&target.origin, asker.crawler(), asker.client.profile, now)
        {
            return Ruling::Refuse(spent(retry_at, now));
        }
        let mut view = self
            .registry
            .view_under(&target.origin, asker.crawler(), asker.client.profile)
            .await;
        if view.stance.is_walled() {
            // Boxed: it should not burden every request's future.
            let walled = Box::pin(self.examine(&target.origin, &view.state, asker));
            view = match walled.await {
                Ok(open) => open,
                Err(wall) => return Ruling::Refuse(Decision::walled(wall, view.now)),
            };
        }
        let View {
            state,
            fetched_as,
            stance,
            now,
            is_exhausted,
            by,
            landings,
        } = view;
        // Those that the stance was taken under, even if others are in force by now.
        let settings = policy::Settings {
            mode,
            generation: asker.generation.with(landings),
            path_guard: by.config.path_guard,
            terms: by.terms,
        };
        if let (Stance::Unknown, true) = (&stance, is_exhausted) {
            return Ruling::Refuse(Decision {
                retry_at: Some(now + SHORTLY),
                ..Decision::bare(Reason::Overloaded, now)
            });
        }
        if let Stance::Unknown = stance {
            let retry_at = now + by.config.timing.retry_min;
            return policy::await_robots(target, state, retry_at, settings, now);
        }
        let ruling = match kind {
            Kind::Tunnel => {
                policy::decide_tunnel(target, asker.agent, &state, &stance, settings, now)
            }
            Kind::Request => policy::decide(target, asker.agent, &state, &stance, settings, now),
        };
        ruling.with_fetched_as(fetched_as)
    }

    /// Asks the walls about an origin whose robots.txt they kept from being fetched: not what they said then, but what
    /// they say now. Where they let it through, the fetch is made up for.
    async fn examine(
        &self,
        origin: &Origin,
        seen: &Arc<State>,
        asker: &Asker<'_>,
    ) -> Result<View, Prohibited> {
        self.egress.examine(origin).await?;
        let profile = asker.client.profile;
        Ok(self
            .registry
            .doubt(origin, seen, asker.crawler(), profile)
            .await)
    }

    /// What rests on no robots.txt: the file itself, who the crawler is, and what a person has asserted. Else the target, and the mode that
    /// it is judged in.
    fn judge_without_robots(
        &self,
        kind: Kind,
        target: Target,
        asker: &Asker<'_>,
        now: Moment,
    ) -> Result<Ruling, (Target, Mode)> {
        let operator = self.operator.load();
        let mode = operator.mode(&target.origin, asker);
        let overrides = &operator.overrides;
        let under = Under {
            mode,
            generation: asker.generation,
        };
        let identify = |target| {
            let (agent, required) = (asker.agent, operator.required);
            policy::identity::decide_by_identity(target, agent, required, under, now)
        };
        let decided = match kind {
            Kind::Tunnel => identify(target)
                .or_else(|target| policy::decide_tunnel_by_override(target, overrides, under, now)),
            Kind::Request => policy::clear_robots_txt(target, under, now)
                .or_else(identify)
                .or_else(|target| policy::decide_by_override(target, overrides, under, now)),
        };
        decided.map_err(|target| (target, mode))
    }
}

/// Judgements of one request. Each but the first is made because an operator has changed something, or a robots.txt has
/// landed, while the request waited.
pub const MOST_JUDGEMENTS: usize = 8;

/// How long the crawler is asked to stay away whose request was overtaken by one change after another.
const UNSETTLED: Duration = Duration::from_secs(1);

/// The decision on what has changed at each of [`MOST_JUDGEMENTS`].
pub fn unsettled(now: Moment) -> Decision {
    Decision {
        retry_at: Some(now + UNSETTLED),
        ..Decision::bare(Reason::RobotsPending, now)
    }
}

/// The decision on what a client has no quota left for.
fn spent(retry_at: Moment, now: Moment) -> Decision {
    Decision {
        retry_at: Some(retry_at),
        ..Decision::bare(Reason::QuotaSpent, now)
    }
}

fn is_denied(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Refuse(decision) if decision.verdict() == Verdict::Deny)
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("registry", &self.registry)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
