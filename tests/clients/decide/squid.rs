//! The real Squid, which asks through `crawlgate squid-helper`.

use std::path::Path;

use crate::support::peer::{Peer, program as found};
use crate::support::{AdminGate, Origin, RULES, program};

/// The set-up of the documentation, with the settings that a test needs to run Squid anywhere.
fn set_up(gate: &AdminGate, port: u16, dir: &Path) -> String {
    let (asked, helper, dir) = (gate.address, program(), dir.display());
    let helper = helper.display();
    format!(
        "http_port 127.0.0.1:{port}
pid_filename none
cache deny all
cache_mem 8 MB
access_log none
cache_log /dev/null
coredump_dir {dir}
visible_hostname squid.test
pinger_enable off
shutdown_lifetime 0 seconds

external_acl_type crawlgate concurrency=100 children-max=1 children-startup=1 ttl=0 negative_ttl=0 %/>ru %/{{User-Agent}}>h {helper} squid-helper --url http://{asked}
acl robots external crawlgate
http_access allow robots
http_access deny all
"
    )
}

#[test]
fn squid_fetches_what_is_allowed_and_nothing_else() {
    let Some(squid) = found("squid") else { return };
    let gate = AdminGate::open();
    let origin = Origin::with_rules(
        "User-agent: testbot\nDisallow: /private\nDisallow: /*?secret\nDisallow: /list[\n",
    );
    let free = Origin::https().robots("User-agent: *\nDisallow:\n");
    let bound = Origin::https().robots(RULES);
    let at = |path: &str| origin.url_as("127.0.0.1", path);
    let peer = Peer::start(&squid, &["-N", "-f"], |port, dir| set_up(&gate, port, dir));
    let allowed = peer.request("GET", &at("/open?a=%70"), "");
    assert_eq!((allowed.status, allowed.text().as_str()), (200, "page /open?a=%70"), "{allowed:?}");
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a disallowed page", "GET", "/private/x?a", "robots_disallow"),
        ("a page in another spelling", "GET", "/%70rivate", "robots_disallow"),
        ("a page named by its query", "GET", "/open?secret=1&b", "robots_disallow"),
        ("a page in brackets", "GET", "/list[1]", "robots_disallow"),
        ("a page behind two slashes", "GET", "//private", "path_guard"),
        ("a HEAD request", "HEAD", "/private/head", "robots_disallow"),
    ];
    for (name, method, path, reason) in cases {
        let url = at(path);
        let answer = peer.request(method, &url, "");
        assert_eq!(answer.status, 403, "{name}: {answer:?}");
        let record = gate.process.record_of(&url);
        has!(record, {"reason": reason, "via": "decide", "user_agent": "TestBot/1.0"}, "{name}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /open?a=%70"]);

    let authority = |origin: &Origin| format!("127.0.0.1:{}", origin.port());
    let (answer, _) = peer.tunnel(&authority(&bound));
    assert_eq!(answer.status, 403, "{answer:?}");
    let record = gate.process.record_of(&authority(&bound));
    has!(record, {"reason": "opaque_tunnel", "opaque": true, "method": "CONNECT"});
    let (answer, wire) = peer.tunnel(&authority(&free));
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut inside = wire.tls_as("127.0.0.1").unwrap();
    let page = inside.get_inside("127.0.0.1", "/page");
    assert_eq!((page.status, page.text().as_str()), (200, "page /page"), "{page:?}");
    assert_eq!(bound.seen_but_robots(), [""; 0]);
}

#[test]
fn without_the_gate_squid_fetches_nothing_and_with_it_again() {
    let Some(squid) = found("squid") else { return };
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let url = origin.url_as("127.0.0.1", "/open");
    let peer = Peer::start(&squid, &["-N", "-f"], |port, dir| set_up(&gate, port, dir));
    assert_eq!(peer.request("GET", &url, "").status, 200);
    let address = gate.address;
    drop(gate);
    for _ in 0..3 {
        let answer = peer.request("GET", &url, "");
        assert_eq!(answer.status, 403, "{answer:?}\n{}", peer.said());
    }
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
    let gate = AdminGate::with(|setup| setup.set("admin", "address", &format!("\"{address}\"")));
    assert_eq!(peer.request("GET", &url, "").status, 200, "{}", peer.said());
    drop(gate);
}
