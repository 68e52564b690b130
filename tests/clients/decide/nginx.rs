//! nginx: the form of its `auth_request`, and the real nginx as a small forward proxy.

use std::path::Path;

use crawlgate_config::TokenDigest;

use crate::support::peer::{Peer, program};
use crate::support::{AdminGate, Latch, Origin, RULES, Reply, wait_until};

/// The set-up of the documentation, with the settings that a test needs to run nginx anywhere.
fn set_up(gate: &AdminGate, port: u16, dir: &Path) -> String {
    let (asked, dir) = (gate.address, dir.display());
    format!(
        r#"
daemon off;
master_process off;
pid {dir}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;

    upstream crawlgate {{
        server {asked};
        keepalive 16;
    }}

    server {{
        listen 127.0.0.1:{port};

        # What is judged is what is fetched.
        set $asked http://$http_host$request_uri;

        location / {{
            auth_request /.crawlgate;
            auth_request_set $crawlgate_reason $upstream_http_x_crawlgate_reason;
            auth_request_set $crawlgate_decision $upstream_http_x_crawlgate_decision;
            auth_request_set $crawlgate_retry $upstream_http_retry_after;
            add_header X-Crawlgate-Reason $crawlgate_reason always;
            add_header X-Crawlgate-Decision $crawlgate_decision always;
            add_header Retry-After $crawlgate_retry always;

            proxy_pass $asked;
            proxy_set_header Host $http_host;
            proxy_set_header User-Agent $http_user_agent;
        }}

        location = /.crawlgate {{
            internal;
            proxy_pass http://crawlgate/auth;
            proxy_http_version 1.1;
            proxy_pass_request_body off;
            # Nothing but these: what a crawler sends must not tell what is judged.
            proxy_pass_request_headers off;
            proxy_set_header Host localhost;
            proxy_set_header Connection "";
            proxy_set_header X-Original-URL $asked;
            proxy_set_header X-Original-Method $request_method;
            proxy_set_header User-Agent $http_user_agent;
            proxy_set_header Authorization "Bearer TOKEN";
        }}
    }}
}}
"#
    )
}

#[test]
fn auth_request_is_answered_200_or_403_and_nothing_else() {
    let latch = Latch::new();
    let gate = AdminGate::with(|setup| setup.set("robots", "hold", "\"50ms\""));
    let origin = Origin::with_rules(RULES);
    let slow = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch)]);
    let host = origin.authority();
    let whole = |url: &str| format!("X-Original-URL: {url}\r\n");
    let parts = |host: &str, path: &str| {
        format!("X-Forwarded-Proto: http\r\nX-Original-Host: {host}\r\nX-Original-URI: {path}\r\n")
    };
    let asked = |fields: &str| {
        gate.say(&format!(
            "GET /auth HTTP/1.1\r\nHost: localhost\r\n{fields}X-Original-Method: POST\r\nUser-Agent: TestBot/1.0\r\n\r\n"
        ))
    };
    // The rules for this crawler are cached before any request that may be late.
    wait_until("the rules", || asked(&whole(&origin.url("/open"))).status == 200);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an allowed page", whole(&origin.url("/open")), 200, "robots_allow"),
        ("a disallowed page", whole(&origin.url("/private")), 403, "robots_disallow"),
        ("an allowed page in parts", parts(&host, "/open"), 200, "robots_allow"),
        ("a disallowed page in parts", parts(&host, "/private?x"), 403, "robots_disallow"),
        ("a page that has to wait", whole(&slow.url("/")), 403, "robots_pending"),
        ("a URL with a fragment", whole(&origin.url("/open#/../private")), 403, "bad_request"),
        ("another scheme", whole("ftp://site.test/"), 403, "bad_request"),
    ];
    for (name, fields, status, reason) in cases {
        let answer = asked(&fields);
        let record = gate.decided(&answer, status, reason);
        has!(record, {"method": "POST", "agent.chain.0": "TestBot"}, "{name}");
        assert_eq!(answer.field("retry-after").is_some(), reason == "robots_pending", "{name}");
    }
    let before = gate.process.records().len();
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("nothing", String::new()),
        ("a URL without some of its parts", format!("X-Original-Host: {host}\r\nX-Original-URI: /open\r\n")),
        ("a crawler's URL beside the parts", whole(&origin.url("/open")) + &parts(&host, "/private")),
        ("a crawler's path beside the URL", format!("{}X-Original-URI: /open\r\n", whole(&origin.url("/private")))),
        ("two URLs", whole(&origin.url("/open")) + &whole(&origin.url("/private"))),
        ("no whole URL", whole("/open")),
        ("a user before the host", whole(&format!("http://other.test@{host}/open"))),
        ("a host that goes on", parts(&format!("{host}/open?"), "/private")),
        ("a path that does not begin", parts(&host, "private")),
    ];
    for (name, fields) in rows {
        let answer = gate.say(&format!("GET /auth HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        assert_eq!(answer.status, 403, "{name}: {answer:?}");
        assert_eq!(answer.field("x-crawlgate-verdict"), None, "{name}");
    }
    assert_eq!(gate.process.records().len(), before, "an invalid question leaves no record");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    latch.open();
}

#[test]
fn nginx_fetches_what_is_allowed_and_nothing_else() {
    let nginx = or_skip!(program("nginx"));
    let gate = AdminGate::with(|setup| {
        let digest = TokenDigest::of(b"TOKEN").reveal();
        setup.tables(&format!(
            "[[admin.user]]\nname = 'nginx'\nrole = 'read'\ntoken = '{digest}'\n"
        ));
    });
    let origin = Origin::with_rules(RULES);
    let at = |path: &str| origin.url_as("127.0.0.1", path);
    let peer = Peer::start(&nginx, &["-c"], |port, dir| set_up(&gate, port, dir));
    // The crawler's credentials are for the origin.
    let own = "Authorization: Basic bm9uZTpub25l\r\n";
    peer.request("GET", &at("/open?a=%70"), own).is_origins(200, "page /open?a=%70");
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("a disallowed page", "GET", "/private?a", "robots_disallow", ""),
        ("one in another spelling", "GET", "/%70rivate", "robots_disallow", ""),
        ("one behind two slashes", "GET", "//private", "path_guard", ""),
        ("a POST request", "POST", "/private", "robots_disallow", "Content-Length: 0\r\n"),
        (
            "a page that claims another URL",
            "GET",
            "/private/x",
            "robots_disallow",
            "X-Original-URL: http://127.0.0.1/open\r\nX-Original-URI: /open\r\nSec-Fetch-Site: cross-site\r\n",
        ),
    ];
    for (name, method, path, reason, fields) in rows {
        let url = at(path);
        let answer = peer.request(method, &url, fields);
        assert_eq!(answer.status, 403, "{name}: {answer:?}\n{}", peer.said());
        answer.field_is("x-crawlgate-reason", Some(reason));
        let id = answer.field("x-crawlgate-decision").expect("a decision");
        let record = gate.process.record(name, |record| record["id"] == id);
        has!(record, {"url": url, "method": method, "via": "decide"}, "{name}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /open?a=%70"]);
    // Without the gate no request goes out.
    drop(gate);
    peer.request("GET", &at("/open"), "").is(500);
    assert_eq!(origin.seen_but_robots(), ["GET /open?a=%70"]);
}
