//! The facts that `crawlgate fleet check` judges: an engine and its sentinels as they answer.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use redis::RedisError;
use rustls::pki_types::InvalidDnsNameError;
use thiserror::Error;

use crawlgate_config::Endpoint;

/// The answers of the engine and of the sentinels.
#[derive(Debug)]
pub struct Survey {
    /// The answer of each sentinel, or the reason why it gives none.
    pub sentinels: Vec<(Endpoint, Result<SentinelFacts, ServerFault>)>,
    /// The engine, if its address is known.
    pub at: Option<Endpoint>,
    /// The answers of the engine, or the reason why there are none.
    pub engine: Result<EngineFacts, ServerFault>,
}

/// The answers of one sentinel.
#[derive(Debug, Clone, Default)]
pub struct SentinelFacts {
    /// The primary that it names; `None`: it knows none of this name.
    pub primary: Option<Endpoint>,
    /// The milliseconds after which it takes a silent primary for lost, if it tells them.
    pub down_after: Option<u64>,
}

/// The answers of an engine.
#[derive(Debug, Clone)]
pub struct EngineFacts {
    /// The protocol of the connection; `None`: plain.
    pub tls: Option<String>,
    /// The fields of `INFO`, or its refusal.
    pub info: Answer<BTreeMap<String, String>>,
    /// The first word of `ROLE`, with the primary of a replica, or its refusal.
    pub role: Answer<Role>,
    /// The fields of `CONFIG GET`, or its refusal.
    pub settings: Answer<BTreeMap<String, String>>,
    /// The refusal of the scripts, if they are refused.
    pub scripts: Option<Refusal>,
    /// The commands of the scripts that the user may not send for the names of this fleet; empty if the scripts are
    /// refused.
    pub refused: Vec<String>,
    /// The commands of the scripts that the engine does not know by their names.
    pub unknown: Vec<String>,
    /// The refusal of a write, which an engine without memory or disk refuses.
    pub write: Option<Refusal>,
    /// The number of commands that were asked for.
    pub commands: usize,
}

/// Reads `name:value` lines.
pub(super) fn fields_of_info(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
}

/// The least version of the engine.
pub(super) const VERSION: u32 = 7;

/// Tells whether an engine is new enough, from the fields of `INFO`.
pub(super) fn is_new_enough(info: &BTreeMap<String, String>) -> bool {
    let version = info.get("redis_version");
    let major = version.and_then(|version| version.split('.').next());
    major.is_some_and(|major| major.parse::<u32>().is_ok_and(|major| major >= VERSION))
}

/// Returns the program and its version, from the fields of `INFO`.
pub(super) fn product(info: &BTreeMap<String, String>) -> String {
    let get = |name: &str| info.get(name).map_or("", String::as_str);
    match get("server_name") {
        "valkey" => format!("Valkey {}", get("valkey_version")),
        _ => format!("Redis {}", get("redis_version")),
    }
}

/// The reason why an engine or a sentinel gives no answers.
#[derive(Debug, Error)]
pub enum ServerFault {
    /// It cannot be reached, or does not speak TLS.
    #[error(transparent)]
    Stream(#[from] io::Error),
    /// No certificate can have its name.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// It does not let the user in, or breaks off.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// It refuses a command without which there is nothing to tell.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This command has no such answer.
    #[error("an unexpected answer")]
    Strange,
    /// It does not answer within this time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// Its address is not known.
    #[error("no sentinel names it")]
    Unnamed,
}

/// The reason why a server refuses a command, in its words: a code, and what it says of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refusal(pub(super) String);

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// The user has no right to the command, or to the name.
    Right,
    /// There is no command of this name: the configuration of the engine renames it, or takes it away.
    UnknownCommand,
    /// The engine asks for a password.
    Password,
    /// The memory is full.
    Memory,
    /// The engine is a replica.
    Replica,
    /// The engine is a node of a cluster.
    Cluster,
    /// The engine reads its data, and answers later.
    Loading,
    /// Another reason.
    Other,
}

impl Refusal {
    pub(super) fn kind(&self) -> RefusalKind {
        match self.0.split(' ').next().unwrap_or_default() {
            "NOPERM" => RefusalKind::Right,
            "NOAUTH" => RefusalKind::Password,
            "OOM" => RefusalKind::Memory,
            "READONLY" | "MASTERDOWN" => RefusalKind::Replica,
            "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" | "TRYAGAIN" => RefusalKind::Cluster,
            "LOADING" => RefusalKind::Loading,
            "ERR" if self.0.starts_with("ERR unknown command") => RefusalKind::UnknownCommand,
            _ => RefusalKind::Other,
        }
    }
}

/// Tells whether an engine is a node of a cluster, from the fields of `INFO`. Valkey calls the field otherwise than Redis.
pub(super) fn is_cluster(info: &BTreeMap<String, String>) -> bool {
    let mode = |name: &str| info.get(name).is_some_and(|mode| mode == "cluster");
    mode("redis_mode")
        || mode("server_mode")
        || info.get("cluster_enabled").is_some_and(|on| on == "1")
}

/// An answer, or the reason of its refusal.
pub type Answer<T> = Result<T, Refusal>;

/// The role of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It follows another engine.
    Replica {
        /// The engine that it follows, if it says so.
        of: Option<Endpoint>,
    },
    /// Another word, such as `sentinel`.
    Other(String),
}
