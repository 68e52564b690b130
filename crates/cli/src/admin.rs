//! `crawlgate admin user`: the users of the console and the API.

use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::credentials::{PasswordArgs, deliver, made_up, quoted, tell_secret};
use super::{Failure, terminal};
use crawlgate_config::{AdminUser, Config, Role, TokenDigest, client_name};
use crawlgate_turns::client::passwords;

/// Arguments of `crawlgate admin`.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Add and list the users of the console and the API
    #[command(after_help = AFTER_HELP)]
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
}

const AFTER_HELP: &str = "\
A user is a person or a program: what it acknowledges and overrides is recorded under its name. Users are [[admin.user]] \
entries of the configuration; a running proxy reads changes on SIGHUP. The commands of this program reach the process by \
its socket, as the local operator, and need no user.

Examples:
  crawlgate admin user add ada --role review >> config.toml
  crawlgate admin user add prometheus --role read --token --append
  curl -H 'Authorization: Bearer TOKEN' http://127.0.0.1:8119/metrics";

#[derive(Subcommand, Clone, Debug)]
enum UserCommand {
    /// Make the entry of a new user, with the hash of its password or of its token
    ///
    /// The command prompts for the password twice. The entry goes to standard output, to paste into the configuration,
    /// or into the configuration file with --append.
    Add(AddArgs),
    /// List the users: name, role, and the kinds of credentials
    List,
}

#[derive(Args, Clone, Debug)]
struct AddArgs {
    /// The user's name, which is also the user name of its password
    #[arg(value_name = "NAME", value_parser = client_name)]
    name: Arc<str>,
    /// The acts that the user may do: read sees everything, review acknowledges, too, operate changes everything
    #[arg(long, value_name = "ROLE", value_parser = role())]
    role: Role,
    /// Generate a token for a program instead of a password, and print it on standard error
    #[arg(long, conflicts_with_all = ["password_stdin", "generate"])]
    token: bool,
    #[command(flatten)]
    password: PasswordArgs,
    /// Add the entry to the configuration file
    #[arg(long)]
    append: bool,
}

/// Returns the parser of a role on the command line.
fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::as_str)).try_map(|name| {
        let mut all = Role::ALL.into_iter();
        all.find(|role| role.as_str() == name).ok_or("no role")
    })
}

/// Runs `crawlgate admin`; exits 0, or 2 on failure.
pub(super) fn run(args: &AdminArgs, config: &Config) -> Result<ExitCode, Failure> {
    let Command::User { command } = &args.command;
    match command {
        UserCommand::Add(args) => add(args, config)?,
        UserCommand::List => terminal::print(&list(&config.admin.users)).map(drop)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: &AddArgs, config: &Config) -> Result<(), Failure> {
    if config.admin.users.iter().any(|user| user.name == args.name) {
        bail!("a user is named {:?} already", args.name);
    }
    let (kind, secret, stored) = if args.token {
        let token = made_up()?;
        let digest = TokenDigest::of(token.as_bytes());
        ("token", token, digest.reveal())
    } else {
        let password = args.password.password(&args.name)?;
        let hash = passwords::hash(password.as_bytes())?;
        ("password", password, hash.reveal().to_owned())
    };
    let entry = entry(&args.name, args.role, kind, &stored);
    deliver(&entry, args.append, config)?;
    if args.token || args.password.generate {
        tell_secret(kind, &args.name, &secret);
    }
    Ok(())
}

/// Returns the entry in the form of the configuration. `kind` is the key of the secret, of which `stored` is the hash.
fn entry(name: &str, role: Role, kind: &str, stored: &str) -> String {
    let (name, role, stored) = (quoted(name), quoted(role.as_str()), quoted(stored));
    format!("[[admin.user]]\nname = {name}\nrole = {role}\n{kind} = {stored}\n")
}

fn list(users: &[AdminUser]) -> String {
    if users.is_empty() {
        return "no [[admin.user]] in the configuration\n".to_owned();
    }
    let rows = users.iter().map(|user| {
        let kinds =
            [user.password.as_ref().map(|_| "password"), user.token.as_ref().map(|_| "token")];
        let kinds: Vec<&str> = kinds.into_iter().flatten().collect();
        let role = user.role.as_str().to_owned();
        [user.name.to_string(), role, kinds.join(" and ")]
    });
    terminal::table(["name", "role", "signs in by"], rows, None)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("/etc/crawlgate/config.toml")).expect("right")
    }

    #[test]
    fn an_entry_is_read_back_as_it_was_asked_for() {
        let hash = passwords::hash(b"open sesame").expect("hashes");
        let digest = TokenDigest::of(b"0123456789abcdef");
        let text = entry("ada", Role::Review, "password", hash.reveal())
            + &entry("prometheus", Role::Read, "token", &digest.reveal());
        let config = config(&text);
        let user = |name: &str, role, password, token| AdminUser {
            name: name.into(),
            role,
            password,
            token,
        };
        assert_eq!(
            config.admin.users,
            [
                user("ada", Role::Review, Some(hash), None),
                user("prometheus", Role::Read, None, Some(digest)),
            ]
        );
        assert_eq!(
            list(&config.admin.users),
            "name        role    signs in by\nada         review  password\nprometheus  read    token\n"
        );
    }
}
