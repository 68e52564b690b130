//! Tests of the authority, and what they share.

use super::*;

mod files;
mod leaves;

const NOW: Moment = Moment::from_millis(1_800_000_000_000);

const DAY: Duration = Duration::from_secs(86_400);

fn config(directory: &Path) -> TlsConfig {
    TlsConfig {
        ca_cert: directory.join("ca.crt"),
        ca_key: directory.join("ca.key"),
        leaf_lifetime: 7 * DAY,
        leaf_cache: 3,
        ..crawlgate_config::Config::default().tls
    }
}

fn clock() -> Clock {
    Clock::manual(NOW)
}

fn authority() -> (tempfile::TempDir, Authority, Clock) {
    let directory = tempfile::tempdir().unwrap();
    let clock = clock();
    let authority = Authority::create(&config(directory.path()), clock.clone(), false).unwrap();
    (directory, authority, clock)
}
