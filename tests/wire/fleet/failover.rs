//! A primary with a replica under three Sentinels.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::process::Signal;

use super::overrides::{denied_at_all, deny};
use super::{Ends, KEY, joined, logs_are_whole};
use crate::support::{CrawlgateProcess, Origin, RULES, Sentinels, Setup, eventually, wait_until};

/// The time after a failover in which the new primary grants no turn.
const QUIET: Duration = Duration::from_secs(5);

/// The time after which an instance uses no turn of a silent primary.
const DOUBTFUL: Duration = Duration::from_secs(1);

/// The most by which the clocks of the engine and of the test are apart.
const SPREAD: Duration = Duration::from_millis(500);

/// The ways in which another engine becomes the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The old one is killed, and started again.
    Killed,
    /// The old one is stopped, and wakes while the other one is the primary.
    Stopped,
    /// An operator has the Sentinels change them, and both go on.
    Asked,
}

/// Starts an instance of the fleet behind the Sentinels.
fn instance(lab: &Sentinels, name: &str) -> CrawlgateProcess {
    instance_with(lab, name, |setup| {
        // Sentinels that were held up do nothing for half a minute.
        setup.set("fleet", "patience", "\"60s\"");
        setup.set("pace", "crawl_delay", "\"honour\"");
        setup.set("audit", "refusals_per_minute", "1000000");
    })
}

/// Starts an instance with further settings.
pub(super) fn instance_with(
    lab: &Sentinels,
    name: &str,
    configure: impl FnOnce(&mut Setup),
) -> CrawlgateProcess {
    instance_at(name, |setup| {
        setup.set("fleet", "sentinels", &lab.addresses());
        setup.set("fleet", "master", &lab.master());
        configure(setup);
    })
}

/// Starts an instance at the engine that `configure` names.
fn instance_at(name: &str, configure: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    joined(|setup| {
        let key = setup.dir().join("fleet.key");
        std::fs::write(&key, KEY).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        setup.set("fleet", "key_file", "\"fleet.key\"");
        setup.set("fleet", "name", &format!("{name:?}"));
        setup.set("fleet", "timeout", "\"1s\"");
        configure(setup);
    })
}

/// Starts an instance that stays with the present primary, for it never asks the Sentinels, and one that follows them. Both
/// send two requests in a second to an origin. Returns the primary's number with them.
fn parted_later(lab: &Sentinels) -> (usize, [CrawlgateProcess; 2]) {
    let old = eventually("a primary", || lab.primary());
    let paced = |setup: &mut Setup| {
        setup.set("fleet", "patience", "\"3s\"");
        setup.set("pace", "requests_per_second", "2");
        setup.set("pace", "max_hold", "\"10s\"");
        setup.set("audit", "refusals_per_minute", "1000000");
    };
    let stays = instance_at("a1", |setup| {
        setup.set("fleet", "engine", &lab.address(old));
        paced(setup);
    });
    (old, [stays, instance_with(lab, "a2", paced)])
}

/// Asks every instance for each of these pages, again and again until it is over.
fn crawl<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    gates: &'env [CrawlgateProcess],
    origin: &'env Origin,
    paths: &[&'static str],
    is_over: &'env AtomicBool,
) {
    for gate in gates {
        for path in paths.iter().copied() {
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    if gate.get(&origin.url(path)).status != 200 {
                        thread::sleep(Duration::from_millis(5));
                    }
                }
            });
        }
    }
}

/// Returns when the first turn of the primary's generation was due.
fn quiet_until(lab: &Sentinels) -> Instant {
    eventually("a generation that has begun", || {
        let told = lab.ask(&["GET", "crawlgate:{fleet}:generation"]);
        let began = told.split_whitespace().nth(2)?.parse().ok()?;
        let ago = UNIX_EPOCH.elapsed().unwrap();
        Instant::now().checked_sub(ago.checked_sub(Duration::from_micros(began))?)
    })
}

#[test]
fn another_primary_takes_over_and_the_old_one_is_left_when_it_wakes() {
    let mut lab = or_skip!(Sentinels::start());
    let gates = ["a1", "a2"].map(|name| instance(&lab, name));
    let unpaced = Origin::with_rules(RULES);
    let paced = Origin::with_rules("User-agent: *\nCrawl-delay: 1\nDisallow: /private\n");
    for gate in &gates {
        // The first primary counts as a new one, too.
        for origin in [&unpaced, &paced] {
            assert_eq!(gate.get(&origin.url("/first")).status, 200);
        }
    }
    let is_over = AtomicBool::new(false);
    let first = thread::scope(|scope| {
        let ends = Ends(&is_over);
        for gate in &gates {
            for (origin, path) in [
                (&unpaced, "/page"),
                (&paced, "/page"),
                (&paced, "/private"),
                (&unpaced, "/denied"),
            ] {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        let answer = gate.get(&origin.url(path));
                        assert!([200, 403].contains(&answer.status), "{}", answer.text());
                    }
                });
            }
        }
        let (first, _) = deny(&gates[0], &unpaced.url(""), "/denied");
        for change in [Change::Killed, Change::Stopped, Change::Asked] {
            let pages = paced.seen_but_robots().len();
            match change {
                Change::Killed => {
                    let old = lab.kill_primary();
                    lab.start_again(old);
                }
                Change::Stopped => {
                    let old = lab.signal_primary(Signal::STOP);
                    lab.wait_other(old);
                    lab.signal(old, Signal::CONT);
                }
                Change::Asked => lab.fail_over(),
            }
            let mut number = 0;
            let (path, id) = eventually("an override everywhere", || {
                number += 1;
                let path = format!("/{change:?}/{number}");
                let (id, said) = deny(&gates[1], &unpaced.url(""), &path);
                said.ends_with("in force on a1, a2\n").then_some((path, id))
            });
            for gate in &gates {
                let answer = gate.get(&unpaced.url(&path));
                assert_eq!(answer.problem()["override"], id, "{}", answer.text());
            }
            wait_until("the paced crawl to go on", || paced.seen_but_robots().len() > pages + 3);
            // No turn between the takeover and the end of the quiet time, in which an old primary that wakes may still
            // grant some.
            if change == Change::Killed {
                let end = quiet_until(&lab);
                let quiet = end - QUIET + DOUBTFUL..end - SPREAD;
                let seen = paced.seen().into_iter().map(|seen| seen.at);
                let early: Vec<Duration> =
                    seen.filter(|at| quiet.contains(at)).map(|at| end.duration_since(at)).collect();
                assert!(early.is_empty(), "before the end: {early:?}");
            }
            lab.wait_whole();
            let times: Vec<Instant> = paced.seen().iter().map(|seen| seen.at).collect();
            let name = format!("the paced origin, {change:?}");
            super::pace::is_within(&times, Duration::from_secs(1), 1, &name);
        }
        drop(ends);
        first
    });
    denied_at_all(&gates, &unpaced, "/denied", &first);
    for origin in [&unpaced, &paced] {
        let leaks = origin.seen_but_robots();
        assert!(!leaks.iter().any(|line| line.contains("/private")), "{leaks:?}");
    }
    logs_are_whole(&gates);
}

#[test]
fn an_old_primary_that_is_parted_from_the_others_permits_nothing_beside_the_new_one() {
    let lab = or_skip!(Sentinels::start());
    // A primary without its replica takes no writes, as docs/fleet.md asks for.
    for (key, value) in [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "1")] {
        assert_eq!(lab.ask(&["CONFIG", "SET", key, value]), "+OK\r\n");
    }
    let (old, gates) = parted_later(&lab);
    let origin = Origin::with_rules(RULES);
    for gate in &gates {
        gate.until(200, &origin.url("/first"));
    }
    let is_over = AtomicBool::new(false);
    let (denied, added) = thread::scope(|scope| {
        let ends = Ends(&is_over);
        crawl(scope, &gates, &origin, &["/page", "/denied", "/private"], &is_over);
        let pages = || origin.seen_but_robots().len();
        wait_until("the crawl", || pages() > 6);
        assert_eq!(lab.part_primary(), old);
        gates[0].wait_said("cut off from its fleet");
        let denied = eventually("an override at the new primary", || {
            let (id, said) = deny(&gates[1], &origin.url(""), "/denied");
            let is_denied = said.contains("in force on a2") || said.contains("in force only on a2");
            is_denied.then_some(id)
        });
        let added = Instant::now();
        let before = pages();
        wait_until("the crawl to go on at the new primary", || pages() > before + 4);
        drop(ends);
        (denied, added)
    });
    let before = origin.seen().len();
    gates[0].refuses(&origin.url("/page"), 503, "fleet_cut");
    assert_eq!(origin.seen().len(), before, "nothing reaches the origin");
    denied_at_all(&gates[1..], &origin, "/denied", &denied);
    let seen = origin.seen();
    let leaks = seen.iter().filter(|seen| {
        let line = seen.line();
        line.contains("/private") || (line.contains("/denied") && seen.at > added + SPREAD)
    });
    let leaks: Vec<String> = leaks.map(|seen| seen.line()).collect();
    assert_eq!(leaks, [""; 0]);
    let times: Vec<Instant> = seen.iter().map(|seen| seen.at).collect();
    super::pace::is_within(&times, Duration::from_millis(500), 1, "both primaries");
    logs_are_whole(&gates);
}

/// The counter-example to the test above: why docs/fleet.md asks for `min-replicas-to-write`.
#[test]
fn an_old_primary_that_may_write_without_a_replica_grants_beside_the_new_one() {
    const WINDOW: Duration = Duration::from_secs(3);
    let lab = or_skip!(Sentinels::start());
    let (old, gates) = parted_later(&lab);
    let origin = Origin::with_rules(RULES);
    for gate in &gates {
        gate.until(200, &origin.url("/first"));
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        crawl(scope, &gates, &origin, &["/page", "/private"], &is_over);
        let latest = || {
            let now = Instant::now();
            let seen = origin.seen().into_iter();
            let seen = seen.filter(|seen| now.duration_since(seen.at) < WINDOW);
            seen.count()
        };
        wait_until("the crawl", || latest() > 4);
        assert_eq!(lab.part_primary(), old);
        // One primary grants six in that time, and the first one.
        wait_until("the turns of two primaries", || latest() > 9);
        drop(ends);
    });
    let leaks = origin.seen_but_robots();
    assert!(!leaks.iter().any(|line| line.contains("/private")), "{leaks:?}");
    logs_are_whole(&gates);
}
