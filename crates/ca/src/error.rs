//! Failures of the authority, and the way out.

use std::{error::Error, io, path::PathBuf};

use crawlgate_system::clock::Moment;

/// A failure to load the authority or to sign. The message names the file and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaError {
    /// Neither file exists.
    #[error(
        "{certificate}: there is no certificate authority yet; `crawlgate ca create` makes one"
    )]
    Missing {
        /// The expected place of the certificate.
        certificate: PathBuf,
    },
    /// One of the two files exists without the other.
    #[error(
        "{present} exists, but {missing} does not: restore it, correct tls.ca_cert and tls.ca_key, or make a new pair with \
         `crawlgate ca create --force`"
    )]
    Half {
        /// The file that exists.
        present: PathBuf,
        /// The missing file.
        missing: PathBuf,
    },
    /// A file stands where a new authority was to be created.
    #[error(
        "{path} exists already; `--force` replaces it, and every client must then trust the new one"
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The key file is open to other users.
    #[error(
        "{path} may be read or written by other users (mode {mode:03o}), and a holder of this key can read the \
         crawlers' traffic: `chmod 600 {path}`, or, if others may have seen it, `crawlgate ca create --force`"
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file belongs to another user.
    #[error(
        "{path} belongs to another user (uid {owner}), who can read the crawlers' traffic with this key: give it \
         to the user that crawlgate runs as, or make a new pair with `crawlgate ca create --force`"
    )]
    Foreign {
        /// The key file.
        path: PathBuf,
        /// The owner of the file.
        owner: u32,
    },
    /// A rotation has begun already.
    #[error(
        "{path}: the next authority is there already; `crawlgate ca rotate --finish` puts it in force, \
         `crawlgate ca rotate --cancel` drops it"
    )]
    Rotating {
        /// The certificate of the authority that comes next.
        path: PathBuf,
    },
    /// A rotation was cut short: the key has moved, its certificate has not.
    #[error(
        "{path}: a rotation was cut short, and this authority signs already; `crawlgate ca rotate --finish` \
         completes it"
    )]
    Interrupted {
        /// The certificate that has not moved, and signs.
        path: PathBuf,
    },
    /// There is no rotation to finish.
    #[error("{path}: there is no next authority; `crawlgate ca rotate` makes one")]
    NotRotating {
        /// The expected place of the next authority's certificate.
        path: PathBuf,
    },
    /// Clients have not had the time to learn of the next authority.
    #[error(
        "clients could learn of the next authority since {} only, and those that have not would fail; wait \
         until {}, or finish now with `--force`",
        day(.since), day(.from)
    )]
    TooEarly {
        /// Time since which its certificate has been there.
        since: Moment,
        /// Earliest time at which it may take over.
        from: Moment,
    },
    /// A file of a rotation beside the authority is invalid.
    #[error(
        "{path}: {why}; restore the file, or drop it: `crawlgate ca rotate --cancel` if it is the next authority's"
    )]
    Beside {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The authority's certificate does not let it sign for the host.
    #[error(
        "{host} is outside the name constraints of the local CA, so no certificate can be made for it"
    )]
    Outside {
        /// The host.
        host: String,
    },
    /// A file or directory could not be read or written.
    #[error("[tls] {key}: cannot {action} {path}: {source}")]
    Io {
        /// The configuration key that names the file or its directory: "ca_cert" or "ca_key".
        key: &'static str,
        /// The failed action: "read", "write", …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error(
        "{path}: {why}; restore the file, or make a new pair with `crawlgate ca create --force`"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The key does not belong to the certificate.
    #[error(
        "the key in {key} does not belong to the certificate in {certificate}: correct tls.ca_cert and tls.ca_key, or make \
         a new pair with `crawlgate ca create --force`"
    )]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The certificate may not be used to sign others.
    #[error(
        "{path} holds a certificate that may not sign others ({why}): name an authority's certificate in \
         tls.ca_cert, or make one with `crawlgate ca create --force`"
    )]
    NotAuthority {
        /// The certificate's file.
        path: PathBuf,
        /// The clause that the certificate fails.
        why: &'static str,
    },
    /// The certificate has expired.
    #[error(
        "the authority in {path} expired on {}: make a new one with `crawlgate ca create --force` and let the \
         clients trust it",
        day(.since)
    )]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Time of the expiry.
        since: Moment,
    },
    /// The certificate is not valid yet.
    #[error(
        "the authority in {path} is not valid before {}: wait, or set the clock right",
        day(.from)
    )]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// Start of the validity.
        from: Moment,
    },
    /// The host is neither a DNS name nor an address.
    #[error(
        "{host:?} is neither a DNS name nor an IP address, so no certificate can be made for it"
    )]
    Host {
        /// The host, cut if it is long.
        host: String,
    },
    /// The cryptographic library refused.
    #[error("the certificate could not be made: {0}")]
    Signing(#[source] Box<dyn Error + Send + Sync>),
}

impl CaError {
    pub(super) fn signing(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Signing(Box::new(error))
    }

    pub(super) fn io(
        key: &'static str,
        action: &'static str,
        path: impl Into<PathBuf>,
        source: io::Error,
    ) -> Self {
        Self::Io { key, action, path: path.into(), source }
    }
}

/// Returns the day of a moment, as a message writes it.
fn day(moment: &Moment) -> String {
    super::text::date(*moment)
}
