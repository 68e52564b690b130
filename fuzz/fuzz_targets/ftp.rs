//! Any octets as what an FTP server sends and as a path: nothing panics, bounds hold, and a page's link is read back as
//! the name that it stands for.
#![no_main]

#[path = "../../tests/rep/ftp_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::ftp(data));
