//! The commit that `crawlgate --version` tells: a small program in a repository of its own asks for it in the same way, and
//! is compiled again exactly when the answer changes.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A repository with a package whose library is slow to compile, in principle, and whose binary asks for the commit.
struct Project {
    home: TempDir,
    /// The working copy.
    root: PathBuf,
}

const MAIN: &str = "fn main() {
    let (commit, date) = crawlgate_build_info::commit_and_date!();
    println!(\"{commit} {date}\");
    app::work();
}
";

impl Project {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("app");
        fs::create_dir_all(root.join("src")).unwrap();
        let build_info = Path::new(env!("CARGO_MANIFEST_DIR")).join("build-info");
        let manifest = format!(
            "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[dependencies]\n\
             crawlgate-build-info = {{ path = {build_info:?} }}\n[workspace]\n"
        );
        fs::write(root.join("Cargo.toml"), manifest).unwrap();
        fs::write(root.join("src/main.rs"), MAIN).unwrap();
        fs::write(root.join("src/lib.rs"), "pub fn work() {}\n").unwrap();
        Self { home, root }
    }

    /// A project whose sources are committed.
    fn committed() -> Self {
        let project = Self::new();
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.cargo(&["generate-lockfile"], &[]);
        project.git(&["add", "."]);
        project.git(&["commit", "--quiet", "--message=first"]);
        project
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        for (variable, value) in [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_AUTHOR_NAME", "Ada"),
            ("GIT_AUTHOR_EMAIL", "ada@site.example"),
            ("GIT_COMMITTER_NAME", "Ada"),
            ("GIT_COMMITTER_EMAIL", "ada@site.example"),
            // In UTC it is the next day.
            ("GIT_COMMITTER_DATE", "2026-02-28T23:30:00-0100"),
        ] {
            git.env(variable, value);
        }
        let output = git.args(words).current_dir(&self.root).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn cargo(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut cargo = Command::new(env!("CARGO"));
        for variable in ["CRAWLGATE_COMMIT", "SOURCE_DATE_EPOCH", "RUSTFLAGS"] {
            cargo.env_remove(variable);
        }
        cargo
            .args(words)
            .arg("--offline")
            .env("CARGO_TARGET_DIR", self.home.path().join("target"))
            .env("CARGO_TERM_COLOR", "never")
            .envs(variables.iter().copied())
            .current_dir(&self.root);
        cargo.output().unwrap()
    }

    /// Builds the program. Returns what it prints, and what Cargo did: `Compiling` or `Fresh`, for each target.
    #[track_caller]
    fn told_with(&self, variables: &[(&str, &str)]) -> (String, String) {
        let built = self.cargo(&["build", "--verbose"], variables);
        let log = String::from_utf8(built.stderr).unwrap();
        assert!(built.status.success(), "{log}");
        let program = self.home.path().join("target/debug/app");
        let output = Command::new(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text.trim().to_owned(), log)
    }

    #[track_caller]
    fn told(&self) -> String {
        self.told_with(&[]).0
    }

    /// The commit of HEAD and its day, as the program should tell them.
    fn head(&self) -> String {
        let commit = self.git(&["rev-parse", "--short=12", "HEAD"]);
        format!("{commit} 2026-03-01")
    }

    fn commit(&self) {
        self.git(&["commit", "--quiet", "--allow-empty", "--message=next"]);
    }
}

#[test]
fn a_commit_compiles_the_binary_again_and_not_the_library() {
    let project = Project::committed();
    assert_eq!(project.told(), project.head());
    let (_, log) = project.told_with(&[]);
    assert!(log.contains("Fresh app"), "nothing has changed: {log}");

    let before = project.head();
    project.commit();
    assert_ne!(project.head(), before);
    let (told, log) = project.told_with(&[]);
    assert_eq!(told, project.head());
    assert!(log.contains("--crate-type bin"), "{log}");
    assert!(!log.contains("--crate-type lib"), "{log}");
}

#[test]
fn a_commit_is_found_on_each_kind_of_branch_and_in_each_worktree() {
    let mut project = Project::committed();
    let steps: [(&str, &[&str]); 4] = [
        ("another branch", &["checkout", "--quiet", "-b", "next"]),
        ("packed references", &["pack-refs", "--all"]),
        ("no branch", &["checkout", "--quiet", "--detach"]),
        (
            "no log of HEAD",
            &["config", "core.logAllRefUpdates", "false"],
        ),
    ];
    for (name, step) in steps {
        project.git(step);
        assert_eq!(project.told(), project.head(), "{name}");
        project.commit();
        assert_eq!(project.told(), project.head(), "{name}, after a commit");
    }
    project.git(&["worktree", "add", "--quiet", "-b", "beside", "../beside"]);
    project.root = project.home.path().join("beside");
    assert!(project.root.join(".git").is_file());
    assert_eq!(project.told(), project.head(), "a worktree");
    project.commit();
    assert_eq!(project.told(), project.head(), "a worktree, after a commit");
}

#[test]
fn changed_sources_make_a_commit_dirty_and_other_files_do_not() {
    let project = Project::committed();
    let clean = project.head();
    fs::write(project.root.join("README.md"), "changed").unwrap();
    assert_eq!(project.told(), clean);
    fs::write(project.root.join("src/lib.rs"), "pub fn work() { }\n").unwrap();
    let (commit, day) = clean.split_once(' ').unwrap();
    assert_eq!(project.told(), format!("{commit}-dirty {day}"));
    project.git(&["checkout", "--quiet", "src"]);
    assert_eq!(project.told(), clean);
}

#[test]
fn packagers_name_the_commit_and_the_date() {
    let project = Project::committed();
    let head = project.head();
    let (commit, day) = head.split_once(' ').unwrap();
    let cases: [(&str, &str, &str); 6] = [
        (
            "CRAWLGATE_COMMIT",
            "1.2-3+deb13u1",
            &format!("1.2-3+deb13u1 {day}"),
        ),
        (
            "CRAWLGATE_COMMIT",
            "0123456789abcdef0123456789abcdef01234567",
            &format!("0123456789ab {day}"),
        ),
        (
            "SOURCE_DATE_EPOCH",
            "951827199",
            &format!("{commit} 2000-02-29"),
        ),
        ("SOURCE_DATE_EPOCH", "0", &format!("{commit} 1970-01-01")),
        (
            "SOURCE_DATE_EPOCH",
            "4107542400",
            &format!("{commit} 2100-03-01"),
        ),
        ("SOURCE_DATE_EPOCH", "", &head),
    ];
    for (variable, value, expected) in cases {
        assert_eq!(
            project.told_with(&[(variable, value)]).0,
            expected,
            "{variable}={value}"
        );
    }
    for (variable, value) in [
        ("CRAWLGATE_COMMIT", "two words"),
        ("SOURCE_DATE_EPOCH", "today"),
    ] {
        let built = project.cargo(&["build"], &[(variable, value)]);
        let log = String::from_utf8(built.stderr).unwrap();
        assert!(
            !built.status.success() && log.contains(&format!("{variable} is not ")),
            "{log}"
        );
    }
}

#[test]
fn a_crate_tells_the_commit_that_cargo_noted_and_a_bare_directory_none() {
    let project = Project::new();
    assert_eq!(project.told(), "unknown unknown");
    // A repository around the package says nothing about it.
    let around = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(project.home.path())
        .status();
    assert!(around.unwrap().success());
    let again = |with: &str| fs::write(project.root.join("src/main.rs"), format!("{MAIN}{with}"));
    again("// within another repository").unwrap();
    assert_eq!(project.told(), "unknown unknown");
    let noted = "{\n  \"git\": {\n    \"sha1\": \"0123456789abcdef0123456789abcdef01234567\"\n  },\n  \"path_in_vcs\": \"\"\n}";
    fs::write(project.root.join(".cargo_vcs_info.json"), noted).unwrap();
    again("// a crate").unwrap();
    assert_eq!(project.told(), "0123456789ab unknown");
}
