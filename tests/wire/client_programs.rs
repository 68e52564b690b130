//! `crawlgate client` and `run`, and real HTTP clients that send credentials. Page: `docs/clients.md`.

use std::process::{Command, Stdio};

use crate::client_credentials::kept_secret;
use crate::clients::{PASSWORD, ask, basic, entry, gate_with};
use crate::support::{CrawlgateProcess, Origin, RULES, Setup};

#[test]
fn entries_are_created_listed_and_checked_by_command() {
    let setup = Setup::new();
    let client = |setup: &Setup, words: &[&str], input: &str| {
        let mut command = setup.command("client");
        let child = command.args(words).stdin(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that reads nothing may have ended already.
        drop(std::io::Write::write_all(&mut stdin, input.as_bytes()));
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let line = format!("{PASSWORD}\n");
    let words = ["add", "news", "--agent", "NewsBot", "--password-stdin"];
    let (code, made, said) = client(&setup, &words, &line);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        made.starts_with(
            "[[client]]\nname = \"news\"\npassword = \"$argon2id$v=19$m=19456,t=2,p=1$"
        )
    );
    assert!(!made.contains(PASSWORD) && !said.contains(PASSWORD), "{made}{said}");

    let mut setup = setup;
    setup.tables(&made);
    #[rustfmt::skip] // one row, one case
    let cases = [
        (&["check", "news"][..], &*line, 0, "news: right\n"),
        (&["check", "news"], "another one\n", 1, "news: wrong\n"),
        (
            &["list"],
            "",
            0,
            "name  recognised by  product tokens  mode  exempt\nnews  password       NewsBot         -     -\n",
        ),
        (&["check", "nobody"], &line, 2, "no client is named \"nobody\"; there are: news"),
        (&["add", "news", "--generate"], "", 2, "a client is named \"news\" already"),
        (&["add", "side", "--password-stdin"], "short\n", 2, "a password has at least 8 octets"),
        (&["add", "Side", "--generate"], "", 2, "expected a name of 1 to 64"),
        (&["add", "side"], "", 2, ""),
    ];
    for (words, input, code, told) in cases {
        let (found, out, said) = client(&setup, words, input);
        assert_eq!(found, Some(code), "{words:?}: {out}{said}");
        assert!((out + &said).contains(told), "{words:?}: {said}");
    }
    // The created entry lets the client in.
    let gate = CrawlgateProcess::with(|setup| setup.tables(&made));
    let origin = Origin::with_rules(RULES);
    let answer = ask(&mut gate.connect(), &origin.url("/open"), &basic("news", PASSWORD));
    answer.is_origins(200, "page /open");
    kept_secret(&gate);
}

#[test]
fn a_run_is_unnamed_or_the_named_client() {
    let mut setup = Setup::new();
    setup.tables(
        &(entry("news", "product_tokens = 'OtherBot'") + &entry("trial", "mode = 'report'")),
    );
    let origin = Origin::with_rules("User-agent: OtherBot\nDisallow: /\n");
    let run = |words: &[&str]| {
        let curl = ["--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"];
        let mut command = setup.command("run");
        let output = command.args(words).args(curl).arg(origin.url("/x")).output().unwrap();
        let (out, said) = (output.stdout, output.stderr);
        format!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&said))
    };
    for (words, told) in [
        (&["-q"][..], "200"),
        (&["-q", "--client", "news"], "403"),
        (&["-q", "--client", "news", "--report"], "200"),
        (&["-q", "--client", "nobody"], "there are: news, trial"),
    ] {
        let said = run(words);
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

/// Runs a real client for an allowed and a disallowed page, over HTTP and HTTPS, with right and with wrong credentials.
/// `command` gets the proxy, the CA file and the URL, and returns a command that prints the status; for a refused
/// CONNECT, the status of the CONNECT.
fn real_client(probe: &[&str], command: impl Fn(&str, &str, &str) -> Vec<String>) {
    let (program, words) = probe.split_first().unwrap();
    let probed = Command::new(program).args(words).output();
    if !probed.is_ok_and(|output| output.status.success()) {
        let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{probe:?} does not work");
        return;
    }
    let gate = gate_with(&entry("news", ""));
    let (http, https) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let page = |origin: &Origin, path: &str| {
        let scheme = origin.url("/").split_once(':').unwrap().0.to_owned();
        format!("{scheme}://site.test:{}{path}", origin.port())
    };
    let ca = gate.setup.dir().join("ca.crt");
    for (password, want) in [(PASSWORD, ["200", "403"]), ("wrong", ["407", "407"])] {
        let proxy = format!("http://news:{password}@{}", gate.address);
        for origin in [&http, &https] {
            for (path, want) in ["/open", "/private"].into_iter().zip(want) {
                let words = command(&proxy, ca.to_str().unwrap(), &page(origin, path));
                let (program, words) = words.split_first().unwrap();
                let mut command = Command::new(program);
                for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
                    command.env_remove(name).env_remove(name.to_uppercase());
                }
                let output = command.args(words).output().unwrap();
                let printed = String::from_utf8_lossy(&output.stdout).into_owned();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(printed.trim(), want, "{password} {path}: {said}");
            }
        }
    }
    assert_eq!(http.seen_but_robots(), ["GET /open"]);
    assert_eq!(https.seen_but_robots(), ["GET /open"]);
}

fn curl(dance: &str, proxy: &str, ca: &str, url: &str) -> Vec<String> {
    // For a refused CONNECT, curl prints no status of the request.
    let script = "set -- $(curl -s -o /dev/null -w '%{http_code} %{http_connect}' \"$@\"); \
        if [ $1 = 000 ]; then echo $2; else echo $1; fi";
    let words =
        ["sh", "-c", script, "sh", dance, "-x", proxy, "--cacert", ca, "-A", "TestBot/1.0", url];
    words.map(str::to_owned).to_vec()
}

#[test]
fn curl_sends_its_credentials_at_once_or_after_a_407() {
    for dance in ["--proxy-basic", "--proxy-anyauth"] {
        real_client(&["curl", "--version"], |proxy, ca, url| curl(dance, proxy, ca, url));
    }
}

#[test]
fn requests_sends_the_credentials_of_its_proxy() {
    let script = "import sys, requests\nproxy, ca, url = sys.argv[1:]\n\
        try: print(requests.get(url, proxies={'http': proxy, 'https': proxy}, verify=ca, headers={'User-Agent': 'TestBot/1.0'}).status_code)\n\
        except requests.exceptions.ProxyError as error: print(407 if '407' in str(error) else error)\n";
    real_client(&["python3", "-c", "import requests"], |proxy, ca, url| {
        ["python3", "-c", script, proxy, ca, url].map(str::to_owned).to_vec()
    });
}

#[test]
fn urllib_sends_the_credentials_of_its_proxy() {
    let script = "import sys, ssl, urllib.request as u, urllib.error\nproxy, ca, url = sys.argv[1:]\n\
        opener = u.build_opener(u.ProxyHandler({'http': proxy, 'https': proxy}), u.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))\n\
        opener.addheaders = [('User-Agent', 'TestBot/1.0')]\n\
        try: print(opener.open(url).status)\n\
        except urllib.error.HTTPError as error: print(error.code)\n\
        except OSError as error: print(407 if '407' in str(error) else error)\n";
    real_client(&["python3", "--version"], |proxy, ca, url| {
        ["python3", "-c", script, proxy, ca, url].map(str::to_owned).to_vec()
    });
}
