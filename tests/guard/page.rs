//! The table, as a page of the documentation.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::spellings::{CHANGES, DIARY, NESTED, PAGE, SHAPES, Spelling};
use crate::{Found, Says, servers};

const HEAD: &str = "\
# Spellings of a path, and which of them the path guard judges

A robots.txt rule is compared with the path as the crawler writes it. A server serves a *resource*, and many spellings
of a path lead to the same resource. The path guard (`[robots] path_guard`, on by default) judges every reading of the
path that servers use. If a rule disallows one of these readings, crawlgate denies the request with the reason
`path_guard`. The record and `crawlgate check` name the reading.

The path guard derives the readings by these steps, in any order and combination:

- decode escapes once or twice, except `?`, `#` and `%`; in the rules as well;
- take `\\` and `%5C` for slashes;
- remove `;…` from each segment;
- remove `//host` from the front;
- resolve dot segments and merge doubled slashes;
- remove a final slash;
- remove an empty query.

In the query, it decodes reserved characters once, except those that separate parts (`&`, `=`, `+`, `;`). It changes nothing
else in the query.

The path guard removes a final slash of the path as written only after a name with a suffix (`/page.php/`). Rules that end
in `$` distinguish `/folder` from `/folder/`, and so does crawlgate, although some servers below serve a file for both.

The path guard does not judge: a decoded `?` or `#` (`/a%3Fb` names a file of that name with every server below), the order
of query parameters, the case of letters, trailing dots and other habits of Windows file systems, overlong UTF-8.

A path has at most 64 readings of 128 KiB together. crawlgate denies a path with more readings if the robots.txt disallows
anything. A path without escapes, `;`, doubled slashes and dot segments has no further readings.

The path guard does not decode rules such as `/*%2F`, of which only punctuation between two stars would remain: such a
rule is about a spelling.

`tests/guard` writes this page. It starts these servers, sends them every spelling, and fails if a server serves
a disallowed resource that the path guard would have let pass. To write the page anew:

<!-- not run: takes all these servers -->
```sh
CRAWLGATE_WRITE_PAGE=1 cargo test --test guard
```

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
    page.push_str("| server | set up with | leaks without rules | past the rules alone | past the path guard |\n|---|---|--:|--:|--:|\n");
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

    page.push_str("\n## Spellings\n\nEach row has a spelling with one change, and the servers that serve the resource for it. crawlgate denies all of them.\n");
    for (resource, shape) in [
        (DIARY, "Disallow: /private/"),
        (PAGE, "Disallow: /page.php$"),
        (NESTED, "Disallow: /a%2Fb"),
    ] {
        let _ = writeln!(
            page,
            "\n### `{resource}` against `{shape}`\n\n| change | spelling | decision | served by |\n|---|---|---|---|"
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
