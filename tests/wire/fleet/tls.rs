//! TLS between instances and their engine: verified on both sides.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::peer::{Peer, program};
use crate::support::pki::self_signed_pem;
use crate::support::{Origin, RULES, Setup, origin_ca_pem, origin_pem};

/// Starts an engine that demands client certificates of the test CA, and shows one for `name`.
fn engine(name: &str) -> Option<Peer> {
    engine_with(origin_pem(name))
}

fn engine_with((certificate, key): (String, String)) -> Option<Peer> {
    program("redis-server")?;
    Some(Peer::start("redis-server", &[], |port, folder| {
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (cert, key) = (file("engine.pem", &certificate), file("engine.key", &key));
        let ca = file("ca.pem", origin_ca_pem());
        format!(
            "port 0\ntls-port {port}\ntls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {ca}\n\
             tls-auth-clients yes\nbind 127.0.0.1\nsave \"\"\nappendonly yes\ndir {}\n",
            folder.display()
        )
    }))
}

fn secret(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes an instance that shows a certificate of the test CA.
fn member(setup: &mut Setup, engine: &Peer) {
    let (certificate, key) = origin_pem("a1.test");
    fs::write(setup.dir().join("engine.pem"), certificate).unwrap();
    secret(&setup.dir().join("engine.key"), &key, 0o600);
    secret(&setup.dir().join("fleet.key"), super::KEY, 0o600);
    setup.set("fleet", "engine", &format!("\"127.0.0.1:{}\"", engine.port()));
    setup.set("fleet", "key_file", "\"fleet.key\"");
    setup.set("fleet", "name", "\"a1\"");
    setup.set("fleet", "timeout", "\"1s\"");
    setup.set("fleet", "tls", "true");
    setup.set("fleet", "cert", "\"engine.pem\"");
    setup.set("fleet", "key", "\"engine.key\"");
}

#[test]
fn an_instance_joins_by_tls_with_a_certificate_of_its_own() {
    let engine = or_skip!(engine("127.0.0.1"));
    let origin = Origin::with_rules(RULES);
    let gate = super::joined(|setup| member(setup, &engine));
    assert_eq!(gate.get(&origin.url("/page")).status, 200);
    gate.denies(&origin.url("/private"));
    let out = gate.succeeds("fleet", &["check"]);
    says!(out, "tls                    TLS 1.3");
}

#[test]
fn an_engine_may_show_a_self_signed_certificate_that_extra_roots_names() {
    let engine = or_skip!(engine_with(self_signed_pem()));
    let gate = super::joined(|setup| {
        member(setup, &engine);
        let (certificate, _) = self_signed_pem();
        fs::write(setup.dir().join("self-signed.pem"), certificate).unwrap();
        setup.set("tls", "extra_roots", "[\"self-signed.pem\"]");
    });
    gate.succeeds("fleet", &["check"]);
}

#[test]
fn the_check_tells_what_is_wrong_with_a_certificate() {
    let (Some(right), Some(stranger)) = (engine("127.0.0.1"), engine("elsewhere.test")) else {
        return;
    };
    let roots = ("tls", "extra_roots", "[]");
    let no = "\"\"";
    // What is set, the engine, and the words of the finding.
    type Row<'r> = (&'r [(&'r str, &'r str, &'r str)], &'r Peer, &'r str);
    #[rustfmt::skip] // one row, one case
    let rows: [Row<'_>; 4] = [
        (&[roots], &right, "issued under CN=test origins' CA"),
        (&[], &stranger, "for elsewhere.test, not for it"),
        (&[("fleet", "cert", no), ("fleet", "key", no)], &right, "ertificate"),
        (&[("fleet", "tls", "false"), ("fleet", "cert", no), ("fleet", "key", no)], &right, "reachable"),
    ];
    for (settings, engine, words) in rows {
        let mut setup = Setup::new();
        member(&mut setup, engine);
        for (section, key, value) in settings {
            setup.set(section, key, value);
        }
        setup.write();
        let (out, _) = setup.ends(1, "fleet", &["check"]);
        let one = out.lines().find(|line| line.starts_with("failure  reachable"));
        assert!(one.unwrap().contains(words), "{settings:?}: {out}");
    }
}

#[test]
fn a_private_key_that_others_can_read_is_refused() {
    let engine = or_skip!(engine("127.0.0.1"));
    let mut setup = Setup::new();
    member(&mut setup, &engine);
    setup.write();
    let key = setup.dir().join("engine.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let (_, said) = setup.ends(2, "fleet", &["check"]);
    says!(said, "[fleet] key ", "chmod 600");
}
