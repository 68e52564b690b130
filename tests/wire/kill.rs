//! The store under kill -9 of its two writers, and on a full disk. Page: `docs/store.md`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;

use crate::support::{
    CrawlgateProcess, Origin, RULES, Response, Setup, StoredLog, eventually, wait_until,
};

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
            Ok(Some(answer)) if matches!(answer.status, 403 | 502) => {
                let id = answer.problem()["id"].as_str().unwrap().to_owned();
                told.lock().unwrap().push(id);
                count.fetch_add(1, Ordering::Relaxed);
            }
            _ => return,
        }
    }
}

/// A second writer on the store of a gate: `crawlgate run`, with a command that waits for the end of its input.
struct Run {
    child: Child,
    address: SocketAddr,
}

impl Run {
    fn beside(gate: &CrawlgateProcess) -> Self {
        let mut command = gate.setup.command("run");
        command.args(["--", "sh", "-c", "echo $http_proxy; exec cat"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut proxy = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut proxy).unwrap();
        let address = proxy.trim().trim_start_matches("http://").trim_end_matches('/');
        let address = address.parse().unwrap_or_else(|why| panic!("{why}: {proxy:?}"));
        Self { child, address }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
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
    let mut gate = CrawlgateProcess::with(|setup| {
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
    for (url, status) in urls.iter().zip([403, 502]) {
        assert_eq!(gate.get(url).status, status);
    }
    let known = states(&store);
    assert_eq!(known.len(), 2, "{known:?}");

    let mut before = StoredLog::read(&store);
    let told = Arc::new(Mutex::new(Vec::new()));
    for round in 0..ROUNDS {
        let run = Run::beside(&gate);
        let (by_gate, by_run) = (Arc::default(), Arc::default());
        let crawlers: Vec<_> = (0..CRAWLERS)
            .map(|n| {
                let told = Arc::clone(&told);
                let (address, count) = match n / 2 % 2 {
                    0 => (gate.address, Arc::clone(&by_gate)),
                    _ => (run.address, Arc::clone(&by_run)),
                };
                let url = urls[n % 2].clone();
                thread::spawn(move || crawl(address, &url, &told, &count))
            })
            .collect();
        let wait = |count: &AtomicUsize, enough| {
            wait_until("denials", || count.load(Ordering::Relaxed) >= enough);
        };
        // Each round ends at another point: in the first batch, or after many.
        let enough = 1 + round * 3;
        wait(&by_gate, enough);
        wait(&by_run, enough);
        // The other writer continues behind what the killed one has left.
        let half = if round.is_multiple_of(2) {
            gate.signal(Signal::KILL);
            gate.wait();
            wait(&by_run, by_run.load(Ordering::Relaxed) + 3);
            let half = StoredLog::read(&store);
            run.kill();
            gate.start_again();
            half
        } else {
            run.kill();
            wait(&by_gate, by_gate.load(Ordering::Relaxed) + 3);
            let half = StoredLog::read(&store);
            gate.restart(Signal::KILL);
            half
        };
        for crawler in crawlers {
            crawler.join().unwrap();
        }
        let log = StoredLog::read(&store);
        for (earlier, later) in [(&before, &half), (&half, &log)] {
            assert_eq!(
                later.root(earlier.size()),
                earlier.root(earlier.size()),
                "round {round}: what was there has changed"
            );
        }
        for id in told.lock().unwrap().drain(..) {
            assert!(log.decisions.contains(&id), "round {round}: {id} was told and is not kept");
        }
        assert_eq!(states(&store), known, "round {round}");
        before = log;
    }
    assert!(before.packed > 0, "no block was made meanwhile");
    assert_eq!(origin.robots_fetches(), 1, "a cached robots.txt was not fetched again");
    let (_, said) = gate.ends(2, "store", &["rebuild"]);
    says!(said, "another process has the store open");
    gate.signal(Signal::TERM);
    gate.wait();
    let whole = StoredLog::read(&store);
    assert_eq!(whole.signed.last(), Some(&whole.size()), "signed at its end");
    for (command, words) in [("store", ["check"].as_slice()), ("audit", &["verify", "--all"])] {
        gate.succeeds(command, words);
    }
}

/// Returns a gate with its store on a separate file system of 4 MiB, and the path of that file system from outside.
/// `None` if this machine allows no mount.
fn confined() -> Option<(CrawlgateProcess, std::path::PathBuf)> {
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
    let mounted = format!("{mount} && exec \"$0\" \"$@\"");
    let command = setup.command_in(&["unshare", "--mount", "sh", "-c", &mounted], "serve");
    let gate = CrawlgateProcess::spawn(setup, command);
    let root = format!("/proc/{}/root", gate.id());
    let seen = Path::new(&root).join(small.strip_prefix("/").unwrap());
    Some((gate, seen))
}

#[test]
fn without_room_requests_are_denied_and_with_it_they_go_on_and_nothing_is_lost() {
    let (gate, disk) = or_skip!(confined());
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
    gate.until(200, &open);
    gate.wait_said("decisions are recorded again");
    let denial = gate.get(&private);
    assert_eq!(denial.status, 403, "{denial:?}");
    let denial = denial.problem();
    // SQLite would look for the file in this test's own file systems: the test opens a copy, with its log.
    let copy = gate.setup.dir().join("copy.db");
    fs::copy(disk.join("crawlgate.db"), &copy).unwrap();
    fs::copy(disk.join("crawlgate.db-wal"), copy.with_extension("db-wal")).unwrap();
    let ids = StoredLog::read(&copy).decisions;
    assert!(ids.contains(denial["id"].as_str().unwrap()), "{denial}");
    for answer in refused {
        let problem = answer.problem();
        assert_eq!(problem["reason"], "log_failed", "{problem}");
        let id = problem["id"].as_str().unwrap();
        assert!(!ids.contains(id), "it was answered 503: {problem}");
    }
}
