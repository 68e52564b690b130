//! A browser, which reads no variables and needs command-line options.

use crate::visit::{Visit, chromium};

#[test]
fn headless_chromium() {
    visit_with_chromium(&[]);
}

#[test]
fn headless_chromium_in_a_network_of_its_own() {
    let visit = Visit::new();
    let refused = visit.run_as(&["--confine=net"], ["true"]);
    if refused.stderr.contains("the kernel does not give it") {
        eprintln!("skipped: {}", refused.stderr);
        return;
    }
    visit_with_chromium(&["--confine=net"]);
}

fn visit_with_chromium(options: &[&str]) {
    let chromium = or_skip!(chromium());
    let visit = Visit::new();
    for url in visit.urls() {
        let profile = tempfile::tempdir().unwrap();
        let user_data = format!("--user-data-dir={}", profile.path().display());
        let outcome = visit.run_as(
            options,
            [
                chromium.as_str(),
                "--proxy-server={proxy}",
                "--ignore-certificate-errors-spki-list={spki}",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                &user_data,
                "--dump-dom",
                &url,
            ],
        );
        let expected =
            if url.ends_with("/page") { "an allowed page" } else { "Disallow: /private" };
        says!(outcome.stdout, expected; "{url}");
        if url == visit.urls()[3] {
            visit.held(&outcome);
        }
    }
}
