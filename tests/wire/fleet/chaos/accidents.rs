//! The accidents of a run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::Random;
use super::crawl::Crawl;
use crate::support::{CrawlgateProcess, Engine, EngineLink, Sentinels, Transfer};

/// The engines that the fleet stands on.
pub(super) enum Ground {
    One {
        engine: Engine,
        links: Vec<EngineLink>,
        /// A copy of the engine's file from an earlier accident.
        old: Option<PathBuf>,
    },
    Sentinels(Sentinels),
}

/// The accidents so far.
#[derive(Debug, Default)]
pub(super) struct AccidentCounts {
    engine_kills: u32,
    old_dumps: u32,
    failovers: u32,
    instance_kills: u32,
    stops: u32,
    losses: u32,
    links: u32,
    others: u32,
}

impl AccidentCounts {
    /// Returns the number of processes that were stopped or killed.
    pub(super) fn stops_and_kills(&self) -> usize {
        (self.stops + self.engine_kills + self.failovers + self.instance_kills) as usize
    }
}

impl Ground {
    /// Has one accident happen, and ends it.
    pub(super) fn accident(
        &mut self,
        gates: &mut [CrawlgateProcess],
        crawl: &Crawl,
        random: &mut Random,
        counts: &mut AccidentCounts,
    ) {
        let one = random.below(gates.len() as u64) as usize;
        match random.below(12) {
            0..3 => {
                counts.instance_kills += 1;
                restart(&mut gates[one], one, crawl, random.millis(0, 1_000));
            }
            3 => {
                counts.stops += 1;
                gates[one].signal(Signal::STOP);
                thread::sleep(random.millis(300, 4_000));
                gates[one].signal(Signal::CONT);
            }
            4 => {
                counts.losses += 1;
                self.ask(&["FLUSHALL"]);
            }
            5 => {
                counts.others += 1;
                for _ in 0..20 {
                    self.ask(&["SCRIPT", "FLUSH"]);
                }
            }
            other => match self {
                Ground::One { engine, links, old } => {
                    single(other, engine, &links[one], old, random, counts);
                }
                Ground::Sentinels(lab) => {
                    counts.failovers += 1;
                    if other < 9 {
                        let old = lab.kill_primary();
                        thread::sleep(random.millis(0, 1_000));
                        lab.start_again(old);
                    } else {
                        let old = lab.signal_primary(Signal::STOP);
                        lab.wait_other(old);
                        lab.signal(old, Signal::CONT);
                    }
                    lab.wait_whole();
                }
            },
        }
    }

    fn ask(&self, words: &[&str]) {
        match self {
            Ground::One { engine, .. } => engine.ask(words),
            Ground::Sentinels(lab) => lab.ask(words),
        };
    }

    /// Ends what an accident may have left behind.
    pub(super) fn heal(&self) {
        if let Ground::One { engine, links, .. } = self {
            engine.ask(&["CONFIG", "SET", "maxmemory", "0"]);
            for link in links {
                link.open();
                link.set(Transfer::Open(Duration::ZERO));
            }
        }
    }
}

/// An accident of a single engine.
fn single(
    which: u64,
    engine: &mut Engine,
    link: &EngineLink,
    old: &mut Option<PathBuf>,
    random: &mut Random,
    counts: &mut AccidentCounts,
) {
    match which {
        6..8 => {
            counts.engine_kills += 1;
            engine.kill();
            let (file, copy) = (engine.folder().join("appendonlydir"), engine.folder().join("old"));
            match old.take() {
                // The file of an earlier time.
                Some(copy) if random.below(2) == 0 => {
                    counts.old_dumps += 1;
                    fs::remove_dir_all(&file).unwrap();
                    fs::rename(copy, &file).unwrap();
                }
                _ => {
                    copy_all(&file, &copy);
                    *old = Some(copy);
                }
            }
            thread::sleep(random.millis(0, 2_000));
            engine.start_again();
        }
        8 => {
            counts.stops += 1;
            engine.signal(Signal::STOP);
            thread::sleep(random.millis(300, 4_000));
            engine.signal(Signal::CONT);
        }
        9 => {
            counts.others += 1;
            let millis = random.millis(200, 1_500).as_millis().to_string();
            engine.ask(&["CLIENT", "PAUSE", &millis, "ALL"]);
            engine.ask(&["PING"]);
        }
        10 => {
            counts.others += 1;
            engine.ask(&["CONFIG", "SET", "maxmemory", "1"]);
            thread::sleep(random.millis(300, 4_000));
            engine.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        }
        _ => {
            counts.links += 1;
            match random.below(4) {
                0 => link.set(Transfer::Hole),
                1 => link.set(Transfer::NoAnswers),
                2 => link.set(Transfer::Open(Duration::from_millis(150))),
                _ => link.close(),
            }
            thread::sleep(random.millis(300, 5_000));
            link.open();
            link.set(Transfer::Open(Duration::ZERO));
        }
    }
}

/// Kills an instance, and starts it again after a time.
fn restart(gate: &mut CrawlgateProcess, place: usize, crawl: &Crawl, after: Duration) {
    gate.signal(Signal::KILL);
    gate.wait();
    thread::sleep(after);
    gate.start_again();
    *crawl.gates[place].lock().unwrap() = gate.address();
}

fn copy_all(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}
