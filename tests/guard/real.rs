//! How often the path guard denies what sites themselves link to: the URLs that real robots.txt files name.
//!
//! `CRAWLGATE_ROBOTS_FILES` names a folder of robots.txt files; without it there is nothing to count. From each file come
//! the paths of its rules (`*` filled in, `$` left out), of its sitemaps, and pages below each.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::{env, fs};

use crawlgate::rep::{ComparisonPath, Guarded, Origin, ParseOptions, Robots, RuleKind, Selection};

/// Pages below a folder, as sites link to them.
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

/// Of how many questions the guard denied how many, and by which rules.
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
                Guarded::Clear => continue,
                Guarded::Disallowed { reading, rule } => {
                    format!("{} ({})", rule.text, String::from_utf8_lossy(&reading))
                }
                Guarded::TooMany => "too many readings".to_owned(),
            };
            self.denied += 1;
            self.by.entry(by).or_insert((0, url)).0 += 1;
        }
    }
}

/// The paths that a file names, and pages below them.
fn urls(robots: &Robots) -> HashSet<String> {
    let rules = robots.groups().flat_map(|group| {
        group
            .rules()
            .map(|(_, text, _)| text.to_vec())
            .collect::<Vec<_>>()
    });
    let values = rules.filter_map(|text| {
        let text = String::from_utf8_lossy(&text).into_owned();
        let (_, value) = text.split_once(':')?;
        let mut value = value.trim().trim_end_matches('$').replace('*', "x");
        // What ends in a `?` is where queries begin; an empty one is linked by no page.
        if value.ends_with('?') {
            value.push_str("x=1");
        }
        value.starts_with('/').then_some(value)
    });
    let sitemaps = robots.others().filter_map(|other| {
        let value = String::from_utf8_lossy(other.value).into_owned();
        Some(Origin::parse(&value).ok()?.1.to_string())
    });
    let mut urls = HashSet::from(["/".to_owned()]);
    for url in values.chain(sitemaps) {
        let folder = url.rfind('/').map_or("/", |at| &url[..=at]);
        if !folder.contains('?') {
            urls.extend(PAGES.iter().map(|page| format!("{folder}{page}")));
        }
        urls.insert(url);
    }
    urls
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
        // A farm of sites with one file counts once.
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
