//! Web Bot Auth: the signatures of requests as origins receive them. Page: `docs/web-bot-auth.md`.

mod directory;
mod record;
mod reference;
pub(crate) mod verify;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crawlgate_signing::SigningKey;
use serde_json::Value;

use self::verify::{
    AGENT, FIELDS, Sent, by_http1, by_http2, identity, is_signed_by, message, signing_gate,
    verdicts,
};
use crate::clients::{PASSWORD, basic, entry};
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Origin, RULES, Reply, Response, Setup, WEBSOCKET};

#[test]
fn another_program_verifies_the_signatures() {
    let (gate, key) = signing_gate("");
    let origin = Origin::https().robots(RULES);
    let http2 = Http2Origin::start().robots(RULES);
    gate.passes(&origin.url("/a/%7Euser/%2f;v=1?x=1&y=%C3%A9"));
    gate.request("POST", &origin.url("/form"), "Content-Length: 0\r\n");
    gate.get(&http2.url("/page?")).is_origins(200, "page /page");
    let mut all = by_http1(&origin);
    assert_eq!(all.len(), 3, "robots.txt, page and form: {all:?}");
    let streams = http2.seen();
    assert!(streams.iter().all(|seen| seen.version == "2"));
    assert_eq!(streams.len(), 2, "robots.txt and page");
    all.extend(streams.iter().map(by_http2));
    for sent in &all {
        is_signed_by(sent, &key);
    }
    // What is signed is what is sent: another path, method or host does not verify.
    let page = all[1].clone();
    let altered = [
        Sent { url: page.url.replace("x=1", "x=2"), ..page.clone() },
        Sent { url: page.url.replace("/a/", "/b/"), ..page.clone() },
        Sent { url: page.url.replace("://", "://x."), ..page.clone() },
        Sent { method: "PUT".to_owned(), ..page.clone() },
    ];
    let messages: Vec<Value> = all.iter().chain(&altered).map(message).collect();
    let verdicts = or_skip!(verdicts(&[&key], &messages));
    let (good, bad) = verdicts.split_at(all.len());
    let covered = r#""@method" "@authority" "@path" "@query" "signature-agent";key="crawlgate""#;
    for verdict in good {
        assert_eq!(verdict, covered);
    }
    for (verdict, sent) in bad.iter().zip(&altered) {
        assert!(verdict.starts_with("no: "), "{verdict}: {sent:?}");
    }
}

#[test]
fn other_forms_verify_too() {
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("form = 'string'", "\"https://bot.example\"", r#""@method" "@authority" "@path" "@query" "signature-agent""#),
        ("cover = 'authority'", &*format!("crawlgate=\"{AGENT}\""), r#""@authority" "signature-agent";key="crawlgate""#),
        ("form = 'string'\ncover = 'authority'\nlifetime = '5m'", "\"https://bot.example\"", r#""@authority" "signature-agent""#),
    ];
    for (more, agent, covered) in rows {
        let (gate, key) = signing_gate(more);
        let origin = Origin::https();
        gate.passes(&origin.url("/page?a"));
        let all = by_http1(&origin);
        for sent in &all {
            assert_eq!(sent.field("signature-agent"), Some(agent), "{more}");
        }
        let messages: Vec<Value> = all.iter().map(message).collect();
        if let Some(verdicts) = verdicts(&[&key], &messages) {
            assert_eq!(verdicts, [covered, covered], "{more}");
        }
    }
}

#[test]
fn without_an_identity_and_without_tls_the_octets_are_those_of_before() {
    let plain = CrawlgateProcess::start();
    let (signing, key) = signing_gate("");
    let origin = Origin::https();
    for gate in [&plain, &signing] {
        gate.passes(&origin.url("/page?a"));
    }
    let seen = origin.seen();
    let [robots, page, signed_robots, signed_page] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    let without_via = |text: String| {
        let lines = text.lines().map(str::to_owned);
        let kept = lines.filter(|line| !line.to_lowercase().starts_with("via:"));
        kept.collect::<Vec<_>>()
    };
    for (before, after) in [(robots, signed_robots), (page, signed_page)] {
        let before = without_via(before.head.text());
        let mut after = without_via(after.head.text());
        assert!(!before.join("\n").to_lowercase().contains("signature"));
        let all = after.len();
        after.retain(|line| !line.to_lowercase().starts_with("signature"));
        assert_eq!(all - after.len(), 3);
        assert_eq!(before, after);
    }
    let http = Origin::with_rules(RULES);
    signing.passes(&http.url("/page"));
    assert_eq!(by_http1(&http).iter().filter(|sent| sent.is_signed()).count(), 0);
    for sent in &by_http1(&origin)[2..] {
        is_signed_by(sent, &key);
    }
}

#[test]
fn requests_without_tls_are_signed_where_the_operator_says_so() {
    let (gate, key) = signing_gate("plain_http = true");
    let origin = Origin::with_rules(RULES);
    gate.passes(&origin.url("/page"));
    let all = by_http1(&origin);
    assert_eq!(all.len(), 2);
    for sent in &all {
        is_signed_by(sent, &key);
    }
}

#[test]
fn the_crawlers_own_signature_is_left_alone() {
    let (gate, _) = signing_gate("");
    let origin = Origin::https();
    for name in FIELDS {
        let own = format!("{name}: its=own\r\n");
        gate.request("GET", &origin.url("/page"), &own).is_origins(200, "page /page");
        let all = by_http1(&origin);
        let sent = all.last().unwrap();
        let found = FIELDS.map(|name| sent.field(name));
        assert_eq!(found.iter().flatten().count(), 1, "{sent:?}");
        assert_eq!(sent.field(name), Some("its=own"), "{sent:?}");
    }
}

#[test]
fn a_target_that_is_not_ascii_is_sent_without_a_signature() {
    let (gate, _) = signing_gate("");
    let origin = Origin::https();
    gate.answers(&origin.url("/é"), 200);
    let all = by_http1(&origin);
    assert!(!all.last().unwrap().is_signed(), "{all:?}");
    assert!(all[0].is_signed(), "its robots.txt: {all:?}");
}

#[test]
fn a_request_that_is_sent_again_has_a_signature_of_its_own() {
    let (gate, key) = signing_gate("");
    let origin = Origin::https().on("/again", [Reply::silent().close(), Reply::ok("again")]);
    gate.passes(&origin.url("/first"));
    // Only a request that was lost with a used connection is sent again.
    gate.record_of(&origin.url("/first"));
    gate.get(&origin.url("/again")).is_origins(200, "again");
    let all = by_http1(&origin);
    let attempts: Vec<&Sent> = all.iter().filter(|sent| sent.url.ends_with("/again")).collect();
    let [first, second] = attempts.as_slice() else {
        panic!("{all:?}");
    };
    for attempt in [first, second] {
        is_signed_by(attempt, &key);
        assert_eq!(attempt.fields.len(), second.fields.len(), "{attempts:?}");
    }
    assert_ne!(first.parameter("nonce"), second.parameter("nonce"));
    assert_ne!(first.field("signature"), second.field("signature"));
}

#[test]
fn a_stream_that_was_refused_is_signed_anew() {
    let (gate, key) = signing_gate("");
    let attempts = Arc::new(AtomicUsize::new(0));
    let origin = Http2Origin::start().on("/again", move |mut stream| {
        let attempts = Arc::clone(&attempts);
        async move {
            match attempts.fetch_add(1, Ordering::Relaxed) {
                0 => stream.respond.send_reset(h2::Reason::REFUSED_STREAM),
                _ => stream.reply(200, "again").await,
            }
        }
    });
    gate.get(&origin.url("/again")).is_origins(200, "again");
    let attempts: Vec<Sent> = origin.seen_of("/again").iter().map(by_http2).collect();
    let [first, second] = attempts.as_slice() else {
        panic!("{attempts:?}");
    };
    for attempt in [first, second] {
        is_signed_by(attempt, &key);
    }
    assert_ne!(first.parameter("nonce"), second.parameter("nonce"));
}

#[test]
fn each_hop_of_a_robots_txt_is_signed_for_its_own_authority() {
    let (gate, key) = signing_gate("");
    let (last, plain) = (Origin::https().robots(RULES), Origin::http());
    let plain =
        plain.on("/to-last", [Reply::redirect(301, &last.url_as("other.test", "/robots.txt"))]);
    let origin = Origin::https().on("/robots.txt", [Reply::redirect(302, &plain.url("/to-last"))]);
    gate.passes(&origin.url("/page"));
    let hops = [&origin, &plain, &last].map(|origin| by_http1(origin)[0].clone());
    let [first, unsigned, signed] = &hops;
    is_signed_by(first, &key);
    assert!(!unsigned.is_signed(), "http: {unsigned:?}");
    is_signed_by(signed, &key);
    assert!(signed.url.starts_with("https://other.test:"), "{signed:?}");
}

#[test]
fn a_client_is_signed_with_its_own_identity_and_so_is_its_robots_txt() {
    let mut keys = Vec::new();
    let gate = CrawlgateProcess::with(|setup| {
        let mut tables = String::new();
        for name in ["news", "shop"] {
            let (key, section) = identity(setup, name, "");
            tables.push_str(&section);
            keys.push(key);
        }
        for (name, more) in [("a", "signing = 'shop'"), ("b", "signing = 'shop'"), ("c", "")] {
            tables.push_str(&entry(name, more));
        }
        setup.set("agent", "signing", "\"news\"");
        setup.tables(&tables);
        setup.set("agent", "product_tokens", "[]");
    });
    let origin = Origin::https().robots(RULES);
    let ask_as = |client: &str| -> Response {
        let mut wire = gate.connect();
        let authority = origin.authority();
        wire.exchange(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{}\r\n",
            basic(client, PASSWORD)
        ))
        .is(200);
        let mut wire = wire.tls("site.test", &gate.ca_pem());
        let path = format!("/of-{client}");
        wire.exchange(format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n"))
    };
    let [news, shop] = keys.as_slice() else {
        panic!();
    };
    for (client, key, fetches) in [("a", shop, 1), ("c", news, 2), ("b", shop, 3), ("a", shop, 3)] {
        ask_as(client).is_origins(200, &format!("page /of-{client}"));
        let all = by_http1(&origin);
        is_signed_by(all.last().unwrap(), key);
        let robots: Vec<&Sent> =
            all.iter().filter(|sent| sent.url.ends_with("robots.txt")).collect();
        assert_eq!(robots.len(), fetches, "{client}");
        let owners = [shop, news, shop];
        for (sent, key) in robots.iter().zip(owners) {
            is_signed_by(sent, key);
        }
    }
}

#[test]
fn a_websockets_handshake_is_signed() {
    let (gate, key) = signing_gate("");
    let origin = Origin::https().on("/socket", [Reply::websocket()]);
    let http2 = Http2Origin::with(&["h2"], |server| {
        server.enable_connect_protocol();
    });
    let http2 = http2.on("/socket", |mut stream| async move {
        stream.send_empty(200, &[]);
    });
    gate.passes(&http2.url("/page"));
    for url in [origin.url("/socket"), http2.url("/socket")] {
        gate.sends("GET", &url, WEBSOCKET).response("GET").is(101);
    }
    is_signed_by(by_http1(&origin).last().unwrap(), &key);
    let stream = by_http2(&http2.last("/socket"));
    assert_eq!(stream.method, "CONNECT");
    is_signed_by(&stream, &key);
}

#[test]
fn a_reload_takes_another_key_and_keeps_the_old_one_for_a_bad_one() {
    let (mut gate, first) = signing_gate("");
    let origin = Origin::https();
    let signed_by = |gate: &CrawlgateProcess, key: &SigningKey| {
        gate.passes(&origin.url("/page"));
        is_signed_by(by_http1(&origin).last().unwrap(), key);
    };
    signed_by(&gate, &first);
    let path = gate.setup.dir().join("news.key");
    fs::write(&path, "nonsense").unwrap();
    gate.reload(|_| ());
    let said = gate.said();
    says!(said, "[[signing]] name = \"news\", key = ");
    says!(said, "crawlgate signing new");
    signed_by(&gate, &first);
    fs::remove_file(&path).unwrap();
    let second = SigningKey::create(&path).unwrap();
    gate.reload(|_| ());
    signed_by(&gate, &second);
    gate.reload(|setup| setup.set("agent", "signing", "\"\""));
    gate.passes(&origin.url("/page"));
    assert!(!by_http1(&origin).last().unwrap().is_signed());
}

#[test]
fn a_bad_key_is_no_start() {
    for (text, why) in [("nonsense", "this is no Ed25519 key"), ("", "there is no such file")] {
        let mut setup = Setup::new();
        let (_, section) = identity(&setup, "news", "");
        let path = setup.dir().join("news.key");
        match text {
            "" => fs::remove_file(&path).unwrap(),
            text => fs::write(&path, text).unwrap(),
        }
        setup.tables(&section);
        let (_, said) = setup.ends(2, "serve", &[]);
        let place = "[[signing]] name = \"news\", key = ";
        says!(said, why, place);
    }
}
