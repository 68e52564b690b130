//! The way of a process into its fleet.

use std::sync::Arc;
use std::time::Duration;

use rustls::sign::SingleCertAndKey;
use tokio::time::timeout;

use crate::Failure;
use crawlgate_config::Config;
use crawlgate_egress as egress;
use crawlgate_proxy::listener;
use crawlgate_store::{self as store, StoreError};
use crawlgate_system::clock::Clock;
use crawlgate_trust::pem;
use crawlgate_turns::fleet::engine::{Engine, password};
use crawlgate_turns::fleet::{Fleet, FleetKey};

/// The time that a start waits for the engine. Requests are refused after it, until the engine answers.
const FIRST: Duration = Duration::from_secs(2);

/// Returns this process's part in the fleet that the configuration names; `None` if it names none. A process beside the
/// one that serves has `suffix` behind its name.
///
/// # Errors
/// When the key or the password of the fleet, the name of the log, the trusted roots or the certificate cannot be read.
pub fn join(
    config: &Config,
    suffix: Option<u32>,
    clock: &Clock,
) -> Result<Option<Arc<Fleet>>, Failure> {
    let fleet = &config.fleet;
    let Some(key_file) = fleet.key_file.as_deref().filter(|_| fleet.is_on()) else {
        return Ok(None);
    };
    let key = FleetKey::load(key_file)?;
    let engine = engine(config)?;
    let mut name = name(config)?;
    if let Some(suffix) = suffix {
        name = format!("{name}/{suffix}");
    }
    let fleet = Fleet::new(fleet, &name, key, engine, clock.clone());
    fleet.reconfigure(config);
    Ok(Some(Arc::new(fleet)))
}

/// Returns the engine of the fleet that the configuration names, which is not connected yet.
///
/// # Errors
/// When the trusted roots, the certificate, its key or the password cannot be read.
pub fn engine(config: &Config) -> Result<Arc<Engine>, Failure> {
    let fleet = &config.fleet;
    let mut tls = egress::tls_config(&config.tls.extra_roots)?;
    if let (Some(cert), Some(key)) = (&fleet.cert, &fleet.key) {
        let certified = pem::certified(cert, key, tls.crypto_provider());
        let certified = certified.map_err(|error| format!("[fleet] {error}"))?;
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    }
    Ok(Engine::of(fleet, Arc::new(tls))?)
}

/// Returns the faults of the files that `[fleet]` names.
pub fn faults(config: &Config) -> Vec<String> {
    let fleet = &config.fleet;
    let Some(key_file) = fleet.key_file.as_deref().filter(|_| fleet.is_on()) else {
        return Vec::new();
    };
    let key = FleetKey::load(key_file).err();
    let mut faults: Vec<String> = key.iter().map(ToString::to_string).collect();
    if let (Some(cert), Some(key)) = (&fleet.cert, &fleet.key) {
        let certificate = listener::certificate_faults(cert, key);
        let certificate = certificate.iter().map(|fault| format!("[fleet] {fault}"));
        faults.extend(certificate);
    }
    faults.extend(password(fleet).err().map(|error| error.to_string()));
    faults
}

/// Returns the name of the instance that the configuration describes.
///
/// # Errors
/// When it is that of the log, and the log has no key.
pub fn name(config: &Config) -> Result<String, StoreError> {
    match &config.fleet.name {
        Some(name) => Ok(name.clone()),
        None => Ok(store::log_key(config)?.vkey().name().to_string()),
    }
}

/// Waits until the engine has answered for the first time, or not soon enough.
pub async fn first_answer(fleet: &Fleet) {
    // The operator is told by the task that keeps the link.
    let _ = timeout(FIRST, fleet.connected()).await;
}
