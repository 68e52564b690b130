//! A lack of descriptors is not the fault of an origin, causes no busy loop, and passes. Page: `docs/operating.md`.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{CrawlgateProcess, Origin, RULES, Setup, Wire, eventually};

/// Lowers the gate's soft limit to its open descriptors up to the first gap, plus `spare`. The hard limit stays.
fn leave_none(gate: &CrawlgateProcess, spare: u64) {
    // A peer sees the end of a connection before the gate gives its descriptor back.
    let mut last = Vec::new();
    let mut same = 0;
    let open = eventually("the gate's descriptors to stay", || {
        let now = open(gate);
        same = if now == last { same + 1 } else { 0 };
        last.clone_from(&now);
        (same >= 5).then_some(now)
    });
    let gap = (0..).find(|number| !open.contains(number)).unwrap();
    set_limit(gate, Some(gap + spare));
}

/// Returns the gate's open descriptors but that of the state file, which is open for a moment now and then.
fn open(gate: &CrawlgateProcess) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{}/fd", gate.id())).unwrap();
    let stays = entries.map(Result::unwrap).filter(|entry| {
        let file = fs::read_link(entry.path()).unwrap_or_default();
        !file.to_string_lossy().contains(".log.state")
    });
    let names = stays.map(|entry| entry.file_name().into_string().unwrap());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Opens connections to the gate until its descriptors have no gap below the last socket, which may then be given back
/// below the limit.
fn close_gaps(gate: &CrawlgateProcess) -> Vec<Wire> {
    let is_socket = |number: &u64| {
        fs::read_link(format!("/proc/{}/fd/{number}", gate.id()))
            .is_ok_and(|file| file.to_string_lossy().starts_with("socket"))
    };
    let mut crowd = Vec::new();
    eventually("the gate's descriptors to have no gap", || {
        let open = open(gate);
        let last = open.iter().copied().filter(is_socket).max().unwrap();
        let has_gap = (0..last).any(|number| !open.contains(&number));
        if has_gap && crowd.len() < 64 {
            crowd.push(gate.connect());
        }
        (!has_gap).then_some(())
    });
    crowd
}

fn set_limit(gate: &CrawlgateProcess, current: Option<u64>) {
    let id = Pid::from_raw(i32::try_from(gate.id()).unwrap()).unwrap();
    let before = prlimit(Some(id), Resource::Nofile, Rlimit { current, maximum: hard_limit(gate) });
    before.unwrap();
}

fn hard_limit(gate: &CrawlgateProcess) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", gate.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().ok()
}

/// Returns the gate's CPU time in clock ticks of a hundredth of a second.
fn ticks(gate: &CrawlgateProcess) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", gate.id())).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Opens connections to the gate until all descriptor numbers below the last one are taken.
fn fill_gaps(gate: &CrawlgateProcess, origin: &Origin) -> Vec<Wire> {
    let before = gate.records().len();
    let crowd = (1..=24).map(|number| {
        let mut wire = gate.connect();
        // The gate has accepted a connection once it answers. By its record, the origin's connection can be used again.
        wire.get(&origin.url("/robots.txt"));
        gate.wait_records(before + number);
        wire
    });
    crowd.collect()
}

#[test]
fn want_of_descriptors_is_no_outage_of_an_origin() {
    for make in [Origin::http, Origin::https] {
        let gate = CrawlgateProcess::start();
        let (known, new) = (make().robots(RULES), make().robots(RULES));
        let mut wire = gate.connect();
        let asks = |wire: &mut Wire, origin: &Origin, path: &str| {
            let authority = origin.authority();
            match origin.url("").starts_with("https") {
                // Through tunnels that were opened before descriptors ran out.
                true => wire.get_inside(&authority, path),
                false => wire.get(&origin.url(path)),
            }
        };
        let inside = |origin: &Origin| match origin.url("").starts_with("https") {
            true => Some(gate.intercept(&origin.authority(), "site.test")),
            false => None,
        };
        let (mut to_known, mut to_new) = (inside(&known), inside(&new));
        let to_known = to_known.as_mut();
        let mut first = to_known;
        let wire_of =
            |own: Option<&mut Wire>, wire: &mut Wire, origin: &Origin, path: &str| match own {
                Some(own) => asks(own, origin, path),
                None => asks(wire, origin, path),
            };
        wire_of(first.as_deref_mut(), &mut wire, &known, "/1").is_origins(200, "page /1");
        // After the record, its connection can be used again.
        gate.record_of(&known.url("/1"));
        set_limit(&gate, Some(3));

        // Established connections go on.
        wire_of(first.as_deref_mut(), &mut wire, &known, "/2").is_origins(200, "page /2");
        // A robots.txt that cannot be fetched.
        let answer = wire_of(to_new.as_mut(), &mut wire, &new, "/1");
        has!(gate.refused(&answer, 503, "overloaded"), {"error": "connection_limit_reached"});
        let said = answer.field("proxy-status").unwrap();
        says!(said, "error=connection_limit_reached");
        assert!(answer.field("retry-after").is_some(), "{answer:?}");
        assert_eq!(new.connections(), 0);
        // A page of an origin with known rules that needs a new connection.
        let body = "Content-Length: 4\r\n\r\nbody";
        let url = known.url("/3");
        let authority = known.authority();
        let (target, own) = match first.as_deref_mut() {
            Some(own) => ("/3", own),
            None => (&*url, &mut wire),
        };
        let answer = own.exchange(format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{body}"
        ));
        let record = gate.refused(&answer, 503, "overloaded");
        has!(record, {"error": "connection_limit_reached", "url": url});

        // Everything works as before.
        set_limit(&gate, hard_limit(&gate));
        eventually("the origin to be asked", || {
            let answer = wire_of(to_new.as_mut(), &mut wire, &new, "/2");
            match answer.status {
                200 => Some(()),
                _ => {
                    gate.refused(&answer, 503, "overloaded");
                    None
                }
            }
        });
        gate.denied(&wire_of(to_new.as_mut(), &mut wire, &new, "/private"));
        gate.denied(&wire_of(first, &mut wire, &known, "/private"));
        assert_eq!((new.robots_fetches(), known.robots_fetches()), (1, 1));
        let unreachable = gate.records();
        let unreachable = unreachable.iter().find(|one| one["reason"] == "robots_unreachable");
        assert_eq!(unreachable, None);
    }
}

#[test]
fn idle_connections_make_room_where_no_descriptor_is_left() {
    let gate = CrawlgateProcess::start();
    let (idle, known, filler) = (Origin::http(), Origin::http(), Origin::http());
    for (number, origin) in [&known, &idle, &idle, &idle].into_iter().enumerate() {
        gate.get(&origin.url("/1"));
        gate.wait_records(number + 1);
    }
    let mut crowd = fill_gaps(&gate, &filler);
    let old = [&idle, &known, &filler];
    // The rest, such as those of a robots.txt, have given their descriptors back.
    let leaves = |origins: &[&Origin], open: usize| {
        eventually("the gate to close its connections", || {
            let open_still = |origin: &&Origin| origin.connections() - origin.ended();
            origins.iter().all(|one| open_still(one) == open).then_some(())
        });
    };
    leaves(&old, 1);
    leave_none(&gate, 0);
    // A new origin: its connection replaces the idle ones.
    let new = Origin::http();
    crowd[0].get(&new.url("/page")).is_origins(200, "page /page");
    leaves(&old, 0);
    leaves(&[&new], 1);

    // A new crawler replaces the idle connection, too: it gets an answer, but there is no descriptor left to send its
    // request.
    set_limit(&gate, hard_limit(&gate));
    let _crowd = close_gaps(&gate);
    leave_none(&gate, 0);
    gate.refuses(&new.url("/next"), 503, "overloaded");
    assert_eq!(new.seen_but_robots(), ["GET /page"]);
}

#[test]
fn a_listener_without_descriptors_rests_and_comes_back() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    set_limit(&gate, Some(3));
    let mut waiting: Vec<Wire> = (0..20).map(|_| gate.connect()).collect();
    gate.wait_said("no connection could be accepted");
    let (before, began) = (ticks(&gate), std::time::Instant::now());
    // The listener rests by its own clock, which the test measures: nothing else happens meanwhile.
    while began.elapsed() < std::time::Duration::from_secs(2) {
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
    let used = ticks(&gate) - before;
    assert!(used < 40, "{used} hundredths of a second of CPU time in two seconds");
    assert_eq!(gate.said().matches("no connection could be accepted").count(), 1);
    set_limit(&gate, hard_limit(&gate));
    for wire in &mut waiting {
        wire.passes(&origin.url("/page"));
    }
}

#[test]
fn a_low_limit_is_told_at_the_start_and_kept_within() {
    let setup = Setup::new();
    let limited = "ulimit -Sn 64; ulimit -Hn 96; exec \"$0\" \"$@\"";
    let command = setup.command_in(&["sh", "-c", limited], "serve");
    let gate = CrawlgateProcess::spawn(setup, command);
    // Raised to the hard limit, with a warning.
    assert_eq!(hard_limit(&gate), Some(96));
    gate.wait_said("the limit on open descriptors is too low");
    let said = gate.said();
    says!(said, "limit=96", "connections=31");
    // More crawlers and origins than descriptors: each is served, or told to come again.
    let origins: Vec<Origin> = (0..60).map(|_| Origin::http()).collect();
    let mut silent = Vec::new();
    for origin in &origins {
        silent.push(gate.connect());
        gate.passes(&origin.url("/page"));
    }
    lacks!(gate.said(), "no connection could be accepted");
    let unreachable = gate.records();
    let unreachable = unreachable.iter().find(|one| one["reason"] != "robots_unavailable");
    assert_eq!(unreachable, None);
}
