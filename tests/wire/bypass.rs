//! The bypass table, first half: spellings of a URL that could make a careless gate judge one thing and fetch another.
//! For each denial the origin has seen only `/robots.txt`. `http2/bypass.rs` has the other rows on streams of HTTP/2.
//! Page: `docs/path-guard.md`.

use http::Version;

use crate::support::{CrawlgateProcess, Origin, RULES};

/// The versions of HTTP that a crawler may ask by, each with an origin for it.
const VERSIONS: [(Version, fn() -> Origin); 3] = [
    (Version::HTTP_11, Origin::http),
    (Version::HTTP_11, Origin::https),
    (Version::HTTP_2, Origin::https),
];

fn ask(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n")
}

#[test]
fn path_spellings_of_a_disallowed_page_are_denied() {
    let gate = CrawlgateProcess::start();
    let cases = [
        ("/private", "robots_disallow"),
        ("/%70rivate", "robots_disallow"),
        ("/%70%72%69%76%61%74%65", "robots_disallow"),
        ("/privat%65/deep", "robots_disallow"),
        ("/private/", "robots_disallow"),
        ("/private%2f", "robots_disallow"),
        ("/%2Fprivate", "path_guard"),
        ("/private;x=1", "robots_disallow"),
        ("/private?", "robots_disallow"),
        ("/private?x", "robots_disallow"),
        ("/private/../open", "robots_disallow"),
        ("//private", "path_guard"),
        ("///private", "path_guard"),
        ("/./private", "path_guard"),
        ("/a/../private", "path_guard"),
        ("/a/%2e%2e/private", "path_guard"),
        ("/a/.%2E/%70rivate", "path_guard"),
        ("/a//../../private", "path_guard"),
        ("/../private", "path_guard"),
        ("/robots.txt/../private", "path_guard"),
        ("//robots.txt/../private", "path_guard"),
        ("/%2570rivate", "path_guard"),
        ("/open/..%2f%70rivate", "path_guard"),
        ("/open%2F..%252Fprivate", "path_guard"),
        ("/open/..;x/private", "path_guard"),
        ("/;x/private", "path_guard"),
        ("//host/private", "path_guard"),
        ("/%5Chost%5Cprivate", "path_guard"),
        ("/open%5C..%5Cprivate", "path_guard"),
        ("/pri%80vate", "path_guard"),
        ("/pri%09vate/x", "path_guard"),
        ("/pri%0D%0Avate", "path_guard"),
        ("/%u0070rivate", "path_guard"),
        ("/x/.%FF./private", "path_guard"),
    ];
    for (version, origin) in VERSIONS.map(|(version, origin)| (version, origin())) {
        let origin = origin.robots(RULES);
        for (path, reason) in cases {
            let answer = gate.get_by(version, &origin.url(path));
            assert_eq!(answer.problem()["reason"], reason, "{path}: {answer:?}");
            let record = gate.refused(&answer, 403, reason);
            assert_eq!(record["rule"]["text"], "Disallow: /private", "{path}");
            has!(record, {"url": origin.url(path)}, "the record has the URL as received");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn allowed_paths_arrive_octet_for_octet() {
    let gate = CrawlgateProcess::start();
    let paths = [
        "/PRIVATE",
        "/priva",
        "/a%2Fprivate",
        "/open%2fx",
        "/%7euser/%C3%a9",
        "/a/b/../c/./d//e",
        "/open?q=/private&r=%zz",
        "/open?",
        "/open?a=b?c",
        "/open?next=%2Fx%2F..%2Fprivate",
        "/*$",
        "/a;b=c,d:e@f!g'h(i)",
        "/robots.txt?x=1",
        "/private/open/../open",
    ];
    for (version, origin) in VERSIONS.map(|(version, origin)| (version, origin())) {
        let origin = origin.robots(RULES);
        for path in paths {
            let answer = gate.get_by(version, &origin.url(path));
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_eq!(origin.last(path).line(), format!("GET {path}"));
        }
    }
}

#[test]
fn only_robots_txt_itself_is_free_of_its_rules() {
    let gate = CrawlgateProcess::start();
    let others = [
        "/robots.txt/",
        "/ROBOTS.TXT",
        "/robots.txt;x",
        "/robots.txtx",
        "/x/robots.txt",
        "//robots.txt",
        "/robots.txt/../x",
        "/robots%2Etxt/x",
        "/robots.txt%00",
    ];
    for (version, origin) in VERSIONS.map(|(version, origin)| (version, origin())) {
        let rules = "User-agent: *\nDisallow: /\n";
        let origin = origin.robots(rules);
        let file = gate.get_by(version, &origin.url("/robots.txt"));
        assert_eq!(file.text(), rules);
        for path in others {
            let answer = gate.get_by(version, &origin.url(path));
            assert_eq!(answer.status, 403, "{path}: {answer:?}");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn an_empty_path_is_the_root() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules("User-agent: *\nDisallow: /?private\n");
    let root = format!("http://{}", origin.authority());
    for (url, arrives) in [
        (root.clone(), "GET /"),
        (format!("{root}?open"), "GET /?open"),
    ] {
        assert_eq!(
            gate.connect()
                .exchange(ask("GET", &url, "Host: x\r\n"))
                .status,
            200,
            "{url}"
        );
        assert_eq!(origin.seen().last().unwrap().line(), arrives);
    }
    gate.denied(
        &gate
            .connect()
            .exchange(ask("GET", &format!("{root}?private"), "Host: x\r\n")),
    );
}

#[test]
fn rules_and_paths_beyond_ascii_meet_in_one_form() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules("User-agent: *\nDisallow: /café\nDisallow: /%E3%81%82\n");
    for path in ["/caf%C3%A9", "/caf%c3%a9/menu", "/%e3%81%82"] {
        gate.denies(&origin.url(path));
    }
    let mut wire = gate.connect();
    let raw = wire.exchange(ask("GET", &origin.url("/café"), "Host: x\r\n"));
    assert!(raw.status == 403 || raw.status == 400, "{raw:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_fragment_neither_decides_nor_passes() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES);
    for path in ["/private#x", "/open#/../private", "/private?#x"] {
        let answer = gate
            .connect()
            .exchange(ask("GET", &origin.url(path), "Host: x\r\n"));
        let denied = answer.status == 403 || answer.status == 400;
        assert!(denied || path.starts_with("/open"), "{path}: {answer:?}");
    }
    assert!(
        origin
            .seen()
            .iter()
            .all(|seen| !seen.line().contains(['#', '.']) || seen.line().ends_with("/robots.txt"))
    );
}

#[test]
fn host_spellings_are_one_origin_with_one_robots_txt() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES);
    for host in [
        "site.test",
        "SITE.Test",
        "site.test.",
        "user@site.test",
        "user:private@site.test",
    ] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        let record = gate.denied(&answer);
        assert_eq!(record["host"], "site.test", "{host}");
        lacks!(record["url"].as_str().unwrap(), "user"; "user information in a record");
    }
    assert_eq!(
        (origin.robots_fetches(), origin.seen_but_robots()),
        (1, Vec::new())
    );
    let answer = gate.connect().exchange(ask(
        "GET",
        &origin.url_as("user:word@site.test", "/open"),
        "Host: x\r\n",
    ));
    answer.is_origins(200, "page /open");
    let open = origin.last("/open").head;
    assert_eq!(open.field("host"), Some(origin.authority()));
    lacks!(open.text(), "word"; "user information went to the origin");
}

#[test]
fn address_spellings_are_the_address_they_name() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES);
    for host in ["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1"] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        assert_eq!(gate.denied(&answer)["host"], "127.0.0.1", "{host}");
    }
    assert_eq!(origin.robots_fetches(), 1);
    for host in [
        "[::ffff:127.0.0.1]",
        "[::FFFF:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
    ] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        assert_eq!(gate.denied(&answer)["host"], "[::ffff:7f00:1]", "{host}");
    }
    assert_eq!(
        (origin.robots_fetches(), origin.seen_but_robots()),
        (2, Vec::new())
    );
}

#[test]
fn international_names_are_judged_as_punycode() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES);
    gate.denies(&origin.url_as("xn--bcher-kva.test", "/private"));
    gate.denies(&origin.url_as("XN--Bcher-KVA.test", "/private"));
    for host in ["bücher.test", "b%C3%BCcher.test", "BÜCHER.test"] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert!(matches!(answer.status, 400 | 403), "{host}: {answer:?}");
    }
    assert_eq!(
        (origin.robots_fetches(), origin.seen_but_robots()),
        (1, Vec::new())
    );
}

#[test]
fn the_default_port_is_no_port() {
    let gate = CrawlgateProcess::start();
    for url in ["http://site.test:80/private", "http://site.test/private"] {
        let record = gate.unreachable(&gate.get(url));
        has!(record, {"robots.url": "http://site.test/robots.txt", "port": 80});
    }
}

#[test]
fn a_robots_txt_speaks_for_its_own_host_and_port_only() {
    let gate = CrawlgateProcess::start();
    for (version, origin) in VERSIONS {
        let (strict, free) = (origin().robots("User-agent: *\nDisallow: /\n"), origin());
        gate.denied(&gate.get_by(version, &strict.url("/a")));
        gate.get_by(version, &free.url("/a"))
            .is_origins(200, "page /a");
        gate.denied(&gate.get_by(version, &strict.url_as("www.site.test", "/a")));
        assert_eq!(
            strict.robots_fetches(),
            2,
            "www.site.test has a robots.txt of its own"
        );
        assert_eq!(strict.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn an_https_url_in_absolute_form_is_judged_and_fetched_over_tls() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::https().robots(RULES);
    let mut wire = gate.connect();
    has!(gate.denied(&wire.get(&origin.url("/private"))), {"scheme": "https"});
    wire.get(&origin.url("/open")).is_origins(200, "page /open");
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn other_schemes_are_not_forwarded() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http();
    for scheme in ["ftps", "wsx", "file", "httpx"] {
        let url = origin.url("/open").replace("http:", &format!("{scheme}:"));
        let answer = gate.connect().exchange(ask("GET", &url, "Host: x\r\n"));
        assert!(matches!(answer.status, 400 | 501), "{scheme}: {answer:?}");
        gate.refused(&answer, answer.status, "bad_request");
    }
    assert_eq!(origin.connections(), 0);
}
