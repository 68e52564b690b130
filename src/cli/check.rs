//! `crawlgate check URL`: what would be decided, and why. Nothing but robots.txt is fetched.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use http::HeaderValue;
use http::uri::PathAndQuery;

use super::{FAILED, fail, tell_on_stderr};
use crate::agent::{Agent, Agents, Source};
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::egress::Egress;
use crate::policy::{self, Decision, Reason, Ruling, Target, Verdict};
use crate::rep::{Origin, ParseOptions, ProductToken, Robots, Scheme};
use crate::robots::registry::Registry;
use crate::robots::snapshot::Snapshot;
use crate::robots::state::{Fresh, Stance, State};

/// Exit code of a URL that is denied.
const DENIED: u8 = 1;

/// Arguments of `crawlgate check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// The URL, with its scheme
    url: String,
    /// Product token to judge as, or a whole User-Agent; several are a chain, most specific first
    #[arg(long, short, value_name = "TOKEN")]
    agent: Vec<String>,
    /// Judge by this file instead of the origin's robots.txt; `-` is standard input
    #[arg(long, value_name = "FILE")]
    robots: Option<PathBuf>,
}

/// Decides and explains; exits 0 for allow, 1 for deny, 2 when neither can be said.
#[must_use]
pub fn run(args: &CheckArgs, config: &Config) -> ExitCode {
    if let Err(error) = tell_on_stderr("warn") {
        return fail(&error);
    }
    match check(args, config) {
        Ok((text, verdict)) => {
            let _ = io::stdout().write_all(text.as_bytes()); // a reader that has gone wants no more
            match verdict {
                Verdict::Allow => ExitCode::SUCCESS,
                Verdict::Deny => ExitCode::from(DENIED),
                Verdict::Defer => ExitCode::from(FAILED),
            }
        }
        Err(error) => fail(&error),
    }
}

fn check(args: &CheckArgs, config: &Config) -> Result<(String, Verdict), String> {
    let (origin, path) =
        Origin::parse(&args.url).map_err(|error| format!("{}: {error}", args.url))?;
    if origin.scheme() == Scheme::Ftp {
        return Err(format!("{}: only http and https are forwarded", args.url));
    }
    let path = PathAndQuery::try_from(path).map_err(|error| format!("{}: {error}", args.url))?;
    let target = Target { origin, path };
    let agent = agent(&args.agent, config)?;
    let clock = Clock::system();
    let (state, stance) = match &args.robots {
        Some(file) => from_file(file, config, clock.now())?,
        None => from_origin(&args.agent, config, &target.origin, &clock)?,
    };
    let guard = config.robots.path_guard;
    let asked = target.clone();
    let ruling = match policy::clear_robots_txt(target) {
        Ok(ruling) => ruling,
        Err(target) => policy::decide(target, &agent, &state, &stance, guard, clock.now()),
    };
    let decision = match ruling {
        Ruling::Clear(_, decision) | Ruling::Refuse(decision) => decision,
    };
    Ok((explain(&asked, &agent, &decision), decision.verdict()))
}

fn agent(named: &[String], config: &Config) -> Result<Arc<Agent>, String> {
    let mut headers = http::HeaderMap::new();
    if named.is_empty() {
        return Ok(Agents::new(&config.agent.product_tokens).identify(&headers));
    }
    let tokens: Result<Vec<ProductToken>, _> =
        named.iter().map(|name| ProductToken::new(name)).collect();
    if let Ok(tokens) = tokens {
        let source = Source::Config;
        return Ok(Arc::new(Agent { tokens, source }));
    }
    for name in named {
        let value =
            HeaderValue::from_str(name).map_err(|_| format!("--agent {name}: not a User-Agent"))?;
        headers.append(http::header::USER_AGENT, value);
    }
    Ok(Agents::new(&[]).identify(&headers))
}

fn from_file(file: &Path, config: &Config, now: Moment) -> Result<(Arc<State>, Stance), String> {
    let mut text = Vec::new();
    // One octet more than counts tells a file of exactly the limit from a longer one.
    let most = config.robots.size_limit as u64 + 1;
    let read = if file == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(most).read_to_end(&mut text))
    };
    read.map_err(|error| format!("{}: {error}", file.display()))?;
    let options = ParseOptions {
        lenient: config.robots.lenient,
        limit: config.robots.size_limit,
    };
    let robots = Robots::parse(&text, options);
    let snapshot = Arc::new(Snapshot::new(robots, now, 200, &file.display().to_string()));
    let stance = Stance::Rules(Arc::clone(&snapshot));
    let until = now + config.robots.timing.fresh;
    let fresh = Fresh {
        refresh_from: until,
        until,
    };
    let state = State::Successful {
        snapshot,
        fresh,
        outage: None,
    };
    Ok((Arc::new(state), stance))
}

fn from_origin(
    named: &[String],
    config: &Config,
    origin: &Origin,
    clock: &Clock,
) -> Result<(Arc<State>, Stance), String> {
    let user_agent = named
        .first()
        .and_then(|name| HeaderValue::from_str(name).ok());
    let egress = Egress::new(config, clock.clone()).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot be started: {error}"))?;
    let registry = Registry::new(config.robots.clone(), egress, clock.clone());
    let view = runtime.block_on(registry.view(origin, user_agent.as_ref()));
    Ok((view.state, view.stance))
}

fn explain(target: &Target, agent: &Agent, decision: &Decision) -> String {
    let mut text = String::new();
    let verdict = decision.verdict().as_str();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{verdict}: {}{}", target.origin, target.path);
    let _ = writeln!(
        text,
        "  reason: {} ({})",
        decision.reason.as_str(),
        meaning(decision)
    );
    let chain: Vec<&str> = agent.tokens.iter().map(ProductToken::as_str).collect();
    let chain = if chain.is_empty() {
        "*".to_owned()
    } else {
        chain.join(", ")
    };
    let _ = writeln!(text, "  agent:  {chain}");
    let robots = decision.basis.as_ref().and_then(|state| state.snapshot());
    if let Some(rule) = &decision.rule {
        let _ = writeln!(text, "  group:  {} (line {})", rule.group, rule.group_line);
        let _ = writeln!(text, "  rule:   {} (line {})", rule.text, rule.line);
    } else if let Some(snapshot) = robots.filter(|_| decision.reason == Reason::RobotsAllow)
        && let Some((group, line)) = snapshot.rules(&agent.tokens).group()
    {
        let _ = writeln!(text, "  group:  {group} (line {line})");
    }
    if decision.reason == Reason::PathGuard {
        for reading in crate::rep::readings(target.path.as_str().as_bytes()) {
            let _ = writeln!(text, "  read as: {}", String::from_utf8_lossy(&reading));
        }
    }
    if let Some(snapshot) = robots {
        let cut = if snapshot.robots.is_truncated() {
            ", cut at the size limit"
        } else {
            ""
        };
        let octets = snapshot.robots.text().len();
        let _ = writeln!(
            text,
            "  robots: {} ({octets} octets{cut})",
            snapshot.final_url
        );
    } else {
        let _ = writeln!(text, "  robots: {}", target.origin.robots_url());
    }
    text
}

fn meaning(decision: &Decision) -> String {
    match decision.reason {
        Reason::RobotsAllow if decision.rule.is_some() => "a rule allows it".to_owned(),
        Reason::RobotsAllow => "no rule matches it".to_owned(),
        Reason::NoRules => "there are no rules for this agent".to_owned(),
        Reason::RobotsUnavailable => match decision.cause() {
            Some(cause) => {
                format!("robots.txt cannot be had, and the profile allows that: {cause}")
            }
            None => "the origin has no robots.txt".to_owned(),
        },
        Reason::RobotsTxt => "robots.txt itself is always allowed".to_owned(),
        Reason::RobotsDisallow => "a rule disallows it".to_owned(),
        Reason::PathGuard => "a rule disallows what the origin may read the path as".to_owned(),
        Reason::RobotsUnreachable => match decision.cause() {
            Some(cause) => format!("robots.txt cannot be had: {cause}"),
            None => "robots.txt cannot be had".to_owned(),
        },
        Reason::RobotsPending => "robots.txt did not arrive in time".to_owned(),
        other => other.as_str().to_owned(),
    }
}
