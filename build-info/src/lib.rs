//! The commit and the date of a build, read when the file that asks for them is compiled.
//!
//! A build script could read them, too, but Cargo compiles the whole package again after each run of its build script:
//! two minutes for each commit. A macro runs with the one file that calls it. Its expansion names the files of git that
//! a commit changes, so that Cargo compiles that file again when they change, and nothing otherwise.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro::TokenStream;

/// The parts of the working copy that the program is made of. Changes elsewhere leave the program as the commit has it, and
/// would not compile it again.
const SOURCES: [&str; 5] = ["src", "build-info", "build.rs", "Cargo.toml", "Cargo.lock"];

/// Digits of a commit.
const DIGITS: usize = 12;

const UNKNOWN: &str = "unknown";

/// Expands to a pair of strings: the commit, and the day in UTC.
///
/// `CRAWLGATE_COMMIT` and `SOURCE_DATE_EPOCH` (reproducible-builds.org) come first, then the repository of the package, then
/// the commit that `cargo package` notes down. What none of them tells is `unknown`. `-dirty` after the commit says that
/// sources differ from it.
#[proc_macro]
pub fn commit_and_date(_: TokenStream) -> TokenStream {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let package = variable("CARGO_MANIFEST_DIR").unwrap_or_default();
    let package = Path::new(&package);
    let git = Git::of(package);
    let of_git = git.as_ref().and_then(Git::commit);
    let (commit, committed) = match of_git {
        Some((commit, seconds)) => (Some(commit), Some(seconds)),
        None => (packaged(package), None),
    };
    let commit = match variable("CRAWLGATE_COMMIT") {
        Some(named) if !is_printable(&named) => {
            return fault("CRAWLGATE_COMMIT is not one word of ASCII letters, digits and signs");
        }
        Some(named) => Some(short(&named)),
        None => commit,
    };
    let seconds = match variable("SOURCE_DATE_EPOCH").map(|value| value.parse::<u64>()) {
        Some(Err(_)) => return fault("SOURCE_DATE_EPOCH is not a number of seconds"),
        Some(Ok(seconds)) => Some(seconds),
        None => committed,
    };
    let commit = commit.unwrap_or_else(|| UNKNOWN.to_owned());
    let date = seconds.map_or_else(|| UNKNOWN.to_owned(), day);
    let mut watched = String::new();
    for file in git.iter().flat_map(Git::files) {
        watched.push_str(&format!("const _: &[u8] = include_bytes!({file:?});\n"));
    }
    parsed(&format!(
        r#"{{
            {watched}
            const _: [Option<&str>; 2] = [option_env!("CRAWLGATE_COMMIT"), option_env!("SOURCE_DATE_EPOCH")];
            ({commit:?}, {date:?})
        }}"#
    ))
}

/// The repository of a package.
struct Git<'p>(&'p Path);

impl<'p> Git<'p> {
    /// Returns the repository that has the package at its root. A package that merely lies within another repository, as
    /// the registry does in a home that is under version control, has none.
    fn of(package: &'p Path) -> Option<Self> {
        package.join(".git").exists().then_some(Self(package))
    }

    /// Returns the commit, and its time in seconds.
    fn commit(&self) -> Option<(String, u64)> {
        let told = self.answer(&["log", "-1", "--no-show-signature", "--format=%H %ct"])?;
        let (commit, seconds) = told.split_once(' ')?;
        let mut status = vec!["status", "--porcelain", "--untracked-files=all", "--"];
        status.extend(SOURCES);
        let dirty = match self.answer(&status)?.is_empty() {
            true => "",
            false => "-dirty",
        };
        Some((short(commit) + dirty, seconds.parse().ok()?))
    }

    /// Returns the files that change with a commit, a checkout or a reset. The log of HEAD changes with each of them, but a
    /// repository may keep none.
    fn files(&self) -> Vec<PathBuf> {
        let mut names = vec![
            "HEAD".to_owned(),
            "logs/HEAD".to_owned(),
            "packed-refs".to_owned(),
        ];
        names.extend(self.answer(&["symbolic-ref", "--quiet", "HEAD"]));
        let paths = names.iter().filter_map(|name| {
            let path = self.answer(&["rev-parse", "--git-path", name])?;
            Some(self.0.join(path))
        });
        paths.filter(|path| path.is_file()).collect()
    }

    /// Returns what git prints, without the white space around it; nothing if it fails or is missing.
    fn answer(&self, words: &[&str]) -> Option<String> {
        let mut git = Command::new("git");
        // A hook's variables would name another index; a lock would disturb the user's own git.
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(variable);
        }
        let git = git
            .arg("--no-optional-locks")
            .args(words)
            .current_dir(self.0);
        let output = git.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.trim().to_owned())
    }
}

/// Returns the commit that `cargo package` has noted down.
fn packaged(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\": \"")?;
    let commit = rest.split('"').next().filter(|commit| is_hash(commit))?;
    let dirty = match text.contains("\"dirty\": true") {
        true => "-dirty",
        false => "",
    };
    Some(short(commit) + dirty)
}

/// Shortens a hash; leaves another word as it is.
fn short(commit: &str) -> String {
    match is_hash(commit) {
        true => commit.chars().take(DIGITS).collect(),
        false => commit.to_owned(),
    }
}

fn is_hash(commit: &str) -> bool {
    commit.len() >= DIGITS && commit.bytes().all(|octet| octet.is_ascii_hexdigit())
}

fn is_printable(word: &str) -> bool {
    word.bytes().all(|octet| octet.is_ascii_graphic())
}

/// Returns the day of a time since the epoch, in the Gregorian calendar: the years begin in March here, so that the odd
/// day of a leap year is the last.
fn day(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468; // since the first of March of the year 0
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = match month < 10 {
        true => (month + 3, 0),
        false => (month - 9, 1),
    };
    let year = year + era * 400 + next_year;
    format!("{year:04}-{month:02}-{of_month:02}")
}

fn fault(message: &str) -> TokenStream {
    parsed(&format!("compile_error!({message:?})"))
}

/// Reads the text as Rust. The text is this file's own, and the values in it are literals.
fn parsed(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}
