//! The result of a check of all records, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{TOLD, Tally};
use crate::audit::verify::Chain;
use crate::audit::verify::case::Trusted;
use crate::cli::screen::printable;
use crate::store::chain::Seal;
use crate::text::hex;
use crate::text::time_text;

/// Writes the result for people.
pub(super) fn as_text(
    tally: &Tally,
    chain: &Chain,
    is_whole: bool,
    faults: &[String],
    seal: Option<&Seal>,
    trusted: &Trusted,
) -> String {
    let mut text = String::new();
    tell_faults(&mut text, tally, faults);
    tell_chain(&mut text, tally.records, chain, is_whole);
    tell_seals(&mut text, chain, seal, trusted);
    tell_decisions(&mut text, tally);
    for (event, count) in &tally.events {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "events    {count} {}", printable(event));
    }
    text
}

fn tell_faults(text: &mut String, tally: &Tally, faults: &[String]) {
    for fault in faults.iter().take(TOLD) {
        let _ = writeln!(text, "fault: {}", printable(fault));
    }
    if let Some(more @ 1..) = faults.len().checked_sub(TOLD) {
        let _ = writeln!(text, "fault: and {more} more of the chain and its seals");
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

fn tell_chain(text: &mut String, records: u64, chain: &Chain, is_whole: bool) {
    let whole = if is_whole { "whole" } else { "NOT whole" };
    let (first, head) = (chain.first, chain.head);
    let _ = match records {
        0 => writeln!(text, "chain     no records, {whole}"),
        records => writeln!(
            text,
            "chain     {records} records, {first} to {}, {whole}",
            head.seq
        ),
    };
    let _ = writeln!(text, "head      {head}");
}

fn tell_seals(text: &mut String, chain: &Chain, seal: Option<&Seal>, trusted: &Trusted) {
    let _ = match (chain.sealed, seal) {
        (Some(sealed), Some(seal)) => writeln!(
            text,
            "sealed    up to record {sealed}, last at {}; {} records after it are linked only",
            time_text(seal.time),
            chain.head.seq.saturating_sub(sealed)
        ),
        _ => writeln!(
            text,
            "sealed    not yet: nothing vouches for the chain but its own links"
        ),
    };
    let _ = writeln!(text, "seals     believed of {}", trusted.told());
    if chain.kept_is_dropped {
        let _ = writeln!(text, "kept head retention has dropped its record");
    }
    if chain.taken_out > 0 {
        let _ = writeln!(
            text,
            "taken out {} records between others: they had no room ([audit] max_size), and the chain is signed across them",
            chain.taken_out
        );
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
            ", {} not proven: their links do not fit",
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
pub(super) fn as_json(tally: &Tally, chain: &Chain, faults: &[String], trusted: &Trusted) -> Value {
    let wrong = tally.told.iter().map(|wrong| {
        json!({"seq": wrong.seq, "id": wrong.id, "outcome": wrong.code, "said": wrong.said})
    });
    json!({
        "ok": faults.is_empty() && tally.wrong == 0,
        "records": tally.records,
        "first": chain.first,
        "head": chain.head.to_string(),
        "sealed": chain.sealed,
        "taken_out": chain.taken_out,
        "keys": trusted.keys.iter().map(hex).collect::<Vec<_>>(),
        "proven": tally.proven,
        "unlinked": tally.unlinked,
        "attested": tally.attested,
        "events": tally.events,
        "not_replayed": tally.passed,
        "wrong": tally.wrong,
        "decisions": wrong.collect::<Vec<_>>(),
        "faults": faults,
    })
}
