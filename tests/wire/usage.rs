//! The statements of sites about the use of their content: withheld pages, tunnels, stamps and records.
//! Page: `docs/usage-preferences.md`.

pub(crate) mod tdmrep;
mod vectors;
mod withheld;

use std::future::poll_fn;

use serde_json::Value;

use super::overrides::proven;
use crate::support::http2::get;
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Latch, Origin, Reply, Response, Setup, eventually};

/// A response that disallows training, with this body.
fn withheld(body: &str) -> Reply {
    Reply::with(200, "Content-Usage: train-ai=n\r\n", body)
}

/// Returns a gate with clients that train models.
fn training(more: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("policy", "purposes", "\"train-ai\"");
        more(setup);
    })
}

/// Asserts that an answer withholds the page of this record, and returns the record.
#[track_caller]
fn is_withheld(gate: &CrawlgateProcess, answer: &Response) -> Value {
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(!answer.text().contains("SECRET"), "{answer:?}");
    assert_eq!(
        answer.field("proxy-status").as_deref(),
        Some("crawlgate; received-status=200; details=\"usage_withheld\"")
    );
    answer.field_is("cache-control", Some("no-store"));
    let id = answer.problem()["id"].clone();
    let record = gate.record("the page that is withheld", |record| record["id"] == id);
    has!(record, {"reason": "usage_withheld", "usage.let_out_by": "robots_unavailable"});
    assert!(record["upstream"].is_string() && record["error"].is_null(), "{record}");
    record
}

#[test]
fn no_octet_of_a_withheld_body_reaches_the_crawler_and_its_connection_stays() {
    let secret = "SECRET".repeat(1_000);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{secret}\r\n0\r\n\r\n",
        secret.len()
    );
    let origin = Origin::http()
        .on("/length", [withheld(&secret)])
        .on("/chunked", [Reply::raw(chunked)])
        .on("/head", [withheld("")])
        .on("/open", [Reply::ok("open")]);
    let gate = training(|_| ());
    let mut wire = gate.connect();
    for path in ["/length", "/chunked"] {
        let answer = wire.get(&origin.url(path));
        is_withheld(&gate, &answer);
    }
    let head =
        format!("HEAD {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/head"), origin.authority());
    let answer = wire.send(head).response("HEAD");
    assert_eq!((answer.status, answer.text()), (403, String::new()), "{answer:?}");
    wire.get(&origin.url("/open")).is_origins(200, "open");
    assert_eq!(origin.seen_but_robots().len(), 4);
    proven(&gate);
}

#[test]
fn a_withheld_page_is_on_record_although_the_process_is_killed() {
    for durability in ["strict", "relaxed"] {
        let latch = Latch::new();
        let body = "HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n\r\nContent-Length: 99\r\n\r\n";
        let body = Reply::raw(body).send("SECRET").wait(&latch);
        let origin = Origin::http().on("/page", [body]);
        let mut gate =
            training(|setup| setup.set("audit", "durability", &format!("\"{durability}\"")));
        let answer = gate.get(&origin.url("/page"));
        let id = answer.problem()["id"].as_str().unwrap().to_owned();
        if durability == "relaxed" {
            // The store has it within 100 ms, and not before the answer.
            is_withheld(&gate, &answer);
            gate.beside_until("log", &["show", &id], |said| said.contains("usage_withheld"));
        }
        gate.restart(rustix::process::Signal::KILL);
        latch.open();
        let said = gate.succeeds("log", &["show", &id]);
        assert!(said.contains("usage_withheld"), "{durability}: {said}");
        let said = gate.succeeds("audit", &["verify", &id]);
        says!(
            said,
            "train-ai; refused: train-ai",
            "train-ai: disallow (response, content-usage: train-ai=n)"
        );
    }
}

#[test]
fn a_withheld_page_counts_for_the_quota_of_its_client() {
    let origin = Origin::http().on("/page", [withheld("SECRET"), withheld("SECRET")]);
    let gate = CrawlgateProcess::with(|setup| {
        let client = "[[client]]\nname = 'model'\npurposes = 'train-ai'\n";
        setup.tables(&format!("{client}quota = {{ requests = 1, per = '365d' }}\n"));
    });
    is_withheld(&gate, &gate.get(&origin.url("/page")));
    gate.refuses(&origin.url("/page"), 429, "quota_spent");
    assert_eq!(origin.seen_but_robots().len(), 1);
}

#[test]
fn a_crawler_learns_what_was_found_where_the_operator_wants_it() {
    let fields = "Content-Usage: train-ai=n, search=y\r\nCrawlgate-Usage: train-ai=y\r\n";
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nCrawlgate-Usage: train-ai=y\r\n\r\n";
    let page = format!("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n{fields}\r\ncontent");
    let reply = || Reply::raw(early).send(&page);
    let origin = Origin::http().on("/page", [reply(), reply()]);
    let told_early = |answer: &Response| {
        let [early] = answer.interim.as_slice() else {
            panic!("one interim response: {answer:?}");
        };
        assert_eq!(early.all("link"), ["</a>"]);
        early.all("crawlgate-usage")
    };
    let mut gate = CrawlgateProcess::with(|setup| {
        setup.set("signals", "stamp", "true");
        setup.set("policy", "mode", "\"report\"");
        setup.set("policy", "purposes", "\"train-ai\"");
    });
    let answer = gate.get(&origin.url("/page"));
    answer.is_origins(200, "content");
    assert_eq!(told_early(&answer), [""; 0]);
    let record = gate.record_of(&origin.url("/page"));
    let id = record["id"].as_str().unwrap();
    assert_eq!(
        answer.head.all("crawlgate-usage"),
        [format!("train-ai=n, search=y, refused=(train-ai), id=\"{id}\"")]
    );
    let without = |setup: &mut Setup| setup.set("signals", "stamp", "false");
    gate.reload_until(without, "signals.stamp");
    let answer = eventually("the page without a stamp", || {
        let answer = gate.get(&origin.url("/page"));
        (answer.head.all("crawlgate-usage") == ["train-ai=y"]).then_some(answer)
    });
    answer.is_origins(200, "content");
    assert_eq!(told_early(&answer), ["train-ai=y"], "as it came");
}

#[test]
fn an_interim_response_of_http2_carries_no_stamp_of_the_origin() {
    let origin = Http2Origin::start().on("/page", |mut stream| async move {
        let fields = [("link", "</a>"), ("crawlgate-usage", "train-ai=y")];
        let hints = crate::support::http2_origin::head(103, &fields);
        stream.respond.send_informational(hints).unwrap();
        let sending = stream.send(200, &fields[1..]);
        sending.send_all("page".into()).await;
    });
    let gate = CrawlgateProcess::with(|setup| setup.set("signals", "stamp", "true"));
    let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
    let mut pending = crawler.begin(get(&origin.url("/page")), true).unwrap();
    let early = poll_fn(|cx| pending.response.poll_informational(cx));
    let early = crawler.run(early).unwrap().unwrap();
    assert_eq!(early.headers()["link"], "</a>");
    assert_eq!(early.headers().get("crawlgate-usage"), None);
    let answer = crawler.answer(pending).unwrap();
    let record = gate.record_of(&origin.url("/page"));
    let stamp = format!("id=\"{}\"", record["id"].as_str().unwrap());
    assert_eq!(answer.head.all("crawlgate-usage"), [stamp]);
    answer.is_origins(200, "page");
}

#[test]
fn only_clients_with_purposes_are_recorded_whole_where_the_operator_wants_that() {
    let origin = Origin::with_rules("User-agent: *\nAllow: /\nContent-Usage: search=y\n");
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("log", "decisions", "\"purposes\"");
        setup.set("policy", "purposes", "[]");
        setup.tables("[[client]]\nname = 'model'\npurposes = 'train-ai'\nlisteners = 'model'\n[[client]]\nname = 'rest'\n[[listener]]\nname = 'model'\nunix = 'model.sock'\n");
    });
    gate.passes(&origin.url("/rest"));
    let socket = gate.setup.dir().join("model.sock");
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        origin.url("/model"),
        origin.authority()
    );
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("page /model"), "{answer}");
    let record = gate.record_of(&origin.url("/model"));
    has!(record, {"client.name": "model", "usage.purposes": ["train-ai"]});
    let records = gate.records();
    assert!(records.iter().all(|record| record["client"]["name"] == "model"), "{records:?}");
}

#[test]
fn a_page_is_withheld_by_http2_on_both_sides_and_the_connections_stay() {
    let secret = "SECRET".repeat(20_000);
    let origin = Http2Origin::start().on("/secret", move |mut stream| {
        let secret = secret.clone();
        async move {
            stream.read().await;
            let mut sending = stream.send(200, &[("content-usage", "train-ai=n")]);
            // The proxy resets the stream while the body is on its way.
            let _ = sending.send(secret.into()).await;
            stream.wait_reset(&mut sending).await;
        }
    });
    let gate = training(|_| ());
    let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
    for _ in 0..3 {
        is_withheld(&gate, &crawler.get(&origin.url("/secret")));
        crawler.passes(&origin.url("/open"));
    }
    assert_eq!(origin.connections(), 1);
    proven(&gate);
}

#[test]
fn a_tunnel_that_an_override_of_use_lets_out_is_proven() {
    let origin = Origin::https().robots("User-agent: *\nAllow: /\nContent-Usage: train-ai=n\n");
    let authority = format!("bank.test:{}", origin.port());
    let gate = training(|setup| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.tables(&format!(
            "[[override]]\norigin = \"https://{authority}\"\naction = \"allow\"\ncovers = \"usage\"\nby = \"Ada\"\nreason = \"a licence\"\n"
        ));
    });
    let wire = gate.tunnels(&authority);
    drop(wire);
    let record = gate.record("the tunnel", |record| record["via"] == "tunnel");
    assert_eq!(record["override"]["action"], "allow_usage", "{record}");
    proven(&gate);
}

#[test]
fn more_lines_than_a_record_keeps_are_judged_and_the_record_says_so() {
    let gate = training(|_| ());
    for (lines, is_cut) in [(20, false), (70, true)] {
        let mut fields = "Content-Usage: search=y\r\n".repeat(lines);
        fields.push_str("Content-Usage: train-ai=n\r\n");
        let origin = Origin::http().on("/page", [Reply::with(200, &fields, "SECRET")]);
        let record = is_withheld(&gate, &gate.get(&origin.url("/page")));
        let cut = record["usage"]["cut"].as_bool();
        assert_eq!(cut.unwrap_or_default(), is_cut, "{record}");
        assert_eq!(is_attested(&gate, &record), is_cut, "{record}");
    }
    proven(&gate);
}

/// Tells whether the log only attests a decision, and could not derive it again.
#[track_caller]
fn is_attested(gate: &CrawlgateProcess, record: &Value) -> bool {
    let id = record["id"].as_str().unwrap();
    let out = gate.succeeds("audit", &["verify", id]);
    out.contains("attested")
}

#[test]
fn preferences_that_a_record_cuts_are_found_again_in_their_files() {
    let gate = training(|setup| setup.set("signals", "robots_tag", "\"enforce\""));
    for (value, is_sent) in [("no", false), ("yes", true)] {
        let line = |number: usize| {
            let padding = "y".repeat(900);
            format!("Content-Signal: ai-train={value}, x{number}={padding}\n")
        };
        let lines: String = (0..20).map(line).collect();
        let says = Reply::with(200, "X-Robots-Tag: noai\r\n", "SECRET");
        let origin = Origin::with_rules(&format!("User-agent: *\nAllow: /\n{lines}"));
        let origin = origin.on("/page", [says]);
        let answer = gate.get(&origin.url("/page")).is(403);
        let id = answer.problem()["id"].clone();
        let record = gate.record("the refusal", |record| record["id"] == id);
        let usage = &record["usage"];
        assert_eq!(usage["cut"], true, "{record}");
        let fields = usage["fields"].as_array().unwrap();
        assert_eq!(!fields.is_empty(), is_sent, "{record}");
        assert!(!is_attested(&gate, &record), "{record}");
    }
    proven(&gate);
}

#[test]
fn odd_and_long_fields_are_judged_again_from_the_store() {
    let padding = |octets: usize| "x".repeat(octets);
    #[rustfmt::skip] // one row, one case
    let cases = [
        // Each character is sent as one octet.
        ("not UTF-8", "X-Robots-Tag: noai, \u{ff}\r\n".to_owned(), true),
        ("a long line", format!("X-Robots-Tag: max-snippet:{}, noai\r\n", padding(7_000)), true),
        (
            "two long lines of different fields",
            format!(
                "X-Robots-Tag: {}, noai\r\ntdm-policy: /{}\r\n",
                padding(5_000),
                padding(5_000)
            ),
            true,
        ),
        ("too long to be read", format!("X-Robots-Tag: noai, {}\r\n", padding(9_000)), false),
        ("too long in two lines", format!("X-Robots-Tag: noai, {0}\r\nX-Robots-Tag: {0}\r\n", padding(4_100)), false),
    ];
    let gate = training(|setup| setup.set("signals", "robots_tag", "\"enforce\""));
    for (name, fields, is_read) in cases {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n{fields}\r\nSECRET");
        let answer: Vec<u8> = answer.chars().map(|one| one as u8).collect();
        let origin = Origin::http().on("/page", [Reply::raw(answer)]);
        let answer = gate.get(&origin.url("/page"));
        let record = match is_read {
            true => is_withheld(&gate, &answer),
            false => {
                answer.is_origins(200, "SECRET");
                let port = u64::from(origin.port());
                gate.record("the page", |record| {
                    record["port"] == port && record["url"].as_str().unwrap().ends_with("/page")
                })
            }
        };
        assert!(record["usage"]["cut"].is_null(), "{name}: {record}");
        assert!(!is_attested(&gate, &record), "{name}: {record}");
    }
}

#[test]
fn text_of_a_site_is_guarded_in_the_record_and_in_the_answer() {
    let robots = "User-agent: *\nAllow: /\nContent-Signal: ai-train=no, \u{202e}x=\u{9b}31m\n";
    let origin = Origin::with_rules(robots);
    let gate = training(|_| ());
    let answer = gate.get(&origin.url("/page"));
    gate.refused(&answer, 403, "usage_disallow");
    let line = std::fs::read_to_string(gate.log_path()).unwrap();
    for text in [&line, &answer.text()] {
        says!(text, "ai-train=no, \\u202ex=\\u009b31m");
        assert!(!text.contains(['\u{202e}', '\u{9b}']), "{text}");
    }
    proven(&gate);
}
