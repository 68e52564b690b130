//! The result of a check of all records, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Witnessed;
use crate::terminal::printable;
use crawlgate_evidence::verify::all::{DecisionCounts, MAX_SHOWN};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_evidence::verify::walk::LogVerification;
use crawlgate_store::StoredCheckpoint;
use crawlgate_text::time_text;
use crawlgate_tlog::hash_text;

/// Writes the result for people.
pub(super) fn as_text(
    counts: &DecisionCounts,
    verification: &LogVerification,
    is_whole: bool,
    faults: &[String],
    last: Option<&StoredCheckpoint>,
    trusted: &Trusted,
    witnesses: &Witnessed<'_>,
) -> String {
    let mut text = String::new();
    write_faults(&mut text, counts, faults);
    write_log(&mut text, counts.records, verification, is_whole);
    write_checkpoints(&mut text, verification, last, trusted);
    write_witnesses(&mut text, witnesses);
    write_decisions(&mut text, counts);
    for (event, count) in &counts.events {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "events    {count} {}", printable(event));
    }
    for fork in &counts.forks {
        let _ = writeln!(text, "fork      {}", printable(fork));
    }
    text
}

fn write_faults(text: &mut String, counts: &DecisionCounts, faults: &[String]) {
    for fault in faults.iter().take(MAX_SHOWN) {
        let _ = writeln!(text, "fault: {}", printable(fault));
    }
    if let Some(more @ 1..) = faults.len().checked_sub(MAX_SHOWN) {
        let _ = writeln!(text, "fault: and {more} more of the log and its checkpoints");
    }
    for wrong in &counts.shown {
        let id = wrong.id.as_deref().unwrap_or("?");
        let said = format!("fault: record {} ({id}): {}", wrong.seq, wrong.message);
        let _ = writeln!(text, "{}", printable(&said));
    }
    if let Some(more @ 1..) = counts.wrong.checked_sub(counts.shown.len() as u64) {
        let _ = writeln!(text, "fault: and {more} more decisions");
    }
}

fn write_log(text: &mut String, records: u64, verification: &LogVerification, is_whole: bool) {
    let whole = if is_whole { "whole" } else { "NOT whole" };
    let _ = match records {
        0 => writeln!(text, "log       no records, {whole}"),
        records => writeln!(
            text,
            "log       {records} records, {} to {}, {whole}",
            verification.first + 1,
            verification.size
        ),
    };
    if let Some(root) = &verification.root {
        let _ = writeln!(text, "root      {} of {} records", hash_text(root), verification.size);
    }
}

fn write_checkpoints(
    text: &mut String,
    verification: &LogVerification,
    last: Option<&StoredCheckpoint>,
    trusted: &Trusted,
) {
    let _ = match (verification.signed, last) {
        (Some(signed), Some(last)) => writeln!(
            text,
            "signed    up to record {signed}, last at {}; {} records after it are not signed yet",
            time_text(last.time),
            verification.size.saturating_sub(signed)
        ),
        _ => writeln!(text, "signed    not yet: no checkpoint vouches for the log"),
    };
    let _ = writeln!(
        text,
        "          {} checkpoints agree, {} do not; trusted is {}",
        verification.agreeing,
        verification.differing,
        trusted.describe()
    );
    if !verification.unreached.is_empty() {
        let _ = writeln!(
            text,
            "          {} checkpoints in dropped ground could not be compared",
            verification.unreached.len()
        );
    }
}

fn write_witnesses(text: &mut String, witnesses: &Witnessed<'_>) {
    for (name, size) in &witnesses.ahead {
        let _ = writeln!(
            text,
            "          NO CHECKPOINT IS SIGNED ANY MORE: the witness {} knows one of {size} records, which this store does not \
             have; bring back the newer store; or, if the witness is wrong, remove its [[audit.witness]] section and restart",
            printable(name)
        );
    }
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
                writeln!(text, "          {name} has cosigned up to record {size}, at {time}")
            }
            None => writeln!(text, "          {name} has cosigned nothing that is kept"),
        };
    }
}

fn write_decisions(text: &mut String, counts: &DecisionCounts) {
    let attested: u64 = counts.attested.values().sum();
    let _ = write!(text, "decisions {} proven, {attested} attested only", counts.proven);
    let mut gap = " (";
    for (why, count) in &counts.attested {
        let _ = write!(text, "{gap}{count} {why}");
        gap = ", ";
    }
    if attested > 0 {
        text.push(')');
    }
    if counts.unlinked > 0 {
        let _ = write!(text, ", {} not proven: the log contradicts them", counts.unlinked);
    }
    if counts.passed > 0 {
        let _ = write!(text, ", {} not replayed: outside the time", counts.passed);
    }
    let _ = writeln!(text, ", {} wrong", counts.wrong);
    if attested > 0 {
        let _ = writeln!(
            text,
            "          attested only: the record says so, and nothing was kept that it could follow from"
        );
    }
}

/// Returns the result for programs.
pub(super) fn as_json(
    counts: &DecisionCounts,
    verification: &LogVerification,
    faults: &[String],
    trusted: &Trusted,
    seen: &Witnessed<'_>,
) -> Value {
    let witnesses = seen.each.iter().map(|(name, seen)| {
        let (size, time) = (seen.map(|seen| seen.0), seen.map(|seen| seen.1));
        json!({"name": name, "cosigned": size, "at": time.map(time_text)})
    });
    let ahead = seen.ahead.iter();
    let ahead = ahead.map(|(name, size)| json!({"name": name, "size": size}));
    let at = seen.last.map(|last| time_text(last.1));
    let witnessed = json!({"size": seen.last.map(|last| last.0), "at": at, "quorum": seen.quorum});
    let wrong = counts.shown.iter().map(|wrong| {
        json!({"seq": wrong.seq, "id": wrong.id, "outcome": wrong.code, "said": wrong.message})
    });
    json!({
        "ok": faults.is_empty() && counts.wrong == 0,
        "records": counts.records,
        "first": verification.first + 1,
        "size": verification.size,
        "root": verification.root.as_ref().map(hash_text),
        "signed": verification.signed,
        "checkpoints": {"agree": verification.agreeing, "differ": verification.differing, "not_compared": verification.unreached},
        "keys": trusted.keys.all.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "witnesses": witnesses.collect::<Vec<_>>(),
        "witnessed": witnessed,
        "ahead": ahead.collect::<Vec<_>>(),
        "proven": counts.proven,
        "unlinked": counts.unlinked,
        "attested": counts.attested,
        "events": counts.events,
        "forks": counts.forks,
        "not_replayed": counts.passed,
        "wrong": counts.wrong,
        "decisions": wrong.collect::<Vec<_>>(),
        "faults": faults,
    })
}
