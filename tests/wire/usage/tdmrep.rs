//! tdmrep.json: its fetch after robots.txt, the identity that it is fetched as, and the effect of each state.

use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::overrides::proven;
use crate::signed::verify::{by_http1, identity, is_signed_by};
use crate::support::{
    AdminGate, CrawlgateProcess, Latch, Origin, Reply, Response, Setup, origin_ca_pem,
};

pub(crate) const PATH: &str = "/.well-known/tdmrep.json";

/// A file that reserves a folder.
pub(crate) const RESERVED: &str = r#"[{"location":"/art/","tdm-reservation":1}]"#;

/// Returns a gate with this mode, for clients that mine text and data unless they say otherwise.
fn gate(mode: &str, more: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("signals", "tdmrep", &format!("\"{mode}\""));
        setup.set("policy", "purposes", "[\"tdm\"]");
        more(setup);
    })
}

/// Returns the number of requests for the file.
pub(crate) fn fetches(origin: &Origin) -> usize {
    let lines = origin.seen_but_robots();
    let is_file = |line: &&String| **line == format!("GET {PATH}");
    lines.iter().filter(is_file).count()
}

/// Returns the record of an answer of the gate.
#[track_caller]
fn recorded(gate: &CrawlgateProcess, answer: &Response) -> Value {
    let id = answer.problem()["id"].clone();
    gate.record("the refusal", |record| record["id"] == id)
}

/// Asserts that the page is refused for what the file says, and that nothing was sent.
#[track_caller]
fn is_reserved(gate: &CrawlgateProcess, origin: &Origin, path: &str) -> Value {
    let answer = gate.get(&origin.url(path)).is(403);
    let record = recorded(gate, &answer);
    has!(record, {"reason": "usage_disallow", "usage.preferences.0.entry": 1});
    let asked = format!("GET {path}");
    assert!(!origin.seen_but_robots().contains(&asked), "{record}");
    record
}

/// Returns the record of a page that the origin answers.
#[track_caller]
fn passes(gate: &CrawlgateProcess, origin: &Origin, path: &str) -> Value {
    let url = origin.url(path);
    gate.get(&url).is_origins(200, &format!("page {path}"));
    gate.record("the page", |record| record["url"] == url)
}

#[test]
fn an_entry_refuses_before_the_request_and_the_record_names_the_file() {
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED)]);
    let gate = gate("enforce", |setup| {
        setup.set("admin", "address", "\"127.0.0.1:0\"");
    });
    let record = is_reserved(&gate, &origin, "/art/1");
    let file = &record["usage"]["tdmrep"];
    has!(file, {"url": origin.url(PATH), "state": "successful", "status": 200}, "{record}");
    assert!(file["sha256"].is_string() && file["fetched_at"].is_string());
    has!(passes(&gate, &origin, "/text"), {"usage.tdmrep.sha256": file["sha256"]});
    assert_eq!(fetches(&origin), 1);
    let fetch = origin.last(PATH);
    let robots = origin.last("/robots.txt");
    assert_eq!(fetch.head.field("user-agent"), robots.head.field("user-agent"));
    let (_, shown, _) =
        gate.beside("origins", &["show", &origin.url("/"), "--as", "tdmrep.json:testbot"]);
    says!(shown, "its entries decide");
    let missing = Origin::http().on(PATH, [Reply::status(404, "none")]);
    passes(&gate, &missing, "/art/1");
    proven(&gate);
    let metrics = AdminGate::of(gate).get("/metrics").text();
    for (result, count) in [("successful", 1), ("unavailable", 1), ("unreachable", 0)] {
        let line = format!("crawlgate_tdmrep_fetches_total{{result=\"{result}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

#[test]
fn the_file_is_asked_only_by_crawlers_that_it_concerns() {
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("off", "tdm", "", 0),
        ("enforce", "search", "", 0),
        ("enforce", "other", "", 0),
        ("enforce", "tdm", "User-agent: *\nDisallow: /art/\n", 0),
        ("enforce", "tdm", "User-agent: *\nDisallow: /.well-known/\n", 0),
        ("record", "tdm", "User-agent: *\nDisallow: /.well-known/\n", 0),
        ("enforce", "tdm", "", 1),
    ];
    for (mode, purpose, robots, expected) in rows {
        let origin = Origin::http().robots(robots).on(PATH, [Reply::ok(RESERVED)]);
        let gate = gate(mode, |setup| {
            setup.set("policy", "purposes", &format!("[\"{purpose}\"]"));
        });
        let answer = gate.get(&origin.url("/art/1"));
        let is_robots = robots.contains("/art/");
        let is_denied = is_robots || expected == 1;
        assert_eq!(answer.status == 403, is_denied, "{mode} {purpose}");
        assert_eq!(fetches(&origin), expected, "{mode} {purpose} {robots}");
        if robots.contains("well-known") {
            let record = gate.record("the page", |record| record["status"] == 200);
            let state = &record["usage"]["tdmrep"]["state"];
            assert_eq!(state, "disallowed", "{record}");
            let refresh = ["refresh", &origin.url("/")];
            gate.succeeds("origins", &refresh);
            assert_eq!(fetches(&origin), 0, "after a refresh");
        }
        proven(&gate);
    }
}

#[test]
fn many_crawlers_at_once_wait_for_one_fetch() {
    let latch = Latch::new();
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED).held(&latch)]);
    let gate = gate("enforce", |_| ());
    thread::scope(|scope| {
        let crawlers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| gate.get(&origin.url("/art/1")).status)).collect();
        latch.arrivals(1);
        latch.open();
        for crawler in crawlers {
            assert_eq!(crawler.join().unwrap(), 403);
        }
    });
    assert_eq!(fetches(&origin), 1);
    assert_eq!(origin.robots_fetches(), 1);
}

#[test]
fn a_file_that_is_late_defers_only_the_crawlers_that_it_concerns() {
    let latch = Latch::new();
    let late = || Reply::ok(RESERVED).held(&latch);
    let (enforced, kept) = (Origin::http().on(PATH, [late()]), Origin::http().on(PATH, [late()]));
    let hold = |setup: &mut Setup| setup.set("robots", "hold", "\"200ms\"");
    let enforcing = gate("enforce", hold);
    let answer = enforcing.get(&enforced.url("/art/1"));
    let record = enforcing.refused(&answer, 503, "usage_pending");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    assert_eq!(record["usage"]["tdmrep"]["state"], "pending", "{record}");
    assert_eq!(enforced.seen_but_robots().len(), 1, "the file alone");
    let recording = gate("record", hold);
    has!(passes(&recording, &kept, "/art/1"), {"usage.tdmrep.state": "pending"});
    latch.open();
    proven(&enforcing);
    proven(&recording);
}

#[test]
fn a_file_that_cannot_be_had_reserves_nothing() {
    let rows: [(Reply, &str); 4] = [
        (Reply::status(404, ""), "unavailable"),
        (Reply::redirect(302, PATH), "unavailable"),
        (Reply::status(503, ""), "unreachable"),
        (Reply::ok("<html>"), "successful"),
    ];
    for (reply, state) in rows {
        let origin = Origin::http().on(PATH, [reply]);
        let gate = gate("enforce", |_| ());
        let record = passes(&gate, &origin, "/art/1");
        let usage = &record["usage"];
        assert_eq!(usage["tdmrep"]["state"], state, "{record}");
        let is_read = usage["invalid"] == json!([]);
        assert_eq!(is_read, state != "successful", "{record}");
        proven(&gate);
    }
}

#[test]
fn a_copy_survives_a_restart_and_a_kill() {
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED)]);
    let mut gate = gate("enforce", |_| ());
    is_reserved(&gate, &origin, "/art/1");
    for signal in [Signal::TERM, Signal::KILL] {
        gate.restart(signal);
        is_reserved(&gate, &origin, "/art/2");
    }
    assert_eq!((fetches(&origin), origin.robots_fetches()), (1, 1));
    proven(&gate);
}

fn switch(gate: &mut CrawlgateProcess, mode: &str) {
    let mode = format!("\"{mode}\"");
    let change = |setup: &mut Setup| setup.set("signals", "tdmrep", &mode);
    gate.reload(change);
}

#[test]
fn a_reload_begins_and_ends_the_enforcement() {
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED)]);
    let mut gate = gate("off", |_| ());
    has!(passes(&gate, &origin, "/art/off"), {"usage.tdmrep": null});
    assert_eq!(fetches(&origin), 0);
    switch(&mut gate, "enforce");
    is_reserved(&gate, &origin, "/art/1");
    switch(&mut gate, "off");
    gate.succeeds("origins", &["refresh", &origin.url("/")]);
    has!(passes(&gate, &origin, "/art/2"), {"usage.tdmrep": null});
    assert_eq!(fetches(&origin), 1);
    proven(&gate);
}

#[test]
fn report_mode_and_an_override_of_use_let_the_page_pass() {
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED)]);
    let reporting = gate("enforce", |setup| setup.set("policy", "mode", "\"report\""));
    has!(passes(&reporting, &origin, "/art/1"), {"verdict": "deny", "reason": "usage_disallow"});
    proven(&reporting);
    let lifting = gate("enforce", |setup| {
        setup.tables(&format!(
            "[[override]]\norigin = \"{}\"\naction = \"allow\"\ncovers = \"usage\"\nby = \"Ada\"\nreason = \"a licence\"\n",
            origin.url("")
        ));
    });
    passes(&lifting, &origin, "/art/2");
    proven(&lifting);
}

#[test]
fn a_reported_refusal_keeps_the_entry_that_the_response_supersedes() {
    let says = Reply::with(200, "tdm-reservation: 0\r\n", "page");
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED)]).on("/art/1", [says]);
    let gate = gate("enforce", |setup| setup.set("policy", "mode", "\"report\""));
    let url = origin.url("/art/1");
    gate.get(&url).is_origins(200, "page");
    let record = gate.record("the page", |record| record["url"] == url);
    let usage = &record["usage"];
    assert_eq!(usage["refused"], json!(["tdm"]), "{record}");
    let said = usage["preferences"].as_array().unwrap();
    let found: Vec<_> = said.iter().map(|one| &one["source"]).collect();
    assert_eq!(found, ["tdmrep", "header"], "{record}");
    proven(&gate);
}

#[test]
fn an_opaque_tunnel_is_refused_where_any_path_is_reserved() {
    let rows = [(RESERVED, 403), ("[]", 200)];
    for (file, status) in rows {
        let origin = Origin::https().on(PATH, [Reply::ok(file)]);
        let gate = gate("enforce", |setup| {
            setup.set("tls", "tunnel", "[\"bank.test\"]");
        });
        let authority = format!("bank.test:{}", origin.port());
        let answer = gate.connect().tunnel(&authority).is(status);
        if status == 403 {
            let record = recorded(&gate, &answer);
            assert_eq!(record["reason"], "opaque_tunnel", "{record}");
            assert!(record["usage"]["tdmrep"]["sha256"].is_string(), "{record}");
        }
        assert_eq!(fetches(&origin), 1);
        proven(&gate);
    }
}

#[test]
fn an_open_tunnel_ends_when_the_file_that_it_must_ask_does_not_come() {
    let latch = Latch::new();
    let origin = Origin::https().on(PATH, [Reply::ok(RESERVED).held(&latch)]);
    let mut gate = gate("off", |setup| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.set("robots", "hold", "\"200ms\"");
    });
    let authority = format!("bank.test:{}", origin.port());
    let mut wire = gate.tunnels(&authority).tls("bank.test", origin_ca_pem());
    wire.passes_inside(&authority, "/inside");
    switch(&mut gate, "enforce");
    let record = gate.record("the tunnel's end", |record| record["via"] == "tunnel");
    assert_eq!(record["error"], "http_request_denied", "{record}");
    latch.open();
    drop(wire);
}

#[test]
fn check_asks_for_the_file_as_the_proxy_does() {
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED)]);
    let gate = gate("enforce", |_| ());
    let url = origin.url("/art/1");
    let (code, said, error) = gate.beside("check", &[&url, "--purpose", "search"]);
    assert_eq!((code, fetches(&origin)), (Some(0), 0), "{said}{error}");
    let (code, said, error) = gate.beside("check", &[&url, "--purpose", "train-ai"]);
    assert_eq!((code, fetches(&origin)), (Some(1), 1), "{said}{error}");
    says!(said, "entry 1 of tdmrep.json");
}

#[test]
fn a_tdmrep_json_is_asked_for_with_a_signature() {
    let mut made = None;
    let gate = CrawlgateProcess::with(|setup| {
        let (key, section) = identity(setup, "news", "");
        setup.set("agent", "signing", "\"news\"");
        setup.tables(&section);
        setup.set("signals", "tdmrep", "\"enforce\"");
        setup.set("policy", "purposes", "[\"tdm\"]");
        made = Some(key);
    });
    let origin = Origin::https().on(PATH, [Reply::ok(RESERVED)]);
    gate.answers(&origin.url("/art/1"), 403);
    let all = by_http1(&origin);
    let [robots, file] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert!(file.url.ends_with(PATH), "{file:?}");
    let key = made.unwrap();
    for sent in [robots, file] {
        is_signed_by(sent, &key);
    }
}
