//! The lines of a robots.txt about use, as people are shown them: all groups, before any crawler is selected.

use crawlgate_robots::{Field, Lint, LintKind, Robots};

use super::notes;

/// User-agent lines to name for each line; the others are counted. A file may have many of both.
const NAMED: usize = 20;

/// A line about use: a preference or a licence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsLine<'a> {
    /// The field.
    pub field: Field,
    /// The first user-agent lines of its group; empty above all groups.
    pub group: Vec<&'a [u8]>,
    /// The number of its other user-agent lines.
    pub more: usize,
    /// Its value, as written.
    pub value: &'a [u8],
    /// Its number, from 1.
    pub line: u32,
    /// The reason why it has another effect than it seems to have.
    pub remark: Option<LintKind>,
}

/// Returns the lines about use, those above all groups first; at most `most` of them.
#[must_use]
pub fn robots_lines(robots: &Robots, most: usize) -> Vec<RobotsLine<'_>> {
    if !robots.has_usage() {
        return Vec::new();
    }
    let notes = notes(robots);
    let above = robots.others_above_groups();
    let above = above.map(|other| (other, Vec::new(), 0));
    let grouped = robots.groups().flat_map(|group| {
        let names = group.user_agents().map(|(name, _)| name).take(NAMED);
        let names: Vec<&[u8]> = names.collect();
        let more = group.user_agents().count().saturating_sub(NAMED);
        let others = group.others();
        others.map(move |other| (other, names.clone(), more))
    });
    let lines = above.chain(grouped);
    lines
        .filter(|(other, ..)| other.field.is_of_usage())
        .take(most)
        .map(|(other, group, more)| RobotsLine {
            field: other.field,
            group,
            more,
            value: other.value,
            line: other.line,
            remark: remark(&notes, other.line),
        })
        .collect()
}

/// Returns the fields about use that a file has, each with the number of its lines.
#[must_use]
pub fn robots_fields(robots: &Robots) -> Vec<(Field, usize)> {
    let all = [Field::ContentUsage, Field::ContentSignal, Field::License];
    let mut counts = all.map(|field| (field, 0));
    if robots.has_usage() {
        for other in robots.others() {
            let mut counts = counts.iter_mut();
            if let Some((_, count)) = counts.find(|(field, _)| *field == other.field) {
                *count += 1;
            }
        }
    }
    let found = counts.into_iter().filter(|(_, count)| *count > 0);
    found.collect()
}

/// Returns the first note on a line. The notes are in order of their lines.
fn remark(notes: &[Lint], line: u32) -> Option<LintKind> {
    let first = notes.partition_point(|note| note.line < line);
    let note = notes.get(first).filter(|note| note.line == line)?;
    Some(note.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_robots::ParseOptions;

    #[test]
    fn each_line_has_its_group_and_its_remark() {
        let text = b"License: https://a.test/l.xml\nUser-agent: a\nUser-agent: b\nDisallow: /x\n\
            Content-Usage: train-ai=n\n\nUser-agent: *\nContent-Usage: train-ai\n";
        let robots = Robots::parse(text, ParseOptions::default());
        let lines = robots_lines(&robots, 3);
        let found: Vec<_> = lines
            .iter()
            .map(|one| (one.field, one.group.len(), one.line, one.remark.is_some()))
            .collect();
        let expected = [
            (Field::License, 0, 1, false),
            (Field::ContentUsage, 2, 5, false),
            (Field::ContentUsage, 1, 8, true),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines[1].value, b"train-ai=n");
        assert_eq!(robots_lines(&robots, 1).len(), 1);
        let counted = [(Field::ContentUsage, 2), (Field::License, 1)];
        assert_eq!(robots_fields(&robots), counted);
        let silent = Robots::parse(b"User-agent: *\nAllow: /\n", ParseOptions::default());
        assert_eq!(robots_lines(&silent, 3), []);
        assert_eq!(robots_fields(&silent), []);
    }

    #[test]
    fn of_many_names_the_first_are_told() {
        let names = "User-agent: a\n".repeat(NAMED + 3);
        let file = format!("{names}Content-Usage: train-ai=n\nLicense: https://a.test/l\n");
        let robots = Robots::parse(file.as_bytes(), ParseOptions::default());
        let lines = robots_lines(&robots, 9);
        let found: Vec<_> = lines.iter().map(|one| (one.group.len(), one.more)).collect();
        assert_eq!(found, [(NAMED, 3), (NAMED, 3)]);
    }
}
