//! Any octets as a block, and as entries of one: nothing panics, and each entry is restored.
#![no_main]

#[path = "../../tests/entry/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::block(data));
