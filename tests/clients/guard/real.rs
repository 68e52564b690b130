//! Counts the URLs in real robots.txt files that the path guard denies, although the sites themselves link to them.
//!
//! `CRAWLGATE_ROBOTS_FILES` names a folder of robots.txt files; without it the test counts nothing. The URLs come from
//! the paths of each file's rules (`*` filled in, `$` left out), from its sitemaps, and from pages below each. Each path of a
//! rule stands in parameters of other pages as well, as sites write the page that a login leads back to.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::{env, fs};

use crawlgate_robots::{
    ComparisonPath, GuardVerdict, Origin, ParseOptions, Robots, RuleKind, Selection,
};

/// Pages below a folder, in spellings that sites link to.
const PAGES: &[&str] = &[
    "",
    "page.html",
    "index.php?page=2&sort=name",
    "a-b_c/2026/11/page",
    "C%2B%2B",
    "caf%C3%A9%20menu.pdf",
    "page;jsessionid=0A1B2C",
    "user/@name",
    "tag/a%2Cb",
    "file.tar.gz",
    "search?q=a+b%20c&lang=en",
];

/// The number of questions, the number of denials by the guard, and the rules behind them.
#[derive(Default)]
struct Count {
    asked: usize,
    denied: usize,
    by: BTreeMap<String, (usize, String)>,
}

impl Count {
    fn file(&mut self, text: &[u8]) {
        let robots = Robots::parse(text, ParseOptions::default());
        let rules = robots.rules(Selection::Global);
        for url in urls(&robots) {
            let path = ComparisonPath::new(url.as_bytes());
            let found = rules.verdict(&path);
            if found.is_some_and(|rule| rule.kind == RuleKind::Disallow) {
                continue;
            }
            self.asked += 1;
            let by = match rules.guard(&path) {
                GuardVerdict::Allowed => continue,
                GuardVerdict::Disallowed { reading, rule } => {
                    format!("{} ({})", rule.text, String::from_utf8_lossy(&reading))
                }
                GuardVerdict::TooMany => "too many readings".to_owned(),
            };
            self.denied += 1;
            self.by.entry(by).or_insert((0, url)).0 += 1;
        }
    }
}

/// Returns the paths that a file names, and pages below them.
fn urls(robots: &Robots) -> HashSet<String> {
    let rules = robots
        .groups()
        .flat_map(|group| group.rules().map(|(_, text, _)| text.to_vec()).collect::<Vec<_>>());
    let values = rules.filter_map(|text| {
        let text = String::from_utf8_lossy(&text).into_owned();
        let (_, value) = text.split_once(':')?;
        let mut value = value.trim().trim_end_matches('$').replace('*', "x");
        // A path that ends in `?` stands for queries; no page links to the empty one.
        if value.ends_with('?') {
            value.push_str("x=1");
        }
        value.starts_with('/').then_some(value)
    });
    let sitemaps = robots.others().filter_map(|other| {
        let value = String::from_utf8_lossy(other.value).into_owned();
        Some(Origin::parse(&value).ok()?.1.to_string())
    });
    let mut urls: HashSet<String> = parameters(robots);
    urls.insert("/".to_owned());
    for url in values.chain(sitemaps) {
        let folder = url.rfind('/').map_or("/", |at| &url[..=at]);
        if !folder.contains('?') {
            urls.extend(PAGES.iter().map(|page| format!("{folder}{page}")));
        }
        urls.insert(url);
    }
    urls
}

/// Returns pages with a parameter that holds the path of a rule.
fn parameters(robots: &Robots) -> HashSet<String> {
    let rules = robots.groups().flat_map(|group| group.rules());
    let escaped = rules.filter_map(|(_, text, _)| {
        let text = String::from_utf8_lossy(text).into_owned();
        let (_, value) = text.split_once(':')?;
        let value = value.trim().trim_end_matches('$').replace('*', "");
        // What separates parts of a URL, and what no query holds as it is.
        let escape = |octet: u8| match octet {
            b'!'..=b'~' if !b"/?#&=+%\"<>\\^`{|}".contains(&octet) => char::from(octet).to_string(),
            _ => format!("%{octet:02X}"),
        };
        Some(value.bytes().map(escape).collect::<String>())
    });
    let pages = |path: String| {
        [
            format!("/auth?next={path}"),
            format!("/in?lang=de&ReturnUrl=%2Fde{path}"),
            format!("/_next/image?url={path}m.png&w=640"),
        ]
    };
    escaped.flat_map(pages).collect()
}

#[test]
fn real_files_own_urls_are_hardly_ever_denied() {
    let Some(folder) = env::var_os("CRAWLGATE_ROBOTS_FILES") else {
        eprintln!("skipped: CRAWLGATE_ROBOTS_FILES names no folder of robots.txt files");
        return;
    };
    let mut count = Count::default();
    let mut files = 0;
    let mut seen = HashSet::new();
    for entry in fs::read_dir(Path::new(&folder)).unwrap() {
        let Ok(text) = fs::read(entry.unwrap().path()) else {
            continue;
        };
        let is_file = memchr::memmem::find(&text.to_ascii_lowercase(), b"disallow").is_some();
        // Many sites with the same file count once.
        if is_file && seen.insert(text.clone()) {
            files += 1;
            count.file(&text);
        }
    }
    println!(
        "{files} files, {} URLs that their rules allow, {} denied by the guard",
        count.asked, count.denied
    );
    for (by, (times, url)) in &count.by {
        println!("{times:6}  {by}  as {url}");
    }
    assert!(count.asked > 0 && count.denied * 10_000 < count.asked);
}
