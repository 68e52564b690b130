//! Asks an engine and its sentinels for what `crawlgate fleet check` judges. It changes nothing there.
//!
//! Reads what an engine tells of itself and of the members, by plain commands: a command does so without being a member.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use tokio::time::timeout;

use super::connection::{CONNECT, ConnectError, endpoint, role_of};
use super::script::{Script, text_of};
use super::{Engine, Settings, words};
use crate::fleet::coordinator::{CoordinatorError, EngineReport, MemberRow, Observed};
use crate::fleet::survey::{
    Answer, EngineFacts, Refusal, SentinelFacts, ServerFault, Survey, fields_of_info, product,
};
use crawlgate_config::Endpoint;
use crawlgate_system::clock::Moment;

/// The settings to ask for.
const SETTINGS: [&str; 5] = [
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "min-replicas-to-write",
    "min-replicas-max-lag",
];

impl Engine {
    /// Asks the engine and the sentinels, over separate connections.
    pub async fn survey(&self) -> Survey {
        let settings = &self.settings;
        let mut sentinels = Vec::new();
        for sentinel in &settings.sentinels {
            let asked = timeout(CONNECT, settings.survey_sentinel(sentinel)).await;
            let asked = asked.unwrap_or(Err(ServerFault::Late(CONNECT)));
            sentinels.push((sentinel.clone(), asked));
        }
        let mut answers = sentinels.iter().filter_map(|(_, asked)| asked.as_ref().ok());
        let named = answers.find_map(|answer| answer.primary.clone());
        let at = settings.engine.clone().or(named);
        let engine = match &at {
            None => Err(ServerFault::Unnamed),
            Some(at) => {
                let asked = timeout(CONNECT * 2, self.survey_engine(at)).await;
                asked.unwrap_or(Err(ServerFault::Late(CONNECT * 2)))
            }
        };
        Survey { sentinels, at, engine }
    }

    async fn survey_engine(&self, at: &Endpoint) -> Result<EngineFacts, ServerFault> {
        let opened = self.settings.open(at, true).await?;
        let mut link = opened.link.clone();
        let info = ask(&mut link, redis::cmd("INFO")).await?;
        let info = info.map(|info| fields_of_info(&text_of(&info).unwrap_or_default()));
        let role = ask(&mut link, redis::cmd("ROLE")).await?;
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(&SETTINGS);
        let settings = ask(&mut link, command).await?;
        let names = [&*self.keys.generation, &self.keys.turns("https://check.example")[0]];
        let (scripts, [refused, unknown]) = match try_scripts(&mut link, &names).await? {
            Ok(tried) => (None, tried),
            Err(why) => (Some(why), Default::default()),
        };
        // There is nothing of this name, so an engine that takes writes changes nothing.
        let mut write = redis::cmd("SET");
        write.arg(&self.keys.absent).arg("").arg("XX");
        let write = ask(&mut link, write).await?.err();
        Ok(EngineFacts {
            tls: opened.tls.clone(),
            info,
            role: role.map(|role| role_of(&role)),
            settings: settings.map(|value| pairs(&value)),
            scripts,
            refused,
            unknown,
            write,
            commands: Script::commands().len(),
        })
    }
}

impl Settings {
    async fn survey_sentinel(&self, at: &Endpoint) -> Result<SentinelFacts, ServerFault> {
        let link = &mut self.open(at, false).await?.link;
        let primary = self.about_master("GET-MASTER-ADDR-BY-NAME");
        let primary = match &ask(link, primary).await?? {
            Value::Array(place) => endpoint(place),
            _ => None,
        };
        let mut facts = SentinelFacts { primary, ..SentinelFacts::default() };
        if facts.primary.is_some() {
            let fields = pairs(&ask(link, self.about_master("MASTER")).await??);
            let down_after = fields.get("down-after-milliseconds");
            facts.down_after = down_after.and_then(|after| after.parse().ok());
        }
        Ok(facts)
    }
}

/// Loads every script, and returns the commands in them that the user may not send for these names, and those that the
/// engine does not know.
async fn try_scripts(
    link: &mut MultiplexedConnection,
    names: &[&str],
) -> Result<Answer<[Vec<String>; 2]>, RedisError> {
    let load = |text: &str| {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(text);
        command
    };
    for (_, text) in Script::ALL {
        if let Err(why) = ask(link, load(text)).await? {
            return Ok(Err(why));
        }
    }
    let digest = match ask(link, load(include_str!("scripts/check.lua"))).await? {
        Ok(digest) => digest,
        Err(why) => return Ok(Err(why)),
    };
    let mut command = redis::cmd("EVALSHA");
    command.arg(text_of(&digest).unwrap_or_default()).arg(0);
    command.arg(names.len()).arg(names);
    for word in Script::commands() {
        command.arg(word).arg(Script::arguments(word));
    }
    let tried = ask(link, command).await?;
    let texts = |list: &[Value]| list.iter().filter_map(text_of).collect();
    Ok(tried.and_then(|tried| match &tried {
        Value::Array(lists) => match &lists[..] {
            [Value::Array(refused), Value::Array(unknown)] => Ok([texts(refused), texts(unknown)]),
            _ => Err(Refusal("an unexpected answer".to_owned())),
        },
        _ => Err(Refusal("an unexpected answer".to_owned())),
    }))
}

/// Sends a command. The inner error is the engine's refusal.
///
/// # Errors
/// When no answer comes.
pub(super) async fn ask(
    link: &mut MultiplexedConnection,
    command: Cmd,
) -> Result<Answer<Value>, RedisError> {
    let answer = link.send_packed_command(&command).await;
    match answer.and_then(Value::extract_error) {
        Ok(value) => Ok(Ok(value)),
        // An answer, also of an engine that another connection would be better at.
        Err(error) => match error.code() {
            Some(_) => Ok(Err(Refusal(words(&error)))),
            None => Err(error),
        },
    }
}

/// Reads a list of names, each before its value.
pub(super) fn pairs(value: &Value) -> BTreeMap<String, String> {
    let Value::Array(values) = value else {
        return BTreeMap::new();
    };
    let pairs = values.chunks_exact(2).filter_map(|pair| match pair {
        [name, value] => Some((text_of(name)?, text_of(value)?)),
        _ => None,
    });
    pairs.collect()
}

impl Engine {
    /// Asks the engine over a connection of its own.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn observe_once(&self) -> Result<Observed, CoordinatorError> {
        let opened = timeout(CONNECT, self.settings.open_primary()).await;
        let opened = opened.unwrap_or(Err(ConnectError::Late));
        let (at, mut opened) = opened.map_err(CoordinatorError::unreachable)?;
        self.observe_over(&mut opened.link, &at).await
    }

    /// Asks the engine at `at` over this connection.
    pub(super) async fn observe_over(
        &self,
        link: &mut MultiplexedConnection,
        at: &Endpoint,
    ) -> Result<Observed, CoordinatorError> {
        let keys = &self.keys;
        let mut info = redis::cmd("INFO");
        info.arg("server").arg("memory");
        let info = self.query(link, info).await?;
        let info = fields_of_info(&text_of(&info).unwrap_or_default());
        let number = |name: &str| info.get(name).and_then(|text| text.parse().ok());
        let mut get = redis::cmd("GET");
        get.arg(&keys.generation);
        let generation = text_of(&self.query(link, get).await?);
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(&keys.members).arg("-inf").arg("+inf").arg("WITHSCORES");
        let heard = pairs(&self.query(link, list).await?);
        let mut reports = redis::cmd("HGETALL");
        reports.arg(&keys.reports);
        let mut reports = pairs(&self.query(link, reports).await?);
        // Last, so that no member was heard of after it.
        let now = micros(&self.query(link, redis::cmd("TIME")).await?);
        let since = |micros: u64| Duration::from_micros(now.saturating_sub(micros));
        let began = generation.and_then(|text| text.split(' ').nth(1)?.parse().ok());
        let members = heard.into_iter().map(|(name, score)| MemberRow {
            report: reports.remove(&name).unwrap_or_default(),
            name,
            silent: since(score.parse::<u64>().unwrap_or_default().saturating_mul(1_000)),
        });
        Ok(Observed {
            engine: EngineReport {
                address: at.to_string(),
                version: product(&info),
                used: number("used_memory").unwrap_or_default(),
                limit: number("maxmemory").unwrap_or_default(),
                generation: began.map(since),
                time: (now > 0).then(|| Moment::from_millis(now / 1_000)),
            },
            members: members.collect(),
        })
    }

    async fn query(
        &self,
        link: &mut MultiplexedConnection,
        command: Cmd,
    ) -> Result<Value, CoordinatorError> {
        let within = self.settings.timeout;
        match timeout(within, ask(link, command)).await {
            Ok(Ok(answer)) => answer.map_err(CoordinatorError::refused),
            Ok(Err(why)) => Err(CoordinatorError::unreachable(why)),
            Err(_) => Err(CoordinatorError::unreachable(format!("no answer within {within:?}"))),
        }
    }
}

/// Reads the answer to `TIME`.
fn micros(time: &Value) -> u64 {
    let Value::Array(parts) = time else { return 0 };
    let mut numbers = parts.iter().map(|part| text_of(part)?.parse::<u64>().ok());
    let mut next = || numbers.next().flatten().unwrap_or_default();
    next().saturating_mul(1_000_000).saturating_add(next())
}
