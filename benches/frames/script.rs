//! The answers of an origin that means harm, or is broken.

use super::octets::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PUSH_PROMISE,
    RST_STREAM, Random, SETTINGS, WINDOW_UPDATE, field, frame,
};
use super::origin::Place;

/// The field that names the place of a response.
pub const NAME: &str = "x-place";

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    /// Lets the octets sent before arrive by themselves.
    Pause,
    /// The connection ends, with the word of TLS that it does or without.
    Close {
        politely: bool,
    },
}

/// Returns the value of the field that names a place, with a check that a changed one does not pass.
fn name((connection, stream): Place) -> String {
    format!("{connection}.{stream}.{:x}", check((connection, stream)))
}

/// Reads the value of the field that names a place.
pub fn read_name(name: &str) -> Option<Place> {
    let mut parts = name.split('.');
    let place = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let check_of_it = u32::from_str_radix(parts.next()?, 16).ok()?;
    (check_of_it == check(place) && parts.next().is_none()).then_some(place)
}

fn check((connection, stream): Place) -> u32 {
    let both = (u64::from(connection) << 32) | u64::from(stream);
    (both.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

fn one(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    frame(&mut octets, kind, flags, stream, payload);
    octets
}

/// Returns the answer for a robots.txt that is not there.
pub fn no_robots(stream: u32) -> Vec<Step> {
    let mut block = Vec::new();
    field(&mut block, ":status", "404");
    let flags = END_HEADERS | END_STREAM;
    vec![Step::Send(one(HEADERS, flags, stream, &block))]
}

/// Makes room for more of an upload.
pub fn room(stream: u32) -> Vec<u8> {
    let more = 16_384_u32.to_be_bytes();
    let mut octets = one(WINDOW_UPDATE, 0, 0, &more);
    frame(&mut octets, WINDOW_UPDATE, 0, stream, &more);
    octets
}

/// Returns the first frames of a connection: SETTINGS, most of them as they should be.
pub fn greeting(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => random.octets(64),
        1..4 => settings(random),
        _ => one(SETTINGS, 0, 0, &[]),
    }
}

/// Returns SETTINGS with numbers and values that mean something, and with others (RFC 9113 6.5.2).
fn settings(random: &mut Random) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..random.below(4) {
        let id = random.below(10) as u16;
        let value = match random.below(6) {
            0 => 0,
            1 => 1,
            2 => 100,
            3 => 65_535,
            4 => 0x7fff_ffff,
            _ => random.next() as u32,
        };
        payload.extend(id.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    one(SETTINGS, 0, 0, &payload)
}

/// Returns the answer to a request. On a `calm` connection it concerns only its stream.
pub fn answer(random: &mut Random, place: Place, calm: bool) -> Vec<Step> {
    let (_, stream) = place;
    let whole = whole(random, place);
    let send = |frames: &[Vec<u8>]| Step::Send(frames.concat());
    let kinds = if calm { 10 } else { 16 };
    let mut steps = match random.below(kinds) {
        0..3 => vec![send(&whole)],
        3..5 => whole.into_iter().map(Step::Send).collect(),
        5..7 => broken_off(random, stream, &whole, calm),
        7 => vec![Step::Send(reset(random, stream))],
        8 => vec![send(&misdeclared(random, place))],
        9 => Vec::new(),
        10..12 => vec![send(&mutated(random, whole))],
        12 => vec![send(&noise(random, stream)), send(&whole)],
        13 => vec![send(&oversized(random, stream))],
        _ => vec![send(&oddities(random, stream)), send(&whole)],
    };
    if !calm && random.once_in(10) {
        steps.push(Step::Send(go_away(random, stream)));
    }
    steps
}

/// Returns the head of a response with further fields.
fn head(status: &str, place: Place, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    field(&mut block, ":status", status);
    field(&mut block, NAME, &name(place));
    for (name, value) in more {
        field(&mut block, name, value);
    }
    block
}

/// Returns a well-formed response: only its last frame ends the stream.
fn whole(random: &mut Random, place: Place) -> Vec<Vec<u8>> {
    let (_, stream) = place;
    let parts: Vec<Vec<u8>> = (0..random.below(6))
        .map(|_| {
            let count = match random.below(4) {
                0 => 0,
                1 => random.below(16_000),
                _ => random.below(600),
            };
            random.octets(count)
        })
        .collect();
    let length = parts.concat().len().to_string();
    let status = ["200", "200", "200", "404", "421", "500"][random.below(6) as usize];
    let mut frames = Vec::new();
    for _ in 0..random.below(8).saturating_sub(5) {
        let mut block = Vec::new();
        field(&mut block, ":status", ["100", "103"][random.below(2) as usize]);
        frames.push(one(HEADERS, END_HEADERS, stream, &block));
    }
    let declared = [("content-length", &*length)];
    let declared = if random.once_in(2) { &declared[..] } else { &[] };
    frames.push(one(HEADERS, END_HEADERS, stream, &head(status, place, declared)));
    for part in parts {
        frames.push(match random.once_in(4) {
            true => {
                let padding = random.below(200) as u8;
                let padded = [&[padding], &*part, &vec![0; usize::from(padding)]].concat();
                one(DATA, PADDED, stream, &padded)
            }
            false => one(DATA, 0, stream, &part),
        });
    }
    match random.once_in(4) {
        true => {
            let mut block = Vec::new();
            field(&mut block, "x-trailer", "1");
            frames.push(one(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        }
        false => frames.push(one(DATA, END_STREAM, stream, &[])),
    }
    frames
}

/// Returns the beginning of a response, and an event that ends it.
fn broken_off(random: &mut Random, stream: u32, whole: &[Vec<u8>], calm: bool) -> Vec<Step> {
    let count = 1 + random.below(whole.len() as u64 - 1) as usize;
    let mut steps = vec![Step::Send(whole[..count].concat())];
    if random.once_in(2) {
        steps.push(Step::Pause);
    }
    let politely = random.once_in(2);
    match random.below(5) {
        _ if calm => steps.push(Step::Send(reset(random, stream))),
        0 | 1 => steps.push(Step::Send(reset(random, stream))),
        2 => steps.push(Step::Close { politely }),
        3 => {
            steps.push(Step::Send(go_away(random, stream)));
            steps.push(Step::Close { politely });
        }
        _ => {
            let count = 9 + random.below(40);
            steps.push(Step::Send(random.octets(count)));
        }
    }
    steps
}

/// Changes, drops, doubles or moves frames.
fn mutated(random: &mut Random, mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for _ in 0..=random.below(3) {
        if frames.is_empty() {
            break;
        }
        let at = random.below(frames.len() as u64) as usize;
        let other = random.below(frames.len() as u64) as usize;
        match random.below(5) {
            0 | 1 => {
                let octet = random.below(frames[at].len() as u64) as usize;
                frames[at][octet] ^= 1 << random.below(8);
            }
            2 => frames.swap(at, other),
            3 => frames.insert(other, frames[at].clone()),
            _ => drop(frames.remove(at)),
        }
    }
    frames
}

/// Returns frames at random.
fn noise(random: &mut Random, stream: u32) -> Vec<Vec<u8>> {
    (0..1 + random.below(10))
        .map(|_| {
            let of = match random.below(4) {
                0 => 0,
                1 => random.next() as u32,
                2 => stream + 2,
                _ => stream,
            };
            let count = random.below(64);
            let payload = random.octets(count);
            one(random.below(12) as u8, random.next() as u8, of, &payload)
        })
        .collect()
}

/// Returns a head of up to 640 KiB, in parts.
fn oversized(random: &mut Random, stream: u32) -> Vec<Vec<u8>> {
    let mut part = Vec::new();
    let value = "y".repeat(100);
    while part.len() < 16_000 {
        field(&mut part, "x-long", &value);
    }
    let mut first = Vec::new();
    field(&mut first, ":status", "200");
    if random.once_in(3) {
        // A long field that is named by one octet again and again (RFC 7541 6.1).
        first.extend([0x40, 1, b'x', 100]);
        first.extend(value.as_bytes());
        part = vec![0xbe; 16_000];
    }
    let mut frames = vec![one(HEADERS, END_STREAM, stream, &first)];
    frames.extend((0..random.below(40)).map(|_| one(CONTINUATION, 0, stream, &part)));
    if random.once_in(2) {
        frames.push(one(CONTINUATION, END_HEADERS, stream, &[]));
    }
    frames
}

/// Returns a response with lengths that are not its body's.
fn misdeclared(random: &mut Random, place: Place) -> Vec<Vec<u8>> {
    let (_, stream) = place;
    let lengths: &[&str] = [
        &["3"][..],
        &["5"],
        &["0"],
        &["-1"],
        &["4", "4"],
        &["4", "5"],
        &["99999999999999999999"],
        &["4,4"],
    ][random.below(8) as usize];
    let lengths: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
    vec![
        one(HEADERS, END_HEADERS, stream, &head("200", place, &lengths)),
        one(DATA, END_STREAM, stream, b"body"),
    ]
}

/// Returns frames that mean something for the connection, at a moment when none is due.
fn oddities(random: &mut Random, stream: u32) -> Vec<Vec<u8>> {
    let of = [0, stream][random.below(2) as usize];
    match random.below(6) {
        0 => vec![settings(random)],
        1 => vec![one(WINDOW_UPDATE, 0, of, &(random.next() as u32).to_be_bytes())],
        2 => {
            let mut promise = 2_u32.to_be_bytes().to_vec();
            for (name, value) in
                [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")]
            {
                field(&mut promise, name, value);
            }
            vec![one(PUSH_PROMISE, END_HEADERS, stream, &promise)]
        }
        3 => vec![one(PING, 0, 0, &[0; 8]); random.below(500) as usize],
        4 => vec![one(SETTINGS, 0, 0, &[]); random.below(500) as usize],
        _ => vec![one(DATA, 0, stream, b"early")],
    }
}

fn reset(random: &mut Random, stream: u32) -> Vec<u8> {
    // Among them HTTP_1_1_REQUIRED, which this origin does not speak.
    let code = random.below(16) as u32;
    one(RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn go_away(random: &mut Random, stream: u32) -> Vec<u8> {
    let last = [0, stream.saturating_sub(2), stream, 0x7fff_ffff][random.below(4) as usize];
    let code = random.below(3) as u32;
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    one(GOAWAY, 0, 0, &payload)
}
