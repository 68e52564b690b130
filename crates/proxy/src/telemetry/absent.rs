//! Stand-ins for OpenTelemetry in a build without it: types without values, so that nothing can be traced or sent.

use http::HeaderMap;
use tokio::runtime::Handle;
use tracing_subscriber::layer::Identity;

use super::{Exchange, TelemetryError};
use crawlgate_config::{Config, TelemetryConfig};
use crawlgate_system::clock::Tick;

/// The connection to a collector, which this build never has.
#[derive(Debug)]
pub(super) enum Otlp {}

/// A maker of spans, which this build never has.
#[derive(Clone, Debug)]
pub enum Tracer {}

/// The trace of an exchange, which this build never has.
#[derive(Debug)]
pub enum Trace {}

/// Returns the fault of a configured endpoint: it needs another build.
pub(super) fn fault_of(endpoint: &str, _: &TelemetryConfig) -> Option<TelemetryError> {
    Some(absent(endpoint))
}

fn absent(endpoint: &str) -> TelemetryError {
    TelemetryError::Absent { endpoint: endpoint.to_owned() }
}

impl Otlp {
    /// Fails, because this build has no OpenTelemetry.
    pub(super) fn new(endpoint: &str, _: &Config, _: &Handle) -> Result<Otlp, TelemetryError> {
        Err(absent(endpoint))
    }

    pub(super) fn tracer(&self) -> Option<Tracer> {
        match *self {}
    }

    pub(super) fn messages(&self) -> Option<Identity> {
        match *self {}
    }

    pub(super) fn end(self) {
        match self {}
    }
}

impl Tracer {
    /// Returns the trace of a request with these fields.
    #[must_use]
    pub fn trace(&self, _: &HeaderMap) -> Box<Trace> {
        match *self {}
    }
}

impl Trace {
    /// Notes that the request leaves for its origin.
    pub fn request_sent(&mut self, _: Tick) {
        match *self {}
    }

    /// Notes that the head of the origin's answer has come.
    pub fn response_started(&mut self, _: Tick) {
        match *self {}
    }

    /// Makes the spans of an exchange that has ended.
    pub fn end(&self, _: &Exchange<'_>) {
        match *self {}
    }
}
