//! A chain of tokens, a path and a file: the parser and matcher agree with the naive implementation.
#![no_main]

#[path = "../../tests/rep/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;
#[path = "../../tests/rep/naive.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod naive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::differential(data));
