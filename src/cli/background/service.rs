//! The answers of a running proxy to commands and to the admin side.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::admin::http::TryCounts;
use crate::admin::http::health::readiness;
use crate::admin::{
    Answer, NewOverride, RefreshedState, Request, Service, Status, WitnessReport, query,
};
use crate::audit::LogFailed;
use crate::cli::override_sync::OverrideSync;
use crate::cli::override_sync::news::MessageKind;
use crate::proxy::Proxy;
use crate::ship::Shipper;
use crate::witness::Witnesses;
use crawlgate_origins::identity::Identity;
use crawlgate_origins::state::State;
use crawlgate_policy::overrides::{self, OverrideId};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_system::metrics::Registry;
use crawlgate_text::time_text;

/// Time for the records to reach the store: a little less than a command waits for the answer.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(900);

/// Answers for a running proxy.
pub(super) struct ProxyService {
    pub(super) proxy: Arc<Proxy>,
    pub(super) overrides_changed: Arc<Notify>,
    pub(super) override_sync: Option<Arc<OverrideSync>>,
    pub(super) witnesses: Option<Arc<Witnesses>>,
    pub(super) shipper: Option<Arc<Shipper>>,
    pub(super) tries: TryCounts,
    pub(super) started: Moment,
}

impl Service for ProxyService {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move {
            let answer = match request {
                Request::Refresh { origin, identity } => self.refresh(&origin, identity).await,
                Request::Forget { origin, identity } => self.forget(&origin, identity).await,
                Request::Pace { origin } => self.pace(&origin),
                Request::OverridesChanged => {
                    self.overrides_changed().await;
                    Ok(Answer::Noted)
                }
                Request::AddOverride(new) => self.add_override(&new).await,
                Request::RemoveOverride { id, by } => self.remove_override(&id, by).await,
                Request::Status => Ok(Answer::Status(self.status())),
                Request::Ready => Ok(Answer::Readiness(readiness(&self.proxy).await)),
                Request::Fleet => self.fleet().await,
                Request::Flush => flush(self.proxy.log().flush()).await,
                Request::FlushCounts => flush(self.proxy.log().flush_counts()).await,
            };
            answer.unwrap_or_else(|error| Answer::Failed { error })
        })
    }

    fn register(&self, registry: &mut Registry) {
        self.tries.register(registry);
        if let Some(witnesses) = &self.witnesses {
            witnesses.register(registry);
        }
        if let Some(shipper) = &self.shipper {
            shipper.register(registry);
        }
    }
}

impl ProxyService {
    async fn refresh(&self, url: &str, which: Option<String>) -> Result<Answer, String> {
        let (origin, which) = (origin(url)?, identity(which)?);
        let cache = self.proxy.gate().robots_cache();
        let refreshed = cache.refresh(&origin, which.as_ref()).await;
        let states = refreshed.map_err(|error| error.to_string())?;
        self.announce(MessageKind::Refresh, &origin, which.as_ref())
            .await?;
        // The command that sent the request reads the store next.
        self.proxy
            .log()
            .flush()
            .await
            .map_err(|error| format!("it was fetched and cannot be kept yet: {error}"))?;
        let states = states.iter().map(|(identity, state)| RefreshedState {
            identity: identity.to_string(),
            state: state.name().to_owned(),
            absence: match &**state {
                State::Unavailable { why, .. } => Some(why.to_string()),
                _ => None,
            },
            failure: state.outage().map(|outage| outage.cause.to_string()),
        });
        Ok(Answer::Refreshed {
            states: states.collect(),
        })
    }

    fn pace(&self, url: &str) -> Result<Answer, String> {
        let pace = self.proxy.gate().pace().of(&origin(url)?);
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Ok(Answer::Pace {
            interval_ms: pace.map(|pace| millis(pace.interval)),
            source: pace.map(|pace| pace.source.as_str().to_owned()),
        })
    }

    async fn forget(&self, url: &str, which: Option<String>) -> Result<Answer, String> {
        let (origin, which) = (origin(url)?, identity(which)?);
        let cache = self.proxy.gate().robots_cache();
        let in_fleet = cache.forget_in_fleet(&origin, which.as_ref()).await;
        let forgotten = cache.forget(&origin, which.as_ref()).await;
        let was_known = forgotten.map_err(|error| error.to_string())?;
        in_fleet.map_err(|error| untold(&error.to_string()))?;
        self.announce(MessageKind::Forget, &origin, which.as_ref())
            .await?;
        Ok(Answer::Forgotten { was_known })
    }

    /// Tells the other instances of the fleet to do the same.
    async fn announce(
        &self,
        kind: MessageKind,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<(), String> {
        let Some(override_sync) = &self.override_sync else {
            return Ok(());
        };
        match override_sync.announce(kind, origin, which).await {
            None => Ok(()),
            Some(why) => Err(untold(&why)),
        }
    }

    fn override_sync(&self) -> Result<&OverrideSync, String> {
        let why = "there is no store: [store] path is \"\"; name a file there and restart";
        self.override_sync.as_deref().ok_or_else(|| why.to_owned())
    }

    /// Puts the overrides in force that a command has changed, before its answer says so.
    async fn overrides_changed(&self) {
        let taken_over = match &self.override_sync {
            Some(override_sync) => override_sync.take_over_now().await.is_ok(),
            None => false,
        };
        if !taken_over {
            // The keeper tries again, and says why.
            self.overrides_changed.notify_one();
        }
    }

    async fn add_override(&self, new: &NewOverride) -> Result<Answer, String> {
        let now = self.proxy.clock().now();
        let asserted = new.asserted().and_then(|asserted| asserted.read(now));
        let asserted = asserted.map_err(|wrong| wrong.to_string())?;
        let added = self.override_sync()?.add(asserted).await;
        let (added, reach) = added.map_err(|error| error.to_string())?;
        Ok(Answer::OverrideAdded {
            id: added.id.to_string(),
            reach,
        })
    }

    async fn remove_override(&self, id: &str, by: String) -> Result<Answer, String> {
        let known = OverrideId::in_store(id).ok_or_else(|| format!("{id}: no such override"))?;
        let by = overrides::words(&by).map_err(|error| format!("by: {error}"))?;
        let removed = self.override_sync()?.remove(known, by).await;
        let (was_there, reach) = removed.map_err(|error| error.to_string())?;
        Ok(Answer::OverrideRemoved { was_there, reach })
    }

    async fn fleet(&self) -> Result<Answer, String> {
        let fleet = self.proxy.gate().fleet();
        let fleet = fleet.ok_or("this instance is alone: there is no [fleet] engine")?;
        fleet.observe().await;
        Ok(Answer::Fleet(Box::new(fleet.view())))
    }

    fn status(&self) -> Status {
        let cache = self.proxy.gate().robots_cache();
        let settings = self.proxy.settings();
        let witnessed = self.witnesses.as_ref().and_then(|all| all.witnessed());
        let witnesses = self.witnesses.as_ref().map(|all| all.status());
        let witnesses = witnesses.unwrap_or_default();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: time_text(self.started),
            mode: settings.policy.mode.as_str().to_owned(),
            origins: cache.len(),
            bytes: cache.bytes(),
            quorum: (!witnesses.is_empty()).then_some(settings.audit.quorum),
            witnessed_size: witnessed.map(|(size, _)| size),
            witnessed_at: witnessed.map(|(_, time)| time_text(time)),
            witnesses: witnesses.into_iter().map(WitnessReport::from).collect(),
            ship: self
                .shipper
                .as_ref()
                .map(|shipper| Box::new(shipper.status().into())),
        }
    }
}

/// Answers for the proxy of `crawlgate run`.
pub(super) struct RunService(pub(super) Arc<Proxy>);

impl Service for RunService {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move {
            let answer = match request {
                Request::Flush => flush(self.0.log().flush()).await,
                Request::FlushCounts => flush(self.0.log().flush_counts()).await,
                _ => Err("`crawlgate run` takes no such request".to_owned()),
            };
            answer.unwrap_or_else(|error| Answer::Failed { error })
        })
    }
}

/// Waits until the records made so far are written.
async fn flush(written: impl Future<Output = Result<(), LogFailed>>) -> Result<Answer, String> {
    match timeout(FLUSH_TIMEOUT, written).await {
        Ok(Ok(())) => Ok(Answer::Flushed),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(_) => Err("the store takes too long".to_owned()),
    }
}

/// Tells that a command was carried out at this instance alone.
fn untold(why: &str) -> String {
    format!(
        "this instance has done it and cannot tell the other ones of the fleet: {why}; repeat the command"
    )
}

fn identity(named: Option<String>) -> Result<Option<Identity>, String> {
    let identity = named.as_deref().map(query::identity).transpose();
    identity.map_err(|error| error.to_string())
}

fn origin(url: &str) -> Result<Origin, String> {
    match Origin::parse(url) {
        Ok((origin, _)) => Ok(origin),
        Err(error) => Err(format!("{url}: {error}")),
    }
}
