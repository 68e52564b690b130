//! A command under `crawlgate run`: its end, and the signals that it gets.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use crawlgate_cli::run::{CommandEnd, Reachable, Variables, start};

async fn sh(script: &str) -> CommandEnd {
    let environment = [("GATE".to_owned(), Some("open".to_owned()))].into();
    let arguments = ["-c".into(), script.into()];
    let running = start("sh".as_ref(), &arguments, &environment, Reachable::Anywhere);
    running.unwrap().end().await.unwrap()
}

// One test for all cases: signals go to the whole process, so two tests at once would disturb each other's commands.
#[tokio::test]
async fn a_command_keeps_its_exit_code_and_gets_our_signals() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("the exit code is passed through", "exit 7", CommandEnd::Exited(7), 7),
        ("success is passed through", "exit 0", CommandEnd::Exited(0), 0),
        ("a signal that kills the command", "kill -TERM $$", CommandEnd::Killed(15), 143),
        ("the command sees the environment", "test \"$GATE\" = open", CommandEnd::Exited(0), 0),
        ("a signal to us reaches the command", "trap 'exit 42' USR1; kill -USR1 $PPID; while :; do :; done", CommandEnd::Exited(42), 42),
        ("a signal that would end us reaches the command", "trap 'exit 43' TERM; kill -TERM $PPID; while :; do :; done", CommandEnd::Exited(43), 43),
        (
            "the command may go on after a signal",
            "trap 'exit 44' USR2; trap 'kill -USR2 $PPID' HUP; kill -HUP $PPID; while :; do :; done",
            CommandEnd::Exited(44),
            44,
        ),
    ];
    for (name, script, ended, code) in cases {
        let got = sh(script).await;
        assert_eq!(got, ended, "{name}");
        assert_eq!(got.exit_code(), code, "{name}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_has_the_exit_code_of_a_shell() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain-file");
    std::fs::write(&plain, "no program").unwrap();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no such program", directory.path().join("missing"), 127, "no such program"),
        ("not executable", plain, 126, "not executable"),
    ];
    for (name, program, code, says) in cases {
        let error =
            start(program.as_os_str(), &[], &Variables::new(), Reachable::Anywhere).unwrap_err();
        assert_eq!(error.exit_code(), code, "{name}");
        let said = error.to_string();
        assert!(said.contains(says) && said.contains(program.to_str().unwrap()), "{name}: {said}");
    }
}
