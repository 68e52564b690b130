//! `crawlgate fleet check`, and the rights of the user that docs/fleet.md gives the instances.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use crawlgate_config::{Config, FleetConfig};
use crawlgate_turns::fleet::FleetKey;
use crawlgate_turns::fleet::check::{Level, judge};
use crawlgate_turns::fleet::engine::Engine as Redis;
use serde_json::Value;

use super::{engine_and_link, member};
use crate::support::{
    CrawlgateProcess, Engine, Origin, RULES, Setup, client_config, eventually, origin_ca_pem,
};

static PASSWORD: LazyLock<tempfile::NamedTempFile> = LazyLock::new(|| {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "PASSWORD\n").unwrap();
    file
});

/// Returns the rules of the user in docs/fleet.md, after the name.
fn rules() -> Vec<&'static str> {
    let page = include_str!("../../../docs/fleet.md");
    let line = page.lines().find_map(|line| line.strip_prefix("user crawlgate "));
    line.unwrap().split(' ').collect()
}

/// Makes the user of the docs at an engine.
pub(super) fn admit_user_of_the_docs(engine: &Engine) {
    let words: Vec<_> = ["ACL", "SETUSER", "crawlgate"].into_iter().chain(rules()).collect();
    assert_eq!(engine.ask(&words), "+OK\r\n");
}

/// Returns the name of that user, and the file with the password.
pub(super) fn user_of_the_docs() -> (String, PathBuf) {
    ("crawlgate".to_owned(), PASSWORD.path().to_owned())
}

#[test]
fn the_check_names_each_fault_of_an_engine_with_the_command_that_mends_it() {
    let (engine, link) = or_skip!(engine_and_link());
    let mut setup = Setup::new();
    member(&mut setup, &link, "a1");
    setup.write();
    // Each fault stays until the command that the check names has mended it.
    let faults = [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no"), ("appendfsync", "no")];
    for (name, value) in faults {
        assert_eq!(engine.ask(&["CONFIG", "SET", name, value]), "+OK\r\n");
    }
    let mut mended = Vec::new();
    let told = loop {
        let (code, out, said) = setup.run("fleet", &["check", "--json"]);
        let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{said}"));
        let failures = told["failures"].as_u64().unwrap();
        assert_eq!(code, Some(i32::from(failures > 0)), "{told:#}");
        assert_eq!(told["ok"], failures == 0);
        let all = told["findings"].as_array().unwrap();
        let Some(one) = all.iter().find(|one| one["level"] != "ok") else {
            break told;
        };
        let command = one["mend"].as_str().unwrap().to_owned();
        let start = format!("redis-cli -h 127.0.0.1 -p {} ", link.port());
        let words: Vec<_> = command.strip_prefix(&start).unwrap().split(' ').collect();
        assert_eq!(engine.ask(&words), "+OK\r\n", "{command}");
        assert!(!mended.contains(&command), "{command} mends nothing");
        mended.push(command);
    };
    assert_eq!(mended.len(), faults.len(), "{mended:?}");
    assert_eq!(told["warnings"], 0, "{told:#}");
    let out = setup.succeeds("fleet", &["check"]);
    assert!(out.ends_with("\nin order\n"), "{out}");
    link.close();
    let (out, _) = setup.ends(1, "fleet", &["check"]);
    says!(out, "failure  reachable");
}

#[test]
fn the_check_tells_a_full_engine_a_missing_password_and_another_key() {
    let (engine, link) = or_skip!(engine_and_link());
    let mut setup = Setup::new();
    member(&mut setup, &link, "a1");
    setup.write();
    for (name, value) in [("appendonly", "yes"), ("maxmemory", "100mb")] {
        assert_eq!(engine.ask(&["CONFIG", "SET", name, value]), "+OK\r\n");
    }
    let faults = |expected: Option<i32>| {
        let (code, out, said) = setup.run("fleet", &["check", "--json"]);
        assert_eq!(code, expected, "{out}{said}");
        let told: Value = serde_json::from_str(&out).unwrap();
        let all = told["findings"].as_array().unwrap().iter();
        let faults = all.filter(|one| one["level"] == "failure");
        let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
        let faults = faults.map(|one| (text(one, "check"), text(one, "says"), text(one, "mend")));
        faults.collect::<Vec<_>>()
    };
    assert_eq!(faults(Some(0)), []);

    assert_eq!(engine.ask(&["CONFIG", "SET", "maxmemory", "1mb"]), "+OK\r\n");
    let found = faults(Some(1));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "memory", "{found:?}");
    let start = format!("redis-cli -h 127.0.0.1 -p {} ", link.port());
    let words: Vec<_> = found[0].2.strip_prefix(&start).unwrap().split(' ').collect();
    assert_eq!(engine.ask(&words), "+OK\r\n");
    assert_eq!(faults(Some(0)), []);
    assert_eq!(engine.ask(&["DBSIZE"]), ":0\r\n", "the check writes nothing");

    // A member that says it has another key.
    let report =
        r#"{"version":"0.1.0","process":"0a","key":"00000000000000ff","link":"connected"}"#;
    engine.ask(&["ZADD", "crawlgate:{fleet}:members", "9999999999999", "z9"]);
    engine.ask(&["HSET", "crawlgate:{fleet}:reports", "z9", report]);
    let found = faults(Some(1));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "key");
    assert!(found[0].1.ends_with("another key than that of z9"), "{found:?}");
    engine.ask(&["FLUSHALL"]);

    engine.ask(&["CONFIG", "SET", "requirepass", "sesame"]);
    let found = faults(Some(1));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "user");
    assert!(found[0].2.contains("[fleet] password_file"), "{found:?}");
    let gate = CrawlgateProcess::with(|setup| member(setup, &link, "a1"));
    gate.wait_said("NOAUTH");
    gate.wait_said("`crawlgate fleet check` says more");
    assert_eq!(gate.said().matches("NOAUTH").count(), 1, "{}", gate.said());
}

#[test]
fn a_key_is_made_once_for_its_owner_alone_and_before_the_configuration_that_names_it() {
    let mut setup = Setup::new();
    // Without the key, this configuration is wrong.
    setup.set("fleet", "engine", "\"127.0.0.1:1\"");
    setup.write();
    let file = setup.dir().join("new.key");
    let name = file.to_str().unwrap();
    setup.succeeds("fleet", &["key", name]);
    let key = std::fs::read_to_string(&file).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    FleetKey::load(&file).unwrap();
    let (_, said) = setup.ends(2, "fleet", &["key", name]);
    says!(said, "there is a file already");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), key);
    let other = setup.dir().join("other.key");
    setup.run("fleet", &["key", other.to_str().unwrap()]);
    assert_ne!(std::fs::read_to_string(&other).unwrap(), key);
}

#[test]
fn the_check_asks_for_a_fleet() {
    let setup = Setup::new();
    setup.write();
    let (code, out, said) = setup.run("fleet", &["check"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    says!(said, "there is no fleet");
}

#[test]
fn the_user_of_the_docs_has_every_right_that_the_instances_need_and_no_other() {
    for engine in Engine::each_version(&[]) {
        the_user_of_the_docs_suffices(&engine);
    }
}

fn the_user_of_the_docs_suffices(engine: &Engine) {
    let link = engine.link();
    admit_user_of_the_docs(engine);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (user, password) = user_of_the_docs();
    let config = FleetConfig {
        engine: Some(format!("127.0.0.1:{}", link.port()).parse().unwrap()),
        user: Some(user),
        password_file: Some(password),
        timeout: Duration::from_secs(5),
        ..Config::default().fleet
    };
    let failures = || {
        let redis = Redis::of(&config, client_config(origin_ca_pem())).unwrap();
        let found = judge(&runtime.block_on(redis.survey()), &config);
        let failures = found.into_iter().filter(|one| one.level == Level::Failure);
        let rights = failures.filter(|one| one.check != "appendonly");
        rights.map(|one| one.mend.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(failures(), [""; 0]);
    let set = |rule: &str| {
        assert_eq!(engine.ask(&["ACL", "SETUSER", "crawlgate", rule]), "+OK\r\n");
    };
    let rights: Vec<_> = rules().into_iter().filter(|rule| rule.starts_with('+')).collect();
    assert!(rights.len() > 20, "{rights:?}");
    for right in rights {
        set(&right.replacen('+', "-", 1));
        let found = failures();
        assert!(found.iter().any(|mend| mend.contains(right)), "without {right}: {found:?}");
        set(right);
    }
    set("resetkeys");
    set("~other:*");
    let found = failures();
    assert!(found.iter().any(|mend| mend.contains("'~crawlgate:*'")), "{found:?}");
}

/// Runs the check of an engine; returns its failures, with the way out of each.
fn failures(setup: &Setup) -> Vec<(String, String, String)> {
    let (code, out, said) = setup.run("fleet", &["check", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{said}"));
    let all = told["findings"].as_array().unwrap().iter();
    let faults = all.filter(|one| one["level"] == "failure");
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let faults = faults.map(|one| (text(one, "check"), text(one, "says"), text(one, "mend")));
    let faults: Vec<_> = faults.filter(|one| one.0 != "appendonly").collect();
    assert_eq!(code, Some(1), "{out}{said}");
    faults
}

#[test]
fn a_cluster_a_replica_and_a_renamed_command_are_told_as_what_they_are() {
    #[rustfmt::skip] // one row, one case
    let rows: [(&[&str], &str, &str, &str); 3] = [
        (&["--cluster-enabled", "yes"], "version", "it runs in cluster mode", "cluster-enabled no"),
        (&["--replicaof", "127.0.0.1", "1"], "role", "a replica of 127.0.0.1:1", "set [fleet] engine = \"127.0.0.1:1\""),
        (&["--rename-command", "EVALSHA", "EVALSHB"], "scripts", "unknown command 'EVALSHA'", "rename-command"),
    ];
    for (options, check, says, mend) in rows {
        for engine in Engine::each_version(options) {
            let link = engine.link();
            let mut setup = Setup::new();
            member(&mut setup, &link, "a1");
            setup.write();
            let found = failures(&setup);
            let is_told = |one: &(String, String, String)| {
                one.0 == check && one.1.contains(says) && one.2.contains(mend)
            };
            assert!(found.iter().any(is_told), "{options:?}: {found:?}");
            let misleads = |one: &(String, String, String)| {
                one.0 == "reachable" || one.1.contains("NOPERM") || one.2.contains("ACL SETUSER")
            };
            assert!(!found.iter().any(misleads), "{options:?}: {found:?}");
        }
    }
}

#[test]
fn an_instance_says_that_its_engine_is_a_cluster_and_forwards_nothing() {
    let origin = Origin::with_rules(RULES);
    for engine in Engine::each_version(&["--cluster-enabled", "yes"]) {
        let link = engine.link();
        let gate = CrawlgateProcess::with(|setup| {
            member(setup, &link, "a1");
            setup.set("fleet", "patience", "\"2s\"");
        });
        gate.wait_said("it runs in cluster mode");
        let answer = eventually("to be cut off", || {
            let answer = gate.get(&origin.url("/open"));
            (answer.status == 503).then_some(answer)
        });
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        says!(body, "fleet_cut");
    }
    assert_eq!(origin.seen().len(), 0, "nothing is sent");
}

#[test]
fn the_engine_is_named_by_a_url_as_other_programs_have_it() {
    let (_engine, link) = or_skip!(engine_and_link());
    for scheme in ["redis", "valkey"] {
        let gate = CrawlgateProcess::with(|setup| {
            member(setup, &link, scheme);
            let url = format!("\"{scheme}://127.0.0.1:{}/0\"", link.port());
            setup.set("fleet", "engine", &url);
        });
        gate.wait_said("the fleet's engine answers");
    }
    let mut setup = Setup::new();
    for (url, says) in [
        ("redis://:sesame@127.0.0.1:1", "password_file"),
        ("redis://127.0.0.1:1/7", "database 0"),
        ("http://127.0.0.1:1", "redis://, rediss://, valkey:// or valkeys://"),
    ] {
        member(&mut setup, &link, "a1");
        setup.set("fleet", "engine", &format!("{url:?}"));
        setup.write();
        let (_, said) = setup.ends(2, "fleet", &["check"]);
        says!(said, says; "{url}");
        lacks!(said, "sesame"; "{url}");
    }
}
