//! A fuzzer of HTTP/2 frames against a running crawlgate: `cargo bench --bench frames`.
//!
//! For ten seconds (`FRAMES_SECONDS`) crawlers open tunnels and send frames in them: well-formed requests, frames with
//! random flags, lengths, streams and payloads, and octets cut off anywhere. It fails, with exit code 1, unless crawlgate
//! answers an ordinary request after each batch, memory does not grow once it has settled, and crawlgate ends with exit
//! code 0. `FRAMES_SEED` repeats a run.

#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

mod lab;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::Lab;
use lab::crawler::{Crawlers, Way};
use lab::origin::ALLOWED;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// Connections at the same time.
const BATCH: usize = 16;

/// Time for a connection to answer before it is dropped.
const PATIENCE: Duration = Duration::from_millis(50);

/// Tolerated growth, for the allocator's to-and-fro.
const TOLERATED: u64 = 16 << 20;

fn main() -> ExitCode {
    match lab::role().as_deref() {
        Some(_) => {
            let directory = std::env::args().nth(2).unwrap();
            lab::origin::serve(Path::new(&directory));
            ExitCode::SUCCESS
        }
        None if lab::is_asked_to_measure() => fuzz(),
        None => ExitCode::SUCCESS,
    }
}

fn fuzz() -> ExitCode {
    let time = Duration::from_secs(lab::setting("FRAMES_SECONDS", 10));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = lab::setting("FRAMES_SEED", now.as_nanos() as u64);
    println!("seed {seed}");
    let lab = Lab::new(None);
    let (gate, port) = lab.crawlgate(None, &[], "");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let authority = lab.file("ca.crt");
    let crawlers = Crawlers::new(Way::Proxy(port), &[&authority]);
    let origin = lab.ports.https;
    let mut random = Random(seed | 1);
    let (mut connections, mut settled) = (0_u64, 0);
    let start = Instant::now();
    runtime.block_on(async {
        while start.elapsed() < time {
            let mut batch = tokio::task::JoinSet::new();
            for _ in 0..BATCH {
                let crawlers = crawlers.clone();
                let octets = script(&mut random, origin);
                batch.spawn(async move {
                    let mut stream = crawlers.speak_http2("127.0.0.1", origin).await.unwrap();
                    // A peer that has closed already has judged the frames.
                    drop(stream.write_all(&octets).await);
                    drop(stream.flush().await);
                    drop(timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await);
                });
            }
            batch.join_all().await;
            connections += BATCH as u64;
            let mut crawler = crawlers.connect(true, "127.0.0.1", origin).await.unwrap();
            let request = crawlers.request(true, "127.0.0.1", origin, ALLOWED);
            assert_eq!(crawler.ask(&request).await.unwrap().status, 200);
            if settled == 0 && start.elapsed() > time / 3 {
                settled = gate.resident();
            }
        }
    });
    let resident = gate.resident();
    let status = gate.terminate();
    println!(
        "{connections} connections; {settled} octets of memory after a third, {resident} at the end; {status}"
    );
    match status.success() && resident <= settled + TOLERATED {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Numbers that a seed repeats (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }

    fn octets(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Returns the octets of one connection.
fn script(random: &mut Random, port: u16) -> Vec<u8> {
    let mut octets = match random.below(20) {
        0 => random.octets(24),
        _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
    };
    frame(&mut octets, 4, 0, 0, &[]);
    let mut stream = 1;
    for _ in 0..random.below(60) {
        let kind = random.below(12) as u8;
        let of = match random.below(4) {
            0 => 0,
            1 => random.next() as u32,
            _ => stream,
        };
        let count = random.below(64);
        let mut payload = random.octets(count);
        match random.below(10) {
            0..5 => {
                stream += 2;
                let flags = if random.below(3) == 0 { 4 } else { 5 };
                frame(&mut octets, 1, flags, stream, &head(random, port));
            }
            5 => frame(&mut octets, 3, 0, stream, &8_u32.to_be_bytes()),
            6 => frame(&mut octets, 8, 0, of, &(random.next() as u32).to_be_bytes()),
            7 => {
                payload.resize(6 * (payload.len() / 6), 0);
                frame(&mut octets, 4, 0, 0, &payload);
            }
            8 => frame(
                &mut octets,
                9,
                random.next() as u8,
                stream,
                &head(random, port),
            ),
            _ => frame(&mut octets, kind, random.next() as u8, of, &payload),
        }
    }
    if random.below(4) == 0 {
        octets.truncate(random.below(octets.len() as u64 + 1) as usize);
    }
    octets
}

fn frame(octets: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    octets.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    octets.extend([kind, flags]);
    octets.extend(stream.to_be_bytes());
    octets.extend(payload);
}

/// Returns the fields of a request, most of them as they should be.
fn head(random: &mut Random, port: u16) -> Vec<u8> {
    let authority = format!("127.0.0.1:{port}");
    let methods = ["GET", "HEAD", "POST", "CONNECT", "X"];
    let paths = ["/pages/page", "/private/page", "*", "", "/%", "x"];
    let mut fields = vec![
        (
            ":method",
            methods[random.below(6).min(4) as usize].to_owned(),
        ),
        (":scheme", "https".to_owned()),
        (":authority", authority),
        (":path", paths[random.below(6) as usize].to_owned()),
    ];
    if random.below(4) == 0 {
        fields.remove(random.below(4) as usize);
    }
    if random.below(3) == 0 {
        let names = [
            "cookie",
            "te",
            "content-length",
            "connection",
            "host",
            ":path",
            "X",
            "expect",
        ];
        let value = ["1", "trailers", "", "a\r\nb: c"][random.below(4) as usize];
        fields.push((names[random.below(8) as usize], value.to_owned()));
    }
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend([0, name.len() as u8]);
        block.extend(name.as_bytes());
        block.push(value.len() as u8);
        block.extend(value.as_bytes());
    }
    block
}
