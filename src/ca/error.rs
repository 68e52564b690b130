//! Failures of the authority, and the way out.

use std::{error::Error, fmt, io, path::PathBuf};

use crate::clock::Moment;

/// A failure to load the authority or to sign. The message names the file and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaError {
    /// Neither file exists.
    Missing {
        /// The expected place of the certificate.
        certificate: PathBuf,
    },
    /// One of the two files exists without the other.
    Half {
        /// The file that exists.
        present: PathBuf,
        /// The missing file.
        missing: PathBuf,
    },
    /// A file stands where a new authority was to be created.
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The key file is open to other users.
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The key file belongs to another user.
    Foreign {
        /// The key file.
        path: PathBuf,
        /// The owner of the file.
        owner: u32,
    },
    /// A rotation has begun already.
    Rotating {
        /// The certificate of the authority that comes next.
        path: PathBuf,
    },
    /// A rotation was cut short: the key has moved, its certificate has not.
    Interrupted {
        /// The certificate that has not moved, and signs.
        path: PathBuf,
    },
    /// There is no rotation to finish.
    NotRotating {
        /// The expected place of the next authority's certificate.
        path: PathBuf,
    },
    /// Clients have not had the time to learn of the next authority.
    TooEarly {
        /// Time since which its certificate has been there.
        since: Moment,
        /// Earliest time at which it may take over.
        from: Moment,
    },
    /// A file of a rotation beside the authority is invalid.
    Beside {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The authority's certificate does not let it sign for the host.
    Outside {
        /// The host.
        host: String,
    },
    /// A file or directory could not be read or written.
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
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The key does not belong to the certificate.
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The certificate may not be used to sign others.
    NotAuthority {
        /// The certificate's file.
        path: PathBuf,
        /// The clause that the certificate fails.
        why: &'static str,
    },
    /// The certificate has expired.
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Time of the expiry.
        since: Moment,
    },
    /// The certificate is not valid yet.
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// Start of the validity.
        from: Moment,
    },
    /// The host is neither a DNS name nor an address.
    Host {
        /// The host, cut if it is long.
        host: String,
    },
    /// The cryptographic library refused.
    Signing(Box<dyn Error + Send + Sync>),
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
        Self::Io {
            key,
            action,
            path: path.into(),
            source,
        }
    }
}

impl fmt::Display for CaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { certificate } => write!(
                f,
                "{}: there is no certificate authority yet; `crawlgate ca create` makes one",
                certificate.display()
            ),
            Self::Half { present, missing } => write!(
                f,
                "{} exists, but {} does not: restore it, correct tls.ca_cert and tls.ca_key, or make a new pair with \
                 `crawlgate ca create --force`",
                present.display(),
                missing.display()
            ),
            Self::Exists { path } => write!(
                f,
                "{} exists already; `--force` replaces it, and every client must then trust the new one",
                path.display()
            ),
            Self::Exposed { path, mode } => write!(
                f,
                "{} may be read or written by other users (mode {mode:03o}), and a holder of this key can read the \
                 crawlers' traffic: `chmod 600 {0}`, or, if others may have seen it, `crawlgate ca create --force`",
                path.display()
            ),
            Self::Foreign { path, owner } => write!(
                f,
                "{} belongs to another user (uid {owner}), who can read the crawlers' traffic with this key: give it \
                 to the user that crawlgate runs as, or make a new pair with `crawlgate ca create --force`",
                path.display()
            ),
            Self::Rotating { path } => write!(
                f,
                "{}: the next authority is there already; `crawlgate ca rotate --finish` puts it in force, \
                 `crawlgate ca rotate --cancel` drops it",
                path.display()
            ),
            Self::Interrupted { path } => write!(
                f,
                "{}: a rotation was cut short, and this authority signs already; `crawlgate ca rotate --finish` \
                 completes it",
                path.display()
            ),
            Self::NotRotating { path } => write!(
                f,
                "{}: there is no next authority; `crawlgate ca rotate` makes one",
                path.display()
            ),
            Self::TooEarly { since, from } => write!(
                f,
                "clients could learn of the next authority since {} only, and those that have not would fail; wait \
                 until {}, or finish now with `--force`",
                super::text::date(*since),
                super::text::date(*from)
            ),
            Self::Beside { path, why } => write!(
                f,
                "{}: {why}; restore the file, or drop it: `crawlgate ca rotate --cancel` if it is the next authority's",
                path.display()
            ),
            Self::Outside { host } => write!(
                f,
                "{host} is outside the name constraints of the local CA, so no certificate can be made for it"
            ),
            Self::Io {
                key,
                action,
                path,
                source,
            } => write!(
                f,
                "[tls] {key}: cannot {action} {}: {source}",
                path.display()
            ),
            Self::Malformed { path, why } => write!(
                f,
                "{}: {why}; restore the file, or make a new pair with `crawlgate ca create --force`",
                path.display()
            ),
            Self::Mismatch { certificate, key } => write!(
                f,
                "the key in {} does not belong to the certificate in {}: correct tls.ca_cert and tls.ca_key, or make \
                 a new pair with `crawlgate ca create --force`",
                key.display(),
                certificate.display()
            ),
            Self::NotAuthority { path, why } => write!(
                f,
                "{} holds a certificate that may not sign others ({why}): name an authority's certificate in \
                 tls.ca_cert, or make one with `crawlgate ca create --force`",
                path.display()
            ),
            Self::Expired { path, since } => write!(
                f,
                "the authority in {} expired on {}: make a new one with `crawlgate ca create --force` and let the \
                 clients trust it",
                path.display(),
                super::text::date(*since)
            ),
            Self::NotYetValid { path, from } => write!(
                f,
                "the authority in {} is not valid before {}: wait, or set the clock right",
                path.display(),
                super::text::date(*from)
            ),
            Self::Host { host } => write!(
                f,
                "{host:?} is neither a DNS name nor an IP address, so no certificate can be made for it"
            ),
            Self::Signing(source) => write!(f, "the certificate could not be made: {source}"),
        }
    }
}

impl Error for CaError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Signing(source) => Some(source.as_ref()),
            _ => None,
        }
    }
}
