//! Judges URLs by a robots.txt on disk, with nothing but `crawlgate_robots`: no proxy, no network, no clock.
//!
//! ```sh
//! cargo run --example rep -- robots.txt 'Mozilla/5.0 (compatible; ExampleBot/2.1)' https://site.example/private/
//! ```

// A program of three screens: what it prints is its result.
#![allow(clippy::print_stderr)]

use std::env;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use crawlgate_robots::{ComparisonPath, Origin, ParseOptions, Robots, RuleKind, product_tokens};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match judge(&words, &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Writes one line for each URL, with the rule that decides. Returns whether all of them are allowed.
///
/// # Errors
/// When words are missing, the file cannot be read, or a URL is invalid.
pub fn judge(words: &[String], out: &mut impl Write) -> Result<bool, String> {
    let [file, agent, urls @ ..] = words else {
        return Err("usage: rep ROBOTS_TXT USER_AGENT URL...".to_owned());
    };
    let text = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let robots = Robots::parse(&text, ParseOptions::default());
    // A crawler obeys the groups of the first of its tokens that the file names, otherwise those of `*`.
    let tokens = product_tokens(agent.as_bytes());
    // Compiled once; each further URL of the same crawler costs a look-up.
    let rules = robots.rules(robots.selection(&tokens));
    let mut all_allowed = true;
    for url in urls {
        // A robots.txt holds for one origin. Which one this file came from, its reader knows.
        let (_, path) = Origin::parse(url).map_err(|error| format!("{url}: {error}"))?;
        let path = ComparisonPath::new(path.as_bytes());
        let line = match rules.verdict(&path) {
            None => format!("allowed    {url}  (no rule matches)"),
            Some(rule) => {
                let verdict = match rule.kind {
                    RuleKind::Allow => "allowed   ",
                    RuleKind::Disallow => "disallowed",
                };
                all_allowed &= rule.kind == RuleKind::Allow;
                format!(
                    "{verdict} {url}  {:?}, line {}, group {}",
                    rule.text, rule.line, rule.group
                )
            }
        };
        writeln!(out, "{line}").map_err(|error| error.to_string())?;
    }
    Ok(all_allowed)
}
