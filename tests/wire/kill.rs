//! The store under kill -9 and on a full disk.

use std::collections::HashSet;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use crawlgate::store::chain;
use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;

use crate::support::{Gate, Origin, RULES, Response, Setup, eventually};

/// The number of kills in a row.
const ROUNDS: usize = 50;

/// The number of concurrent crawlers.
const CRAWLERS: usize = 4;

/// Requests denied pages until the gate is gone, and notes the identifier of each denial that arrives whole.
fn crawl(gate: SocketAddr, url: &str, told: &Mutex<Vec<String>>, count: &AtomicUsize) {
    let Ok(mut stream) = TcpStream::connect(gate) else {
        return;
    };
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let request = format!("GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot\r\n\r\n");
    loop {
        if stream.write_all(request.as_bytes()).is_err() {
            return;
        }
        match Response::read(&mut reader, "GET") {
            Ok(Some(answer)) if answer.status == 403 => {
                let id = answer.problem()["id"].as_str().unwrap().to_owned();
                told.lock().unwrap().push(id);
                count.fetch_add(1, Ordering::Relaxed);
            }
            _ => return,
        }
    }
}

/// Walks the chain from a head; returns its end, and the identifiers on the way.
fn walk(store: &Path, from: (u64, [u8; 32])) -> ((u64, [u8; 32]), HashSet<String>) {
    let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = connection
        .prepare("SELECT seq, record, hash FROM decision WHERE seq > ?1 ORDER BY seq")
        .unwrap();
    let mut rows = statement.query([from.0 as i64]).unwrap();
    let (mut head, mut ids) = (from, HashSet::new());
    while let Some(row) = rows.next().unwrap() {
        let (seq, record): (i64, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        let hash: [u8; 32] = row.get(2).unwrap();
        let value: serde_json::Value = serde_json::from_str(&record).unwrap();
        assert_eq!(seq as u64, head.0 + 1, "one is missing");
        assert_eq!(
            hash,
            chain::link(&head.1, record.as_bytes()),
            "the chain is broken at {seq}"
        );
        head = (seq as u64, hash);
        // A line about the log itself has no id.
        ids.extend(value["id"].as_str().map(str::to_owned));
    }
    (head, ids)
}

fn states(store: &Path) -> Vec<String> {
    let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let text = "SELECT json_array(origin, state, fetched, fresh_until, cause, since, last_failure, \
                last_attempt, attempts, next_attempt, hex(sha256), status, final_url) FROM origin ORDER BY origin";
    let mut statement = connection.prepare(text).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

#[test]
fn fifty_kills_under_load_lose_no_denial_that_was_told() {
    let mut gate = Gate::with(|setup| {
        setup.set("log", "file", "\"\"");
        setup.set("audit", "durability", "\"strict\"");
        setup.set("audit", "refusals_per_minute", "10000000");
        // Long intervals: no robots.txt is fetched again within the test.
        setup.set("robots", "retry_min", "\"5m\"");
    });
    let (origin, down) = (Origin::with_rules(RULES), Origin::http());
    down.stop();
    let store = gate.setup.dir().join("crawlgate.db");
    let urls = [origin.url("/private/x"), down.url("/any")];
    for url in &urls {
        assert_eq!(gate.get(url).status, 403);
    }
    let known = states(&store);
    assert_eq!(known.len(), 2, "{known:?}");

    let mut head = (0, chain::GENESIS);
    let mut kept = HashSet::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    for round in 0..ROUNDS {
        let count = Arc::new(AtomicUsize::new(0));
        let crawlers: Vec<_> = (0..CRAWLERS)
            .map(|n| {
                let (told, count) = (Arc::clone(&told), Arc::clone(&count));
                let (address, url) = (gate.address, urls[n % 2].clone());
                thread::spawn(move || crawl(address, &url, &told, &count))
            })
            .collect();
        // Each round ends at another point: in the first batch, or after many.
        let enough = 1 + round * 3;
        eventually("denials", || {
            (count.load(Ordering::Relaxed) >= enough).then_some(())
        });
        gate.restart(Signal::KILL);
        for crawler in crawlers {
            crawler.join().unwrap();
        }
        let (to, ids) = walk(&store, head);
        head = to;
        kept.extend(ids);
        for id in told.lock().unwrap().drain(..) {
            assert!(
                kept.contains(&id),
                "round {round}: {id} was told and is not kept"
            );
        }
        assert_eq!(states(&store), known, "round {round}");
    }
    assert_eq!(
        origin.robots_fetches(),
        1,
        "a cached robots.txt was not fetched again"
    );
    let (code, _, said) = gate.beside("store", &["rebuild"]);
    assert_eq!(code, Some(2), "not while it is in use");
    assert!(
        said.contains("another process has the store open"),
        "{said}"
    );
    gate.signal(Signal::TERM);
    gate.wait();
    let (code, said, failed) = gate.beside("store", &["check"]);
    assert_eq!(code, Some(0), "{said}{failed}");
}

/// Returns a gate with its store on a file system of 4 MiB of its own, and the path of that file system from outside.
/// `None` if this machine allows no mount.
fn confined() -> Option<(Gate, std::path::PathBuf)> {
    let mut setup = Setup::new();
    setup.set("log", "file", "\"\"");
    setup.set("log", "decisions", "\"all\"");
    setup.set("store", "path", "\"small/crawlgate.db\"");
    setup.set("audit", "durability", "\"strict\"");
    setup.set("audit", "refusals_per_minute", "10000000");
    let small = setup.dir().join("small");
    fs::create_dir(&small).unwrap();
    let mount = "mount -t tmpfs -o size=4m tmpfs small";
    let probe = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", mount])
        .current_dir(setup.dir())
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        return None;
    }
    let inner = setup.command("serve");
    let mut command = std::process::Command::new("unshare");
    command
        .args([
            "--mount",
            "sh",
            "-c",
            &format!("{mount} && exec \"$0\" \"$@\""),
        ])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(setup.dir())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let gate = Gate::spawn(setup, command);
    let root = format!("/proc/{}/root", gate.id());
    let seen = Path::new(&root).join(small.strip_prefix("/").unwrap());
    Some((gate, seen))
}

#[test]
fn without_room_requests_are_denied_and_with_it_they_go_on_and_nothing_is_lost() {
    let Some((gate, disk)) = confined() else {
        return;
    };
    let origin = Origin::with_rules(RULES);
    let (open, private) = (origin.url("/open"), origin.url("/private"));
    assert_eq!(gate.get(&private).status, 403);
    // Another program fills the disk to the last octet.
    let filler = disk.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
    while file.write_all(&[0]).is_ok() {}

    let mut refused = Vec::new();
    for url in [&private, &open] {
        refused.push(eventually("a refusal", || {
            let answer = gate.get(url);
            (answer.status == 503 && answer.is_ours()).then_some(answer)
        }));
    }
    gate.wait_said("no room is left on the disk");
    let told = gate.said().matches("decisions cannot be recorded").count();
    assert_eq!(told, 1, "{}", gate.said());
    let before = origin.seen().len();
    for url in [&open, &private] {
        assert_eq!(gate.get(url).status, 503, "{url}");
    }
    assert_eq!(origin.seen().len(), before, "nothing goes out unrecorded");

    fs::remove_file(&filler).unwrap();
    drop(file);
    eventually("room", || (gate.get(&open).status == 200).then_some(()));
    gate.wait_said("decisions are recorded again");
    let denial = gate.get(&private);
    assert_eq!(denial.status, 403, "{denial:?}");
    let denial = denial.problem();
    // SQLite would look for the file in this test's own file systems: the test opens a copy, with its log.
    let copy = gate.setup.dir().join("copy.db");
    fs::copy(disk.join("crawlgate.db"), &copy).unwrap();
    fs::copy(disk.join("crawlgate.db-wal"), copy.with_extension("db-wal")).unwrap();
    let (_, ids) = walk(&copy, (0, chain::GENESIS));
    assert!(ids.contains(denial["id"].as_str().unwrap()), "{denial}");
    for answer in refused {
        let problem = answer.problem();
        assert_eq!(problem["reason"], "log_failed", "{problem}");
        let id = problem["id"].as_str().unwrap();
        assert!(!ids.contains(id), "it was answered 503: {problem}");
    }
}
