//! Files made from the command line: completions and manual pages. The version. Variables of the environment.

use std::fs;
use std::process::Command;

use crawlgate_config::{DEFAULT_ADDRESS, DEFAULT_ADMIN_ADDRESS};

const CRAWLGATE: &str = env!("CARGO_BIN_EXE_crawlgate");

/// Runs crawlgate in a directory without a configuration; returns its standard output.
#[track_caller]
fn crawlgate(words: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(CRAWLGATE);
    let command = command.args(words).env_clear().current_dir(home.path());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    assert_eq!(errors, "", "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = crawlgate(&["--help"]);
    let list = help.split("Commands:\n").nth(1).unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let name = |line: &str| line.split_whitespace().next().unwrap().to_owned();
    // A command stands two columns in, and the rest of its text further.
    let starts = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    starts.map(name).filter(|name| name != "help").collect()
}

#[test]
fn bash_completes_commands_and_flags() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("crawlgate.bash");
    fs::write(&file, crawlgate(&["completions", "bash"])).unwrap();
    let complete = |words: &str| {
        let last = words.split(' ').next_back().unwrap();
        let script = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             [ -z '{last}' ] && COMP_WORDS+=('') && COMP_CWORD=$((COMP_CWORD + 1)); \
             _crawlgate crawlgate '{last}' \"${{COMP_WORDS[COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors, "", "{words}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("crawlgate overr"), "override\n");
    assert_eq!(complete("crawlgate log --verd"), "--verdict\n");
    let all = complete("crawlgate ");
    for command in commands() {
        assert!(all.lines().any(|line| line == command), "{command}: {all}");
    }
}

#[test]
fn the_help_tells_the_default_address_in_its_first_lines() {
    let default = DEFAULT_ADDRESS.to_string();
    for words in [["serve", "--help"], ["serve", "-h"], ["help", "serve"]] {
        let help = crawlgate(&words);
        let first: Vec<&str> = help.lines().take(2).collect();
        assert!(first.join(" ").contains(&default), "{words:?}: {help}");
    }
    let help = crawlgate(&["serve", "--help"]);
    let console = format!("http://{DEFAULT_ADMIN_ADDRESS}/");
    says!(help, &console);
    // The list of commands and the examples.
    let help = crawlgate(&["--help"]);
    assert_eq!(help.matches(&default).count(), 2, "{help}");
}

/// Runs `crawlgate log ack` without a user in the environment; returns its standard error.
#[track_caller]
fn ack_by_nobody(words: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(CRAWLGATE);
    command.args(["log", "ack"]).args(words).env_clear();
    let output = command.current_dir(home.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_acknowledgement_without_a_person_says_how_to_name_one() {
    for usage in [crawlgate(&["log", "ack", "--help"]), ack_by_nobody(&[])] {
        let line = "Usage: crawlgate log ack --note <TEXT> [--by <NAME>] [OPTIONS] <ID>...\n";
        says!(usage, line);
    }
    let error = ack_by_nobody(&["--note", "seen", "01KB7W3Y5E000000000VY7H1Q2"]);
    says!(error, "nothing is acknowledged; name the person: --by NAME");
    let words = ["--note", "seen", "--by", "ada", "01KB7W3Y5E000000000VY7H1Q2"];
    let error = ack_by_nobody(&words);
    assert!(!error.contains("--by"), "{error}");
}

#[test]
fn commands_over_decisions_say_how_to_name_them() {
    let home = tempfile::tempdir().unwrap();
    #[rustfmt::skip] // one row, one case
    let cases: [(&[&str], &[&str]); 4] = [
        (&["audit", "verify"], &["crawlgate audit verify [OPTIONS] <ID>\n", "crawlgate audit verify [OPTIONS] --all\n"]),
        (&["audit", "prove"], &["crawlgate audit prove [OPTIONS] <ID>\n", "crawlgate audit prove [OPTIONS] <CONDITIONS>\n"]),
        (&["log", "--log", ""], &["--log: a name is empty", "'*' for all"]),
        (&["audit", "verify", "--all", "--log", "g1,"], &["--log: a name is empty"]),
    ];
    for (words, wanted) in cases {
        let mut command = Command::new(CRAWLGATE);
        command.args(words).env_clear().env("HOME", home.path());
        let output = command.current_dir(home.path()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        for wanted in wanted {
            assert!(error.contains(wanted), "{words:?}: {error}");
        }
    }
}

#[test]
fn an_acknowledgement_says_who_and_why() {
    let id = "01KB7W3Y5E000000000VY7H1Q2";
    let long = "x".repeat(1_001);
    #[rustfmt::skip] // one row, one case
    let cases = [
        (["--by", " ", "--note", "seen", id], "--by: expected some text"),
        (["--by", "ada", "--note", "", id], "--note: expected some text"),
        (["--by", "ada", "--note", &long, id], "--note: expected at most 1,000 octets"),
    ];
    for (words, wanted) in cases {
        // The person and the note are read before the store is opened.
        let error = ack_by_nobody(&words);
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn other_shells_have_completions_of_all_commands() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let text = crawlgate(&["completions", shell]);
        for command in commands() {
            assert!(text.contains(&command), "{shell}: {command}");
        }
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("man1");
    assert_eq!(crawlgate(&["man", "--to", to.to_str().unwrap()]), "");
    let page = |name: &str| fs::read_to_string(to.join(format!("{name}.1"))).unwrap();
    assert_eq!(page("crawlgate"), crawlgate(&["man"]));
    let names = commands();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let text = page(&format!("crawlgate-{name}"));
        assert!(text.contains(".SH SYNOPSIS"), "{name}: {text}");
    }
    let verify = page("crawlgate-audit-verify");
    says!(verify, "\\-\\-all");
    // Commands that crawlgate itself starts have none.
    assert!(!to.join("crawlgate-confined.1").exists());
}

#[test]
fn the_version_is_one_line_or_names_the_build() {
    let version = concat!("crawlgate ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(crawlgate(&["-V"]), version);
    let long = crawlgate(&["--version"]);
    let rest = long.strip_prefix(version).expect(&long);
    let facts: Vec<(&str, &str)> =
        rest.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let [("commit", commit), ("date", date), ("target", target), ("features", "telemetry")] =
        facts[..]
    else {
        panic!("{long}");
    };
    assert!(!commit.is_empty() && !date.is_empty(), "{long}");
    assert!(target.starts_with(std::env::consts::ARCH) && target.contains("-linux-"), "{long}");
    // The pages of the same version are the same, whatever its commit.
    let page = crawlgate(&["man"]);
    says!(page, ".SH VERSION\nv");
    assert!(!page.contains("commit"), "{page}");
}

#[test]
fn a_place_that_takes_no_pages_is_named() {
    let output = Command::new(CRAWLGATE).args(["man", "--to", "/dev/null/man1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("crawlgate: /dev/null/man1: "), "{errors}");
}

#[test]
fn variables_set_keys_and_are_named() {
    let home = tempfile::tempdir().unwrap();
    let config = |command: &str, value: &str| {
        let mut program = Command::new(CRAWLGATE);
        let program = program.args(["config", command]).env_clear().current_dir(home.path());
        program.env("CRAWLGATE_LIMITS__DRAIN", value).output().unwrap()
    };
    let show = config("show", "7s");
    let text = String::from_utf8(show.stdout).unwrap();
    assert!(text.starts_with("# built-in defaults, CRAWLGATE_LIMITS__DRAIN\n"), "{text}");
    says!(text, "\ndrain = \"7s\"");
    let check = config("check", "soon");
    assert_eq!(check.status.code(), Some(2));
    let errors = String::from_utf8(check.stderr).unwrap();
    assert!(errors.starts_with("CRAWLGATE_LIMITS__DRAIN: [limits] drain = \"soon\": "), "{errors}");
}
