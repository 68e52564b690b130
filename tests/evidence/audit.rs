//! The decision log after a kill at any moment: only whole lines are left, and no flushed line is missing.

use std::{
    collections::HashSet,
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crawlgate_config::{Config, Recorded};
use crawlgate_evidence::{DecisionId, Exceeds, Grounds, Log};
use crawlgate_record::{Bounds, Decision, Url};
use crawlgate_system::clock::Clock;

/// The variable that makes this program the child: the log to write.
const CHILD: &str = "CRAWLGATE_TEST_AUDIT_CHILD";

/// Records per flush.
const BURST: usize = 500;

fn config(file: PathBuf) -> Config {
    let mut config = Config::default();
    config.log.file = Some(file);
    config.log.rotate_bytes = u64::MAX;
    config.log.rotate_daily = false;
    config.audit.refusals_per_minute = None;
    config
}

/// Records until it is killed, and prints the number of written records after each flush.
fn record_for_ever(file: PathBuf) -> ! {
    let clock = Clock::system();
    let log = Log::open(&config(file), None, &clock).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let url = format!("http://site.example/{}", "x".repeat(3_000));
    for written in 1.. {
        for _ in 0..BURST {
            let now = clock.now();
            let origin = Some("http://site.example");
            let decision = Decision {
                id: DecisionId::mint(now).octets(),
                decided_after: 0,
                url: Url::public(url.as_bytes(), origin, false, Bounds::CLIENTS),
                origin,
                ..Decision::sample()
            };
            let grounds = Grounds::default();
            log.record(&decision, &grounds, Recorded::Denied, Exceeds::Nothing);
        }
        runtime.block_on(log.flush()).unwrap();
        println!("written {}", written * BURST);
    }
    unreachable!("the loop is endless")
}

/// Returns the ids in `file`; each line must be a whole record.
fn ids(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| {
            let record: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            record["id"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn a_kill_leaves_whole_lines_and_all_that_was_flushed() {
    if let Some(file) = env::var_os(CHILD) {
        record_for_ever(file.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("decisions.jsonl");
    let mut flushed = 0;
    for bursts in [1, 2, 3, 5, 8] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("audit::a_kill_leaves_whole_lines_and_all_that_was_flushed")
            .env(CHILD, &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(|line| line.unwrap())
            .filter_map(|line| line.rsplit_once("written ")?.1.parse::<usize>().ok())
            .nth(bursts - 1);
        // The kill comes while the child writes further records.
        child.kill().unwrap();
        child.wait().unwrap();
        flushed += said.unwrap_or_else(|| panic!("the child ended early"));

        // The next start finds the file whole, or repairs it.
        Log::open(&config(file.clone()), None, &Clock::system()).unwrap();
        let ids = ids(&file);
        assert!(ids.len() >= flushed, "{} of {flushed}", ids.len());
        flushed = ids.len();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "none twice");
    }
}
