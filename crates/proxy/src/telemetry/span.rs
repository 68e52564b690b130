//! The span of one exchange, and its trace.
//!
//! The span of an exchange is made at its end, from the facts of the recorder. It contains the decision and, if the
//! request was sent, a second span for the origin's part. The crawler's own `traceparent` (W3C Trace Context) is
//! its parent, and is passed to the origin as it came: crawlgate does not attach upstream services to its own spans.

use http::{HeaderMap, Method};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

use super::Exchange;
use crawlgate_system::clock::Tick;

/// A maker of spans.
#[derive(Clone, Debug)]
pub struct Tracer(SdkTracer);

/// The trace of an exchange.
#[derive(Debug)]
pub struct Trace {
    tracer: Tracer,
    parent: Context,
    /// Time when the request left for its origin.
    left: Option<Tick>,
    /// Time when the head of the origin's answer came.
    answered: Option<Tick>,
}

impl Tracer {
    pub(super) fn new(tracer: SdkTracer) -> Tracer {
        Tracer(tracer)
    }

    /// Returns the trace of a request with these fields.
    #[must_use]
    pub fn trace(&self, headers: &HeaderMap) -> Box<Trace> {
        let fields = HeaderExtractor(headers);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &fields);
        Box::new(Trace { tracer: self.clone(), parent, left: None, answered: None })
    }
}

impl Trace {
    /// Notes that the request leaves for its origin.
    pub fn request_sent(&mut self, now: Tick) {
        self.left = Some(now);
    }

    /// Notes that the head of the origin's answer has come.
    pub fn response_started(&mut self, now: Tick) {
        self.answered = Some(now);
    }

    /// Makes the spans of an exchange that has ended, if it is sampled.
    pub fn end(&self, exchange: &Exchange<'_>) {
        let tracer = &self.tracer.0;
        let method = exchange.method.and_then(known);
        let mut span = SpanBuilder::from_name(method.unwrap_or("HTTP"))
            .with_kind(SpanKind::Server)
            .with_start_time(exchange.began)
            .start_with_context(tracer, &self.parent);
        if !span.is_recording() {
            return;
        }
        span.set_attributes(attributes(exchange, method));
        if let Some(error) = exchange.error {
            span.set_status(Status::error(error));
        }
        let parent = self.parent.with_remote_span_context(span.span_context().clone());
        if let Some(left) = self.left {
            let mut origins = SpanBuilder::from_name("origin")
                .with_kind(SpanKind::Client)
                .with_start_time(left)
                .start_with_context(tracer, &parent);
            origins.end_with_timestamp(self.answered.unwrap_or(exchange.ended).into());
        }
        span.end_with_timestamp(exchange.ended.into());
    }
}

fn attributes(exchange: &Exchange<'_>, method: Option<&'static str>) -> Vec<KeyValue> {
    let mut attributes = vec![
        // The conventions' name for all other methods.
        KeyValue::new("http.request.method", method.unwrap_or("_OTHER")),
        KeyValue::new("crawlgate.decision.id", exchange.id.clone()),
        KeyValue::new("crawlgate.verdict", exchange.verdict),
        KeyValue::new("crawlgate.reason", exchange.reason),
        KeyValue::new("crawlgate.mode", exchange.mode),
        KeyValue::new("crawlgate.held", exchange.held),
    ];
    if let Some(origin) = exchange.origin {
        attributes.extend([
            KeyValue::new("url.scheme", origin.scheme().as_str()),
            KeyValue::new("server.address", origin.host().to_owned()),
            KeyValue::new("server.port", i64::from(origin.port())),
            KeyValue::new("url.path", exchange.path.to_owned()),
        ]);
    }
    if let Some(client) = exchange.client {
        attributes.push(KeyValue::new("crawlgate.client", client.to_owned()));
    }
    if let Some(status) = exchange.status {
        let status = i64::from(status);
        attributes.push(KeyValue::new("http.response.status_code", status));
    }
    if let Some(error) = exchange.error {
        attributes.push(KeyValue::new("error.type", error));
    }
    attributes
}

/// Returns the name of a known method: a crawler may make up others, and span names must be few.
fn known(method: &Method) -> Option<&'static str> {
    Some(match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => return None,
    })
}
