//! An origin that authenticates connections: who has logged in on one gets pages there without further credentials.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ServerConnection, StreamOwned};

use crate::support::{Certificate, Head, pki, wait_until};

/// One request as the origin received it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The number of its connection, counted from 1.
    pub(super) connection: usize,
    pub(super) path: String,
    pub(super) has_credentials: bool,
    /// The user of the connection behind the request.
    pub(super) user: Option<String>,
    /// Its `Connection` field.
    pub(super) option: Option<String>,
}

/// The running server. It lives as long as the test process.
#[derive(Clone)]
pub(super) struct LoginOrigin(Arc<Shared>);

struct Shared {
    scheme: &'static str,
    port: u16,
    /// The lines of a 401 to a request without credentials.
    challenge: &'static str,
    asked: Mutex<Vec<Asked>>,
    ended: AtomicUsize,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl LoginOrigin {
    /// Starts an origin that offers logins by these lines.
    pub(super) fn start(scheme: &'static str, challenge: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            scheme,
            port: listener.local_addr().unwrap().port(),
            challenge,
            asked: Mutex::default(),
            ended: AtomicUsize::new(0),
        });
        let server = Arc::clone(&shared);
        let config = pki::origin_config(Certificate::Trusted);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (server, config) = (Arc::clone(&server), Arc::clone(&config));
                // A peer that closes its connection does not fail the test.
                thread::spawn(move || {
                    drop(match server.scheme {
                        "https" => {
                            let session = ServerConnection::new(config).unwrap();
                            server.serve(Box::new(StreamOwned::new(session, stream)), number + 1)
                        }
                        _ => server.serve(Box::new(stream), number + 1),
                    });
                    server.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self(shared)
    }

    pub(super) fn authority(&self) -> String {
        format!("site.test:{}", self.0.port)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.0.scheme, self.authority())
    }

    /// Returns all requests so far but for robots.txt.
    pub(super) fn asked(&self) -> Vec<Asked> {
        let mut asked = self.0.asked.lock().unwrap().clone();
        asked.retain(|one| one.path != "/robots.txt");
        asked
    }

    /// Returns the last request for a path.
    #[track_caller]
    pub(super) fn last(&self, path: &str) -> Asked {
        let mut asked = self.asked();
        asked.retain(|one| one.path == path);
        asked.pop().unwrap_or_else(|| panic!("{path} never arrived"))
    }

    /// Waits until so many of its connections have ended, that of robots.txt among them.
    #[track_caller]
    pub(super) fn wait_ended(&self, count: usize) {
        wait_until(&format!("the end of {count} connections"), || {
            self.0.ended.load(Ordering::SeqCst) >= count
        });
    }
}

impl Shared {
    fn serve(&self, stream: Box<dyn Stream>, connection: usize) -> io::Result<()> {
        let mut peer = BufReader::new(stream);
        let mut user: Option<String> = None;
        let mut challenge: Option<String> = None;
        while let Some(head) = Head::read(&mut peer)? {
            let target = head.word(1);
            let path = target.split_once(&self.authority()).map_or(&*target, |(_, path)| path);
            let length = head.field("content-length").unwrap_or_default();
            let mut body = vec![0; length.parse().unwrap_or(0)];
            peer.read_exact(&mut body)?;
            let credentials = head.field("authorization");
            let answer = self.log_in(credentials.as_deref(), connection, &mut user, &mut challenge);
            self.asked.lock().unwrap().push(Asked {
                connection,
                path: path.to_owned(),
                has_credentials: credentials.is_some(),
                user: user.clone(),
                option: head.field("connection"),
            });
            let answer = match (path, answer) {
                ("/robots.txt", _) => response(404, "", "none"),
                ("/lost", _) => return Ok(()),
                (_, Some(lines)) => response(401, &lines, "log in"),
                ("/last", None) => response(200, "Connection: close\r\n", "the last page"),
                ("/socket", None) => {
                    let accept = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                                  Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
                    accept.as_bytes().to_vec()
                }
                (_, None) => {
                    let user = user.as_deref().unwrap_or_default();
                    response(200, "", &format!("{path} of {user}"))
                }
            };
            let stream = peer.get_mut();
            stream.write_all(&answer)?;
            stream.flush()?;
            if path == "/last" || path == "/ended" {
                return Ok(());
            }
        }
        Ok(())
    }

    fn authority(&self) -> String {
        format!("site.test:{}", self.port)
    }

    /// Reads the credentials of a request; returns the lines of a 401 unless its connection has a user then.
    fn log_in(
        &self,
        credentials: Option<&str>,
        connection: usize,
        user: &mut Option<String>,
        challenge: &mut Option<String>,
    ) -> Option<String> {
        let Some((scheme, token)) = credentials.and_then(|one| one.split_once(' ')) else {
            return user.is_none().then(|| self.challenge.to_owned());
        };
        let token = STANDARD.decode(token).unwrap();
        if scheme.eq_ignore_ascii_case("negotiate") {
            *user = Some(String::from_utf8(token).unwrap());
            return None;
        }
        match (token.get(8), challenge.take()) {
            (Some(1), _) => {
                *challenge = Some(format!("{connection:08}"));
                let message = STANDARD.encode(type_2(challenge.as_deref().unwrap()));
                Some(format!("WWW-Authenticate: NTLM {message}\r\n"))
            }
            // The answer to the challenge of another connection would be worth nothing.
            (Some(3), Some(_)) => {
                *user = Some(user_of(&token));
                None
            }
            _ => Some(self.challenge.to_owned()),
        }
    }
}

fn response(status: u16, lines: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n{lines}\r\n{body}").into_bytes()
}

/// Returns a CHALLENGE_MESSAGE of NTLM ([MS-NLMP] 2.2.1.2).
fn type_2(challenge: &str) -> Vec<u8> {
    // Unicode, NTLM, and information about the target, which is empty.
    const FLAGS: u32 = 0x0080_0201;
    let mut message = b"NTLMSSP\0".to_vec();
    message.extend(2_u32.to_le_bytes());
    message.extend([0, 0, 0, 0, 48, 0, 0, 0]);
    message.extend(FLAGS.to_le_bytes());
    message.extend(challenge.as_bytes());
    message.extend([0; 8]);
    message.extend([4, 0, 4, 0, 48, 0, 0, 0]);
    message.extend([0; 4]);
    message
}

/// Returns the user that an AUTHENTICATE_MESSAGE names ([MS-NLMP] 2.2.1.3).
fn user_of(message: &[u8]) -> String {
    let number = |at: usize| usize::from(u16::from_le_bytes([message[at], message[at + 1]]));
    let name = &message[number(40)..number(40) + number(36)];
    let is_unicode = message[60] & 1 == 1;
    let units = name.iter().step_by(if is_unicode { 2 } else { 1 });
    units.map(|octet| char::from(*octet)).collect()
}
