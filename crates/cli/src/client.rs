//! `crawlgate client`: the clients of the proxy, and their passwords.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::credentials::{PasswordArgs, ask, deliver, first_line, quoted, tell_secret};
use super::terminal::joined;
use super::{Failure, terminal};
use crawlgate_config::{ClientConfig, Conditions, Config, IpNet, PasswordHash, client_name};
use crawlgate_policy::overrides::words;
use crawlgate_robots::ProductToken;
use crawlgate_turns::client::passwords;

/// Exit code of `client check` for a wrong password.
const WRONG: u8 = 1;

/// Arguments of `crawlgate client`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct ClientArgs {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
A client is one crawler, or one fleet of them, with a person who answers for it: crawlgate judges, paces, limits and \
records each request as its client's. Clients are [[client]] entries of the configuration; a running proxy reads changes \
on SIGHUP. Clients send passwords with each request, so passwords count over loopback, a Unix socket or TLS only.

Examples:
  crawlgate client add news --agent NewsBot >> config.toml
  crawlgate client add fleet --network 10.1.0.0/16 --generate --append
  crawlgate client check news < password
  http_proxy=http://news:PASSWORD@127.0.0.1:8118 wget https://site.example/";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Make the entry of a new client, with the hash of its password
    ///
    /// The command prompts for the password twice. The entry goes to standard output, to paste into the configuration,
    /// or into the configuration file with --append.
    Add(AddArgs),
    /// List the clients: name, conditions, product tokens, mode, and the reason for which one is exempt
    List,
    /// Check a client's password: exits 0 if it is right, 1 if not
    ///
    /// The command prompts for the password, or reads it from standard input: the first line.
    Check {
        /// The client
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Args, Clone, Debug)]
struct AddArgs {
    /// The client's name, which is also the user name of its credentials
    #[arg(value_name = "NAME", value_parser = client_name)]
    name: Arc<str>,
    /// A product token to judge the client by, most specific first; may be repeated
    #[arg(long = "agent", value_name = "TOKEN", value_parser = token)]
    agents: Vec<ProductToken>,
    /// A network that the client must come from, besides knowing the password; may be repeated
    #[arg(long = "network", value_name = "NETWORK", value_parser = network)]
    networks: Vec<IpNet>,
    /// The purpose of the crawl, in words
    #[arg(long, value_name = "TEXT", value_parser = words)]
    purpose: Option<String>,
    #[command(flatten)]
    password: PasswordArgs,
    /// Add the entry to the configuration file
    #[arg(long)]
    append: bool,
}

/// Reads a product token of the command line.
pub(super) fn token(text: &str) -> Result<ProductToken, Failure> {
    ProductToken::new(text).map_err(Into::into)
}

fn network(text: &str) -> Result<IpNet, &'static str> {
    let address = text.parse().map(|address: std::net::IpAddr| address.into());
    address
        .or_else(|_| text.parse().map(|network: IpNet| network.trunc()))
        .map_err(|_| "expected a network: 10.0.0.0/8, 2001:db8::/32, 192.0.2.7")
}

/// Runs `crawlgate client`; exits 0, 1 for a wrong password, or 2 on failure.
pub(super) fn run(args: &ClientArgs, config: &Config) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Add(args) => add(args, config)?,
        Command::List => terminal::print(&list(&config.clients)).map(drop)?,
        Command::Check { name } => return check(name, config),
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: &AddArgs, config: &Config) -> Result<(), Failure> {
    if config.clients.iter().any(|client| client.name == args.name) {
        bail!("a client is named {:?} already", args.name);
    }
    let password = args.password.password(&args.name)?;
    let hash = passwords::hash(password.as_bytes())?;
    deliver(&entry(args, &hash), args.append, config)?;
    if args.password.generate {
        tell_secret("password", &args.name, &password);
    }
    Ok(())
}

/// Returns the entry in the form of the configuration.
fn entry(args: &AddArgs, hash: &PasswordHash) -> String {
    /// Appends a key with a list of values, unless there are none.
    fn put_list<T: ToString>(text: &mut String, key: &str, values: &[T]) {
        if !values.is_empty() {
            let values = joined(values.iter().map(|value| quoted(&value.to_string())), ", ", "");
            let _ = writeln!(text, "{key} = [{values}]");
        }
    }
    let mut text = String::new();
    let _ = writeln!(text, "[[client]]\nname = {}", quoted(&args.name));
    let _ = writeln!(text, "password = {}", quoted(hash.reveal()));
    put_list(&mut text, "networks", &args.networks);
    put_list(&mut text, "product_tokens", &args.agents);
    if let Some(purpose) = &args.purpose {
        let _ = writeln!(text, "purpose = {}", quoted(purpose));
    }
    text
}

fn list(clients: &[ClientConfig]) -> String {
    if clients.is_empty() {
        return "no [[client]] in the configuration: all crawlers are one client without a name\n"
            .to_owned();
    }
    const HEADING: [&str; 5] = ["name", "recognised by", "product tokens", "mode", "exempt"];
    let rows = clients.iter().map(|client| {
        let mode = client.mode.map_or("-", crawlgate_config::Mode::as_str);
        [
            client.name.to_string(),
            recognised_by(&client.conditions),
            joined(&client.product_tokens, ", ", "-"),
            mode.to_owned(),
            client.exempt.as_deref().unwrap_or("-").to_owned(),
        ]
    });
    terminal::table(HEADING, rows, None)
}

/// Describes the conditions in words; the hash stays secret.
fn recognised_by(conditions: &Conditions) -> String {
    let Conditions { password, networks, listeners, certificates } = conditions;
    fn listed<T: std::fmt::Display>(name: &str, all: &[T]) -> Option<String> {
        (!all.is_empty()).then(|| format!("{name} {}", joined(all, " or ", "")))
    }
    let kinds = [
        password.as_ref().map(|_| "password".to_owned()),
        listed("network", networks),
        listed("listener", listeners),
        listed("certificate", certificates),
    ];
    joined(kinds.into_iter().flatten(), " and ", "everybody else")
}

fn check(name: &str, config: &Config) -> Result<ExitCode, Failure> {
    let client = config.clients.iter().find(|client| *client.name == *name);
    let client = client.ok_or_else(|| {
        if config.clients.is_empty() {
            return format!("no client is named {name:?}: the configuration has no [[client]]");
        }
        let names = config.clients.iter().map(|client| &client.name);
        let names = joined(names, ", ", "");
        format!("no client is named {name:?}; there are: {names}")
    })?;
    let stored = client.conditions.password.as_ref();
    let stored = stored.ok_or_else(|| format!("client {name:?} has no password"))?;
    let password = if io::stdin().is_terminal() {
        ask(&format!("Password of {name}: "))?
    } else {
        first_line()?
    };
    let (word, code) = if passwords::verify(stored, password.as_bytes()) {
        ("right", ExitCode::SUCCESS)
    } else {
        ("wrong", ExitCode::from(WRONG))
    };
    terminal::print(&format!("{name}: {word}\n"))?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("/etc/crawlgate/config.toml")).expect("right")
    }

    fn args(name: &str) -> AddArgs {
        AddArgs {
            name: name.into(),
            agents: vec![ProductToken::new("NewsBot").expect("a token")],
            networks: vec!["10.1.0.0/16".parse().expect("a network")],
            purpose: Some("news \"search\"".to_owned()),
            password: PasswordArgs::default(),
            append: false,
        }
    }

    #[test]
    fn an_entry_is_read_back_as_it_was_asked_for() {
        let hash = passwords::hash(b"open sesame").expect("hashes");
        let config = config(&entry(&args("news"), &hash));
        let [client] = config.clients.as_slice() else { panic!("one client") };
        assert_eq!(&*client.name, "news");
        assert_eq!(client.conditions.password, Some(hash));
        assert_eq!(client.conditions.networks, args("news").networks);
        assert_eq!(client.product_tokens, args("news").agents);
        assert_eq!(client.purpose.as_deref(), Some("news \"search\""));
    }

    #[test]
    fn the_list_shows_conditions_and_no_hash() {
        let hash = passwords::hash(b"open sesame").expect("hashes");
        let text = entry(&args("news"), &hash)
            + "exempt = 'a person asks'\n[[listener]]\nname = 'a'\nunix = 'a'\n[[listener]]\nname = 'b'\nunix = 'b'\n\
               [[client]]\nname = 'side'\nlisteners = ['a', 'b']\nmode = 'report'\n[[client]]\nname = 'rest'\n";
        let list = list(&config(&text).clients);
        assert_eq!(
            list,
            "name  recognised by                     product tokens  mode    exempt\n\
             news  password and network 10.1.0.0/16  NewsBot         -       a person asks\n\
             side  listener a or b                   -               report  -\n\
             rest  everybody else                    -               -       -\n"
        );
        assert!(!list.contains("argon2"));
    }
}
