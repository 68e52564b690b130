//! Asks an engine and its sentinels for what `crawlgate fleet check` judges. It changes nothing there.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use tokio::time::timeout;

use super::connection::CONNECT;
use super::reply::text_of;
use super::script::Script;
use super::{Engine, Settings, words};
use crate::fleet::survey::{
    Answer, EngineFacts, Refusal, Role, SentinelFacts, ServerFault, Survey, fields_of_info,
};
use crawlgate_config::Endpoint;

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
        let mut answers = sentinels
            .iter()
            .filter_map(|(_, asked)| asked.as_ref().ok());
        let named = answers.find_map(|answer| answer.primary.clone());
        let at = settings.engine.clone().or(named);
        let engine = match &at {
            None => Err(ServerFault::Unnamed),
            Some(at) => {
                let asked = timeout(CONNECT * 2, self.survey_engine(at)).await;
                asked.unwrap_or(Err(ServerFault::Late(CONNECT * 2)))
            }
        };
        Survey {
            sentinels,
            at,
            engine,
        }
    }

    async fn survey_engine(&self, at: &Endpoint) -> Result<EngineFacts, ServerFault> {
        let opened = self.settings.open(at, true).await?;
        let mut link = opened.link;
        let info = ask(&mut link, redis::cmd("INFO")).await?;
        let info = info.map(|info| fields_of_info(&text_of(&info).unwrap_or_default()));
        let role = ask(&mut link, redis::cmd("ROLE")).await?;
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(&SETTINGS);
        let settings = ask(&mut link, command).await?;
        let names = [
            &*self.keys.generation,
            &self.keys.turns("https://check.example")[0],
        ];
        let (scripts, [refused, unknown]) = match try_scripts(&mut link, &names).await? {
            Ok(tried) => (None, tried),
            Err(why) => (Some(why), Default::default()),
        };
        // There is nothing of this name, so an engine that takes writes changes nothing.
        let mut write = redis::cmd("SET");
        write.arg(&self.keys.absent).arg("").arg("XX");
        let write = ask(&mut link, write).await?.err();
        opened.driver.abort();
        Ok(EngineFacts {
            tls: opened.tls,
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
        let opened = self.open(at, false).await?;
        let mut link = opened.link;
        let about = |word: &str| {
            let mut command = redis::cmd("SENTINEL");
            command.arg(word).arg(&self.master);
            command
        };
        let primary = ask(&mut link, about("GET-MASTER-ADDR-BY-NAME")).await??;
        let primary = match &primary {
            Value::Array(place) => super::sentinel::endpoint(place),
            _ => None,
        };
        let mut facts = SentinelFacts {
            primary,
            ..SentinelFacts::default()
        };
        if facts.primary.is_some() {
            let fields = pairs(&ask(&mut link, about("MASTER")).await??);
            let down_after = fields.get("down-after-milliseconds");
            facts.down_after = down_after.and_then(|after| after.parse().ok());
        }
        opened.driver.abort();
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

fn role_of(value: &Value) -> Role {
    let Value::Array(words) = value else {
        return Role::Other("?".to_owned());
    };
    let word = words.first().and_then(text_of).unwrap_or_default();
    match word.as_str() {
        "master" => Role::Primary,
        "slave" => Role::Replica {
            of: match words.as_slice() {
                [_, host, Value::Int(port), ..] => text_of(host)
                    .and_then(|host| Endpoint::from_parts(host, u16::try_from(*port).ok()?)),
                _ => None,
            },
        },
        _ => Role::Other(word),
    }
}
