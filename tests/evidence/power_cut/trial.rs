//! Gates under load, their crawlers, and the journal of their folder.

use std::fmt;
use std::fs;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use super::disk::{Disk, Image, is_passing};
use super::journal;
use crate::support::{CrawlgateProcess, Origin, PATIENCE, RULES, Response, Setup, within};

/// The number of concurrent crawlers.
const CRAWLERS: usize = 4;

/// The bound of a store: a small one has a small log, which the engine carries over often.
const MAX_SIZE: &str = "\"32MiB\"";

/// Octets of the journal for each of a trial's two gates: enough for the engine to carry its log over several times.
pub(crate) const LONG: u64 = 8 * 1024 * 1024;

/// The time for them: each denial waits for the disk.
const WRITING: Duration = PATIENCE.saturating_mul(4);

/// A kind of durability, as the configuration names it.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) durability: &'static str,
    pub(crate) synchronous: &'static str,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.durability, self.synchronous)
    }
}

/// A denial that a crawler was told.
pub(crate) struct AnsweredDenial {
    pub(crate) id: String,
    /// Octets of the journal when the answer was there.
    pub(crate) at: u64,
    pub(crate) time: Duration,
}

/// Two gates, one after the other, on one store; all that they changed, and all that they told.
pub(crate) struct Trial {
    pub(crate) disk: Disk,
    pub(crate) answered: Vec<AnsweredDenial>,
    pub(crate) origin: Origin,
    /// The longest time that the machine took from a thread of the trial.
    longest_stall: Duration,
}

impl Trial {
    /// Runs the trial: the first start, crawling, an orderly end; another start, crawling, and a kill.
    pub(crate) fn run(kind: Kind, enough: u64) -> Self {
        let stalls = Stalls::watch();
        let beside = tempfile::tempdir().unwrap();
        let journal = beside.path().join("journal");
        let origin = Origin::with_rules(RULES);
        let mut setup = Setup::new();
        setup.set("log", "file", "\"\"");
        setup.set("log", "decisions", "\"denied\"");
        setup.set("audit", "durability", &format!("\"{}\"", kind.durability));
        setup.set("audit", "refusals_per_minute", "10000000");
        setup.set("audit", "checkpoint_every", "\"1s\"");
        setup.set("audit", "max_size", MAX_SIZE);
        setup.set("store", "synchronous", &format!("\"{}\"", kind.synchronous));
        let command = |setup: &Setup| {
            let mut command = setup.command("serve");
            command
                .env("LD_PRELOAD", journal::shim())
                .env("POWER_CUT_FOLDER", setup.dir())
                .env("POWER_CUT_JOURNAL", &journal);
            command
        };
        let first: Command = command(&setup);
        let before = content(setup.dir());
        let mut answered = Vec::new();
        let mut gate = CrawlgateProcess::spawn(setup, first);
        answered.extend(crawl(gate.address, &origin, &journal, enough));
        gate.signal(Signal::TERM);
        gate.wait();
        let setup = std::mem::replace(&mut gate.setup, Setup::new());
        let second = command(&setup);
        let mut gate = CrawlgateProcess::spawn(setup, second);
        answered.extend(crawl(gate.address, &origin, &journal, 2 * enough));
        gate.signal(Signal::POWER);
        gate.wait();

        let disk = Disk::of(before, journal::read(&fs::read(&journal).unwrap()));
        let end = content(gate.setup.dir());
        let names = |image: &Image| image.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&disk.end()), names(&end), "the journal has every name");
        for (name, content) in disk.end() {
            let is_same = end[&name] == content;
            assert!(is_same, "{name}: the journal has not every change");
        }
        Self { disk, answered, origin, longest_stall: stalls.longest() }
    }

    /// Returns the longest time that the machine took from a thread that only had to wake.
    pub(crate) fn longest_stall(&self) -> Duration {
        self.longest_stall
    }

    /// Returns the longest time that the disk took.
    pub(crate) fn slowest_sync(&self) -> Duration {
        self.disk.slowest_sync()
    }
}

/// Lets crawlers ask for denied pages until the journal has this many octets; returns the denials that arrived.
fn crawl(gate: SocketAddr, origin: &Origin, journal: &Path, enough: u64) -> Vec<AnsweredDenial> {
    let answered = Arc::new(Mutex::new(Vec::new()));
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let crawlers: Vec<_> = (0..CRAWLERS)
        .map(|n| {
            let (answered, over) = (Arc::clone(&answered), Arc::clone(&over));
            let (journal, count) = (journal.to_owned(), Arc::clone(&count));
            let url = origin.url(&format!("/private/{n}"));
            thread::spawn(move || {
                let mut stream = TcpStream::connect(gate).unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let request =
                    format!("GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot\r\n\r\n");
                while !over.load(Ordering::Relaxed) {
                    stream.write_all(request.as_bytes()).unwrap();
                    let answer = Response::read(&mut reader, "GET").unwrap().unwrap();
                    let time = clock_gettime(ClockId::Monotonic);
                    assert_eq!(answer.status, 403, "{answer:?}");
                    let one = AnsweredDenial {
                        id: answer.problem()["id"].as_str().unwrap().to_owned(),
                        at: fs::metadata(&journal).unwrap().len(),
                        time: time.try_into().unwrap(),
                    };
                    answered.lock().unwrap().push(one);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    within(WRITING, "enough writes", || {
        let size = fs::metadata(journal).unwrap().len();
        (size >= enough && count.load(Ordering::Relaxed) > 0).then_some(())
    });
    over.store(true, Ordering::Relaxed);
    for crawler in crawlers {
        crawler.join().unwrap();
    }
    std::mem::take(&mut answered.lock().unwrap())
}

/// A thread that wakes again and again, and notes how late it is.
struct Stalls {
    /// Microseconds.
    longest: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Stalls {
    fn watch() -> Self {
        const NAP: Duration = Duration::from_millis(5);

        let (longest, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (late, over) = (Arc::clone(&longest), Arc::clone(&is_over));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::park_timeout(NAP);
                let by = began.elapsed().saturating_sub(NAP).as_micros();
                late.fetch_max(by.try_into().unwrap(), Ordering::Relaxed);
            }
        });
        Self { longest, is_over }
    }

    /// Returns the longest delay so far.
    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Returns the files of a folder.
fn content(folder: &Path) -> Image {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    let files =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()));
    files.filter(|(name, _)| !is_passing(name)).collect()
}
