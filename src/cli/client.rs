//! `crawlgate client`: the clients of the proxy, and their passwords.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::{fail, screen};
use crate::client::passwords;
use crate::config::{
    ClientConfig, Conditions, Config, IpNet, PasswordHash, Variables, client_name,
};
use crate::policy::overrides::words;
use crate::rep::ProductToken;
use crate::whole_file::NewFile;

/// Octets of a password, at least: anyone who can reach the proxy can guess at it.
const LEAST: usize = 8;

/// Octets of a password, at most: clients send it with each request.
const MOST: usize = 1_024;

/// Random octets of a generated password.
const RANDOM: usize = 24;

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
    /// Take the password from standard input: the first line
    #[arg(long, conflicts_with = "generate")]
    password_stdin: bool,
    /// Generate a password, and print it on standard error
    #[arg(long)]
    generate: bool,
    /// Add the entry to the configuration file
    #[arg(long)]
    append: bool,
}

/// Reads a product token of the command line.
pub(super) fn token(text: &str) -> Result<ProductToken, String> {
    ProductToken::new(text).map_err(|error| error.to_string())
}

fn network(text: &str) -> Result<IpNet, &'static str> {
    let address = text.parse().map(|address: std::net::IpAddr| address.into());
    address
        .or_else(|_| text.parse().map(|network: IpNet| network.trunc()))
        .map_err(|_| "expected a network: 10.0.0.0/8, 2001:db8::/32, 192.0.2.7")
}

/// Runs `crawlgate client`; exits 0, 1 for a wrong password, or 2 on failure.
#[must_use]
pub fn run(args: &ClientArgs, config: &Config) -> ExitCode {
    let done = match &args.command {
        Command::Add(args) => add(args, config),
        Command::List => screen::say(list(&config.clients).as_bytes()).map(|_| ExitCode::SUCCESS),
        Command::Check { name } => check(name, config),
    };
    done.unwrap_or_else(|error| fail(&error))
}

fn add(args: &AddArgs, config: &Config) -> Result<ExitCode, String> {
    if config.clients.iter().any(|client| client.name == args.name) {
        return Err(format!("a client is named {:?} already", args.name));
    }
    let password = match (args.generate, args.password_stdin) {
        (true, _) => made_up()?,
        (false, true) => first_line()?,
        (false, false) => asked_twice(&args.name)?,
    };
    is_fit(&password)?;
    let hash = passwords::hash(password.as_bytes())?;
    let entry = entry(args, &hash);
    if args.append {
        append(&entry, config)?;
    } else {
        screen::say(entry.as_bytes())?;
    }
    if args.generate {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "the password of {}: {password}", args.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the entry in the form of the configuration.
fn entry(args: &AddArgs, hash: &PasswordHash) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let list = |texts: Vec<String>| {
        let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
        format!("[{}]", texts.join(", "))
    };
    let mut text = String::new();
    let _ = writeln!(text, "[[client]]\nname = {}", quoted(&args.name));
    let _ = writeln!(text, "password = {}", quoted(hash.reveal()));
    if !args.networks.is_empty() {
        let networks = args.networks.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "networks = {}", list(networks));
    }
    if !args.agents.is_empty() {
        let agents = args.agents.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "product_tokens = {}", list(agents));
    }
    if let Some(purpose) = &args.purpose {
        let _ = writeln!(text, "purpose = {}", quoted(purpose));
    }
    text
}

/// Adds an entry to the configuration file, if the result is valid. Another process that reads the file meanwhile gets
/// the old file or the new one.
fn append(entry: &str, config: &Config) -> Result<(), String> {
    let Some(named) = config.source.file() else {
        return Err(
            "there is no configuration file to add it to; name one with --config FILE".to_owned(),
        );
    };
    let told = |error: io::Error| format!("{}: {error}", named.display());
    // Write to the target of a link, so that the link stays.
    let file = fs::canonicalize(named).map_err(told)?;
    let mut text = fs::read_to_string(&file).map_err(told)?;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(entry);
    // As the proxy reads it: keys that the entry needs may be set by variables.
    Config::parse_with(&text, named, &Variables::from_env())
        .map_err(|error| format!("nothing was added: {error}"))?;
    replace(&file, &text).map_err(told)?;
    let name = named.display();
    // Standard error may be closed.
    let _ = writeln!(
        io::stderr(),
        "added to {name}; a running proxy takes it over on SIGHUP"
    );
    Ok(())
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = NewFile::beside(file)?;
    new.write(text.as_bytes())?;
    // The new file keeps the readers of the old one.
    let old = fs::metadata(file)?;
    new.file().set_permissions(old.permissions())?;
    let (user, group) = {
        use std::os::unix::fs::MetadataExt as _;
        (old.uid(), old.gid())
    };
    // Only root can change the owner; other users keep their own files.
    let _ = std::os::unix::fs::chown(new.path(), Some(user), Some(group));
    new.replace()
}

fn list(clients: &[ClientConfig]) -> String {
    if clients.is_empty() {
        return "no [[client]] in the configuration: all crawlers are one client without a name\n"
            .to_owned();
    }
    const HEADING: [&str; 5] = ["name", "recognised by", "product tokens", "mode", "exempt"];
    let rows = clients.iter().map(|client| {
        let tokens: Vec<_> = client
            .product_tokens
            .iter()
            .map(ToString::to_string)
            .collect();
        let tokens = match tokens.is_empty() {
            true => "-".to_owned(),
            false => tokens.join(", "),
        };
        let mode = client.mode.map_or("-", crate::config::Mode::as_str);
        [
            client.name.to_string(),
            recognised_by(&client.conditions),
            tokens,
            mode.to_owned(),
            client.exempt.as_deref().unwrap_or("-").to_owned(),
        ]
    });
    screen::table(HEADING, rows, None)
}

/// Describes the conditions in words; the hash stays secret.
fn recognised_by(conditions: &Conditions) -> String {
    let Conditions {
        password,
        networks,
        listeners,
        certificates,
    } = conditions;
    fn listed<T: ToString>(name: &str, all: &[T]) -> Option<String> {
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        (!all.is_empty()).then(|| format!("{name} {}", all.join(" or ")))
    }
    let kinds = [
        password.as_ref().map(|_| "password".to_owned()),
        listed("network", networks),
        listed("listener", listeners),
        listed("certificate", certificates),
    ];
    let kinds: Vec<_> = kinds.into_iter().flatten().collect();
    match kinds.is_empty() {
        true => "everybody else".to_owned(),
        false => kinds.join(" and "),
    }
}

fn check(name: &str, config: &Config) -> Result<ExitCode, String> {
    let client = config.clients.iter().find(|client| *client.name == *name);
    let client = client.ok_or_else(|| {
        let names: Vec<_> = config.clients.iter().map(|client| &*client.name).collect();
        format!(
            "no client is named {name:?}; there are: {}",
            names.join(", ")
        )
    })?;
    let stored = client.conditions.password.as_ref();
    let stored = stored.ok_or_else(|| format!("client {name:?} has no password"))?;
    let password = match io::stdin().is_terminal() {
        true => ask(&format!("Password of {name}: "))?,
        false => first_line()?,
    };
    let is_right = passwords::verify(stored, password.as_bytes());
    let (word, code) = match is_right {
        true => ("right", ExitCode::SUCCESS),
        false => ("wrong", ExitCode::from(WRONG)),
    };
    screen::say(format!("{name}: {word}\n").as_bytes())?;
    Ok(code)
}

fn made_up() -> Result<String, String> {
    use base64::Engine as _;
    let mut octets = [0; RANDOM];
    aws_lc_rs::rand::fill(&mut octets).map_err(|_| "the system gives no random numbers")?;
    // Letters that need no escape in a URL.
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(octets))
}

fn first_line() -> Result<String, String> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| format!("standard input: {error}"))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn asked_twice(name: &str) -> Result<String, String> {
    let first = ask(&format!("Password of {name}: "))?;
    is_fit(&first)?;
    match ask("The same again: ")? == first {
        true => Ok(first),
        false => Err("that was not the same".to_owned()),
    }
}

fn ask(prompt: &str) -> Result<String, String> {
    rpassword::prompt_password(prompt).map_err(|error| {
        format!("no terminal to ask at ({error}); use --password-stdin or --generate")
    })
}

/// Checks that a text can be a password: RFC 7617, section 2, allows no control characters.
fn is_fit(password: &str) -> Result<(), String> {
    if password.len() < LEAST {
        Err(format!("a password has at least {LEAST} octets"))
    } else if password.len() > MOST {
        Err(format!("a password has at most {MOST} octets"))
    } else if password.chars().any(char::is_control) {
        Err("a password holds no control characters".to_owned())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
            password_stdin: false,
            generate: true,
            append: false,
        }
    }

    #[test]
    fn an_entry_is_read_back_as_it_was_asked_for() {
        let hash = passwords::hash(b"open sesame").expect("hashes");
        let config = config(&entry(&args("news"), &hash));
        let [client] = config.clients.as_slice() else {
            panic!("one client")
        };
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

    #[test]
    fn an_appended_entry_keeps_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.toml");
        let before = "# mine\n[log]\nlevel = \"warn\" # quiet";
        fs::write(&file, before).expect("written");
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let hash = passwords::hash(b"open sesame").expect("hashes");
        let load = || Config::load(Some(&link)).expect("right");
        append(&entry(&args("news"), &hash), &load()).expect("added");
        append(&entry(&args("side"), &hash), &load()).expect("added");
        let text = fs::read_to_string(&file).expect("read");
        assert!(
            text.starts_with(&format!("{before}\n\n[[client]]\n")),
            "{text}"
        );
        assert_eq!(load().clients.len(), 2);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        // An invalid result is not written.
        let error = append(&entry(&args("side"), &hash), &load()).expect_err("twice");
        assert!(error.contains("another client has this name"), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("read"), text);
        let nowhere = append("", &Config::default()).expect_err("no file");
        assert!(nowhere.contains("--config FILE"), "{nowhere}");
    }

    #[test]
    fn a_password_is_long_and_plain() {
        let long = "x".repeat(MOST + 1);
        for (password, fits) in [
            ("open sesame", true),
            ("schlüssel", true),
            ("short", false),
            ("", false),
            ("open\tsesame", false),
            (&*long, false),
        ] {
            assert_eq!(is_fit(password).is_ok(), fits, "{password:?}");
        }
        let made_up = made_up().expect("random");
        assert!(is_fit(&made_up).is_ok() && made_up.len() == 32, "{made_up}");
    }
}
