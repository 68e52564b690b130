//! `crawlgate squid-helper` in Squid's protocol: lines in, lines out.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rcgen::{CertificateParams, KeyPair};

use crate::support::{AdminGate, Latch, Origin, RULES, Reply, program};

struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    fn start(gate: &AdminGate, words: &[&str]) -> Helper {
        let url = format!("http://{}", gate.address);
        Helper::told(&[&["--url", &url], words].concat())
    }

    /// Starts the helper with these arguments and no others.
    fn told(words: &[&str]) -> Helper {
        let mut child = Command::new(program())
            .arg("squid-helper")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Helper {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    #[track_caller]
    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// Closes its input and waits for its end.
    fn end(mut self) -> (Option<i32>, String) {
        self.input = None;
        let mut rest = String::new();
        while self.output.read_line(&mut rest).unwrap() > 0 {}
        (self.child.wait().unwrap().code(), rest)
    }
}

#[test]
fn each_line_gets_its_answer() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let bound = Origin::https().robots(RULES);
    let mut helper = Helper::start(&gate, &[]);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("allowed", format!("0 {} TestBot/1.0 -", origin.url("/open")), "0 OK tag=\"robots_allow\" log=\""),
        (
            "denied",
            format!("1 {} \"TestBot/1.0 (x)\" -", origin.url("/private")),
            "1 ERR message=\"The robots.txt of http://site.test",
        ),
        ("encoded", format!("2 {} - -", origin.url("/%70rivate")), "2 ERR message=\"The robots.txt of "),
        ("a tunnel", format!("3 {} TestBot/1.0 -", bound.authority()), "3 ERR message=\"https://site.test"),
        ("no URL", "4 - - -".to_owned(), "4 BH message=\"the line does not hold a URL"),
        ("no channel", "what is this".to_owned(), "BH message=\"the line begins with no channel"),
        ("an invalid URL", "5 http:// A -".to_owned(), "5 ERR message=\"The request target cannot be read"),
    ];
    for (name, line, answer) in cases {
        let heard = helper.ask(&line);
        assert!(heard.starts_with(answer), "{name}: {heard}");
        if heard.contains("tag=\"robots_disallow\"") {
            let (_, id) = heard.trim_end().rsplit_once("log=\"").unwrap();
            let id = id.trim_end_matches('"');
            has!(gate.process.record(name, |record| record["id"] == id), {"via": "decide"});
        }
    }
    let (code, rest) = helper.end();
    assert_eq!((code, rest.as_str()), (Some(0), ""));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_waiting_question_delays_no_other() {
    let latch = Latch::new();
    let gate = AdminGate::open();
    let rules = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{RULES}", RULES.len());
    let slow = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(rules)]);
    let fast = Origin::with_rules(RULES);
    let mut helper = Helper::start(&gate, &["--concurrency", "3"]);
    helper.say(&format!("0 {} A -", slow.url("/open")));
    helper.say(&format!("1 {} A -", slow.url("/private")));
    latch.arrivals(1);
    for _ in 0..50 {
        let heard = helper.ask(&format!("2 {} A -", fast.url("/open")));
        assert!(heard.starts_with("2 OK "), "{heard}");
    }
    latch.open();
    let mut late = [helper.hear(), helper.hear()];
    late.sort();
    assert!(late[0].starts_with("0 OK ") && late[1].starts_with("1 ERR "), "{late:?}");
    assert_eq!(helper.end().0, Some(0));
}

#[test]
fn questions_before_the_end_of_input_are_answered() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let mut helper = Helper::start(&gate, &["--concurrency", "0"]);
    for path in ["/open", "/private", "/private/open"] {
        helper.say(&format!("{} TestBot/1.0 -", origin.url(path)));
    }
    let (code, answers) = helper.end();
    let words: Vec<_> = answers.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!((code, words), (Some(0), vec!["OK", "ERR", "OK"]), "in order, without channels");
}

#[test]
fn without_a_running_instance_nothing_is_allowed() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let line = format!("7 {} TestBot/1.0 -", origin.url("/open"));
    let mut helper = Helper::start(&gate, &[]);
    assert!(helper.ask(&line).starts_with("7 OK "));
    let address = gate.address;
    drop(gate);
    for _ in 0..3 {
        let heard = helper.ask(&line);
        assert!(heard.starts_with("7 BH message=\"http://127.0.0.1:"), "{heard}");
    }
    let gate = AdminGate::with(|setup| setup.set("admin", "address", &format!("\"{address}\"")));
    let heard = helper.ask(&line);
    assert!(heard.starts_with("7 OK "), "{heard}");
    drop(gate);
    assert_eq!(helper.end().0, Some(0));
}

#[test]
fn the_helper_sends_the_token_and_the_instance_requires_it() {
    let gate = AdminGate::with(|setup| setup.set("admin", "token_file", "\"admin.token\""));
    let origin = Origin::with_rules(RULES);
    let line = format!("0 {} TestBot/1.0 -", origin.url("/open"));
    let heard = Helper::start(&gate, &[]).ask(&line);
    assert!(heard.starts_with("0 BH ") && heard.contains("--token-file"), "{heard}");
    let token = gate.process.setup.dir().join("admin.token");
    assert!(!fs::read_to_string(&token).unwrap().trim().is_empty());
    let mut helper = Helper::start(&gate, &["--token-file", token.to_str().unwrap()]);
    assert!(helper.ask(&line).starts_with("0 OK "));
    assert_eq!(helper.end().0, Some(0));
}

#[test]
fn the_configuration_gives_the_address_and_token_of_the_instance() {
    let gate = AdminGate::with(|setup| setup.set("admin", "token_file", "\"admin.token\""));
    let origin = Origin::with_rules(RULES);
    let line = format!("0 {} TestBot/1.0 -", origin.url("/open"));
    let file = gate.process.setup.dir().join("helper.toml");
    for (listens, is_asked) in [("127.0.0.1", true), ("0.0.0.0", true), ("", false)] {
        let address = match listens {
            "" => String::new(),
            ip => format!("{ip}:{}", gate.address.port()),
        };
        let text = format!("[admin]\naddress = \"{address}\"\ntoken_file = \"admin.token\"\n");
        fs::write(&file, text).unwrap();
        let mut helper = Helper::told(&["-c", file.to_str().unwrap()]);
        if is_asked {
            let heard = helper.ask(&line);
            assert!(heard.starts_with("0 OK "), "{listens}: {heard}");
        }
        let code = if is_asked { 0 } else { 2 };
        assert_eq!(helper.end().0, Some(code), "{listens}");
    }
    // An argument takes precedence.
    let mut helper = Helper::start(&gate, &["-c", file.to_str().unwrap()]);
    assert!(helper.ask(&line).starts_with("0 OK "));
}

#[test]
fn an_instance_with_a_certificate_is_asked_over_tls_and_no_other_is_believed() {
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "gate.example"].map(str::to_owned);
    let params = CertificateParams::new(names).unwrap();
    let cert = params.self_signed(&key).unwrap().pem();
    let gate = AdminGate::with(|setup| {
        for (name, text) in [("console.pem", cert), ("console.key", key.serialize_pem())] {
            let path = setup.dir().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        setup.set("admin", "token_file", "\"admin.token\"");
        setup.set("admin", "cert", "\"console.pem\"");
        setup.set("admin", "key", "\"console.key\"");
    });
    let origin = Origin::with_rules(RULES);
    let line = format!("0 {} TestBot/1.0 -", origin.url("/open"));
    let dir = gate.process.setup.dir().to_owned();
    let text = format!(
        "[admin]\naddress = \"{}\"\ntoken_file = \"admin.token\"\ncert = \"console.pem\"\nkey = \"console.key\"\n",
        gate.address
    );
    #[rustfmt::skip] // one row, one case
    let [file, named, misnamed] = [
        ("helper.toml", ""),
        ("named.toml", "hosts = [\"gate.example\", \"other.example\"]\n"),
        ("misnamed.toml", "hosts = \"other.example\"\n"),
    ]
    .map(|(name, hosts)| {
        let file = dir.join(name);
        fs::write(&file, format!("{text}{hosts}")).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let url = format!("https://{}", gate.address);
    let plain = format!("http://{}", gate.address);
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (token, cert) = (path("admin.token"), path("console.pem"));
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("the configuration", vec!["-c", &file], true),
        ("the name in it", vec!["-c", &named], true),
        ("a name that the certificate lacks", vec!["-c", &misnamed], false),
        ("the address, beside such a name", vec!["-c", &misnamed, "--url", &url], true),
        ("a trusted certificate", vec!["--url", &url, "--token-file", &token, "--ca", &cert], true),
        ("one that is not trusted", vec!["--url", &url, "--token-file", &token], false),
        ("without TLS", vec!["--url", &plain, "--token-file", &token], false),
    ];
    for (name, words, is_answered) in rows {
        let mut helper = Helper::told(&words);
        let heard = helper.ask(&line);
        let start = if is_answered { "0 OK " } else { "0 BH " };
        assert!(heard.starts_with(start), "{name}: {heard}");
        assert_eq!(helper.end().0, Some(0), "{name}");
    }
}

#[test]
fn unusable_arguments_are_refused_at_once() {
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("no http", ["--url", "ftp://127.0.0.1:8119"], "--url"),
        ("no token", ["--token-file", "/nonexistent/token"], "--token-file /nonexistent/token: "),
        ("no certificates", ["--ca", "/nonexistent/ca.pem"], "--ca /nonexistent/ca.pem: "),
        ("no time", ["--timeout", "soon"], "60s"),
    ];
    for (name, words, said) in rows {
        let output = Command::new(program())
            .arg("squid-helper")
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(said), "{name}: {errors}");
    }
}
