//! The crawlers and the operator of a run.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Random;
use crate::support::{Origin, Response, program};

/// The time after which an answer counts as missing: far above each hold, of which the longest is `[pace] max_hold` by default.
const HUNG: Duration = Duration::from_secs(60);

/// The state that crawlers and operator share.
pub(super) struct Crawl {
    /// One that nothing bounds, and one with a crawl delay.
    pub(super) origins: [Origin; 2],
    /// The present address of each instance.
    pub(super) gates: Vec<Mutex<SocketAddr>>,
    /// The directory of each instance.
    pub(super) folders: Vec<PathBuf>,
    /// The identifiers of the denials that arrived whole.
    pub(super) told: Mutex<Vec<String>>,
    pub(super) answers: Mutex<BTreeMap<String, usize>>,
    pub(super) orders: Mutex<Vec<Order>>,
    pub(super) is_over: AtomicBool,
}

/// An override, as the operator was told.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) path: String,
    /// The moment at which the command had ended.
    pub(super) added: Instant,
    /// The moment before the command that removed it.
    pub(super) removed: Option<Instant>,
    /// True if all instances were said to have it.
    pub(super) is_everywhere: bool,
    /// True if the engine has it: those that were late get it, or forward nothing.
    pub(super) is_certain: bool,
    id: String,
    at: usize,
}

impl Crawl {
    /// Asks for one page after the other.
    pub(super) fn ask(&self, mut random: Random) {
        while !self.is_over.load(Ordering::Acquire) {
            let gate = random.below(self.gates.len() as u64) as usize;
            let origin = &self.origins[usize::from(random.below(24) == 0)];
            let path = match random.below(3) {
                0 => format!("/private/{}", random.below(100)),
                1 => "/open".to_owned(),
                _ => self.contested(&mut random),
            };
            let address = *self.gates[gate].lock().unwrap();
            let Some(answer) = request(address, &origin.url(&path)) else {
                // The instance is down.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let reason = match answer.status {
                403 | 429 | 503 => {
                    let problem = answer.problem();
                    if answer.status == 403 {
                        let id = problem["id"].as_str().unwrap().to_owned();
                        self.told.lock().unwrap().push(id);
                    }
                    problem["reason"].as_str().unwrap().to_owned()
                }
                status => {
                    assert_eq!(status, 200, "{}", answer.text());
                    assert!(!path.starts_with("/private"), "{path} was served");
                    "200".to_owned()
                }
            };
            *self.answers.lock().unwrap().entry(reason).or_default() += 1;
        }
    }

    /// Returns a path that an override is about, one of the latest.
    fn contested(&self, random: &mut Random) -> String {
        let orders = self.orders.lock().unwrap();
        // Beyond the last one, too: its pages are open until it is added.
        let number = (orders.len() as u64 + 1).saturating_sub(random.below(6));
        format!("/over/{number}/")
    }

    /// Adds and removes overrides at random instances.
    pub(super) fn order(&self, mut random: Random) {
        let mut number = 0;
        while !self.is_over.load(Ordering::Acquire) {
            thread::sleep(random.millis(50, 400));
            let at = random.below(self.gates.len() as u64) as usize;
            let old = self.orders.lock().unwrap().iter().position(|order| {
                order.is_certain && order.removed.is_none() && random.below(8) == 0
            });
            match old {
                Some(place) => self.remove(place),
                None => {
                    number += 1;
                    // With its end, so that it is about no other one.
                    self.add(at, format!("/over/{number}/"));
                }
            }
        }
    }

    fn add(&self, at: usize, path: String) {
        let url = self.origins[0].url("");
        let words =
            ["add", &url, &path, "deny", "--until", "1d", "--by", "Ada", "--reason", "a letter"];
        let said = self.run(at, &words).unwrap_or_default();
        let id = said.strip_prefix("override ").and_then(|rest| rest.split(':').next());
        let order = Order {
            path,
            added: Instant::now(),
            removed: None,
            is_everywhere: said.ends_with("in force on a1, a2, a3\n"),
            is_certain: said.contains("in force on "),
            id: id.unwrap_or_default().to_owned(),
            at,
        };
        self.orders.lock().unwrap().push(order);
    }

    fn remove(&self, place: usize) {
        let (id, at) = {
            let mut orders = self.orders.lock().unwrap();
            let order = &mut orders[place];
            order.removed = Some(Instant::now());
            (order.id.clone(), order.at)
        };
        let said = self.run(at, &["remove", &id, "--by", "Grace"]);
        if said.is_none_or(|said| !said.contains("in force on ")) {
            self.orders.lock().unwrap()[place].is_certain = false;
        }
    }

    /// Runs `crawlgate override`; `None` if it fails.
    fn run(&self, at: usize, words: &[&str]) -> Option<String> {
        let mut command = Command::new(program());
        command.args(["override", words[0], "--config", "config.toml"]).args(&words[1..]);
        let output = command.current_dir(&self.folders[at]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(said)
    }
}

/// Requests a page on a new connection; `None` if the connection fails. Panics if no answer comes.
pub(in crate::fleet) fn request(gate: SocketAddr, url: &str) -> Option<Response> {
    let mut stream = TcpStream::connect(gate).ok()?;
    stream.set_read_timeout(Some(HUNG)).unwrap();
    let request = format!(
        "GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    match Response::read(&mut BufReader::new(stream), "GET") {
        Ok(answer) => answer.filter(|answer| answer.whole),
        Err(why) => {
            assert_ne!(why.kind(), std::io::ErrorKind::WouldBlock, "no answer for {url}");
            None
        }
    }
}
