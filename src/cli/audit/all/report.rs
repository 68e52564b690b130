//! The result of a check of all records, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{TOLD, Tally, Witnessed};
use crate::audit::verify::case::Trusted;
use crate::audit::verify::walk::Walked;
use crate::cli::terminal::printable;
use crate::store::StoredCheckpoint;
use crate::text::time_text;
use crate::tlog::hash_text;

/// Writes the result for people.
pub(super) fn as_text(
    tally: &Tally,
    walked: &Walked,
    is_whole: bool,
    faults: &[String],
    last: Option<&StoredCheckpoint>,
    trusted: &Trusted,
    witnesses: &Witnessed<'_>,
) -> String {
    let mut text = String::new();
    tell_faults(&mut text, tally, faults);
    tell_log(&mut text, tally.records, walked, is_whole);
    tell_checkpoints(&mut text, walked, last, trusted);
    tell_witnesses(&mut text, witnesses);
    tell_decisions(&mut text, tally);
    for (event, count) in &tally.events {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "events    {count} {}", printable(event));
    }
    for fork in &tally.forks {
        let _ = writeln!(text, "fork      {}", printable(fork));
    }
    text
}

fn tell_faults(text: &mut String, tally: &Tally, faults: &[String]) {
    for fault in faults.iter().take(TOLD) {
        let _ = writeln!(text, "fault: {}", printable(fault));
    }
    if let Some(more @ 1..) = faults.len().checked_sub(TOLD) {
        let _ = writeln!(
            text,
            "fault: and {more} more of the log and its checkpoints"
        );
    }
    for wrong in &tally.told {
        let id = wrong.id.as_deref().unwrap_or("?");
        let said = format!("fault: record {} ({id}): {}", wrong.seq, wrong.said);
        let _ = writeln!(text, "{}", printable(&said));
    }
    if let Some(more @ 1..) = tally.wrong.checked_sub(tally.told.len() as u64) {
        let _ = writeln!(text, "fault: and {more} more decisions");
    }
}

fn tell_log(text: &mut String, records: u64, walked: &Walked, is_whole: bool) {
    let whole = if is_whole { "whole" } else { "NOT whole" };
    let _ = match records {
        0 => writeln!(text, "log       no records, {whole}"),
        records => writeln!(
            text,
            "log       {records} records, {} to {}, {whole}",
            walked.first + 1,
            walked.size
        ),
    };
    if let Some(root) = &walked.root {
        let _ = writeln!(
            text,
            "root      {} of {} records",
            hash_text(root),
            walked.size
        );
    }
}

fn tell_checkpoints(
    text: &mut String,
    walked: &Walked,
    last: Option<&StoredCheckpoint>,
    trusted: &Trusted,
) {
    let _ = match (walked.signed, last) {
        (Some(signed), Some(last)) => writeln!(
            text,
            "signed    up to record {signed}, last at {}; {} records after it are not signed yet",
            time_text(last.time),
            walked.size.saturating_sub(signed)
        ),
        _ => writeln!(text, "signed    not yet: no checkpoint vouches for the log"),
    };
    let _ = writeln!(
        text,
        "          {} checkpoints agree, {} do not; trusted is {}",
        walked.agreeing,
        walked.differing,
        trusted.told()
    );
    if !walked.unreached.is_empty() {
        let _ = writeln!(
            text,
            "          {} checkpoints in dropped ground could not be compared",
            walked.unreached.len()
        );
    }
}

fn tell_witnesses(text: &mut String, witnesses: &Witnessed<'_>) {
    let (each, quorum) = (&witnesses.each, witnesses.quorum);
    if each.is_empty() {
        return;
    }
    let count = each.len();
    let _ = match witnesses.last {
        Some((size, time)) => writeln!(
            text,
            "witnessed up to record {size}, at {}, by {quorum} of {count} at least",
            time_text(time)
        ),
        None => writeln!(text, "witnessed not yet by {quorum} of {count}"),
    };
    for (name, seen) in each {
        let _ = match *seen {
            Some((size, time)) => {
                let time = time_text(time);
                writeln!(
                    text,
                    "          {name} has cosigned up to record {size}, at {time}"
                )
            }
            None => writeln!(text, "          {name} has cosigned nothing that is kept"),
        };
    }
}

fn tell_decisions(text: &mut String, tally: &Tally) {
    let attested: u64 = tally.attested.values().sum();
    let _ = write!(
        text,
        "decisions {} proven, {attested} attested only",
        tally.proven
    );
    let mut gap = " (";
    for (why, count) in &tally.attested {
        let _ = write!(text, "{gap}{count} {why}");
        gap = ", ";
    }
    if attested > 0 {
        text.push(')');
    }
    if tally.unlinked > 0 {
        let _ = write!(
            text,
            ", {} not proven: the log contradicts them",
            tally.unlinked
        );
    }
    if tally.passed > 0 {
        let _ = write!(text, ", {} not replayed: outside the time", tally.passed);
    }
    let _ = writeln!(text, ", {} wrong", tally.wrong);
    if attested > 0 {
        let _ = writeln!(
            text,
            "          attested only: the record says so, and nothing was kept that it could follow from"
        );
    }
}

/// Returns the result for programs.
pub(super) fn as_json(
    tally: &Tally,
    walked: &Walked,
    faults: &[String],
    trusted: &Trusted,
    seen: &Witnessed<'_>,
) -> Value {
    let witnesses = seen.each.iter().map(|(name, seen)| {
        let (size, time) = (seen.map(|seen| seen.0), seen.map(|seen| seen.1));
        json!({"name": name, "cosigned": size, "at": time.map(time_text)})
    });
    let at = seen.last.map(|last| time_text(last.1));
    let witnessed = json!({"size": seen.last.map(|last| last.0), "at": at, "quorum": seen.quorum});
    let wrong = tally.told.iter().map(|wrong| {
        json!({"seq": wrong.seq, "id": wrong.id, "outcome": wrong.code, "said": wrong.said})
    });
    json!({
        "ok": faults.is_empty() && tally.wrong == 0,
        "records": tally.records,
        "first": walked.first + 1,
        "size": walked.size,
        "root": walked.root.as_ref().map(hash_text),
        "signed": walked.signed,
        "checkpoints": {"agree": walked.agreeing, "differ": walked.differing, "not_compared": walked.unreached},
        "keys": trusted.keys.all.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "witnesses": witnesses.collect::<Vec<_>>(),
        "witnessed": witnessed,
        "proven": tally.proven,
        "unlinked": tally.unlinked,
        "attested": tally.attested,
        "events": tally.events,
        "forks": tally.forks,
        "not_replayed": tally.passed,
        "wrong": tally.wrong,
        "decisions": wrong.collect::<Vec<_>>(),
        "faults": faults,
    })
}
