//! The way to an OpenTelemetry collector: OTLP over HTTP, protobuf (OTLP 1.x, `/v1/traces` and `/v1/logs`).
//!
//! Two threads of the SDK gather the data, each behind a queue of a fixed length; data without room is dropped.
//! crawlgate reports once that the collector cannot be reached, and once that it can be again.

use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, Protocol, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchLogProcessor, LogBatch, LogExporter as ExportsLogs, SdkLogger, SdkLoggerProvider,
};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter as ExportsSpans,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::context::TokioContext;
use tracing::{info, warn};

use super::TelemetryError;
use super::span::Tracer;
use crawlgate_config::{Config, TelemetryConfig};
use crawlgate_egress as egress;
use crawlgate_text::causes;

/// Maximum time of one delivery.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time of the last deliveries at the end of the process.
const LAST_DELIVERY_TIMEOUT: Duration = Duration::from_secs(3);

/// The name of the instrumentation scope.
const SCOPE: &str = "crawlgate";

/// The connection to a collector.
#[derive(Debug)]
pub(super) struct Otlp {
    /// `None` if exchanges are not traced.
    spans: Option<SdkTracerProvider>,
    /// `None` if messages are not sent.
    messages: Option<SdkLoggerProvider>,
}

/// Returns the fault of the file of fields, if one is configured.
pub(super) fn fault_of(_: &str, config: &TelemetryConfig) -> Option<TelemetryError> {
    read_headers(config.headers_file.as_ref()?).err()
}

type Messages = OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>;

impl Otlp {
    /// Connects to the collector at `endpoint`, by way of `runtime`.
    pub(super) fn new(
        endpoint: &str,
        config: &Config,
        runtime: &Handle,
    ) -> Result<Otlp, TelemetryError> {
        let settings = &config.telemetry;
        let headers = match &settings.headers_file {
            Some(path) => read_headers(path)?,
            None => HashMap::new(),
        };
        let tls = egress::tls_config(&config.tls.extra_roots)?;
        let client = HyperClient::new(
            HttpsConnectorBuilder::new()
                .with_tls_config(tls)
                .https_or_http()
                .enable_http1()
                .build(),
            TIMEOUT,
            None,
        );
        let factory = ExporterFactory {
            endpoint,
            headers,
            client,
            runtime,
            resource: Resource::builder()
                .with_service_name(settings.service_name.clone())
                .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
                .build(),
        };
        let failed = |error| TelemetryError::Exporter { endpoint: endpoint.to_owned(), error };
        let spans = (settings.sample > 0.0).then(|| factory.spans(settings.sample));
        let messages = settings.logs.then(|| factory.messages());
        Ok(Otlp {
            spans: spans.transpose().map_err(failed)?,
            messages: messages.transpose().map_err(failed)?,
        })
    }

    pub(super) fn tracer(&self) -> Option<Tracer> {
        let provider = self.spans.as_ref()?;
        Some(Tracer::new(provider.tracer(SCOPE)))
    }

    /// Returns the layer that takes the program's messages.
    pub(super) fn messages(&self) -> Option<Messages> {
        self.messages.as_ref().map(OpenTelemetryTracingBridge::new)
    }

    /// Sends the rest.
    pub(super) fn end(self) {
        // The exporter reports a failure itself.
        if let Some(spans) = self.spans {
            let _ = spans.shutdown_with_timeout(LAST_DELIVERY_TIMEOUT);
        }
        if let Some(messages) = self.messages {
            let _ = messages.shutdown_with_timeout(LAST_DELIVERY_TIMEOUT);
        }
    }
}

/// The common settings of both signals' exporters.
struct ExporterFactory<'a> {
    endpoint: &'a str,
    headers: HashMap<String, String>,
    client: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: &'a Handle,
    resource: Resource,
}

impl ExporterFactory<'_> {
    /// Makes the exporter of spans. The sampler takes `share` of the exchanges without a crawler's decision on
    /// sampling.
    fn spans(&self, share: f64) -> Result<SdkTracerProvider, ExporterBuildError> {
        let (client, on_runtime) = self.on_runtime("traces");
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", self.endpoint))
            .with_headers(self.headers.clone())
            .with_timeout(TIMEOUT)
            .build()?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share)));
        let gathers = BatchSpanProcessor::builder(on_runtime.with(exporter)).build();
        Ok(SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_resource(self.resource.clone())
            .with_span_processor(gathers)
            .build())
    }

    fn messages(&self) -> Result<SdkLoggerProvider, ExporterBuildError> {
        let (client, on_runtime) = self.on_runtime("messages");
        let exporter = LogExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/logs", self.endpoint))
            .with_headers(self.headers.clone())
            .with_timeout(TIMEOUT)
            .build()?;
        let gathers = BatchLogProcessor::builder(on_runtime.with(exporter)).build();
        Ok(SdkLoggerProvider::builder()
            .with_resource(self.resource.clone())
            .with_log_processor(gathers)
            .build())
    }

    /// Returns a client for one signal, and the shell of its exporter.
    fn on_runtime(&self, what: &'static str) -> (Client, OnRuntime<()>) {
        let client = Client { inner: self.client.clone(), last_failure: Arc::default() };
        let last_failure = Arc::clone(&client.last_failure);
        let on_runtime = OnRuntime::to(self.endpoint, what, self.runtime, last_failure);
        (client, on_runtime)
    }
}

/// The last failure on the way to the collector: the exporter's own error does not name the cause.
type LastFailure = Arc<Mutex<Option<String>>>;

/// A client that remembers its last failure.
#[derive(Clone, Debug)]
struct Client {
    inner: HyperClient<HttpsConnector<HttpConnector>>,
    last_failure: LastFailure,
}

impl HttpClient for Client {
    // As the macro of the trait's own crate would write it.
    fn send_bytes<'this, 'sent>(
        &'this self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'this: 'sent,
        Self: 'sent,
    {
        Box::pin(async move {
            let result = self.inner.send_bytes(request).await;
            *self.last_failure.lock() = match &result {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => Some(format!("it answers {}", response.status())),
                Err(error) => Some(causes(&**error)),
            };
            result
        })
    }
}

/// An exporter that runs on our runtime, because it needs its sockets and timers, although a thread of the SDK waits
/// for it. It reports the start and the end of failures.
#[derive(Debug)]
struct OnRuntime<E> {
    exporter: E,
    endpoint: Arc<str>,
    what: &'static str,
    runtime: Handle,
    last_failure: LastFailure,
    fails: AtomicBool,
}

impl OnRuntime<()> {
    fn to(
        endpoint: &str,
        what: &'static str,
        runtime: &Handle,
        last_failure: LastFailure,
    ) -> OnRuntime<()> {
        OnRuntime {
            exporter: (),
            endpoint: endpoint.into(),
            what,
            runtime: runtime.clone(),
            last_failure,
            fails: AtomicBool::new(false),
        }
    }

    fn with<E>(self, exporter: E) -> OnRuntime<E> {
        OnRuntime {
            exporter,
            endpoint: self.endpoint,
            what: self.what,
            runtime: self.runtime,
            last_failure: self.last_failure,
            fails: self.fails,
        }
    }
}

impl<E> OnRuntime<E> {
    async fn deliver(&self, delivery: impl Future<Output = OTelSdkResult>) -> OTelSdkResult {
        let result = TokioContext::new(delivery, self.runtime.clone()).await;
        let (endpoint, what) = (&*self.endpoint, self.what);
        match (&result, self.fails.swap(result.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                let last_failure = self.last_failure.lock().take();
                let why = last_failure.unwrap_or_else(|| error.to_string());
                warn!(
                    endpoint,
                    "{what} cannot be delivered, and are dropped until they can: {why}"
                );
            }
            (Ok(()), true) => info!(endpoint, "{what} are delivered again"),
            _ => {}
        }
        result
    }
}

impl ExportsSpans for OnRuntime<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.deliver(self.exporter.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl ExportsLogs for OnRuntime<LogExporter> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        self.deliver(self.exporter.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Reads the fields that each delivery carries: one `name: value` on a line.
pub(super) fn read_headers(path: &Path) -> Result<HashMap<String, String>, TelemetryError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| TelemetryError::HeadersFile { path: path.to_owned(), error })?;
    parse_headers(&text).map_err(|line| TelemetryError::HeadersLine { path: path.to_owned(), line })
}

/// Parses the fields; returns the number of the first malformed line otherwise.
fn parse_headers(text: &str) -> Result<HashMap<String, String>, usize> {
    let mut headers = HashMap::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or(number)?;
        let (name, value) = (name.trim(), value.trim());
        HeaderName::try_from(name).map_err(|_| number)?;
        HeaderValue::try_from(value).map_err(|_| number)?;
        headers.insert(name.to_owned(), value.to_owned());
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_headers_has_one_on_each_line() {
        type Fields<'a> = &'a [(&'a str, &'a str)];
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, Result<Fields<'_>, usize>)] = &[
            ("two", "a: 1\nb-c:2\n", Ok(&[("a", "1"), ("b-c", "2")])),
            ("colons in a value", "authorization: Basic a:b=\n", Ok(&[("authorization", "Basic a:b=")])),
            ("comments and empty lines", "# of ours\n\na: 1\n", Ok(&[("a", "1")])),
            ("nothing", "", Ok(&[])),
            ("no colon", "a: 1\nsecret\n", Err(2)),
            ("a name that is none", "a b: 1\n", Err(1)),
            ("a value that is none", "a: \u{7}\n", Err(1)),
        ];
        for (name, text, expected) in cases {
            let expected = expected.map(|fields| {
                let owned =
                    |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                fields.iter().map(owned).collect::<HashMap<_, _>>()
            });
            assert_eq!(parse_headers(text), expected, "{name}");
        }
    }
}
