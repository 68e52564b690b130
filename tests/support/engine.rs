//! A real engine for a fleet, with a wall before it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;
use super::peer::program;

/// A redis-server on a Unix socket of its own; killed when it is dropped.
pub(crate) struct Engine {
    child: Child,
    folder: tempfile::TempDir,
}

impl Engine {
    /// Starts an engine that keeps nothing on the disk; `None` where none is installed, which fails the test if
    /// `CRAWLGATE_REQUIRE_CLIENTS` is set.
    #[track_caller]
    pub(crate) fn start() -> Option<Self> {
        program("redis-server")?;
        let folder = tempfile::tempdir().unwrap();
        let child = spawn(&folder);
        let engine = Self { child, folder };
        engine.answers();
        Some(engine)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    #[track_caller]
    fn answers(&self) {
        eventually("the engine to answer", || {
            UnixStream::connect(self.socket()).is_ok().then_some(())
        });
        assert_eq!(self.ask(&["PING"]), "+PONG\r\n");
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

    /// Kills the engine with all that it knows.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed engine again, empty.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        std::fs::remove_file(self.socket()).unwrap();
        self.child = spawn(&self.folder);
        self.answers();
    }

    /// Sends the engine a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Opens a way to the engine that can be closed.
    pub(crate) fn wall(&self) -> Wall {
        Wall::before(self.socket())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &tempfile::TempDir) -> Child {
    Command::new("redis-server")
        .args(["--port", "0", "--unixsocket"])
        .arg(folder.path().join("engine.sock"))
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A TCP port that leads to an engine, until it is closed.
pub(crate) struct Wall {
    address: SocketAddr,
    gate: Arc<Mutex<Passage>>,
}

/// The connections through a wall.
struct Passage {
    is_open: bool,
    through: Vec<(TcpStream, UnixStream)>,
}

impl Wall {
    fn before(engine: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(Mutex::new(Passage {
            is_open: true,
            through: Vec::new(),
        }));
        let passage = Arc::clone(&gate);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut passage = passage.lock().unwrap();
                let Some(far) = UnixStream::connect(&engine)
                    .ok()
                    .filter(|_| passage.is_open)
                else {
                    continue;
                };
                let (mut up, mut down) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                let (mut to_far, mut to_near) =
                    (near.try_clone().unwrap(), far.try_clone().unwrap());
                passage.through.push((near, far));
                thread::spawn(move || {
                    let _ = io::copy(&mut to_far, &mut up);
                    let _ = up.shutdown(std::net::Shutdown::Both);
                });
                thread::spawn(move || {
                    let _ = io::copy(&mut to_near, &mut down);
                    let _ = down.shutdown(std::net::Shutdown::Both);
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
        let mut passage = self.gate.lock().unwrap();
        passage.is_open = false;
        for (near, far) in passage.through.drain(..) {
            let _ = near.shutdown(std::net::Shutdown::Both);
            let _ = far.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Takes connections again.
    pub(crate) fn open(&self) {
        self.gate.lock().unwrap().is_open = true;
    }
}
