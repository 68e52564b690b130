//! A scripted FTP server on loopback: files, a log of all commands, and lies at any step.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::Latch;

/// The act of the server instead of its usual reply to a command.
#[derive(Clone)]
pub(crate) enum Act {
    /// Says these octets, and continues.
    Say(String),
    /// Says nothing any more, and reads on.
    Stall,
    /// Waits, and continues as usual.
    Wait(Latch),
    /// Closes the control connection.
    Close,
    /// Says these octets again and again, until the other side closes.
    Endless(&'static str),
}

/// The way in which the server sends the octets of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sending {
    /// Closes after so many octets, and says that it is cut (426).
    Cut(usize),
    /// Closes after so many octets, and says that this is all (226).
    Short(usize),
    /// Sends all, and closes the control connection without a word.
    Unconfirmed,
    /// Sends so many octets, and then nothing any more.
    Stall(usize),
    /// Sends all, and says nothing any more.
    Silent,
    /// Sends this line again and again, until the other side closes.
    Endless(&'static str),
    /// Sends all, and then these.
    Longer(&'static str),
    /// Sends all, and says so only when the other side has closed, too.
    Lingering,
    /// Sends so many octets, says this, and keeps the data connection open.
    Refused(usize, &'static str),
    /// Sends so many octets, closes the control connection, and keeps the data connection open.
    Gone(usize),
    /// Says that all was sent, and sends it then.
    Confirmed,
}

/// The running server. It lives as long as the test process.
#[derive(Clone)]
pub(crate) struct FtpServer {
    port: u16,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    files: BTreeMap<String, Vec<u8>>,
    acts: BTreeMap<String, Act>,
    sendings: BTreeMap<String, Sending>,
    /// The address that a PASV reply names, and its port if that is a lie, too.
    passive: Option<Ipv4Addr>,
    seen: Vec<String>,
    sessions: usize,
    data_connections: usize,
    /// Octets that transfers have written.
    sent: usize,
}

impl FtpServer {
    /// Starts a server with this robots.txt.
    pub(crate) fn with_rules(robots: &str) -> Self {
        Self::start().file("robots.txt", robots)
    }

    /// Starts a server without files.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), shared: Arc::default() };
        let shared = Arc::clone(&server.shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.lock().unwrap().sessions += 1;
                    drop(Session::new(stream, shared).run());
                });
            }
        });
        server
    }

    /// Adds a file; its directories are there, too.
    pub(crate) fn file(self, name: &str, octets: impl AsRef<[u8]>) -> Self {
        let octets = octets.as_ref().to_vec();
        let mut shared = self.shared.lock().unwrap();
        shared.files.insert(name.to_owned(), octets);
        drop(shared);
        self
    }

    /// Scripts a step: a verb (`SIZE`), a whole command (`RETR robots.txt`) or the `greeting`.
    pub(crate) fn on(self, step: &str, act: Act) -> Self {
        self.shared.lock().unwrap().acts.insert(step.to_owned(), act);
        self
    }

    /// Scripts a reply of one line.
    pub(crate) fn says(self, step: &str, reply: &str) -> Self {
        self.on(step, Act::Say(format!("{reply}\r\n")))
    }

    /// Scripts the transfer of a file, or of a directory (`pub/`).
    pub(crate) fn sends(self, name: &str, sending: Sending) -> Self {
        let mut shared = self.shared.lock().unwrap();
        shared.sendings.insert(name.to_owned(), sending);
        drop(shared);
        self
    }

    /// Makes PASV replies name another address.
    pub(crate) fn passive_at(self, address: Ipv4Addr) -> Self {
        self.shared.lock().unwrap().passive = Some(address);
        self
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("ftp://site.test:{}{path}", self.port)
    }

    /// Returns all commands so far, but those of logins and the ends of sessions.
    pub(crate) fn seen(&self) -> Vec<String> {
        let is_told = |line: &&String| {
            let verb = line.split(' ').next().unwrap();
            !matches!(verb, "USER" | "PASS" | "QUIT")
        };
        let shared = self.shared.lock().unwrap();
        shared.seen.iter().filter(is_told).cloned().collect()
    }

    /// Returns the commands that name anything but robots.txt, or list a directory.
    pub(crate) fn named(&self) -> Vec<String> {
        let mut seen = self.seen();
        seen.retain(|line| match line.split_once(' ') {
            Some(("TYPE" | "REST", _) | (_, "robots.txt")) => false,
            Some(_) => true,
            None => matches!(line.as_str(), "MLSD" | "LIST" | "NLST"),
        });
        seen
    }

    /// Returns the number of control connections so far.
    pub(crate) fn sessions(&self) -> usize {
        self.shared.lock().unwrap().sessions
    }

    /// Returns the number of data connections so far.
    pub(crate) fn data_connections(&self) -> usize {
        self.shared.lock().unwrap().data_connections
    }

    /// Returns the number of octets that transfers have written so far.
    pub(crate) fn sent(&self) -> usize {
        self.shared.lock().unwrap().sent
    }
}

/// One control connection.
struct Session {
    stream: TcpStream,
    shared: Arc<Mutex<Shared>>,
    passive: Option<TcpListener>,
    directory: String,
    from: usize,
}

impl Session {
    fn new(stream: TcpStream, shared: Arc<Mutex<Shared>>) -> Self {
        Self { stream, shared, passive: None, directory: String::new(), from: 0 }
    }

    /// Serves until either side closes.
    fn run(mut self) -> std::io::Result<()> {
        let mut lines = BufReader::new(self.stream.try_clone()?);
        if !self.acted("greeting")? {
            self.say("220 ready")?;
        }
        let mut octets = Vec::new();
        while lines.read_until(b'\n', &mut octets)? > 0 {
            let line = String::from_utf8_lossy(&octets).trim_end().to_owned();
            octets.clear();
            self.shared.lock().unwrap().seen.push(line.clone());
            let (verb, name) = line.split_once(' ').unwrap_or((&line, ""));
            if self.acted(&line)? || self.acted(verb)? {
                continue;
            }
            match verb {
                "USER" => self.say("331 a password, please")?,
                "PASS" => self.say("230-welcome\r\n220 is no end\r\n230 you are in")?,
                "TYPE" => self.say("200 ok")?,
                "SIZE" => match self.find(name) {
                    Some(file) => self.say(&format!("213 {}", file.len()))?,
                    None => self.say("550 no such file")?,
                },
                "MDTM" => match self.find(name) {
                    Some(_) => self.say("213 20241120120000")?,
                    None => self.say("550 no such file")?,
                },
                "CWD" if self.is_directory(name) => {
                    self.directory = format!("{name}/");
                    self.say("250 here")?;
                }
                "CWD" => self.say("550 no such directory")?,
                "EPSV" => {
                    let port = self.listen()?;
                    self.say(&format!("229 extended (|||{port}|)"))?;
                }
                "PASV" => {
                    let port = self.listen()?;
                    let at = self.shared.lock().unwrap().passive;
                    let [a, b, c, d] = at.unwrap_or(Ipv4Addr::LOCALHOST).octets();
                    let [high, low] = port.to_be_bytes();
                    self.say(&format!("227 passive ({a},{b},{c},{d},{high},{low})"))?;
                }
                "REST" => {
                    self.from = name.parse().unwrap();
                    self.say("350 from there")?;
                }
                "RETR" => match self.find(name) {
                    Some(file) => {
                        let from = std::mem::take(&mut self.from);
                        self.transfer(name, &file[from..])?;
                    }
                    None => self.say("550 no such file")?,
                },
                "MLSD" | "LIST" => {
                    let listing = self.listing(verb == "MLSD");
                    let name = match self.directory.as_str() {
                        "" => "/".to_owned(),
                        directory => directory.to_owned(),
                    };
                    self.transfer(&name, listing.as_bytes())?;
                }
                "QUIT" => return self.say("221 bye"),
                _ => self.say("500 what?")?,
            }
        }
        Ok(())
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        self.stream.write_all(format!("{line}\r\n").as_bytes())
    }

    /// Does what the script has for a step, and tells whether there was anything.
    fn acted(&mut self, step: &str) -> std::io::Result<bool> {
        let act = self.shared.lock().unwrap().acts.get(step).cloned();
        match act {
            None => return Ok(false),
            Some(Act::Say(octets)) => self.stream.write_all(octets.as_bytes())?,
            Some(Act::Wait(latch)) => {
                latch.pass();
                return Ok(false);
            }
            Some(Act::Stall) => drop(self.stream.read_to_end(&mut Vec::new())),
            Some(Act::Close) => self.stream.shutdown(std::net::Shutdown::Both)?,
            Some(Act::Endless(octets)) => loop {
                self.stream.write_all(octets.as_bytes())?;
            },
        }
        Ok(true)
    }

    fn find(&self, name: &str) -> Option<Vec<u8>> {
        let name = format!("{}{name}", self.directory);
        self.shared.lock().unwrap().files.get(&name).cloned()
    }

    fn is_directory(&self, name: &str) -> bool {
        let shared = self.shared.lock().unwrap();
        let begin = format!("{name}/");
        shared.files.keys().any(|file| file.starts_with(&begin))
    }

    fn listing(&self, has_facts: bool) -> String {
        let shared = self.shared.lock().unwrap();
        let mut lines = BTreeMap::new();
        for (name, octets) in &shared.files {
            let Some(name) = name.strip_prefix(&self.directory) else {
                continue;
            };
            let line = match (name.split_once('/'), has_facts) {
                (Some((name, _)), true) => format!("type=dir;modify=20241120120000; {name}\r\n"),
                (None, true) => format!("type=file;size={}; {name}\r\n", octets.len()),
                (Some((name, _)), false) => {
                    format!("drwxr-xr-x 2 ftp ftp 1 Nov 20 12:00 {name}\r\n")
                }
                (None, false) => {
                    format!("-rw-r--r-- 1 ftp ftp {} Nov 20 12:00 {name}\r\n", octets.len())
                }
            };
            lines.insert(name.split('/').next().unwrap().to_owned(), line);
        }
        lines.into_values().collect()
    }

    fn listen(&mut self) -> std::io::Result<u16> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let port = listener.local_addr()?.port();
        self.passive = Some(listener);
        Ok(port)
    }

    fn transfer(&mut self, name: &str, octets: &[u8]) -> std::io::Result<()> {
        let Some(listener) = self.passive.take() else {
            return self.say("425 no data connection");
        };
        let (mut data, _) = listener.accept()?;
        let sending = {
            let mut shared = self.shared.lock().unwrap();
            shared.data_connections += 1;
            shared.sendings.get(name).copied()
        };
        self.say("150 it comes")?;
        let part = |most: usize| &octets[..most.min(octets.len())];
        match sending {
            None => self.write(&mut data, octets)?,
            Some(Sending::Cut(most)) => {
                self.write(&mut data, part(most))?;
                drop(data);
                return self.say("426 broken off");
            }
            Some(Sending::Short(most)) => self.write(&mut data, part(most))?,
            Some(Sending::Unconfirmed) => {
                self.write(&mut data, octets)?;
                drop(data);
                return self.stream.shutdown(std::net::Shutdown::Both);
            }
            Some(Sending::Silent) => {
                self.write(&mut data, octets)?;
                drop(data);
                drop(self.stream.read_to_end(&mut Vec::new()));
                return Ok(());
            }
            Some(Sending::Stall(most)) => {
                self.write(&mut data, part(most))?;
                drop(data.read_to_end(&mut Vec::new()));
                return Ok(());
            }
            Some(Sending::Endless(line)) => loop {
                self.write(&mut data, line.repeat(100).as_bytes())?;
            },
            Some(Sending::Lingering) => {
                self.write(&mut data, octets)?;
                data.shutdown(std::net::Shutdown::Write)?;
                data.read_to_end(&mut Vec::new())?;
            }
            Some(Sending::Refused(most, reply)) => {
                self.write(&mut data, part(most))?;
                self.say(reply)?;
                drop(data.read_to_end(&mut Vec::new()));
                return Ok(());
            }
            Some(Sending::Gone(most)) => {
                self.write(&mut data, part(most))?;
                self.stream.shutdown(std::net::Shutdown::Both)?;
                drop(data.read_to_end(&mut Vec::new()));
                return Ok(());
            }
            Some(Sending::Confirmed) => {
                self.say("226 done")?;
                return self.write(&mut data, octets);
            }
            Some(Sending::Longer(more)) => {
                self.write(&mut data, octets)?;
                self.write(&mut data, more.as_bytes())?;
            }
        }
        drop(data);
        self.say("226 done")
    }

    fn write(&self, data: &mut TcpStream, octets: &[u8]) -> std::io::Result<()> {
        for piece in octets.chunks(16 * 1024) {
            data.write_all(piece)?;
            self.shared.lock().unwrap().sent += piece.len();
        }
        Ok(())
    }
}
