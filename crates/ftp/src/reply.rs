//! Replies of an FTP server (RFC 959 4.2): lines in, replies out, within bounds.
//!
//! A reply is one line, `220 text`, or many: from `220-text` to the next line that begins with `220` and a space. A line
//! ends in LF, with or without CR. The bounds hold for servers that never end a line or a reply.

use std::fmt;

use crawlgate_text::Moment;
use crawlgate_text::json::misleads;

/// Octets of one line.
const MAX_LINE: usize = 4096;

/// Octets of one reply. Welcome texts reach a few kilobytes.
const MAX_REPLY: usize = 64 * 1024;

/// Characters of a reply's text that are told.
const MAX_TOLD: usize = 160;

/// One whole reply. Written out, it is one line of its code and its text, cut at a bound; octets that are no text, and
/// characters that a terminal would not show, are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its three digits.
    pub code: u16,
    /// The text of its last line.
    pub text: Vec<u8>,
}

/// The reason that octets are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// A line or a reply is longer than the bounds.
    TooLong,
    /// A line begins with no code.
    Malformed,
}

/// The octets of a control connection, as replies.
#[derive(Debug, Default)]
pub struct Replies {
    /// Octets that are no whole line yet.
    buffer: Vec<u8>,
    /// The code of a reply of many lines that has begun.
    begun: Option<u16>,
    /// Octets of the lines of that reply.
    octets: usize,
}

impl Replies {
    /// Adds octets of the connection.
    pub fn push(&mut self, octets: &[u8]) {
        self.buffer.extend_from_slice(octets);
    }

    /// Tells whether octets have come that belong to no taken reply.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.begun.is_none()
    }

    /// Takes the next whole reply; `None` while it is not whole.
    ///
    /// # Errors
    /// When the octets are no reply; nothing after them can be read.
    pub fn take(&mut self) -> Result<Option<Reply>, ReplyError> {
        let mut from = 0;
        let found = loop {
            let rest = self.buffer.get(from..).unwrap_or_default();
            let Some(end) = memchr::memchr(b'\n', rest) else {
                if rest.len() > MAX_LINE {
                    return Err(ReplyError::TooLong);
                }
                break None;
            };
            let line = rest.get(..end).unwrap_or_default();
            self.octets += line.len() + 1;
            if line.len() > MAX_LINE || self.octets > MAX_REPLY {
                return Err(ReplyError::TooLong);
            }
            from += end + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let head = Line::read(line);
            match (self.begun, head) {
                (None, None) => return Err(ReplyError::Malformed),
                (None, Some(Line { code, is_open, .. })) if is_open => self.begun = Some(code),
                (Some(begun), Some(Line { code, is_open, .. })) if code != begun || is_open => {}
                (Some(_), None) => {}
                (_, Some(Line { code, text, .. })) => {
                    self.begun = None;
                    self.octets = 0;
                    let text = text.to_vec();
                    break Some(Reply { code, text });
                }
            }
        };
        self.buffer.drain(..from);
        Ok(found)
    }
}

/// A line that begins with a code.
struct Line<'a> {
    code: u16,
    /// True for `220-`: more lines follow.
    is_open: bool,
    text: &'a [u8],
}

impl Line<'_> {
    fn read(line: &[u8]) -> Option<Line<'_>> {
        let (digits, rest) = line.split_at_checked(3)?;
        let code = number(digits)?;
        if !(100..600).contains(&code) {
            return None;
        }
        let (is_open, text) = match rest {
            [] => (false, rest),
            [b' ', text @ ..] => (false, text),
            [b'-', text @ ..] => (true, text),
            _ => return None,
        };
        Some(Line { code: u16::try_from(code).ok()?, is_open, text })
    }
}

/// Reads decimal digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        let text = String::from_utf8_lossy(self.text.trim_ascii());
        if !text.is_empty() {
            f.write_str(" ")?;
        }
        for (count, character) in text.chars().enumerate() {
            match character {
                _ if count == MAX_TOLD => return f.write_str("…"),
                _ if misleads(character) => f.write_str("\u{fffd}")?,
                _ => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

impl Reply {
    /// Reads the port of a 229 (RFC 2428 section 3): `(|||6446|)`, between four equal marks.
    pub fn extended_port(&self) -> Option<u16> {
        let open = memchr::memchr(b'(', &self.text)?;
        let (mark, rest) = self.text.get(open + 1..)?.split_first()?;
        if !(33..=126).contains(mark) || mark.is_ascii_digit() {
            return None;
        }
        let rest = rest.strip_prefix(&[*mark, *mark])?;
        let end = memchr::memchr(*mark, rest)?;
        port(number(rest.get(..end)?)?)
    }

    /// Reads the port of a 227 (RFC 959 4.1.2): the last two of six numbers. The address before them is not read: the
    /// data connection goes to the host of the control connection.
    pub fn passive_port(&self) -> Option<u16> {
        let from = self.text.iter().position(u8::is_ascii_digit)?;
        let numbers = self.text.get(from..)?;
        let is_part = |octet: &u8| octet.is_ascii_digit() || *octet == b',';
        let end = numbers.iter().position(|octet| !is_part(octet));
        let numbers = numbers.get(..end.unwrap_or(numbers.len()))?;
        let numbers: Option<Vec<u64>> = numbers.split(|octet| *octet == b',').map(number).collect();
        match numbers?.as_slice() {
            [_, _, _, _, high @ 0..=255, low @ 0..=255] => port(high * 256 + low),
            _ => None,
        }
    }

    /// Reads the number of a 213 that answers SIZE (RFC 3659 section 4).
    pub fn size(&self) -> Option<u64> {
        number(self.text.trim_ascii())
    }

    /// Reads the time of a 213 that answers MDTM (RFC 3659 section 3): `YYYYMMDDHHMMSS`, with or without a fraction.
    pub fn modified(&self) -> Option<Moment> {
        let text = self.text.trim_ascii();
        let end = memchr::memchr(b'.', text).unwrap_or(text.len());
        time(text.get(..end)?)
    }
}

/// Reads a time-val of RFC 3659 without its fraction.
fn time(digits: &[u8]) -> Option<Moment> {
    if digits.len() != 14 {
        return None;
    }
    number(digits)?;
    let text = std::str::from_utf8(digits).ok()?;
    let part = |from: usize, to: usize| text.get(from..to);
    let date = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let time = format!("{}:{}:{}", part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let time: jiff::civil::DateTime = format!("{date}T{time}").parse().ok()?;
    let since = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let millis = u64::try_from(since.as_millisecond()).ok()?;
    Some(Moment::from_millis(millis))
}

/// Returns a port that a data connection may use. The ports below 1024 belong to services, and no server sends files
/// from them.
fn port(number: u64) -> Option<u16> {
    let port = u16::try_from(number).ok()?;
    (port >= 1024).then_some(port)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A name, octets, and the replies that they are.
    type Case<'a> = (&'a str, &'a str, Result<&'a [(u16, &'a str)], ReplyError>);

    fn all(octets: &[u8]) -> Result<Vec<(u16, String)>, ReplyError> {
        let mut replies = Replies::default();
        replies.push(octets);
        let mut all = Vec::new();
        while let Some(reply) = replies.take()? {
            all.push((reply.code, String::from_utf8_lossy(&reply.text).into_owned()));
        }
        Ok(all)
    }

    #[test]
    fn lines_become_replies() {
        #[rustfmt::skip] // one row, one case
        let cases: &[Case<'_>] = &[
            ("one line", "220 hello\r\n", Ok(&[(220, "hello")])),
            ("bare line feed", "220 hello\n", Ok(&[(220, "hello")])),
            ("without a text", "220 \r\n", Ok(&[(220, "")])),
            ("without a space", "220\r\n", Ok(&[(220, "")])),
            ("many lines", "220-a\r\nb\r\n220 c\r\n", Ok(&[(220, "c")])),
            ("a code at each line", "230-a\r\n230-b\r\n230 c\r\n", Ok(&[(230, "c")])),
            ("another code inside", "220-a\r\n530 no\r\n220 c\r\n", Ok(&[(220, "c")])),
            ("an indented code inside", "220-a\r\n 220 b\r\n220 c\r\n", Ok(&[(220, "c")])),
            ("two replies", "150 a\r\n226 b\r\n", Ok(&[(150, "a"), (226, "b")])),
            ("half a line", "220 hel", Ok(&[])),
            ("half a reply", "220-a\r\nb\r\n", Ok(&[])),
            ("an empty line inside", "220-a\r\n\r\n220 c\r\n", Ok(&[(220, "c")])),
            ("no code", "hello\r\n", Err(ReplyError::Malformed)),
            ("HTTP", "HTTP/1.1 200 OK\r\n", Err(ReplyError::Malformed)),
            ("an empty line", "\r\n", Err(ReplyError::Malformed)),
            ("a code of six", "631 x\r\n", Err(ReplyError::Malformed)),
            ("a code of four digits", "2200 x\r\n", Err(ReplyError::Malformed)),
            ("a signed code", "+22 x\r\n", Err(ReplyError::Malformed)),
        ];
        for (name, octets, expected) in cases {
            let found = all(octets.as_bytes());
            let expected = expected.map(|all| {
                let owned = |(code, text): &(u16, &str)| (*code, (*text).to_owned());
                all.iter().map(owned).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn what_never_ends_is_refused() {
        let endless_line = vec![b'2'; MAX_LINE + 1];
        assert_eq!(all(&endless_line), Err(ReplyError::TooLong));
        let endless_reply = format!("220-a\r\n{}", "x\r\n".repeat(MAX_REPLY));
        assert_eq!(all(endless_reply.as_bytes()), Err(ReplyError::TooLong));
        let text = "y".repeat(1000);
        let long = format!("220-a\r\n{}220 b\r\n", format!("{text}\r\n").repeat(50));
        assert_eq!(all(long.as_bytes()).map(|all| all.len()), Ok(1), "a long one is not endless");
    }

    #[test]
    fn a_reply_is_told_on_one_line_within_a_bound() {
        let told = |text: &[u8]| {
            let text = text.to_vec();
            Reply { code: 530, text }.to_string()
        };
        let long = "x".repeat(MAX_TOLD + 1);
        #[rustfmt::skip] // one row, one case
        let cases: [(&[u8], String); 6] = [
            (b"Use encryption.", "530 Use encryption.".to_owned()),
            (b" Use encryption. ", "530 Use encryption.".to_owned()),
            (b"", "530".to_owned()),
            (b"\x1b[2J\x00\xff\t", "530 \u{fffd}[2J\u{fffd}\u{fffd}".to_owned()),
            ("geschützt".as_bytes(), "530 geschützt".to_owned()),
            (long.as_bytes(), format!("530 {}…", "x".repeat(MAX_TOLD))),
        ];
        for (text, expected) in cases {
            assert_eq!(told(text), expected);
        }
    }

    #[test]
    fn ports_of_passive_mode_are_read() {
        let reply = |text: &str| Reply { code: 229, text: text.into() };
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("Entering Extended Passive Mode (|||6446|)", Some(6446)),
            ("ok (!!!6446!)", Some(6446)),
            ("(|||65535|).", Some(65535)),
            ("(|||65536|)", None),
            ("(|||22|)", None),
            ("(|||0|)", None),
            ("(||6446|)", None),
            ("(|1|10.0.0.1|6446|)", None),
            ("(|||6446", None),
            ("(1116446 1)", None),
            ("(|||+6446|)", None),
            ("|||6446|", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(reply(text).extended_port(), expected, "{text}");
        }
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("Entering Passive Mode (127,0,0,1,25,46).", Some(25 * 256 + 46)),
            ("Entering Passive Mode. 10,0,0,1,255,255", Some(65535)),
            ("=10,0,0,1,4,0", Some(1024)),
            ("(10,0,0,1,0,25)", None),
            ("(10,0,0,1,256,0)", None),
            ("(10,0,0,1,4)", None),
            ("(10,0,0,1,4,0,1)", None),
            ("(10,0,0,1,4,99999999999999999999)", None),
            ("no numbers", None),
        ];
        for (text, expected) in cases {
            assert_eq!(reply(text).passive_port(), expected, "{text}");
        }
    }

    #[test]
    fn sizes_and_times_are_read() {
        let reply = |text: &str| Reply { code: 213, text: text.into() };
        for (text, expected) in
            [("12", Some(12)), (" 0 ", Some(0)), ("-1", None), ("12 octets", None), ("", None)]
        {
            assert_eq!(reply(text).size(), expected, "{text}");
        }
        for (text, expected) in [
            ("20261120120000", Some(1_795_176_000_000)),
            ("20261120120000.123", Some(1_795_176_000_000)),
            ("19700101000000", Some(0)),
            ("19691231235959", None),
            ("20261320120000", None),
            ("20260230120000", None),
            ("191001120120000", None),
            ("2026112012000", None),
            ("é20261120120", None),
        ] {
            let found = reply(text).modified().map(Moment::as_millis);
            assert_eq!(found, expected, "{text}");
        }
    }

    proptest! {
        /// The places where the network cuts octets change no reply.
        #[test]
        fn cuts_change_nothing(octets in proptest::collection::vec(proptest::sample::select(b"2201-- \r\nab".to_vec()), 0..80), cut in 0usize..80) {
            let cut = cut.min(octets.len());
            let mut replies = Replies::default();
            let mut found = Ok(Vec::new());
            for part in [&octets[..cut], &octets[cut..]] {
                replies.push(part);
                loop {
                    match replies.take() {
                        Ok(Some(reply)) => if let Ok(found) = &mut found { found.push((reply.code, String::from_utf8_lossy(&reply.text).into_owned())) },
                        Ok(None) => break,
                        Err(error) => { found = Err(error); break; }
                    }
                }
                if found.is_err() { break; }
            }
            prop_assert_eq!(found, all(&octets));
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = all(&octets);
            let reply = Reply { code: 227, text: octets };
            let _ = (reply.extended_port(), reply.passive_port(), reply.size(), reply.modified());
        }
    }
}
