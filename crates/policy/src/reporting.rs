//! Selects the clients and origins in report mode.
//!
//! Report mode decides and records everything, but enforces nothing: a request leaves in spite of robots.txt, an
//! override or the pace. Refusals remain that are not about robots.txt: of an unreadable request, of one that does not
//! fit its connection, of a prohibited address, and of one that cannot be recorded.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Mode;
use crate::rep::Origin;

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
        Reporting {
            mode,
            origins: origins.iter().cloned().collect(),
            clients: clients.to_vec(),
        }
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
        if is_reported {
            Mode::Report
        } else {
            Mode::Enforce
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn instance_client_or_origin_may_be_in_report_mode() {
        let origin = |name: &str| Origin::parse(name).expect(name).0;
        let client = |text: &str| text.parse::<IpAddr>().expect(text);
        let mut config = Config::default().policy;
        config.report_origins = vec![origin("https://a.example")];
        config.report_clients = vec!["10.1.0.0/16".parse().expect("a network")];
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("neither", "https://b.example", "10.2.0.1", Mode::Enforce),
            ("the origin", "https://a.example", "10.2.0.1", Mode::Report),
            ("the same host, another scheme", "http://a.example", "10.2.0.1", Mode::Enforce),
            ("the same host, another port", "https://a.example:8443", "10.2.0.1", Mode::Enforce),
            ("the client", "https://b.example", "10.1.2.3", Mode::Report),
            ("the client, on a socket for both", "https://b.example", "::ffff:10.1.2.3", Mode::Report),
        ];
        let some = config.reporting();
        config.mode = Mode::Report;
        let all = config.reporting();
        for (name, asked, from, mode) in cases {
            assert_eq!(
                some.mode(&origin(asked), None, client(from)),
                mode,
                "{name}"
            );
            assert_eq!(
                all.mode(&origin(asked), None, client(from)),
                Mode::Report,
                "{name}"
            );
        }
    }

    #[test]
    fn a_mode_of_its_own_outranks_all_but_the_origins() {
        let origin = |name: &str| Origin::parse(name).expect(name).0;
        let client: IpAddr = "10.1.0.1".parse().expect("an address");
        let mut config = Config::default().policy;
        config.mode = Mode::Report;
        config.report_clients = vec!["10.1.0.0/16".parse().expect("a network")];
        config.report_origins = vec![origin("https://a.example")];
        let reporting = config.reporting();
        let enforcing = Config::default().policy.reporting();
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("enforced all the same", &reporting, "https://b.example", Mode::Enforce, Mode::Enforce),
            ("at an origin in report mode", &reporting, "https://a.example", Mode::Enforce, Mode::Report),
            ("reported all the same", &enforcing, "https://b.example", Mode::Report, Mode::Report),
            ("as the instance", &enforcing, "https://b.example", Mode::Enforce, Mode::Enforce),
        ];
        for (name, reporting, asked, own, mode) in cases {
            assert_eq!(
                reporting.mode(&origin(asked), Some(own), client),
                mode,
                "{name}"
            );
        }
    }
}
