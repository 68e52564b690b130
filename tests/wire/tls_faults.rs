//! TLS sessions that do not begin: the cause is told in the answer, in the record, by `check` and by `origins`.
//! Page: `docs/networks.md`.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::server_names::client_hello;
use crate::support::pki::self_signed_pem;
use crate::support::{Certificate, CrawlgateProcess, Origin, RULES, Reply, Setup, eventually};

/// Answers each connection with these octets once it has sent some, and closes it. Returns the port.
fn answering(octets: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A gate that has ended is no fault.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(octets);
        }
    });
    port
}

#[test]
fn a_robots_txt_that_no_tls_session_fetches_is_unreachable_for_a_cause_that_is_told_everywhere() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let rows: [(&str, &'static [u8], &str, &str, &str); 4] = [
        ("plain HTTP", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "tls_not_spoken", "it does not speak TLS at this port", ""),
        (
            "an alert",
            &[0x15, 3, 3, 0, 2, 2, 40],
            "tls_alert:40",
            "it ended the TLS handshake with the alert handshake_failure (40)",
            "alert-id=40; alert-message=\"handshake_failure\"",
        ),
        (
            "an old version",
            &[0x15, 3, 1, 0, 2, 2, 70],
            "tls_alert:70",
            "alert protocol_version (70): it accepts neither TLS 1.2 nor TLS 1.3",
            "alert-id=70; alert-message=\"protocol_version\"",
        ),
        ("nothing", b"", "tls_closed", "it closed the connection in the TLS handshake", ""),
    ];
    for (name, octets, code, words, alert) in rows {
        let url = format!("https://127.0.0.1:{}/page", answering(octets));
        let answer = gate.get(&url);
        let problem = answer.problem();
        assert_eq!(problem["reason"], "robots_unreachable", "{name}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{name}: {detail}");
        let status = answer.field("proxy-status").unwrap();
        assert!(status.contains(alert), "{name}: {status}");
        has!(gate.record_of(&url), {"robots.unreachable.cause": code}, "{name}");
        let (_, said, _) = gate.beside("check", &[&url]);
        assert!(said.contains(words), "{name}: {said}");
        let origin = url.trim_end_matches("/page");
        gate.beside_until("origins", &["show", origin], |said| said.contains(words));
    }
}

#[test]
fn an_origin_that_shows_another_certificate_later_is_a_502_with_the_fault() {
    let gate = CrawlgateProcess::start();
    let last = || Reply::with(200, "Connection: close\r\n", "").close();
    let origin = Origin::https().on("/robots.txt", [last()]).on("/before", [last()]);
    gate.get(&origin.url("/before"));
    #[rustfmt::skip] // one row, one case
    let cases = [
        (Certificate::Untrusted, "its certificate was issued by CN=an untrusted CA, which is not trusted here"),
        (Certificate::Expired, "its certificate expired on 2020-01-01 at 00:00 UTC"),
        (Certificate::OtherName, "its certificate is for elsewhere.test, not for it"),
    ];
    for (certificate, words) in cases {
        origin.change_certificate(certificate);
        let url = origin.url(&format!("/after?{certificate:?}"));
        let answer = gate.get(&url);
        assert_eq!(answer.status, 502, "{certificate:?}: {answer:?}");
        let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(words), "{certificate:?}: {detail}");
        let status = answer.field("proxy-status").unwrap();
        says!(status, "error=tls_certificate_error", words);
        let record = gate.record_of(&url);
        assert_eq!(record["error"], "tls_certificate_error", "{record}");
        let told = record["detail"].as_str().unwrap();
        assert!(told.contains(words), "{record}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /before"]);
}

#[test]
fn a_self_signed_certificate_in_extra_roots_is_trusted_though_it_is_made_as_a_ca() {
    let origin = Origin::https_with(Certificate::SelfSigned).robots(RULES);
    let answer = CrawlgateProcess::start().get(&origin.url("/page"));
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    says!(detail, "signed itself ([tls] extra_roots can name this certificate)");
    assert_eq!(origin.seen().len(), 0);
    let gate = CrawlgateProcess::with(|setup| {
        let (pem, _) = self_signed_pem();
        std::fs::write(setup.dir().join("origin.pem"), pem).unwrap();
        setup.set("tls", "extra_roots", "[\"origin.pem\"]");
    });
    gate.passes(&origin.url("/page"));
    gate.denies(&origin.url("/private"));
    // Its name still counts.
    let answer = gate.get(&origin.url_as("other.test", "/page"));
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    says!(detail, "its certificate is for 127.0.0.1, localhost, site.test, not for it");
    assert_eq!(origin.seen_but_robots(), ["GET /page"]);
}

#[test]
fn a_host_that_no_tls_session_can_name_is_refused_with_that_cause() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    for host in ["-site.test", "site-.test", "www.-site.test"] {
        let words = "its name fits no TLS session";
        let url = format!("https://{host}:{}/", origin.port());
        let mut wire = gate.connect();
        let answer = wire.tunnel(&format!("{host}:{}", origin.port()));
        let problem = answer.problem();
        assert_eq!(problem["reason"], "robots_unreachable", "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        says!(detail, words);
        let record = gate.record(host, |record| record["host"] == host);
        has!(record, {"verdict": "deny", "robots.unreachable.cause": "tls_server_name"});
        let (_, said, _) = gate.beside("check", &[&url]);
        says!(said, words);
    }
    assert_eq!(origin.connections(), 0);
    // An underscore fits.
    gate.connect().tunnel(&format!("a_b.test:{}", origin.port())).is(200);
}

#[test]
fn an_override_opens_a_tunnel_to_a_host_that_no_tls_session_can_name() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("upstream.hosts", "\"-site.test\"", "\"127.0.0.1\"");
    });
    let origin = Origin::https();
    let authority = format!("-site.test:{}", origin.port());
    let words = [
        "add",
        &format!("https://{authority}"),
        "allow",
        "--until",
        "1d",
        "--by",
        "Ada",
        "--reason",
        "a contract",
    ];
    gate.succeeds("override", &words);
    for (name, reason) in [("-site.test", "operator_allow"), ("other.test", "misdirected")] {
        let mut wire = gate.connect();
        eventually("the override", || {
            wire = gate.connect();
            (wire.tunnel(&authority).status == 200).then_some(())
        });
        let hello = client_hello(name.as_bytes());
        wire.send(&hello);
        // The origin of this test refuses the name, too: its alert has come through the tunnel.
        let answer = wire.read_all();
        assert_eq!(answer.first(), Some(&0x15), "{answer:?}");
        drop(wire);
        let record =
            gate.record(name, |record| record["via"] == "tunnel" && record["reason"] == reason);
        assert_eq!(record["opaque"], true, "{record}");
        let is_sent = record["bytes_in"] == json!(hello.len());
        assert_eq!(is_sent, reason == "operator_allow", "{record}");
    }
}

#[test]
fn clients_that_do_not_trust_the_local_ca_are_named_by_the_summary_of_a_run() {
    let setup = Setup::new();
    setup.write();
    let origin = Origin::https();
    let url = origin.url("/page");
    let summary = setup.dir().join("summary.json");
    let read =
        || -> Value { serde_json::from_str(&std::fs::read_to_string(&summary).unwrap()).unwrap() };
    let file = summary.display().to_string();
    let mut run = setup.command("run");
    // A client with its own roots.
    let own = setup.dir().join("origin-ca.pem").display().to_string();
    let curl = ["curl", "-s", "--cacert", &own, &url];
    let output = run.args(["--summary", &file, "--"]).args(curl).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    says!(said, "NO REQUEST CAME THROUGH THE PROXY");
    let named = origin.url("");
    says!(said, &format!("{named} alert unknown_ca 1"), "crawlgate ca setup");
    let sessions = &read()["ended_sessions"];
    assert_eq!(
        *sessions,
        json!([{"origin": named, "server_name": "site.test", "alert": "unknown_ca", "count": 1}])
    );
    assert_eq!(origin.connections(), 0);

    // A client that verifies after the handshake closes without a word.
    let credulous = "import socket,ssl,os\n\
        c=ssl.create_default_context(); c.check_hostname=False; c.verify_mode=ssl.CERT_NONE\n\
        proxy=os.environ['https_proxy'].split('//')[1].split(':')\n\
        s=socket.create_connection((proxy[0],int(proxy[1])))\n\
        s.sendall(b'CONNECT site.test:443 HTTP/1.1\\r\\nHost: site.test:443\\r\\n\\r\\n')\n\
        assert b' 200 ' in s.recv(4096)\n\
        t=c.wrap_socket(s, server_hostname='site.test')\n\
        t.close()\n";
    if Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let mut run = setup.command("run");
    let output = run
        .env("CRAWLGATE_LOG__LEVEL", "debug")
        .args(["--summary", &file, "--", "python3", "-c", credulous])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    says!(said, "https://site.test closed 1");
    assert_eq!(
        read()["ended_sessions"],
        json!([{"origin": "https://site.test", "server_name": "site.test", "alert": null, "count": 1}])
    );
}
