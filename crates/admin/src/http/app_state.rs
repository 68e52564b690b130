//! The state that all pages share: the process, the credentials, the permits for expensive work.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::access::{Access, Actor};
use super::console::TryCounts;
use super::instruments::Instruments;
use super::open_denials::OpenDenials;
use super::problem::Problem;
use super::refusals::Refusals;
use super::token::{self, Token};
use crate::process::{Process, ProcessError, to_its_end};
use crate::status::RefreshedState;
use crawlgate_origins::identity::Identity;
use crawlgate_proxy::Proxy;
use crawlgate_robots::Origin;
use crawlgate_store::Store;
use crawlgate_store::logs::{OpenCopies, own_name};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::KeyName;

/// Octets of a request's body, unless its route says otherwise.
pub const BODY: usize = 64 * 1024;

/// Octets of a body that may hold a whole robots.txt: 600 KiB of it, with each octet percent-encoded.
pub const BODY_WITH_ROBOTS: usize = 2 * 1024 * 1024;

/// Expensive requests at once: the others keep one reader of the store and one core.
const MAX_EXPENSIVE: usize = 2;

/// Exports at once. Each holds a few pages of records, which may be long, until its client has read them.
const EXPORTS: usize = 8;

/// The state that all pages share. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    process: Process,
    access: Access,
    hosts: Vec<String>,
    csrf: String,
    started: Moment,
    work: Semaphore,
    decisions: Semaphore,
    exports: Arc<Semaphore>,
    /// The collected logs that are open.
    copies: OpenCopies,
    own_name: OnceLock<Option<KeyName>>,
    open_denials: OpenDenials,
    instruments: Instruments,
}

impl AppState {
    /// Creates the state over this process, with the counts of the page for everyone. A `token` opens the pages to its
    /// holders.
    pub fn new(process: Process, tries: &TryCounts, token: Option<Token>) -> AppState {
        let proxy = &process.proxy;
        let hosts = proxy.settings().admin.hosts.clone();
        let started = proxy.clock().now();
        let refusals = Refusals::new(proxy.clock().clone());
        let instruments = Instruments::of(&process, tries, &refusals);
        let access = Access::new(token, refusals, proxy.clock().clone());
        let decisions = decisions_of(proxy.settings().admin.connections);
        AppState(Arc::new(Inner {
            process,
            access,
            hosts,
            // Without randomness no form matches, and every form is refused.
            csrf: token::random().unwrap_or_default(),
            started,
            work: Semaphore::new(MAX_EXPENSIVE),
            decisions: Semaphore::new(decisions),
            exports: Arc::new(Semaphore::new(EXPORTS)),
            copies: OpenCopies::default(),
            own_name: OnceLock::new(),
            open_denials: OpenDenials::default(),
            instruments,
        }))
    }

    /// Returns the proxy.
    pub fn proxy(&self) -> &Arc<Proxy> {
        &self.0.process.proxy
    }

    /// Returns the store, if there is one.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.proxy().log().store()
    }

    /// Returns the store, or the problem that it is missing.
    ///
    /// # Errors
    /// 404 if the process has no store.
    pub fn require_store(&self) -> Result<&Arc<Store>, Problem> {
        let why = "there is no store: [store] path is \"\"; name a file there and restart";
        self.store().ok_or_else(|| Problem::missing(why))
    }

    /// Returns the collected logs that are open.
    pub(super) fn copies(&self) -> &OpenCopies {
        &self.0.copies
    }

    /// Returns the name of the log of this process. A new key keeps it.
    pub(super) fn own_name(&self) -> Option<&KeyName> {
        let name = || own_name(&self.proxy().settings());
        self.0.own_name.get_or_init(name).as_ref()
    }

    /// Returns the number of denials without an acknowledgement.
    pub(super) fn open_denials(&self) -> &OpenDenials {
        &self.0.open_denials
    }

    /// Returns the instruments of `/metrics`.
    pub(super) fn instruments(&self) -> &Instruments {
        &self.0.instruments
    }

    /// Drops the state of this origin, for one identity or for all. True if there was one.
    ///
    /// # Errors
    /// Those of [`Process::forget`].
    pub async fn forget(
        &self,
        origin: &Origin,
        which: Option<Identity>,
    ) -> Result<bool, ProcessError> {
        let (app, origin) = (self.clone(), origin.clone());
        to_its_end(async move { app.process().forget(&origin, which.as_ref()).await }).await
    }

    /// Fetches the robots.txt of this origin now, for one identity or for each with a state.
    ///
    /// # Errors
    /// Those of [`Process::refresh`].
    pub async fn refresh(
        &self,
        origin: &Origin,
        which: Option<Identity>,
    ) -> Result<Vec<RefreshedState>, ProcessError> {
        let (app, origin) = (self.clone(), origin.clone());
        to_its_end(async move { app.process().refresh(&origin, which.as_ref()).await }).await
    }

    /// Returns the process, which refreshes, forgets, and takes over overrides.
    pub fn process(&self) -> &Process {
        &self.0.process
    }

    /// Returns the secret in the forms of our own pages, see [`Posted`](super::form::Posted). Each user has a different
    /// one, and senders without a name share one: a sender must not know what the forms of a user hold. Empty without a
    /// secret: no form matches it.
    pub fn csrf(&self, actor: &Actor) -> String {
        token::secret_of(&self.0.csrf, actor.name())
    }

    /// Returns the time.
    pub fn now(&self) -> Moment {
        self.proxy().clock().now()
    }

    /// Returns the time at which the process began to count.
    pub(super) fn started(&self) -> Moment {
        self.0.started
    }

    /// Waits for a permit for an expensive request: reading many records, comparing long files. The request holds the
    /// permit until its work ends.
    ///
    /// # Errors
    /// Never, as long as the process runs.
    pub async fn work_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let permit = self.0.work.acquire().await;
        permit.map_err(|_| Problem::busy("the process is about to end"))
    }

    /// Returns the permit to write one export, held until the export ends.
    ///
    /// # Errors
    /// When too many exports are in progress.
    pub fn export_permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = Arc::clone(&self.0.exports).try_acquire_owned();
        let why = "too many exports are in progress; try again when one has ended";
        permit.map_err(|_| Problem::busy(why))
    }

    /// Returns the permits for decision requests in progress.
    pub(super) fn decision_permits(&self) -> &Semaphore {
        &self.0.decisions
    }

    /// Returns the check of credentials.
    pub(super) fn access(&self) -> &Access {
        &self.0.access
    }

    /// Tells whether browsers reach this side by TLS that ends here.
    pub(super) fn has_tls(&self) -> bool {
        self.proxy().settings().admin.cert.is_some()
    }

    pub(super) fn hosts(&self) -> &[String] {
        &self.0.hosts
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState").finish_non_exhaustive()
    }
}

/// Returns how many decision requests may be in progress, of so many connections.
fn decisions_of(connections: usize) -> usize {
    (connections - connections / 4).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_leave_some_connections_to_others() {
        for (connections, decisions) in [(1, 1), (2, 2), (4, 3), (256, 192)] {
            assert_eq!(decisions_of(connections), decisions, "{connections}");
        }
    }
}
