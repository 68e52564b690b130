//! Data for an OpenTelemetry collector: spans and messages, without secrets and without delay for requests.
//! Page: `docs/console.md`.

use rustix::process::Signal;

use crate::support::{Certificate, CrawlgateProcess, Origin, RULES, Reply, Setup, eventually};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn octets(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// Returns the fields of a protobuf message: each number, and the octets of fields with a length.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = message.split_first().unwrap();
            *message = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                let value = varint(&mut message);
                fields.push((key >> 3, value.to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)).unwrap(),
            5 => 4,
            kind => panic!("wire type {kind}"),
        };
        let (value, rest) = message.split_at(length);
        fields.push((key >> 3, value.to_vec()));
        message = rest;
    }
    fields
}

/// Returns the messages at the end of a path of field numbers.
fn inside(message: &[u8], path: &[u64]) -> Vec<Vec<u8>> {
    let Some((number, rest)) = path.split_first() else {
        return vec![message.to_vec()];
    };
    let fields = fields(message);
    let found = fields.into_iter().filter(|(found, _)| found == number);
    found.flat_map(|(_, value)| inside(&value, rest)).collect()
}

fn text(message: &[u8], path: &[u64]) -> Vec<String> {
    let texts = inside(message, path).into_iter();
    texts.map(|octets| String::from_utf8(octets).unwrap()).collect()
}

/// Returns a collector that accepts everything.
fn collector(origin: Origin) -> Origin {
    let take = || (0..50).map(|_| Reply::ok(""));
    origin.on("/v1/traces", take()).on("/v1/logs", take())
}

/// Returns the deliveries to a path, message by message.
fn delivered(collector: &Origin, path: &str) -> Vec<Vec<u8>> {
    let seen = collector.seen().into_iter();
    let there = seen.filter(|seen| seen.line() == format!("POST {path}"));
    there.map(|seen| seen.body).collect()
}

fn traced(collector: &Origin, configure: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    let endpoint = format!("\"{}\"", collector.url_as("127.0.0.1", "/"));
    CrawlgateProcess::with(|setup| {
        setup.set("telemetry", "otlp_endpoint", &endpoint);
        setup.set("telemetry", "sample", "1");
        configure(setup);
    })
}

/// Returns the delivered spans.
fn spans(collector: &Origin) -> Vec<Vec<u8>> {
    let batches = delivered(collector, "/v1/traces").into_iter();
    batches.flat_map(|batch| inside(&batch, &[1, 2, 2])).collect()
}

/// Returns the text of a span's attribute.
fn attribute(span: &[u8], name: &str) -> Option<String> {
    let mut attributes = inside(span, &[9]).into_iter();
    let found = attributes.find(|attribute| text(attribute, &[1]) == [name])?;
    text(&found, &[2, 1]).pop()
}

#[test]
fn an_exchange_is_a_span_under_the_crawlers_own_and_says_nothing_secret() {
    let collector = collector(Origin::http());
    let mut gate = traced(&collector, |setup| {
        setup.set("telemetry", "service_name", "\"gate-7\"");
        let fields = setup.dir().join("otlp.fields");
        std::fs::write(fields, "# to the collector\nX-Api-Key: of-ours\n").unwrap();
        setup.set("telemetry", "headers_file", "\"otlp.fields\"");
    });
    let origin = Origin::with_rules(RULES).on("/page?key=s3cret", [Reply::ok("a page")]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let fields = format!("traceparent: {parent}\r\nAuthorization: Bearer s3cret\r\n");
    gate.request("GET", &origin.url("/page?key=s3cret"), &fields).is_origins(200, "a page");
    gate.denies(&origin.url("/private/x?key=s3cret"));
    gate.record_of(&origin.url("/page?key=s3cret"));
    // The crawler of this request has decided not to trace it.
    let other = TRACE.replace('0', "f");
    let fields = format!("traceparent: 00-{other}-{PARENT}-00\r\n");
    gate.denied(&gate.request("GET", &origin.url("/private/x"), &fields));
    // Both sides of it, to the octet.
    let seen = origin.last("/page?key=s3cret");
    assert_eq!(seen.head.all("traceparent"), [parent]);
    gate.signal(Signal::TERM);
    assert!(gate.wait().success(), "{}", gate.said());

    let spans = spans(&collector);
    let named = |name: &str| -> Vec<&Vec<u8>> {
        spans.iter().filter(|span| text(span, &[5]) == [name]).collect()
    };
    let of = |reason: &str| {
        let mut spans = named("GET").into_iter();
        let found =
            spans.find(|span| attribute(span, "crawlgate.reason").as_deref() == Some(reason));
        found.unwrap_or_else(|| panic!("no span of {reason}"))
    };
    let allowed = of("robots_allow");
    assert_eq!(inside(allowed, &[1]), [octets(TRACE)], "the trace is the crawler's");
    assert_eq!(inside(allowed, &[4]), [octets(PARENT)], "and so is the parent");
    assert_eq!(attribute(allowed, "url.path").as_deref(), Some("/page"));
    assert_eq!(attribute(allowed, "crawlgate.verdict").as_deref(), Some("allow"));
    let other = [octets(&other)];
    assert!(spans.iter().all(|span| inside(span, &[1]) != other));
    let denied = of("robots_disallow");
    assert_ne!(inside(denied, &[1]), [octets(TRACE)]);
    assert_eq!(attribute(denied, "url.path").as_deref(), Some("/private/x"));
    // The origin's part is a child of the exchange; a denied request has none.
    let [origins] = named("origin")[..] else { panic!("{} spans", spans.len()) };
    assert_eq!(inside(origins, &[4]), inside(allowed, &[2]));
    assert_eq!(inside(origins, &[1]), [octets(TRACE)]);

    let all = collector.seen();
    assert!(all.iter().all(|seen| seen.head.field("x-api-key").as_deref() == Some("of-ours")));
    for seen in &all {
        let secret = b"s3cret";
        assert!(!seen.body.windows(secret.len()).any(|window| window == secret));
    }
    let resources = delivered(&collector, "/v1/traces");
    let names: Vec<String> =
        resources.iter().flat_map(|batch| text(batch, &[1, 1, 1, 2, 1])).collect();
    assert!(names.contains(&"gate-7".to_owned()), "{names:?}");
    let logs = delivered(&collector, "/v1/logs");
    let messages: Vec<String> =
        logs.iter().flat_map(|batch| text(batch, &[1, 2, 2, 5, 1])).collect();
    assert!(messages.iter().any(|message| message.contains("listening on")), "{messages:?}");
}

#[test]
fn a_collector_over_tls_is_verified() {
    for (certificate, is_trusted) in [
        (Certificate::Trusted, true),
        (Certificate::Untrusted, false),
        (Certificate::Expired, false),
    ] {
        let collector = collector(Origin::https_with(certificate));
        let mut gate = traced(&collector, |_| ());
        let origin = Origin::with_rules(RULES);
        gate.denies(&origin.url("/private/x"));
        gate.signal(Signal::TERM);
        assert!(gate.wait().success(), "{}", gate.said());
        assert_eq!(spans(&collector).len(), usize::from(is_trusted), "{certificate:?}");
        let is_said = gate.said().contains("traces cannot be delivered");
        assert_eq!(is_said, !is_trusted, "{}", gate.said());
    }
}

#[test]
fn a_sampling_share_of_zero_traces_nothing_and_messages_can_stay() {
    let collector = collector(Origin::http());
    let mut gate = traced(&collector, |setup| {
        setup.set("telemetry", "sample", "0");
        setup.set("telemetry", "logs", "false");
    });
    let origin = Origin::with_rules(RULES).on("/page", [Reply::ok("a page")]);
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    gate.request("GET", &origin.url("/page"), &fields).is_origins(200, "a page");
    gate.signal(Signal::TERM);
    assert!(gate.wait().success());
    assert_eq!(collector.connections(), 0);
}

#[test]
fn an_unreachable_collector_costs_no_request_and_is_reported_once() {
    // A port without a listener.
    let gone = Origin::http();
    gone.stop();
    let mut gate = traced(&gone, |_| ());
    let origin = Origin::with_rules(RULES).on("/page", (0..20).map(|_| Reply::ok("a page")));
    for _ in 0..20 {
        gate.get(&origin.url("/page")).is_origins(200, "a page");
    }
    gate.wait_said("cannot be delivered");
    gate.wait_said("refused");
    gate.signal(Signal::TERM);
    assert!(gate.wait().success(), "{}", gate.said());
    let said = gate.said();
    for what in ["traces cannot be delivered", "messages cannot be delivered"] {
        assert!(said.matches(what).count() <= 1, "{said}");
    }
}

#[test]
fn messages_are_json_if_configured() {
    let gate = CrawlgateProcess::with(|setup| setup.set("log", "format", "\"json\""));
    let line = eventually("a line", || {
        let said = gate.said();
        let line = said.lines().find(|line| line.contains("listening on"))?;
        Some(line.to_owned())
    });
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "INFO", "{line}");
    assert!(line["message"].as_str().unwrap().starts_with("listening on"), "{line}");
    assert!(line["timestamp"].is_string(), "{line}");
    let said = gate.said();
    for line in said.lines() {
        serde_json::from_str::<serde_json::Value>(line)
            .unwrap_or_else(|why| panic!("{why}: {line}"));
    }
}

#[test]
fn an_invalid_file_of_headers_is_reported_at_once() {
    let mut setup = Setup::new();
    setup.set("telemetry", "otlp_endpoint", "\"http://127.0.0.1:4318\"");
    setup.set("telemetry", "headers_file", "\"otlp.fields\"");
    let fields = setup.dir().join("otlp.fields");
    for (content, why) in [(None, "No such file"), (Some("just-a-key\n"), "line 1 is not a field")]
    {
        if let Some(content) = content {
            std::fs::write(&fields, content).unwrap();
        }
        let output = setup.command("serve").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        says!(said, "[telemetry] headers_file = ", why);
        assert!(!said.contains("just-a-key"), "{said}");
    }
}
