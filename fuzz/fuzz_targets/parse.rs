//! Any octets as a file: nothing panics, and every answer about the file refers to its own lines.
#![no_main]

#[path = "../../tests/rep/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;
#[path = "../../tests/rep/naive.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod naive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::parse(data));
