//! Rules and paths: the compiled matcher decides as the naive one does, in whatever order the rules stand.
#![no_main]

#[path = "../../tests/rep/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;
#[path = "../../tests/rep/naive.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod naive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::matching(data));
