//! Configuration: from a TOML file to values that need no further check.
//!
//! [`Config`] holds only what is valid: who has one never asks again whether a number is in range. A file is read
//! whole and *all* its faults are told at once, each with file, line, key, value and what is allowed; nothing is
//! guessed, nothing unknown is passed over, and nothing listens before the file is right.
//!
//! A file needs to name only what it changes. The defaults stand in one place, [`Config::builtin`]; `config.toml` at
//! the top of the project shows every key with its default, and a test holds the two together.
//!
//! - `defaults`: what holds where the file says nothing
//! - `read`: the walk over the parsed TOML that collects faults
//! - `values`: what a single value may be
//! - `keys`: each key, what it allows, and the rules between keys
//! - `load`: which file is read
//! - `search`: files that nothing names, and which of them are believed
//! - `entries`: the way back, values as text, which `config show` prints and a reload compares
//! - `units`: durations, sizes and days as people write them
//! - `host`: host names and patterns of them
//! - `listener`: more places where crawlers connect
//! - `destination`: networks and hosts with ports
//! - `route`: upstream proxies
//! - `subtree`: domains and networks that the local CA is held to
//! - `client`: who uses the proxy
//! - `places`: where files go when the configuration does not say

mod client;
mod defaults;
mod destination;
mod entries;
mod host;
mod keys;
mod listener;
mod load;
mod places;
mod read;
mod route;
mod search;
mod subtree;
mod units;
mod values;

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

pub(crate) use self::client::client_name;
pub(crate) use self::route::check_credentials;
pub use self::{
    client::{CertificateMatch, ClientConfig, Conditions, PasswordHash, Quota, Rate},
    destination::{Destination, DestinationError, PortRange},
    entries::{Entry, ReloadPlan, TakesEffect},
    host::{HostPattern, HostPatternError},
    listener::{ClientAuthority, ClientCert, ListenAt, Listener, ListenerCertificate, ListenerTls},
    load::{ConfigError, NamedBy},
    places::Places,
    read::Fault,
    route::{Credentials, ProxyProtocol, Route, Secret, UpstreamProxy, Via},
    search::Distrust,
    subtree::{Subtree, SubtreeError},
    units::{
        format_bytes, format_duration, format_moment, parse_bytes, parse_duration, parse_moment,
    },
};
pub use ipnet::IpNet;

use crate::policy::overrides::Override;
use crate::rep::{Origin, ProductToken};

/// The whole configuration, validated. Each field is a section of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[listen]`: where crawlers connect, and which may.
    pub listen: Listen,
    /// `[[listener]]`, in the order of the file: more places where crawlers connect.
    pub listeners: Vec<Listener>,
    /// `[limits]`: what one crawler or one connection may take.
    pub limits: Limits,
    /// `[agent]`: as whom crawlers are judged.
    pub agent: AgentConfig,
    /// `[robots]`: how robots.txt files are fetched, kept and read.
    pub robots: RobotsConfig,
    /// `[pace]`: politeness per origin.
    pub pace: PaceConfig,
    /// `[tls]`: interception of HTTPS.
    pub tls: TlsConfig,
    /// `[egress]`: what may be dialled.
    pub egress: EgressConfig,
    /// `[upstream]`: connections to origin servers.
    pub upstream: UpstreamConfig,
    /// `[log]`: the decision log and the program's own messages.
    pub log: LogConfig,
    /// `[telemetry]`: messages and traces for an OpenTelemetry collector.
    pub telemetry: TelemetryConfig,
    /// `[store]`: what outlives the process.
    pub store: StoreConfig,
    /// `[audit]`: how surely and how long decisions are kept there.
    pub audit: AuditConfig,
    /// `[admin]`: how commands, people and programs reach the running process.
    pub admin: AdminConfig,
    /// `[policy]` and `[[override]]`: what the operator says over robots.txt.
    pub policy: PolicyConfig,
    /// `[[client]]`, in the order of the file: without credentials, the first that fits decides. Empty: all are one
    /// client without a name.
    pub clients: Vec<ClientConfig>,
    /// Where the values came from.
    pub source: Source,
}

/// Where a [`Config`] came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// No file was named and none was found: the defaults.
    BuiltIn,
    /// This file, which was named or stands in a place of the program's own.
    File(PathBuf),
    /// This file, which nothing names: it stands in the working directory, and may have come there with something else.
    Nearby(PathBuf),
}

impl Source {
    /// The file, if it is one.
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
    /// Addresses to listen on; never empty but beside a `[[listener]]`. Port 0 asks the system for a free one.
    pub addresses: Vec<SocketAddr>,
    /// Networks whose crawlers may connect. Empty: whoever reaches an address.
    pub allow: Vec<IpNet>,
    /// The operator wants an address that others can reach without an `allow` list.
    pub open: bool,
}

impl Listen {
    /// What to do about an address that [may not](Self::may_listen_on) be listened on.
    pub const EXPOSED: &str = "reachable from other machines; name the networks that may use it, \
        allow = [\"10.0.0.0/8\"], or let everybody in with open = true";

    /// Whether it is said who may connect to `address`; always so on the loopback interface.
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
    /// Of these, from one client; `None`: as many as come. A client is a `[[client]]`, or else an address.
    pub connections_per_client: Option<usize>,
    /// Requests under way, open tunnels among them; `None`: as many as come.
    pub requests: Option<usize>,
    /// Of these, from one client; `None`: as many as come.
    pub requests_per_client: Option<usize>,
    /// Longest time from the first octet of a request to the end of its head.
    pub header_timeout: Duration,
    /// Longest time that a crawler keeps a body waiting, its own or the one that it is sent.
    pub body_timeout: Duration,
    /// Octets that must pass for each second of waiting beyond that; 0: any progress is enough.
    pub body_rate: u32,
    /// Longest time a connection stays open between requests.
    pub idle_timeout: Duration,
    /// Longest time that nothing passes through a WebSocket or an opaque tunnel.
    pub tunnel_idle_timeout: Duration,
    /// Fields of a request head; at least 8.
    pub header_fields: usize,
    /// Octets of a request head.
    pub header_bytes: usize,
    /// Octets of a request target; never more than `header_bytes`.
    pub uri_bytes: usize,
    /// How long exchanges may take to end after SIGTERM.
    pub drain: Duration,
}

/// `[agent]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Product tokens that every crawler is judged as, most specific first. Empty: taken from each User-Agent field.
    pub product_tokens: Vec<ProductToken>,
    /// What happens where none of the product tokens that are configured, here or for a client, is part of the
    /// User-Agent that is sent (RFC 9309, section 2.2.1).
    pub mismatch: Mismatch,
    /// Crawlers that name no product token are denied.
    pub require_identity: bool,
}

/// What happens where a crawler is judged as another one than it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// The record says so.
    Record,
    /// It is denied.
    Deny,
}

/// `[robots]`
#[derive(Clone, Debug, PartialEq)]
pub struct RobotsConfig {
    /// Octets of a file that count; at least 512,000 (RFC 9309, section 2.5: 500 kibibytes).
    pub size_limit: usize,
    /// Redirects followed for one file (RFC 9309, section 2.3.1.2: at least five).
    pub max_redirects: u32,
    /// Longest time to a connection, TLS included, when fetching a file.
    pub connect_timeout: Duration,
    /// Longest time from the request to the first octet of the answer.
    pub first_byte_timeout: Duration,
    /// Longest time for a whole fetch, redirects included.
    pub fetch_timeout: Duration,
    /// Fetches under way at the same time, whatever their origins; at least 1.
    pub max_fetches: usize,
    /// Fetches begun per second, whatever their origins, above 0; `None`: as many as are due.
    pub fetches_per_second: Option<f64>,
    /// How long a crawler's request waits for the file before it is deferred as `robots_pending`.
    pub hold: Duration,
    /// Frequent misspellings and lines that lack their colon count.
    pub lenient: bool,
    /// Paths are judged in all readings that servers may make of them.
    pub path_guard: bool,
    /// A 5xx of a site that answers missing pages so means that there is no file.
    pub soft_404: bool,
    /// What the error page of such a site says.
    pub soft_404_phrases: Vec<String>,
    /// 4xx statuses that mean complete disallow instead of no restrictions; never 429, which is always unreachable.
    pub deny_statuses: Vec<u16>,
    /// Status of the answer while a file is unreachable: 403 or 503.
    pub unreachable_status: u16,
    /// crawlgate's own User-Agent: at most 127 octets of visible ASCII.
    pub user_agent: Box<str>,
    /// How long what is known holds.
    pub timing: Timing,
    /// `[robots.cache]`
    pub cache: CacheConfig,
}

/// How long files stay fresh, how failures are retried. The keys stand in `[robots]` itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Freshness of a file whose answer does not say (RFC 9309, section 2.4: at most 24 hours).
    pub fresh: Duration,
    /// Lower bound of a freshness that the answer asks for.
    pub fresh_min: Duration,
    /// Upper bound of a freshness that the answer asks for.
    pub fresh_max: Duration,
    /// Share of the freshness after which an origin in use is fetched anew; above 0, at most 1.
    pub refresh_ahead: f64,
    /// First wait after a failed fetch.
    pub retry_min: Duration,
    /// Longest wait between attempts.
    pub retry_max: Duration,
    /// Longest wait between attempts while the origin answers 503.
    pub retry_max_503: Duration,
    /// Share by which a wait is varied, 0 to 1, so that origins that failed together are not retried together.
    pub jitter: f64,
    /// What holds while a file is unreachable.
    pub profile: ProfileRules,
}

/// What an unreachable robots.txt means, as time passes: complete disallow for `disallow_for`, then the last good copy
/// up to `last_good_until` (without one, no restrictions), then `finally`. Both spans count from the first failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRules {
    /// The profile that the values were taken from.
    pub name: ProfileName,
    /// How long an unreachable file means complete disallow.
    pub disallow_for: Duration,
    /// Until when the last good copy counts; `None`: for ever.
    pub last_good_until: Option<Duration>,
    /// What holds after that.
    pub finally: Finally,
}

/// Whose reading of an unreachable robots.txt holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProfileName {
    /// RFC 9309, section 2.3.1.4, with Google's 30 days.
    Standard,
    /// Google's page of today.
    Google,
    /// No restrictions while unreachable: for archives that have decided so. Never a default.
    Archive,
}

/// What holds when the last good copy does not count any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finally {
    /// No restrictions.
    Allow,
    /// No restrictions if the origin answers other requests, else complete disallow.
    Reachable,
}

/// `[robots.cache]`: what is kept of origins in memory.
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
    /// Requests per second to one origin, above 0; `None`: as many as come.
    pub requests_per_second: Option<f64>,
    /// Requests that may follow each other at once; at least 1. Of the rate above only.
    pub burst: u32,
    /// Requests under way to one origin, from all crawlers together; at least 1. `None`: as many as come.
    pub concurrency: Option<u32>,
    /// The bounds above also hold over all origins at one address together.
    pub per_address: bool,
    /// What becomes of `Crawl-delay` and `Request-rate` in a robots.txt.
    pub crawl_delay: CrawlDelay,
    /// The longest interval that a robots.txt can ask for.
    pub max_crawl_delay: Duration,
    /// An origin that asks for it (429, 503), slows down or cannot be reached is asked less often for a while.
    pub backoff: bool,
    /// Longest time that an origin is left alone at its wish, and longest interval that it is asked in afterwards.
    pub backoff_max: Duration,
    /// Longest time a request is held back before it is deferred as `paced`.
    pub max_hold: Duration,
    /// Requests held back at the same time, of all clients at all origins; of one client at one origin, half of them.
    pub max_held: usize,
}

/// What becomes of the interval that a robots.txt asks for. RFC 9309 knows none: some crawlers follow it, some do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrawlDelay {
    /// It is kept.
    Honour,
    /// It is shown, and nothing else.
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
    /// Hosts whose certificates are kept.
    pub leaf_cache: usize,
    /// Hosts that are not intercepted but tunnelled, if their robots.txt disallows nothing.
    pub tunnel: Vec<HostPattern>,
    /// PEM files with CAs that are trusted for origins beside the system's.
    pub extra_roots: Vec<PathBuf>,
    /// What a CA that is created is held to, for ever, by its certificate (RFC 5280, section 4.2.1.10). Empty: nothing.
    /// Hosts outside are not intercepted.
    pub name_constraints: Vec<Subtree>,
}

/// `[egress]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressConfig {
    /// What is dialled although it is not on the public internet.
    pub allow: Vec<Destination>,
    /// What is not dialled, whatever `allow` says.
    pub deny: Vec<Destination>,
    /// Ports that a CONNECT may ask for.
    pub connect_ports: Vec<PortRange>,
}

/// `[upstream]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Longest time to a connection, TLS included.
    pub connect_timeout: Duration,
    /// Longest time from the end of a request to the head of its response.
    pub response_timeout: Duration,
    /// Longest time that nothing of a response's body comes.
    pub body_timeout: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// Unused connections kept per origin.
    pub idle_per_host: usize,
    /// Whether messages name us in `Via`, both ways.
    pub via: bool,
    /// `[upstream.hosts]`: addresses of names that are not looked up, like `/etc/hosts`. Names are canonical.
    pub hosts: HashMap<String, IpAddr>,
    /// `[[upstream.proxy]]`, in the order of the file: the first that names a host decides.
    pub routes: Vec<Route>,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Which decisions are recorded.
    pub decisions: Recorded,
    /// The decision log; `None`: no file.
    pub file: Option<PathBuf>,
    /// Decisions go to standard output, too.
    pub stdout: bool,
    /// Octets after which the file is rotated.
    pub rotate_bytes: u64,
    /// The file is rotated at midnight, UTC.
    pub rotate_daily: bool,
    /// Rotated files kept; at least 1.
    pub keep: usize,
    /// What happens to requests while decisions cannot be recorded.
    pub on_failure: OnFailure,
    /// The query of a URL is left out of the record.
    pub redact_query: bool,
    /// Filter of the program's own messages on standard error, as `tracing_subscriber::EnvFilter` reads it.
    pub level: String,
    /// How they are written there.
    pub format: LogFormat,
}

/// How the program's own messages are written.
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
    /// Where an OpenTelemetry collector takes OTLP over HTTP, without a slash at its end; `None`: nothing is sent.
    pub otlp_endpoint: Option<String>,
    /// A file with fields that each delivery carries, `name: value` on each line; `None`: none.
    pub headers_file: Option<PathBuf>,
    /// What this instance is called there.
    pub service_name: String,
    /// Share of the exchanges that are traced where their crawler does not say, from 0, which is none at all, to 1.
    pub sample: f64,
    /// The program's own messages are sent, too.
    pub logs: bool,
}

/// Which decisions are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// Those that kept a request from its origin.
    Denied,
    /// All.
    All,
}

/// What happens while decisions cannot be recorded.
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
    /// The database; `None`: nothing outlives the process.
    pub path: Option<PathBuf>,
    /// What a power cut may take.
    pub synchronous: Synchronous,
}

/// How hard the store holds on to what it writes. A kill of the process loses nothing either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Synchronous {
    /// A power cut may take the last writes, and leaves the store whole.
    Normal,
    /// A power cut takes nothing: each write waits for the disk.
    Full,
}

/// `[audit]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// When a denial must be in the store.
    pub durability: Durability,
    /// How long decisions are kept; `None`: for ever.
    pub keep: Option<Duration>,
    /// Octets of the store on disk, above which the oldest decisions go of the client that takes most; `None`: as many as
    /// come.
    pub max_size: Option<u64>,
    /// Refusals of one client, for one reason, that are recorded one by one in a minute; those beyond are counted.
    pub refusals_per_minute: u32,
    /// How often the chain of records is sealed.
    pub seal_every: Duration,
}

/// When a denial must be in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Within 100 ms.
    Relaxed,
    /// Before its answer leaves.
    Strict,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// A Unix socket for commands that must reach the running process; `None`: they cannot.
    pub socket: Option<PathBuf>,
    /// Where `serve` shows the console, the API, health and metrics over HTTP; `None`: nowhere. Port 0 asks the system
    /// for a free one.
    pub address: Option<SocketAddr>,
    /// A file that holds the token which whoever asks there must show, made if it is missing; `None`: nobody has to,
    /// which is allowed on loopback only.
    pub token_file: Option<PathBuf>,
    /// Names by which that address is reached, canonical, beside `localhost` and its bare addresses.
    pub hosts: Vec<String>,
    /// Open connections there; at least 1. At the limit, the longest idle one makes room for a new one. Three quarters of
    /// as many questions to the decision service may be under way.
    pub connections: usize,
}

impl AdminConfig {
    /// What to do about an address that is reachable from other machines while nobody needs a token.
    pub const EXPOSED: &str = "reachable from other machines; name a file for the token that they must show, \
        token_file = \"admin.token\", or listen on 127.0.0.1 and reach it by ssh -L";

    /// Whether whoever can reach the address may be let in: on loopback, or with a token.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.token_file.is_some()
            || self
                .address
                .is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
}

/// `[policy]` and `[[override]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Whether denials deny.
    pub mode: Mode,
    /// Origins in report mode, whatever `mode` says.
    pub report_origins: Vec<Origin>,
    /// Crawlers' networks in report mode, whatever `mode` says.
    pub report_clients: Vec<IpNet>,
    /// `[[override]]`: assertions about origins, in the order of the file.
    pub overrides: Vec<Override>,
}

/// Whether denials deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// What is denied does not reach its origin.
    Enforce,
    /// Everything is decided and recorded, nothing is denied.
    Report,
}

impl Mode {
    /// The mode's name, in the configuration as in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Report => "report",
        }
    }
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
