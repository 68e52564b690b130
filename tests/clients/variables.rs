//! Clients with variables and files of their own for the proxy and its certificates, and inherited ones that would lead past
//! the proxy.

use std::fs;

use crate::visit::{Visit, client, finish, missing, printed_statuses};

#[test]
fn emacs() {
    let emacs = or_skip!(client("Emacs", "CRAWLGATE_EMACS", &["emacs"], &["--version"]));
    let program = "(dolist (url command-line-args-left)
        (let ((answer (url-retrieve-synchronously url t t)))
            (princ (with-current-buffer answer (goto-char (point-min)) (nth 1 (split-string (thing-at-point 'line)))))
            (terpri)))
        (setq command-line-args-left nil)";
    let visit = Visit::new();
    let file = visit.setup.dir().join("crawl.el");
    fs::write(&file, format!("(require 'url)\n(require 'thingatpt)\n{program}")).unwrap();
    let trust = "(with-eval-after-load 'gnutls (push \"{ca}\" gnutls-trustfiles))";
    let start = [&emacs, "--batch", "-Q", "--eval", trust, "-l", file.to_str().unwrap()];
    let start = start.map(str::to_owned).into_iter();
    let outcome = visit.run(start.chain(visit.urls()));
    printed_statuses(&outcome);
    visit.held(&outcome);
}

#[test]
fn bun() {
    let bun = or_skip!(client("Bun", "CRAWLGATE_BUN", &["bun"], &["--version"]));
    let clients = [
        "async (url) => (await fetch(url)).status",
        // Reads the variables only where one more tells it to.
        "(url) => new Promise((done, failed) => require(url.split(':')[0])\
            .get(url, (answer) => { answer.resume(); done(answer.statusCode); }).on('error', failed))",
    ];
    for client in clients {
        let visit = Visit::new();
        let program = format!(
            "const ask = {client};\nfor (const url of process.argv.slice(1)) console.log(await ask(url));\n\
             process.exit(0);"
        );
        let start = [bun.clone(), "-e".to_owned(), program];
        let outcome = visit.run(start.into_iter().chain(visit.urls()));
        printed_statuses(&outcome);
        visit.held(&outcome);
    }
}

#[test]
fn perl() {
    #[rustfmt::skip] // one row, one case
    let clients = [
        ("LWP::UserAgent", "print LWP::UserAgent->new->get($_)->code, qq(\n) for @ARGV"),
        ("Mojo::UserAgent", "print Mojo::UserAgent->new->get($_)->res->code, qq(\n) for @ARGV"),
    ];
    for (module, program) in clients {
        let use_it = format!("-M{module}");
        let probe = [use_it.as_str(), "-MIO::Socket::SSL", "-e", "1"];
        let Some(perl) = client(module, "CRAWLGATE_PERL", &["perl"], &probe) else {
            continue;
        };
        let visit = Visit::new();
        let start = [perl, use_it, "-e".to_owned(), program.to_owned()];
        let outcome = visit.run(start.into_iter().chain(visit.urls()));
        printed_statuses(&outcome);
        visit.held(&outcome);
    }
}

#[test]
fn php_with_its_own_settings() {
    let probe = ["-r", "curl_init();"];
    let php = or_skip!(client("PHP with curl", "CRAWLGATE_PHP", &["php"], &probe));
    let program = "foreach (array_slice($argv, 1) as $url) {\n\
        \x20   $handle = curl_init($url);\n\
        \x20   curl_setopt($handle, CURLOPT_RETURNTRANSFER, true);\n\
        \x20   curl_exec($handle);\n\
        \x20   echo curl_getinfo($handle, CURLINFO_RESPONSE_CODE), \"\\n\";\n\
        }\n\
        fwrite(STDERR, ini_get('openssl.cafile') . \"\\n\" . php_ini_scanned_files());";
    let scanned = std::process::Command::new(&php)
        .args(["-r", "echo php_ini_scanned_files();"])
        .output()
        .unwrap();
    let scanned = String::from_utf8(scanned.stdout).unwrap();
    let visit = Visit::new();
    let start = [php, "-r".to_owned(), program.to_owned(), "--".to_owned()];
    let outcome = visit.run(start.into_iter().chain(visit.urls()));
    printed_statuses(&outcome);
    visit.held(&outcome);
    // The settings of the machine are read as before, and ours behind them.
    says!(outcome.stderr, "/bundle.pem\n");
    for file in scanned.split(',').map(str::trim) {
        says!(outcome.stderr, file; "no {file}");
    }
}

#[test]
fn wget2_is_told_of_a_listener_with_tls() {
    let wget2 = or_skip!(client("Wget2", "CRAWLGATE_WGET2", &["wget2"], &["--version"]));
    let visit = Visit::new();
    // 1.99.1 begins TLS with the proxy for an https URL, though the proxy's URL says http.
    let outcome =
        visit.run([&wget2, "-q", "--tries=1", "-O", "/dev/stdout", &visit.https.url("/page")]);
    let hint = "give it a [[listener]] with tls = true";
    assert!(
        outcome.stdout == "an allowed page" || outcome.stderr.contains(hint),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_would_lead_past_the_proxy_is_not_passed_on() {
    let python = client("Python", "CRAWLGATE_PYTHON", &["python3"], &["--version"]);
    let wget = client("GNU Wget", "CRAWLGATE_WGET", &["wget"], &["--version"]);
    let visit = Visit::new();
    // By address: a name that only the proxy resolves could not be reached without it in any case.
    let denied = visit.http.url_as("127.0.0.1", "/private");
    let wgetrc = visit.setup.dir().join("users.wgetrc");
    fs::write(&wgetrc, "no_proxy = 127.0.0.1\nuse_proxy = off\nhttp_proxy = http://127.0.0.1:1\n")
        .unwrap();
    let inherited = [
        ("no_proxy", "127.0.0.1"),
        ("No_Proxy", "*"),
        ("HTTP_proxy", "http://127.0.0.1:1"),
        ("WGETRC", wgetrc.to_str().unwrap()),
    ];
    let with_urllib = "import sys, urllib.request, urllib.error\n\
        try: print(urllib.request.urlopen(sys.argv[1]).status)\n\
        except urllib.error.HTTPError as error: print(error.code)";
    let commands = [
        python.map(|python| vec![python, "-c".to_owned(), with_urllib.to_owned()]),
        wget.map(|wget| vec![wget, "--server-response".to_owned()]),
    ];
    for command in commands.into_iter().flatten() {
        let mut run = visit.setup.command("run");
        run.envs(inherited).arg("--").args(&command).arg(&denied);
        let output = finish(&mut run);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.contains("403"), "{command:?}: {said}");
    }
    assert_eq!(visit.http.seen_but_robots(), [""; 0]);
}

#[test]
fn a_command_that_gives_up_root_keeps_the_authority() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let curl = client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]);
    let Some(curl) = curl else { return };
    if client("setpriv", "", &["setpriv"], &["--version"]).is_none() {
        missing("setpriv");
        return;
    }
    let visit = Visit::new();
    let script = "for file in \"$NODE_EXTRA_CA_CERTS\" \"$SSL_CERT_FILE\" \"$WGETRC\" \"${PHP_INI_SCAN_DIR#:}/crawlgate.ini\" \
        \"$(expr \"$NODE_OPTIONS\" : '.*--require \"\\(.*\\)\"')\"; do cat \"$file\" >/dev/null || exit 1; done; \
        exec \"$0\" --silent --output /dev/null --write-out '%{http_code}' \"$1\"";
    let url = visit.https.url("/page");
    // The narrowest mask of root, and no start-up file of Wget that may hold a password.
    let mut run = visit.setup.command_in(&["sh", "-c", "umask 077; exec \"$0\" \"$@\""], "run");
    run.env("HOME", visit.setup.dir()).env("TMPDIR", "/tmp").args([
        "--",
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
        script,
        &curl,
        &url,
    ]);
    run.env_remove("NODE_OPTIONS").env_remove("PHP_INI_SCAN_DIR").env_remove("WGETRC");
    let output = finish(&mut run);
    let said =
        [output.stdout, output.stderr].map(|octets| String::from_utf8_lossy(&octets).into_owned());
    assert_eq!(said[0], "200", "{}", said[1]);
}
