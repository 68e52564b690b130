//! The console in headless Chromium: `browser.mjs` looks at every page, wide and narrow, in light and in dark, full and empty,
//! with script and without, and reviews a denial to its end.
//!
//! `CRAWLGATE_BROWSER` names the folder that has Playwright and axe-core, `CRAWLGATE_NODE` the Node that runs them (see
//! `.ci/clients`), `CRAWLGATE_CHROMIUM` the browser, if it is not at its usual place. Without them the test is named on
//! stderr and passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails. `CRAWLGATE_SCREENSHOTS` names a folder for pictures of
//! the pages: `CRAWLGATE_SCREENSHOTS=docs/screenshots cargo test --locked --test admin people_can` takes those of the
//! documentation anew.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::pages::{encoded, page};
use crate::support::{AdminGate, Origin, Reply, eventually};

const ROBOTS: &str = "# The rules of this site\nUser-agent: *\nDisallow: /private\nAllow: /private/open\nCrawl-delay: 1\n\
    Content-Usage: /reserved train-ai=n\nContent-Usage: train-ai=y, search=y\nLicense: https://site.example/license.xml\n\n\
    User-agent: ExampleBot\nDisallow: /private/\nDisallow: /*.pdf$\nContent-Usage: /reserved train-ai=n\n\n\
    Sitemap: https://site.example/sitemap.xml\n";

/// Returns the id of the decision about a page that the site reserves from training.
fn reserve(gate: &AdminGate, origin: &Origin) -> String {
    let answer = gate.process.get(&origin.url("/reserved/poem"));
    let record = gate.process.refused(&answer, 403, "usage_disallow");
    record["id"].as_str().unwrap().to_owned()
}

fn modules() -> Option<PathBuf> {
    let folder = env::var_os("CRAWLGATE_BROWSER").map(PathBuf::from)?;
    folder.join("node_modules/playwright-core").exists().then_some(folder)
}

fn chromium() -> Option<PathBuf> {
    let named = env::var_os("CRAWLGATE_CHROMIUM").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let usual = usual.iter().map(PathBuf::from);
    named.into_iter().chain(usual).find(|program| program.exists())
}

/// Returns the folder of the modules and the browser; none if a test without them is to be skipped.
fn browser() -> Option<(PathBuf, PathBuf)> {
    let found = modules().zip(chromium());
    if found.is_none() {
        let why = "Chromium, Playwright and axe-core are not installed: see .ci/clients";
        assert!(env::var_os("CRAWLGATE_REQUIRE_CLIENTS").is_none(), "{why}");
        eprintln!("skipped: {why}");
    }
    found
}

#[test]
fn a_user_signs_in_reviews_and_is_offered_no_act_beyond_its_role() {
    let (modules, chromium) = or_skip!(browser());
    let origin = Origin::with_rules(ROBOTS);
    let dead = Origin::http().on("/robots.txt", [Reply::status(503, "not now")]);
    let hash = crawlgate_turns::client::passwords::hash(b"open sesame").unwrap();
    let token = "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
    let gate = AdminGate::with(|setup| {
        setup.set("policy", "purposes", "\"train-ai\"");
        setup.tables(&format!(
            "[[admin.user]]\nname = 'ada'\nrole = 'review'\npassword = '{}'\n\
             [[admin.user]]\nname = 'test'\nrole = 'read'\ntoken = '{token}'\n",
            hash.reveal()
        ));
    });
    let id = gate.deny(&origin, "/private/diary");
    let later = gate.deny(&origin, "/private/later");
    let reserved = reserve(&gate, &origin);
    assert_eq!(gate.process.get(&dead.url("/x")).status, 503);
    let bearer = "Accept: text/html\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    let told = gate.ask("GET", &format!("/origin?of={}", encoded(&origin.url(""))), bearer, "");
    let told = told.text();
    let (_, robots) = told.split_once("href=\"/robots/").expect("a file");
    let task = json!({
        "user": "ada",
        "password": "open sesame",
        "console": format!("http://{}", gate.address),
        "decision": id,
        "later": later,
        "reserved": reserved,
        "origin": origin.url("").trim_end_matches('/'),
        "robots": robots.split(['"', '?']).next().unwrap(),
        "dead": dead.url("").trim_end_matches('/'),
        "changing": origin.url("").trim_end_matches('/'),
        "chromium": chromium,
    });
    let told = run(&modules, &task);

    assert_eq!(told["ok"], true, "{told:#}");
    let kept = gate.ask("GET", &format!("/api/v1/decisions/{id}"), bearer, "").text();
    says!(kept, "seen by a user", "\"by\":\"ada\"");
    let overrides = gate.ask("GET", "/api/v1/overrides?all=true", bearer, "").text();
    assert_eq!(overrides, "{\"items\":[]}");
}

#[test]
fn people_can_use_every_page() {
    let (modules, chromium) = or_skip!(browser());
    let origin = Origin::with_rules(ROBOTS);
    let changing = Origin::http()
        .on("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /old\n"), Reply::ok(ROBOTS)]);
    let dead = Origin::http().on("/robots.txt", [Reply::status(503, "not now")]);
    let gate = AdminGate::with(|setup| {
        setup.set("admin", "public_try", "\"127.0.0.1:0\"");
        setup.set("policy", "purposes", "\"train-ai\"");
    });
    let public = eventually("the gate to print the address of the page", || {
        let said = gate.said();
        let (_, rest) = said.split_once("public page: http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    });
    // Its fleet has no engine, so that its page tells of that.
    let empty = AdminGate::with(|setup| {
        let key = setup.dir().join("fleet.key");
        fs::write(&key, "07".repeat(32)).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        setup.set("fleet", "engine", "\"127.0.0.1:1\"");
        setup.set("fleet", "key_file", "\"fleet.key\"");
        setup.set("fleet", "name", "\"alone\"");
    });
    let without_store = AdminGate::with(|setup| {
        setup.set("store", "path", "\"\"");
        setup.set("policy", "mode", "\"report\"");
    });
    let id = gate.deny(&origin, "/private/diary");
    gate.deny(&origin, "/private/letters?to=ada");
    assert_eq!(gate.process.get(&origin.url("/open/../private/x")).status, 403);
    for path in ["/", "/open", "/private/open"] {
        assert_eq!(gate.process.get(&origin.url(path)).status, 200);
    }
    let reserved = reserve(&gate, &origin);
    gate.deny(&changing, "/old");
    assert_eq!(gate.process.get(&dead.url("/x")).status, 503);
    let of = encoded(&origin.url(""));
    let told = page(&gate, &format!("/origin?of={of}"));
    let (_, robots) = told.split_once("href=\"/robots/").expect("a file");
    let robots = robots.split(['"', '?']).next().unwrap();
    let screenshots = env::var_os("CRAWLGATE_SCREENSHOTS").map(|folder| {
        // The test runs in the package's folder, the script elsewhere.
        let folder = std::path::absolute(folder).unwrap();
        fs::create_dir_all(&folder).unwrap();
        folder
    });
    let task = json!({
        "console": format!("http://{}", gate.address),
        "empty": format!("http://{}", empty.address),
        "without_store": format!("http://{}", without_store.address),
        "public": format!("http://{public}"),
        "proxy": gate.process.address.to_string(),
        "decision": id,
        "reserved": reserved,
        "origin": origin.url("").trim_end_matches('/'),
        "robots": robots,
        "dead": dead.url("").trim_end_matches('/'),
        "changing": changing.url("").trim_end_matches('/'),
        "chromium": chromium,
        "screenshots": screenshots,
    });
    let told = run(&modules, &task);

    // The results of the script and of the other ends must agree.
    assert_eq!(told["ok"], true, "{told:#}");
    let seen = origin.seen_but_robots();
    let allowed = seen.iter().filter(|line| *line == "GET /private/diary").count();
    assert_eq!(allowed, 1, "once, by the override that was added: {seen:?}");
    let kept: Value = gate.api(&format!("/decisions/{id}"));
    let text = kept.to_string();
    says!(text, "seen in the browser");
}

fn run(modules: &Path, task: &Value) -> Value {
    let node = env::var_os("CRAWLGATE_NODE").unwrap_or_else(|| "node".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admin/console/browser.mjs");
    let output = Command::new(node)
        .arg(script)
        .arg(modules)
        .arg(task.to_string())
        .output()
        .expect("Node runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let told = String::from_utf8_lossy(&output.stdout);
    let last = told.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|why| panic!("{why}: {told}\n{said}"))
}
