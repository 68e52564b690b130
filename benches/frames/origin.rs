//! An origin that answers with frames in any order, and keeps account of what it sent.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::octets::{ACK, DATA, END_STREAM, HEADERS, PADDED, PING, Random, SETTINGS, frame};
use super::script::{self, Step};

/// Time in which the octets sent before arrive by themselves.
const PAUSE: Duration = Duration::from_millis(2);

/// A connection, counted from 1, and a stream of it.
pub type Place = (u32, u32);

/// A response as it was sent.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub body: Vec<u8>,
    /// True if a frame has ended the stream.
    pub has_ended: bool,
}

/// The responses of a batch.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<HashMap<Place, Sent>>>);

impl Log {
    pub fn find(&self, place: Place) -> Option<Sent> {
        self.0.lock().unwrap().get(&place).cloned()
    }

    /// Forgets all responses.
    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// The running origin.
pub struct Hostile {
    pub port: u16,
    pub log: Log,
}

impl Hostile {
    pub async fn start(tls: TlsAcceptor, mut random: Random) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Log::default();
        let (ours, has_begun) = (log.clone(), Arc::<AtomicBool>::default());
        tokio::spawn(async move {
            for number in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut connection = Connection {
                    calm: random.once_in(2),
                    random: random.fork(),
                    has_begun: Arc::clone(&has_begun),
                    account: Account { connection: number, log: ours.clone(), rest: Vec::new() },
                };
                let tls = tls.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        // The other side may close the connection at any moment.
                        drop(connection.serve(stream).await);
                    }
                });
            }
        });
        Hostile { port, log }
    }
}

struct Connection {
    random: Random,
    /// Its answers concern only their streams.
    calm: bool,
    /// The first request, for robots.txt, has its answer.
    has_begun: Arc<AtomicBool>,
    account: Account,
}

impl Connection {
    async fn serve(&mut self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let (reads, mut writes) = tokio::io::split(stream);
        let (arrives, mut arriving) = mpsc::unbounded_channel();
        // Ends with this function, and the connection with it.
        let mut reading = JoinSet::new();
        reading.spawn(read(reads, arrives));
        let mut steps: Vec<VecDeque<Step>> = Vec::new();
        let is_plain = self.calm || !self.has_begun.load(Ordering::SeqCst);
        let greeting = match is_plain {
            true => frames(SETTINGS, 0, &[]),
            false => script::greeting(&mut self.random),
        };
        steps.push([Step::Send(greeting)].into());
        loop {
            tokio::select! {
                biased;
                arrived = arriving.recv() => {
                    let Some(arrived) = arrived else { return Ok(()) };
                    steps.extend(self.answer(&arrived));
                }
                () = std::future::ready(()), if !steps.is_empty() => {
                    let at = self.random.below(steps.len() as u64) as usize;
                    match steps[at].pop_front() {
                        None => drop(steps.swap_remove(at)),
                        Some(Step::Send(octets)) => {
                            self.account.add(&octets);
                            writes.write_all(&octets).await?;
                            writes.flush().await?;
                        }
                        Some(Step::Pause) => sleep(PAUSE).await,
                        Some(Step::Close { politely: true }) => return writes.shutdown().await,
                        Some(Step::Close { politely: false }) => return Ok(()),
                    }
                }
            }
        }
    }

    fn answer(&mut self, arrived: &Arrived) -> Option<VecDeque<Step>> {
        let random = &mut self.random;
        let steps = match arrived.kind {
            HEADERS if !self.has_begun.swap(true, Ordering::SeqCst) => {
                script::no_robots(arrived.stream)
            }
            HEADERS => {
                let place = (self.account.connection, arrived.stream);
                script::answer(random, place, self.calm)
            }
            SETTINGS | PING if arrived.flags & ACK == 0 && !random.once_in(20) => {
                let payload = if arrived.kind == PING { &*arrived.payload } else { &[] };
                vec![Step::Send(frames(arrived.kind, ACK, payload))]
            }
            DATA if !random.once_in(4) => vec![Step::Send(script::room(arrived.stream))],
            _ => return None,
        };
        Some(steps.into())
    }
}

fn frames(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    frame(&mut octets, kind, flags, 0, payload);
    octets
}

/// A frame of the other side.
struct Arrived {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

async fn read(
    mut reads: ReadHalf<TlsStream<TcpStream>>,
    arrives: UnboundedSender<Arrived>,
) -> io::Result<()> {
    reads.read_exact(&mut [0; 24]).await?;
    loop {
        let mut head = [0; 9];
        reads.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        reads.read_exact(&mut payload).await?;
        let arrived = Arrived {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        };
        if arrives.send(arrived).is_err() {
            return Ok(());
        }
    }
}

/// Reads the frames of a connection as its other side does.
struct Account {
    connection: u32,
    log: Log,
    /// The beginning of a frame.
    rest: Vec<u8>,
}

impl Account {
    fn add(&mut self, octets: &[u8]) {
        self.rest.extend(octets);
        let mut log = self.log.0.lock().unwrap();
        let mut at = 0;
        while let Some(head) = self.rest.get(at..at + 9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
            let Some(payload) = self.rest.get(at + 9..at + 9 + length) else {
                break;
            };
            at += 9 + length;
            if !matches!(kind, DATA | HEADERS) {
                continue;
            }
            let sent = log.entry((self.connection, stream)).or_default();
            if kind == DATA && !sent.has_ended {
                sent.body.extend(unpadded(flags, payload));
            }
            sent.has_ended |= flags & END_STREAM != 0;
        }
        self.rest.drain(..at);
    }
}

/// Returns the octets of a DATA frame without its padding (RFC 9113 6.1).
fn unpadded(flags: u8, payload: &[u8]) -> &[u8] {
    if flags & PADDED == 0 {
        return payload;
    }
    let Some((padding, octets)) = payload.split_first() else {
        return &[];
    };
    let end = octets.len().saturating_sub(usize::from(*padding));
    &octets[..end]
}
