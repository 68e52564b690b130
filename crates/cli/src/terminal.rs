//! Terminal output: fitted to the width, without foreign control characters, in colour where supported.

use crate::Failure;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};

pub(super) use crawlgate_text::guarded::line as json_line;
pub(super) use crawlgate_text::json::printable;

/// Returns the width of the terminal on standard output; `None` without a terminal or a known width.
pub(super) fn width() -> Option<usize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns `text` in at most `max` characters, the last one `…` if some are left out.
pub(super) fn fitted(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max || text.chars().count() <= max {
        return Cow::Borrowed(text);
    }
    let mut kept: String = text.chars().take(max.saturating_sub(1)).collect();
    kept.push('…');
    Cow::Owned(kept)
}

/// Writes values with `between` them; `none` without any.
pub(super) fn joined<T: ToString>(
    values: impl IntoIterator<Item = T>,
    between: &str,
    none: &str,
) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    if values.is_empty() {
        return none.to_owned();
    }
    values.join(between)
}

/// Lays out a heading and rows, shown whole, in lines fitted to `width`. A list that is written page by page has fixed
/// widths instead, since no page knows the cells of the next.
pub(super) fn table<const CELLS: usize>(
    heading: [&str; CELLS],
    rows: impl Iterator<Item = [String; CELLS]>,
    width: Option<usize>,
) -> String {
    let heading = [heading.map(str::to_owned)].into_iter();
    let rows: Vec<_> = heading.chain(rows).map(Vec::from).map(printed).collect();
    Columns::of(&rows, width).lines(&rows)
}

/// Makes the cells of a row harmless to a terminal.
pub(super) fn printed(row: Vec<String>) -> Vec<String> {
    let cells = row.into_iter().map(|cell| match printable(&cell) {
        Cow::Borrowed(_) => cell,
        Cow::Owned(shown) => shown,
    });
    cells.collect()
}

/// Columns as wide as the widest cells of some rows, two spaces apart.
#[derive(Debug)]
pub(super) struct Columns {
    widths: Vec<usize>,
    /// The width of the terminal.
    width: Option<usize>,
}

impl Columns {
    /// Measures rows.
    pub(super) fn of(rows: &[Vec<String>], width: Option<usize>) -> Self {
        let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        Self { widths, width }
    }

    /// Returns a line for each row.
    pub(super) fn lines(&self, rows: &[Vec<String>]) -> String {
        let mut text = String::new();
        for row in rows {
            let cells = row.iter().zip(&self.widths);
            let line: String = cells.map(|(cell, width)| format!("{cell:width$}  ")).collect();
            text.push_str(&fitted(line.trim_end(), self.width.unwrap_or(usize::MAX)));
            text.push('\n');
        }
        text
    }
}

/// Writes to standard output. A reader that has gone is no failure: the result is `false`.
///
/// # Errors
/// When the write fails for another reason, such as a full disk.
pub(super) fn print(text: &(impl AsRef<[u8]> + ?Sized)) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output: {error}").into()),
    }
}

/// Writes a line to standard error, which may be closed.
pub(super) fn say(what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Reports in the name of the program.
pub(super) fn tell(what: impl fmt::Display) {
    say(format_args!("crawlgate: {what}"));
}

/// Reports words of others.
pub(super) fn eprint(what: &str) {
    tell(printable(what));
}

/// The unit of a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Records.
    Records,
    /// Octets.
    Octets,
}

/// Returns the progress bar of long work, which shows only on a terminal.
pub(super) fn bar(unit: Unit, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template(match unit {
        Unit::Records => "{wide_bar} {human_pos} of {human_len} records, {per_sec}, {eta} left",
        Unit::Octets => "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
    });
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// The role of a piece of text, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// An allowing verdict.
    Good,
    /// A denying one.
    Bad,
    /// A remark.
    Remark,
    /// The label of a line.
    Label,
    /// The deciding part.
    Strong,
}

/// The choice of colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Text only.
    Plain,
    /// With the terminal's own colours.
    Colour,
}

impl Paint {
    /// Chooses colour on a terminal that has it, unless the environment says no (<https://no-color.org>).
    pub(super) fn on(is_terminal: bool) -> Paint {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_terminal && !is_set("NO_COLOR") && !is_dumb { Paint::Colour } else { Paint::Plain }
    }

    /// Returns `text` in its tone.
    pub(super) fn tone(self, tone: Tone, text: impl fmt::Display) -> String {
        let style = match (self, tone) {
            (Paint::Plain, _) => Style::new(),
            (Paint::Colour, Tone::Good) => AnsiColor::Green.on_default().bold(),
            (Paint::Colour, Tone::Bad) => AnsiColor::Red.on_default().bold(),
            (Paint::Colour, Tone::Remark) => AnsiColor::Yellow.on_default(),
            (Paint::Colour, Tone::Label) => Style::new().dimmed(),
            (Paint::Colour, Tone::Strong) => Style::new().bold(),
        };
        format!("{style}{text}{style:#}")
    }
}

/// Returns a foreign text octet for octet; on a terminal, its control characters are spelt out.
pub(super) fn escaped_on_terminal(text: &[u8]) -> Vec<u8> {
    if !std::io::stdout().is_terminal() {
        return text.to_vec();
    }
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(|line| {
        let tabbed = line.split('\t').map(printable).collect::<Vec<_>>();
        tabbed.join("\t") + "\n"
    });
    lines.collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_is_escaped_and_fits() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("plain text", "/a?b", 10, "/a?b"),
            ("any script", "/ツツ", 3, "/ツツ"),
            ("cut", "/abcdef", 4, "/ab…"),
            ("cut between characters", "/ツツツ", 3, "/ツ…"),
            ("a control", "a\x1b[2J", 20, "a\\u{1b}[2J"),
            ("line ends", "a\r\nb\u{85}", 20, "a\\r\\nb\\u{85}"),
            ("turned around", "\u{202e}a\u{2066}\u{61c}", 40, "\\u{202e}a\\u{2066}\\u{61c}"),
            ("nothing to see", "a\u{200b}b\u{feff}\u{ad}\u{2060}", 40, "a\\u{200b}b\\u{feff}\\u{ad}\\u{2060}"),
            ("beyond the first plane", "a\u{e0041}\u{1f577}", 40, "a\\u{e0041}\u{1f577}"),
            ("a blank that is no space", "a\u{a0}b\u{3000}\u{2800} c", 40, "a\\u{a0}b\\u{3000}\\u{2800} c"),
        ];
        for (name, text, max, want) in cases {
            assert_eq!(fitted(&printable(text), max), want, "{name}");
        }
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells_and_fits() {
        let rows = [["1", "a\x1b", ""], ["22", "ツツ", "end"]];
        let shown = |width| {
            let rows = rows.map(|row| row.map(str::to_owned));
            table(["id", "name", "last"], rows.into_iter(), width)
        };
        let whole = "id  name     last\n1   a\\u{1b}\n22  ツツ       end\n";
        assert_eq!(shown(None), whole);
        assert_eq!(shown(Some(6)), "id  n…\n1   a…\n22  ツ…\n");
    }

    #[test]
    fn colours_are_put_around_text_and_taken_back() {
        let toned = |paint: Paint| paint.tone(Tone::Good, "allow");
        assert_eq!(toned(Paint::Plain), "allow");
        let coloured = toned(Paint::Colour);
        assert!(coloured.starts_with("\u{1b}[") && coloured.ends_with("\u{1b}[0m"));
    }
}
