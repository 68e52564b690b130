//! Listeners over TLS: minted certificates, those of the operator, and those of clients. Page: `docs/clients.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::listeners::{at, gate_in, port, refused};
use crate::support::{CrawlgateProcess, Origin};

#[test]
fn a_tls_handshake_on_a_listener_without_tls_is_told_apart() {
    // No time-out ends within the test.
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "header_timeout", "\"10m\""));
    let mut wire = gate.connect();
    let answer = wire.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    let record = gate.refused(&answer, 400, "bad_request");
    let detail = record["detail"].as_str().unwrap();
    assert!(detail.starts_with("A TLS handshake came where HTTP is spoken"), "{record}");
    assert_eq!(answer.problem()["detail"], detail);
    assert!(wire.is_closed());
    gate.wait_said("the crawler begins TLS where HTTP is spoken");
    gate.wait_said("give it a [[listener]] with tls = true");
}

#[test]
fn a_proxy_over_https_with_a_certificate_of_the_local_ca() {
    let tables = "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\n\
                  names = ['localhost', 'proxy.test', '127.0.0.1']\n";
    let (gate, places) = gate_in(tables, 2, |setup| {
        setup.set("limits", "header_timeout", "\"3s\"");
    });
    let (plain, tls) = (Origin::http(), Origin::https());
    for name in ["localhost", "proxy.test", "127.0.0.1"] {
        let url = plain.url(&format!("/{name}"));
        let mut wire = at(&places[1]).tls(name, &gate.ca_pem());
        wire.get(&url).is_origins(200, &format!("page /{name}"));
    }
    assert!(
        at(&places[1]).try_tls("other.test", &gate.ca_pem()).is_err(),
        "a name that it is not for"
    );
    // TLS within TLS, with an independent client.
    let ca = gate.setup.dir().join("ca.crt");
    for url in [plain.url("/curl"), format!("https://site.test:{}/curl", tls.port())] {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "20", "--noproxy", ""])
            .arg("--proxy")
            .arg(format!("https://localhost:{}", port(&places[1])))
            .arg("--proxy-cacert")
            .arg(&ca)
            .arg("--cacert")
            .arg(&ca)
            .arg(&url)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "page /curl", "{said}");
    }
    // The listener does not speak plain HTTP, and does not wait for a silent client.
    let mut wrong = at(&places[1]);
    wrong.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", plain.url("/no")));
    wrong.drain();
    at(&places[1]).drain();
    let mut half = at(&places[1]);
    half.send(b"\x16\x03\x01\x02\x00\x01");
    half.drain();
    assert!(!plain.seen_but_robots().contains(&"GET /no".to_owned()));
}

/// Returns an authority for a test: its certificate and its signer.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
}

/// Returns a certificate for a name, and its key.
fn leaf(name: &str, issuer: &Issuer<'_, KeyPair>) -> (String, String) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

fn keep(dir: &Path, name: &str, text: &str, mode: u32) {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

const FILES: &str = "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\n\
                     cert = 'proxy.pem'\nkey = 'proxy.key'\n";

#[test]
fn a_certificate_of_the_operator_is_read_again_at_a_reload() {
    let (ca, issuer) = authority();
    let (mut gate, places) = gate_in(FILES, 2, |setup| {
        let (cert, key) = leaf("one.test", &issuer);
        keep(setup.dir(), "proxy.pem", &cert, 0o644);
        keep(setup.dir(), "proxy.key", &key, 0o600);
    });
    let origin = Origin::http();
    let mut early = at(&places[1]).tls("one.test", &ca);
    early.passes(&origin.url("/1"));
    assert!(at(&places[1]).try_tls("two.test", &ca).is_err());
    let (cert, key) = leaf("two.test", &issuer);
    gate.reload(|setup| {
        keep(setup.dir(), "proxy.pem", &cert, 0o644);
        keep(setup.dir(), "proxy.key", &key, 0o600);
    });
    let mut wire = at(&places[1]).tls("two.test", &ca);
    wire.passes(&origin.url("/2"));
    early.passes(&origin.url("/3"));
    // An unreadable certificate leaves the old one in use.
    gate.reload_until(
        |setup| keep(setup.dir(), "proxy.pem", "none", 0o644),
        "the certificate stays as it was",
    );
    let mut wire = at(&places[1]).tls("two.test", &ca);
    wire.passes(&origin.url("/4"));
}

#[test]
fn an_unusable_certificate_is_reported_with_its_file() {
    let (_, issuer) = authority();
    let (cert, key) = leaf("one.test", &issuer);
    let (_, other) = leaf("one.test", &issuer);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("a key that others may read", &cert, &key, 0o644, "chmod 600"),
        ("a key of another", &cert, &other, 0o600, "it does not go with"),
        ("no key", &cert, &cert, 0o600, "no private key in PEM form"),
        ("no certificate", &key, &key, 0o600, "no certificate in PEM form"),
    ];
    for (case, cert, key, mode, told) in rows {
        let said = refused(|setup| {
            setup.tables(FILES);
            keep(setup.dir(), "proxy.pem", cert, 0o644);
            keep(setup.dir(), "proxy.key", key, mode);
        });
        says!(said, told, "[[listener]] \"tls\""; "{case}");
    }
}

/// Returns a client configuration that trusts the gate's CA and presents this certificate.
fn shows(ca_pem: &str, shown: Option<&(String, String)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match shown {
        None => config.with_no_client_auth(),
        Some((cert, key)) => config
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    })
}

#[test]
fn a_client_certificate_is_demanded_or_asked_for_and_known_again() {
    let (clients_ca, issuer) = authority();
    let (_, stranger) = authority();
    let (news, other) = (leaf("news.test", &issuer), leaf("other.test", &issuer));
    let forged = leaf("news.test", &stranger);
    let listener = |name: &str, demand: &str| {
        format!(
            "[[listener]]\nname = '{name}'\naddress = '127.0.0.1:0'\ntls = true\nnames = 'localhost'\n\
             client_ca = 'clients.pem'\nclient_cert = '{demand}'\n"
        )
    };
    let tables = [
        listener("strict", "required"),
        listener("lenient", "optional"),
        "[[client]]\nname = 'news'\ncertificates = ['news.test']\n\
         [[client]]\nname = 'rest'\nlisteners = ['strict', 'lenient']\n\
         [[client]]\nname = 'here'\nnetworks = '127.0.0.1'\n"
            .to_owned(),
    ]
    .concat();
    let (gate, places) = gate_in(&tables, 3, |setup| {
        keep(setup.dir(), "clients.pem", &clients_ca, 0o644);
    });
    let origin = Origin::http();
    let ca = gate.ca_pem();
    let cases = [
        ("required, none", 1, None, None),
        ("required, forged", 1, Some(&forged), None),
        ("required, its own", 1, Some(&news), Some("news")),
        ("required, another", 1, Some(&other), Some("rest")),
        ("optional, none", 2, None, Some("rest")),
        ("optional, forged", 2, Some(&forged), None),
        ("optional, its own", 2, Some(&news), Some("news")),
    ];
    for (number, (case, place, shown, client)) in cases.into_iter().enumerate() {
        let url = origin.url(&format!("/{number}"));
        let wire = at(&places[place]).handshake("localhost", shows(&ca, shown));
        let Some(client) = client else {
            // In TLS 1.3 the client learns of its refusal only later.
            if let Ok(mut wire) = wire {
                wire.send(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"));
                assert_eq!(wire.drain(), 0, "{case}");
            }
            continue;
        };
        wire.unwrap().get(&url).is_origins(200, &format!("page /{number}"));
        assert_eq!(gate.record_of(&url)["client"]["name"], client, "{case}");
    }
    assert_eq!(origin.seen_but_robots().len(), 4);
    // Once for an address, however often it comes.
    let told = "shows no certificate that the listener's client_ca verifies";
    gate.wait_said(told);
    assert_eq!(gate.said().matches(told).count(), 1);
}
