//! The admin side over HTTP: health, metrics, the API, the console, and the decision service.
//!
//! It has a listener of its own, off the proxy's port, and never touches a request that the proxy carries: what it shows
//! it reads from the store and from counts.

mod api;
mod console;
mod decide;
mod health;
mod metrics;

use std::fmt;
use std::sync::Arc;

use axum::Router;

use super::Service;
use crate::proxy::Proxy;
use crate::store::Store;

/// What all pages look at. Cheap to clone.
#[derive(Clone)]
pub struct Site(Arc<Looked>);

struct Looked {
    proxy: Arc<Proxy>,
    desk: Arc<dyn Service>,
}

impl Site {
    /// Over this proxy; `desk` does what only the process can do.
    pub fn new(proxy: Arc<Proxy>, desk: Arc<dyn Service>) -> Site {
        Site(Arc::new(Looked { proxy, desk }))
    }

    /// The proxy.
    pub fn proxy(&self) -> &Arc<Proxy> {
        &self.0.proxy
    }

    /// The store, where there is one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.0.proxy.log().store()
    }

    /// Who refreshes, forgets, and takes over overrides.
    pub fn desk(&self) -> &dyn Service {
        &*self.0.desk
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").finish_non_exhaustive()
    }
}

/// Everything that is served.
pub fn router(site: Site) -> Router {
    Router::new()
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(api::routes())
        .merge(decide::routes())
        .merge(console::routes())
        .with_state(site)
}
