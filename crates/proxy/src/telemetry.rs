//! Messages on standard error, and messages and traces to an OpenTelemetry collector.
//!
//! None of it is the decision log, and none of it decides anything: a collector that is away, slow or full costs
//! messages and traces, never a request. Data goes to a collector only if `[telemetry] otlp_endpoint` names it; without
//! tracing, an exchange pays one load. A queue bounds the data, which carries neither queries nor credentials. The
//! collector is the operator's own, so crawlgate reaches it directly, not as an origin.
//!
//! The libraries take long to build, so they are part of the feature `telemetry`, which packages have. Without it a
//! configured collector is an error.
//!
//! - `otlp`: the way to the collector, and messages about its failures
//! - `span`: the span of an exchange
//! - `absent`: what stands for `otlp` and `span` in a build without the feature

#[cfg(not(feature = "telemetry"))]
mod absent;
#[cfg(feature = "telemetry")]
mod otlp;
#[cfg(feature = "telemetry")]
mod span;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use http::Method;
#[cfg(feature = "telemetry")]
use opentelemetry_otlp::ExporterBuildError;
use thiserror::Error;
use tokio::runtime::Handle;
use tracing_subscriber::filter::{self, ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Registry, fmt, reload};

#[cfg(not(feature = "telemetry"))]
use self::absent::{Otlp, fault_of};
#[cfg(not(feature = "telemetry"))]
pub use self::absent::{Trace, Tracer};
#[cfg(feature = "telemetry")]
use self::otlp::{Otlp, fault_of};
#[cfg(feature = "telemetry")]
pub use self::span::{Trace, Tracer};
use crawlgate_config::{Config, LogFormat, TelemetryConfig};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Tick;
use crawlgate_trust::TrustError;

/// True if this build can send traces and messages over OTLP.
pub const IS_COMPILED: bool = cfg!(feature = "telemetry");

/// Returns the fault of the configured endpoint or of its file of fields.
#[must_use]
pub fn fault(config: &TelemetryConfig) -> Option<TelemetryError> {
    fault_of(config.otlp_endpoint.as_ref()?, config)
}

/// The started parts, until they [end](Telemetry::end).
pub struct Telemetry {
    /// Changes the filter of messages.
    pub level: LevelHandle,
    otlp: Option<Otlp>,
}

impl Telemetry {
    /// Sends messages to standard error, those from `level` on, and to the collector that `config` names, if any, by
    /// way of `runtime`.
    ///
    /// # Errors
    /// When `level` is not a filter, or the way to the collector cannot be made. A missing collector shows only later.
    pub fn start(
        config: &Config,
        level: &str,
        runtime: &Handle,
    ) -> Result<Telemetry, TelemetryError> {
        let otlp = match &config.telemetry.otlp_endpoint {
            Some(endpoint) => Some(Otlp::new(endpoint, config, runtime)?),
            None => None,
        };
        let level = subscribe(level, config.log.format, otlp.as_ref())?;
        Ok(Telemetry { level, otlp })
    }

    /// Returns the tracer of exchanges, if tracing is on.
    #[must_use]
    pub fn tracer(&self) -> Option<Tracer> {
        self.otlp.as_ref().and_then(Otlp::tracer)
    }

    /// Sends the rest within a time limit. Blocks, and needs the running runtime, so call it from outside the runtime.
    pub fn end(self) {
        if let Some(otlp) = self.otlp {
            otlp.end();
        }
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("otlp", &self.otlp).finish_non_exhaustive()
    }
}

/// Sends the program's own messages to standard error, as text. The filter can be changed later.
///
/// # Errors
/// When `level` is not a filter.
pub fn tell_on_stderr(level: &str) -> Result<LevelHandle, TelemetryError> {
    subscribe(level, LogFormat::Text, None)
}

fn subscribe(
    level: &str,
    format: LogFormat,
    otlp: Option<&Otlp>,
) -> Result<LevelHandle, TelemetryError> {
    let filter: Targets = level.parse().map_err(TelemetryError::Level)?;
    let (filter, handle) = reload::Layer::new(filter);
    let output = fmt::layer().with_writer(io::stderr).with_target(false);
    let output = match format {
        LogFormat::Text => output.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => output.json().flatten_event(true).boxed(),
    };
    // Only ours: the exporter would also send its own messages, and those would cause further ones.
    let ours = filter::filter_fn(|metadata| metadata.target().starts_with("crawlgate"));
    let sent = otlp.and_then(Otlp::messages);
    Registry::default()
        .with(filter)
        .with(output)
        .with(sent.map(|sent| sent.with_filter(ours)))
        .try_init()?;
    Ok(LevelHandle(Box::new(move |level| Ok(handle.reload(level.parse::<Targets>()?)?))))
}

/// Changes the filter of the program's own messages.
pub struct LevelHandle(Box<SetLevel>);

type SetLevel = dyn Fn(&str) -> Result<(), LevelError> + Send + Sync;

impl LevelHandle {
    /// Lets messages from `level` on pass from now on.
    ///
    /// # Errors
    /// When `level` is not a filter. The old filter then stays.
    pub fn set(&self, level: &str) -> Result<(), LevelError> {
        (self.0)(level)
    }
}

impl std::fmt::Debug for LevelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LevelHandle")
    }
}

/// The facts of an exchange for its span. Foreign text in it is bounded by the size of a request.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// Start of the exchange.
    pub began: Tick,
    /// End of the exchange.
    pub ended: Tick,
    /// The decision's identifier.
    pub id: String,
    /// The request's method; `None` if it sent none that can be read.
    pub method: Option<&'a Method>,
    /// The requested origin, if the target was readable.
    pub origin: Option<&'a Origin>,
    /// The path, without the query.
    pub path: &'a str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code.
    pub reason: &'static str,
    /// `enforce` or `report`.
    pub mode: &'static str,
    /// The client's name, if it has one.
    pub client: Option<&'a str>,
    /// Time for which the request was held, in seconds.
    pub held: f64,
    /// The status of the answer to the crawler.
    pub status: Option<u16>,
    /// The failure.
    pub error: Option<&'static str>,
}

/// A failure to start messages or traces.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The level of messages is not a filter.
    #[error("[log] level: {0}")]
    Level(ParseError),
    /// Messages go somewhere else already.
    #[error(transparent)]
    Started(#[from] TryInitError),
    /// The file of fields cannot be read.
    #[error("[telemetry] headers_file = {}: {error}", path.display())]
    HeadersFile {
        /// The file.
        path: PathBuf,
        /// The failure.
        error: io::Error,
    },
    /// A line of the file of fields is no field.
    #[error(
        "[telemetry] headers_file = {}: expected one field on each line, \"name: value\"; line {line} is not a field",
        path.display()
    )]
    HeadersLine {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
    },
    /// The trusted authorities for the way to the collector cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// This build has no OpenTelemetry.
    #[cfg(not(feature = "telemetry"))]
    #[error(
        "[telemetry] otlp_endpoint = {endpoint:?}: this crawlgate is built without OpenTelemetry; take one from a package, \
         or build it with `--features telemetry`"
    )]
    Absent {
        /// The collector.
        endpoint: String,
    },
    /// The exporter cannot be made.
    #[cfg(feature = "telemetry")]
    #[error("[telemetry] otlp_endpoint = {endpoint:?}: {error}")]
    Exporter {
        /// The collector.
        endpoint: String,
        /// The failure.
        error: ExporterBuildError,
    },
}

/// A level of messages that cannot be set.
#[derive(Debug, Error)]
pub enum LevelError {
    /// The level is not a filter.
    #[error(transparent)]
    Filter(#[from] ParseError),
    /// No messages are written any more.
    #[error(transparent)]
    Over(#[from] reload::Error),
}
