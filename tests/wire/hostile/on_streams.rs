//! The hostile requests as frames of HTTP/2: field by field as a careless proxy would translate them from HTTP/1.1.

use std::io::Cursor;
use std::net::SocketAddr;

use super::OnStream::{But, Octets, Same, Trailers};
use super::Outcome::{
    self, BrokenOff, Closed, Ended, Refused, Reset, Served, ServedThenRefused, TunnelledThenRefused,
};
use super::Way::{self, Bare, Plain, Tls};
use super::{Row, fill, reasons};
use crate::support::http2_frames::{End, Frames, block, flag, kind};
use crate::support::{CrawlgateProcess, Origin, Response, eventually, wait_until};

type Field = (String, String);

/// A request as HTTP/2 sends it.
#[derive(Default)]
struct Message {
    head: Vec<Field>,
    body: String,
    trailers: Vec<Field>,
}

/// Returns the outcome of a row on a stream.
pub fn outcome((_, _, _, outcome, on_stream): &Row) -> Outcome {
    match *on_stream {
        Same => *outcome,
        But(outcome) | Trailers(outcome) => outcome,
        Octets(reason) => panic!("{reason}"),
    }
}

/// Returns the number of records that a row leaves.
pub fn records(row: &Row) -> usize {
    match outcome(row) {
        Refused(..) | BrokenOff | Served(_) | TunnelledThenRefused(..) => 1,
        ServedThenRefused(..) => 2,
        Reset | Ended => 0,
        Closed(_) => unreachable!("no row of HTTP/2"),
    }
}

/// Reads lines as fields. A folded line belongs to the value before it.
fn fields(lines: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for line in lines.split("\r\n") {
        match fields.last_mut() {
            Some((_, value)) if line.starts_with([' ', '\t']) => {
                *value = format!("{value}\r\n{line}");
            }
            _ => {
                // A pseudo-field's name begins with a colon; no row has one.
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                fields.push((name.to_ascii_lowercase(), value.to_owned()));
            }
        }
    }
    fields
}

/// Returns the pseudo-fields that a target stands for.
fn target(method: &str, target: &str, way: Way) -> Vec<(&'static str, String)> {
    let path_of = |path: &str| match path {
        "" => "/".to_owned(),
        path => path.to_owned(),
    };
    if method == "CONNECT" {
        return vec![(":authority", target.to_owned())];
    }
    if target.starts_with(['/', '*']) {
        let scheme = if way == Tls { "https" } else { "http" };
        return vec![(":scheme", scheme.to_owned()), (":path", target.to_owned())];
    }
    match target.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            vec![
                (":scheme", scheme.to_owned()),
                (":authority", authority.to_owned()),
                (":path", path_of(path)),
            ]
        }
        None => match target.strip_suffix(':') {
            Some(scheme) => vec![(":scheme", scheme.to_owned())],
            None => vec![(":authority", target.to_owned())],
        },
    }
}

impl Message {
    fn of(text: &str, way: Way, has_trailers: bool) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let (line, lines) = head.split_once("\r\n").unwrap_or((head, ""));
        let (method, line) = line.split_once(' ').unwrap();
        let (named, _version) = line.rsplit_once(' ').unwrap();
        let mut pseudo = target(method, named, way);
        let mut fields = match lines {
            "" => Vec::new(),
            lines => fields(lines),
        };
        // RFC 9113 8.3.1: one Host becomes `:authority`, or the target's takes its place.
        let has_authority = pseudo.iter().any(|(name, _)| *name == ":authority");
        let hosts: Vec<usize> = (0..fields.len()).filter(|at| fields[*at].0 == "host").collect();
        if let [host] = hosts[..] {
            if way == Tls && !has_authority {
                pseudo.push((":authority", fields.remove(host).1));
            } else if has_authority && !(way == Tls && method != "CONNECT") {
                fields.remove(host);
            }
        }
        for (name, value) in &mut fields {
            if name == "connection" {
                *value = value.trim_start_matches("close").to_owned();
            }
        }
        fields.retain(|(name, value)| !(name == "connection" && value.is_empty()));
        let mut message = Self::default();
        message.head.push((":method".to_owned(), method.to_owned()));
        message.head.extend(pseudo.into_iter().map(|(name, value)| (name.into(), value)));
        if has_trailers {
            fields.retain(|(name, _)| name != "transfer-encoding");
            let lines = body.strip_prefix("0\r\n").unwrap();
            message.trailers = self::fields(lines.trim_end_matches("\r\n"));
        } else {
            message.body = body.to_owned();
        }
        message.head.extend(fields);
        message
    }

    fn begin(&self, frames: &mut Frames, stream: u32) {
        let expects = self.head.iter().any(|(name, _)| name == "expect");
        let is_whole = self.body.is_empty() && self.trailers.is_empty() && !expects;
        let flags = flag::END_HEADERS | if is_whole { flag::END_STREAM } else { 0 };
        frames.head(stream, flags, &encode(&self.head));
    }

    fn end(&self, frames: &mut Frames, stream: u32) {
        if !self.body.is_empty() {
            frames.send(kind::DATA, flag::END_STREAM, stream, self.body.as_bytes());
        }
        if !self.trailers.is_empty() {
            let flags = flag::END_HEADERS | flag::END_STREAM;
            frames.head(stream, flags, &encode(&self.trailers));
        }
    }
}

fn encode(fields: &[Field]) -> Vec<u8> {
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    block(&fields)
}

/// Sends the requests of a row, and compares what comes of them.
pub fn check(gate: &CrawlgateProcess, place: SocketAddr, plain: &Origin, tls: &Origin, row: &Row) {
    let (name, way, text, _, on_stream) = row;
    let origin = match way {
        Tls => tls,
        Plain => plain,
        Bare => unreachable!("{name}"),
    };
    let (seen_before, recorded_before) = (origin.seen_but_robots().len(), reasons(gate).len());
    let mut frames = match way {
        Tls => gate.intercept_frames(&origin.authority(), "site.test"),
        Plain | Bare => gate.frames_to(place, "127.0.0.1"),
    };
    let text = fill(text, gate, origin);
    let seen = || origin.seen_but_robots()[seen_before..].to_vec();
    let refused = |frames: &mut Frames, stream, status, reason| {
        let (found, body) = frames.answer(stream).unwrap();
        assert_eq!(found, status, "{name}");
        gate.refusal(&serde_json::from_slice(&body).unwrap(), status, reason);
    };
    let request = Message::of(&text, *way, matches!(on_stream, Trailers(_)));
    match outcome(row) {
        Refused(status, reason) => {
            request.begin(&mut frames, 1);
            refused(&mut frames, 1, status, reason);
            // The answer has not waited for the body.
            request.end(&mut frames, 1);
            assert_eq!(seen(), [""; 0], "{name}");
        }
        TunnelledThenRefused(status, reason) => {
            request.begin(&mut frames, 1);
            frames.send(kind::DATA, 0, 1, request.body.as_bytes());
            let (opened, octets) = frames.answer(1).unwrap();
            assert_eq!(opened, 200, "{name}");
            let inside = Response::read(&mut Cursor::new(octets), "GET");
            gate.refused(&inside.unwrap().unwrap(), status, reason);
            assert_eq!(seen(), [""; 0], "{name}");
        }
        BrokenOff => {
            let begun = origin.connections();
            request.begin(&mut frames, 1);
            // An upload has a separate connection.
            wait_until("the upload", || origin.connections() > begun);
            request.end(&mut frames, 1);
            let record =
                eventually("its record", || gate.records().into_iter().nth(recorded_before));
            assert!(!record["error"].is_null(), "{name}: {record}");
            let others = seen().into_iter().filter(|line| line != "POST /open");
            assert_eq!(others.count(), 0, "{name}: {:?}", seen());
        }
        Served(lines) => {
            request.begin(&mut frames, 1);
            request.end(&mut frames, 1);
            assert_eq!(frames.answer(1).unwrap().0, 200, "{name}");
            assert_eq!(seen(), lines, "{name}");
        }
        ServedThenRefused(line, status, reason) => {
            let (_, second) = text.split_once("\r\n\r\n").unwrap();
            let second = Message::of(second, *way, false);
            let first = Message { body: String::new(), ..request };
            first.begin(&mut frames, 1);
            second.begin(&mut frames, 3);
            refused(&mut frames, 3, status, reason);
            assert_eq!(frames.answer(1).unwrap().0, 200, "{name}");
            assert_eq!(seen(), [line], "{name}");
        }
        Reset => {
            request.begin(&mut frames, 1);
            assert_eq!(frames.end(1), End::Reset(1), "{name}: PROTOCOL_ERROR");
            assert_eq!(seen(), [""; 0], "{name}");
        }
        Ended => {
            request.begin(&mut frames, 1);
            let end = frames.end(1);
            assert!(matches!(end, End::GoAway(1..)), "{name}: {end:?}");
            assert_eq!(seen(), [""; 0], "{name}");
        }
        Closed(_) => unreachable!("{name}: a row of other octets"),
    }
}
