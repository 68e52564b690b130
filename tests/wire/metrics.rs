//! `GET /metrics`: the counts match the traffic, other programs' parsers accept the formats, and the dashboard and the
//! alerts in `docs/` use existing names. Page: `docs/console.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::support::peer::python_with;
use crate::support::witness::Witness;
use crate::support::{
    CrawlgateProcess, Engine, Origin, RULES, Reply, Response, Wire, program, wait_until,
};

/// Starts a gate with an admin listener.
fn watched(configure: impl FnOnce(&mut crate::support::Setup)) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("admin", "address", "\"127.0.0.1:0\"");
        configure(setup);
    })
}

/// Requests the metrics from its admin listener.
fn scrape(gate: &CrawlgateProcess, accept: &str) -> Response {
    let said = gate.said();
    let (_, rest) = said.split_once("console: http://").unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let mut wire = Wire::connect(address);
    wire.exchange(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}\r\n"))
}

/// The value of each sample.
type Samples = BTreeMap<String, f64>;

/// Reads Prometheus text 0.0.4, strictly: each family has its HELP and TYPE once and in that order, before its samples,
/// and no sample occurs twice or apart from its family.
#[track_caller]
fn read(text: &str) -> Samples {
    let (mut samples, mut families) = (Samples::new(), BTreeSet::new());
    let (mut helped, mut family, mut kind) = ("", "", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split_once(' ').expect(line).0;
            assert!(families.insert(helped), "twice: {line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').expect(line);
            assert_eq!(family, helped, "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let name = series.split('{').next().unwrap();
            let suffixes: &[&str] = match kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let suffix = name.strip_prefix(family).expect(line);
            assert!(suffixes.contains(&suffix), "{line}");
            assert!(!line.contains('#'), "{line}");
            let value = value.parse().expect(line);
            assert!(samples.insert(series.to_owned(), value).is_none(), "{line}");
        }
    }
    samples
}

#[track_caller]
fn samples(gate: &CrawlgateProcess) -> Samples {
    let response = scrape(gate, "");
    assert_eq!(response.status, 200, "{}", response.text());
    response.field_is("content-type", Some("text/plain; version=0.0.4; charset=utf-8"));
    read(&response.text())
}

/// Waits until a series has a value.
#[track_caller]
pub(crate) fn wait(gate: &CrawlgateProcess, series: &str, value: f64) {
    wait_until(&format!("{series} to be {value}"), || samples(gate).get(series) == Some(&value));
}

/// Waits until a series has this value or a higher one.
#[track_caller]
pub(crate) fn wait_least(gate: &CrawlgateProcess, series: &str, value: f64) {
    wait_until(&format!("{series} to be {value} or more"), || {
        samples(gate).get(series).is_some_and(|found| *found >= value)
    });
}

fn decisions(verdict: &str, reason: &str) -> String {
    format!(
        "crawlgate_decisions_total{{verdict=\"{verdict}\",reason=\"{reason}\",mode=\"enforce\"}}"
    )
}

/// Sends some traffic of each kind.
fn busy() -> (CrawlgateProcess, Origin, Origin) {
    let witness = Witness::start("witness.test/w1");
    let gate = watched(|setup| {
        // An identity has its series before its first request.
        let (_, identity) = super::signed::verify::identity(setup, "news", "");
        setup.tables(&(witness.section("notary") + &identity));
        let there = setup.dir().join("there");
        std::fs::create_dir(&there).unwrap();
        setup.set("ship", "to", &format!("{there:?}"));
    });
    let http = Origin::with_rules(RULES).on("/page", [Reply::ok("twelve bytes")]);
    let https = Origin::https().robots(RULES).on("/page", [Reply::ok("x")]);
    gate.get(&http.url("/page")).is_origins(200, "twelve bytes");
    gate.denies(&http.url("/private/x"));
    gate.get(&https.url_as("site.test", "/page")).is_origins(200, "x");
    (gate, http, https)
}

#[test]
fn the_counts_match_the_traffic() {
    let (gate, _http, _https) = busy();
    wait(&gate, &decisions("allow", "robots_allow"), 2.0);
    let samples = samples(&gate);
    let denied = gate.get("http://site.test:1/robots.txt").text().len();
    assert!(denied > 0);
    #[rustfmt::skip] // one row, one case
    let cases = [
        (decisions("deny", "robots_disallow"), 1.0),
        (decisions("deny", "path_guard"), 0.0),
        ("crawlgate_robots_fetches_total{result=\"successful\"}".to_owned(), 2.0),
        ("crawlgate_robots_fetches_total{result=\"unreachable\"}".to_owned(), 0.0),
        ("crawlgate_robots_fetch_duration_seconds_count".to_owned(), 2.0),
        ("crawlgate_origins{state=\"successful\"}".to_owned(), 2.0),
        ("crawlgate_origins{state=\"never_fetched\"}".to_owned(), 0.0),
        // An allowed page goes out, a denied one does not; a robots.txt is not a page.
        ("crawlgate_added_latency_seconds_count".to_owned(), 2.0),
        ("crawlgate_held_requests".to_owned(), 0.0),
        ("crawlgate_downstream_handshakes_total{result=\"done\"}".to_owned(), 1.0),
        ("crawlgate_upstream_handshakes_total{result=\"done\"}".to_owned(), 2.0),
        ("crawlgate_upstream_handshakes_total{result=\"distrusted\"}".to_owned(), 0.0),
        ("crawlgate_leaves_minted_total".to_owned(), 1.0),
        (
            "crawlgate_upstream_connections_opened_total{version=\"1.1\"}".to_owned(),
            4.0,
        ),
        ("crawlgate_store_failing".to_owned(), 0.0),
        ("crawlgate_records_lost_total".to_owned(), 0.0),
        ("crawlgate_ready".to_owned(), 1.0),
        ("crawlgate_bytes_total{direction=\"upstream\"}".to_owned(), 0.0),
    ];
    for (series, value) in cases {
        assert_eq!(samples.get(&series), Some(&value), "{series}");
    }
    // Requests were held for two files, and perhaps for other reasons.
    assert!(samples["crawlgate_hold_seconds_count"] >= 2.0);
    assert!(samples["crawlgate_hold_seconds_sum"] > 0.0);
    assert!(samples["crawlgate_bytes_total{direction=\"downstream\"}"] > 13.0);
    assert!(samples["crawlgate_store_write_duration_seconds_count"] >= 1.0);
    // A busy machine adds latency, too.
    assert!(samples["crawlgate_added_latency_seconds_sum"] < 20.0);
    assert!(samples["crawlgate_cache_bytes"] > 0.0);
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["process_open_fds"] > 3.0);
    assert!(samples["crawlgate_ca_not_after_seconds"] > samples["process_start_time_seconds"]);
}

#[test]
fn the_build_is_a_sample() {
    let gate = watched(|_| ());
    let samples = samples(&gate);
    let builds: Vec<&String> =
        samples.keys().filter(|series| series.starts_with("crawlgate_build_info{")).collect();
    let [build] = builds[..] else {
        panic!("{builds:?}");
    };
    let output = Command::new(program()).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    for fact in version.lines().take(4) {
        let (name, value) = fact.split_once(": ").unwrap_or(("version", &fact[10..]));
        says!(build, &format!("{name}=\"{value}\""));
    }
    assert_eq!(samples[build], 1.0);
}

#[test]
fn open_connections_are_counted_until_they_close() {
    let gate = watched(|_| ());
    let origin = Origin::with_rules(RULES).on("/page", [Reply::ok("a page")]);
    let mut wire = gate.connect();
    wire.get(&origin.url("/page")).is_origins(200, "a page");
    wait(&gate, "crawlgate_downstream_connections", 1.0);
    wait(&gate, "crawlgate_upstream_connections{state=\"idle\"}", 1.0);
    wait(&gate, "crawlgate_upstream_connections{state=\"busy\"}", 0.0);
    drop(wire);
    wait(&gate, "crawlgate_downstream_connections", 0.0);
    drop(origin);
    wait(&gate, "crawlgate_upstream_connections{state=\"busy\"}", 0.0);
}

#[test]
fn a_request_is_held_while_its_robots_txt_is_fetched_and_that_is_not_added_latency() {
    let latch = crate::support::Latch::new();
    let gate = watched(|_| ());
    let slow = Reply::silent().wait(&latch).send("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    let origin = Origin::http().on("/robots.txt", [slow]).on("/page", [Reply::ok("a page")]);
    let mut wire = gate.sends("GET", &origin.url("/page"), "\r\n");
    latch.arrivals(1);
    wait(&gate, "crawlgate_held_requests", 1.0);
    // A hold that differs clearly from every other delay, on a busy machine as well.
    std::thread::sleep(std::time::Duration::from_secs(2));
    latch.open();
    wire.response("GET").is_origins(200, "a page");
    wait(&gate, "crawlgate_held_requests", 0.0);
    let samples = samples(&gate);
    assert!(samples["crawlgate_hold_seconds_sum"] >= 2.0);
    assert_eq!(samples["crawlgate_added_latency_seconds_count"], 1.0);
    assert!(
        samples["crawlgate_added_latency_seconds_sum"] < 1.9,
        "{}",
        samples["crawlgate_added_latency_seconds_sum"]
    );
}

#[test]
fn no_series_comes_from_input_of_clients() {
    let gate = watched(|_| ());
    let before: Vec<String> = samples(&gate).into_keys().collect();
    for number in 0..20 {
        gate.get(&format!("http://stranger{number}.test/{number}"));
        gate.request("ODD", &format!("http://site.test:1/{number}"), "X: y\r\n");
    }
    let after: Vec<String> = samples(&gate).into_keys().collect();
    assert_eq!(before, after);
}

#[test]
fn the_format_is_the_requested_one() {
    let (gate, _http, _https) = busy();
    let open = scrape(&gate, "Accept: application/openmetrics-text;version=1.0.0\r\n");
    open.field_is(
        "content-type",
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    );
    assert!(open.text().ends_with("# EOF\n"));
    let accept = "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited\r\n";
    let protobuf = scrape(&gate, accept);
    let content_type = protobuf.field("content-type").unwrap();
    assert!(content_type.starts_with("application/vnd.google.protobuf"));
    let found =
        |name: &str| protobuf.body.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(found("crawlgate_added_latency_seconds"));
}

/// Returns the metric names in a text: words in the form of our names or those of the process.
fn names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.starts_with("crawlgate_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_and_the_alerts_know_only_what_is_counted() {
    let (gate, _http, _https) = busy();
    let mut labelled: BTreeSet<String> = samples(&gate).into_keys().collect();
    let engine = Engine::start();
    if let Some(engine) = &engine {
        let link = engine.link();
        let member = watched(|setup| super::fleet::member(setup, &link, "a1"));
        labelled.extend(samples(&member).into_keys());
    }
    let shown: BTreeSet<String> =
        labelled.iter().map(|series| series.split('{').next().unwrap().to_owned()).collect();
    let root = env!("CARGO_MANIFEST_DIR");
    for file in ["docs/grafana-dashboard.json", "docs/alerts.yml"] {
        let text = std::fs::read_to_string(format!("{root}/{file}")).unwrap();
        let mut used = names(&text);
        // Without an engine, no instance of a fleet counts.
        used.retain(|name| engine.is_some() || !name.starts_with("crawlgate_fleet_"));
        assert!(used.len() > 5, "{file}: {used:?}");
        for name in &used {
            assert!(shown.contains(name), "{file} asks for {name}, which no series has");
        }
        // Label values in queries exist, too: crawlgate_x{label="value"}.
        for word in text.split("crawlgate_").skip(1) {
            let Some((_, rest)) = word.split_once('{') else {
                continue;
            };
            let Some((selectors, _)) = rest.split_once('}') else {
                continue;
            };
            for selector in selectors.replace('\\', "").split(',') {
                let Some((label, values)) = selector.split_once(['=', '!']) else {
                    continue;
                };
                for value in values.trim_matches(['=', '~', '"']).split('|') {
                    let wanted = format!("{label}=\"{value}\"");
                    let is_target = ["job", "instance"].contains(&label);
                    assert!(
                        is_target || labelled.iter().any(|series| series.contains(&wanted)),
                        "{file} asks for {wanted}, which there is not"
                    );
                }
            }
        }
    }
    let dashboard = std::fs::read(format!("{root}/docs/grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).unwrap();
    // The dashboard shows every metric of decisions, time and failures.
    let text = dashboard.to_string();
    for name in shown.iter().filter(|name| name.starts_with("crawlgate_")) {
        let name = name.trim_end_matches("_sum").trim_end_matches("_count");
        assert!(text.contains(name), "{name} is counted and not shown");
    }
}

/// Tells whether a program is installed; fails the test if it must be and is not.
fn is_there(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|status| status.success());
    if !found {
        let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{program} is missing");
        drop(writeln!(std::io::stderr(), "skipped: {program} is missing"));
    }
    found
}

/// Runs a program with `input`, and asserts that it succeeds.
#[track_caller]
fn is_content(program: &str, arguments: &[&str], input: &[u8]) {
    let mut command = Command::new(program);
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

#[test]
fn promtool_accepts_the_metrics() {
    let promtool = std::env::var("CRAWLGATE_PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    if !is_there(&promtool, &["--version"]) {
        return;
    }
    let (gate, _http, _https) = busy();
    let text = scrape(&gate, "").body;
    is_content(&promtool, &["check", "metrics"], &text);
    let alerts = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/alerts.yml");
    is_content(&promtool, &["check", "rules", alerts], b"");
}

/// Reads both texts with the parsers of Prometheus's Python library.
const PARSE: &str = "
import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
text = sys.stdin.read()
read = openmetrics if text.endswith('# EOF\\n') else parser
families = list(read.text_string_to_metric_families(text))
assert len(families) > 20, families
assert any(f.name == 'crawlgate_decisions' and f.type == 'counter' for f in families), families
";

#[test]
fn other_parsers_accept_both_formats() {
    let python = or_skip!(python_with("prometheus_client", "prometheus-client"));
    let (gate, _http, _https) = busy();
    for accept in ["", "Accept: application/openmetrics-text\r\n"] {
        let text = scrape(&gate, accept).body;
        is_content(&python, &["-c", PARSE], &text);
    }
}
