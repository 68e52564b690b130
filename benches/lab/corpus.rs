//! Files shaped like real robots.txt files, and URLs to ask them about; the same ones at every run.

#![allow(
    dead_code,
    clippy::indexing_slicing,
    reason = "each benchmark uses a part of it; indices are drawn below lengths"
)]

use std::fmt::Write as _;

/// The dominant content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Paths without wildcards, as shops and content management systems have them.
    Literal,
    /// Two rules in three hold a wildcard.
    Wildcard,
    /// Group after group of a few rules each.
    Groups,
}

pub const SHAPES: [Shape; 3] = [Shape::Literal, Shape::Wildcard, Shape::Groups];

/// The crawler that asks. The files of [`Shape::Groups`] name it, the others address all crawlers.
pub const CRAWLER: &str = "BenchBot";

/// A generator of numbers that look random (xorshift64*), from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

const WORDS: [&str; 64] = [
    "account", "admin", "ajax", "api", "archive", "article", "author", "basket", "blog", "cache",
    "calendar", "cart", "catalog", "category", "cgi-bin", "checkout", "clients", "comment",
    "compare", "content", "customer", "data", "download", "email", "event", "export", "feed",
    "filter", "forum", "gallery", "group", "help", "images", "includes", "internal", "item",
    "jobs", "list", "login", "mail", "media", "member", "mobile", "modules", "news", "order",
    "page", "plugins", "print", "private", "product", "profile", "register", "report", "review",
    "search", "session", "shop", "static", "tag", "themes", "user", "video", "wishlist",
];
const ENDINGS: [&str; 8] = [".html", ".php", ".pdf", ".aspx", ".json", ".xml", ".jpg", ".do"];
const COMMENTS: [&str; 6] = [
    "# Directories",
    "# Files that no search engine needs",
    "# Paths (clean URLs)",
    "# Crawlers that ask too often",
    "# Faceted navigation: endless, and of no use to anybody",
    "# Please write to webmaster@example.com before you crawl this site at any speed",
];

/// Returns a path without wildcards.
fn literal(dice: &mut Dice) -> String {
    let mut path = String::new();
    for _ in 0..1 + dice.below(3) {
        let word = dice.pick(&WORDS);
        match dice.below(4) {
            0 => write!(path, "/{word}-{}", dice.below(1000)).unwrap(),
            1 => write!(path, "/{word}_{}", dice.pick(&WORDS)).unwrap(),
            _ => write!(path, "/{word}").unwrap(),
        }
    }
    match dice.below(4) {
        0 => path.push_str(dice.pick(&ENDINGS)),
        1 => write!(path, "?{}=", dice.pick(&WORDS)).unwrap(),
        _ => path.push('/'),
    }
    path
}

/// Returns a path with wildcards.
fn wildcard(dice: &mut Dice) -> String {
    let [one, other, third] = [(); 3].map(|()| dice.pick(&WORDS));
    let number = dice.below(1000);
    match dice.below(8) {
        0 => format!("/*?{one}="),
        1 => format!("/*?*{one}_{other}="),
        2 => format!("/*/{one}/{other}/"),
        3 => format!("/{one}/*{}$", dice.pick(&ENDINGS)),
        4 => format!("/{one}/{other}-{number}/*/{third}"),
        5 => format!("/*&{one}={other}"),
        6 => format!("/{one}*{other}*{number}$"),
        _ => format!("/*/{one}-{number}{}$", dice.pick(&ENDINGS)),
    }
}

fn rule(dice: &mut Dice, shape: Shape) -> String {
    let field = if dice.below(8) == 0 { "Allow" } else { "Disallow" };
    let is_wild = shape == Shape::Wildcard && dice.below(3) > 0 || dice.below(12) == 0;
    let path = if is_wild { wildcard(dice) } else { literal(dice) };
    format!("{field}: {path}\n")
}

fn agent(dice: &mut Dice) -> String {
    let [one, other] = [(); 2].map(|()| dice.pick(&WORDS));
    let version = if dice.below(4) == 0 { "/2.0" } else { "" };
    format!("User-agent: {one}{other}Bot{version}\n")
}

/// Now and then, adds a line that is not a rule.
fn aside(dice: &mut Dice, text: &mut String) {
    match dice.below(24) {
        0 => text.push('\n'),
        1 => {
            let _ = writeln!(text, "\n{}", dice.pick(&COMMENTS));
        }
        2 if dice.below(3) == 0 => {
            let _ =
                writeln!(text, "Sitemap: https://www.example.com/sitemap-{}.xml", dice.below(100));
        }
        _ => {}
    }
}

/// Returns a file of about `size` octets.
pub fn file(shape: Shape, size: usize) -> String {
    let mut dice = Dice::new(size as u64 + shape as u64);
    let mut text = String::with_capacity(size + 200);
    text.push_str("# robots.txt for https://www.example.com/\n\n");
    if shape == Shape::Groups {
        let mut is_crawler_named = false;
        while text.len() + 120 < size {
            for _ in 0..1 + dice.below(3) / 2 {
                text.push_str(&agent(&mut dice));
            }
            if !is_crawler_named && text.len() > size / 2 {
                is_crawler_named = true;
                let _ = writeln!(text, "User-agent: {CRAWLER}");
            }
            if dice.below(6) == 0 {
                text.push_str("Crawl-delay: 10\n");
            }
            for _ in 0..1 + dice.below(4) {
                text.push_str(&rule(&mut dice, shape));
            }
            text.push('\n');
        }
        text.push_str("User-agent: *\nDisallow: /private/\n");
    } else {
        text.push_str("User-agent: *\n");
        while text.len() < size {
            text.push_str(&rule(&mut dice, shape));
            aside(&mut dice, &mut text);
        }
    }
    text
}

/// Returns a file of so many rules for all crawlers.
pub fn rules(shape: Shape, count: usize) -> String {
    let mut dice = Dice::new(count as u64 + shape as u64);
    let mut text = String::from("User-agent: *\n");
    for _ in 0..count {
        text.push_str(&rule(&mut dice, shape));
    }
    text
}

/// Returns paths as a crawler finds them: some begin as the file's rules do.
pub fn paths(text: &str, count: usize) -> Vec<String> {
    let mut dice = Dice::new(text.len() as u64);
    let rules: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once("llow: ")?.1)).collect();
    (0..count)
        .map(|at| {
            let [one, other] = [(); 2].map(|()| dice.pick(&WORDS));
            let number = dice.below(100_000);
            let start = match at % 4 {
                0 => rules[dice.below(rules.len())].replace('*', one).replace('$', ""),
                1 => format!("/{one}/{other}-{number}/"),
                2 => format!("/{one}/{other}/a-page-of-usual-length-{number}.html"),
                _ => format!("/{one}.php?{other}={number}&page=2"),
            };
            if at % 8 == 0 { format!("{start}{other}") } else { start }
        })
        .collect()
}
