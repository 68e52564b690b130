//! The tables of `docs/messages.md` that the code has, too.

use std::collections::BTreeSet;

use crawlgate_origins::access::Cause;
use crawlgate_policy::{Reason, Verdict};

use super::page::pages;

#[test]
fn the_table_of_reasons_has_every_reason_that_refuses_with_its_status() {
    let messages = pages().into_iter().find(|page| page.name == "docs/messages.md");
    let rows = messages.unwrap().cells_under("Reasons");
    // The usual status is the first.
    let documented: BTreeSet<(&str, u16)> = rows
        .iter()
        .map(|cells| {
            let status = cells[1].split(", ").next().unwrap();
            (cells[0].trim_matches('`'), status.parse().unwrap())
        })
        .collect();
    assert_eq!(documented.len(), rows.len(), "a row is there twice");
    let refusing = Reason::ALL
        .into_iter()
        .filter(|reason| reason.verdict() != Verdict::Allow)
        .map(|reason| (reason.as_str(), reason.info().answer.status.as_u16()))
        .collect();
    assert_eq!(documented, refusing);
}

#[test]
fn the_table_of_causes_has_their_statuses_and_errors() {
    let messages = pages().into_iter().find(|page| page.name == "docs/messages.md");
    let rows = messages.unwrap().cells_under("An unreachable robots.txt");
    let mut documented = 0;
    for cells in rows {
        for code in cells[0].split(", ").map(|code| code.trim_matches('`')) {
            let cause = Cause::from_code(code).unwrap_or_else(|| panic!("no cause {code}"));
            let (status, error) = cause.answer();
            let of_table = (&*cells[1], cells[2].trim_matches('`'));
            assert_eq!(of_table, (status.as_str(), error), "{code}");
            documented += 1;
        }
    }
    assert!(documented >= 20, "{documented} causes");
}
