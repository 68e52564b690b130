//! Selects the clients and origins in report mode.
//!
//! Report mode decides and records everything, but enforces nothing: a request leaves in spite of robots.txt, an
//! override or the pace. Refusals remain that are not about robots.txt: of an unreadable request, of one that does not
//! fit its connection, of a prohibited address, and of one that cannot be recorded.
//!
//! Enforcement, and report mode.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crawlgate_robots::Origin;

/// The modes of requests.
#[derive(Debug)]
pub struct Reporting {
    mode: Mode,
    origins: HashSet<Origin, ahash::RandomState>,
    clients: Vec<IpNet>,
}

impl Reporting {
    /// Returns the configured modes.
    pub fn new(mode: Mode, origins: &[Origin], clients: &[IpNet]) -> Reporting {
        Reporting { mode, origins: origins.iter().cloned().collect(), clients: clients.to_vec() }
    }

    /// Returns the mode for a request of `client` to `origin`: report, if the origin or the client is in report mode.
    /// The client's mode is its `own`, otherwise that of the instance or of the client's network.
    pub fn mode(&self, origin: &Origin, own: Option<Mode>, client: IpAddr) -> Mode {
        match own {
            None if self.mode == Mode::Enforce
                && self.clients.is_empty()
                && self.origins.is_empty() =>
            {
                return Mode::Enforce;
            }
            None => {}
            Some(Mode::Enforce) if !self.origins.contains(origin) => return Mode::Enforce,
            Some(Mode::Enforce | Mode::Report) => return Mode::Report,
        }
        // A dual-stack socket writes an IPv4 address as IPv6.
        let client = client.to_canonical();
        let is_reported = self.mode == Mode::Report
            || self.clients.iter().any(|network| network.contains(&client))
            || self.origins.contains(origin);
        if is_reported { Mode::Report } else { Mode::Enforce }
    }
}

crawlgate_text::named! {
    /// The effect of denials.
    Mode {
        /// A denied request does not reach its origin.
        #[default]
        Enforce = 0 "enforce",
        /// Everything is decided and recorded, nothing is denied: the verdict is the one that would apply.
        Report = 1 "report",
    }
}
