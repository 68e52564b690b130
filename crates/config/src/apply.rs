//! The walk over the sections of a file: their order, and the facts of one that another needs.
//!
//! The bounds of keys keep out mistakes (a time-out of zero) and values that weaken the proxy: fewer redirects or a smaller
//! file than RFC 9309 requires would turn a restriction into its absence.

use std::path::Path;
use std::sync::Arc;

use toml::de::DeTable;

use crate::config::Config;
use crate::forms::Context;
use crate::read::{Reader, Section};
use crate::section::{Key as _, Keys, Tables};
use crate::sections::{
    client::CLIENTS, listener::LISTENERS, policy::OVERRIDES, route::Via, signing::IDENTITIES,
    tls::TlsConfig,
};

/// Puts the document's values into `config`. Paths start at `base`.
pub(crate) fn apply<'t>(
    document: &'t DeTable<'t>,
    reader: &mut Reader<'t>,
    base: &Path,
    config: &mut Config,
) {
    let mut document = reader.top(document);
    let top = &mut document;
    let mut cx = Context { base: base.to_owned(), ..Context::default() };
    let has_listeners = top.count("listener") > 0;
    read(&mut config.listen, top, &cx, |it, table| {
        it.check(table, has_listeners);
    });
    let all = tables("listener", &LISTENERS, &mut config.listeners, top, &cx);
    cx.listeners = all.map(|all| all.iter().map(|one| Arc::clone(&one.name)).collect());
    read(&mut config.limits, top, &cx, |it, table| it.check(table));
    let all = tables("signing", &IDENTITIES, &mut config.signing, top, &cx);
    cx.identities = all.map(|all| all.iter().map(|one| Arc::clone(&one.name)).collect());
    let cx = &cx;
    read(&mut config.agent, top, cx, |_, _| {});
    top.within("robots", |table| {
        config.robots.begin(table);
        config.robots.read(table, cx);
        config.robots.check(table);
    });
    read(&mut config.robots.signals, top, cx, |_, _| {});
    read(&mut config.pace, top, cx, |_, _| {});
    read(&mut config.tls, top, cx, |_, table| TlsConfig::check(table));
    read(&mut config.egress, top, cx, |_, _| {});
    read(&mut config.upstream, top, cx, |_, _| {});
    read(&mut config.log, top, cx, |_, _| {});
    read(&mut config.telemetry, top, cx, |_, _| {});
    let mut routes = config.upstream.routes.iter();
    let has_upstream_proxy = routes.any(|route| matches!(route.via, Via::Proxy(_)));
    let mut names_socket = false;
    read(&mut config.admin, top, cx, |admin, table| {
        admin.check(table, has_upstream_proxy);
        names_socket = table.names("socket");
    });
    let socket = &mut config.admin.socket;
    read(&mut config.store, top, cx, |store, table| {
        if table.names("path") && !names_socket {
            // Beside the store, even if the file moves the store.
            let store = store.path.as_ref();
            *socket = store.map(|store| store.with_extension("sock"));
        }
    });
    let has_store = config.store.path.is_some();
    read(&mut config.audit, top, cx, |it, table| it.check(table));
    read(&mut config.ship, top, cx, |it, table| {
        it.check(table, has_store);
    });
    let is_per_address = config.pace.per_address;
    top.within("fleet", |table| {
        config.fleet.begin(table);
        config.fleet.read(table, cx);
        config.fleet.check(table, is_per_address, has_store);
    });
    read(&mut config.policy, top, cx, |_, _| {});
    let overrides = &mut config.policy.overrides;
    tables("override", &OVERRIDES, overrides, top, cx);
    tables("client", &CLIENTS, &mut config.clients, top, cx);
    document.finish();
}

/// Reads the keys of a section, then checks the rules between them.
fn read<'t, K: Keys>(
    to: &mut K,
    top: &mut Section<'_, 't>,
    cx: &Context,
    check: impl FnOnce(&mut K, &mut Section<'_, 't>),
) {
    top.within(K::NAME, |table| {
        to.read(table, cx);
        check(to, table);
    });
}

/// Reads an array of tables, and returns them, unless one has a fault.
fn tables<'a, T>(
    key: &'static str,
    of: &Tables<T>,
    to: &'a mut Vec<T>,
    top: &mut Section<'_, '_>,
    cx: &Context,
) -> Option<&'a [T]> {
    of.read(key, to, top, cx);
    (to.len() == top.count(key)).then_some(to)
}
