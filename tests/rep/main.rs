//! The protocol core against tables of questions and answers, and against a slow implementation of
//! the same rules.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod checks;
#[path = "../support/corpus.rs"]
mod corpus;
mod ftp_checks;
mod guard;
mod naive;
mod origins;
mod properties;
mod servers;
mod strategies;
mod tables;
mod usage;
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
