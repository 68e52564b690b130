//! Tells the program the commit, the day and the target of its build: `crawlgate --version`.
//!
//! `CRAWLGATE_COMMIT` and `SOURCE_DATE_EPOCH` (reproducible-builds.org) come first, then the repository of the package. A
//! debug build does not ask git: Cargo compiles the package again after each run of this script, and so would after each
//! commit.

use std::env;
use std::path::Path;
use std::process::Command;

/// The sources of the program: a change in one of them makes the commit dirty.
const SOURCES: [&str; 4] = ["../../src", "../../crates", "../../Cargo.toml", "../../Cargo.lock"];

/// Files of git that change with each commit, checkout and reset.
const HEADS: [&str; 2] = ["HEAD", "logs/HEAD"];

fn main() {
    for variable in ["CRAWLGATE_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    // A package that merely lies within another repository, as the registry may, has no commit.
    let has_commit = is_release && Path::new("../../.git").exists();
    if has_commit {
        // In a linked worktree they lie elsewhere. Cargo takes a missing path for one that has changed.
        let heads = HEADS.iter().filter_map(|name| git(&["rev-parse", "--git-path", name]));
        let sources = SOURCES.iter().map(|&name| name.to_owned());
        for path in sources.chain(heads).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let of_git = || has_commit.then(commit).flatten();
    let unknown = || "unknown".to_owned();
    let commit = variable("CRAWLGATE_COMMIT").or_else(of_git);
    let seconds = match variable("SOURCE_DATE_EPOCH") {
        Some(seconds) => seconds.parse().ok(),
        None if has_commit => {
            git(&["log", "-1", "--format=%ct"]).and_then(|seconds| seconds.parse().ok())
        }
        None => None,
    };
    for (name, value) in [
        ("COMMIT", commit.unwrap_or_else(unknown)),
        ("DATE", seconds.map_or_else(unknown, day)),
        ("TARGET", variable("TARGET").unwrap_or_else(unknown)),
    ] {
        println!("cargo::rustc-env=CRAWLGATE_BUILD_{name}={value}");
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the commit, with `-dirty` behind it where sources differ from it.
fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=all", "--"];
    status.extend(SOURCES);
    let dirty = if git(&status)?.is_empty() { "" } else { "-dirty" };
    Some(commit + dirty)
}

/// Returns what git prints; nothing if it fails or is missing.
fn git(words: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("--no-optional-locks").args(words); // a lock would disturb the user's own git
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns the day of a time in seconds since the epoch. The years begin in March here, so that the odd day of a leap year is
/// the last.
fn day(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468; // since the first of March of the year 0
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next_year;
    format!("{year:04}-{month:02}-{of_month:02}")
}
