//! Notes for the author of a robots.txt: those of the protocol, and on lines about use without the effect that they
//! seem to have. Notes never change a verdict.

use super::category::{Categories, Category};
use super::license;
use super::said::Value;
use super::statement::{self, Parse, Statement};
use crawlgate_robots::{ComparisonPath, Field, Lint, LintKind, OtherLine, PathPattern, Robots};

/// Lines of a group that are compared with each other. Comparing takes the square of their number.
const COMPARED: usize = 500;

/// Returns all notes on a file, in order of their lines.
pub fn notes(robots: &Robots) -> Vec<Lint> {
    let mut notes = robots.notes();
    if !robots.has_usage() {
        return notes;
    }
    for other in robots.others_above_groups() {
        match other.field {
            Field::ContentUsage => notes.push(note(&other, LintKind::UsageNoGroup)),
            Field::ContentSignal => notes.push(note(&other, LintKind::SignalAboveGroups)),
            _ => {}
        }
        line(&other, &mut notes);
    }
    let groups = robots.groups().count();
    for (at, group) in robots.groups().enumerate() {
        let mut stated = Vec::new();
        for other in group.others() {
            stated.extend(line(&other, &mut notes));
            // Authors mean the whole file by a line at its end.
            let is_in_last = at > 0 && at + 1 == groups;
            if other.field == Field::License && is_in_last {
                notes.push(note(&other, LintKind::LicenseInGroup));
            }
        }
        stated.truncate(COMPARED);
        not_carried(&stated, &mut notes);
    }
    notes.sort_by_key(|note| note.line);
    notes
}

/// A Content-Usage that parses.
struct Stated<'a> {
    other: OtherLine<'a>,
    path: &'a [u8],
    pattern: Option<PathPattern>,
    named: Categories,
}

/// Adds the notes on one line, and returns its statement, if it is a Content-Usage.
fn line<'a>(other: &OtherLine<'a>, notes: &mut Vec<Lint>) -> Option<Stated<'a>> {
    let (parse, value): (Parse, _) = match other.field {
        Field::ContentUsage => (Statement::usage, LintKind::UsageValue),
        Field::ContentSignal => (Statement::signal, LintKind::SignalValue),
        Field::License => {
            if license::url(other.value).is_err() {
                notes.push(note(other, LintKind::LicenseUrl));
            }
            return None;
        }
        _ => return None,
    };
    // The protocol's note on a line that is cut says enough.
    if other.is_cut {
        return None;
    }
    let (path, text) = statement::split(other.value);
    let Ok(statement) = parse(text) else {
        notes.push(note(other, LintKind::UsageInvalid));
        return None;
    };
    let is_unknown = |(_, value): (Category, Value)| value == Value::Unknown;
    if statement.values().any(is_unknown) {
        notes.push(note(other, value));
    }
    if other.field != Field::ContentUsage {
        return None;
    }
    if !statement.ignored.is_empty() {
        notes.push(note(other, LintKind::UsageUnknownKey));
    }
    let named = statement.values().map(|(category, _)| category);
    Some(Stated {
        other: *other,
        path: path.unwrap_or_default(),
        pattern: path.and_then(PathPattern::of_octets),
        named: named.map(Categories::one).fold(Categories::NONE, Categories::and),
    })
}

/// Notes lines that take over from a shorter path and say nothing of one of its categories.
fn not_carried(stated: &[Stated<'_>], notes: &mut Vec<Lint>) {
    for one in stated {
        let length = |it: &Stated<'_>| it.pattern.as_ref().map_or(0, PathPattern::length);
        // Lines with the same path count together.
        let same = stated.iter().filter(|other| other.path == one.path);
        let named = same.fold(Categories::NONE, |all, same| all.and(same.named));
        let drops = |other: &&Stated<'_>| {
            length(other) < length(one)
                && other.named.iter().any(|category| !named.has(category))
                && covers(other, one)
        };
        if let Some(shorter) = stated.iter().find(drops) {
            let line = shorter.other.line;
            notes.push(note(&one.other, LintKind::UsageNotCarried { line }));
        }
    }
}

/// Tells whether a path, as a pattern, matches the text of another. It may cover others, too, which is not looked for.
fn covers(shorter: &Stated<'_>, longer: &Stated<'_>) -> bool {
    match &shorter.pattern {
        None => true,
        Some(pattern) => pattern.matches(&ComparisonPath::new(longer.path)),
    }
}

fn note(other: &OtherLine<'_>, kind: LintKind) -> Lint {
    Lint::new(other.line, kind, other.content)
}

#[cfg(test)]
mod tests {
    // A table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use super::*;
    use crawlgate_robots::ParseOptions;

    #[test]
    fn lines_on_use_without_the_effect_that_they_seem_to_have() {
        use LintKind::*;
        let end = "License: https://a.example/l\n";
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[(u32, LintKind)])] = &[
            ("as it should be", "License: https://a.example/l\nUser-agent: *\nAllow: /\nDisallow: /a\nContent-Usage: train-ai=n, search=y\nContent-Signal: ai-train=no, use=reference\n", &[(3, Unneeded)]),
            ("no dictionary", "User-agent: *\nDisallow: /a\nContent-Usage: train-ai = n\nContent-Signal: no\n", &[(3, UsageInvalid), (4, UsageInvalid)]),
            ("an unknown key", "User-agent: *\nDisallow: /a\nContent-Usage: bots=n\n", &[(3, UsageUnknownKey)]),
            ("another value", "User-agent: *\nDisallow: /a\nContent-Usage: train-ai=no\nContent-Signal: ai-train=0\n", &[(3, UsageValue), (4, SignalValue)]),
            ("above all groups", "Content-Usage: train-ai=n\nContent-Signal: ai-train=no\nUser-agent: *\nDisallow: /a\n", &[(1, UsageNoGroup), (2, SignalAboveGroups)]),
            ("not carried over", "User-agent: *\nDisallow: /a\nContent-Usage: search=n\nContent-Usage: /b train-ai=n\nContent-Usage: /b/c search=n, train-ai=y\n", &[(4, UsageNotCarried { line: 3 })]),
            ("carried by a line of the same path", "User-agent: *\nDisallow: /a\nContent-Usage: search=n\nContent-Usage: /b train-ai=n\nContent-Usage: /b search=y\n", &[]),
            ("another path", "User-agent: *\nDisallow: /a\nContent-Usage: /c search=n\nContent-Usage: /b/d train-ai=n\n", &[]),
            ("at the end of the file", &format!("User-agent: a\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n\n{end}"), &[(7, LicenseInGroup)]),
            ("one group is all", &format!("User-agent: *\nDisallow: /b\n\n{end}"), &[]),
            ("no licence", "License: /l.xml\nUser-agent: *\nDisallow: /b\n", &[(1, LicenseUrl)]),
        ];
        for (name, text, expected) in cases {
            let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
            let notes = notes(&robots);
            let shown: Vec<_> = notes.iter().map(|note| (note.line, note.kind)).collect();
            assert_eq!(shown, *expected, "{name}");
        }
    }
}
