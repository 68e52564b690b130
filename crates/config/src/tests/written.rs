//! `config show`: the reader reads what the writer writes, and no secret is shown.

use super::*;

#[test]
fn what_is_read_is_written() {
    let other = parse(OTHER).expect("right");
    let public = parse("[admin]\npublic_try = '[::]:9001'").expect("right");
    assert_eq!(parse(&public.to_toml()).expect("right"), public);
    assert!(public.admin.public_try.is_some());
    let per_address = parse("[pace]\nper_address = true").expect("right");
    assert_eq!(parse(&per_address.to_toml()).expect("right"), per_address);
    assert!(per_address.pace.per_address);
    // A mark stands for the token's digest, as for each secret.
    let user = other.admin.users.first().expect("one");
    let token = user.token.as_ref().expect("a token");
    let marked = format!("*** ({})", token.mark(&user.name));
    let written = other.to_toml().replace(&marked, &token.reveal());
    assert_eq!(parse(&written).expect("what is written is right"), other);

    let default = Config {
        source: other.source.clone(),
        ..Config::default()
    };
    assert_eq!(parse(&default.to_toml()).expect("right"), default);
}

#[test]
fn the_password_of_an_upstream_proxy_is_not_shown() {
    let table = "[[upstream.proxy]]\nhosts = ['*']\nurl = ";
    let config = parse(&format!("{table}'http://u:sesame@proxy.example:3128'")).expect("right");
    let [
        Route {
            via: Via::Proxy(proxy),
            ..
        },
    ] = config.upstream.routes.as_slice()
    else {
        panic!("one proxy")
    };
    let Credentials::Inline { password, .. } = &proxy.credentials else {
        panic!("credentials")
    };
    assert_eq!(password.reveal(), "sesame");
    let wrong = parse(&format!("{table}'https://u:sesame@proxy.example'")).expect_err("https");
    for shown in [config.to_toml(), format!("{config:?}"), wrong.to_string()] {
        assert!(!shown.contains("sesame"), "{shown}");
    }
    assert!(config.to_toml().contains("http://u:***@proxy.example:3128"));
}

#[test]
fn the_hash_of_a_password_is_not_shown_but_its_change_is_reported() {
    let hash = |salt: &str| {
        format!("$argon2id$v=19$m=19456,t=2,p=1${salt}$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY")
    };
    let (one, other) = (
        hash("c29tZXNhbHRzb21lc2FsdA"),
        hash("b3RoZXJzYWx0b3RoZXJzYQ"),
    );
    let config = |hash: &str| {
        parse(&format!("[[client]]\nname = 'news'\npassword = '{hash}'")).expect("right")
    };
    let (before, after) = (config(&one), config(&other));
    let client = before.clients.first().expect("one");
    let stored = client.conditions.password.as_ref().expect("a hash");
    assert_eq!(stored.reveal(), one);
    let wrong = parse("[[client]]\nname = 'news'\npassword = 'sesame'").expect_err("no hash");
    let wrong = wrong.to_string();
    assert!(wrong.contains("crawlgate client add"), "{wrong}");
    for shown in [before.to_toml(), format!("{before:?}"), wrong] {
        assert!(
            !shown.contains("argon2id$v") && !shown.contains("sesame"),
            "{shown}"
        );
    }
    assert_eq!(before.reload_diff(&after).applied, ["client"]);
    assert_eq!(before.reloaded(&after).0.clients, after.clients);
}

#[test]
fn the_secrets_of_admin_users_are_not_shown_but_their_change_is_reported() {
    let user = |secret: &str| format!("[[admin.user]]\nname = 'ada'\nrole = 'read'\n{secret}");
    let token = |text: &str| TokenDigest::of(text.as_bytes()).reveal();
    let (one, other) = (token("0123456789abcdef"), token("fedcba9876543210"));
    let before = parse(&user(&format!("token = '{one}'"))).expect("right");
    let after = parse(&user(&format!("token = '{other}'"))).expect("right");
    assert_eq!(before.reload_diff(&after).applied, ["admin.user"]);
    let mut shown = vec![before.to_toml(), format!("{before:?}")];
    for wrong in [
        "token = 'sesame'",
        "password = 'sesame'",
        "passwort = 'sesame'",
    ] {
        shown.push(parse(&user(wrong)).expect_err(wrong).to_string());
    }
    for shown in shown {
        assert!(!shown.contains("sesame"), "{shown}");
        assert!(
            !shown.contains(&one) && !shown.contains(&one["sha256:".len()..]),
            "{shown}"
        );
    }
}
