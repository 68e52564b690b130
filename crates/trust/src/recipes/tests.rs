//! Tests of the recipes: what they name, and that a shell runs nothing.

use super::*;

fn setup() -> Setup {
    Setup {
        proxy: "http://127.0.0.1:8118".into(),
        ca: "/srv/gate keeper/ca.crt".into(),
        next: None,
        authorities: "/srv/gate keeper/authorities.pem".into(),
        bundle: "/srv/bundle.pem".into(),
        truststore: "/srv/truststore.jks".into(),
        spki: "AbC/+=".into(),
    }
}

#[test]
fn every_client_has_a_recipe_that_names_the_proxy_or_the_authority() {
    let setup = setup();
    let all = setup.all();
    for client in CLIENTS {
        let recipe = setup.one(client).unwrap().to_string();
        assert!(recipe.starts_with("# ") && recipe.lines().count() > 1, "{client}: {recipe}");
        assert!(
            recipe.contains("127.0.0.1") || recipe.contains("'/srv/gate keeper/ca.crt'"),
            "{client}: {recipe}"
        );
        assert!(all.contains(&recipe), "{client}");
    }
    assert!(setup.one("gopher").is_none());
}

#[test]
fn a_shell_that_evaluates_it_sets_variables_and_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("ran");
    // Text that breaks out of its quotes or its comment leaves a trace.
    let hostile = format!("/srv/it's $(>{0})\n>{0} #", trace.display());
    let setup = Setup {
        ca: hostile.clone(),
        next: Some(hostile.clone()),
        authorities: hostile.clone(),
        bundle: hostile.clone(),
        truststore: hostile.clone(),
        ..setup()
    };
    // The shell reports a word that is no builtin as not found; otherwise only its own variables may differ.
    let script = "PATH=/nowhere; set -u; eval \"$1\" && printf '%s|' \"$CURL_CA_BUNDLE\" \"$http_proxy\" \
                  \"${no_proxy-none}${NO_PROXY-none}${npm_config_noproxy-none}\"";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh", &setup.all()])
        .envs(["no_proxy", "NO_PROXY", "npm_config_noproxy"].map(|name| (name, "site.test")))
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{hostile}|http://127.0.0.1:8118|nonenonenone|")
    );
    assert!(!trace.exists(), "something ran");
    for client in CLIENTS {
        let recipe = Setup {
            bundle: "/b".into(),
            ca: "/c".into(),
            next: None,
            authorities: "/a".into(),
            truststore: "/t".into(),
            ..setup.clone()
        };
        for line in recipe.one(client).unwrap().to_string().lines() {
            assert!(
                ["# ", "export ", "unset "].iter().any(|start| line.starts_with(start)),
                "{client}: {line}"
            );
        }
    }
}

#[test]
fn the_proxy_is_named_by_an_address_that_can_be_connected_to() {
    for (listens, url) in [
        ("127.0.0.1:8118", "http://127.0.0.1:8118"),
        ("0.0.0.0:3128", "http://127.0.0.1:3128"),
        ("[::]:3128", "http://[::1]:3128"),
        ("192.0.2.7:80", "http://192.0.2.7:80"),
    ] {
        assert_eq!(proxy_url(&[listens.parse().unwrap()]), url);
    }
    assert_eq!(proxy_url(&[]), "http://127.0.0.1:8118");
}

#[test]
fn words_reach_the_shell_as_they_are() {
    for (word, shell) in [
        ("/a/b.pem", "/a/b.pem"),
        ("/a b", "'/a b'"),
        ("it's", r"'it'\''s'"),
        ("$HOME", "'$HOME'"),
        ("", "''"),
    ] {
        assert_eq!(quoted(word), shell);
    }
}
