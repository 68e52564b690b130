//! The protocol core against tables of questions and answers, and against a slow implementation of
//! the same rules.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "rep/checks.rs"]
mod checks;
#[path = "support/corpus.rs"]
mod corpus;
#[path = "rep/ftp_checks.rs"]
mod ftp_checks;
#[path = "rep/guard.rs"]
mod guard;
#[path = "rep/naive.rs"]
mod naive;
#[path = "rep/origins.rs"]
mod origins;
#[path = "rep/properties.rs"]
mod properties;
#[path = "rep/servers.rs"]
mod servers;
#[path = "rep/strategies.rs"]
mod strategies;
#[path = "rep/tables.rs"]
mod tables;
#[path = "rep/usage.rs"]
mod usage;
#[path = "rep/usage_checks.rs"]
mod usage_checks;

#[test]
fn the_kept_corpus_passes_the_checks() {
    corpus::pass_through(&[
        ("parse", checks::parse),
        ("matching", checks::matching),
        ("differential", checks::differential),
        ("statements", usage_checks::statements),
        ("fields", usage_checks::fields),
        ("tdmrep", usage_checks::tdmrep),
        ("ftp", ftp_checks::ftp),
    ]);
}
