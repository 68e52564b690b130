//! A real engine for a fleet, with a link to it that tests can cut.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;
use super::peer::{free_port, program};

/// A redis-server, or another program of its kind, on a new Unix socket; killed when it is dropped.
pub(crate) struct Engine {
    child: Child,
    folder: tempfile::TempDir,
    program: String,
    options: Vec<String>,
    /// True if its clock is the file [`Engine::set_clock`] writes.
    has_clock: bool,
}

/// The library that gives a process another clock, as the dynamic linker finds it.
const FAKE_CLOCK: &str = "/usr/$LIB/faketime/libfaketime.so.1";

/// Has a process run with another clock, apart from this one as libfaketime writes it: `+300s`. `None` where libfaketime is not
/// installed, like an engine.
pub(crate) fn with_clock<'a>(command: &'a mut Command, apart: &str) -> Option<&'a mut Command> {
    program("faketime")?;
    let command = command.env("LD_PRELOAD", FAKE_CLOCK).env("FAKETIME", apart);
    Some(command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1"))
}

impl Engine {
    /// Starts an engine that keeps nothing on the disk; `None` where none is installed, which fails the test if
    /// `CRAWLGATE_REQUIRE_CLIENTS` is set.
    #[track_caller]
    pub(crate) fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// Starts an engine with further options.
    #[track_caller]
    pub(crate) fn with(options: &[&str]) -> Option<Self> {
        Self::of(program("redis-server")?, options, false)
    }

    /// Starts Valkey, likewise.
    #[track_caller]
    pub(crate) fn valkey() -> Option<Self> {
        Self::of(program("valkey")?, &[], false)
    }

    /// Starts one engine of each kind that is installed.
    #[track_caller]
    pub(crate) fn each() -> impl Iterator<Item = Self> {
        [Self::start(), Self::valkey()].into_iter().flatten()
    }

    /// Starts one engine of each kind and version that is installed, with further options.
    #[track_caller]
    pub(crate) fn each_version(options: &[&str]) -> impl Iterator<Item = Self> {
        let programs = ["redis-server", "redis-8", "valkey-8", "valkey"].map(program);
        programs.into_iter().flatten().filter_map(|program| {
            let (mut options, port) = (options.to_vec(), free_port().to_string());
            // A node of a cluster listens for the others.
            if options.contains(&"--cluster-enabled") {
                options.extend(["--cluster-port", port.as_str()]);
            }
            Self::of(program, &options, false)
        })
    }

    /// Starts Valkey with a clock that can be set. Debian's Redis does not start with it: its allocator asks for the time.
    #[track_caller]
    pub(crate) fn with_clock() -> Option<Self> {
        program("faketime")?;
        Self::of(program("valkey")?, &[], true)
    }

    /// Sets the clock apart from that of this machine, as libfaketime writes it: `+3600`.
    pub(crate) fn set_clock(&self, apart: &str) {
        // In one step, so that no half of it is read.
        let new = self.folder.path().join("clock.new");
        std::fs::write(&new, apart).unwrap();
        std::fs::rename(new, clock_file(&self.folder)).unwrap();
    }

    #[track_caller]
    fn of(program: String, options: &[&str], has_clock: bool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        std::fs::write(clock_file(&folder), "+0").unwrap();
        let child = spawn(&program, &folder, &options, has_clock);
        let engine = Self { child, folder, program, options, has_clock };
        engine.answers();
        Some(engine)
    }

    /// Returns the path of its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    #[track_caller]
    fn answers(&self) {
        eventually("the engine to answer", || {
            UnixStream::connect(self.socket()).ok()?;
            // An engine that reads its file refuses until it has.
            (self.ask(&["PING"]) == "+PONG\r\n").then_some(())
        });
    }

    /// Sends a command; returns the first part of the answer, as it is on the wire.
    #[track_caller]
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(command.as_bytes()).unwrap();
        let mut octets = vec![0; 1 << 16];
        let length = stream.read(&mut octets).unwrap();
        String::from_utf8_lossy(&octets[..length]).into_owned()
    }

    /// Kills the engine with all that it has not written.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed engine again, with no more than it has written.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        std::fs::remove_file(self.socket()).unwrap();
        self.child = spawn(&self.program, &self.folder, &self.options, self.has_clock);
        self.answers();
    }

    /// Returns the directory of its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends the engine a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Opens a link to the engine that can be cut.
    pub(crate) fn link(&self) -> EngineLink {
        EngineLink::before(self.socket())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn clock_file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("clock")
}

fn spawn(program: &str, folder: &tempfile::TempDir, options: &[String], has_clock: bool) -> Child {
    let mut command = Command::new(program);
    if has_clock {
        command
            .env("LD_PRELOAD", FAKE_CLOCK)
            .env("FAKETIME_TIMESTAMP_FILE", clock_file(folder))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    command
        .args(["--port", "0", "--unixsocket"])
        .arg(folder.path().join("engine.sock"))
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path())
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The treatment of octets on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Each part passes after this time.
    Open(Duration),
    /// Nothing passes, and connections stay. What was sent arrives when the link is open again.
    Hole,
    /// Questions pass, answers do not.
    NoAnswers,
}

/// A TCP port that leads to an engine, until it is closed.
pub(crate) struct EngineLink {
    address: SocketAddr,
    gate: Arc<LinkControl>,
}

#[derive(Default)]
struct LinkControl {
    traffic: Mutex<LinkTraffic>,
    change: Condvar,
}

/// The connections over a link.
struct LinkTraffic {
    is_open: bool,
    transfer: Transfer,
    through: Vec<(TcpStream, UnixStream)>,
}

impl Default for LinkTraffic {
    fn default() -> Self {
        Self { is_open: true, transfer: Transfer::Open(Duration::ZERO), through: Vec::new() }
    }
}

impl EngineLink {
    fn before(engine: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::<LinkControl>::default();
        let at = Arc::clone(&gate);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut traffic = at.traffic.lock().unwrap();
                let Some(far) = UnixStream::connect(&engine).ok().filter(|_| traffic.is_open)
                else {
                    continue;
                };
                let (mut up, mut down) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                let (mut to_far, mut to_near) =
                    (near.try_clone().unwrap(), far.try_clone().unwrap());
                traffic.through.push((near, far));
                let (there, back) = (Arc::clone(&at), Arc::clone(&at));
                thread::spawn(move || {
                    let _ = there.carry(&mut to_far, &mut up, false);
                    let _ = up.shutdown(Shutdown::Both);
                });
                thread::spawn(move || {
                    let _ = back.carry(&mut to_near, &mut down, true);
                    let _ = down.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, gate }
    }

    /// Returns the address as a value of `[fleet] engine`.
    pub(crate) fn engine(&self) -> String {
        format!("\"{}\"", self.address)
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends all connections and takes no more.
    pub(crate) fn close(&self) {
        let mut traffic = self.gate.traffic.lock().unwrap();
        traffic.is_open = false;
        for (near, far) in traffic.through.drain(..) {
            let _ = near.shutdown(Shutdown::Both);
            let _ = far.shutdown(Shutdown::Both);
        }
    }

    /// Takes connections again.
    pub(crate) fn open(&self) {
        self.gate.traffic.lock().unwrap().is_open = true;
    }

    /// Changes how octets pass, those under way included.
    pub(crate) fn set(&self, transfer: Transfer) {
        self.gate.traffic.lock().unwrap().transfer = transfer;
        self.gate.change.notify_all();
    }
}

impl LinkControl {
    /// Carries octets for as long as both ends live.
    fn carry(&self, from: &mut dyn Read, to: &mut dyn Write, is_answer: bool) -> io::Result<()> {
        let mut octets = vec![0; 1 << 16];
        loop {
            let length = from.read(&mut octets)?;
            if length == 0 {
                return Ok(());
            }
            let traffic = self.traffic.lock().unwrap();
            let is_blocked = |traffic: &mut LinkTraffic| match traffic.transfer {
                Transfer::Open(_) => false,
                Transfer::Hole => true,
                Transfer::NoAnswers => is_answer,
            };
            let traffic = self.change.wait_while(traffic, is_blocked).unwrap();
            let delay = match traffic.transfer {
                Transfer::Open(delay) => delay,
                Transfer::Hole | Transfer::NoAnswers => Duration::ZERO,
            };
            drop(traffic);
            thread::sleep(delay);
            to.write_all(&octets[..length])?;
        }
    }
}
