//! Any octets as statements of a robots.txt: bounds hold, and a line says what a field says.
#![no_main]

#[path = "../../tests/rep/usage_checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::statements(data));
