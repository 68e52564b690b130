//! A value as JSON, with foreign text made harmless to a terminal.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter};

use super::json::{misleads, write_escaped};

/// Writes a value as a line of JSON, with foreign text made harmless to a terminal.
pub fn line(document: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write(document, &mut out);
    out
}

/// Returns a value as JSON.
pub fn text(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    append(value, &mut out);
    // The serializer writes only UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a value as JSON, and ends the line.
pub fn write(value: &impl Serialize, out: &mut Vec<u8>) {
    append(value, out);
    out.push(b'\n');
}

fn append(value: &impl Serialize, out: &mut Vec<u8>) {
    let mut serializer = Serializer::with_formatter(&mut *out, Guarded(CompactFormatter));
    // Our own types in a Vec: nothing here can fail.
    let _ = value.serialize(&mut serializer);
}

/// A JSON formatter that escapes misleading characters, so that foreign text cannot control a terminal.
struct Guarded(CompactFormatter);

impl Formatter for Guarded {
    fn write_string_fragment<W>(&mut self, out: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| misleads(*c)) {
            let (before, after) = rest.split_at(at);
            self.0.write_string_fragment(out, before)?;
            write_escaped(out, c)?;
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        self.0.write_string_fragment(out, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misleading_characters_are_escaped_and_read_the_same() {
        for text in [
            "plain",
            "/ツ\"\\\n",
            "\u{1b}[31m",
            "\u{9b}\u{202e}\u{7f}x\u{2028}",
            "a\u{200b}b\u{feff}\u{e0041}\u{1f577}",
        ] {
            let written = String::from_utf8(line(&text)).expect("UTF-8");
            assert!(!written.trim_end().chars().any(misleads), "{written:?}");
            let read: String = serde_json::from_str(&written).expect("JSON");
            assert_eq!(read, text);
        }
    }
}
