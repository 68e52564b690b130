//! File descriptors: the process's limit, its distribution, and the meaning of exhaustion.
//!
//! Each exchange takes two, one for the crawler and one for the origin. If the limit is too low for `[limits]
//! connections`, fewer connections are accepted, so that all of those can be served; unused connections to origins get
//! the rest. An exchange over FTP takes a third one, for its data: from that rest. A lack of descriptors says something
//! about this process and nothing about an origin.

use std::io;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Limit on unused connections to origins, for any limit on descriptors.
const MAX_IDLE: usize = 8192;

/// Descriptors for the store, logs, listeners, the admin side, look-ups of names and fetches of robots.txt.
const OTHERS: usize = 512;

/// Limits on open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Connections from crawlers.
    pub connections: usize,
    /// Unused connections to origins.
    pub idle: usize,
}

impl Budget {
    /// Shares out the descriptors that this process may have open now; `wanted` is the number of connections from
    /// crawlers asked for.
    #[must_use]
    pub fn now(wanted: usize) -> Budget {
        Budget::of(limit(), wanted)
    }

    fn of(limit: Option<usize>, wanted: usize) -> Budget {
        let Some(limit) = limit else {
            return Budget { connections: wanted, idle: MAX_IDLE };
        };
        let left = limit - OTHERS.min(limit / 4);
        // Without any unused connection to reuse, each request would cost a handshake.
        let least_idle = left / 8;
        let connections = wanted.min((left - least_idle) / 2).max(1);
        Budget { connections, idle: left.saturating_sub(2 * connections).min(MAX_IDLE) }
    }
}

/// Returns the limit on open descriptors, if there is one.
pub fn limit() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile).current?;
    usize::try_from(limit).ok()
}

/// Raises the limit on open descriptors to the maximum permitted: the usual limit of 1,024 is there for programs that
/// use select(2).
///
/// # Errors
/// When the system does not let the process raise it.
pub fn raise_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Tells whether an error means that this machine has run out of descriptors, buffers or memory.
#[must_use]
pub fn is_exhaustion(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno))
}

/// Tells whether no descriptor is available at this moment.
#[must_use]
pub fn are_exhausted() -> bool {
    // A socket that touches no network.
    match socket(AddressFamily::UNIX, SocketType::DGRAM, None) {
        Ok(_) => false,
        Err(errno) => is_exhaustion(&errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_below_the_limit_are_shared_out() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("no limit", None, 4096, 4096, 8192),
            ("the unit's", Some(65_536), 4096, 4096, 8192),
            ("more connections, fewer that wait", Some(65_536), 30_000, 28_448, 8128),
            ("just enough", Some(9728), 4096, 4032, 1152),
            ("a shell's", Some(1024), 4096, 336, 96),
            ("few are wanted", Some(1024), 100, 100, 568),
            ("low", Some(64), 4096, 21, 6),
            ("hardly any", Some(4), 4096, 1, 1),
            ("none", Some(0), 4096, 1, 0),
        ];
        for (name, limit, wanted, connections, idle) in cases {
            let expected = Budget { connections, idle };
            assert_eq!(Budget::of(limit, wanted), expected, "{name}");
        }
    }

    #[test]
    fn exhaustion_is_told_from_errors_of_an_origin() {
        for (errno, expected) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOBUFS, true),
            (Errno::NOMEM, true),
            (Errno::CONNREFUSED, false),
            (Errno::HOSTUNREACH, false),
            (Errno::PERM, false),
        ] {
            assert_eq!(is_exhaustion(&errno.into()), expected, "{errno}");
        }
        assert!(!is_exhaustion(&io::ErrorKind::OutOfMemory.into()));
        assert!(!are_exhausted());
    }
}
