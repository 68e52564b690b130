//! A chain of tokens, a path and a file: everything is read as the naive implementation reads it.
#![no_main]

#[path = "../../tests/rep/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;
#[path = "../../tests/rep/naive.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod naive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::differential(data));
