//! The faults of an engine and its sentinels, one by one.
//!
//! Engines as their own words tell them: `INFO` of real servers.

use std::io;
use std::time::Duration;

use super::*;
use crate::fleet::survey::{Refusal, ServerFault};

const PRIMARY: &str = "10.0.0.1:6379";

fn fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn config() -> FleetConfig {
    FleetConfig {
        master: Some("crawl".to_owned()),
        user: Some("crawlgate".to_owned()),
        password_file: Some("password".into()),
        tls: true,
        timeout: Duration::from_millis(250),
        ..crawlgate_config::Config::default().fleet
    }
}

/// Returns the answers of an engine with a replica and three sentinels, all in order.
fn in_order() -> Survey {
    let primary: Endpoint = PRIMARY.parse().unwrap();
    let sentinel = SentinelFacts { primary: Some(primary.clone()), down_after: Some(5_000) };
    let named = |host: &str| (host.parse().unwrap(), Ok(sentinel.clone()));
    Survey {
        sentinels: ["10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"].map(named).into(),
        at: Some(primary),
        engine: Ok(EngineFacts {
            tls: Some("TLSv1_3".to_owned()),
            info: Ok(fields(
                "redis_version 7.2.4\nserver_name valkey\nvalkey_version 8.1.3\nrun_id ab\nused_memory 79\nmaxmemory 100\n\
                 maxmemory_policy noeviction\naof_enabled 1\nconnected_slaves 1\nmin_slaves_good_slaves 1",
            )),
            role: Ok(Role::Primary),
            settings: Ok(fields(
                "maxmemory-policy noeviction\nmaxmemory 100\nappendonly yes\nappendfsync everysec\n\
                 min-replicas-to-write 1\nmin-replicas-max-lag 2",
            )),
            scripts: None,
            refused: Vec::new(),
            unknown: Vec::new(),
            write: None,
            commands: 20,
        }),
    }
}

fn refused(why: &str) -> Refusal {
    Refusal(why.to_owned())
}

fn engine_of(survey: &mut Survey) -> &mut EngineFacts {
    survey.engine.as_mut().unwrap()
}

fn set(survey: &mut Survey, name: &str, value: &str) {
    let facts = engine_of(survey);
    facts.settings.as_mut().unwrap().insert(name.to_owned(), value.to_owned());
}

fn tell(survey: &mut Survey, name: &str, value: &str) {
    let facts = engine_of(survey);
    facts.info.as_mut().unwrap().insert(name.to_owned(), value.to_owned());
}

/// Returns the findings that are not in order.
fn faults(survey: &Survey, config: &FleetConfig) -> Vec<Finding> {
    let all = judge(survey, config);
    assert!(all.iter().all(|one| (one.level == Level::Ok) == one.mend.is_none()), "{all:#?}");
    assert!(all.iter().all(|one| (one.level == Level::Ok) == one.breaks.is_none()), "{all:#?}");
    all.into_iter().filter(|one| one.level != Level::Ok).collect()
}

#[test]
fn an_engine_in_order_has_no_fault() {
    assert_eq!(faults(&in_order(), &config()), []);
}

#[test]
fn each_fault_is_found_alone_with_the_command_that_mends_it() {
    type Change = fn(&mut Survey);
    #[rustfmt::skip] // one row, one case
    let rows: [(&str, Level, &str, Change); 30] = [
        (
            "reachable",
            Level::Failure,
            "user and password_file",
            |all| {
                let why = "WRONGPASS: invalid username-password pair";
                all.engine = Err(refused(why).into());
            },
        ),
        ("reachable", Level::Failure, "start the engine", |all| {
            all.engine = Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        }),
        ("reachable", Level::Failure, "extra_roots", |all| {
            all.engine = Err(io::Error::other("invalid peer certificate: its certificate was issued by CN=a, which is not trusted here").into());
        }),
        ("tls", Level::Warning, "tls-port", |all| { engine_of(all).tls = None; }),
        ("version", Level::Failure, "Redis 7.0", |all| { tell(all, "redis_version", "6.2.14"); }),
        ("version", Level::Failure, "run_id", |all| { tell(all, "run_id", ""); }),
        ("version", Level::Failure, "cluster-enabled no", |all| { tell(all, "redis_mode", "cluster"); }),
        ("version", Level::Failure, "cluster-enabled no", |all| { tell(all, "server_mode", "cluster"); }),
        ("scripts", Level::Failure, "rename-command", |all| {
            engine_of(all).scripts = Some(refused(
                "ERR unknown command 'EVALSHA', with args beginning with: '1936ff49611ceb6d905b220a10e63272993582c5' '0' '0' ",
            ));
        }),
        ("scripts", Level::Failure, "cluster-enabled no", |all| {
            engine_of(all).scripts = Some(refused("CLUSTERDOWN Hash slot not served"));
        }),
        ("scripts", Level::Failure, "wait until", |all| {
            engine_of(all).scripts =
                Some(refused("LOADING Redis is loading the dataset in memory"));
        }),
        ("commands", Level::Failure, "rename-command", |all| { engine_of(all).unknown = vec!["ZADD".to_owned()]; }),
        ("role", Level::Failure, "10.0.0.2:6379", |all| {
            // The real texts of a replica.
            let facts = engine_of(all);
            facts.role = Ok(Role::Replica {
                of: Some("10.0.0.2:6379".parse().unwrap()),
            });
            facts.write = Some(refused(
                "READONLY You can't write against a read only replica.",
            ));
        }),
        ("version", Level::Failure, "+info", |all| {
            engine_of(all).info = Err(refused(
                "NOPERM User crawlgate has no permissions to run the 'info' command",
            ));
        }),
        (
            "role",
            Level::Failure,
            "engine = \"10.0.0.2:6379\"",
            |all| {
                let of = Some("10.0.0.2:6379".parse().unwrap());
                engine_of(all).role = Ok(Role::Replica { of });
            },
        ),
        ("role", Level::Failure, "master", |all| { engine_of(all).role = Ok(Role::Other("sentinel".to_owned())); }),
        (
            "eviction",
            Level::Failure,
            "-h 10.0.0.1 -p 6379 --tls CONFIG SET maxmemory-policy noeviction",
            |all| {
                set(all, "maxmemory-policy", "allkeys-lru");
            },
        ),
        ("memory", Level::Failure, "CONFIG SET maxmemory 200", |all| engine_of(all).write = Some(refused("OOM command not allowed"))),
        ("writes", Level::Failure, "disk", |all| { engine_of(all).write = Some(refused("MISCONF unable to persist")); }),
        ("user", Level::Failure, "password_file", |all| { engine_of(all).info = Err(refused("NOAUTH Authentication required.")); }),
        ("appendonly", Level::Failure, "CONFIG SET appendonly yes", |all| set(all, "appendonly", "no")),
        ("appendfsync", Level::Failure, "CONFIG SET appendfsync everysec", |all| { set(all, "appendfsync", "no"); }),
        ("replicas", Level::Failure, "REPLICAOF 10.0.0.1 6379", |all| tell(all, "connected_slaves", "0")),
        ("min-replicas-to-write", Level::Failure, "CONFIG SET min-replicas-to-write 1", |all| { set(all, "min-replicas-to-write", "0"); }),
        ("min-replicas-max-lag", Level::Failure, "CONFIG SET min-replicas-max-lag 2", |all| { set(all, "min-replicas-max-lag", "10"); }),
        ("min-replicas-max-lag", Level::Failure, "CONFIG SET min-replicas-max-lag 2", |all| { set(all, "min-replicas-max-lag", "0"); }),
        ("sentinel", Level::Failure, "start it", |all| { all.sentinels[1].1 = Err(ServerFault::Late(Duration::from_secs(2))); }),
        (
            "sentinel",
            Level::Failure,
            "-h 10.0.0.3 -p 26379 --tls SENTINEL MONITOR crawl",
            |all| {
                all.sentinels[2].1 = Ok(SentinelFacts::default());
            },
        ),
        (
            "scripts",
            Level::Failure,
            "ACL SETUSER crawlgate '~crawlgate:*' +script|load",
            |all| {
                engine_of(all).scripts = Some(refused(
                    "NOPERM User crawlgate has no permissions to run the 'evalsha' command",
                ));
            },
        ),
        (
            "commands",
            Level::Failure,
            "ACL SETUSER crawlgate '~crawlgate:*' +zadd +time",
            |all| {
                engine_of(all).refused = vec!["ZADD".to_owned(), "TIME".to_owned()];
            },
        ),
    ];
    for (check, level, mend, change) in rows {
        let mut survey = in_order();
        change(&mut survey);
        let found = faults(&survey, &config());
        let [one] = found.as_slice() else {
            panic!("{check}, {mend}: {found:#?}");
        };
        assert_eq!((one.check, one.level), (check, level), "{one:?}");
        assert!(one.mend.as_ref().unwrap().contains(mend), "{one:?} has not {mend}");
    }
}

#[test]
fn what_one_sentinel_says_is_judged_at_each() {
    for (level, down_after) in [(Level::Failure, Some(4_999)), (Level::Warning, None)] {
        let mut survey = in_order();
        survey.sentinels[0].1.as_mut().unwrap().down_after = down_after;
        let found = faults(&survey, &config());
        let [one] = found.as_slice() else {
            panic!("{found:#?}");
        };
        assert_eq!(
            (one.check, one.level, one.at.as_str()),
            ("down-after", level, "10.0.0.1:26379")
        );
    }
}

#[test]
fn sentinels_that_name_nothing_leave_nothing_to_judge() {
    let mut survey = in_order();
    for (_, answer) in &mut survey.sentinels {
        *answer = Err(ServerFault::Late(Duration::from_secs(2)));
    }
    survey.at = None;
    survey.engine = Err(ServerFault::Unnamed);
    let found: Vec<_> = faults(&survey, &config()).iter().map(|one| one.check).collect();
    assert_eq!(found, ["sentinel", "sentinel", "sentinel", "reachable"]);
}

#[test]
fn a_single_engine_needs_no_replica() {
    let mut survey = in_order();
    survey.sentinels.clear();
    tell(&mut survey, "connected_slaves", "0");
    set(&mut survey, "min-replicas-to-write", "0");
    set(&mut survey, "min-replicas-max-lag", "10");
    assert_eq!(faults(&survey, &config()), []);
    let all = judge(&survey, &config());
    let one = all.iter().find(|one| one.check == "replicas").unwrap();
    assert!(one.says.starts_with("none: a single engine"), "{one:?}");
}

#[test]
fn a_user_who_may_not_read_settings_learns_what_info_tells() {
    let mut survey = in_order();
    engine_of(&mut survey).settings = Err(refused("NOPERM"));
    let unread = |survey: &Survey| -> Vec<&str> {
        let found = faults(survey, &config());
        assert!(
            found
                .iter()
                .all(|one| one.level == Level::Warning && one.says.contains("could not be read"))
        );
        found.iter().map(|one| one.check).collect()
    };
    assert_eq!(unread(&survey), ["appendfsync", "min-replicas-max-lag"]);
    let facts = engine_of(&mut survey).info.as_mut().unwrap();
    facts.remove("min_slaves_good_slaves");
    assert_eq!(unread(&survey), ["appendfsync", "min-replicas-to-write", "min-replicas-max-lag"]);
    tell(&mut survey, "maxmemory_policy", "volatile-lru");
    tell(&mut survey, "aof_enabled", "0");
    let found: Vec<_> = faults(&survey, &config()).iter().map(|one| one.check).collect();
    assert_eq!(found, ["eviction", "appendonly", "min-replicas-to-write", "min-replicas-max-lag"]);
}

#[test]
fn a_plain_engine_elsewhere_and_one_without_a_password_are_named() {
    let mut survey = in_order();
    engine_of(&mut survey).tls = None;
    let open = FleetConfig { user: None, password_file: None, ..config() };
    let found: Vec<_> = faults(&survey, &open).iter().map(|one| one.check).collect();
    assert_eq!(found, ["tls", "user"]);
    survey.at = Some("127.0.0.1:6379".parse().unwrap());
    assert_eq!(faults(&survey, &open), [], "only this machine reaches it");
}

/// `INFO` of real engines: by themselves, and as a node of a cluster.
#[rustfmt::skip] // one row, one case
const ENGINES: [(&str, &str, &str); 4] = [
    ("Redis 7.0.15", include_str!("info/redis-7.0.15.txt"), include_str!("info/redis-7.0.15-cluster.txt")),
    ("Redis 8.0.2", include_str!("info/redis-8.0.2.txt"), include_str!("info/redis-8.0.2-cluster.txt")),
    ("Valkey 8.1.1", include_str!("info/valkey-8.1.1.txt"), include_str!("info/valkey-8.1.1-cluster.txt")),
    ("Valkey 9.1.2", include_str!("info/valkey-9.1.2.txt"), include_str!("info/valkey-9.1.2-cluster.txt")),
];

#[test]
fn each_engine_is_known_by_its_own_words_and_no_cluster_passes() {
    for (name, alone, cluster) in ENGINES {
        let version = |text: &str| {
            let mut survey = in_order();
            engine_of(&mut survey).info = Ok(crate::fleet::survey::fields_of_info(text));
            let all = judge(&survey, &config());
            let version = all.into_iter().filter(|one| one.check == "version");
            version.map(|one| (one.level, one.says)).collect::<Vec<_>>()
        };
        let known = (Level::Ok, name.to_owned());
        assert_eq!(version(alone), std::slice::from_ref(&known), "{name}");
        let refused = (Level::Failure, "it runs in cluster mode".to_owned());
        assert_eq!(version(cluster), [known, refused], "{name}");
    }
}
