//! A store in the directory of a service, written by root: the service can open it afterwards.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use crate::support::Setup;

/// The user and the group of the service.
const SERVICE: (u32, u32) = (65_534, 65_533);

/// Asserts that all files of the directory belong to the service and are closed to all others.
#[track_caller]
fn all_belong_to_the_service(state: &Path, names: &[&str]) {
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(state).unwrap() {
        let entry = entry.unwrap();
        let facts = entry.metadata().unwrap();
        let owner = (facts.uid(), facts.gid(), facts.mode() & 0o777);
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(owner, (SERVICE.0, SERVICE.1, 0o600), "{name}");
        found.push(name);
    }
    for name in names {
        assert!(found.iter().any(|one| one == name), "{name}: {found:?}");
    }
}

#[test]
fn what_root_writes_into_a_services_store_belongs_to_the_service() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can write for another user");
        return;
    }
    let mut setup = Setup::new();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&state, Some(SERVICE.0), Some(SERVICE.1)).unwrap();
    setup.set("store", "path", "\"state/crawlgate.db\"");
    let run = |command: &str, words: &[&str]| {
        let output = setup.command(command).args(words).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {told}{error}");
        told
    };
    let one = ["add", "https://site.test", "deny", "--until", "3d"];
    let said = ["--by", "Ada", "--reason", "a letter"];
    run("override", &[&one[..], &said].concat());
    let files = ["crawlgate.db", "crawlgate.log.key", "crawlgate.log.state"];
    all_belong_to_the_service(&state, &files);
    let rebuilt = run("store", &["rebuild"]);
    says!(rebuilt, "override: 1 saved");
    all_belong_to_the_service(&state, &files);
    // While it is open, the engine keeps more files beside it.
    let reader = rusqlite::Connection::open(state.join("crawlgate.db")).unwrap();
    let count = || -> u32 {
        let query = "SELECT count(*) FROM override";
        reader.query_row(query, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(), 1);
    run("override", &["remove", "1", "--by", "Ada"]);
    all_belong_to_the_service(&state, &["crawlgate.db-wal", "crawlgate.db-shm"]);
    assert_eq!(count(), 1, "the row stays, with its end");
}
