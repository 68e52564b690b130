//! The spelling of a record: JSON on one line, from untrusted octets.
//!
//! Written by hand rather than derived, because a general serialiser has no rule for text that is not UTF-8, for a
//! bound on every text, and for characters that end a line, drive a terminal or turn the direction of the text.

use std::{borrow::Cow, fmt::Write as _, io::Write as _, net::SocketAddr};

/// One JSON object under construction at the end of a buffer.
pub struct Object<'b> {
    out: &'b mut Vec<u8>,
    empty: bool,
}

/// The extent of a written text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The whole text is written.
    Whole,
    /// The end is left out.
    Cut,
}

/// The longest form of one octet: `\u0000`.
pub const WIDEST: usize = 6;

/// Room for the mark of a cut: `…[+18446744073709551615 bytes]`.
const MARK: usize = 32;

impl<'b> Object<'b> {
    /// Opens an object.
    pub fn open(out: &'b mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Closes the object.
    pub fn close(self) {
        self.out.push(b'}');
    }

    /// Writes foreign text, as [`text`].
    pub fn text(&mut self, name: &str, foreign: &[u8], most: usize) -> Written {
        text(self.name(name), foreign, most)
    }

    /// Writes foreign text of which `cut` octets were cut off before, as [`text`] writes the whole.
    pub fn cut_text(&mut self, name: &str, foreign: &[u8], cut: u64, most: usize) -> Written {
        cut_text(self.name(name), foreign, cut, most)
    }

    /// Writes foreign text, or null.
    pub fn text_or_null(&mut self, name: &str, foreign: Option<&[u8]>, most: usize) {
        match foreign {
            Some(foreign) => {
                self.text(name, foreign, most);
            }
            None => self.null(name),
        }
    }

    /// Writes a list of foreign texts, each with the number of octets cut off before; `more` texts are left out.
    pub fn cut_texts<'t>(
        &mut self,
        name: &str,
        texts: impl Iterator<Item = (&'t [u8], u64)>,
        more: u64,
        most: usize,
    ) {
        let out = self.name(name);
        out.push(b'[');
        let mut before: &[u8] = b"";
        for (text, cut) in texts {
            out.extend_from_slice(before);
            cut_text(out, text, cut, most);
            before = b",";
        }
        if more > 0 {
            out.extend_from_slice(before);
            let _ = write!(out, "\"…[+{more}]\"");
        }
        out.push(b']');
    }

    /// Writes a list of objects, as many as end before the list has `most` octets.
    pub fn objects<T>(
        &mut self,
        name: &str,
        items: impl Iterator<Item = T>,
        most: usize,
        mut write: impl FnMut(T, &mut Object<'_>),
    ) {
        let out = self.name(name);
        out.push(b'[');
        let start = out.len();
        for item in items {
            let end = out.len();
            if end > start {
                out.push(b',');
            }
            let mut object = Object::open(out);
            write(item, &mut object);
            object.close();
            if out.len() - start > most {
                out.truncate(end);
                break;
            }
        }
        out.push(b']');
    }

    /// Writes our own ASCII, which needs no escape: a time, an id, a digest.
    pub fn plain(&mut self, name: &str, ascii: &[u8]) {
        let out = self.name(name);
        out.push(b'"');
        out.extend_from_slice(ascii);
        out.push(b'"');
    }

    /// Writes a value that is JSON already.
    pub fn verbatim(&mut self, name: &str, json: &str) {
        self.name(name).extend_from_slice(json.as_bytes());
    }

    /// Writes an address and its port.
    pub fn address(&mut self, name: &str, address: SocketAddr) {
        let out = self.name(name);
        out.push(b'"');
        match address {
            // By hand, for speed: every record has an address.
            SocketAddr::V4(address) => {
                let [a, b, c, d] = address.ip().octets();
                for (octet, after) in [(a, b'.'), (b, b'.'), (c, b'.'), (d, b':')] {
                    decimal(out, u64::from(octet));
                    out.push(after);
                }
                decimal(out, u64::from(address.port()));
            }
            // Writing to a `Vec` does not fail.
            SocketAddr::V6(address) => drop(write!(out, "{address}")),
        }
        out.push(b'"');
    }

    /// Writes a number.
    pub fn number(&mut self, name: &str, number: u64) {
        decimal(self.name(name), number);
    }

    /// Writes a number, or `null` for none.
    pub fn number_or_null(&mut self, name: &str, number: Option<u64>) {
        match number {
            Some(number) => self.number(name, number),
            None => self.null(name),
        }
    }

    /// Writes microseconds as milliseconds with three decimals: a denial takes microseconds.
    pub fn micros(&mut self, name: &str, micros: u64) {
        let out = self.name(name);
        decimal(out, micros / 1_000);
        let digit = |number: u64| b'0' + (number % 10) as u8;
        out.extend_from_slice(&[b'.', digit(micros / 100), digit(micros / 10), digit(micros)]);
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, name: &str, boolean: bool) {
        let text: &[u8] = if boolean { b"true" } else { b"false" };
        self.name(name).extend_from_slice(text);
    }

    /// Writes `null`.
    pub fn null(&mut self, name: &str) {
        self.name(name).extend_from_slice(b"null");
    }

    /// Opens an object inside this one.
    pub fn object(&mut self, name: &str) -> Object<'_> {
        Object::open(self.name(name))
    }

    /// Writes a name. Names are our own constants: ASCII that needs no escape.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        let start: &[u8] = if self.empty { b"\"" } else { b",\"" };
        self.empty = false;
        self.out.reserve(start.len() + name.len() + 2);
        self.out.extend_from_slice(start);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }
}

/// Writes `foreign` as a JSON string of at most `most` octets between its quotes. A longer text is cut, and then ends
/// in `…[+N bytes]`. An octet that is not UTF-8 becomes the four characters `\xNN`.
pub fn text(out: &mut Vec<u8>, foreign: &[u8], most: usize) -> Written {
    cut_text(out, foreign, 0, most)
}

/// Writes a text as [`text`] would write it whole. The last `beyond` octets are missing here.
fn cut_text(out: &mut Vec<u8>, foreign: &[u8], beyond: u64, most: usize) -> Written {
    out.push(b'"');
    let (kept, cut) = foreign.split_at(fitting(foreign, beyond, most));
    let cut = beyond.saturating_add(cut.len() as u64);
    // Without an early end, so that the compiler checks many octets at a time.
    let is_plain = kept.iter().fold(true, |so_far, &octet| so_far & is_plain(octet));
    if is_plain {
        out.extend_from_slice(kept); // nearly always
    } else {
        for chunk in kept.utf8_chunks() {
            escape(out, chunk.valid());
            for octet in chunk.invalid() {
                let _ = write!(out, "\\\\x{octet:02X}");
            }
        }
    }
    if cut > 0 {
        let _ = write!(out, "…[+{cut} bytes]");
    }
    out.push(b'"');
    match cut {
        0 => Written::Whole,
        _ => Written::Cut,
    }
}

/// Tells whether [`Object::cut_text`] leaves a part of the text out.
#[must_use]
pub fn is_cut(foreign: &[u8], beyond: u64, most: usize) -> bool {
    beyond > 0 || fitting(foreign, beyond, most) < foreign.len()
}

/// Returns the text that a reader gets of what [`Object::cut_text`] writes.
#[must_use]
pub fn spelled(foreign: &[u8], beyond: u64, most: usize) -> Cow<'_, str> {
    let (kept, cut) = foreign.split_at(fitting(foreign, beyond, most));
    let cut = beyond.saturating_add(cut.len() as u64);
    if let (0, Ok(text)) = (cut, std::str::from_utf8(kept)) {
        return text.into();
    }
    let mut shown = String::with_capacity(kept.len() + MARK);
    // Writing to a String cannot fail.
    for chunk in kept.utf8_chunks() {
        shown.push_str(chunk.valid());
        for octet in chunk.invalid() {
            let _ = write!(shown, "\\x{octet:02X}");
        }
    }
    if cut > 0 {
        let _ = write!(shown, "…[+{cut} bytes]");
    }
    shown.into()
}

/// Returns the number of octets of `foreign` that fit into `most`, once escaped; never part of a character. If more
/// octets follow, the mark of the cut must fit, too.
fn fitting(foreign: &[u8], beyond: u64, most: usize) -> usize {
    if beyond == 0 && foreign.len().saturating_mul(WIDEST) <= most {
        return foreign.len();
    }
    let (mut used, mut taken, mut with_mark) = (0, 0, 0);
    let widths = foreign.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|c| (width(c), c.len_utf8()));
        valid.chain(chunk.invalid().iter().map(|_| (5, 1)))
    });
    for (escaped, octets) in widths {
        used += escaped;
        if used > most {
            return with_mark;
        }
        taken += octets;
        if used + MARK <= most {
            with_mark = taken;
        }
    }
    if beyond > 0 { with_mark } else { taken }
}

fn escape(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            _ if misleads(c) => {
                let _ = write_escaped(out, c); // writing to a Vec cannot fail
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn width(c: char) -> usize {
    match c {
        '"' | '\\' => 2,
        _ if misleads(c) => WIDEST * c.len_utf16(),
        _ => c.len_utf8(),
    }
}

/// Tells whether an octet stands for itself in any surrounding.
fn is_plain(octet: u8) -> bool {
    (b' '..=b'~').contains(&octet) & (octet != b'"') & (octet != b'\\')
}

/// Writes a character as JSON spells it: by its code units.
pub(crate) fn write_escaped(
    out: &mut (impl std::io::Write + ?Sized),
    c: char,
) -> std::io::Result<()> {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}")?;
    }
    Ok(())
}

/// Tells whether a character drives a terminal, is invisible, or disguises others: controls (C1 and DEL drive
/// terminals, too), white space except the space, line and paragraph separators, marks that turn text around, and all
/// that Unicode shows as nothing (`Default_Ignorable_Code_Point`, and further formatting characters).
pub fn misleads(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{70f}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            // A blank, a filler.
            | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.split_at(digits.len() - length).1);
}

/// Returns `text` in one line; characters that drive a terminal, end a line or turn text around are spelt out.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(misleads) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if misleads(c) {
            let _ = shown.write_fmt(format_args!("{}", c.escape_default())); // writing to a String cannot fail
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(foreign: &[u8], most: usize) -> String {
        let mut out = Vec::new();
        text(&mut out, foreign, most);
        let out = String::from_utf8(out).unwrap();
        assert!(!out.bytes().any(|octet| octet < b' '), "{out}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{out}: {error}"))
    }

    #[test]
    fn foreign_octets_become_valid_json() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], &str)] = &[
            ("plain text stays", b"/a?b=c", "/a?b=c"),
            ("nothing", b"", ""),
            ("quotes and backslashes", b"a\"b\\c", "a\"b\\c"),
            ("controls and a line end", b"a\r\n\0\x1b[2J\x7f", "a\r\n\0\x1b[2J\x7f"),
            ("UTF-8 stays", "/caf\u{e9}/\u{1f577}".as_bytes(), "/caf\u{e9}/\u{1f577}"),
            ("Latin-1 octets are shown", b"/caf\xe9/x", "/caf\\xE9/x"),
            ("a torn character is shown", b"\xe2\x82", "\\xE2\\x82"),
            ("text is not turned around", "a\u{202e}b".as_bytes(), "a\u{202e}b"),
        ];
        for (name, foreign, want) in cases {
            assert_eq!(spelled(foreign, 1_000), *want, "{name}");
        }
        let mut out = Vec::new();
        text(&mut out, "\u{202e}\u{85}".as_bytes(), 100);
        assert_eq!(out, br#""\u202e\u0085""#, "what misleads a terminal is escaped");
    }

    #[test]
    fn long_text_is_cut_between_characters_and_says_so() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Vec<u8>, usize, &str)] = &[
            ("what just fits is whole", vec![b'a'; 40], 40, &"a".repeat(40)),
            ("one too many", vec![b'a'; 41], 40, "aaaaaaaa…[+33 bytes]"),
            ("characters stay whole", "é".repeat(30).into_bytes(), 41, "éééé…[+52 bytes]"),
            ("escapes count as written", vec![0; 41], 44, "\0\0…[+39 bytes]"),
            ("broken octets, too", vec![0xff; 41], 44, "\\xFF\\xFF…[+39 bytes]"),
        ];
        for (name, foreign, most, want) in cases {
            assert_eq!(spelled(foreign, *most), *want, "{name}");
        }
    }

    #[test]
    fn no_text_outgrows_its_bound() {
        let hostile: Vec<u8> = (0..=255).cycle().take(4_096).collect();
        for most in [MARK, 64, 100, 1_024, 5_000, 100_000] {
            let mut out = Vec::new();
            text(&mut out, &hostile, most);
            assert!(out.len() <= most + 2, "{most}: {}", out.len());
        }
    }

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 1_000_000, u64::MAX] {
            let mut out = Vec::new();
            decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn durations_are_milliseconds_with_three_decimals() {
        for (micros, want) in
            [(0, r#"{"ms":0.000}"#), (42, r#"{"ms":0.042}"#), (1_234_567, r#"{"ms":1234.567}"#)]
        {
            let mut out = Vec::new();
            let mut object = Object::open(&mut out);
            object.micros("ms", micros);
            object.close();
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }
}
