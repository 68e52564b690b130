//! The rows of `tables/` and of Google's published examples.
//!
//! A row is one question and its answer:
//!
//! ```toml
//! { name = "rfc9309_a_final_dollar_is_the_end", rules = 'disallow: /a$', url = '/a', is = "deny 2" },
//! ```
//!
//! - `name`: the claim, behind the side that it follows: `rfc9309_`, `google_` or `ours_`.
//! - `robots`: the file; or `rules`: the lines below a first line `user-agent: *`.
//! - `agents`: the crawler's chain of product tokens, separated by spaces; `anybot` if left out.
//! - `url`: absolute, or the path and query of one.
//! - `is`: `allow` or `deny`, and the line that decides; no line if no rule matches.
//! - `strict = true`: without leniency. `limit`: the number of octets that count.
//!
//! In texts (but not names) `\n`, `\r`, `\t`, `\0` and `\\` mean what they usually do, `\xFF`
//! is an octet, and `\{ab*100}` is a hundred times `ab`.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use crawlgate_robots::{Origin, ParseOptions, ProductToken, Robots};
use serde::Deserialize;
use serde_json::Value;

use super::checks::{OPTIONS, verdict};
use super::naive::{self, Decision, Reading};

/// The folder of the tables: every file counts, none has to be named.
const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rep/tables");

#[derive(Deserialize)]
struct Table {
    row: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    robots: Option<String>,
    rules: Option<String>,
    #[serde(default = "anybot")]
    agents: String,
    url: String,
    is: String,
    #[serde(default)]
    strict: bool,
    limit: Option<usize>,
}

fn anybot() -> String {
    "anybot".to_owned()
}

/// A question to the protocol, without its answer.
pub(crate) struct Question {
    pub(crate) robots: Vec<u8>,
    pub(crate) options: ParseOptions,
    pub(crate) chain: Vec<String>,
    pub(crate) path: Vec<u8>,
}

/// Returns the questions of all rows and of Google's published examples.
pub(crate) fn questions() -> Vec<Question> {
    let rows = tables().into_iter().flat_map(|(_, table)| table.row);
    let mut questions: Vec<Question> = rows.map(|row| row.question()).collect();
    questions.extend(published().iter().map(|case| {
        let agents = case["agents"].as_array().unwrap().iter();
        Question {
            robots: case["robots"].as_str().unwrap().into(),
            options: OPTIONS,
            chain: agents.map(|agent| agent.as_str().unwrap().to_owned()).collect(),
            path: path(case["url"].as_str().unwrap().as_bytes()),
        }
    }));
    questions
}

/// Returns the tables by the names of their files.
fn tables() -> Vec<(String, Table)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(TABLES).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let read = |path: PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let table = toml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        (file, table)
    };
    files.into_iter().map(read).collect()
}

fn published() -> Vec<Value> {
    let published = include_str!("vectors/rules.json");
    let published: Value = serde_json::from_str(published).unwrap();
    let cases = published["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    cases.clone()
}

#[test]
fn every_row_holds() {
    let mut failures = Vec::new();
    let mut names = HashSet::new();
    for (file, table) in tables() {
        if table.row.is_empty() {
            failures.push(format!("{file}: no rows"));
        }
        for row in table.row {
            let is_named =
                ["google_", "rfc9309_", "ours_"].iter().any(|side| row.name.starts_with(side));
            if !is_named {
                failures.push(format!("{file}: {}: begins with no side's name", row.name));
            }
            if !names.insert(row.name.clone()) {
                failures.push(format!("{file}: {}: a second row of this name", row.name));
            }
            failures
                .extend(failure(&row).map(|failure| format!("{file}: {}: {failure}", row.name)));
        }
    }
    let cases = published();
    for (at, case) in cases.iter().enumerate() {
        failures.extend(
            published_failure(case).map(|failure| format!("rules.json: case {at}: {failure}")),
        );
    }
    println!("{} rows and {} published examples", names.len(), cases.len());
    assert!(failures.is_empty(), "{} rows fail:\n{}", failures.len(), failures.join("\n"));
}

impl Row {
    fn question(&self) -> Question {
        let robots = match (&self.robots, &self.rules) {
            (Some(robots), None) => unescaped(robots),
            (None, Some(rules)) => [&b"user-agent: *\n"[..], &unescaped(rules)].concat(),
            _ => panic!("{}: has to have either `robots` or `rules`", self.name),
        };
        let agents = String::from_utf8(unescaped(&self.agents)).unwrap();
        Question {
            robots,
            options: ParseOptions {
                lenient: !self.strict,
                limit: self.limit.unwrap_or(OPTIONS.limit),
            },
            chain: agents.split_ascii_whitespace().map(str::to_owned).collect(),
            path: path(&unescaped(&self.url)),
        }
    }
}

/// Returns the fault of a row, if any.
fn failure(row: &Row) -> Option<String> {
    let (verdict, line) = match row.is.split_once(' ') {
        Some((verdict, line)) => match line.parse() {
            Ok(line) => (verdict, Some(line)),
            Err(_) => return Some(format!("`{line}` is no line number")),
        },
        None => (&*row.is, None),
    };
    let expected = match (verdict, line) {
        ("allow", None) => None,
        ("allow" | "deny", Some(line)) => Some((verdict == "allow", line)),
        _ => return Some(format!("`{}` is no answer", row.is)),
    };
    let Question { robots, options, chain, path } = row.question();
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    judged(&robots, options, &chain, &path, expected)
}

/// Returns the difference, unless both implementations decide as `expected` and by the same line.
fn judged(
    robots: &[u8],
    options: ParseOptions,
    chain: &[&str],
    path: &[u8],
    expected: Option<(bool, u32)>,
) -> Option<String> {
    let reading = Reading { lenient: options.lenient, limit: options.limit };
    let [found, naive] =
        [decision(robots, options, chain, path), naive::decide(robots, reading, chain, path)];
    let shown = |decision: &Option<Decision>| decision.as_ref().map(|d| (d.is_allow, d.line));
    if found != naive {
        return Some(format!("the naive reading is {naive:?}, here it is {found:?}"));
    }
    (shown(&found) != expected).then(|| format!("decided by {found:?}"))
}

fn decision(robots: &[u8], options: ParseOptions, chain: &[&str], path: &[u8]) -> Option<Decision> {
    let chain: Vec<ProductToken> =
        chain.iter().map(|token| ProductToken::new(token).unwrap()).collect();
    let robots = Robots::parse(robots, options);
    verdict(&robots.rules(robots.selection(&chain)), path)
}

/// Returns the path and query of a URL, or the text itself.
fn path(url: &[u8]) -> Vec<u8> {
    match str::from_utf8(url) {
        Ok(url) if url.contains("://") && !url.starts_with(['/', '?', ';']) => {
            Origin::parse(url).unwrap().1.into_bytes()
        }
        _ => url.to_vec(),
    }
}

/// Checks one of the published examples. Most allowed examples name no rule, although a rule decides about some of
/// them.
fn published_failure(case: &Value) -> Option<String> {
    let text = |key: &str| case[key].as_str().unwrap();
    let chain: Vec<&str> =
        case["agents"].as_array().unwrap().iter().map(|agent| agent.as_str().unwrap()).collect();
    let robots = text("robots").as_bytes();
    let path = path(text("url").as_bytes());
    let decision = decision(robots, OPTIONS, &chain, &path);
    let is_right_rule = case["rule"].as_str().is_none_or(|rule| {
        decision.as_ref().is_some_and(|decision| decision.text.eq_ignore_ascii_case(rule))
    });
    let is_allowed = decision.as_ref().is_none_or(|decision| decision.is_allow);
    if is_allowed != case["allowed"].as_bool().unwrap() || !is_right_rule {
        return Some(format!("{} (decided by {decision:?})\n  {case}", text("why")));
    }
    let expected = decision.map(|decision| (decision.is_allow, decision.line));
    judged(robots, OPTIONS, &chain, &path, expected)
}

/// Returns the octets that a text of the tables stands for.
fn unescaped(text: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        octets.extend_from_slice(plain.as_bytes());
        let mut letters = escape.chars();
        match letters.next().unwrap() {
            'n' => octets.push(b'\n'),
            'r' => octets.push(b'\r'),
            't' => octets.push(b'\t'),
            '0' => octets.push(0),
            '\\' => octets.push(b'\\'),
            'x' => {
                octets.push(u8::from_str_radix(&escape[1..3], 16).unwrap());
                letters = escape[3..].chars();
            }
            '{' => {
                let (repeated, after) = escape[1..].split_once('}').unwrap();
                let (piece, times) = repeated.rsplit_once('*').unwrap();
                octets.extend(unescaped(piece).repeat(times.parse().unwrap()));
                letters = after.chars();
            }
            other => panic!("\\{other} is no escape: {text}"),
        }
        rest = letters.as_str();
    }
    octets.extend_from_slice(rest.as_bytes());
    octets
}
