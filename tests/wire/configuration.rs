//! The sources of the configuration, as seen by a person who starts the program. Page: `docs/configuration.md`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{CrawlgateProcess, Origin, Reply, Seen, Setup, program};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `crawlgate WORDS…` in a directory, with a separate home and no configuration named.
fn crawlgate(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(words).current_dir(directory);
    command.env("HOME", directory.join("home"));
    for name in "CRAWLGATE_CONFIG XDG_CONFIG_HOME XDG_STATE_HOME STATE_DIRECTORY".split(' ') {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn a_configuration_of_the_working_directory_is_told_of_and_a_strangers_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let robots = here.join("robots.txt");
    fs::write(&robots, "User-agent: *\nDissallow: /private\n").unwrap();
    let check =
        ["check", "http://site.test/private", "--agent", "TestBot", "--robots", "robots.txt"];
    let source = || text(&crawlgate(here, &["config", "check"]).stdout);

    // Another program's file, with a key that crawlgate would reject.
    fs::write(here.join("config.toml"), "baseURL = 'https://example.org/'\n").unwrap();
    assert_eq!(source(), "built-in defaults: ok\n", "there is no /etc/crawlgate/config.toml?");

    let at_home = here.join("home/.config/crawlgate/config.toml");
    fs::create_dir_all(at_home.parent().unwrap()).unwrap();
    fs::write(&at_home, "[policy]\nmode = 'report'\n").unwrap();
    assert_eq!(source(), format!("{}: ok\n", at_home.display()));
    let output = crawlgate(here, &check);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    lacks!(text(&output.stderr), "configuration");

    let nearby = here.join("crawlgate.toml");
    // With this file, the misspelt line of the robots.txt does not count.
    fs::write(&nearby, "[robots]\nlenient = false\n").unwrap();
    let mode = |mode| fs::set_permissions(&nearby, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    assert_eq!(source(), "crawlgate.toml: ok\n");
    let output = crawlgate(here, &check);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(
        text(&output.stderr),
        "crawlgate: the configuration is crawlgate.toml, found in the working directory\n"
    );

    // Also if the file itself turns the log off. The address is taken, so the program ends at once.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let quiet =
        format!("[log]\nlevel = 'off'\n[admin]\naddress = ''\n[listen]\naddress = '{address}'\n");
    fs::write(&nearby, quiet).unwrap();
    let output = crawlgate(here, &["serve"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("crawlgate: the configuration is crawlgate.toml, found"), "{said}");
    fs::write(&nearby, "[robots]\nlenient = false\n").unwrap();

    mode(0o666);
    for words in [&check[..], &["run", "--", "touch", "trace"]] {
        let output = crawlgate(here, words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        says!(said, "crawlgate.toml: not read: others may write it");
        says!(said, "--config crawlgate.toml"; "no way out");
    }
    assert!(!here.join("trace").exists());
    let named = [&check[..], &["--config", "crawlgate.toml"]].concat();
    let output = crawlgate(here, &named);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_run_goes_out_by_the_proxy_of_the_environment_and_says_so() {
    // The run passes a host that it resolves itself as an address; only the proxy resolves this one.
    let company = CrawlgateProcess::with(|setup| {
        setup.set("upstream.hosts", "\"far.test\"", "\"127.0.0.1\"");
    });
    let origin = Origin::http();
    let proxy = format!("http://{}", company.address);
    let run = |setup: &Setup, variable: (&str, &str), url: &str| {
        let mut command = setup.command("run");
        command.env(variable.0, variable.1);
        let command =
            command.args(["--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url]);
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    let setup = Setup::new();
    let url = origin.url_as("far.test", "/by-the-proxy");
    let (_, status, said) = run(&setup, ("HTTP_PROXY", &proxy), &url);
    assert_eq!(status, "200", "{said}");
    let leaves = format!(
        "crawlgate: requests for http URLs leave by the proxy {proxy} (HTTP_PROXY in the environment), and directly to \
         loopback\n"
    );
    says!(said, &leaves);
    has!(company.record_of(&url), {"verdict": "allow"});

    let mut configured = Setup::new();
    configured.tables("[[upstream.proxy]]\nhosts = 'other.test'\ndirect = true\n");
    let (_, status, said) = run(&configured, ("http_proxy", &proxy), &origin.url("/directly"));
    assert_eq!(status, "200", "{said}");
    says!(said, "http_proxy in the environment is not used");
    let (code, status, said) =
        run(&setup, ("https_proxy", "https://proxy.test"), &origin.url("/never"));
    assert_eq!((code, status.as_str()), (Some(2), ""), "{said}");
    says!(said, "https_proxy in the environment: expected the URL of a proxy");
    assert_eq!(origin.seen_but_robots(), ["GET /by-the-proxy", "GET /directly"]);
    assert_eq!(
        company.records().len(),
        1 + company_robots(&company, &origin),
        "{:?}",
        company.records()
    );
}

/// Returns the run's fetches of robots.txt through the other proxy, which records them as requests.
fn company_robots(company: &CrawlgateProcess, origin: &Origin) -> usize {
    let robots = origin.url_as("far.test", "/robots.txt");
    company.records().iter().filter(|record| record["url"] == *robots).count()
}

#[test]
fn a_proxy_of_the_environment_is_for_the_scheme_that_it_names_and_never_for_this_machine() {
    let here = "127.0.0.1";
    // The variable, the URL's scheme and host, and whether the request goes through the proxy.
    let cases = [
        ("https_proxy", "http", "site.test", false),
        ("https_proxy", "https", "site.test", true),
        ("http_proxy", "http", "site.test", true),
        ("http_proxy", "https", "site.test", false),
        ("all_proxy", "http", "site.test", true),
        ("all_proxy", "https", "site.test", true),
        ("http_proxy", "http", here, false),
        ("all_proxy", "https", here, false),
    ];
    let setup = Setup::new();
    for (variable, scheme, host, by_proxy) in cases {
        let origin = match scheme {
            "http" => Origin::http(),
            _ => Origin::https(),
        };
        // The run passes hosts that it resolves itself as addresses.
        let asked = format!("{here}:{}", origin.port());
        let proxy = Origin::http().on(&asked, [Reply::status(502, "").close()]);
        let mut command = setup.command("run");
        command.env(variable, proxy.url_as(here, "/"));
        let url = origin.url_as(host, "/page");
        let output = command.args(["--", "curl", "-s", &url]).output().unwrap();
        let case = format!("{variable}, {url}: {}", text(&output.stderr));
        let seen: Vec<String> = proxy.seen().iter().map(Seen::line).collect();
        if by_proxy {
            assert_eq!(seen, [format!("CONNECT {asked}")], "{case}");
            assert_eq!(origin.connections(), 0, "{case}");
        } else {
            assert_eq!(text(&output.stdout), "page /page", "{case}");
            assert_eq!(seen, [""; 0], "{case}");
        }
    }
}
