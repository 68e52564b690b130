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
        Config::find(option, variable, &candidates, &places, &Variables::default())
    };
    let drain = |found: Result<Config, ConfigError>| found.unwrap().limits.drain;

    assert_eq!(drain(find(Some(&option), Some(&variable), &nearby)), secs(1));
    assert_eq!(drain(find(None, Some(&variable), &nearby)), secs(2));
    assert_eq!(drain(find(None, None, &nearby)), secs(3));
    assert_eq!(drain(find(None, Some(Path::new("")), &nearby)), secs(3), "an empty variable");
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
    assert_eq!(find(None, None, &nearby).unwrap().source, Source::File(nearby));
}

/// Returns the configuration of a file, if there is one, and of these variables.
fn with(text: Option<&str>, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("crawlgate.toml");
    if let Some(text) = text {
        fs::write(&file, text).unwrap();
    }
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let variables = Variables::of(variables);
    Config::find(None, None, &[file], &Places::default(), &variables)
}

#[test]
fn variables_come_after_the_file() {
    let file = "[limits]\ndrain = '4s'\nconnections = 7\n[listen]\naddress = '127.0.0.1:1'\n";
    let variables = [
        ("CRAWLGATE_LIMITS__DRAIN", "5s"),
        ("CRAWLGATE_LISTEN__ADDRESS", "127.0.0.1:2"),
        ("CRAWLGATE_ROBOTS__CACHE__ORIGINS", "1234"),
        ("CRAWLGATE_LISTEN__HTTP2", "false"),
    ];
    let both = with(Some(file), &variables).unwrap();
    assert_eq!((both.limits.drain, both.limits.connections), (secs(5), 7));
    assert_eq!(both.listen.addresses, ["127.0.0.1:2".parse().unwrap()]);
    assert_eq!(both.robots.cache.origins, 1_234);
    assert!(!both.listen.http2);
    assert!(matches!(both.source, Source::File(_)));
    let alone = with(None, &variables).unwrap();
    assert_eq!(alone.limits.drain, secs(5));
    assert_eq!(alone.source, Source::BuiltIn);
    let unset = with(Some(file), &[("CRAWLGATE_LIMITS__DRAIN", "")]).unwrap();
    assert_eq!(unset.limits.drain, secs(4), "an empty variable");
    let path = with(
        None,
        &[("CRAWLGATE_TLS__CA_CERT", "a/ca.crt"), ("CRAWLGATE_TLS__CA_KEY", "a/ca.key")],
    );
    let here = std::env::current_dir().unwrap();
    assert_eq!(path.unwrap().tls.ca_cert, here.join("a/ca.crt"));
}

#[test]
fn faults_of_variables_name_them() {
    let variables = [
        ("CRAWLGATE_LIMITS__DRAIN", "soon"),
        ("CRAWLGATE_LIMITS__DRAINS", "5s"),
        ("CRAWLGATE_NONE__KEY", "1"),
        ("CRAWLGATE_CLIENT__NAME", "a"),
        ("CRAWLGATE_LISTEN__ADDRESS__X", "1"),
        ("CRAWLGATE_LISTEN__ADDRESS", "127.0.0.1:1"),
    ];
    let message = with(None, &variables[..4]).unwrap_err().to_string();
    let lines: Vec<&str> = message.lines().collect();
    let wanted = [
        "CRAWLGATE_CLIENT__NAME: client: each one is written [[client]]",
        "CRAWLGATE_LIMITS__DRAIN: [limits] drain = \"soon\": ",
        "CRAWLGATE_LIMITS__DRAINS: [limits] drains = \"5s\": unknown key; did you mean drain?",
        "CRAWLGATE_NONE__KEY: none: unknown section",
    ];
    assert_eq!(lines.len(), wanted.len(), "{message}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.starts_with(wanted), "{line} is not {wanted}");
    }
    // A file's faults keep their lines, and its name.
    let both = with(Some("[limits]\n\ndrain = 7\n[listen]\nx = 1"), &variables[1..2]);
    let message = both.unwrap_err().to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].contains("crawlgate.toml:3: [limits] drain = 7"), "{message}");
    assert!(lines[1].contains("crawlgate.toml:5: [listen] x = 1"), "{message}");
    assert!(lines[2].starts_with("CRAWLGATE_LIMITS__DRAINS: "), "{message}");
    // No message repeats a value that may be a secret.
    for (name, value) in [
        ("CRAWLGATE_FLEET__PASSWORD", "hunter2"),
        ("CRAWLGATE_SHIP__TOKEN", "hunter2"),
        ("CRAWLGATE_FLEET__ENGINE", "redis://:hunter2@engine.example:6379/0"),
    ] {
        let message = with(None, &[(name, value)]).unwrap_err().to_string();
        assert!(message.starts_with(name) && !message.contains("hunter2"), "{message}");
    }
    // One key cannot be a text and a section.
    let message = with(None, &variables[4..]).unwrap_err().to_string();
    assert!(message.starts_with("CRAWLGATE_LISTEN__ADDRESS__X: not TOML: "), "{message}");
}
