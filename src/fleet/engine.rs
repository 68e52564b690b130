//! Valkey and Redis as the engine of a fleet.
//!
//! Every change is one script, so it happens whole or not at all, by the engine's own clock. The scripts use commands of
//! Redis 7.0 alone.
//!
//! The engine may be started anew, restored or replaced by a replica, and has then lost what it was told last. The key
//! `{fleet}:generation` holds the `run_id` of the engine that began the generation: a heartbeat at an engine with another
//! one begins a new generation, and every other script refuses under an old one. What lanes say from before counts as no
//! earlier than the beginning of the new generation.
//!
//! The connection is ours (`connection`): one TLS configuration in the program, and a failover is seen. `redis`'s own
//! managers hide it, and send commands again that may have been carried out.

mod argument;
mod connection;
mod reply;
mod script;
mod sentinel;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, ServerErrorKind, Value};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use self::argument::{Argument, micros, millis};
use self::connection::Connection;
use self::reply::{Reply, foreign};
use self::script::Script;
use super::coordinator::{
    AcquireFetch, Beat, Body, Call, Coordinator, CoordinatorError, EngineTime, FetchLease, Heard,
    MemberRow, News, PublishState, Published, SharedState, StateKey, Token,
};
use crate::config::{Endpoint, FleetConfig};
use crate::text::hex;

/// Time-outs in a row after which the connection is given up.
const TIMEOUTS: u32 = 3;

/// The time after a failover in which the new engine grants nothing: the old one may go on for as long.
const FAILOVER: Duration = Duration::from_secs(5);

/// A connection to the engine that is made anew whenever it is lost.
pub struct Engine {
    settings: Settings,
    keys: Keys,
    connection: ArcSwapOption<Connection>,
    /// Wakes the task that makes connections.
    broken: Notify,
    timeouts: AtomicU32,
    generation: Mutex<Generation>,
}

/// The settings of an engine.
struct Settings {
    engine: Option<Endpoint>,
    sentinels: Vec<Endpoint>,
    master: String,
    tls: Option<TlsConnector>,
    user: Option<String>,
    password: Option<String>,
    timeout: Duration,
}

/// The generation that this instance knows.
#[derive(Debug, Default)]
struct Generation {
    id: Option<String>,
    /// Counts the generations that this instance has seen.
    count: u64,
}

/// The names of the fleet's own keys.
struct Keys {
    prefix: String,
    generation: String,
    members: String,
    reports: String,
    counters: String,
    news: String,
}

impl Keys {
    fn of(prefix: &str) -> Keys {
        let of = |name: &str| format!("{prefix}:{{fleet}}:{name}");
        Keys {
            prefix: prefix.to_owned(),
            generation: of("generation"),
            members: of("members"),
            reports: of("reports"),
            counters: of("counters"),
            news: of("news"),
        }
    }

    /// Returns the names of head, lease and body of a state.
    fn state(&self, key: &StateKey) -> [String; 3] {
        let StateKey { origin, variant } = key;
        let of = |name: &str| format!("{}:{{{origin}}}:{name}:{variant}", self.prefix);
        [of("head"), of("lease"), of("body")]
    }
}

/// The reason why the engine of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("[fleet] password_file {}: {error}", path.display())]
pub struct PasswordError {
    path: std::path::PathBuf,
    error: std::io::Error,
}

impl Engine {
    /// Returns the engine that the configuration names, which is not connected yet: [`Coordinator::keep_connected`] does that.
    /// `tls` is used if the configuration asks for TLS.
    ///
    /// # Errors
    /// When the password cannot be read.
    pub fn of(
        config: &FleetConfig,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Arc<Engine>, PasswordError> {
        let password = config.password_file.as_deref().map(|path| {
            let text = std::fs::read_to_string(path);
            let text = text.map(|text| text.trim_end_matches(['\n', '\r']).to_owned());
            text.map_err(|error| PasswordError {
                path: path.to_owned(),
                error,
            })
        });
        let settings = Settings {
            engine: config.engine.clone(),
            sentinels: config.sentinels.clone(),
            master: config.master.clone().unwrap_or_default(),
            tls: config.tls.then(|| TlsConnector::from(tls)),
            user: config.user.clone(),
            password: password.transpose()?,
            timeout: config.timeout,
        };
        Ok(Arc::new(Engine {
            settings,
            keys: Keys::of(&config.prefix),
            connection: ArcSwapOption::empty(),
            broken: Notify::new(),
            timeouts: AtomicU32::new(0),
            generation: Mutex::default(),
        }))
    }

    /// Calls a script under the generation that this instance knows.
    async fn call(
        &self,
        script: Script,
        keys: &[&str],
        arguments: &[Argument<'_>],
    ) -> Result<Reply, CoordinatorError> {
        let known = self.generation.lock().id.clone();
        let known = known.ok_or(CoordinatorError::Lost)?;
        let keys: Vec<&str> = [self.keys.generation.as_str()]
            .iter()
            .chain(keys)
            .copied()
            .collect();
        let arguments: Vec<Argument<'_>> = [known.as_str().into()]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let connection = self.connected()?;
        let value = self.run(&connection, script, &keys, &arguments).await?;
        let reply = Reply::of(value);
        if reply.as_ref().is_err_and(|error| *error == CoordinatorError::Lost) {
            let mut generation = self.generation.lock();
            if generation.id.as_ref() == Some(&known) {
                generation.id = None;
            }
        }
        reply
    }

    fn connected(&self) -> Result<Arc<Connection>, CoordinatorError> {
        let connection = self.connection.load_full();
        connection.ok_or_else(|| CoordinatorError::unreachable("there is no connection"))
    }

    /// Runs a script, which is loaded once more if the engine does not know it.
    async fn run(
        &self,
        connection: &Arc<Connection>,
        script: Script,
        keys: &[&str],
        arguments: &[Argument<'_>],
    ) -> Result<Value, CoordinatorError> {
        match self.evaluate(connection, script, keys, arguments).await {
            // It was not carried out, so it may be sent again.
            Err(Failure::NoScript) => {
                self.load(connection, script).await?;
                let again = self.evaluate(connection, script, keys, arguments).await;
                again.map_err(CoordinatorError::from)
            }
            result => result.map_err(CoordinatorError::from),
        }
    }

    async fn evaluate(
        &self,
        connection: &Arc<Connection>,
        script: Script,
        keys: &[&str],
        arguments: &[Argument<'_>],
    ) -> Result<Value, Failure> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(connection.digest(script)).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        for argument in arguments {
            argument.write(&mut command);
        }
        self.ask(connection, &command).await
    }

    async fn load(
        &self,
        connection: &Arc<Connection>,
        script: Script,
    ) -> Result<(), CoordinatorError> {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script.text());
        self.ask(connection, &command).await.map_err(CoordinatorError::from).map(drop)
    }

    /// Sends a command and waits for its answer.
    async fn ask(&self, connection: &Arc<Connection>, command: &Cmd) -> Result<Value, Failure> {
        let mut link = connection.link();
        let answer = timeout(self.settings.timeout, link.send_packed_command(command)).await;
        let value = match answer {
            Ok(Ok(value)) => value.extract_error(),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                if self.timeouts.fetch_add(1, Ordering::AcqRel) + 1 >= TIMEOUTS {
                    self.give_up(connection);
                }
                let within = self.settings.timeout;
                return Err(Failure::Unreachable(format!("no answer within {within:?}").into()));
            }
        };
        self.timeouts.store(0, Ordering::Release);
        value.map_err(|error| {
            let failure = Failure::of(&error);
            if matches!(failure, Failure::Unreachable(_)) {
                self.give_up(connection);
            }
            failure
        })
    }

    /// Drops a connection that answers no more, and has another one made.
    fn give_up(&self, connection: &Arc<Connection>) {
        self.timeouts.store(0, Ordering::Release);
        let now = self.connection.load();
        if now.as_ref().is_some_and(|now| Arc::ptr_eq(now, connection)) {
            self.connection.store(None);
            self.broken.notify_one();
        }
    }

    /// Takes over the generation that a heartbeat has found; returns its number.
    fn in_generation(&self, id: String) -> u64 {
        let mut generation = self.generation.lock();
        if generation.id.as_ref() != Some(&id) {
            generation.id = Some(id);
            generation.count += 1;
        }
        generation.count
    }
}

/// The reason why a command has no result.
#[derive(Debug)]
enum Failure {
    /// The engine does not know the script, so it was not carried out.
    NoScript,
    Refused(Arc<str>),
    Unreachable(Arc<str>),
}

impl Failure {
    fn of(error: &redis::RedisError) -> Failure {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => Failure::NoScript,
            // It is no primary any more, or none yet: another connection may find the right one.
            ErrorKind::Server(
                ServerErrorKind::ReadOnly
                | ServerErrorKind::MasterDown
                | ServerErrorKind::BusyLoading,
            ) => Failure::Unreachable(error.to_string().into()),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                Failure::Refused(error.to_string().into())
            }
            _ => Failure::Unreachable(error.to_string().into()),
        }
    }
}

impl From<Failure> for CoordinatorError {
    fn from(failure: Failure) -> CoordinatorError {
        match failure {
            Failure::NoScript => CoordinatorError::refused("it does not keep scripts"),
            Failure::Refused(why) => CoordinatorError::Refused(why),
            Failure::Unreachable(why) => CoordinatorError::Unreachable(why),
        }
    }
}

impl Coordinator for Engine {
    fn keep_connected(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.connections())
    }

    fn heartbeat<'a>(&'a self, beat: Beat<'a>) -> Call<'a, Heard> {
        Box::pin(async move {
            let connection = self.connected()?;
            let mut random = [0; 8];
            aws_lc_rs::rand::fill(&mut random)
                .map_err(|_| CoordinatorError::refused("this system gives no random numbers"))?;
            let quiet = match self.settings.sentinels.is_empty() {
                true => Duration::ZERO,
                false => FAILOVER,
            };
            let keys = &self.keys;
            let keys = [
                &*keys.generation,
                &keys.members,
                &keys.reports,
                &keys.counters,
                &keys.news,
            ];
            let new = hex(random);
            let arguments = [
                beat.name.into(),
                beat.report.into(),
                millis(beat.forget_after),
                new.as_str().into(),
                connection.run_id().into(),
                micros(quiet),
                beat.after.into(),
                u64::from(beat.wants_members).into(),
            ];
            let value = self.run(&connection, Script::Heartbeat, &keys, &arguments).await?;
            let mut reply = Reply::of(value)?;
            let id = reply.text()?;
            let (at, overrides) = (EngineTime(reply.number()?), reply.number()?);
            let (last, first) = (reply.number()?, reply.number()?);
            let mut items = Vec::new();
            let mut texts = reply.list()?;
            while !texts.is_empty() {
                items.push(texts.text()?);
            }
            let mut rows = reply.list()?;
            let mut members = Vec::new();
            while !rows.is_empty() {
                members.push(MemberRow {
                    name: rows.text()?,
                    report: rows.text()?,
                    silent: Duration::from_millis(rows.number()?),
                });
            }
            let news = News {
                has_gap: match items.is_empty() {
                    // The counter went on without its messages, or back.
                    true => last != beat.after,
                    false => first != beat.after + 1,
                },
                last,
                items,
            };
            Ok(Heard {
                generation: self.in_generation(id),
                at,
                overrides,
                news,
                members: beat.wants_members.then_some(members),
            })
        })
    }

    fn leave<'a>(&'a self, name: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let connection = self.connected()?;
            let keys = [&*self.keys.members, &self.keys.reports];
            let arguments = [name.into()];
            self.run(&connection, Script::Leave, &keys, &arguments).await.map(drop)
        })
    }

    fn announce<'a>(&'a self, item: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let keys = [&*self.keys.counters, &self.keys.news];
            self.call(Script::Announce, &keys, &[item.into()]).await.map(drop)
        })
    }

    fn acquire_fetch<'a>(&'a self, ask: AcquireFetch<'a>) -> Call<'a, FetchLease> {
        Box::pin(async move {
            let [head, lease, body] = self.keys.state(ask.key);
            let arguments = [
                ask.holder.into(),
                ask.known.0.into(),
                millis(ask.lease),
                ask.highest.0.into(),
            ];
            let keys = [&*head, &lease, &body];
            let mut reply = self.call(Script::AcquireFetch, &keys, &arguments).await?;
            let word = reply.text()?;
            let at = EngineTime(reply.number()?);
            match &*word {
                "NEWER" => Ok(FetchLease::Newer(shared_state(&mut reply)?, at)),
                "ACQUIRED" => Ok(FetchLease::Acquired(Token(reply.number()?), at)),
                "HELD" => Ok(FetchLease::Held {
                    by: reply.text()?,
                    left: Duration::from_millis(reply.number()?),
                }),
                _ => Err(foreign()),
            }
        })
    }

    fn publish_state<'a>(&'a self, state: PublishState<'a>) -> Call<'a, Published> {
        Box::pin(async move {
            let [head, lease, body] = self.keys.state(state.key);
            let (change, text): (&str, &[u8]) = match state.body {
                Body::Keep => ("keep", b""),
                Body::Drop => ("drop", b""),
                Body::Set(text) => ("set", text),
            };
            let arguments = [
                state.holder.into(),
                state.token.0.into(),
                state.head.into(),
                millis(state.keep),
                change.into(),
                text.into(),
            ];
            let keys = [&*head, &lease, &body];
            let mut reply = self.call(Script::PublishState, &keys, &arguments).await?;
            match &*reply.text()? {
                "DONE" => Ok(Published::Done),
                "SUPERSEDED" => {
                    let at = EngineTime(reply.number()?);
                    Ok(Published::Superseded(shared_state(&mut reply)?, at))
                }
                _ => Err(foreign()),
            }
        })
    }

    fn release_fetch<'a>(&'a self, key: &'a StateKey, holder: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let [_, lease, _] = self.keys.state(key);
            let arguments = [holder.into()];
            self.call(Script::ReleaseFetch, &[&lease], &arguments).await.map(drop)
        })
    }
}

/// Reads head and body. The head stands behind its token.
fn shared_state(reply: &mut Reply) -> Result<SharedState, CoordinatorError> {
    let head = reply.octets()?.ok_or_else(foreign)?;
    let end = head.iter().position(|octet| *octet == b' ').ok_or_else(foreign)?;
    let (token, rest) = head.split_at(end);
    let token = std::str::from_utf8(token).ok();
    let token = token.and_then(|token| token.parse().ok()).ok_or_else(foreign)?;
    Ok(SharedState {
        token: Token(token),
        head: rest.get(1..).unwrap_or_default().to_vec(),
        body: reply.octets()?,
    })
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("engine", &self.settings.engine)
            .field("sentinels", &self.settings.sentinels)
            .finish_non_exhaustive()
    }
}
