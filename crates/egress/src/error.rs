//! The reason that the egress cannot be opened.

use std::path::PathBuf;

use crawlgate_signing::identities::IdentityError;
use crawlgate_trust::TrustError;

/// The reason that the egress could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The trusted roots cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// An identity has no usable key.
    #[error(transparent)]
    Signing(#[from] IdentityError),
    /// The credentials for an upstream proxy cannot be read.
    #[error("[[upstream.proxy]] credentials_file = {path}: {why}")]
    Credentials {
        /// The file that should hold them.
        path: PathBuf,
        /// The fault in it.
        why: String,
    },
}
