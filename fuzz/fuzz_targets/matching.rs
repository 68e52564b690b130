//! Rules and paths: the compiled matcher decides like the naive one, for rules in any order.
#![no_main]

#[path = "../../tests/rep/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;
#[path = "../../tests/rep/naive.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod naive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::matching(data));
