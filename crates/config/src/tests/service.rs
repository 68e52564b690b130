//! The holder of the store that a command reads.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;
use crate::{Holder, Kept};

/// A system with a service that has run, and a user's home.
struct System {
    root: tempfile::TempDir,
    places: Places,
}

impl System {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc/crawlgate", "var/lib/crawlgate/ca", "home/.local/state"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let home = root.path().join("home");
        let places =
            Places::from_variables(|name| (name == "HOME").then(|| home.clone().into()), None);
        let system = Self { root, places };
        system.write("etc/crawlgate/config.toml", "[limits]\ndrain = '7s'\n");
        system.write("var/lib/crawlgate/crawlgate.db", "");
        system.write("var/lib/crawlgate/ca/ca.crt", "");
        system
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Returns the configuration for a command, and the holder of what it reads.
    fn found(&self, kept: Kept, places: &Places, variables: &[(&str, &str)]) -> (Config, Holder) {
        let root = self.root.path();
        let candidates = ["home/.config/crawlgate/config.toml", "etc/crawlgate/config.toml"];
        let candidates = candidates.map(|name| root.join(name));
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let variables = Variables::of(variables);
        Config::find_to_read(&candidates, places, &variables, kept, root).unwrap()
    }

    #[track_caller]
    fn is_own(&self, kept: Kept, variables: &[(&str, &str)]) {
        let (_, holder) = self.found(kept, &self.places, variables);
        assert_eq!(holder, Holder::User);
    }
}

#[test]
fn a_user_without_a_store_reads_that_of_the_service() {
    let system = System::new();
    let directory = system.root.path().join("var/lib/crawlgate");
    let (config, holder) = system.found(Kept::Store, &system.places, &[]);
    assert_eq!(holder, Holder::Service(directory.clone()));
    assert_eq!(config.store.path, Some(directory.join("crawlgate.db")));
    assert_eq!(config.limits.drain, secs(7), "by the configuration of the service");
    let (config, holder) = system.found(Kept::Authority, &system.places, &[]);
    assert_eq!(holder, Holder::Service(directory.clone()));
    assert_eq!(config.tls.ca_cert, directory.join("ca/ca.crt"));
    fs::remove_file(system.root.path().join("etc/crawlgate/config.toml")).unwrap();
    let (_, holder) = system.found(Kept::Store, &system.places, &[]);
    assert_eq!(holder, Holder::Service(directory), "a service needs no file");
}

#[test]
fn a_place_of_the_users_own_comes_first() {
    let named = System::new();
    named.is_own(Kept::Store, &[("CRAWLGATE_STORE__PATH", "/named.db")]);
    let (config, _) =
        named.found(Kept::Store, &named.places, &[("CRAWLGATE_STORE__PATH", "/named.db")]);
    assert_eq!(config.store.path, Some("/named.db".into()));
    named.is_own(Kept::Store, &[("CRAWLGATE_STORE__PATH", "\"\"")]);
    let state =
        Places::from_variables(|name| (name == "STATE_DIRECTORY").then(|| "/none".into()), None);
    assert_eq!(named.found(Kept::Store, &state, &[]).1, Holder::User, "systemd's");

    let kept = System::new();
    kept.write("home/.local/state/crawlgate/crawlgate.db", "");
    kept.is_own(Kept::Store, &[]);
    kept.write("home/.local/share/crawlgate/ca.crt", "");
    kept.is_own(Kept::Authority, &[]);

    let configured = System::new();
    configured.write("home/.config/crawlgate/config.toml", "");
    configured.is_own(Kept::Store, &[]);

    let no_service = System::new();
    fs::remove_dir_all(no_service.root.path().join("var/lib/crawlgate")).unwrap();
    no_service.is_own(Kept::Store, &[]);
}

#[test]
fn a_directory_that_the_user_may_not_enter_is_told() {
    let system = System::new();
    let directory = system.root.path().join("var/lib/crawlgate");
    let closed = |mode| fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
    closed(0o000);
    let (config, holder) = system.found(Kept::Store, &system.places, &[]);
    closed(0o700);
    // Root enters any directory.
    if rustix::process::geteuid().is_root() {
        assert_eq!(holder, Holder::Service(directory));
    } else {
        assert_eq!(holder, Holder::Closed(directory));
        assert_eq!(config.store.path, Some(system.places.store().0));
    }
}
