//! A witness on loopback: it checks, remembers and cosigns as c2sp.org/tlog-witness asks, or misbehaves as a test wants.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use crawlgate_tlog::{
    Checkpoint, ConsistencyProof, Hash, KeyKind, Note, Signature, VerifierKey, hash_from_text,
};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::pki::{self, Certificate};
use super::wait_until;

/// The conduct of a witness.
#[derive(Clone, Debug)]
pub(crate) enum Conduct {
    /// As the specification asks.
    Honest,
    /// The same answer to every request: status, lines of the head, body.
    Answers(u16, &'static str, &'static str),
    /// A signature of the right form that does not hold.
    Lies,
    /// A right signature over a time that is so many seconds too early.
    Early(u64),
    /// No answer.
    Hangs,
    /// An answer without end.
    Floods,
}

/// The running witness. It lives as long as the test process.
#[derive(Clone)]
pub(crate) struct Witness {
    shared: Arc<Shared>,
}

struct Shared {
    port: u16,
    tls: Option<Arc<ServerConfig>>,
    pair: Ed25519KeyPair,
    vkey: VerifierKey,
    stopped: AtomicBool,
    state: Mutex<State>,
}

struct State {
    conduct: Conduct,
    /// The key of the log, once the operator of the witness has entered it.
    log: Option<VerifierKey>,
    /// The size and root that the witness has cosigned last.
    latest: Option<(u64, Hash)>,
    /// The old and the new size of each question, and the status of its answer.
    asked: Vec<(u64, u64, u16)>,
}

impl Witness {
    /// Starts an honest witness with this name that knows no log.
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, None)
    }

    /// Starts the same behind TLS, with a certificate of the test origins' CA.
    pub(crate) fn start_tls(name: &str) -> Self {
        Self::start_with(name, Some(pki::origin_config(Certificate::Trusted)))
    }

    fn start_with(name: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = Ed25519KeyPair::generate().unwrap();
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        let shared = Arc::new(Shared {
            port: listener.local_addr().unwrap().port(),
            tls,
            vkey: VerifierKey::new(name.parse().unwrap(), KeyKind::CosignatureV1, public),
            pair,
            stopped: AtomicBool::new(false),
            state: Mutex::new(State {
                conduct: Conduct::Honest,
                log: None,
                latest: None,
                asked: Vec::new(),
            }),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let server = Arc::clone(&server);
                // A peer that closes its connection does not fail the test.
                thread::spawn(move || drop(server.accept(stream)));
            }
        });
        Self { shared }
    }

    /// Stops listening: from now on connections are refused.
    pub(crate) fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        wait_until("the witness to stop", || {
            TcpStream::connect(("127.0.0.1", self.shared.port)).is_err()
        });
    }

    /// Returns the section of the configuration.
    pub(crate) fn section(&self, name: &str) -> String {
        let (port, vkey) = (self.shared.port, self.vkey());
        let scheme = match self.shared.tls {
            Some(_) => "https",
            None => "http",
        };
        format!(
            "[[audit.witness]]\nname = \"{name}\"\nurl = \"{scheme}://127.0.0.1:{port}/w1/\"\nvkey = \"{vkey}\"\n"
        )
    }

    /// Returns its public key.
    pub(crate) fn vkey(&self) -> String {
        self.shared.vkey.to_string()
    }

    /// Enters a log by its vkey.
    pub(crate) fn trust(&self, vkey: &str) {
        self.change(|state| state.log = Some(vkey.trim().parse().unwrap()));
    }

    /// Behaves so from now on.
    pub(crate) fn behave(&self, conduct: Conduct) {
        self.change(|state| state.conduct = conduct);
    }

    /// Knows the log only up to this size and root from now on.
    pub(crate) fn remember(&self, latest: Option<(u64, Hash)>) {
        self.change(|state| state.latest = latest);
    }

    /// Returns the size and root that it has cosigned last.
    pub(crate) fn latest(&self) -> Option<(u64, Hash)> {
        self.change(|state| state.latest)
    }

    /// Returns the old and the new size of each question, and the status of its answer.
    pub(crate) fn asked(&self) -> Vec<(u64, u64, u16)> {
        self.change(|state| state.asked.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.shared.state.lock().unwrap())
    }
}

struct Answer {
    status: u16,
    fields: String,
    body: String,
}

impl Answer {
    fn of(status: u16, body: impl Into<String>) -> Self {
        Self { status, fields: String::new(), body: body.into() }
    }
}

impl Shared {
    fn accept(&self, stream: TcpStream) -> io::Result<()> {
        let Some(tls) = &self.tls else {
            return self.serve(stream);
        };
        let connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
        self.serve(StreamOwned::new(connection, stream))
    }

    fn serve(&self, stream: impl Read + Write) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first)? == 0 {
                return Ok(());
            }
            assert_eq!(first, "POST /w1/add-checkpoint HTTP/1.1\r\n");
            loop {
                let mut line = String::new();
                reader.read_line(&mut line)?;
                let line = line.trim_end().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let conduct = self.state.lock().unwrap().conduct.clone();
            let answer = match conduct {
                Conduct::Hangs => {
                    // Until the client gives up.
                    reader.read_to_end(&mut body)?;
                    return Ok(());
                }
                Conduct::Floods => {
                    let stream = reader.get_mut();
                    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
                    loop {
                        stream.write_all(chunk.as_bytes())?;
                    }
                }
                Conduct::Answers(status, fields, body) => {
                    Answer { status, fields: fields.to_owned(), body: body.to_owned() }
                }
                conduct => self.answer(&String::from_utf8(body).unwrap(), &conduct),
            };
            let Answer { status, fields, body } = answer;
            let length = body.len();
            let head_and_body =
                format!("HTTP/1.1 {status} Any\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
            reader.get_mut().write_all(head_and_body.as_bytes())?;
            reader.get_mut().flush()?;
        }
    }

    fn answer(&self, question: &str, conduct: &Conduct) -> Answer {
        let mut state = self.state.lock().unwrap();
        let (head, checkpoint) = question.split_once("\n\n").unwrap();
        let mut lines = head.split('\n');
        let old = lines.next().unwrap().strip_prefix("old ").unwrap();
        let old: u64 = old.parse().unwrap();
        let path: Vec<Hash> = lines.map(|line| hash_from_text(line).unwrap()).collect();
        let note = Note::parse(checkpoint.as_bytes()).unwrap();
        let content = Checkpoint::from_text(note.text()).unwrap();
        let answer = self.judge(&mut state, old, path, &note, &content, conduct);
        state.asked.push((old, content.size, answer.status));
        answer
    }

    fn judge(
        &self,
        state: &mut State,
        old: u64,
        path: Vec<Hash>,
        note: &Note,
        content: &Checkpoint,
        conduct: &Conduct,
    ) -> Answer {
        let Some(log) = state.log.as_ref() else {
            return Answer::of(404, "");
        };
        if Checkpoint::open(note, std::slice::from_ref(log)).is_err() {
            return Answer::of(403, "");
        }
        if old > content.size {
            return Answer::of(400, "");
        }
        let (size, root) = state.latest.unwrap_or((0, [0; 32]));
        if old != size || (size > 0 && size == content.size && root != content.root) {
            return Answer {
                status: 409,
                fields: "Content-Type: text/x.tlog.size\r\n".to_owned(),
                body: format!("{size}\n"),
            };
        }
        let proof = ConsistencyProof { old, new: content.size, path };
        let is_proven = match size {
            0 => proof.path.is_empty(),
            _ => proof.verify(&root, &content.root).is_ok(),
        };
        if !is_proven {
            return Answer::of(422, "no proof\n");
        }
        state.latest = Some((content.size, content.root));
        let mut time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        if let Conduct::Early(seconds) = conduct {
            time -= seconds;
        }
        let text = match conduct {
            Conduct::Lies => "another text\n",
            _ => note.text(),
        };
        let message = format!("cosignature/v1\ntime {time}\n{text}");
        let signature = self.pair.sign(message.as_bytes());
        let octets = [&time.to_be_bytes(), signature.as_ref()].concat();
        let line = Signature::new(self.vkey.name().clone(), self.vkey.id(), octets);
        Answer::of(200, format!("{line}\n"))
    }
}
