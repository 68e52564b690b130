//! Spellings of a path: single changes, and changes on top of others.

use crawlgate_robots::ComparisonPath;

/// Tells whether a rule that ends in `$` does not apply to the target only because the target has a final slash. Some
/// servers serve the same file for both.
pub(crate) fn is_told_apart(shape: &str, target: &ComparisonPath<'_>) -> bool {
    shape.ends_with('$') && target.as_bytes() == [NESTED.as_bytes(), b"/"].concat()
}

/// The resources of the site: each one's plain URL, which is also its marker.
pub(crate) const RESOURCES: &[&str] = &[
    DIARY,
    PAGE,
    NESTED,
    "/private/open/page.html",
    "/docs/report.pdf",
    "/images/x.gif",
    "/c:d@e,f/g!h.html",
    "/x/y.html",
    CAFE,
];
pub(crate) const DIARY: &str = "/private/diary.html";
pub(crate) const PAGE: &str = "/page.php";
pub(crate) const NESTED: &str = "/a/b";
pub(crate) const CAFE: &str = "/caf%C3%A9/menu.html";

/// The URL of a program that reads its query and repeats it in its answer.
pub(crate) const WIKI: &str = "/wiki?title=Special:Log";

/// Rules, and the resources that they disallow.
#[rustfmt::skip] // one row, one case
pub(crate) const SHAPES: &[(&str, &[&str])] = &[
    ("Disallow: /private/", &[DIARY, "/private/open/page.html"]),
    ("Disallow: /private", &[DIARY, "/private/open/page.html"]),
    ("Disallow: /private%2F", &[DIARY, "/private/open/page.html"]),
    ("Disallow: /private/\nAllow: /private/open/", &[DIARY]),
    ("Disallow: /priv\nAllow: /*.css$", &[DIARY, "/private/open/page.html"]),
    ("Disallow: /private%5Cdiary", &[DIARY]),
    ("Disallow: /*/diary", &[DIARY]),
    ("Disallow: /page.php$", &[PAGE]),
    ("Disallow: /*.php$", &[PAGE]),
    ("Disallow: /*.pdf$", &["/docs/report.pdf"]),
    ("Disallow: /*.gif$\nAllow: /x/", &["/images/x.gif"]),
    ("Disallow: /a%2Fb", &[NESTED]),
    ("Disallow: /a\\b", &[NESTED]),
    ("Disallow: /a/b$", &[NESTED]),
    ("Disallow: /c:d@e,f/", &["/c:d@e,f/g!h.html"]),
    ("Disallow: /c%3Ad%40e%2Cf/g%21h", &["/c:d@e,f/g!h.html"]),
    ("Disallow: /\nAllow: /x/", &[DIARY, PAGE, NESTED, "/private/open/page.html", "/docs/report.pdf", "/images/x.gif", "/c:d@e,f/g!h.html", CAFE]),
    ("Disallow: /caf%C3%A9/", &[CAFE]),
    ("Disallow: /caf%E9/", &[CAFE]),
    ("Disallow: /wiki?title=Special:", &[WIKI]),
];

/// One change: its name, and a function that changes a path; `None` if there is nothing to change.
pub(crate) struct Change {
    pub(crate) name: &'static str,
    make: fn(&str) -> Option<String>,
}

impl Change {
    pub(crate) fn of(&self, path: &str) -> Option<String> {
        (self.make)(path).filter(|made| made != path)
    }
}

/// Replaces the slash before the last segment.
fn last_slash(path: &str, by: &str) -> Option<String> {
    let at = path.rfind('/').filter(|at| *at > 0)?;
    Some(format!("{}{by}{}", &path[..at], &path[at + 1..]))
}

/// Puts something behind the first segment.
fn behind_first(path: &str, what: &str) -> Option<String> {
    let at = path.get(1..)?.find('/')? + 1;
    Some(format!("{}{what}{}", &path[..at], &path[at..]))
}

/// Replaces the first octet behind the leading slash that `is_it` accepts, by the result of `escape`.
fn octet(path: &str, is_it: fn(char) -> bool, escape: fn(u8) -> String) -> Option<String> {
    let at = path.get(1..)?.find(is_it)? + 1;
    let octet = *path.as_bytes().get(at)?;
    Some(format!("{}{}{}", &path[..at], escape(octet), &path[at + 1..]))
}

fn all(path: &str, is_it: fn(char) -> bool) -> Option<String> {
    let spell = |one: char| match is_it(one) {
        true => format!("%{:02X}", one as u32),
        false => one.to_string(),
    };
    Some(path.chars().map(spell).collect())
}

macro_rules! changes {
    ($($name:literal => |$path:ident| $make:expr),+ $(,)?) => {
        &[$(Change { name: $name, make: |$path| $make }),+]
    };
}

/// Puts something behind the third octet of the first segment.
fn within_first(path: &str, what: &str) -> Option<String> {
    let (before, after) =
        path.split_at_checked(4).filter(|(before, _)| !before[1..].contains('/'))?;
    Some(format!("{before}{what}{after}"))
}

/// The first of the changes with octets that most servers refuse. Pairs of two of them would take long and tell nothing new.
const RARE: usize = 54;

/// Every single change.
pub(crate) const CHANGES: &[Change] = changes! {
    "slash as %2F" => |path| last_slash(path, "%2F"),
    "slash as %2f" => |path| last_slash(path, "%2f"),
    "all slashes but the first as %2F" => |path| Some(format!("/{}", path.strip_prefix('/')?.replace('/', "%2F"))),
    "slash as %252F" => |path| last_slash(path, "%252F"),
    "slash as \\" => |path| last_slash(path, "\\"),
    "slash as %5C" => |path| last_slash(path, "%5C"),
    "slash as %255C" => |path| last_slash(path, "%255C"),
    "a letter escaped" => |path| octet(path, |one| one.is_ascii_alphabetic(), |octet| format!("%{octet:02x}")),
    "a letter escaped twice" => |path| octet(path, |one| one.is_ascii_alphabetic(), |octet| format!("%25{octet:02x}")),
    "a dot escaped" => |path| octet(path, |one| one == '.', |octet| format!("%{octet:02X}")),
    "reserved characters escaped" => |path| all(path, |one| ":@!$&'()*+,;=".contains(one)),
    "reserved characters escaped in lower case" => |path| Some(all(path, |one| ":@!$&'()*+,;=".contains(one))?.to_lowercase()),
    "a slash doubled" => |path| last_slash(path, "//"),
    "the first slash doubled" => |path| Some(format!("/{path}")),
    "an encoded slash in front" => |path| Some(format!("/%2F{}", path.strip_prefix('/')?)),
    "/./ in front" => |path| Some(format!("/.{path}")),
    "/x/../ in front" => |path| Some(format!("/x/..{path}")),
    "/x/%2e%2e/ in front" => |path| Some(format!("/x/%2e%2e{path}")),
    "/x/..%2F in front" => |path| Some(format!("/x/..%2F{}", path.strip_prefix('/')?)),
    "/x%2F..%2F in front" => |path| Some(format!("/x%2F..%2F{}", path.strip_prefix('/')?)),
    "/x/%252e%252e/ in front" => |path| Some(format!("/x/%252e%252e{path}")),
    "/x/..\\ in front" => |path| Some(format!("/x/..\\{}", path.strip_prefix('/')?)),
    "/x%5C..%5C in front" => |path| Some(format!("/x%5C..%5C{}", path.strip_prefix('/')?)),
    "/x/..;/ in front" => |path| Some(format!("/x/..;{path}")),
    "/x/..;a=b/ in front" => |path| Some(format!("/x/..;a=b{path}")),
    "/;a/ in front" => |path| Some(format!("/;a{path}")),
    "/x//../ in front" => |path| Some(format!("/x//../..{path}")),
    "/x/../ in the middle" => |path| behind_first(path, "/x/.."),
    "/./ in the middle" => |path| behind_first(path, "/."),
    "a parameter in the middle" => |path| behind_first(path, ";a=b"),
    "an escaped ; in the middle" => |path| behind_first(path, "%3Ba"),
    "a parameter at the end" => |path| Some(format!("{path};a")),
    "an escaped ; at the end" => |path| Some(format!("{path}%3Ba")),
    "//host in front" => |path| Some(format!("//host{path}")),
    "///host in front" => |path| Some(format!("///host{path}")),
    "//user@host:80 in front" => |path| Some(format!("//user@host:80{path}")),
    "/\\host in front" => |path| Some(format!("/\\host{path}")),
    "/. at the end" => |path| Some(format!("{path}/.")),
    "/%2e at the end" => |path| Some(format!("{path}/%2e")),
    "/x/.. at the end" => |path| Some(format!("{path}/x/..")),
    "%2F. at the end" => |path| Some(format!("{path}%2F.")),
    "a slash at the end" => |path| Some(format!("{path}/")),
    "two slashes at the end" => |path| Some(format!("{path}//")),
    "/;a at the end" => |path| Some(format!("{path}/;a")),
    "an escaped # at the end" => |path| Some(format!("{path}%23")),
    "an escaped # and a suffix" => |path| Some(format!("{path}%23.css")),
    "an escaped ? at the end" => |path| Some(format!("{path}%3F")),
    "an escaped space at the end" => |path| Some(format!("{path}%20")),
    "an escaped tab at the end" => |path| Some(format!("{path}%09")),
    "escaped Latin-1 space at the end" => |path| Some(format!("{path}%A0")),
    "an escaped line feed and a suffix" => |path| Some(format!("{path}%0A.css")),
    "an escaped version and line feed" => |path| Some(format!("{path}%20HTTP/1.0%0D%0A.css")),
    "an empty query" => |path| Some(format!("{path}?")),
    "a fragment" => |path| Some(format!("{path}#")),
    "an octet that is no UTF-8" => |path| within_first(path, "%80"),
    "a tab" => |path| within_first(path, "%09"),
    "a carriage return" => |path| within_first(path, "%0D"),
    "a line feed" => |path| within_first(path, "%0A"),
    "é in ISO-8859-1" => |path| Some(path.replace("%C3%A9", "%E9")),
    "slash as %u002f" => |path| last_slash(path, "%u002f"),
    "a letter as %uXXXX" => |path| octet(path, |one| one.is_ascii_alphabetic(), |octet| format!("%u00{octet:02x}")),
    "a dot at the end of a segment" => |path| behind_first(path, "."),
    "three dots at the end of a segment" => |path| behind_first(path, "..."),
    "/.../ in the middle" => |path| behind_first(path, "/..."),
    "a dot at the end" => |path| Some(format!("{path}.")),
    "an escaped NUL at the end" => |path| Some(format!("{path}%00")),
    "an escaped NUL and a suffix" => |path| Some(format!("{path}%00.css")),
    "an escaped control at the end" => |path| Some(format!("{path}%01")),
    "an escaped U+FEFF at the end" => |path| Some(format!("{path}%EF%BB%BF")),
    "an escaped U+00A0 at the end" => |path| Some(format!("{path}%C2%A0")),
    "an escaped carriage return at the end" => |path| Some(format!("{path}%0D")),
};

/// A spelling of a resource, and the changes that made it.
pub(crate) struct Spelling {
    pub(crate) target: String,
    /// The index of the change, if a single change made the spelling.
    pub(crate) change: Option<usize>,
    pub(crate) resource: &'static str,
}

/// Returns each resource as it is and with every single change; the first three also with every pair of changes.
pub(crate) fn all_spellings() -> Vec<Spelling> {
    let mut found: Vec<Spelling> = Vec::new();
    let mut add = |target: String, change, resource| {
        if !found.iter().any(|known| known.target == target) {
            found.push(Spelling { target, change, resource });
        }
    };
    for (number, resource) in RESOURCES.iter().enumerate() {
        add((*resource).to_owned(), None, resource);
        for (at, change) in CHANGES.iter().enumerate() {
            if let Some(target) = change.of(resource) {
                add(target, Some(at), resource);
            }
        }
        if number > 2 {
            continue;
        }
        for (number_of_one, one) in CHANGES.iter().enumerate() {
            for (number_of_other, other) in CHANGES.iter().enumerate() {
                let rare = [number_of_one, number_of_other].map(|of| usize::from(of >= RARE));
                if rare[0] + rare[1] > usize::from(number == 0) {
                    continue;
                }
                let both = one.of(resource).and_then(|made| other.of(&made));
                // Behind a `?` the spelling is a query, so the URL differs; also for a server that decodes first.
                let is_one = |both: &String| {
                    let path = both.strip_suffix('?').unwrap_or(both);
                    let decoded = both.strip_suffix("%3F").unwrap_or(both);
                    !path.contains(['?', '#']) && !decoded.contains("%3F")
                };
                if let Some(target) = both.filter(is_one) {
                    add(target, None, resource);
                }
            }
        }
    }
    let words = "/wiki?title=Special:Log /wiki?title=Special%3ALog /wiki?title=Special%3aLog \
        /wiki?title=%53pecial%3ALog /wiki%3Ftitle=Special:Log /wiki%3ftitle=Special%3ALog \
        /wiki?title=Spec%09ial:Log /wiki?title=Special:Log%20";
    for target in words.split(' ') {
        add(target.to_owned(), None, WIKI);
    }
    found
}
