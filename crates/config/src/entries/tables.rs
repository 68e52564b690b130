//! Tables in one line each: those that repeat (`[[client]]`, `[[listener]]`, `[[override]]`, `[[upstream.proxy]]`,
//! `[[audit.witness]]`, `[[admin.user]]`, `[[signing]]`) and `[upstream.hosts]`. The structs are taken apart field by field, so a new field does not compile until it stands here.

use std::{collections::HashMap, net::IpAddr};

use super::super::{
    AdminUser, ClientAuthority, ClientConfig, Conditions, Credentials, ListenAt, Listener,
    ListenerCertificate, ListenerTls, PasswordHash, Quota, Route, Via, WitnessConfig,
    keys::{ACTIONS, CLIENT_CERTS, COVERS, FORMS, MODES, PROFILES, ROLES, SIGNED_PARTS},
    units::format_moment,
};
use super::text::{float, list, name, place, quoted, size, span, texts};
use crawlgate_policy::overrides::{Action, Override};
use crawlgate_signing::Settings;
use crawlgate_usage::{Purpose, Purposes};

/// Writes one `[[override]]`.
pub(super) fn override_(from: &Override) -> String {
    let Override {
        id: _,
        origin,
        pattern,
        action,
        until,
        by,
        reason,
        created: _,
        instance: _,
    } = from;
    let effect = match action {
        Action::AllowUsage => format!("{}, covers = {}", quoted("allow"), name(&COVERS, *action)),
        Action::Allow | Action::Deny => name(&ACTIONS, *action),
    };
    let until = until.map(|until| format!("until = {}, ", quoted(format_moment(until))));
    format!(
        "{{ origin = {}, pattern = {}, action = {}, {}by = {}, reason = {} }}",
        quoted(origin),
        quoted(pattern),
        effect,
        until.unwrap_or_default(),
        quoted(by),
        quoted(reason),
    )
}

/// Writes one `[[client]]`; a digest stands for its password's hash, so that a change shows.
pub(super) fn client(client: &ClientConfig) -> String {
    let ClientConfig {
        name: called,
        conditions,
        product_tokens,
        user_agent,
        purpose,
        purposes,
        signing,
        mode,
        exempt,
        profile,
        rate,
        quota,
        max_connections,
        max_requests,
    } = client;
    let Conditions {
        password,
        networks,
        listeners,
        certificates,
    } = conditions;
    let mut keys = vec![format!("name = {}", quoted(called))];
    let mut say = |key: &str, value: Option<String>| {
        keys.extend(value.map(|value| format!("{key} = {value}")));
    };
    let some = |list: String| Some(list).filter(|list| list != "[]");
    let digest = password.as_ref().map(PasswordHash::digest);
    let hidden = digest.map(|digest| quoted(format!("*** ({digest})")));
    say("password", hidden);
    say("networks", some(texts(networks)));
    say("listeners", some(texts(listeners)));
    say("certificates", some(texts(certificates)));
    say("product_tokens", some(texts(product_tokens)));
    say("user_agent", user_agent.as_ref().map(quoted));
    say("purpose", purpose.as_ref().map(quoted));
    say("purposes", purposes.map(self::purposes));
    say("signing", signing.as_ref().map(quoted));
    say("mode", mode.map(|mode| name(&MODES, mode)));
    say("exempt", exempt.as_ref().map(quoted));
    say("profile", profile.map(|profile| name(&PROFILES, profile)));
    let per_second = rate.map(|rate| float(rate.requests_per_second));
    say("requests_per_second", per_second);
    say("burst", rate.map(|rate| rate.burst.to_string()));
    say("quota", quota.as_ref().map(self::quota));
    say(
        "connections",
        max_connections.map(|count| count.to_string()),
    );
    say("requests", max_requests.map(|count| count.to_string()));
    format!("{{ {} }}", keys.join(", "))
}

/// Writes purposes as a list.
pub(super) fn purposes(purposes: Purposes) -> String {
    let words: Vec<&str> = purposes.iter().map(Purpose::as_str).collect();
    texts(&words)
}

fn quota(quota: &Quota) -> String {
    let Quota {
        requests,
        bytes,
        per,
    } = quota;
    let requests = requests.map(|count| format!("requests = {count}, "));
    let bytes = bytes.map(|count| format!("bytes = {}, ", size(count)));
    let (requests, bytes) = (requests.unwrap_or_default(), bytes.unwrap_or_default());
    format!("{{ {requests}{bytes}per = {} }}", span(*per))
}

/// Writes one `[[upstream.proxy]]`; its password is not shown.
pub(super) fn route(route: &Route) -> String {
    // A file cannot set a scheme.
    let Route {
        scheme: _,
        hosts,
        via,
    } = route;
    let hosts = texts(hosts);
    let proxy = match via {
        Via::Direct => return format!("{{ hosts = {hosts}, direct = true }}"),
        Via::Proxy(proxy) => proxy,
    };
    let file = match &proxy.credentials {
        Credentials::File(file) => {
            format!(", credentials_file = {}", quoted(file.display()))
        }
        Credentials::None | Credentials::Inline { .. } => String::new(),
    };
    format!("{{ hosts = {hosts}, url = {}{file} }}", quoted(proxy))
}

/// Writes one `[[listener]]`.
pub(super) fn listener(listener: &Listener) -> String {
    let Listener {
        name,
        at,
        tls,
        allow,
        open,
        proxy_protocol_from,
    } = listener;
    let mut keys = vec![format!("name = {}", quoted(name))];
    match at {
        ListenAt::Address(address) => keys.push(format!("address = {}", quoted(address))),
        ListenAt::Unix { path, mode } => {
            keys.push(format!("unix = {}", quoted(path.display())));
            keys.push(format!("mode = {}", quoted(format!("{mode:04o}"))));
        }
    }
    if let Some(ListenerTls {
        certificate,
        clients,
    }) = tls
    {
        keys.push("tls = true".to_owned());
        match certificate {
            ListenerCertificate::Files { cert, key } => {
                keys.push(format!("cert = {}", quoted(cert.display())));
                keys.push(format!("key = {}", quoted(key.display())));
            }
            ListenerCertificate::Minted(names) => {
                keys.push(format!("names = {}", texts(names)));
            }
        }
        if let Some(ClientAuthority { file, demand }) = clients {
            let demand = self::name(&CLIENT_CERTS, *demand);
            keys.push(format!("client_ca = {}", quoted(file.display())));
            keys.push(format!("client_cert = {demand}"));
        }
    }
    keys.push(format!("allow = {}", texts(allow)));
    keys.push(format!("open = {open}"));
    let balancers = texts(proxy_protocol_from);
    keys.push(format!("proxy_protocol_from = {balancers}"));
    format!("{{ {} }}", keys.join(", "))
}

/// Writes one `[[admin.user]]`; marks stand for its secrets, so that a change shows.
pub(super) fn admin_user(user: &AdminUser) -> String {
    let AdminUser {
        name: called,
        role,
        password,
        token,
    } = user;
    let hidden = |key: &str, mark: Option<String>| {
        mark.map(|mark| format!(", {key} = {}", quoted(format!("*** ({mark})"))))
            .unwrap_or_default()
    };
    let password = hidden("password", password.as_ref().map(PasswordHash::digest));
    let token = hidden("token", token.as_ref().map(|token| token.mark(called)));
    let (called, role) = (quoted(called), name(&ROLES, *role));
    format!("{{ name = {called}, role = {role}{password}{token} }}")
}

/// Writes one `[[audit.witness]]`.
pub(super) fn witness(witness: &WitnessConfig) -> String {
    let WitnessConfig {
        name: called,
        url,
        vkey,
        ca,
    } = witness;
    let (called, url, vkey) = (quoted(called), quoted(url), quoted(vkey));
    let ca = ca.as_deref();
    let ca = ca.map(|path| format!(", ca = {}", place(Some(path))));
    let ca = ca.unwrap_or_default();
    format!("{{ name = {called}, url = {url}, vkey = {vkey}{ca} }}")
}

/// Writes one `[[signing]]`.
pub(super) fn signing(from: &Settings) -> String {
    let Settings {
        name: called,
        agent,
        key,
        publish,
        lifetime,
        cover,
        form,
        plain_http,
    } = from;
    let publish = list(publish, |path| place(Some(path)));
    format!(
        "{{ name = {}, agent = {}, key = {}, publish = {publish}, lifetime = {}, cover = {}, form = {}, plain_http = {plain_http} \
         }}",
        quoted(called),
        quoted(agent),
        place(Some(key)),
        span(*lifetime),
        name(&SIGNED_PARTS, *cover),
        name(&FORMS, *form),
    )
}

/// Writes `[upstream.hosts]`, by name.
pub(super) fn hosts(hosts: &HashMap<String, IpAddr>) -> String {
    let mut names: Vec<_> = hosts
        .iter()
        .map(|(host, address)| format!("{} = {}", quoted(host), quoted(address)))
        .collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => "{}".to_owned(),
        names => format!("{{ {} }}", names.join(", ")),
    }
}
