//! The results as a page of the documentation.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::spellings::{CHANGES, DIARY, NESTED, PAGE, SHAPES, Spelling};
use super::{Found, Says, servers};

const HEAD: &str = "\
# Spellings of a path, and which of them the path guard judges

A robots.txt rule is compared with the path as the crawler writes it. A server serves a *resource*, and many spellings
of a path lead to the same resource. The path guard (`[robots] path_guard`, on by default) judges every reading of the
path that servers use. If a rule disallows one of these readings, crawlgate denies the request with the reason
`path_guard`. The record and `crawlgate check` name the reading.

The path guard derives the readings by these steps, in any order and combination:

- decode escapes once or twice, except `?`, `#` and `%`; in the rules as well;
- take `\\` and `%5C` for slashes; in the rules as well;
- decode `%uXXXX`; in the rules as well;
- remove octets that form no UTF-8, or read the path as ISO-8859-1 if it holds any (`/caf%E9` as `/caf%C3%A9`); read rules so as
  well;
- remove tabs and line ends, also from the query;
- remove `;…` from each segment;
- remove `//host` from the front;
- resolve dot segments and merge doubled slashes;
- remove dots at the end of a segment (`/private./`);
- remove a final slash;
- remove an empty query;
- end the path at an escaped NUL, and before escaped white space, controls and U+FEFF at the end of the path or of the query;
- begin the query at an escaped `?`;
- end the path at an escaped `#`, and at an escaped line feed with a version before it.

The last two steps are those of two servers: a proxy that sends on what it has decoded (nginx with
`proxy_pass http://backend$uri`) writes a request line that the server behind it splits anew. The path guard judges what
follows an escaped `?` as the query that the second server reads.

In the query, it decodes reserved characters once, except those that separate parts (`&`, `=`, `+`, `;`). An escaped slash in
the query meets only a slash that stands behind a `?`, `&` or `=` of a rule: a URL inside a parameter is no path of this site.
`Disallow: */login` says nothing of `/auth?next=%2Flogin`, and `Disallow: /*?*to=/secret` does of `/a?to=%2Fsecret`. A slash
that the crawler wrote as it is meets any slash of a rule, as RFC 9309 says. Other reserved characters count as decoded for
every rule: `Disallow: /*Special:` denies `/wiki?title=Special%3ALog`.

If a rule allows a path with its empty query (`Allow: /w/load.php?`), that rule counts for `/w/load.php?` also where the path
guard removes the query.

The path guard removes a final slash of the path as written only after a name with a suffix (`/page.php/`,
`/page.php/?x=1`). Rules that end in `$` distinguish `/folder` from `/folder/`, and so does crawlgate, although some servers
below serve a file for both. It compares a reading without a final slash only with those `Disallow` rules that end in `$` or
hold a `?` (`/page.php?x=`). Any other rule that disallows this reading disallows it with the slash as well, unless a more
specific `Allow` ends in this slash. The crawler did not
write a slash that a final dot segment leaves (`/a/b/..`, read as `/a/` and as `/a`), and file servers drop it: all rules judge
the reading without it.

A rule that tests for punctuation (`/*+*`, `/*,`, `/*?`: nothing else between two stars or after the last one) is about how
a URL is written. Such a `Disallow` takes no part in a reading that has decoded this very character: `/C%2B%2B` holds no
`+`. The path guard compares the rule with readings that keep this character's escapes and decode everything else. A slash
of the path always counts, an escaped one of the query does not (`/*?*/`). Overrides know no such exception for the path.

The path guard does not judge: the order of query parameters, the case of letters, habits of Windows file systems other than
dots at the end, overlong UTF-8, what is escaped three times. Nor does it judge what follows a file as path info
(`/page.php/x` against `Disallow: /*.php$`): front controllers serve other pages there.

A path has at most 64 readings of 128 KiB together. crawlgate denies a path with more readings if the robots.txt disallows
anything. A path without escapes, `;`, doubled slashes and segments that begin or end with a dot has no further readings.

The path guard does not decode rules such as `/*%2F`, of which only punctuation between two stars would remain: such a
rule is about a spelling.

`tests/clients/guard` writes this page. It starts these servers, sends them every spelling, and fails if a server serves
a disallowed resource that the path guard would have let pass. To write the page anew:

<!-- not run: takes all these servers -->
```sh
CRAWLGATE_WRITE_PAGE=1 cargo test --test clients guard::
```

## False denials

A false denial is a URL that a site links to and its rules allow, and that the path guard denies. Of 497,985 URLs from 1,906
distinct robots.txt files the path guard denied 13, fewer than 1 in 30,000: six with a parameter that holds a rule's own query,
four with a parameter of a segment, two with a doubled slash, one with a slash behind a file. The URLs are the paths of the
files' rules and sitemaps, pages below each, and pages with each path of a rule in a parameter (`/auth?next=%2Flogin`). Of
107,609 links on the start pages of those sites it denied 3, with a doubled slash before a disallowed path. To count the former in
a folder of robots.txt files:

<!-- not run: takes a folder of robots.txt files -->
```sh
CRAWLGATE_ROBOTS_FILES=FOLDER cargo test --test clients guard::real -- --nocapture
```

";

pub(crate) fn write(
    spellings: &[Spelling],
    found: &[Found],
    judged: &HashMap<&str, Vec<Says>>,
) -> String {
    let mut page = HEAD.to_owned();
    let said = |spelling: &Spelling, shape: &str| {
        let at = spellings.iter().position(|one| one.target == spelling.target).unwrap();
        judged[shape][at]
    };
    let singles = spellings.iter().filter(|spelling| spelling.change.is_some()).count();
    let _ = writeln!(
        page,
        "## Servers\n\n{} spellings of {} resources ({singles} with one change, the rest with none or two) against {} sets of rules. A \
         *leak* is a spelling for which the server serves what a set of rules disallows.\n",
        spellings.len(),
        super::spellings::RESOURCES.len(),
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
    let versions: Vec<String> =
        versions.map(|(name, version)| format!("{name} {version}")).collect();
    let _ = writeln!(page, "\nVersions: {}.\n", versions.join(", "));

    page.push_str("## Sets of rules\n\n");
    for (shape, resources) in SHAPES {
        let shape = shape.replace('\n', "`, `");
        let resources: Vec<String> =
            resources.iter().map(|resource| format!("`{resource}`")).collect();
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
        let mine =
            spellings.iter().enumerate().filter(|(_, spelling)| spelling.resource == resource);
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
            let _ =
                writeln!(page, "| {} | `{}` | {says} | {by} |", cell(name), cell(&spelling.target));
        }
    }
    page
}

/// Returns the text of a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
