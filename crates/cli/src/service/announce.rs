//! The messages of a gate about itself when it starts and after a reload.

use tracing::{info, warn};

use crawlgate_ca::{self as ca, Authority};
use crawlgate_config::{AdminConfig, ClientConfig, Config, Mode, TlsConfig};

/// Names the local CA, and the next one.
pub fn tell_authority(authority: &Authority, config: &TlsConfig) {
    info!(file = %authority.certificate_path().display(), "the local CA");
    if let Some(next) = authority.next() {
        info!(file = %next.path().display(), "the next CA: `crawlgate ca rotate --finish` puts it in force");
    }
    let signs_for = authority.name_constraints();
    if !signs_for.is_empty() {
        info!(?signs_for, "hosts outside the CA's name constraints are not intercepted");
    }
    warn_of_authority(authority, config);
}

/// Warns of an authority that will soon need attention.
pub fn warn_of_authority(authority: &Authority, config: &TlsConfig) {
    if authority.needs_successor() {
        let until = ca::text::date(authority.not_after());
        warn!(%until, "the local CA expires within 30 days: `crawlgate ca rotate` makes the next one");
    }
    let wanted = &config.name_constraints;
    if !wanted.is_empty() && !authority.is_held_to(wanted) {
        warn!(
            signs_for = ?authority.name_constraints(),
            "the local CA was made under other name constraints than [tls] name_constraints, and its own hold: \
             `crawlgate ca rotate` makes one under these"
        );
    }
}

/// Names the places of decisions.
pub fn tell_where_decisions_go(config: &Config) {
    if let Some(store) = &config.store.path {
        info!(store = %store.display(), "decisions and what is known of origins are kept");
    }
    if let Some(file) = &config.log.file {
        info!(file = %file.display(), "decisions are written");
    }
    if config.log.stdout {
        info!("decisions go to standard output");
    }
    if config.store.path.is_none() {
        if config.log.file.is_none() && !config.log.stdout {
            warn!("decisions are not kept: [store] path and [log] file are empty");
        }
        warn!("what is known of origins ends with this process: [store] path is empty");
    }
}

/// Reports the mode: an operator must not mistake a proxy that denies nothing for one that does.
pub fn tell_mode(config: &Config) {
    let policy = &config.policy;
    if policy.mode == Mode::Report {
        warn!("report mode: everything is decided and recorded, NOTHING IS DENIED ([policy] mode)");
    } else if !policy.report_origins.is_empty() || !policy.report_clients.is_empty() {
        warn!(
            origins = ?policy.report_origins,
            clients = ?policy.report_clients,
            "report mode for some: nothing is denied there ([policy] report_origins, report_clients)"
        );
    }
    let clients = names(config, |client| client.mode == Some(Mode::Report));
    if !clients.is_empty() {
        warn!(?clients, "report mode for some: nothing is denied to them ([[client]] mode)");
    }
}

/// Names the exempt clients.
pub fn tell_exemptions(config: &Config) {
    let clients = names(config, |client| client.exempt.is_some());
    if !clients.is_empty() {
        warn!(
            ?clients,
            "exempt clients: what robots.txt disallows is forwarded for them ([[client]] exempt)"
        );
    }
}

/// Returns the names of some clients.
fn names(config: &Config, is_one: impl Fn(&&ClientConfig) -> bool) -> Vec<&str> {
    let some = config.clients.iter().filter(is_one);
    some.map(|client| &*client.name).collect()
}

/// Warns of a reload that has removed the last user of the console.
pub fn tell_shut(admin: &AdminConfig) {
    if admin.address.is_some() && admin.is_shut() {
        warn!(
            "the console refuses every request: the last [[admin.user]] is removed. Add a user and reload; only a restart opens \
             the console without users"
        );
    }
}
