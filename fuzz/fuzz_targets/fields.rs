//! Any octets as field lines of a response: bounds hold, and other fields say nothing.
#![no_main]

#[path = "../../tests/rep/usage_checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::fields(data));
