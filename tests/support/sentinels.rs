//! Two real engines, one of them a replica, under three real Sentinels.
//!
//! They listen on a loopback address of their own, at ports that the kernel picks, because Sentinels and replicas have to
//! find each other again after a restart.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::peer::program;
use super::{eventually, within};

/// The time after which a Sentinel takes a silent primary for dead. In service it is five seconds or more.
const DOWN_AFTER: &str = "600";

/// The name of the primary in the Sentinels.
const MASTER: &str = "crawl";

/// The time for what Sentinels do: they do nothing for half a minute after they were held up.
const SLOW: Duration = Duration::from_secs(90);

/// A primary, its replica and their Sentinels; killed when they are dropped.
pub(crate) struct Sentinels {
    engines: Vec<Server>,
    sentinels: Vec<Server>,
    _folder: tempfile::TempDir,
}

/// A process of `redis-server`.
struct Server {
    child: Child,
    address: SocketAddr,
    arguments: Vec<String>,
    folder: PathBuf,
}

impl Sentinels {
    /// Starts them; `None` where `redis-server` is not installed.
    #[track_caller]
    pub(crate) fn start() -> Option<Self> {
        program("redis-server")?;
        let folder = tempfile::tempdir().unwrap();
        let mut random = [0; 3];
        aws_lc_rs::rand::fill(&mut random).unwrap();
        let [b, c, d] = random;
        // Other tests listen on 127.0.0.1.
        let host = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
        let mut engines: Vec<Server> = Vec::new();
        for name in ["one", "two"] {
            let mut arguments = words(&["--save", "", "--appendonly", "no"]);
            if let Some(primary) = engines.first() {
                arguments.push("--replicaof".to_owned());
                arguments.push(format!("{host} {}", primary.address.port()));
            }
            engines.push(Server::start(host, folder.path().join(name), arguments));
        }
        let primary = engines[0].address.port();
        eventually("the replica to follow", || {
            let said = engines[0].ask(&["INFO", "replication"]);
            said.contains("state=online").then_some(())
        });
        let mut sentinels = Vec::new();
        for name in ["s1", "s2", "s3"] {
            let folder = folder.path().join(name);
            fs::create_dir(&folder).unwrap();
            let file = folder.join("sentinel.conf");
            let text = format!(
                "sentinel monitor {MASTER} {host} {primary} 2\nsentinel down-after-milliseconds {MASTER} {DOWN_AFTER}\n\
                 sentinel failover-timeout {MASTER} 2000\nsentinel announce-ip {host}\n"
            );
            fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            sentinels.push(Server::start(host, folder.clone(), words(&[file, "--sentinel"])));
        }
        let lab = Self { engines, sentinels, _folder: folder };
        lab.wait_whole();
        Some(lab)
    }

    /// Waits until every Sentinel knows the others, and the primary a replica that has its data.
    #[track_caller]
    pub(crate) fn wait_whole(&self) {
        within(SLOW, "the Sentinels to know all", || {
            let primary = self.primary()?;
            let said = self.engines[primary].ask(&["INFO", "replication"]);
            let is_followed = said.contains("role:master") && said.contains("state=online");
            let know_all = self.sentinels.iter().all(|one| {
                let said = one.ask(&["SENTINEL", "CKQUORUM", MASTER]);
                let others = one.ask(&["INFO", "sentinel"]);
                said.starts_with("+OK 3")
                    && others.contains("status=ok")
                    && others.contains("slaves=1,sentinels=3")
            });
            (is_followed && know_all).then_some(())
        });
    }

    /// Returns the number of the engine that all Sentinels name as the primary.
    pub(crate) fn primary(&self) -> Option<usize> {
        let mut named = self.sentinels.iter().map(|one| {
            let said = one.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
            let port = said.lines().nth(4)?.parse::<u16>().ok()?;
            self.engines.iter().position(|one| one.address.port() == port)
        });
        let first = named.next()??;
        named.all(|one| one == Some(first)).then_some(first)
    }

    /// Sends a command to the primary.
    #[track_caller]
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let primary = within(SLOW, "a primary", || self.primary());
        self.engines[primary].ask(words)
    }

    /// Kills the primary; returns its number when the Sentinels name the other one.
    #[track_caller]
    pub(crate) fn kill_primary(&mut self) -> usize {
        let before = within(SLOW, "a primary", || self.primary());
        let engine = &mut self.engines[before];
        engine.child.kill().unwrap();
        engine.child.wait().unwrap();
        self.wait_other(before);
        before
    }

    /// Has the Sentinels make the other engine the primary, as an operator does. Both engines go on.
    #[track_caller]
    pub(crate) fn fail_over(&self) {
        let before = within(SLOW, "a primary", || self.primary());
        within(SLOW, "a failover to begin", || {
            let said = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", MASTER]);
            said.starts_with("+OK").then_some(())
        });
        self.wait_other(before);
    }

    /// Sends the primary a signal; returns its number.
    #[track_caller]
    pub(crate) fn signal_primary(&self, signal: Signal) -> usize {
        let primary = within(SLOW, "a primary", || self.primary());
        self.signal(primary, signal);
        primary
    }

    /// Sends an engine a signal.
    pub(crate) fn signal(&self, engine: usize, signal: Signal) {
        let id = i32::try_from(self.engines[engine].child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Parts the primary from its replica and from the Sentinels for good, while other connections to it stay. Returns its
    /// number when the Sentinels name the other one.
    #[track_caller]
    pub(crate) fn part_primary(&self) -> usize {
        let before = within(SLOW, "a primary", || self.primary());
        let server = &self.engines[before];
        // A connection that is open stays one of a user without a password.
        let mut stream = TcpStream::connect(server.address).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut say = |command: &str| {
            stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
            let mut text = String::new();
            answers.read_line(&mut text).unwrap();
            if let Some(length) = text.strip_prefix('$') {
                let length: u64 = length.trim().parse().unwrap();
                text.clear();
                answers.by_ref().take(length + 2).read_to_string(&mut text).unwrap();
            }
            text
        };
        assert_eq!(say("CONFIG SET requirepass parted"), "+OK\r\n");
        for client in say("CLIENT LIST").lines() {
            let field = |name: &str| {
                let mut fields = client.split(' ');
                fields.find_map(|field| field.strip_prefix(name)).unwrap_or_default()
            };
            let is_replica = field("flags=").contains('S');
            if is_replica || field("name=").starts_with("sentinel-") {
                say(&format!("CLIENT KILL ID {}", field("id=")));
            }
        }
        self.wait_other(before);
        before
    }

    /// Returns the address of an engine as a value of `[fleet] engine`.
    pub(crate) fn address(&self, engine: usize) -> String {
        format!("\"{}\"", self.engines[engine].address)
    }

    /// Waits until the Sentinels name another primary than this one.
    #[track_caller]
    pub(crate) fn wait_other(&self, than: usize) {
        within(SLOW, "a failover", || self.primary().filter(|primary| *primary != than));
    }

    /// Starts a killed engine again. It takes itself for what it was when it was first started.
    #[track_caller]
    pub(crate) fn start_again(&mut self, engine: usize) {
        let server = &mut self.engines[engine];
        server.child = server.spawn();
    }

    /// Returns the Sentinels as a value of `[fleet] sentinels`.
    pub(crate) fn addresses(&self) -> String {
        let all: Vec<String> = self.sentinels.iter().map(|one| one.address.to_string()).collect();
        format!("{all:?}")
    }

    /// Returns the name of the primary as a value of `[fleet] master`.
    pub(crate) fn master(&self) -> String {
        format!("{MASTER:?}")
    }
}

impl Server {
    #[track_caller]
    fn start(host: Ipv4Addr, folder: PathBuf, arguments: Vec<String>) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let child = spawn(&address, &folder, &arguments);
        let server = Self { child, address, arguments, folder };
        eventually("an engine to answer", || (server.ask(&["PING"]) == "+PONG\r\n").then_some(()));
        server
    }

    fn spawn(&self) -> Child {
        spawn(&self.address, &self.folder, &self.arguments)
    }

    /// Sends a command; returns the answer as it is on the wire, or nothing if none comes.
    fn ask(&self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.asked(&command).unwrap_or_default()
    }

    fn asked(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(command.as_bytes())?;
        let mut answer = BufReader::new(stream);
        let mut text = String::new();
        answer.read_line(&mut text)?;
        if let Some(Ok(length)) = text.strip_prefix('$').map(|length| length.trim().parse::<u64>())
        {
            answer.take(length).read_to_string(&mut text)?;
        } else if text.starts_with("*2") {
            for _ in 0..4 {
                answer.read_line(&mut text)?;
            }
        }
        Ok(text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(address: &SocketAddr, folder: &PathBuf, arguments: &[String]) -> Child {
    let host = address.ip().to_string();
    let mut command = Command::new("redis-server");
    command.args(arguments);
    if !arguments.iter().any(|word| word == "--sentinel") {
        command.args(["--replica-announce-ip", &host, "--repl-diskless-sync-delay", "0"]);
    }
    command
        .args(["--port", &address.port().to_string(), "--bind", &host])
        .args(["--protected-mode", "no", "--dir"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
