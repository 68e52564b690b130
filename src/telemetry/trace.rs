//! The span of one exchange, and its trace.
//!
//! The span of an exchange is made at its end, from the facts of the recorder. It contains the decision and, if the
//! request was sent, a span of its own for the origin's part. The crawler's own `traceparent` (W3C Trace Context) is
//! its parent, and goes on to the origin as it came: crawlgate does not attach upstream services to its own spans.

use std::time::SystemTime;

use http::{HeaderMap, Method};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

use crate::clock::Tick;
use crate::rep::Origin;

/// A maker of spans.
#[derive(Clone, Debug)]
pub struct Tracer(SdkTracer);

/// The trace of an exchange.
#[derive(Debug)]
pub struct Trace {
    tracer: Tracer,
    parent: Context,
    /// Time when the request left for its origin.
    pub left: Option<Tick>,
    /// Time when the head of the origin's answer came.
    pub answered: Option<Tick>,
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
    /// The request's method.
    pub method: &'a Method,
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

impl Tracer {
    pub(super) fn new(tracer: SdkTracer) -> Tracer {
        Tracer(tracer)
    }

    /// Returns the trace of a request with these fields.
    #[must_use]
    pub fn trace(&self, headers: &HeaderMap) -> Box<Trace> {
        let fields = HeaderExtractor(headers);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &fields);
        Box::new(Trace {
            tracer: self.clone(),
            parent,
            left: None,
            answered: None,
        })
    }
}

impl Trace {
    /// Makes the spans of an exchange that has ended, if it is sampled.
    pub fn end(&self, exchange: &Exchange<'_>) {
        let tracer = &self.tracer.0;
        let method = known(exchange.method);
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
        let parent = self
            .parent
            .with_remote_span_context(span.span_context().clone());
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

impl From<Tick> for SystemTime {
    fn from(tick: Tick) -> SystemTime {
        tick.system_time()
    }
}
