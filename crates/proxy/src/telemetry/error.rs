//! Failures to start messages and traces.

use std::io;
use std::path::PathBuf;

#[cfg(feature = "telemetry")]
use opentelemetry_otlp::ExporterBuildError;
use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload;
use tracing_subscriber::util::TryInitError;

use crawlgate_trust::TrustError;

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
