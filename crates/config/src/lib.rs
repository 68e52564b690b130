//! Configuration: from a TOML file to values that need no further check.
//!
//! [`Config`] holds only valid values: its users never check a range again. A file is read whole and *all* its faults
//! are reported at once, each with file, line, key, value and the allowed values. crawlgate guesses nothing, refuses
//! unknown keys, and opens no listener before the file is right.
//!
//! A file needs to name only the keys that it changes. [`Config::builtin`] has all defaults; `config.toml` at the top
//! of the project shows every key with its default, and a test compares the two.
//!
//! - `defaults`: the value of each key that the file does not set
//! - `read`: the walk over the parsed TOML that collects faults
//! - `values`: readers of single values
//! - `keys`: each key, its bounds, and the rules between keys
//! - `load`: the choice of the file; `environment`: values in variables, which come after it
//! - `search`: files that no option names, and which of them are trusted
//! - `service`: the store of the machine's service, for commands in a shell
//! - `entries`: the way back, values as text, which `config show` prints and a reload compares; for each key, reload or
//!   restart
//! - `reload`: the changes that a reload makes
//! - `units`: durations, sizes and days as people write them
//! - `host`: host names and patterns of them
//! - `listener`: more places where crawlers connect
//! - `destination`: networks and hosts with ports
//! - `route`: upstream proxies
//! - `subtree`: domains and networks that constrain the local CA
//! - `client`: the clients of the proxy
//! - `admin`: the users of the admin side
//! - `places`: the default paths of files

mod admin;
mod client;
mod defaults;
mod domain;
mod entries;
mod environment;
mod fleet;
mod keys;
mod listener;
mod load;
pub mod places;
mod read;
mod reload;
mod route;
mod search;
mod service;
mod ship;
mod subtree;
mod units;
mod values;

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use self::route::check_credentials;
pub use self::{
    admin::{AdminTls, AdminUser, Role, TokenDigest},
    client::{CertificateMatch, ClientConfig, Conditions, PasswordHash, Quota, Rate},
    defaults::{DEFAULT_ADDRESS, DEFAULT_ADMIN_ADDRESS},
    entries::{Entry, TakesEffect},
    environment::Variables,
    fleet::{Endpoint, FleetConfig},
    listener::{ClientAuthority, ClientCert, ListenAt, Listener, ListenerCertificate, ListenerTls},
    load::{ConfigError, NamedBy},
    places::Places,
    read::Fault,
    reload::ReloadPlan,
    route::{Credentials, ProxyProtocol, Route, Secret, UpstreamProxy, Via},
    search::Distrust,
    service::{Holder, Kept},
    ship::{ShipConfig, ShipTo},
    subtree::{Subtree, SubtreeError},
    units::{
        format_bytes, format_duration, format_moment, parse_bytes, parse_duration, parse_moment,
    },
};
pub use crawlgate_origins::identity::client_name;
pub use ipnet::IpNet;

pub use crawlgate_origins::timing::{Finally, ProfileName, ProfileRules, Timing};
pub use crawlgate_policy::Mode;
pub use crawlgate_policy::destination::{Destination, DestinationError, PortRange};
pub use crawlgate_policy::host::HostPattern;
pub use crawlgate_policy::identity::Mismatch;
pub use crawlgate_usage::{Modes, Purposes, SignalMode};

use crawlgate_policy::Reason;
use crawlgate_policy::overrides::Override;
use crawlgate_robots::{Origin, ProductToken};
use crawlgate_signing as signing;
use crawlgate_tlog::{KeyName, VerifierKey};

/// The whole configuration, validated. Each field is a section of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[listen]`: the addresses where crawlers connect, and the networks that may.
    pub listen: Listen,
    /// `[[listener]]`, in the order of the file: more addresses and sockets where crawlers connect.
    pub listeners: Vec<Listener>,
    /// `[limits]`: bounds for one crawler or one connection.
    pub limits: Limits,
    /// `[agent]`: the product tokens that judge crawlers.
    pub agent: AgentConfig,
    /// `[robots]`: fetching, keeping and reading robots.txt files.
    pub robots: RobotsConfig,
    /// `[pace]`: politeness per origin.
    pub pace: PaceConfig,
    /// `[tls]`: interception of HTTPS.
    pub tls: TlsConfig,
    /// `[egress]`: the destinations that may be dialled.
    pub egress: EgressConfig,
    /// `[upstream]`: connections to origin servers.
    pub upstream: UpstreamConfig,
    /// `[log]`: the decision log and the program's own messages.
    pub log: LogConfig,
    /// `[telemetry]`: messages and traces for an OpenTelemetry collector.
    pub telemetry: TelemetryConfig,
    /// `[store]`: the database of states and decisions.
    pub store: StoreConfig,
    /// `[audit]`: durability and retention of decisions.
    pub audit: AuditConfig,
    /// `[ship]`
    pub ship: ShipConfig,
    /// `[fleet]`
    pub fleet: FleetConfig,
    /// `[admin]`: access of commands, people and programs to the running process.
    pub admin: AdminConfig,
    /// `[policy]` and `[[override]]`: the operator's rulings above robots.txt.
    pub policy: PolicyConfig,
    /// `[[client]]`, in the order of the file: without credentials, the first entry that matches decides. Empty:
    /// everyone is one unnamed client.
    pub clients: Vec<ClientConfig>,
    /// `[[signing]]`, in the order of the file: the identities that requests are signed with.
    pub signing: Vec<signing::Settings>,
    /// The origin of the values.
    pub source: Source,
}

/// The origin of a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// No file was named and none was found: the defaults.
    BuiltIn,
    /// A file that was named, or that stands in a directory of crawlgate's own.
    File(PathBuf),
    /// A file that no option names: it stands in the working directory, and may have come there with other files.
    Nearby(PathBuf),
}

impl Source {
    /// Returns the file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::BuiltIn => None,
            Self::File(path) | Self::Nearby(path) => Some(path),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in defaults"),
            Self::File(path) | Self::Nearby(path) => write!(f, "{}", path.display()),
        }
    }
}

/// `[listen]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Addresses to listen on; empty only if there is a `[[listener]]`. Port 0 asks the system for a free one.
    pub addresses: Vec<SocketAddr>,
    /// Networks that crawlers may connect from. Empty: any network that reaches an address.
    pub allow: Vec<IpNet>,
    /// True if the operator accepts an address that other machines reach without an `allow` list.
    pub open: bool,
    /// True to offer HTTP/2 in the TLS sessions of crawlers: inside intercepted tunnels and on listeners with TLS.
    pub http2: bool,
}

impl Listen {
    /// The advice about an address that [may not](Self::may_listen_on) be listened on.
    pub const EXPOSED: &str = "reachable from other machines; name the networks that may use it, \
        allow = [\"10.0.0.0/8\"], or let everybody in with open = true";

    /// Tells whether the settings limit who may connect to `address`; always true on the loopback interface.
    #[must_use]
    pub fn may_listen_on(&self, address: &SocketAddr) -> bool {
        Self::may_reach(address, &self.allow, self.open)
    }

    fn may_reach(address: &SocketAddr, allow: &[IpNet], open: bool) -> bool {
        address.ip().to_canonical().is_loopback() || open || !allow.is_empty()
    }
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections from crawlers; at least 1. At the limit, the longest idle one makes room for a new one.
    pub connections: usize,
    /// Open connections of one client; `None`: unlimited. A client is a `[[client]]`, or else an address.
    pub connections_per_client: Option<usize>,
    /// Requests in progress, open tunnels among them; `None`: unlimited.
    pub requests: Option<usize>,
    /// Requests in progress of one client; `None`: unlimited.
    pub requests_per_client: Option<usize>,
    /// Longest time from the first octet of a request to the end of its head.
    pub header_timeout: Duration,
    /// Longest time that a crawler stalls a body, in either direction.
    pub body_timeout: Duration,
    /// Minimum body rate in octets per second: a slower body uses up `body_timeout`; 0: any progress is enough.
    pub body_rate: u32,
    /// Longest time that a connection stays open between requests.
    pub idle_timeout: Duration,
    /// Longest silence of a WebSocket or an opaque tunnel.
    pub tunnel_idle_timeout: Duration,
    /// Fields of a request head; at least 8.
    pub header_fields: usize,
    /// Octets of a request head.
    pub header_bytes: usize,
    /// Octets of a request target; never more than `header_bytes`.
    pub uri_bytes: usize,
    /// Requests in progress on one HTTP/2 connection (RFC 9113 6.5.2, SETTINGS_MAX_CONCURRENT_STREAMS); at least 1.
    pub http2_streams: u32,
    /// Octets that a crawler may send on one HTTP/2 stream ahead of the origin (RFC 9113 6.9); a connection has four
    /// times as many.
    pub http2_window: u32,
    /// Streams per minute that a crawler may reset before they are answered, and malformed requests of one connection; a
    /// connection with more is closed.
    pub http2_resets: u32,
    /// Frames per minute that are no part of a request; a connection with more is closed.
    pub http2_control_frames: u32,
    /// Time for exchanges to end after SIGTERM.
    pub drain: Duration,
}

/// `[agent]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Product tokens that every crawler is judged as, most specific first. Empty: taken from each User-Agent field.
    pub product_tokens: Vec<ProductToken>,
    /// The reaction to a User-Agent that contains none of the configured product tokens, here or of a client (RFC 9309,
    /// section 2.2.1).
    pub mismatch: Mismatch,
    /// True to deny crawlers that name no product token.
    pub require_identity: bool,
    /// The `[[signing]]` of clients that name none; none: their requests are not signed.
    pub signing: Option<Arc<str>>,
}

/// `[robots]`
#[derive(Clone, Debug, PartialEq)]
pub struct RobotsConfig {
    /// Octets of a file that are read; at least 512,000 (RFC 9309, section 2.5: 500 kibibytes).
    pub size_limit: usize,
    /// Redirects followed for one file (RFC 9309, section 2.3.1.2: at least five).
    pub max_redirects: u32,
    /// Longest time to a connection, TLS included, when fetching a file.
    pub connect_timeout: Duration,
    /// Longest time from the request to the first octet of the response.
    pub first_byte_timeout: Duration,
    /// Longest time for a whole fetch, redirects included.
    pub fetch_timeout: Duration,
    /// Fetches in progress, over all origins; at least 1.
    pub max_fetches: usize,
    /// Fetches begun per second, over all origins, above 0; `None`: unlimited.
    pub fetches_per_second: Option<f64>,
    /// Time that a crawler's request waits for the file before it is deferred as `robots_pending`.
    pub hold: Duration,
    /// True to read frequent misspellings and lines that lack their colon.
    pub lenient: bool,
    /// True to judge each path in all forms that servers may read from it.
    pub path_guard: bool,
    /// True to treat a 5xx as a missing file if the site answers all missing pages so.
    pub soft_404: bool,
    /// The phrases in the error page of such a site.
    pub soft_404_phrases: Vec<String>,
    /// 4xx statuses that mean complete disallow instead of no restrictions; never 429, which is always unreachable.
    pub deny_statuses: Vec<u16>,
    /// Status of the answer while a file is unreachable; `None`: by the [cause](crawlgate_origins::access::Cause::answer).
    pub unreachable_status: Option<u16>,
    /// crawlgate's own User-Agent: at most 127 octets of visible ASCII.
    pub user_agent: Box<str>,
    /// The times of freshness and of retries.
    pub timing: Timing,
    /// `[robots.cache]`
    pub cache: CacheConfig,
    /// `[signals]`: what sites say of the use of their content. It stands here because verdicts follow from it as they
    /// follow from the other settings of this struct.
    pub signals: Arc<Modes>,
}

/// `[robots.cache]`: the states of origins in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Origins kept.
    pub origins: usize,
    /// Octets kept, approximately.
    pub bytes: usize,
}

/// `[pace]`
#[derive(Clone, Debug, PartialEq)]
pub struct PaceConfig {
    /// Requests per second to one origin, above 0; `None`: unlimited.
    pub requests_per_second: Option<f64>,
    /// Requests that may follow each other at once; at least 1. Applies to the rate above only.
    pub burst: u32,
    /// Requests in progress to one origin, from all crawlers together; at least 1. `None`: unlimited.
    pub concurrency: Option<u32>,
    /// True to apply the limits above to all origins at one address together, too.
    pub per_address: bool,
    /// The treatment of `Crawl-delay` and `Request-rate` in a robots.txt.
    pub crawl_delay: CrawlDelayMode,
    /// The longest interval that a robots.txt can demand.
    pub max_crawl_delay: Duration,
    /// True to request an origin less often for a while if it asks for that (429, 503), slows down or cannot be
    /// reached.
    pub backoff: bool,
    /// Longest pause that an origin can demand, and longest interval between requests after it.
    pub backoff_max: Duration,
    /// Longest time a request is held back before it is deferred as `paced`.
    pub max_hold: Duration,
    /// Requests held at the same time, of all clients at all origins; one client at one origin may hold half of them.
    pub max_held: usize,
}

/// The treatment of the interval in a robots.txt. RFC 9309 defines none: some crawlers follow it, some do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrawlDelayMode {
    /// Keep the interval.
    Honour,
    /// Show the interval, and nothing else.
    Record,
}

/// `[tls]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The local CA's certificate, PEM. Created with its key when both are missing.
    pub ca_cert: PathBuf,
    /// The local CA's private key, PEM.
    pub ca_key: PathBuf,
    /// Validity of the certificates minted for intercepted hosts.
    pub leaf_lifetime: Duration,
    /// Number of hosts with a cached certificate.
    pub leaf_cache: usize,
    /// Hosts to tunnel without interception, if their robots.txt disallows nothing.
    pub tunnel: Vec<HostPattern>,
    /// PEM files with CAs to trust for origins, besides the system's.
    pub extra_roots: Vec<PathBuf>,
    /// The name constraints of a newly created CA (RFC 5280, section 4.2.1.10). They hold for its lifetime, and hosts
    /// outside are not intercepted. Empty: none.
    pub name_constraints: Vec<Subtree>,
}

/// `[egress]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressConfig {
    /// Destinations outside the public internet that may be dialled.
    pub allow: Vec<Destination>,
    /// Destinations that are never dialled, even if `allow` has them.
    pub deny: Vec<Destination>,
    /// Ports that a CONNECT may request.
    pub connect_ports: Vec<PortRange>,
}

/// `[upstream]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Longest time to a connection, TLS included.
    pub connect_timeout: Duration,
    /// Longest time from the end of a request to the head of its response.
    pub response_timeout: Duration,
    /// Longest silence within a response's body.
    pub body_timeout: Duration,
    /// Time that an unused connection is kept.
    pub idle_timeout: Duration,
    /// Unused connections kept per origin.
    pub idle_per_host: usize,
    /// True to offer HTTP/2 to `https` origins.
    pub http2: bool,
    /// Hosts that HTTP/2 is not offered to.
    pub http1_hosts: Vec<HostPattern>,
    /// True to forward requests for `ftp` URLs.
    pub ftp: bool,
    /// Most requests at once on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Most HTTP/2 connections to one origin, for one client.
    pub http2_connections: usize,
    /// Octets of a response by HTTP/2 that the origin may send before the crawler takes any.
    pub http2_window: u32,
    /// True to name crawlgate in `Via`, both ways.
    pub via: bool,
    /// `[upstream.hosts]`: addresses for names, used instead of a lookup, like `/etc/hosts`. Names are canonical.
    pub hosts: HashMap<String, IpAddr>,
    /// `[[upstream.proxy]]`, in the order of the file: the first that names a host decides.
    pub routes: Vec<Route>,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The decisions to record.
    pub decisions: Recorded,
    /// The decision log; `None`: no file.
    pub file: Option<PathBuf>,
    /// True to write decisions to standard output, too.
    pub stdout: bool,
    /// Octets at which the file is rotated.
    pub rotate_bytes: u64,
    /// True to rotate the file at midnight, UTC.
    pub rotate_daily: bool,
    /// Rotated files to keep; at least 1.
    pub keep: usize,
    /// The treatment of requests while decisions cannot be recorded.
    pub on_failure: OnFailure,
    /// True to leave the query of a URL out of the record.
    pub redact_query: bool,
    /// Filter of the program's own messages on standard error, as `tracing_subscriber::filter::Targets` reads it.
    pub level: String,
    /// The format of these messages.
    pub format: LogFormat,
}

/// The format of the program's own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[telemetry]`
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryConfig {
    /// The URL of an OpenTelemetry collector (OTLP over HTTP), without a slash at its end; `None`: nothing is sent.
    pub otlp_endpoint: Option<String>,
    /// A file with header fields for each delivery, `name: value` on each line; `None`: none.
    pub headers_file: Option<PathBuf>,
    /// The name of this instance there.
    pub service_name: String,
    /// Share of exchanges to trace if their crawler does not decide, from 0 (none) to 1 (all).
    pub sample: f64,
    /// True to send the program's own messages, too.
    pub logs: bool,
}

/// The decisions to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// Decisions that kept a request from its origin.
    Denied,
    /// Those, and all decisions about clients that declare purposes.
    Purposes,
    /// All decisions.
    All,
}

impl Recorded {
    /// Returns the least setting that records a decision: denials and failures always are, and so is what robots.txt
    /// disallows and the operator's exemption of a client lets out.
    #[must_use]
    pub fn least(reason: &str, verdict: &str, has_failed: bool, purposes: Purposes) -> Recorded {
        let is_plain = verdict == "allow" && reason != Reason::ClientExempt.as_str();
        match is_plain && !has_failed {
            false => Recorded::Denied,
            true if !purposes.is_empty() => Recorded::Purposes,
            true => Recorded::All,
        }
    }
}

/// The treatment of requests while decisions cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// Requests are denied: no record, no request.
    Deny,
    /// Requests go on; the records lost are counted.
    Continue,
}

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The database; `None`: states and decisions end with the process.
    pub path: Option<PathBuf>,
    /// The writes that a power cut may lose.
    pub synchronous: Synchronous,
}

/// The durability of the store's writes. A kill of the process loses nothing either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Synchronous {
    /// A power cut may lose the writes since the last checkpoint of the log, but leaves the store whole. Denials under
    /// strict durability, overrides and acknowledgements wait for the disk all the same.
    Normal,
    /// A power cut loses no write: each waits for the disk.
    Full,
}

/// `[audit]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The time by which a denial must be in the store.
    pub durability: Durability,
    /// Age until which decisions are kept; `None`: for ever.
    pub keep: Option<Duration>,
    /// Octets of the store on disk; above that, retention deletes the oldest decisions of the client with the most.
    /// `None`: unlimited.
    pub max_size: Option<u64>,
    /// Refusals of one client, for one reason, that are recorded one by one in a minute; further ones are counted. `None`:
    /// every denial is recorded.
    pub refusals_per_minute: Option<u32>,
    /// Interval of checkpoints of the decision log.
    pub checkpoint_every: Duration,
    /// The name of the decision log; `None`: one made of its key.
    pub log_name: Option<KeyName>,
    /// Witnesses that must have cosigned a checkpoint for it to count as witnessed.
    pub quorum: usize,
    /// The directory of the logs of other machines that `crawlgate collect` has filed; `None`: none.
    pub collection: Option<PathBuf>,
    /// `[[audit.witness]]`: the witnesses of the decision log, in the order of the file.
    pub witnesses: Vec<WitnessConfig>,
}

impl AuditConfig {
    /// Returns the keys of the witnesses.
    #[must_use]
    pub fn witness_keys(&self) -> Vec<VerifierKey> {
        self.witnesses.iter().map(|one| one.vkey.clone()).collect()
    }
}

/// `[[audit.witness]]`: a witness that cosigns the checkpoints of the decision log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessConfig {
    /// Its name in messages, metrics and the console.
    pub name: String,
    /// Its submission prefix, without a slash at the end.
    pub url: String,
    /// Its key.
    pub vkey: VerifierKey,
    /// The file with the only CAs that its certificate may be of; `None`: those of the system, and `[tls] extra_roots`.
    pub ca: Option<PathBuf>,
}

/// The time by which a denial must be in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Within 100 ms.
    Relaxed,
    /// Before its answer leaves, and on the disk.
    Strict,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// A Unix socket for commands that must reach the running process; `None`: no socket.
    pub socket: Option<PathBuf>,
    /// The address where `serve` shows the console, the API, health and metrics over HTTP; `None`: nowhere. Port 0 asks
    /// the system for a free one.
    pub address: Option<SocketAddr>,
    /// A file with the token that all operators share, made if it is missing; `None`: no such token. Without one and
    /// without users, everyone who reaches the address may do everything, so it must be on loopback.
    pub token_file: Option<PathBuf>,
    /// The certificate of that address; `None`: plain HTTP.
    pub tls: Option<AdminTls>,
    /// `[[admin.user]]`, in the order of the file: the users of that address besides holders of the token.
    pub users: Vec<AdminUser>,
    /// True if a reload has removed all users: only a restart opens the address to requests without credentials. No key.
    pub had_users: bool,
    /// Canonical names by which that address is reached, besides `localhost` and its bare addresses.
    pub hosts: Vec<String>,
    /// Open connections there; at least 1. At the limit, the longest idle one makes room for a new one. At most three
    /// quarters as many decision requests may be in progress.
    pub connections: usize,
    /// The address where `serve` shows a page for everyone to try a URL; `None`: nowhere.
    pub public_try: Option<SocketAddr>,
    /// Questions of one peer there in a minute; at least 1.
    pub public_try_per_minute: u32,
}

impl AdminConfig {
    /// The advice about an address that other machines reach without credentials.
    pub const EXPOSED: &str = "reachable from other machines; name a file for the token that they must show, \
        token_file = \"admin.token\", or users, [[admin.user]], or listen on 127.0.0.1 and reach it by ssh -L";

    /// Tells whether the address is safe to serve: on loopback, or with credentials.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.has_credentials() || self.is_on_loopback()
    }

    /// Tells whether clients of the address must send credentials.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.token_file.is_some() || self.is_for_users()
    }

    /// Tells whether there are users, or were some since the process started.
    #[must_use]
    pub fn is_for_users(&self) -> bool {
        self.had_users || !self.users.is_empty()
    }

    /// Tells whether the address refuses every request: a reload has removed the last user, and no token is left.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.token_file.is_none() && self.had_users && self.users.is_empty()
    }

    /// Tells whether programs of this machine alone reach the address.
    #[must_use]
    pub fn is_on_loopback(&self) -> bool {
        self.address
            .is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

/// `[policy]` and `[[override]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// The mode: denials are enforced or only reported.
    pub mode: Mode,
    /// Origins in report mode, in any `mode`.
    pub report_origins: Vec<Origin>,
    /// Crawlers' networks in report mode, in any `mode`.
    pub report_clients: Vec<IpNet>,
    /// The purposes of clients that declare none.
    pub purposes: Purposes,
    /// `[[override]]`: overrides of origins' robots.txt, in the order of the file.
    pub overrides: Vec<Override>,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: u64 = 1 << 30;

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn hours(count: u64) -> Duration {
    secs(count * 60 * 60)
}

const fn days(count: u64) -> Duration {
    hours(count * 24)
}

#[cfg(test)]
mod tests;
