//! The lines of events that are no decisions.

use std::net::SocketAddr;

use super::super::bounds::most;
use super::super::event::{Event, EventKind, Process, Repeated, RowClient, Rows, Settings};
use super::super::object::Asserted;
use super::super::value::Text;
use super::cell::{of, text, write_texts};
use super::fields::OVERRIDE;
use super::{Told, most_in_line, write_fields};
use crate::Decision;
use crawlgate_text::DecisionId;
use crawlgate_text::hex::digits;
use crawlgate_text::json::Object;
use crawlgate_text::{Moment, timestamp::rfc3339};

fn write_span(line: &mut Object<'_>, count: u64, first: u64, last: u64) {
    line.number("count", count);
    line.plain("first", &stamp(first));
    line.plain("last", &stamp(last));
}

fn write_process(line: &mut Object<'_>, process: &Process<'_>) {
    line.number("process", process.number);
    line.text("release", process.release.as_bytes(), most::TOKEN);
    line.plain("configuration", &digits::<32, 64>(process.configuration));
}

fn write_settings(line: &mut Object<'_>, settings: &Settings<'_>) {
    let (origins, clients) = (&settings.report_origins, &settings.report_clients);
    line.plain("policy", &digits::<32, 64>(settings.policy));
    line.plain("mode", settings.mode.as_str().as_bytes());
    write_texts(line, "report_origins", origins, usize::MAX);
    write_texts(line, "report_clients", clients, usize::MAX);
    // Lines of entries from before this field stay as they are.
    let exempt = &settings.exempt_clients;
    if !exempt.is_empty() || exempt.more() > 0 {
        write_texts(line, "exempt_clients", exempt, usize::MAX);
    }
}

fn write_repeated(line: &mut Object<'_>, repeated: &Repeated<'_>) {
    let mut client = line.object("client");
    client.address("address", SocketAddr::new(repeated.client, 0));
    let name = repeated.client_name;
    of(name, |name| text(name, most::TOKEN)).write("name", &mut client);
    client.close();
    line.plain("mode", repeated.mode.as_str().as_bytes());
    line.plain("verdict", repeated.verdict.as_str().as_bytes());
    line.text("reason", repeated.reason.as_bytes(), most::TOKEN);
    write_span(line, repeated.count, repeated.first, repeated.last);
}

pub(super) fn write_event(event: &Event<'_>, overridden: Option<Asserted<'_>>, out: &mut Vec<u8>) {
    let mut line = Object::open(out);
    line.plain("time", &stamp(event.time()));
    line.plain("event", event.kind.name().as_bytes());
    if overridden.is_some() {
        let told = Told { overridden, ..Told::bare(Decision::default()) };
        write_fields(OVERRIDE, &told, line.object("override"));
    }
    let words = |line: &mut Object<'_>, name: &str, text: Text<'_>| {
        line.cut_text(name, text.kept.as_bytes(), text.cut, most::WORDS);
    };
    match &event.kind {
        EventKind::Lost { count, first, last, size } => {
            write_span(&mut line, *count, *first, *last);
            if let Some(size) = size {
                line.number("size", *size);
            }
        }
        EventKind::Started(process) | EventKind::Stopped(process) => {
            write_process(&mut line, process);
        }
        EventKind::Settings(settings) => write_settings(&mut line, settings),
        EventKind::OverrideAdded { .. } => {}
        EventKind::OverrideRemoved { by, .. } => words(&mut line, "by", *by),
        EventKind::Acknowledged { index, by, note } => {
            line.number("index", *index);
            words(&mut line, "by", *by);
            words(&mut line, "note", *note);
        }
        EventKind::Dropped { index, cause } => {
            line.number("before", *index);
            line.plain("cause", cause.as_str().as_bytes());
        }
        EventKind::KeyRotated { old, new, by, reason } => {
            line.text("old", old.as_bytes(), most::ORIGIN);
            line.text("new", new.as_bytes(), most::ORIGIN);
            words(&mut line, "by", *by);
            words(&mut line, "reason", *reason);
        }
        EventKind::Forked { log, size, root, reason } => {
            line.text("log", log.as_bytes(), most::ORIGIN);
            line.number("size", *size);
            line.plain("root", &digits::<32, 64>(root));
            words(&mut line, "reason", *reason);
        }
        EventKind::Forwarded { count, first, last, rows } => {
            write_span(&mut line, *count, *first, *last);
            write_rows(&mut line, rows);
        }
        EventKind::Repeated(repeated) => write_repeated(&mut line, repeated),
        EventKind::AnsweredLogFailed { decision } => {
            line.plain("decision", &DecisionId::from_octets(*decision).text());
        }
    }
    line.close();
}

fn write_rows(line: &mut Object<'_>, rows: &Rows<'_>) {
    line.objects("clients", rows.iter(), most_in_line::ROWS, |row, object| {
        match row.client {
            RowClient::Named(name) => {
                object.cut_text("name", name.kept.as_bytes(), name.cut, most::TOKEN);
            }
            RowClient::At(address) => {
                object.plain("address", address.to_string().as_bytes());
            }
        }
        object.number("count", row.count);
    });
}

fn stamp(millis: u64) -> [u8; 24] {
    rfc3339(Moment::from_millis(millis))
}
