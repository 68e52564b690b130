//! The table, as a page of the documentation.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::spellings::{CHANGES, DIARY, NESTED, PAGE, SHAPES, Spelling};
use crate::{Found, Says, servers};

const HEAD: &str = "\
# What servers make of a path, and what the path guard asks

A robots.txt rule is compared with the path as the crawler writes it. A server serves a *resource*, and many spellings
of a path lead to the same one. The path guard (`[robots] path_guard`, on by default) asks the rules about every reading
of the path that servers make; where one of them is disallowed, the request is denied with the reason `path_guard`. The
record and `crawlgate check` name the reading.

The readings are all that a row of these steps makes of a path, in any order: escapes decoded once or twice (but for
`?`, `#` and `%`; in the rules as well), `\\` and `%5C` taken for slashes, `;…` cut off each segment, `//host` cut off
the front, dot segments resolved and doubled slashes merged, a final slash dropped, an empty query dropped. In the query, reserved characters are decoded once, but for those
that part it (`&`, `=`, `+`, `;`); nothing else of it is read otherwise.

A final slash that stands in the path as it is written is dropped only behind a name with a suffix (`/page.php/`): rules
that end in `$` tell `/folder` from `/folder/`, and so does the gate, although some servers below serve a file for both.

Not asked: a decoded `?` or `#` (`/a%3Fb` names a file of that name with every server below), the order of query
parameters, letters' case, trailing dots and other habits of Windows file systems, overlong UTF-8.

A path has at most 64 readings of 128 KiB together. One with more is denied wherever anything is disallowed. A path
without escapes, `;`, doubled slashes and dot segments has none, which one look at its octets tells.

Rules such as `/*%2F`, of which decoding would leave punctuation between two stars, speak of a spelling and are not
decoded.

This page is written by `tests/guard`, which starts these servers, sends them every spelling and fails where one serves
a disallowed resource that the gate would have let pass:
`CRAWLGATE_WRITE_PAGE=1 cargo test --test guard`.

";

pub(crate) fn write(
    spellings: &[Spelling],
    found: &[Found],
    judged: &HashMap<&str, Vec<Says>>,
) -> String {
    let mut page = HEAD.to_owned();
    let said = |spelling: &Spelling, shape: &str| {
        let at = spellings
            .iter()
            .position(|one| one.target == spelling.target)
            .unwrap();
        judged[shape][at]
    };
    let singles = spellings
        .iter()
        .filter(|spelling| spelling.change.is_some())
        .count();
    let _ = writeln!(
        page,
        "## Servers\n\n{} spellings of {} resources ({singles} with one change, the rest with none or two) against {} sets of rules. A \
         *leak* is a spelling for which the server serves what a set of rules disallows.\n",
        spellings.len(),
        crate::spellings::RESOURCES.len(),
        SHAPES.len(),
    );
    page.push_str("| server | set up with | leaks without rules | past the rules alone | past the gate |\n|---|---|--:|--:|--:|\n");
    for one in found {
        let (mut all, mut past_rules, mut past_gate) = (0, 0, 0);
        for (spelling, shape) in one.disallowed(spellings) {
            let said = said(spelling, shape);
            all += 1;
            past_rules += usize::from(said != Says::Disallow);
            past_gate += usize::from(said == Says::Allow);
        }
        let _ = writeln!(
            page,
            "| {} | {} | {all} | {past_rules} | {past_gate} |",
            one.kind.name, one.kind.set_up
        );
    }
    let versions = servers::versions().into_iter();
    let versions: Vec<String> = versions
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let _ = writeln!(page, "\nVersions: {}.\n", versions.join(", "));

    page.push_str("## Sets of rules\n\n");
    for (shape, resources) in SHAPES {
        let shape = shape.replace('\n', "`, `");
        let resources: Vec<String> = resources
            .iter()
            .map(|resource| format!("`{resource}`"))
            .collect();
        let _ = writeln!(page, "- `{shape}`: {}", resources.join(", "));
    }

    page.push_str("\n## Spellings\n\nWhich servers serve the resource for a spelling with one change. All are denied.\n");
    for (resource, shape) in [
        (DIARY, "Disallow: /private/"),
        (PAGE, "Disallow: /page.php$"),
        (NESTED, "Disallow: /a%2Fb"),
    ] {
        let _ = writeln!(
            page,
            "\n### `{resource}` against `{shape}`\n\n| change | spelling | the gate says | served by |\n|---|---|---|---|"
        );
        let mine = spellings
            .iter()
            .enumerate()
            .filter(|(_, spelling)| spelling.resource == resource);
        for (at, spelling) in mine {
            let name = match spelling.change {
                Some(change) => CHANGES[change].name,
                None if spelling.target == resource => "none",
                None => continue,
            };
            let by: Vec<&str> = found
                .iter()
                .filter(|one| one.served[at].as_deref() == Some(resource))
                .map(|one| one.kind.name)
                .collect();
            let by = match by.len() {
                0 => "none".to_owned(),
                all if all == found.len() => "all".to_owned(),
                some => format!("{some}: {}", by.join(", ")),
            };
            let says = match said(spelling, shape) {
                Says::Allow => "allow",
                Says::Disallow => "`robots_disallow`",
                Says::Guard => "`path_guard`",
            };
            let _ = writeln!(
                page,
                "| {} | `{}` | {says} | {by} |",
                cell(name),
                cell(&spelling.target)
            );
        }
    }
    page
}

/// What stands in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
