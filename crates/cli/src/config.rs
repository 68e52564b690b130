//! `crawlgate config`: checks the configuration, and prints its values.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::terminal::{self, say};
use super::{FAILED, Failure};
use crate::service::join;
use crawlgate_admin::http::Token;
use crawlgate_config::{AdminConfig, Config, ListenAt, Variables};
use crawlgate_egress as egress;
use crawlgate_evidence::ship;
use crawlgate_evidence::witness;
use crawlgate_proxy::listener;
use crawlgate_proxy::telemetry;
use crawlgate_signing::Identities;
use crawlgate_trust as trust;

/// Arguments of `crawlgate config`.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Copy, Debug)]
enum Command {
    /// Check the configuration and report all its faults
    ///
    /// Also reads the files that it names: tls.extra_roots, those of each [[listener]], [[upstream.proxy]] and
    /// [[audit.witness]], telemetry.headers_file, ship.token_file, the keys of [[signing]], and those of [fleet] and [admin].
    /// Prints the path of the configuration file. Exits 0 if all is right, 2 if not.
    Check,
    /// Print the effective value of every key, as TOML
    Show,
}

/// Runs `crawlgate config` on the configuration that `explicit` (`--config`) or the environment names. Results go to
/// standard output, faults to standard error; exits 0, or 2 if the configuration is wrong.
pub(super) fn run(args: &ConfigArgs, explicit: Option<&Path>) -> Result<ExitCode, Failure> {
    let config = match Config::load(explicit) {
        Ok(config) => config,
        Err(error) => {
            say(error);
            return Ok(ExitCode::from(FAILED));
        }
    };
    let text = match args.command {
        Command::Check => {
            let faults = faults(&config);
            if !faults.is_empty() {
                say(faults.trim_end_matches('\n'));
                return Ok(ExitCode::from(FAILED));
            }
            checked(&config)
        }
        Command::Show => shown(&config),
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the faults of the files and addresses that the configuration names, a line for each; empty if there are
/// none.
pub(super) fn faults(config: &Config) -> String {
    let mut faults = Vec::new();
    let mut add = |all: Vec<String>| faults.extend(all);
    add(texts(&trust::faults(&config.tls.extra_roots)));
    add(texts(&listener::faults(&config.listeners)));
    add(texts(&egress::faults(&config.upstream)));
    add(texts(&witness::faults(&config.audit.witnesses)));
    add(texts(telemetry::fault(&config.telemetry).as_slice()));
    // Only the HTTP listener reads them.
    let admin = Some(&config.admin).filter(|admin| admin.address.is_some());
    let token = admin.and_then(|admin| admin.token_file.as_ref());
    let token = token.and_then(|path| Token::check(path).err());
    add(texts(token.as_slice()));
    let tls = admin.and_then(AdminConfig::tls);
    let of_tls = tls.map(|tls| listener::certificate_faults(&tls.cert, &tls.key));
    let of_tls = of_tls.into_iter().flatten();
    add(of_tls.map(|fault| format!("[admin] {fault}")).collect());
    add(join::faults(config));
    let (_, of_signing) = Identities::default().reloaded(&config.signing);
    add(texts(&of_signing));
    add(texts(ship::fault(&config.ship).as_slice()));
    add(shared_places(config));
    let lines = faults.iter();
    lines.map(|fault| format!("{}: {fault}\n", config.source)).collect()
}

fn texts(faults: &[impl ToString]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Returns addresses and sockets that two listeners share: the second one would not start.
fn shared_places(config: &Config) -> Vec<String> {
    let mut all: Vec<(String, ListenerAddress<'_>)> = Vec::new();
    let mut add = |who: &str, at| all.push((who.to_owned(), at));
    for address in &config.listen.addresses {
        add("[listen] address", ListenerAddress::Port(*address));
    }
    for listener in &config.listeners {
        let at = match &listener.at {
            ListenAt::Address(address) => ListenerAddress::Port(*address),
            ListenAt::Unix { path, .. } => ListenerAddress::File(path),
        };
        add(&format!("[[listener]] {:?}", listener.name), at);
    }
    let admin = &config.admin;
    if let Some(address) = admin.address {
        add("[admin] address", ListenerAddress::Port(address));
    }
    if let Some(address) = admin.public_try {
        add("[admin] public_try", ListenerAddress::Port(address));
    }
    if let Some(path) = &admin.socket {
        add("[admin] socket", ListenerAddress::File(path));
    }
    let mut shared = Vec::new();
    for (place, (who, at)) in all.iter().enumerate() {
        let mut before = all.iter().take(place);
        if let Some((first, other)) = before.find(|(_, other)| other.excludes(at)) {
            shared.push(format!(
                "{who} = {at}: {first} listens at {other} already; give one of them another place"
            ));
        }
    }
    shared
}

/// An address or a socket of a listener.
enum ListenerAddress<'a> {
    Port(SocketAddr),
    File(&'a Path),
}

impl ListenerAddress<'_> {
    /// Tells whether this listener keeps another one from listening at `other`.
    fn excludes(&self, other: &ListenerAddress<'_>) -> bool {
        match (self, other) {
            (ListenerAddress::File(one), ListenerAddress::File(other)) => one == other,
            (ListenerAddress::Port(one), ListenerAddress::Port(other)) => {
                let is_all = one.ip().is_unspecified() || other.ip().is_unspecified();
                one.port() == other.port()
                    && one.port() != 0
                    && one.is_ipv4() == other.is_ipv4()
                    && (is_all || one.ip() == other.ip())
            }
            _ => false,
        }
    }
}

impl fmt::Display for ListenerAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenerAddress::Port(address) => address.fmt(f),
            ListenerAddress::File(path) => path.display().fmt(f),
        }
    }
}

fn checked(config: &Config) -> String {
    format!("{}: ok\n", origin(config))
}

fn shown(config: &Config) -> String {
    format!("# {}\n{}", origin(config), config.to_toml())
}

/// Returns the names of the file and of the variables that the values come from.
fn origin(config: &Config) -> String {
    let variables = Variables::from_env();
    let source = config.source.to_string();
    terminal::joined(std::iter::once(&*source).chain(variables.names()), ", ", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_reads_every_file_that_is_named() {
        let text = "[listen]\naddress = '127.0.0.1:0'\n\
                    [tls]\nextra_roots = ['/none/roots-1.pem', '/none/roots-2.pem']\n\
                    [[listener]]\nname = 'fleet'\naddress = '127.0.0.1:0'\ntls = true\n\
                    cert = '/none/1.pem'\nkey = '/none/1.key'\nclient_ca = '/none/ca.pem'\n\
                    [[upstream.proxy]]\nhosts = '*'\nurl = 'http://proxy.example:3128'\n\
                    credentials_file = '/none/login'\n\
                    [[audit.witness]]\nname = 'w'\nurl = 'https://w.example'\nca = '/none/w.pem'\n\
                    vkey = 'witness.example/w1+f5f1ad4c+BAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH'\n\
                    [telemetry]\notlp_endpoint = 'http://127.0.0.1:4318'\nheaders_file = '/none/fields'\n\
                    [store]\npath = 'decisions.db'\n\
                    [ship]\nto = 'https://ship.example'\ntoken_file = '/none/ship'\n\
                    [fleet]\nengine = '127.0.0.1:6379'\nkey_file = '/none/fleet.key'\ntls = true\n\
                    cert = '/none/engine.pem'\nkey = '/none/engine.key'\npassword_file = '/none/password'\n\
                    [[signing]]\nname = 'news'\nkey = '/none/news.key'\nagent = 'https://news.example'\n\
                    [admin]\naddress = '127.0.0.1:0'\ntoken_file = '/none/token'\n\
                    cert = '/none/console.pem'\nkey = '/none/console.key'\n";
        let config = Config::parse(text, Path::new("shown.toml")).expect("right but for the files");
        let reported = faults(&config);
        let wanted = [
            "[tls] extra_roots: cannot read /none/roots-1.pem",
            "[tls] extra_roots: cannot read /none/roots-2.pem",
            "[[listener]] \"fleet\", cert /none/1.pem",
            "[[listener]] \"fleet\", key /none/1.key",
            "[[listener]] \"fleet\", client_ca /none/ca.pem",
            "[[upstream.proxy]] credentials_file = /none/login",
            "[[audit.witness]] ca: cannot read /none/w.pem",
            "[telemetry] headers_file = /none/fields",
            "[admin] token_file /none/token",
            "[admin] cert /none/console.pem",
            "[admin] key /none/console.key",
            "[fleet] key_file /none/fleet.key",
            "[fleet] cert /none/engine.pem",
            "[fleet] key /none/engine.key",
            "[fleet] password_file /none/password",
            "[[signing]] name = \"news\", key = /none/news.key",
            "[ship] token_file /none/ship",
        ];
        let lines: Vec<_> = reported.lines().collect();
        assert_eq!(lines.len(), wanted.len(), "{reported}");
        for (line, wanted) in lines.iter().zip(wanted) {
            let start = format!("shown.toml: {wanted}: ");
            assert!(line.starts_with(&start), "{line} is not about {wanted}");
        }
    }

    #[test]
    fn check_reports_two_listeners_at_one_address() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a listener twice", "[[listener]]\nname = 'a'\naddress = '127.0.0.1:8118'\n", Some("[[listener]] \"a\" = 127.0.0.1:8118: [listen] address listens at 127.0.0.1:8118 already")),
            ("the console where crawlers come", "[admin]\naddress = '127.0.0.1:8118'\n", Some("[admin] address = 127.0.0.1:8118: [listen] address listens at 127.0.0.1:8118 already")),
            ("the page for everyone where crawlers come", "[admin]\npublic_try = '127.0.0.1:8118'\n", Some("[admin] public_try = 127.0.0.1:8118: [listen] address listens at 127.0.0.1:8118 already")),
            ("the page for everyone where the console is", "[admin]\naddress = '127.0.0.1:8119'\npublic_try = '127.0.0.1:8119'\n", Some("[admin] public_try = 127.0.0.1:8119: [admin] address listens at 127.0.0.1:8119 already")),
            ("one of all addresses", "[[listener]]\nname = 'a'\naddress = '0.0.0.0:8118'\nopen = true\n", Some("[[listener]] \"a\" = 0.0.0.0:8118: [listen] address listens at 127.0.0.1:8118 already")),
            ("other ports", "[[listener]]\nname = 'a'\naddress = '127.0.0.1:8120'\n", None),
        ];
        for (name, more, wanted) in cases {
            let text = format!("[listen]\naddress = '127.0.0.1:8118'\n{more}");
            let config = Config::parse(&text, Path::new("shown.toml")).expect(name);
            let line = |wanted| format!("shown.toml: {wanted}; give one of them another place\n");
            assert_eq!(faults(&config), wanted.map_or(String::new(), line), "{name}");
        }
    }

    #[test]
    fn check_names_the_source_and_show_prints_a_file_that_reads_the_same() {
        let config = Config::default();
        assert_eq!(faults(&config), "");
        assert_eq!(checked(&config), "built-in defaults: ok\n");
        let shown = shown(&config);
        let read = Config::parse(&shown, Path::new("shown.toml")).expect("what is shown is right");
        assert_eq!(read.entries(), config.entries());
    }
}
