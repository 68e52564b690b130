//! Who is only told what would have been denied.
//!
//! In report mode everything is decided and recorded, and what was decided is not done: a request goes out whatever
//! robots.txt, an override or the pace say of it. What remains are the walls, which are not about robots.txt: a request
//! that cannot be read, one that disagrees with its connection, and decisions that cannot be recorded.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::{Mode, PolicyConfig};
use crate::rep::Origin;

/// In which mode a request is judged.
#[derive(Debug)]
pub struct Reporting {
    mode: Mode,
    origins: HashSet<Origin, ahash::RandomState>,
    clients: Vec<IpNet>,
}

impl Reporting {
    /// As configured.
    pub fn of(config: &PolicyConfig) -> Reporting {
        Reporting {
            mode: config.mode,
            origins: config.report_origins.iter().cloned().collect(),
            clients: config.report_clients.clone(),
        }
    }

    /// The mode of what `client` asks of `origin`: report, if the origin is in it, or the client. A client is in its
    /// `own` mode, or else in the instance's, or in that of the network that it comes from.
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
        // An IPv4 crawler on a socket for both is written as IPv6.
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
        let some = Reporting::of(&config);
        config.mode = Mode::Report;
        let all = Reporting::of(&config);
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
        let reporting = Reporting::of(&config);
        let enforcing = Reporting::of(&Config::default().policy);
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
