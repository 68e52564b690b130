//! Valkey and Redis as the engine of a fleet.
//!
//! Every change is one script, so it happens whole or not at all, by the engine's own clock. The scripts use only
//! commands of Redis 7.0.
//!
//! The engine may be started anew, restored or replaced by a replica, and has then lost what it was told last. The key
//! `{fleet}:generation` holds the `run_id` of the engine that began the generation: a heartbeat at an engine with another
//! one begins a new generation, and every other script refuses under an old one. Times of turns from before count as no
//! earlier than the beginning of the new generation.
//!
//! The connection is ours (`connection`): one TLS configuration in the program, and a failover is seen. `redis`'s own
//! managers hide it, and send commands again that may have been carried out.

mod calls;
mod connection;
mod questions;
mod script;
mod survey;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::{Cmd, ErrorKind, ServerErrorKind, ToRedisArgs, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use self::connection::Connection;
use self::questions::Questions;
use self::script::Script;
use self::script::{Reply, is_lost};
use super::coordinator::{CoordinatorError, StateKey};
use super::counts::{Counts, Outcome};
use super::link::DOUBTFUL;
use crawlgate_config::{Endpoint, FleetConfig};

/// Time-outs in a row after which the connection is given up.
const TIMEOUTS: u32 = 3;

/// The way out where the engine is a node of a cluster.
const NO_CLUSTER: &str =
    "it runs in cluster mode: name an engine with cluster-enabled no in [fleet] engine";

/// Octets of a word of a command, roughly: most commands are put together without growing.
const WORD: usize = 24;

/// The time after a loss in which the engine grants nothing: for as long, an instance may use turns that it was granted
/// before, without having heard of the loss.
const LOSS: Duration = DOUBTFUL;

/// The same time after a failover, in which the old engine may go on.
const FAILOVER: Duration = Duration::from_secs(5);

/// A connection to the engine that is made anew whenever it is lost.
pub struct Engine {
    /// The engine itself, for tasks that outlive a call.
    this: Weak<Engine>,
    settings: Settings,
    keys: Keys,
    connection: ArcSwapOption<Connection>,
    /// Wakes the task that makes connections.
    broken: Notify,
    timeouts: AtomicU32,
    generation: Mutex<Generation>,
    questions: Questions,
    counts: Counts,
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
    id: Option<Arc<str>>,
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
    overrides: String,
    overrides_removed: String,
    /// The name of nothing.
    absent: String,
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
            overrides: of("overrides"),
            overrides_removed: of("overrides_removed"),
            absent: of("absent"),
        }
    }

    /// Returns the names of a state and of its lease.
    fn state(&self, key: &StateKey) -> [String; 2] {
        let StateKey { origin, variant } = key;
        let of = |name: &str| format!("{}:{{{origin}}}:{name}:{variant}", self.prefix);
        [of("state"), of("lease")]
    }

    /// Returns the names of the keys for turns and slots of an origin.
    fn turns(&self, origin: &str) -> [String; 2] {
        ["turns", "slots"].map(|name| [&*self.prefix, ":{", origin, "}:", name].concat())
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
    /// Returns the engine that the configuration names, which is not connected yet: `keep_connected` does that.
    /// `tls` is used if the configuration asks for TLS.
    ///
    /// # Errors
    /// When the password cannot be read.
    pub fn of(
        config: &FleetConfig,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<Arc<Engine>, PasswordError> {
        let settings = Settings {
            engine: config.engine.clone(),
            sentinels: config.sentinels.clone(),
            master: config.master.clone().unwrap_or_default(),
            tls: config.tls.then(|| TlsConnector::from(tls)),
            user: config.user.clone(),
            password: password(config)?,
            timeout: config.timeout,
        };
        Ok(Arc::new_cyclic(|this| Engine {
            this: Weak::clone(this),
            settings,
            keys: Keys::of(&config.prefix),
            connection: ArcSwapOption::empty(),
            broken: Notify::new(),
            timeouts: AtomicU32::new(0),
            generation: Mutex::default(),
            questions: Questions::default(),
            counts: Counts::of(Script::NAMES),
        }))
    }

    /// Calls a script under the generation that this instance knows.
    async fn call(
        &self,
        script: Script,
        keys: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Result<Reply, CoordinatorError> {
        let known = self.generation.lock().id.clone();
        let known = known.ok_or(CoordinatorError::Lost)?;
        let connection = self.connected()?;
        let ran = self.run(&connection, script, Some(&known), keys, arguments);
        let reply = Reply::of(ran.await?);
        if let Err(CoordinatorError::Lost) = &reply {
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

    /// Calls a script under any generation.
    async fn call_regardless(
        &self,
        script: Script,
        keys: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Result<(), CoordinatorError> {
        let connection = self.connected()?;
        let ran = self.run(&connection, script, None, keys, arguments);
        ran.await.map(drop)
    }

    /// Runs a script, which is loaded once more if the engine does not know it. `known` is the generation that its caller
    /// knows; `None` for a script that runs under any.
    async fn run(
        &self,
        connection: &Arc<Connection>,
        script: Script,
        known: Option<&str>,
        keys: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Result<Value, CoordinatorError> {
        let generation = known.map(|_| &self.keys.generation);
        let own = usize::from(known.is_some());
        let count = 3 + keys.len() + arguments.num_of_args() + 2 * own;
        let mut command = Cmd::with_capacity(count, count * WORD);
        command.arg("EVALSHA").arg(connection.digest(script));
        command.arg(own + keys.len()).arg(generation).arg(keys);
        command.arg(known).arg(arguments);
        let sent = Instant::now();
        let result = match self.ask(connection, &command).await {
            // It was not carried out, so it may be sent again.
            Err(Failure::NoScript) => match self.load(connection, script).await {
                Ok(()) => self.ask(connection, &command).await,
                failed => failed.map(|()| Value::Nil),
            },
            result => result,
        };
        let outcome = match &result {
            Ok(Value::Array(values)) if is_lost(values) => Outcome::Lost,
            Ok(_) => Outcome::Done,
            Err(Failure::Unreachable(_)) => Outcome::Unanswered,
            Err(Failure::Refused(_) | Failure::Cluster(_) | Failure::NoScript) => Outcome::Refused,
        };
        self.counts.called(script.place(), outcome, sent.elapsed());
        result.map_err(CoordinatorError::from)
    }

    async fn load(&self, connection: &Arc<Connection>, script: Script) -> Result<(), Failure> {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script.text());
        self.ask(connection, &command).await.map(drop)
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
            // The next connection finds the mode of the engine, and tells it.
            if matches!(failure, Failure::Unreachable(_) | Failure::Cluster(_)) {
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
        if generation.id.as_deref() != Some(&*id) {
            generation.id = Some(id.into());
            generation.count += 1;
        }
        generation.count
    }
}

/// Returns the password at the engine; `None` if the configuration names none.
///
/// # Errors
/// When its file cannot be read.
pub fn password(config: &FleetConfig) -> Result<Option<String>, PasswordError> {
    let Some(path) = config.password_file.as_deref() else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| PasswordError { path: path.to_owned(), error })?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// The reason why a command has no result.
#[derive(Debug)]
enum Failure {
    /// The engine does not know the script, so it was not carried out.
    NoScript,
    Refused(Arc<str>),
    /// The engine is a node of a cluster, which refuses for good.
    Cluster(Arc<str>),
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
            ) => Failure::Unreachable(words(error).into()),
            // No name of another node is of use, and no two names of one script lie on one.
            ErrorKind::Server(
                ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::CrossSlot
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain,
            ) => Failure::Cluster(words(error).into()),
            ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused(words(error).into()),
            _ => Failure::Unreachable(words(error).into()),
        }
    }
}

/// Returns an answer in the words of the engine, with its code; another error in its own.
fn words(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}

impl From<Failure> for CoordinatorError {
    fn from(failure: Failure) -> CoordinatorError {
        match failure {
            Failure::NoScript => CoordinatorError::refused("it does not keep scripts"),
            Failure::Refused(why) => CoordinatorError::Refused(why),
            Failure::Cluster(why) => CoordinatorError::refused(format_args!("{why}; {NO_CLUSTER}")),
            Failure::Unreachable(why) => CoordinatorError::Unreachable(why),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("engine", &self.settings.engine)
            .field("sentinels", &self.settings.sentinels)
            .finish_non_exhaustive()
    }
}
