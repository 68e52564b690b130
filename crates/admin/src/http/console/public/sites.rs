//! The robots.txt files of public sites, for strangers.
//!
//! They are fetched through an egress and kept in a cache of their own, beside those of crawlers. So `[egress] allow`
//! opens nothing here, also not behind a redirect or a name that changes; a stranger learns no state of the crawlers'
//! cache, and pushes nothing out of it. Fetches keep to a pace of their own: in the crawlers', a stranger would learn of
//! crawls by the waits, and take turns from them.

use std::sync::Arc;

use parking_lot::Mutex;

use crawlgate_config::Config;
use crawlgate_egress::{Egress, EgressError};
use crawlgate_gate::cache::RobotsCache;
use crawlgate_proxy::Proxy;
use crawlgate_robots::Origin;
use crawlgate_turns::pace::Pace;

/// Origins that are kept.
const ORIGINS: usize = 1000;

/// Octets that they may take, approximately.
const OCTETS: usize = 64 << 20;

/// Fetches at once: strangers get a small part of what crawlers may.
const FETCHES: usize = 8;

/// Fetches that start in a second.
const FETCHES_PER_SECOND: f64 = 5.0;

/// The files, with the settings that they are fetched by.
pub(super) struct Sites {
    proxy: Arc<Proxy>,
    egress: Egress,
    cache: RobotsCache,
    pace: Pace,
    adopted: Mutex<Adopted>,
}

/// The settings that are in force here, and the number of listeners that are known.
struct Adopted {
    settings: Arc<Config>,
    listeners: usize,
}

impl Sites {
    /// Opens the cache. Nothing is fetched yet.
    ///
    /// # Errors
    /// When the trusted roots cannot be read.
    pub(super) fn new(proxy: Arc<Proxy>) -> Result<Sites, EgressError> {
        let settings = proxy.settings();
        let public = public_only(&settings);
        let clock = proxy.clock().clone();
        let (egress, fetcher) = Egress::new(&public, clock.clone())?;
        // Nothing else that listens at a public address is to be probed from here, also by a redirect.
        egress.keep_to_default_ports();
        let pace = Pace::new(&public.pace, clock.clone());
        Ok(Sites {
            cache: RobotsCache::new(&public, fetcher, pace.clone(), clock),
            pace,
            adopted: Mutex::new(Adopted { settings, listeners: 0 }),
            egress,
            proxy,
        })
    }

    /// Adopts the proxy's settings and listeners, and returns the settings.
    pub(super) fn adopt(&self) -> Arc<Config> {
        let settings = self.proxy.settings();
        let mut adopted = self.adopted.lock();
        if !Arc::ptr_eq(&settings, &adopted.settings) {
            let public = public_only(&settings);
            self.egress.reconfigure(&public);
            self.cache.reconfigure(&public);
            self.pace.reconfigure(&public.pace);
            adopted.settings = Arc::clone(&settings);
        }
        // The listeners of crawlers open after this page has.
        let listeners = self.proxy.egress().own();
        if let Some(new @ [_, ..]) = listeners.get(adopted.listeners..) {
            self.egress.listens_on(new);
            adopted.listeners = listeners.len();
        }
        settings
    }

    /// Tells whether an origin is on the public internet, as its name says now. Each connection is checked again.
    pub(super) async fn is_public(&self, origin: &Origin) -> bool {
        self.egress.resolve_and_check(origin).await.is_ok()
    }

    /// Returns the cache.
    pub(super) fn cache(&self) -> &RobotsCache {
        &self.cache
    }
}

/// Returns the settings for strangers: public addresses only, no identity, small bounds.
fn public_only(config: &Config) -> Config {
    let mut public = config.clone();
    public.egress.allow.clear();
    public.signing.clear();
    // One robots.txt is all that a site is asked for, so that no connection is used again.
    public.upstream.idle_per_host = 0;
    let robots = &mut public.robots;
    robots.max_fetches = robots.max_fetches.min(FETCHES);
    let rate = robots.fetches_per_second.unwrap_or(FETCHES_PER_SECOND);
    robots.fetches_per_second = Some(rate.min(FETCHES_PER_SECOND));
    robots.cache.origins = robots.cache.origins.min(ORIGINS);
    robots.cache.bytes = robots.cache.bytes.min(OCTETS);
    public
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_ca::Authority;
    use crawlgate_evidence::Log;
    use crawlgate_system::clock::Clock;

    #[tokio::test]
    async fn a_reload_changes_the_pace_of_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.tls.ca_cert = folder.path().join("ca.pem");
        config.tls.ca_key = folder.path().join("ca.key");
        config.store.path = None;
        let clock = Clock::system();
        let authority = Authority::load_or_create(&config.tls, clock.clone()).unwrap();
        let egress = Egress::new(&config, clock.clone()).unwrap();
        let log = Log::open(&config, None, &clock).unwrap();
        let proxy = Proxy::new(config.clone(), egress, authority, log, None, clock).unwrap();
        let sites = Sites::new(Arc::clone(&proxy)).unwrap();
        sites.adopt();
        assert!(!sites.pace.is_per_address());
        config.pace.per_address = true;
        config.pace.requests_per_second = Some(1.0);
        proxy.reconfigure(config);
        sites.adopt();
        assert!(sites.pace.is_per_address());
    }
}
