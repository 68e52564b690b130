//! Are the settings of an engine and its sentinels those that the promises of a fleet need?
//!
//! Judges answers that `Engine::survey` has collected: one finding for each matter, with the consequence and the command
//! that mends it. A setting that the engine's user may not read is no failure, but is said.

mod settings;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::survey::{
    Answer, EngineFacts, Refusal, RefusalKind, Role, is_cluster, is_new_enough, product,
};
pub use super::survey::{SentinelFacts, Survey};
use crawlgate_config::{Endpoint, FleetConfig};

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The matter, in one word.
    pub check: &'static str,
    /// The result.
    pub level: Level,
    /// The server that it is about.
    pub at: String,
    /// The state.
    pub says: String,
    /// The consequence.
    pub breaks: Option<String>,
    /// The way out, as a command where there is one.
    pub mend: Option<String>,
}

crawlgate_text::spelled! {
    /// The gravity of a finding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Level {
        /// It is as it should be.
        Ok = "ok",
        /// No promise breaks, but a person should know it; or it could not be read.
        Warning = "warning",
        /// A promise of the fleet breaks.
        Failure = "failure",
    }
}

/// Judges the answers of an engine and its sentinels.
#[must_use]
pub fn judge(survey: &Survey, config: &FleetConfig) -> Vec<Finding> {
    let mut checker = Checker {
        config,
        at: String::new(),
        place: String::new(),
        tool: String::new(),
        findings: Vec::new(),
    };
    settings::sentinels(&mut checker, survey);
    let Some(at) = &survey.at else {
        let says = "no sentinel names the primary";
        let mend = "start the sentinels, or correct [fleet] sentinels and master";
        checker.failure("reachable", says, NOTHING_GOES, mend);
        return checker.findings;
    };
    checker.about(at);
    match &survey.engine {
        Ok(facts) => engine(&mut checker, at, facts, survey),
        Err(why) => {
            let says = format!("it does not answer: {why}");
            let advice = advice(&why.to_string());
            checker.failure("reachable", says, NOTHING_GOES, advice);
        }
    }
    checker.findings
}

const NOTHING_GOES: &str = "every instance forwards nothing (503, fleet_cut)";

/// Returns the way out of a failure to connect.
fn advice(why: &str) -> &'static str {
    let has = |word: &str| why.to_ascii_lowercase().contains(word);
    if has("auth") || has("wrongpass") || has("noauth") || has("password") {
        "correct [fleet] user and password_file, or the user at the engine (ACL SETUSER)"
    } else if has("certificate") || has("tls") || has("handshake") {
        "name the CA of the engine's certificate in [tls] extra_roots, and the certificate that the engine asks for in \
         [fleet] cert and key"
    } else {
        "start the engine, or correct [fleet] engine; with tls-port at the engine, set [fleet] tls = true"
    }
}

/// The findings about one server after another.
struct Checker<'c> {
    config: &'c FleetConfig,
    at: String,
    /// The words of redis-cli that name the server.
    place: String,
    /// The command line that reaches it.
    tool: String,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn about(&mut self, at: &Endpoint) {
        let tls = if self.config.tls { " --tls" } else { "" };
        self.tool = format!("redis-cli -h {} -p {}{tls}", at.host, at.port);
        self.place = format!("{} {}", at.host, at.port);
        self.at = at.to_string();
    }

    fn find(
        &mut self,
        level: Level,
        check: &'static str,
        says: impl Into<String>,
        fault: Option<(&str, String)>,
    ) {
        let (breaks, mend) = fault.unzip();
        self.findings.push(Finding {
            check,
            level,
            at: self.at.clone(),
            says: says.into(),
            breaks: breaks.map(str::to_owned),
            mend,
        });
    }

    fn ok(&mut self, check: &'static str, says: impl Into<String>) {
        self.find(Level::Ok, check, says, None);
    }

    fn warning(
        &mut self,
        check: &'static str,
        says: impl Into<String>,
        breaks: &str,
        mend: impl Into<String>,
    ) {
        self.find(Level::Warning, check, says, Some((breaks, mend.into())));
    }

    fn failure(
        &mut self,
        check: &'static str,
        says: impl Into<String>,
        breaks: &str,
        mend: impl Into<String>,
    ) {
        self.find(Level::Failure, check, says, Some((breaks, mend.into())));
    }

    /// Returns the fleet's user at the engine.
    fn user(&self) -> &str {
        self.config.user.as_deref().unwrap_or("default")
    }

    /// Returns a command for the present server.
    fn command(&self, words: &str) -> String {
        format!("{} {words}", self.tool)
    }

    /// Returns the command that makes a replica of the present server.
    fn replicaof(&self) -> String {
        format!("redis-cli -h REPLICA -p 6379 REPLICAOF {}", self.place)
    }

    /// Adds that a setting of the engine could not be read.
    fn unread(&mut self, check: &'static str, setting: &str) {
        let mend = self.command(&format!("CONFIG GET {setting}   (as a user who may)"));
        let says = format!("{setting} could not be read");
        let breaks = format!(
            "the engine refuses CONFIG GET to the user {}, and INFO does not tell it",
            self.user()
        );
        self.warning(check, says, &breaks, mend);
    }
}

fn engine(checker: &mut Checker<'_>, at: &Endpoint, facts: &EngineFacts, survey: &Survey) {
    checker.ok("reachable", "it answers");
    let info = match &facts.info {
        Ok(info) => info,
        Err(why) if why.kind() == RefusalKind::Password => {
            let says = "it asks for a password, and there is none";
            checker.failure("user", says, NOTHING_GOES, PASSWORD);
            return;
        }
        Err(why) => {
            let mend = way_out(checker, why, "+info");
            let says = format!("INFO is refused: {why}");
            checker.failure("version", says, NOTHING_GOES, mend);
            return;
        }
    };
    protection(checker, at, facts);
    version(checker, info);
    role(checker, &facts.role);
    settings::settings(checker, facts, info, !survey.sentinels.is_empty());
    scripts(checker, facts);
    writes(checker, facts);
}

fn protection(checker: &mut Checker<'_>, at: &Endpoint, facts: &EngineFacts) {
    let address = at.host.parse::<IpAddr>();
    let is_here = at.host == "localhost" || address.is_ok_and(|ip| ip.is_loopback());
    match &facts.tls {
        Some(version) => checker.ok("tls", version.replace('_', ".").replace("TLSv", "TLS ")),
        None if is_here => checker.ok("tls", "none, on this machine"),
        None => {
            let says = "none: the connection is plain";
            let breaks =
                "the network sees the password and the origins in use, and can delay and forget";
            let mend = "give the engine a tls-port, and set [fleet] tls = true";
            checker.warning("tls", says, breaks, mend);
        }
    }
    let (config, user) = (checker.config, checker.user());
    if config.password_file.is_some() {
        checker.ok("user", format!("{user}, with a password"));
    } else if is_here || config.user.is_some() {
        checker.ok("user", format!("{user}, without a password"));
    } else {
        let breaks = "anyone who reaches the engine can delay and forget";
        let mend = checker.command("ACL SETUSER …   (docs/fleet.md has the rules)");
        checker.warning("user", "default, without a password", breaks, mend);
    }
}

fn version(checker: &mut Checker<'_>, info: &BTreeMap<String, String>) {
    let get = |name: &str| info.get(name).map_or("", String::as_str);
    let version = get("redis_version");
    if !is_new_enough(info) {
        let says = format!("version {version:?}");
        let breaks = "the scripts need commands of Redis 7.0";
        let mend = "run Valkey, or Redis 7.0 and above";
        checker.failure("version", says, breaks, mend);
    } else if get("run_id").is_empty() {
        let says = format!("version {version}, but INFO tells no run_id");
        let breaks = "no instance would see a restart, so none connects";
        let mend = "use an engine that tells its run_id, not a proxy before several";
        checker.failure("version", says, breaks, mend);
    } else {
        checker.ok("version", product(info));
    }
    if is_cluster(info) {
        let breaks = "the names of one script lie on several nodes, so no instance connects";
        checker.failure("version", "it runs in cluster mode", breaks, NO_CLUSTER);
    }
}

fn role(checker: &mut Checker<'_>, role: &Answer<Role>) {
    match role {
        Ok(Role::Primary) => checker.ok("role", "primary"),
        Ok(Role::Replica { of }) => {
            let (says, mend) = match of {
                Some(primary) => (
                    format!("a replica of {primary}"),
                    format!("set [fleet] engine = \"{primary}\", or name the sentinels"),
                ),
                None => ("a replica".to_owned(), NAME_PRIMARY.to_owned()),
            };
            checker.failure("role", says, NOTHING_GOES, mend);
        }
        Ok(Role::Other(word)) => {
            let says = format!("{word:?}, no engine");
            let mend = "name sentinels in [fleet] sentinels, with master";
            checker.failure("role", says, NOTHING_GOES, mend);
        }
        Err(why) => {
            let mend = way_out(checker, why, "+role");
            let says = format!("ROLE is refused: {why}");
            checker.failure("role", says, NOTHING_GOES, mend);
        }
    }
}

fn scripts(checker: &mut Checker<'_>, facts: &EngineFacts) {
    if let Some(why) = &facts.scripts {
        let mend = way_out(checker, why, "+script|load +evalsha");
        let says = format!("they are refused: {why}");
        checker.failure("scripts", says, NOTHING_GOES, mend);
        return;
    }
    checker.ok("scripts", "they load");
    if !facts.unknown.is_empty() {
        let says = format!("the engine does not know {}", facts.unknown.join(", "));
        checker.failure("commands", says, SCRIPTS_FAIL, RENAMED);
    }
    if facts.refused.is_empty() && facts.unknown.is_empty() {
        checker.ok("commands", format!("all {} are permitted", facts.commands));
        return;
    }
    if facts.refused.is_empty() {
        return;
    }
    let rules = facts.refused.iter();
    let rules: Vec<_> = rules.map(|word| format!("+{}", word.to_lowercase())).collect();
    let mend = permit(checker, &rules.join(" "));
    let says = format!(
        "the user {} may not send, or not for the names {}:*: {}",
        checker.user(),
        checker.config.prefix,
        facts.refused.join(", ")
    );
    checker.failure("commands", says, SCRIPTS_FAIL, mend);
}

/// Judges the answer to a write. A full memory and a missing right are told elsewhere, and so is a replica.
fn writes(checker: &mut Checker<'_>, facts: &EngineFacts) {
    let Some(why) = &facts.write else {
        return checker.ok("writes", "they are taken");
    };
    match why.kind() {
        RefusalKind::Memory | RefusalKind::Right | RefusalKind::Replica | RefusalKind::Cluster => {}
        _ => {
            let mend = way_out(checker, why, "+set");
            let says = format!("they are refused: {why}");
            checker.failure("writes", says, NOTHING_GOES, mend);
        }
    }
}

const PASSWORD: &str =
    "name the file of the password in [fleet] password_file, and its user in user";

const SCRIPTS_FAIL: &str =
    "the scripts that use them fail, and what needs their answer is held or refused";

const NAME_PRIMARY: &str = "name the primary in [fleet] engine, or the sentinels";

const NO_CLUSTER: &str = "use an engine with cluster-enabled no";

const RENAMED: &str =
    "give the commands back their names in the configuration of the engine (rename-command)";

/// Returns the way out of a refusal: `rules` where a right is missing.
fn way_out(checker: &Checker<'_>, why: &Refusal, rules: &str) -> String {
    match why.kind() {
        RefusalKind::Right => permit(checker, rules),
        RefusalKind::UnknownCommand => RENAMED.to_owned(),
        RefusalKind::Password => PASSWORD.to_owned(),
        RefusalKind::Cluster => NO_CLUSTER.to_owned(),
        RefusalKind::Replica => NAME_PRIMARY.to_owned(),
        RefusalKind::Loading => {
            "wait until the engine has read its data, and check again".to_owned()
        }
        RefusalKind::Memory => checker.command("CONFIG SET maxmemory 2gb"),
        RefusalKind::Other => {
            "see the log of the engine: often its disk is full, or its folder is not its own"
                .to_owned()
        }
    }
}

/// Returns the command that permits something to the fleet's user.
fn permit(checker: &Checker<'_>, rules: &str) -> String {
    let (user, prefix) = (checker.user(), &checker.config.prefix);
    checker.command(&format!("ACL SETUSER {user} '~{prefix}:*' {rules}"))
}

#[cfg(test)]
mod tests;
