//! The connection to the engine: made, checked, and made anew.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncStream, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, Value};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, OtherError};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::script::Script;
use super::script::text_of;
use super::{Engine, NO_CLUSTER, Settings, words};
use crate::fleet::survey::{
    Refusal, Role, ServerFault, VERSION, fields_of_info, is_cluster, is_new_enough,
};
use crawlgate_config::Endpoint;
use crawlgate_origins::access::tls_fault::TlsFault;
use crawlgate_system::retry::delay;

/// The time for a connection, with TLS and the loading of the scripts.
pub(super) const CONNECT: Duration = Duration::from_secs(2);

/// The first and the longest time between attempts.
const RETRY: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// The time between questions to the sentinels while a connection works.
const LOOK: Duration = Duration::from_secs(1);

/// The reason why there is no connection to a primary.
#[derive(Debug, Error)]
pub(super) enum ConnectError {
    /// The engine or a sentinel cannot be asked.
    #[error("{at}: {fault}")]
    Server {
        /// Its address.
        at: Endpoint,
        /// The fault.
        fault: ServerFault,
    },
    /// A sentinel does not answer in time.
    #[error("{0} does not answer")]
    Silent(Endpoint),
    /// A sentinel does not know the primary.
    #[error("{at} knows no primary {master:?} ([fleet] master)")]
    Unknown {
        /// The address of the sentinel.
        at: Endpoint,
        /// The name of the primary.
        master: String,
    },
    /// No sentinel names the primary, for these reasons.
    #[error("no sentinel names the primary: {}", joined(.0))]
    Unnamed(Vec<ConnectError>),
    /// The engine is too old.
    #[error("{at} is version {version:?}; Valkey, or Redis {VERSION}.0 and above, is needed")]
    Version {
        /// Its address.
        at: Endpoint,
        /// Its version.
        version: String,
    },
    /// A restart of the engine would not be seen.
    #[error("{0} does not tell its run_id (INFO server)")]
    NoRunId(Endpoint),
    /// The engine is a node of a cluster: the names of one script lie on several nodes.
    #[error("{0} cannot be used: {NO_CLUSTER}")]
    Cluster(Endpoint),
    /// The engine is no primary.
    #[error("{0} is a replica: name the primary, or the sentinels")]
    Replica(Endpoint),
    /// The connection is not made in time.
    #[error("no connection within {CONNECT:?}")]
    Late,
}

impl ConnectError {
    /// Returns the error of a server that cannot be asked.
    pub(super) fn server(at: &Endpoint, fault: impl Into<ServerFault>) -> Self {
        Self::Server { at: at.clone(), fault: fault.into() }
    }
}

/// An open connection to a primary that has all scripts.
pub(super) struct Connection {
    opened: Opened,
    at: Endpoint,
    run_id: String,
    digests: Vec<String>,
}

impl Connection {
    /// Returns a handle to send commands by.
    pub(super) fn link(&self) -> MultiplexedConnection {
        self.opened.link.clone()
    }

    /// Returns the address of the engine.
    pub(super) fn at(&self) -> &Endpoint {
        &self.at
    }

    /// Returns the name of this run of the engine.
    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Returns the digest that names a script.
    pub(super) fn digest(&self, script: Script) -> &str {
        self.digests.get(script.place()).map_or("", |digest| digest)
    }
}

/// A connection to an engine or a sentinel, of which nothing is known yet.
pub(super) struct Opened {
    pub(super) link: MultiplexedConnection,
    /// Ends the task that reads and writes.
    driver: AbortHandle,
    /// The version of TLS; `None`: a plain connection.
    pub(super) tls: Option<String>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Engine {
    /// Makes connections for as long as it is polled: one at first, and another one whenever it is lost or the sentinels
    /// name another primary.
    pub(super) async fn connections(self: Arc<Self>) {
        let mut attempt = 0;
        loop {
            match timeout(CONNECT, self.connect()).await {
                Ok(Ok((at, connection))) => {
                    attempt = 0;
                    debug!(engine = %at, run_id = connection.run_id, "connected to the fleet's engine");
                    self.connection.store(Some(Arc::new(connection)));
                    self.lost(&at).await;
                    self.connection.store(None);
                    // No pause: a failover waits for this.
                    continue;
                }
                Ok(Err(why)) if attempt == 0 => {
                    warn!(
                        "the fleet's engine cannot be used: {why}; `crawlgate fleet check` says more"
                    );
                }
                Ok(Err(why)) => debug!("the fleet's engine cannot be used: {why}"),
                Err(_) => {
                    debug!("the fleet's engine cannot be used: no connection within {CONNECT:?}");
                }
            }
            sleep(delay(attempt, RETRY, LONGEST)).await;
            attempt += 1;
        }
    }

    /// Waits until the connection is lost, or the sentinels name another primary than `at`.
    async fn lost(&self, at: &Endpoint) {
        if self.settings.sentinels.is_empty() {
            return self.broken.notified().await;
        }
        loop {
            tokio::select! {
                () = self.broken.notified() => return,
                () = sleep(LOOK) => {}
            }
            // A sentinel that does not answer says nothing about the primary.
            match timeout(CONNECT, self.settings.primary()).await {
                Ok(Ok(primary)) if primary != *at => return,
                _ => {}
            }
        }
    }

    async fn connect(&self) -> Result<(Endpoint, Connection), ConnectError> {
        let (at, opened) = self.settings.open_primary().await?;
        // The engine refuses each of the questions below for one reason.
        let said = |error: redis::RedisError| match error.clone().into_server_errors().as_deref() {
            Some([(_, first), ..]) => {
                let first = redis::RedisError::from(first.clone());
                ConnectError::server(&at, Refusal(words(&first)))
            }
            _ => ConnectError::server(&at, error),
        };
        let mut link = opened.link.clone();
        // All at once: an engine far away answers each in time, and would not answer one after the other in time.
        let mut questions = redis::pipe();
        questions.cmd("INFO").arg("server").cmd("ROLE");
        for (_, text) in Script::ALL {
            questions.cmd("SCRIPT").arg("LOAD").arg(text);
        }
        let answers = questions.query_async(&mut link).await;
        let (server, role, digests): (String, Value, Vec<String>) =
            answers.map_err(said).and_then(|answers| read(answers).map_err(said))?;
        let server = fields_of_info(&server);
        let field = |name: &str| server.get(name).cloned().unwrap_or_default();
        if !is_new_enough(&server) {
            let version = field("redis_version");
            return Err(ConnectError::Version { at, version });
        }
        if is_cluster(&server) {
            return Err(ConnectError::Cluster(at));
        }
        let run_id = field("run_id");
        if run_id.is_empty() {
            return Err(ConnectError::NoRunId(at));
        }
        if role_of(&role) != Role::Primary {
            return Err(ConnectError::Replica(at));
        }
        let connection = Connection { opened, at: at.clone(), run_id, digests };
        Ok((at, connection))
    }
}

impl Settings {
    /// Opens a connection to the engine, or to the primary that the sentinels name.
    pub(super) async fn open_primary(&self) -> Result<(Endpoint, Opened), ConnectError> {
        let at = match &self.engine {
            Some(engine) => engine.clone(),
            None => self.primary().await?,
        };
        match self.open(&at, true).await {
            Ok(opened) => Ok((at, opened)),
            Err(fault) => Err(ConnectError::server(&at, fault)),
        }
    }

    /// Returns the primary that the first answering sentinel names.
    ///
    /// # Errors
    /// When none answers, or none knows it; the message holds the answer of each.
    async fn primary(&self) -> Result<Endpoint, ConnectError> {
        let mut failures = Vec::new();
        for sentinel in &self.sentinels {
            let asked = timeout(self.timeout * 2, self.asked(sentinel)).await;
            match asked.unwrap_or_else(|_| Err(ConnectError::Silent(sentinel.clone()))) {
                Ok(primary) => return Ok(primary),
                Err(why) => failures.push(why),
            }
        }
        Err(ConnectError::Unnamed(failures))
    }

    async fn asked(&self, sentinel: &Endpoint) -> Result<Endpoint, ConnectError> {
        let failed = |fault: ServerFault| ConnectError::server(sentinel, fault);
        let mut opened = self.open(sentinel, false).await.map_err(failed)?;
        let question = self.about_master("GET-MASTER-ADDR-BY-NAME");
        let answer = question.query_async(&mut opened.link).await;
        match answer.map_err(|error| failed(ServerFault::Redis(error)))? {
            Value::Array(place) => endpoint(&place).ok_or_else(|| failed(ServerFault::Strange)),
            _ => Err(ConnectError::Unknown { at: sentinel.clone(), master: self.master.clone() }),
        }
    }

    /// Returns a command to a sentinel, about the primary.
    pub(super) fn about_master(&self, word: &str) -> Cmd {
        let mut command = redis::cmd("SENTINEL");
        command.arg(word).arg(&self.master);
        command
    }

    /// Opens a connection to an engine, or to a sentinel, which has users of its own.
    pub(super) async fn open(&self, at: &Endpoint, is_engine: bool) -> Result<Opened, ServerFault> {
        let stream = TcpStream::connect((at.host.as_str(), at.port)).await?;
        stream.set_nodelay(true)?;
        let mut protocol = None;
        let stream: Pin<Box<dyn AsyncStream + Send + Sync>> = match &self.tls {
            None => Box::pin(stream),
            Some(tls) => {
                let name = ServerName::try_from(at.host.clone())?;
                let stream = tls.connect(name, stream).await.map_err(in_words)?;
                protocol = stream.get_ref().1.protocol_version();
                Box::pin(stream)
            }
        };
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if is_engine && let Some(user) = &self.user {
            info = info.set_username(user);
        }
        if is_engine && let Some(password) = &self.password {
            info = info.set_password(password);
        }
        // The deadline of each command is ours.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let opened = MultiplexedConnection::new_with_config(&info, stream, config);
        let (link, driver) = opened.await?;
        Ok(Opened {
            link,
            driver: tokio::spawn(driver).abort_handle(),
            tls: protocol.map(|version| format!("{version:?}")),
        })
    }
}

/// Reads the answers about an engine: what it says of itself, its role, and the digests of the scripts.
fn read(answers: Vec<Value>) -> Result<(String, Value, Vec<String>), redis::RedisError> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Value::Nil);
    let (server, role) = (redis::from_redis_value(next())?, next());
    let digests = answers.map(redis::from_redis_value);
    Ok((server, role, digests.collect::<Result<_, _>>()?))
}

/// Reads a host and a port that others have chosen.
pub(super) fn endpoint(place: &[Value]) -> Option<Endpoint> {
    let [host, port] = place else { return None };
    Endpoint::from_parts(text_of(host)?, text_of(port)?.parse().ok()?)
}

fn joined(errors: &[ConnectError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

/// Returns an error of a handshake with the fault that the verifier has found in place of the library's name for it.
fn in_words(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    let fault = match tls {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(fault)))) => {
            fault.downcast_ref::<TlsFault>()
        }
        _ => None,
    };
    match fault {
        Some(fault) => io::Error::new(error.kind(), fault.clone()),
        None => error,
    }
}

/// Reads the answer to `ROLE`.
pub(super) fn role_of(value: &Value) -> Role {
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
