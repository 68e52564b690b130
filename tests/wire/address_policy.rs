//! The address policy: the gate does not dial addresses that only this machine's networks can reach, in any spelling
//! and from any source, and dials the others by the operator's route. Page: `docs/networks.md`.

use serde_json::Value;

use crate::opaque::{SWITCH, upgrade};
use crate::support::{
    CrawlgateProcess, Origin, RULES, Reply, Response, Setup, eventually, origin_ca_pem,
};

/// Starts a gate with the default address policy.
fn default_gate() -> CrawlgateProcess {
    CrawlgateProcess::with(default_policy)
}

pub fn default_policy(setup: &mut Setup) {
    setup.set("egress", "allow", "[]");
}

fn ask(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0\r\n\r\n")
}

/// Asserts that an answer is an `address_prohibited` refusal in every respect, and returns its record.
#[track_caller]
pub fn prohibited(gate: &CrawlgateProcess, answer: &Response) -> Value {
    let record = gate.refused(answer, 403, "address_prohibited");
    let status = answer.field("proxy-status").unwrap();
    says!(status, "error=destination_ip_prohibited");
    assert_eq!(answer.problem()["robots_url"], Value::Null);
    assert_eq!(record["upstream"], Value::Null, "dialled: {record}");
    record
}

#[test]
fn no_spelling_of_an_internal_address_is_dialled() {
    let gate = default_gate();
    let origin = Origin::with_rules(RULES);
    #[rustfmt::skip] // one row, one kind
    let spellings = [
        // loopback
        "127.0.0.1", "127.0.0.2", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.1", "127.0.0.1.",
        "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]", "[::127.0.0.1]", "[::ffff:0:7f00:1]",
        // ... behind translators and relays
        "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::1]",
        // ... by name
        "localhost", "LOCALHOST", "localhost.", "site.test", "site.test.",
        // nowhere
        "0.0.0.0", "0", "0x0", "[::]",
        // private, shared, local
        "10.0.0.1", "0xa.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "[fd00::1]", "[fe80::1]", "[fec0::1]",
        "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]",
        // metadata
        "169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
        "100.100.100.200", "168.63.129.16", "[fd00:ec2::254]",
        // reserved, unassigned or multicast
        "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "192.0.0.1", "[ff02::1]",
        "[2001:db8::1]", "[100::1]", "[2001:20::1]", "[3fff::1]",
    ];
    for host in spellings {
        let answer = gate.connect().exchange(ask(&origin.url_as(host, "/open")));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        prohibited(&gate, &answer);
    }
    // /robots.txt is always allowed, except by the address policy, which also holds inside a tunnel.
    prohibited(&gate, &gate.get(&origin.url("/robots.txt")));
    prohibited(&gate, &gate.get("https://127.0.0.1:443/"));
    prohibited(&gate, &gate.get("https://site.test:443/"));
    assert_eq!(origin.connections(), 0, "{:?}", origin.seen());
}

#[test]
fn the_answer_names_the_way_out_and_the_way_out_opens() {
    let mut gate = default_gate();
    let origin = Origin::with_rules(RULES);
    let by_address = origin.url_as("127.0.0.1", "/open");
    let by_name = origin.url_as("localhost", "/open");
    for url in [&by_address, &by_name] {
        let answer = gate.get(url);
        prohibited(&gate, &answer);
        let detail = answer.problem()["detail"].to_string();
        says!(detail, "this machine itself", "[egress] allow = [\\\"");
    }
    gate.reload(|setup| setup.set("egress", "allow", "[\"127.0.0.0/8\", \"localhost\"]"));
    for url in [&by_address, &by_name] {
        assert_eq!(gate.get(url).text(), "page /open", "{url}");
    }
    // A pooled connection does not outlive a change of the address policy either.
    gate.reload(default_policy);
    for url in [&by_address, &by_name] {
        prohibited(&gate, &gate.get(url));
    }
    assert_eq!(origin.seen_but_robots().len(), 2);
}

#[test]
fn deny_wins_over_allow_also_for_names() {
    let origin = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("egress", "deny", "[\"*.site.test\", \"127.0.0.2\"]");
    });
    assert_eq!(gate.get(&origin.url_as("site.test", "/open")).status, 200);
    for host in ["www.site.test", "127.0.0.2"] {
        let answer = gate.get(&origin.url_as(host, "/open"));
        prohibited(&gate, &answer);
        let detail = answer.problem()["detail"].to_string();
        says!(detail, "[egress] deny");
    }
}

#[test]
fn report_mode_keeps_the_address_policy() {
    let origin = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::with(|setup| {
        default_policy(setup);
        setup.set("policy", "mode", "\"report\"");
    });
    for host in ["127.0.0.1", "localhost", "site.test"] {
        prohibited(&gate, &gate.get(&origin.url_as(host, "/open")));
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn the_proxy_does_not_dial_itself() {
    for (listens, is_open) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let gate = CrawlgateProcess::with(|setup| {
            setup.set("listen", "address", &format!("{listens:?}"));
            setup.set("listen", "open", &is_open.to_string());
            setup.set("egress", "allow", "[\"0.0.0.0/0\", \"::/0\", \"site.test\"]");
        });
        let port = gate.address.port();
        let mut hosts = vec!["127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]", "site.test", "[::]"];
        if is_open {
            hosts.push("127.0.0.9");
        }
        for host in hosts {
            let answer = gate.get(&format!("http://{host}:{port}/"));
            prohibited(&gate, &answer);
            let detail = answer.problem()["detail"].to_string();
            assert!(detail.contains("this proxy itself"), "{host}: {detail}");
        }
    }
}

#[test]
fn connect_reaches_the_ports_that_are_named() {
    let origin = Origin::https().robots(RULES);
    let gate = CrawlgateProcess::with(|setup| {
        let ports = format!("[443, {}]", origin.port());
        setup.set("egress", "connect_ports", &ports);
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.set("upstream.hosts", "\"mail.test\"", "\"8.8.8.8\"");
    });
    let refused = |answer: &Response| {
        gate.refused(answer, 403, "address_prohibited");
        let detail = answer.problem()["detail"].to_string();
        says!(detail, "[egress] connect_ports");
    };
    for (authority, host) in [
        ("mail.test:25", "mail.test"),
        ("8.8.8.8:6379", "8.8.8.8"),
        ("[2606:4700::1]:8080", "[2606:4700::1]"),
    ] {
        // Inside the tunnel, where a client names the host: over TLS and without.
        let mut wire = gate.intercept(authority, host);
        refused(&wire.get_inside(authority, "/"));
        let mut wire = gate.tunnels(authority);
        refused(&wire.get_inside(authority, "/"));
        let wire = gate.tunnels(authority);
        // A client that leaves without a word has requested the tunnel all the same.
        drop(wire);
        gate.record(authority, |record| {
            record["via"] == "tunnel"
                && record["host"] == host
                && record["reason"] == "address_prohibited"
        });
        let mut wire = gate.tunnels(authority);
        assert!(wire.send(b"\x00\x01\x02").is_closed(), "{authority}");
        eventually("both to be recorded", || {
            let records = gate.records();
            let refused = records.iter().filter(|record| {
                record["via"] == "tunnel"
                    && record["host"] == host
                    && record["reason"] == "address_prohibited"
            });
            (refused.count() == 2).then_some(())
        });
    }
    assert_eq!(gate.wait_records(12).len(), 12, "one for each request");
    // A prohibited address is reported as such: allowing it opens every port.
    let mut wire = gate.intercept("10.0.0.1:8443", "10.0.0.1");
    let answer = wire.get_inside("10.0.0.1:8443", "/");
    gate.refused(&answer, 403, "address_prohibited");
    let detail = answer.problem()["detail"].to_string();
    says!(detail, "--allow 10.0.0.1");
    // A host without interception has no requests inside.
    let mut wire = gate.connect();
    let answer = wire.tunnel("bank.test:25");
    refused(&answer);
    assert!(wire.is_closed(), "later octets are no request");
    assert_eq!(gate.get(&origin.url("/open")).text(), "page /open");
    // An allowed address is allowed at every port, as for http.
    let url = origin.url_as("127.0.0.1", "/open");
    let other = Origin::https().robots(RULES);
    assert_eq!(gate.get(&url).text(), "page /open");
    let url = other.url_as("127.0.0.1", "/open");
    assert_eq!(gate.get(&url).text(), "page /open");
    // So is a name that has only such addresses.
    assert_eq!(gate.get(&other.url("/open")).text(), "page /open");
}

#[test]
fn a_redirect_of_robots_txt_leads_to_no_prohibited_address() {
    let inside = Origin::with_rules("User-agent: *\nAllow: /\n");
    let outside = Origin::http();
    let gate = CrawlgateProcess::with(|setup| {
        let allow = format!("[\"127.0.0.1:{}\"]", outside.port());
        setup.set("egress", "allow", &allow);
    });
    for host in ["127.0.0.1", "site.test", "localhost", "[::ffff:127.0.0.1]"] {
        let robots = inside.url_as(host, "/robots.txt");
        outside.script("/robots.txt", [Reply::redirect(302, &robots)]);
        let page = outside.url("/open");
        let answer = gate.get(&page);
        gate.unreachable(&answer);
        let detail = answer.problem()["detail"].to_string();
        says!(detail, "it redirected to what may not be reached");
    }
    assert_eq!(inside.connections(), 0);
    assert_eq!(outside.seen_but_robots(), [""; 0]);
}

#[test]
fn an_opaque_tunnel_does_not_go_to_a_prohibited_address() {
    let origin = Origin::https();
    let gate = CrawlgateProcess::with(|setup| {
        default_policy(setup);
        setup.set("tls", "tunnel", "[\"*\"]");
    });
    for host in ["127.0.0.1", "localhost", "bank.test"] {
        let answer = gate.connect().tunnel(&format!("{host}:{}", origin.port()));
        prohibited(&gate, &answer);
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn run_takes_allowed_addresses_on_its_command_line() {
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let mut setup = Setup::new();
    default_policy(&mut setup);
    let script = format!("curl -sS {url}");
    let run = |arguments: &[&str]| {
        let mut command = setup.command("run");
        let output = command.args(arguments).args(["--", "sh", "-c", &script]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let said = run(&[]);
    says!(said, "--allow 127.0.0.0/8");
    assert_eq!(run(&["--allow", "127.0.0.0/8"]), "page /open");
}

#[test]
fn what_is_open_to_an_address_ends_when_the_address_becomes_prohibited() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("tls", "tunnel", "[\"bank.test\"]"));
    let tls = Origin::https();
    let plain = Origin::http().on("/socket", [Reply::raw(SWITCH).echo()]);
    let authority = format!("bank.test:{}", tls.port());
    let mut wire = gate.tunnels(&authority).tls("bank.test", origin_ca_pem());
    wire.passes_inside(&authority, "/inside");
    let mut socket = gate.connect();
    socket.exchange(upgrade(&plain.url("/socket"), &plain.authority())).is(101);
    // No name is denied.
    let prohibit = |setup: &mut Setup| setup.set("egress", "deny", "[\"127.0.0.0/8\"]");
    gate.reload(prohibit);
    for port in [tls.port(), plain.port()] {
        let record = gate.record("the end", |record| record["port"] == port);
        assert_eq!(record["error"], "http_request_denied", "{record}");
    }
    drop((wire, socket));
}
