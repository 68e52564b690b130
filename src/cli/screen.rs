//! What a terminal is shown: no wider than it is, and nothing that drives it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use crate::audit::json::misleads;

/// The width of the terminal that standard output is; `None` where it is none, or does not say.
pub(super) fn width() -> Option<usize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// `text` in one line, with what drives a terminal, ends a line or turns text around spelt out.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(misleads) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if misleads(c) {
            let _ = write!(shown, "{}", c.escape_default()); // writing to a String cannot fail
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// `text` in at most `most` characters, the last one `…` where some are left out.
pub(super) fn fitted(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most || text.chars().count() <= most {
        return Cow::Borrowed(text);
    }
    let mut kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept.push('…');
    Cow::Owned(kept)
}

/// Writes to standard output. Whoever reads it may go away: that is no failure, and `false` says so.
///
/// # Errors
/// When it cannot be written for another reason, such as a full disk.
pub(super) fn say(text: &[u8]) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_drives_no_terminal_and_fits() {
        let cases = [
            ("plain text", "/a?b", 10, "/a?b"),
            ("any script", "/ツツ", 3, "/ツツ"),
            ("cut", "/abcdef", 4, "/ab…"),
            ("cut between characters", "/ツツツ", 3, "/ツ…"),
            ("a control", "a\x1b[2J", 20, "a\\u{1b}[2J"),
            ("line ends", "a\r\nb\u{85}", 20, "a\\r\\nb\\u{85}"),
            ("turned around", "\u{202e}a", 20, "\\u{202e}a"),
        ];
        for (name, text, most, want) in cases {
            assert_eq!(fitted(&printable(text), most), want, "{name}");
        }
    }
}
