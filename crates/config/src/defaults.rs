//! The values of all keys that the file does not set.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use super::{
    AdminConfig, AgentConfig, AuditConfig, CacheConfig, Config, CrawlDelayMode, Durability,
    EgressConfig, FleetConfig, GIB, KIB, Limits, Listen, LogConfig, LogFormat, MIB, Mismatch, Mode,
    OnFailure, PaceConfig, Places, PolicyConfig, PortRange, ProfileName, ProfileRules, Recorded,
    RobotsConfig, ShipConfig, Source, StoreConfig, Synchronous, TelemetryConfig, Timing, TlsConfig,
    UpstreamConfig, days, secs,
};
use crawlgate_origins::identity::OWN;
use crawlgate_usage::Purposes;

/// The address where crawlers connect.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8118);

/// The address of the console, the API, health and metrics.
pub const DEFAULT_ADMIN_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8119);

/// Phrases in error pages for missing pages, in the languages of most sites. "File not found" is not among them: a
/// broken script reports its own files so.
const SOFT_404_PHRASES: [&str; 23] = [
    "page not found",
    "page could not be found",
    "404 not found",
    "seite nicht gefunden",
    "seite wurde nicht gefunden",
    "page non trouvée",
    "page introuvable",
    "página no encontrada",
    "página não encontrada",
    "pagina non trovata",
    "pagina niet gevonden",
    "strona nie została znaleziona",
    "sidan hittades inte",
    "stránka nenalezena",
    "sayfa bulunamadı",
    "страница не найдена",
    "сторінку не знайдено",
    "الصفحة غير موجودة",
    "ページが見つかりません",
    "页面不存在",
    "找不到页面",
    "找不到網頁",
    "페이지를 찾을 수 없습니다",
];

impl Config {
    /// Returns the defaults, with files in `places`.
    #[must_use]
    pub fn builtin(places: &Places) -> Self {
        let (ca_cert, ca_key) = places.ca();
        let (store, socket) = places.store();
        Self {
            listen: Listen {
                addresses: vec![DEFAULT_ADDRESS],
                allow: Vec::new(),
                open: false,
                http2: true,
            },
            listeners: Vec::new(),
            limits: Limits {
                connections: 4_096,
                connections_per_client: None,
                requests: None,
                requests_per_client: None,
                header_timeout: secs(10),
                body_timeout: secs(60),
                body_rate: 100,
                idle_timeout: secs(120),
                tunnel_idle_timeout: secs(5 * 60),
                header_fields: 100,
                header_bytes: 64 * KIB,
                uri_bytes: 16 * KIB,
                http2_streams: 100,
                http2_window: 256 * KIB as u32,
                http2_resets: 200,
                http2_control_frames: 6_000,
                drain: secs(30),
            },
            agent: AgentConfig {
                product_tokens: Vec::new(),
                mismatch: Mismatch::Record,
                require_identity: false,
                signing: None,
            },
            robots: RobotsConfig {
                size_limit: 500 * KIB,
                max_redirects: 5,
                connect_timeout: secs(10),
                first_byte_timeout: secs(20),
                fetch_timeout: secs(30),
                max_fetches: 256,
                fetches_per_second: None,
                hold: secs(25),
                lenient: true,
                path_guard: true,
                soft_404: true,
                soft_404_phrases: SOFT_404_PHRASES.map(str::to_owned).to_vec(),
                deny_statuses: Vec::new(),
                unreachable_status: None,
                user_agent: OWN.into(),
                timing: Timing::default(),
                cache: CacheConfig {
                    origins: 100_000,
                    bytes: 256 * MIB,
                },
                signals: Arc::default(),
            },
            pace: PaceConfig {
                requests_per_second: None,
                burst: 1,
                concurrency: None,
                per_address: false,
                crawl_delay: CrawlDelayMode::Record,
                max_crawl_delay: secs(30),
                backoff: true,
                backoff_max: secs(5 * 60),
                max_hold: secs(30),
                max_held: 10_000,
            },
            tls: TlsConfig {
                ca_cert,
                ca_key,
                leaf_lifetime: days(7),
                leaf_cache: 10_000,
                tunnel: Vec::new(),
                extra_roots: Vec::new(),
                name_constraints: Vec::new(),
            },
            egress: EgressConfig {
                allow: Vec::new(),
                deny: Vec::new(),
                connect_ports: vec![PortRange::one(443), PortRange::one(80)],
            },
            upstream: UpstreamConfig {
                connect_timeout: secs(10),
                response_timeout: secs(60),
                body_timeout: secs(60),
                idle_timeout: secs(90),
                idle_per_host: 64,
                http2: true,
                http1_hosts: Vec::new(),
                ftp: true,
                http2_streams: 100,
                http2_connections: 8,
                http2_window: 256 * 1024,
                via: true,
                hosts: HashMap::new(),
                routes: Vec::new(),
            },
            log: LogConfig {
                decisions: Recorded::Denied,
                file: None,
                stdout: false,
                rotate_bytes: 100 * MIB as u64,
                rotate_daily: true,
                keep: 14,
                on_failure: OnFailure::Deny,
                redact_query: false,
                level: "info".to_owned(),
                format: LogFormat::Text,
            },
            telemetry: TelemetryConfig {
                otlp_endpoint: None,
                headers_file: None,
                service_name: "crawlgate".to_owned(),
                sample: 0.01,
                logs: true,
            },
            store: StoreConfig {
                path: Some(store),
                synchronous: Synchronous::Full,
            },
            audit: AuditConfig {
                durability: Durability::Relaxed,
                keep: Some(days(90)),
                max_size: Some(10 * GIB),
                refusals_per_minute: None,
                checkpoint_every: secs(600),
                log_name: None,
                quorum: 1,
                collection: None,
                witnesses: Vec::new(),
            },
            ship: ShipConfig {
                to: None,
                every: secs(10),
                token_file: None,
            },
            fleet: FleetConfig {
                engine: None,
                sentinels: Vec::new(),
                master: None,
                tls: false,
                cert: None,
                key: None,
                user: None,
                password_file: None,
                key_file: None,
                name: None,
                prefix: "crawlgate".to_owned(),
                patience: secs(15),
                timeout: Duration::from_millis(250),
            },
            admin: AdminConfig {
                socket: Some(socket),
                address: Some(DEFAULT_ADMIN_ADDRESS),
                token_file: None,
                tls: None,
                users: Vec::new(),
                had_users: false,
                hosts: Vec::new(),
                connections: 256,
                public_try: None,
                public_try_per_minute: 20,
            },
            policy: PolicyConfig {
                mode: Mode::Enforce,
                report_origins: Vec::new(),
                report_clients: Vec::new(),
                purposes: Purposes::NONE,
                overrides: Vec::new(),
            },
            clients: Vec::new(),
            signing: Vec::new(),
            source: Source::BuiltIn,
        }
    }
}

impl Default for Config {
    /// Returns the defaults, with files in the places that this process's environment names.
    fn default() -> Self {
        Self::builtin(&Places::from_env())
    }
}

impl RobotsConfig {
    /// Returns these settings with the published rules of a profile.
    #[must_use]
    pub fn under(&self, name: ProfileName) -> Self {
        let mut config = self.clone();
        config.timing.profile = ProfileRules::of(name);
        config
    }
}
