//! A robots.txt at the time of a decision, with the deciding line.

use std::fmt::Write as _;

use crate::terminal::{Paint, Tone, printable};
use crawlgate_robots::{Robots, decoded, lines};

/// Lines shown before and after an important one.
const AROUND: u32 = 2;

/// The lines to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The lines around important ones.
    Around,
    /// All.
    Whole,
}

impl Extent {
    /// Returns the extent that `--full` asks for.
    pub(super) const fn of(is_full: bool) -> Self {
        if is_full { Self::Whole } else { Self::Around }
    }
}

/// Returns the lines of a file with their numbers: the rule of line `deciding` is marked `>`, the user-agent lines of
/// its group `·`.
pub(super) fn excerpt(
    robots: &Robots,
    deciding: Option<u32>,
    extent: Extent,
    paint: Paint,
) -> String {
    let group =
        robots.groups().find(|group| group.rules().any(|(_, _, line)| Some(line) == deciding));
    let speakers: Vec<u32> = group
        .into_iter()
        .flat_map(|group| group.user_agents().map(|(_, line)| line).collect::<Vec<_>>())
        .collect();
    let is_near = |line: u32| {
        let near = |other: u32| line.abs_diff(other) <= AROUND;
        deciding.is_some_and(near) || speakers.contains(&line)
    };
    let mut text = String::new();
    let mut gap = false;
    let read = decoded(robots.text());
    for (line, octets) in (1_u32..).zip(lines(&read)) {
        if extent == Extent::Around && !is_near(line) {
            gap = true;
            continue;
        }
        if gap {
            text.push_str("        …\n");
            gap = false;
        }
        let shown = String::from_utf8_lossy(octets);
        let shown = printable(&shown);
        // Writing to a String cannot fail.
        let _ = if Some(line) == deciding {
            writeln!(text, "> {line:>5}  {}", paint.tone(Tone::Strong, shown))
        } else if speakers.contains(&line) {
            writeln!(text, "· {line:>5}  {shown}")
        } else {
            writeln!(text, "  {line:>5}  {shown}")
        };
    }
    if gap {
        text.push_str("        …\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_robots::ParseOptions;

    #[test]
    fn the_line_that_decided_is_shown_with_its_group() {
        let file = "# one\r\nUser-agent: a\r\n# three\r# four\n# five\nAllow: /x\nDisallow: /\x1b\n# eight\n# nine\n# ten\n";
        let robots = Robots::parse(file.as_bytes(), ParseOptions::default());
        let shown = excerpt(&robots, Some(7), Extent::Around, Paint::Plain);
        let want = "        …\n·     2  User-agent: a\n        …\n      5  # five\n      6  Allow: /x\n\
                    >     7  Disallow: /\\u{1b}\n      8  # eight\n      9  # nine\n        …\n";
        assert_eq!(shown, want);
        let whole = excerpt(&robots, None, Extent::Whole, Paint::Plain);
        assert_eq!(whole.lines().count(), 10);
        assert!(whole.lines().all(|line| line.starts_with("  ")), "{whole}");
    }

    #[test]
    fn lines_are_counted_as_the_parser_does() {
        for file in ["", "a", "a\n", "a\n\nb", "a\r\n\r\nb\r", "\n", "\r\r\n\n"] {
            let file = format!("{file}\nUser-agent: *\nDisallow: /x\n");
            let robots = Robots::parse(file.as_bytes(), ParseOptions::default());
            let (_, _, line) = robots.groups().next().unwrap().rules().next().unwrap();
            let found = lines(file.as_bytes()).nth(line as usize - 1);
            assert_eq!(found, Some(&b"Disallow: /x"[..]), "{file:?}");
        }
    }
}
