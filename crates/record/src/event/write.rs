//! The encoder of events.

use std::net::SocketAddr;

use super::super::bounds::most;
use super::super::cbor::{self, MapWriter};
use super::super::decision::key;
use super::super::value::{Text, Texts};
use super::{Event, EventKind, MAX_ROWS, Repeated, Settings};

/// Octets of the list of exempt clients: with the two other lists of settings it fits into an entry.
const MAX_EXEMPT: usize = most::LIST / 2;

/// Writes the span of counted things.
fn write_span(map: &mut MapWriter<'_>, count: u64, first: u64, last: u64) {
    cbor::uint(map.key(key::COUNT), count);
    cbor::uint(map.key(key::FIRST), first);
    cbor::uint(map.key(key::LAST), last);
}

fn write_list(map: &mut MapWriter<'_>, key: u8, texts: &Texts<'_>, most: usize) {
    if !texts.is_empty() {
        texts.at_most(MAX_ROWS, most).put(map.key(key));
    }
}

impl Event<'_> {
    /// Appends the entry to `out`: at most [`MAX`](crate::MAX) octets, always the same for the same event. A text
    /// beyond its bound is cut, and the entry says by how much.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::open(out);
        cbor::uint(map.key(key::KIND), self.kind.number());
        cbor::bytes(map.key(key::ID), &self.id);
        write_kind(&self.kind, &mut map);
        map.close();
    }
}

fn write_kind(kind: &EventKind<'_>, map: &mut MapWriter<'_>) {
    match kind {
        EventKind::Lost { count, first, last, size } => {
            write_span(map, *count, *first, *last);
            if let Some(size) = size {
                cbor::uint(map.key(key::SIZE), *size);
            }
        }
        EventKind::Started(process) | EventKind::Stopped(process) => {
            cbor::uint(map.key(key::PROCESS), process.number);
            let release = Text::from(process.release).at_most(most::TOKEN);
            map.text(key::RELEASE, release.kept);
            cbor::bytes(map.key(key::CONFIGURATION), process.configuration);
        }
        EventKind::Settings(settings) => write_settings(settings, map),
        EventKind::OverrideAdded { overridden } => {
            cbor::bytes(map.key(key::OVERRIDE), *overridden);
        }
        EventKind::OverrideRemoved { overridden, by } => {
            cbor::bytes(map.key(key::OVERRIDE), *overridden);
            let by = words(by);
            map.cuts(&[(key::BY, by.cut)]);
            map.text(key::BY, by.kept);
        }
        EventKind::Acknowledged { index, by, note } => {
            write_act(map, by, note);
            cbor::uint(map.key(key::INDEX), *index);
        }
        EventKind::Dropped { index, cause } => {
            cbor::uint(map.key(key::INDEX), *index);
            map.uint(key::CAUSE, cause.number());
        }
        EventKind::KeyRotated { old, new, by, reason } => {
            write_act(map, by, reason);
            map.text(key::VKEY, bounded(new));
            map.text(key::OLD_VKEY, bounded(old));
        }
        EventKind::Forked { log, size, root, reason } => {
            let reason = words(reason);
            map.cuts(&[(key::NOTE, reason.cut)]);
            map.text(key::NOTE, reason.kept);
            map.text(key::LOG, bounded(log));
            cbor::uint(map.key(key::SIZE), *size);
            cbor::bytes(map.key(key::ROOT), *root);
        }
        EventKind::Forwarded { count, first, last, rows } => {
            write_span(map, *count, *first, *last);
            rows.write(map.key(key::ROWS));
        }
        EventKind::Repeated(repeated) => write_repeated(repeated, map),
        EventKind::AnsweredLogFailed { decision } => {
            cbor::bytes(map.key(key::DECISION), decision);
        }
    }
}

/// Writes the person who acted, and what this person says of it.
fn write_act(map: &mut MapWriter<'_>, by: &Text<'_>, note: &Text<'_>) {
    let (by, note) = (words(by), words(note));
    map.cuts(&[(key::BY, by.cut), (key::NOTE, note.cut)]);
    map.text(key::BY, by.kept);
    map.text(key::NOTE, note.kept);
}

fn write_settings(settings: &Settings<'_>, map: &mut MapWriter<'_>) {
    let (origins, clients) = (&settings.report_origins, &settings.report_clients);
    let exempt = &settings.exempt_clients;
    map.uint(key::MODE, settings.mode.number());
    cbor::bytes(map.key(key::POLICY), settings.policy);
    // The heads come first in a map: a list that is written knows what it leaves out.
    map.cuts(&[
        (key::REPORT_ORIGINS, left_out(origins, most::LIST)),
        (key::REPORT_CLIENTS, left_out(clients, most::LIST)),
        (key::EXEMPT_CLIENTS, left_out(exempt, MAX_EXEMPT)),
    ]);
    write_list(map, key::REPORT_ORIGINS, origins, most::LIST);
    write_list(map, key::REPORT_CLIENTS, clients, most::LIST);
    write_list(map, key::EXEMPT_CLIENTS, exempt, MAX_EXEMPT);
}

fn write_repeated(repeated: &Repeated<'_>, map: &mut MapWriter<'_>) {
    map.uint(key::MODE, repeated.mode.number());
    map.uint(key::VERDICT, repeated.verdict.number());
    let reason = Text::from(repeated.reason).at_most(most::TOKEN);
    map.text(key::REASON, reason.kept);
    cbor::address(map.key(key::CLIENT), SocketAddr::new(repeated.client, 0));
    let cut = map.cut_text(key::CLIENT_NAME, repeated.client_name, most::TOKEN);
    map.cuts(&[(key::CLIENT_NAME, cut)]);
    write_span(map, repeated.count, repeated.first, repeated.last);
}

/// Bounds the words of a person.
fn words<'t>(text: &Text<'t>) -> Text<'t> {
    text.at_most(most::WORDS)
}

/// Bounds a name of ours.
fn bounded(text: &str) -> &str {
    Text::from(text).at_most(most::ORIGIN).kept
}

/// Returns the number of texts that a list leaves out.
fn left_out(texts: &Texts<'_>, most: usize) -> u64 {
    texts.at_most(MAX_ROWS, most).more()
}
