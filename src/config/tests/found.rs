//! The choice of the file.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;

#[test]
fn the_file_is_the_first_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, drain: &str| {
        let file = directory.path().join(name);
        fs::write(&file, format!("[limits]\ndrain = '{drain}'")).unwrap();
        file
    };
    let (option, variable, nearby) = (write("a", "1s"), write("b", "2s"), write("c", "3s"));
    let missing = directory.path().join("missing");
    let places = Places::default();
    let find = |option: Option<&Path>, variable: Option<&Path>, nearby: &Path| {
        let variable = variable.map(|path| path.as_os_str().to_owned());
        // A missing file is skipped.
        let candidates = [missing.clone(), nearby.to_owned()];
        Config::find(option, variable, &candidates, &places)
    };
    let drain = |found: Result<Config, ConfigError>| found.unwrap().limits.drain;

    assert_eq!(
        drain(find(Some(&option), Some(&variable), &nearby)),
        secs(1)
    );
    assert_eq!(drain(find(None, Some(&variable), &nearby)), secs(2));
    assert_eq!(drain(find(None, None, &nearby)), secs(3));
    assert_eq!(
        drain(find(None, Some(Path::new("")), &nearby)),
        secs(3),
        "an empty variable"
    );
    let none = find(None, None, &missing).unwrap();
    assert_eq!(none, Config::builtin(&places), "no file: the defaults");

    for (option, variable) in [(Some(&*missing), None), (None, Some(&*missing))] {
        let error = find(option, variable, &nearby).unwrap_err();
        assert!(
            matches!(error, ConfigError::Unreadable { .. }),
            "a file that was named must exist: {error}"
        );
    }
    fs::write(&nearby, [b'#', b'\n', 0xFF]).unwrap();
    let error = find(None, None, &nearby).unwrap_err().to_string();
    assert!(error.contains(":2: not TOML: not UTF-8"), "{error}");
    let way_out = format!("--config {} or", nearby.display());
    assert!(error.contains(&way_out), "how to name another: {error}");

    let mode = |mode| fs::set_permissions(&nearby, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&nearby, "[limits]\ndrain = '4s'").unwrap();
    mode(0o666);
    let error = find(None, None, &nearby).unwrap_err().to_string();
    assert!(
        error.contains("not read: others may write it (mode 0666)") && error.contains(&way_out),
        "{error}"
    );
    assert_eq!(drain(find(Some(&nearby), None, &option)), secs(4), "named");
    mode(0o644);
    assert_eq!(
        find(None, None, &nearby).unwrap().source,
        Source::File(nearby)
    );
}
