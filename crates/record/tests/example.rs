//! The program of `examples/line.rs`, called as its `main` does.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "its main reads the arguments of the process")]
#[path = "../examples/line.rs"]
mod line;

/// An entry that tells of dropped records, without its last two octets. `golden.txt` holds it whole.
const ENTRY: [u8; 26] = *b"\xa3\x00\x08\x01\x50\x01\xa1\xf8\xd3\xea\x7b\x00\x00\x00\xe6\x00\xc0\xff\xee\x00\x07\x18\x32\x1a\x00\x01";

#[test]
fn the_line_of_an_entry_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("entry");
    let name = file.to_str().unwrap().to_owned();
    std::fs::write(&file, [&ENTRY[..], b"\0\0"].concat()).unwrap();
    let line = String::from_utf8(line::line(std::slice::from_ref(&name)).unwrap()).unwrap();
    assert_eq!(
        line,
        "{\"time\":\"2026-11-20T12:00:00.123Z\",\"event\":\"dropped\",\"before\":65536,\"cause\":\"keep\"}\n"
    );
    std::fs::write(&file, ENTRY).unwrap();
    assert!(line::line(&[name]).unwrap_err().contains("entry: "));
    assert!(line::line(&[]).unwrap_err().starts_with("usage"));
}
