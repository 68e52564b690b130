//! The admin side over HTTP: health, metrics, the API, the console, and the decision service.
//!
//! The admin side has a listener of its own, off the proxy's port, and never touches a request that the proxy carries:
//! it reads the store and counters. Its use of resources is bounded: connections, the octets and the time of a request,
//! expensive requests, and readers of the live feed.
//!
//! `listener` accepts if `connections` has a free slot → `guard` checks the request and its credentials (`access`) → a page
//! answers if the sender's role allows it → `guard` sets the headers. Each failure is a `problem`.

mod access;
mod api;
pub(super) mod connections;
mod console;
mod decide;
mod directory;
pub mod form;
mod framing_filter;
mod guard;
pub mod health;
mod judge;
pub(super) mod listener;
mod logs;
mod metrics;
mod open_denials;
pub mod problem;
mod proof;
mod refusals;
mod report;
mod sitemaps;
mod tlog;
mod token;

use std::fmt;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use self::access::Access;
pub use self::access::Actor;
pub use self::console::{PUBLIC_CONNECTIONS, PublicTry, TryCounts};
pub use self::listener::{BindError, Certificate, CertificateError, Listener, ListenerKind};
use self::metrics::Instruments;
use self::open_denials::OpenDenials;
use self::problem::Problem;
use self::refusals::Refusals;
pub use self::token::{Token, TokenError};
use super::Process;
use crate::proxy::Proxy;
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
        let decisions = connections::decisions_of(proxy.settings().admin.connections);
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

    /// Returns the store, or the problem that there is none.
    ///
    /// # Errors
    /// 404 if the process has no store.
    pub fn require_store(&self) -> Result<&Arc<Store>, Problem> {
        let why = "there is no store: [store] path is \"\"; name a file there and restart";
        self.store().ok_or_else(|| Problem::missing(why))
    }

    /// Returns the collected logs that are open.
    fn copies(&self) -> &OpenCopies {
        &self.0.copies
    }

    /// Returns the name of the log of this process. A new key keeps it.
    fn own_name(&self) -> Option<&KeyName> {
        let name = || own_name(&self.proxy().settings());
        self.0.own_name.get_or_init(name).as_ref()
    }

    /// Returns the number of denials without an acknowledgement.
    fn open_denials(&self) -> &OpenDenials {
        &self.0.open_denials
    }

    /// Returns the instruments of `/metrics`.
    fn instruments(&self) -> &Instruments {
        &self.0.instruments
    }

    /// Returns the process, which refreshes, forgets, and takes over overrides.
    pub fn process(&self) -> &Process {
        &self.0.process
    }

    /// Returns the secret in the forms of our own pages, see [`form::Posted`]. Each user has one of its own, and
    /// senders without a name share one: a sender must not know what the forms of a user hold. Empty if there is none: no
    /// form matches it.
    pub fn csrf(&self, actor: &Actor) -> String {
        form::secret_of(&self.0.csrf, actor.name())
    }

    /// Returns the time.
    pub fn now(&self) -> Moment {
        self.proxy().clock().now()
    }

    /// Returns the time at which the process began to count.
    fn started(&self) -> Moment {
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
    fn decision_permits(&self) -> &Semaphore {
        &self.0.decisions
    }

    /// Returns the check of credentials.
    fn access(&self) -> &Access {
        &self.0.access
    }

    /// Tells whether browsers reach this side by TLS that ends here.
    fn has_tls(&self) -> bool {
        self.proxy().settings().admin.cert.is_some()
    }

    fn hosts(&self) -> &[String] {
        &self.0.hosts
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState").finish_non_exhaustive()
    }
}

/// Returns the router of all pages.
pub fn router(app: AppState) -> Router {
    let bounded = from_fn_with_state(app.clone(), connections::bound_decisions);
    Router::new()
        .merge(health::routes())
        .merge(directory::routes())
        .merge(metrics::routes())
        .merge(api::routes())
        .merge(tlog::routes())
        .merge(decide::routes().route_layer(bounded))
        .merge(console::routes())
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::not_allowed)
        .layer(from_fn_with_state(app.clone(), guard::authorise))
        .layer(axum::middleware::from_fn(connections::limit_spare_slots))
        .layer(DefaultBodyLimit::max(BODY))
        .layer(axum::middleware::from_fn(problem::rewrite))
        .layer(from_fn_with_state(app.clone(), console::render_problem))
        .layer(from_fn_with_state(app.clone(), guard::admit))
        .with_state(app)
}
