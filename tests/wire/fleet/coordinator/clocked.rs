//! A real engine with a clock in hand.
//!
//! A separate way to the engine puts a prelude (`clocked.lua`) before each script that an instance loads. By it, the
//! time is a key that the test writes, and keys expire by this time. All other commands are the engine's.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use crawlgate_config::Config;
use crawlgate_system::clock::Moment;
use crawlgate_turns::fleet::coordinator::Coordinator;
use crawlgate_turns::fleet::engine::Engine as Redis;

use crate::support::{Engine, PATIENCE, client_config, origin_ca_pem};

const PRELUDE: &str = include_str!("clocked.lua");

/// An engine, and the way to it.
pub(super) struct Clocked {
    pub(super) engine: Engine,
    port: u16,
}

impl Clocked {
    pub(super) fn new(engine: Engine) -> Clocked {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = engine.socket();
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = UnixStream::connect(&socket) else {
                    continue;
                };
                near.set_nodelay(true).unwrap();
                let (mut answers, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut answers, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                thread::spawn(move || {
                    let _ = carry(&mut BufReader::new(near), &far);
                    let _ = far.shutdown(Shutdown::Both);
                });
            }
        });
        Clocked { engine, port }
    }

    /// Sets the time.
    pub(super) fn set(&self, now: Moment) {
        let micros = (now.as_millis() * 1_000).to_string();
        let reply = self.engine.ask(&["SET", "crawlgate:clock", &micros]);
        assert_eq!(reply, "+OK\r\n");
    }

    /// Joins as another instance.
    pub(super) fn join(&self) -> Arc<dyn Coordinator> {
        let mut config = Config::default().fleet;
        config.engine = Some(format!("127.0.0.1:{}", self.port).parse().unwrap());
        // The time of an answer does not matter here.
        config.timeout = PATIENCE;
        let engine: Arc<dyn Coordinator> =
            Redis::of(&config, client_config(origin_ca_pem())).unwrap();
        tokio::spawn(Arc::clone(&engine).keep_connected());
        engine
    }
}

/// Carries commands to the engine, for as long as both ends live.
fn carry(from: &mut impl BufRead, mut to: impl Write) -> io::Result<()> {
    loop {
        let mut words = command(from)?;
        if let [script, load, text] = &mut words[..]
            && *script == b"SCRIPT"
            && *load == b"LOAD"
        {
            *text = [PRELUDE.as_bytes(), &text[..]].concat();
        }
        let mut octets = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            octets.extend(format!("${}\r\n", word.len()).into_bytes());
            octets.extend(word);
            octets.extend(b"\r\n");
        }
        to.write_all(&octets)?;
    }
}

/// Reads a command: a list of words, each behind its length.
fn command(from: &mut impl BufRead) -> io::Result<Vec<Vec<u8>>> {
    let count = length(from, '*')?;
    let word = |_| -> io::Result<Vec<u8>> {
        let mut word = vec![0; length(from, '$')?];
        from.read_exact(&mut word)?;
        from.read_exact(&mut [0; 2])?;
        Ok(word)
    };
    (0..count).map(word).collect()
}

fn length(from: &mut impl BufRead, mark: char) -> io::Result<usize> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let digits = line.trim_end().strip_prefix(mark);
    let length = digits.and_then(|digits| digits.parse().ok());
    length.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}
