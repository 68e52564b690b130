//! Habits of FTP servers and clients beside the standards: Twisted, ftp-srv, aria2.

use std::time::{Duration, SystemTime};

use httpdate::{fmt_http_date, parse_http_date};

use super::hostile::{files, impatient, unreachable};
use crate::support::ftp::{FtpServer, Sending};
use crate::support::{CrawlgateProcess, RULES};

#[test]
fn the_anonymous_user_in_a_url_is_no_other_url() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES).file("open", "x").file("private/x", "secret");
    for user in ["anonymous@", "ftp@"] {
        let named = |path: &str| server.url(path).replace("://", &format!("://{user}"));
        gate.get(&named("/open")).is_origins(200, "x");
        has!(gate.record_of(&server.url("/open")), {"url": server.url("/open")});
        gate.denies(&named("/private/x"));
        let setup = &gate.setup;
        assert_eq!(setup.run("check", &[&named("/private/x")]).0, Some(1));
    }
    assert_eq!(server.named(), ["SIZE open", "MDTM open", "RETR open"].repeat(2));
}

#[test]
fn a_directory_with_a_size_is_no_file() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::start()
        .file("pub/f", "0123456789")
        .says("SIZE pub", "213 4096")
        .says("MDTM pub", "213 20241120120000")
        .says("RETR pub", "551 Cannot read a directory");
    for (method, fields) in [
        ("HEAD", ""),
        ("GET", ""),
        ("GET", "Range: bytes=0-9\r\n"),
        ("GET", "Range: bytes=9999-\r\n"),
    ] {
        let answer = gate.request(method, &server.url("/pub"), fields);
        assert_eq!(answer.status, 301, "{method} {fields}{answer:?}");
        assert_eq!(answer.field("location"), Some(server.url("/pub/")));
    }
    let file = gate.request("HEAD", &server.url("/pub/f"), "");
    file.field_is("content-length", Some("10"));
}

#[test]
fn a_modification_never_lies_in_the_future() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::start().file("f", "0123456789").says("MDTM f", "213 99991120120000");
    let before = SystemTime::now();
    let answer = gate.get(&server.url("/f"));
    let modified = parse_http_date(&answer.field("last-modified").unwrap()).unwrap();
    let second = Duration::from_secs(1);
    assert!(modified >= before - second && modified <= SystemTime::now());
    // A date that stands for another one tells nothing of the version.
    let date = fmt_http_date(SystemTime::now());
    let fields = format!("Range: bytes=2-5\r\nIf-Range: {date}\r\n");
    gate.request("GET", &server.url("/f"), &fields).is_origins(200, "0123456789");
}

#[test]
fn a_file_that_is_not_there_may_be_refused_by_another_code() {
    let gate = CrawlgateProcess::start();
    for code in ["551", "553"] {
        let missing = FtpServer::start()
            .file("open", "x")
            .says("RETR robots.txt", &format!("{code} ENOENT: no such file"))
            .says("RETR none", &format!("{code} ENOENT: no such file"));
        gate.get(&missing.url("/open")).is_origins(200, "x");
        assert_eq!(gate.get(&missing.url("/none")).status, 404, "{code}");
        // Only if SIZE and MDTM have both said so.
        for (step, reply) in [
            ("SIZE", "213 0"),
            ("MDTM", "213 20241120120000"),
            ("SIZE", "500 what?"),
            ("MDTM", "451 not now"),
        ] {
            let step = format!("{step} robots.txt");
            let other = FtpServer::start()
                .says("RETR robots.txt", &format!("{code} no"))
                .says(&step, reply);
            unreachable(&gate, &other, &format!("ftp_{code}:no"));
        }
    }
}

#[test]
fn the_control_connection_ends_a_transfer() {
    let pages = ["connect_timeout", "response_timeout", "body_timeout"];
    let gate = impatient("upstream", pages);
    let sendings = [
        Sending::Refused(3, "451 local error"),
        Sending::Refused(0, "550 no"),
        Sending::Refused(3, "this is no reply"),
        Sending::Gone(3),
    ];
    for sending in sendings {
        let server = FtpServer::with_rules("User-agent: *\n").sends("robots.txt", sending);
        unreachable(&gate, &server, "incomplete");
        for (name, path) in [("open", "/open"), ("open", "/open;type=a"), ("pub/", "/pub/")] {
            let server = files().sends(name, sending);
            let answer = gate.get(&server.url(path));
            assert!(answer.status == 200 && !answer.whole, "{answer:?}");
            has!(gate.record_of(&server.url(path)), {"error": "http_response_incomplete"});
        }
    }
    // A confirmation that comes first ends nothing.
    let early = files()
        .file("robots.txt", RULES)
        .sends("robots.txt", Sending::Confirmed)
        .sends("open", Sending::Confirmed)
        .sends("/", Sending::Confirmed);
    gate.denies(&early.url("/private"));
    gate.get(&early.url("/open")).is_origins(200, "0123456789");
    assert!(gate.get(&early.url("/")).whole);
}

#[test]
fn a_refusal_is_told_as_the_server_says_it() {
    let gate = CrawlgateProcess::start();
    let said = "530 Anonymous \x1b[1msessions must use encryption.";
    let told = "530 Anonymous ?[1msessions must use encryption.";
    let server = FtpServer::with_rules("").says("USER", said);
    let answer = gate.get(&server.url("/open"));
    let record = gate.unreachable(&answer);
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    says!(detail, &format!("its FTP server replied {told}"));
    let cause = &record["robots"]["unreachable"]["cause"];
    assert_eq!(*cause, format!("ftp_530:{}", &told[4..]), "{record}");
    has!(record, {"robots.status": null});
    for (command, words) in
        [("check", vec![server.url("/open")]), ("origins", vec!["show".to_owned(), server.url("")])]
    {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let shown = gate.beside_until(command, &words, |out| out.contains("530"));
        assert!(shown.contains(told), "{command}: {shown}");
        assert!(!shown.contains("502"), "{command}: {shown}");
    }
    let missing = FtpServer::start().file("open", "x");
    gate.get(&missing.url("/open")).is_origins(200, "x");
    let words = ["show", &missing.url("")];
    let shown = gate.beside_until("origins", &words, |out| out.contains("unavailable"));
    says!(shown, "replied 550 no such file");
    assert!(!shown.contains("404"), "{shown}");
}
