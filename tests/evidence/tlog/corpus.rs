//! Passes the seeds of fuzzing, and any octets, through the checks.

use proptest::collection::vec;
use proptest::prelude::*;

use super::checks;
use super::kept::{Check, pass_through};

const CHECKS: [Check; 4] = [
    ("answer", checks::answer),
    ("note", checks::note),
    ("proof", checks::proof),
    ("tile", checks::tile),
];

#[test]
fn the_kept_corpus_passes_the_checks() {
    pass_through(&CHECKS);
}

proptest! {
    #[test]
    fn any_octets_pass_the_checks(data in vec(any::<u8>(), 0..400)) {
        for (_, check) in CHECKS {
            check(&data);
        }
    }

    #[test]
    fn lines_in_disorder_pass_the_checks(lines in vec(line(), 0..12), ends in any::<bool>()) {
        let mut text = lines.join("\n");
        if ends {
            text.push('\n');
        }
        for (_, check) in CHECKS {
            check(text.as_bytes());
        }
    }
}

/// Returns lines that the formats have, and some that they do not.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just(String::new()),
        2 => Just("c2sp.org/tlog-proof@v1".to_owned()),
        1 => "extra [A-Za-z0-9+/]{0,8}={0,2}",
        2 => "index (0|[1-9][0-9]{0,20})",
        2 => Just("log".to_owned()),
        2 => "0|[1-9][0-9]{0,20}",
        3 => "[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=",
        3 => "— (log|witness|[^ ]{1,9}) [A-Za-z0-9+/]{4,12}",
        1 => "tile/(entries|[0-9]{1,2})/(x[0-9]{3}/){0,3}[0-9]{3}(\\.p/[0-9]{1,3})?",
        1 => ".{0,20}",
    ]
}
