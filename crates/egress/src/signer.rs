//! Signatures of requests (Web Bot Auth), made right before a request leaves.
//!
//! Each attempt has a new signature: an origin may refuse one that it has seen. A request that carries a signature
//! of the crawler's own is left as it is: a second one could break it, and the crawler proves its identity itself.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::rand;
use http::header::{SEC_WEBSOCKET_KEY, UPGRADE};
use http::{Method, Request};
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use tracing::error;

use super::RequestBody;
use crawlgate_config::Config;
use crawlgate_robots::{Origin, Scheme};
use crawlgate_signing::identities::IdentityError;
use crawlgate_signing::{Fields, Identities, Identity, Outcome, OutcomeCounters, Signable};
use crawlgate_system::clock::Clock;
use crawlgate_system::metrics::Registry;

/// The identities in force; none if no `[[signing]]` is configured.
#[derive(Debug)]
pub(super) struct Signers {
    in_force: Arc<ArcSwapOption<Identities>>,
    clock: Clock,
}

/// The signer of one request, which is carried beside it. Clones share the outcome.
#[derive(Debug, Clone)]
pub struct Signer {
    /// None if no key is in force for it.
    identity: Option<Arc<Identity>>,
    /// The counts of the identity, with a key or without.
    counters: Option<Arc<OutcomeCounters>>,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

/// Marks a request that carries our signature fields: they are replaced if it is sent again.
#[derive(Debug, Clone, Copy)]
struct SignedByUs;

impl Signers {
    /// Loads the keys of all identities.
    ///
    /// # Errors
    /// When one has no usable key.
    pub(super) fn new(config: &Config, clock: Clock) -> Result<Signers, IdentityError> {
        let identities = Identities::load(&config.signing)?;
        Ok(Signers { in_force: Arc::new(ArcSwapOption::new(in_force(identities, config))), clock })
    }

    /// Loads the keys again. An identity with a bad one keeps those that it has.
    pub(super) fn reconfigure(&self, config: &Config) {
        let before = self.in_force.load_full();
        let (identities, faults) = match &before {
            Some(before) => before.reloaded(&config.signing),
            None => Identities::default().reloaded(&config.signing),
        };
        for fault in faults {
            error!(
                "{fault}; the keys of this identity stay as they were, and without any its requests are not signed"
            );
        }
        self.in_force.store(in_force(identities, config));
    }

    /// Returns the signer of a request with the identity of this name; `None` if it is not to be signed. The caller names
    /// the identity, because settings of another moment would assign another one to the same client: at a reload, a
    /// request would leave signed as another crawler.
    pub(super) fn of(&self, signed_as: Option<&str>) -> Option<Signer> {
        let in_force = self.in_force.load();
        let in_force = in_force.as_ref()?;
        let name = signed_as?;
        Some(Signer {
            identity: in_force.get(name).cloned(),
            counters: in_force.counters(name).cloned(),
            outcome: Arc::default(),
        })
    }

    /// Returns the identities in force, if there are any.
    pub(super) fn with_identities<T>(&self, use_them: impl FnOnce(&Identities) -> T) -> Option<T> {
        let in_force = self.in_force.load();
        in_force.as_ref().map(|in_force| use_them(in_force))
    }

    /// Signs a request that is about to leave for `origin`, if it has a signer.
    pub(super) fn sign(&self, request: &mut Request<RequestBody>, origin: &Origin, is_http2: bool) {
        if request.extensions_mut().remove::<SignedByUs>().is_some() {
            Fields::remove_from(request.headers_mut());
        }
        let Some(signer) = request.extensions().get::<Signer>().cloned() else {
            return;
        };
        let Some(outcome) = self.outcome(&signer, request, origin, is_http2) else {
            return;
        };
        if let Some(counters) = &signer.counters {
            counters.count(&outcome);
        }
        *signer.outcome.lock() = Some(outcome);
    }

    /// Puts the fields of a signature into a request. Returns the outcome, or `None` if such requests are not signed.
    fn outcome(
        &self,
        signer: &Signer,
        request: &mut Request<RequestBody>,
        origin: &Origin,
        is_http2: bool,
    ) -> Option<Outcome> {
        let identity = signer.identity.as_ref();
        let settings = identity.map(|identity| identity.settings());
        let signs_plain = settings.is_some_and(|settings| settings.plain_http);
        if origin.scheme() != Scheme::Https && !signs_plain {
            return None;
        }
        if Fields::are_in(request.headers()) {
            return Some(Outcome::Left);
        }
        let mut nonce = [0; 32];
        let is_random = rand::fill(&mut nonce).is_ok();
        let authority = origin.authority();
        let signable = Signable {
            method: method(request, is_http2).as_str(),
            authority: &authority,
            path_and_query: request.uri().path_and_query().map_or("/", |path| path.as_str()),
        };
        let now = self.clock.now();
        let fields = identity
            .filter(|_| is_random)
            .and_then(|identity| Some((identity, identity.sign(&signable, now, nonce).ok()?)));
        let Some((identity, fields)) = fields else {
            return Some(Outcome::Unsignable);
        };
        let outcome = Outcome::Signed {
            identity: Arc::clone(&identity.settings().name),
            key: Arc::clone(identity.key().thumbprint()),
            created: fields.created,
        };
        fields.put_into(request.headers_mut());
        request.extensions_mut().insert(SignedByUs);
        Some(outcome)
    }

    /// Registers the numbers of requests by identity and outcome.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "crawlgate_signed_requests",
            "Requests of clients with an identity, by what its key did; left: the crawler's own signature was left alone; unsignable: \
             there is no key, or the target is not ASCII",
            Signed(Arc::clone(&self.in_force)),
        );
    }
}

impl Signer {
    /// Returns what the signer did at the last attempt; `None` before, and for a request that is sent without TLS.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.lock().clone()
    }
}

fn in_force(identities: Identities, config: &Config) -> Option<Arc<Identities>> {
    (!config.signing.is_empty()).then(|| Arc::new(identities))
}

/// Returns the method as it is sent: a WebSocket on a stream begins with an extended CONNECT (RFC 8441, section 4).
fn method(request: &Request<RequestBody>, is_http2: bool) -> &Method {
    let has = |name| request.headers().contains_key(name);
    if is_http2 && has(UPGRADE) && has(SEC_WEBSOCKET_KEY) {
        &Method::CONNECT
    } else {
        request.method()
    }
}

/// Requests by identity and outcome, read when metrics are collected.
#[derive(Debug)]
struct Signed(Arc<ArcSwapOption<Identities>>);

impl EncodeMetric for Signed {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let in_force = self.0.load();
        for (identity, counts) in in_force.iter().flat_map(|one| one.counts()) {
            for (result, count) in counts {
                let labels = [("identity", identity), ("result", result)];
                encoder
                    .encode_family(&labels)?
                    .encode_counter::<[(&str, &str); 0], _, u64>(&count, None)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}
