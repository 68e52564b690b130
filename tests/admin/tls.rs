//! The admin listener over TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::support::admin_gate::json as body;
use crate::support::{AdminGate, Origin, RULES, Response, Setup, Wire};

/// Returns an authority for a test: its certificate and its signer.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

/// Puts a certificate for a name, and its key, into the directory.
fn put(dir: &Path, name: &str, issuer: &Issuer<'_, KeyPair>) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, issuer).unwrap().pem();
    keep(dir, "console.pem", &cert, 0o644);
    keep(dir, "console.key", &key.serialize_pem(), 0o600);
}

fn keep(dir: &Path, name: &str, text: &str, mode: u32) {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

fn name_files(setup: &mut Setup) {
    setup.set("admin", "cert", "\"console.pem\"");
    setup.set("admin", "key", "\"console.key\"");
    setup.set("admin", "hosts", "[\"one.test\", \"two.test\"]");
}

fn gate(issuer: &Issuer<'_, KeyPair>, configure: impl FnOnce(&mut Setup)) -> AdminGate {
    AdminGate::with(|setup| {
        name_files(setup);
        put(setup.dir(), "one.test", issuer);
        configure(setup);
    })
}

/// Sends a request over TLS to this name.
fn ask(gate: &AdminGate, ca: &str, name: &str, line: &str, fields: &str, body: &str) -> Response {
    let length = body.len();
    Wire::connect(gate.address).tls(name, ca).exchange(format!(
        "{line} HTTP/1.1\r\nHost: {name}\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ))
}

#[test]
fn the_console_speaks_tls_and_reads_its_certificate_again_at_a_reload() {
    let (ca, issuer) = authority();
    let mut gate = gate(&issuer, |_| ());
    says!(gate.said(), &format!("console: https://{}/", gate.address));
    let mut early = Wire::connect(gate.address).tls("one.test", &ca);
    let status = "GET /api/v1/status HTTP/1.1\r\nHost: one.test\r\n\r\n";
    assert_eq!(early.exchange(status).status, 200);
    assert!(Wire::connect(gate.address).try_tls("two.test", &ca).is_err());
    let dir = gate.setup.dir().to_owned();
    gate.process.reload(|_| put(&dir, "two.test", &issuer));
    assert_eq!(ask(&gate, &ca, "two.test", "GET /live", "", "").status, 200);
    assert_eq!(early.exchange(status).status, 200, "a session goes on");
    // A key that cannot be used leaves the old certificate in use.
    gate.process.reload_until(
        |_| keep(&dir, "console.key", "none", 0o600),
        "the certificate stays as it was",
    );
    let said = gate.said();
    says!(said, "[admin] key ", "console.key");
    assert_eq!(ask(&gate, &ca, "two.test", "GET /live", "", "").status, 200);
    // Commands reach the process by its socket.
    let (code, said, told) = gate.beside("ready", &[]);
    assert_eq!((code, &*said), (Some(0), "ready\n"), "{told}");
}

#[test]
fn cookies_and_forms_keep_to_tls() {
    let (ca, issuer) = authority();
    let origin = Origin::with_rules(RULES);
    let gate = gate(&issuer, |_| ());
    let denied = gate.process.get(&origin.url("/private/a"));
    let id = gate.process.denied(&denied)["id"].as_str().unwrap().to_owned();
    let page = ask(&gate, &ca, "one.test", "GET /try", "Accept: text/html\r\n", "").text();
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
    let csrf = rest.split('"').next().unwrap();
    let form = format!("csrf={csrf}&by=Ada&note=seen");
    let line = format!("POST /decisions/{id}/acknowledge");
    let post = |from: &str| {
        let fields =
            format!("Content-Type: application/x-www-form-urlencoded\r\nOrigin: {from}\r\n");
        ask(&gate, &ca, "one.test", &line, &fields, &form)
    };
    assert_eq!(post("http://one.test").status, 403, "a page that another could have sent");
    assert_eq!(post("https://two.test").status, 403);
    let done = post("https://one.test");
    assert_eq!(done.status, 303, "{}", done.text());
    let cookie = done.field("set-cookie").unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
}

#[test]
fn a_plain_request_is_closed_and_a_stalled_handshake_holds_no_slot() {
    let (ca, issuer) = authority();
    let gate = gate(&issuer, |setup| setup.set("admin", "connections", "1"));
    let mut plain = Wire::connect(gate.address);
    plain.send("GET /api/v1/status HTTP/1.1\r\nHost: one.test\r\n\r\n");
    let said = plain.read_all();
    assert!(!said.starts_with(b"HTTP/"), "{said:?}");
    let mut silent = Wire::connect(gate.address);
    let mut half = Wire::connect(gate.address);
    half.send(b"\x16\x03\x01\x02\x00\x01");
    // Each new connection takes the slot of one that has not come to a request.
    for _ in 0..3 {
        assert_eq!(ask(&gate, &ca, "one.test", "GET /api/v1/status", "", "").status, 200);
    }
    assert_eq!(silent.read_all(), b"");
    assert_eq!(half.read_all(), b"");
}

#[test]
fn an_unusable_certificate_is_refused_at_the_start() {
    let (_, issuer) = authority();
    let refused = |configure: &dyn Fn(&mut Setup)| {
        let mut setup = Setup::new();
        setup.set("admin", "address", "\"127.0.0.1:0\"");
        name_files(&mut setup);
        put(setup.dir(), "one.test", &issuer);
        configure(&mut setup);
        let (checked, _, of_check) = setup.run("config", &["check"]);
        assert_eq!(checked, Some(2), "{of_check}");
        let (_, said) = setup.ends(2, "serve", &[]);
        lacks!(said, "listening on"; "no crawler is let in");
        for said in [&said, &of_check] {
            says!(said, "[admin] ");
        }
        said
    };
    let said = refused(&|setup| keep(setup.dir(), "console.key", "none", 0o600));
    says!(said, "console.key: no private key in PEM form");
    let open = |setup: &mut Setup| {
        let key = fs::read_to_string(setup.dir().join("console.key")).unwrap();
        keep(setup.dir(), "console.key", &key, 0o644);
    };
    assert!(refused(&open).contains("chmod 600"));
    let said = refused(&|setup| fs::remove_file(setup.dir().join("console.pem")).unwrap());
    says!(said, "[admin] cert ");
}

#[test]
fn users_sign_in_over_tls_and_act_under_their_names() {
    let (ca, issuer) = authority();
    // printf %s 0123456789abcdef | sha256sum
    let digest = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
    let gate = gate(&issuer, |setup| {
        setup.set("admin", "address", "\"0.0.0.0:0\"");
        setup.tables(&format!(
            "[[admin.user]]\nname = 'ada'\nrole = 'operate'\ntoken = 'sha256:{digest}'\n"
        ));
    });
    let fields = "Content-Type: application/json\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    let new =
        json!({"origin": "https://site.test", "action": "deny", "until": "1d", "reason": "r"});
    let line = "POST /api/v1/overrides";
    let added = ask(&gate, &ca, "one.test", line, fields, &new.to_string());
    assert_eq!((added.status, &body(&added)["by"]), (201, &json!("ada")), "{added:?}");
    assert_eq!(ask(&gate, &ca, "one.test", line, "", "{}").status, 401);
    let said = gate.said();
    assert!(!said.contains("in the clear"), "{said}");
}
