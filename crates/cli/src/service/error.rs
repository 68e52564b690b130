//! The reason why a gate cannot start. The message names the file, the key and the way out.

use std::io;

use thiserror::Error;

use crawlgate_admin::http::{BindError, CertificateError, TokenError};
use crawlgate_ca::CaError;
use crawlgate_egress::EgressError;
use crawlgate_evidence::LogError;
use crawlgate_evidence::ship::ShipError;
use crawlgate_evidence::witness::WitnessError;
use crawlgate_store::StoreError;
use crawlgate_trust::{PemError, TrustError};
use crawlgate_turns::fleet::KeyError;
use crawlgate_turns::fleet::engine::PasswordError;

/// A part of the gate that cannot be opened.
#[derive(Debug, Error)]
pub enum StartError {
    /// The local certificate authority.
    #[error(transparent)]
    Authority(#[from] CaError),
    /// The way out.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The store, or the key of its log.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log of decisions.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The proxy itself.
    #[error(transparent)]
    Proxy(#[from] io::Error),
    /// The overrides of the store: without them, no request can be judged.
    #[error("the overrides cannot be read: {0}")]
    Overrides(#[source] StoreError),
    /// The witnesses of the log.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// The place that has the log, too.
    #[error(transparent)]
    Ship(#[from] ShipError),
    /// The key of the fleet.
    #[error(transparent)]
    FleetKey(#[from] KeyError),
    /// The password of the fleet's engine.
    #[error(transparent)]
    FleetPassword(#[from] PasswordError),
    /// The certificate shown to the fleet's engine.
    #[error("[fleet] {0}")]
    FleetCertificate(#[from] PemError),
    /// The trusted roots.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The token of the admin side.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The certificate of the admin side.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The address of the admin side.
    #[error(transparent)]
    Bind(#[from] BindError),
}
