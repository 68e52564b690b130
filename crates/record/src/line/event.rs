//! The lines of events that are no decisions.

use std::net::SocketAddr;

use super::super::bounds::most;
use super::super::event::{Event, EventKind, Process, Repeated, RowClient, Rows, Settings};
use super::super::field as f;
use super::super::object::Asserted;
use super::super::value::Text;
use super::{most_in_line, stamp, write_asserted, write_client, write_texts};
use crawlgate_text::DecisionId;
use crawlgate_text::hex::digits;
use crawlgate_text::json::Object;

fn write_span(line: &mut Object<'_>, count: u64, first: u64, last: u64) {
    line.number(f::COUNT, count);
    line.plain(f::FIRST, &stamp(first));
    line.plain(f::LAST, &stamp(last));
}

fn write_process(line: &mut Object<'_>, process: &Process<'_>) {
    line.number(f::PROCESS, process.number);
    line.text(f::RELEASE, process.release.as_bytes(), most::TOKEN);
    line.plain(f::CONFIGURATION, &digits::<32, 64>(process.configuration));
}

fn write_settings(line: &mut Object<'_>, settings: &Settings<'_>) {
    let (origins, clients) = (&settings.report_origins, &settings.report_clients);
    line.plain(f::POLICY, &digits::<32, 64>(settings.policy));
    line.plain(f::MODE, settings.mode.as_str().as_bytes());
    write_texts(line, f::REPORT_ORIGINS, origins, usize::MAX);
    write_texts(line, f::REPORT_CLIENTS, clients, usize::MAX);
    // Lines of entries from before this field stay as they are.
    let exempt = &settings.exempt_clients;
    if !exempt.is_empty() || exempt.more() > 0 {
        write_texts(line, f::EXEMPT_CLIENTS, exempt, usize::MAX);
    }
}

fn write_repeated(line: &mut Object<'_>, repeated: &Repeated<'_>) {
    let client = SocketAddr::new(repeated.client, 0);
    write_client(line, client, repeated.client_name);
    line.plain(f::MODE, repeated.mode.as_str().as_bytes());
    line.plain(f::VERDICT, repeated.verdict.as_str().as_bytes());
    line.text(f::REASON, repeated.reason.as_bytes(), most::TOKEN);
    write_span(line, repeated.count, repeated.first, repeated.last);
}

pub(super) fn write_event(event: &Event<'_>, overridden: Option<Asserted<'_>>, out: &mut Vec<u8>) {
    let mut line = Object::open(out);
    line.plain(f::TIME, &stamp(event.time()));
    line.plain(f::EVENT, event.kind.name().as_bytes());
    if let Some(overridden) = &overridden {
        write_asserted(overridden, line.object(f::OVERRIDE));
    }
    let words = |line: &mut Object<'_>, name: &str, text: Text<'_>| {
        line.cut_text(name, text.kept.as_bytes(), text.cut, most::WORDS);
    };
    match &event.kind {
        EventKind::Lost {
            count,
            first,
            last,
            size,
        } => {
            write_span(&mut line, *count, *first, *last);
            if let Some(size) = size {
                line.number(f::SIZE, *size);
            }
        }
        EventKind::Started(process) | EventKind::Stopped(process) => {
            write_process(&mut line, process);
        }
        EventKind::Settings(settings) => write_settings(&mut line, settings),
        EventKind::OverrideAdded { .. } => {}
        EventKind::OverrideRemoved { by, .. } => words(&mut line, f::BY, *by),
        EventKind::Acknowledged { index, by, note } => {
            line.number(f::INDEX, *index);
            words(&mut line, f::BY, *by);
            words(&mut line, f::NOTE, *note);
        }
        EventKind::Dropped { index, cause } => {
            line.number(f::BEFORE, *index);
            line.plain(f::CAUSE, cause.as_str().as_bytes());
        }
        EventKind::KeyRotated {
            old,
            new,
            by,
            reason,
        } => {
            line.text(f::OLD, old.as_bytes(), most::ORIGIN);
            line.text(f::NEW, new.as_bytes(), most::ORIGIN);
            words(&mut line, f::BY, *by);
            words(&mut line, f::REASON, *reason);
        }
        EventKind::Forked {
            log,
            size,
            root,
            reason,
        } => {
            line.text(f::LOG, log.as_bytes(), most::ORIGIN);
            line.number(f::SIZE, *size);
            line.plain(f::ROOT, &digits::<32, 64>(root));
            words(&mut line, f::REASON, *reason);
        }
        EventKind::Forwarded {
            count,
            first,
            last,
            rows,
        } => {
            write_span(&mut line, *count, *first, *last);
            write_rows(&mut line, rows);
        }
        EventKind::Repeated(repeated) => write_repeated(&mut line, repeated),
        EventKind::AnsweredLogFailed { decision } => {
            line.plain(f::DECISION, &DecisionId::from_octets(*decision).text());
        }
    }
    line.close();
}

fn write_rows(line: &mut Object<'_>, rows: &Rows<'_>) {
    line.objects(
        f::CLIENTS,
        rows.iter(),
        most_in_line::ROWS,
        |row, object| {
            match row.client {
                RowClient::Named(name) => {
                    object.cut_text(f::NAME, name.kept.as_bytes(), name.cut, most::TOKEN);
                }
                RowClient::At(address) => {
                    object.plain(f::ADDRESS, address.to_string().as_bytes());
                }
            }
            object.number(f::COUNT, row.count);
        },
    );
}
