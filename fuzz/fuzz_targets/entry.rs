//! Any octets as an entry or an object: those that are read have one form.
#![no_main]

#[path = "../../tests/entry/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::entry(data));
