//! The kinds of listeners, and the facts that a connection tells about its client before any request.

use std::fs;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::Signal;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::support::{Gate, Latch, Origin, Reply, Response, Setup, Wire, eventually, program};

const RELOADED: &str = "the configuration was read again";

/// Starts a gate with these tables; returns the addresses of its listeners, those of `[listen]` first.
pub(crate) fn gate_with(tables: &str, listeners: usize) -> (Gate, Vec<String>) {
    gate_in(tables, listeners, |_| ())
}

pub(crate) fn gate_in(
    tables: &str,
    listeners: usize,
    configure: impl FnOnce(&mut Setup),
) -> (Gate, Vec<String>) {
    let gate = Gate::with(|setup| {
        setup.tables(tables);
        setup.set("limits", "header_timeout", "\"1s\"");
        configure(setup);
    });
    let places = eventually("the listeners", || {
        let said = gate.said();
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let places: Vec<String> = whole
            .lines()
            .filter_map(|line| Some(line.split("listening on ").nth(1)?.to_owned()))
            .collect();
        (places.len() == listeners).then_some(places)
    });
    (gate, places)
}

pub(crate) fn at(place: &str) -> Wire {
    Wire::connect(place.parse::<SocketAddr>().unwrap())
}

fn port(place: &str) -> u16 {
    place.parse::<SocketAddr>().unwrap().port()
}

/// Returns the messages about a wrong set-up.
fn refused(configure: impl FnOnce(&mut Setup)) -> String {
    let mut setup = Setup::new();
    configure(&mut setup);
    let output = setup.command("serve").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_listener_of_its_own_serves_beside_the_simple_ones_and_is_never_dialled() {
    let tables = "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:0'\n";
    let (gate, places) = gate_with(tables, 2);
    let origin = Origin::http();
    for (path, place) in [("/1", &places[0]), ("/2", &places[1])] {
        let url = origin.url(path);
        at(place).get(&url).is_origins(200, &format!("page {path}"));
        let record = gate.record_of(&url);
        assert!(record["client"]["address"].is_string(), "{record}");
    }
    for place in &places {
        let answer = gate.get(&format!("http://{place}/"));
        gate.refused(&answer, 403, "address_prohibited");
    }
}

#[test]
fn without_a_simple_address_there_are_only_listeners() {
    let tables = "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:0'\n";
    let (_gate, places) = gate_in(tables, 1, |setup| {
        setup.set("listen", "address", "[]");
    });
    let origin = Origin::http();
    at(&places[0])
        .get(&origin.url("/"))
        .is_origins(200, "page /");
}

fn ask_by(socket: &Path, url: &str) -> Response {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {url} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    Response::read(&mut reader, "GET").unwrap().unwrap()
}

#[test]
fn a_unix_socket_serves_the_users_that_its_permissions_admit() {
    let tables = "[[listener]]\nname = 'local'\nunix = 'run/gate.sock'\nmode = '0660'\n";
    let (mut gate, places) = gate_with(tables, 2);
    let socket = gate.setup.dir().join("run/gate.sock");
    assert_eq!(Path::new(&places[1]), socket);
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let origin = Origin::with_rules("User-agent: *\nDisallow: /private\n");
    ask_by(&socket, &origin.url("/page")).is_origins(200, "page /page");
    let record = gate.denied(&ask_by(&socket, &origin.url("/private")));
    assert_eq!(record["client"]["address"], "127.0.0.1:0", "{record}");
    // A second instance does not take the socket away.
    let mut setup = Setup::new();
    setup.tables(&tables.replace("run/gate.sock", &socket.display().to_string()));
    let second = setup.command("serve").output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another process listens there"), "{said}");
    // A socket that a killed process has left is replaced.
    gate.restart(Signal::KILL);
    eventually("the socket to answer", || {
        gate.said().contains("gate.sock").then_some(())
    });
    ask_by(&socket, &origin.url("/again")).is_origins(200, "page /again");
    gate.signal(Signal::TERM);
    gate.wait();
    assert!(!socket.exists(), "its file is left");
}

#[test]
fn a_proxy_over_https_with_a_certificate_of_the_local_ca() {
    let tables = "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\n\
                  names = ['localhost', 'proxy.test', '127.0.0.1']\n";
    let (gate, places) = gate_with(tables, 2);
    let (plain, tls) = (Origin::http(), Origin::https());
    for name in ["localhost", "proxy.test", "127.0.0.1"] {
        let url = plain.url(&format!("/{name}"));
        let mut wire = at(&places[1]).tls(name, &gate.ca_pem());
        wire.get(&url).is_origins(200, &format!("page /{name}"));
    }
    assert!(
        at(&places[1])
            .try_tls("other.test", &gate.ca_pem())
            .is_err(),
        "a name that it is not for"
    );
    // TLS within TLS, with an independent client.
    let ca = gate.setup.dir().join("ca.crt");
    for url in [
        plain.url("/curl"),
        format!("https://site.test:{}/curl", tls.port()),
    ] {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "20",
                "--noproxy",
                "",
            ])
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
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "page /curl",
            "{said}"
        );
    }
    // The listener does not speak plain HTTP, and does not wait for a silent client.
    let mut wrong = at(&places[1]);
    wrong.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
        plain.url("/no")
    ));
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
    (
        params.self_signed(&key).unwrap().pem(),
        Issuer::new(params, key),
    )
}

/// Returns a certificate for a name, and its key.
fn leaf(name: &str, issuer: &Issuer<'_, KeyPair>) -> (String, String) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    (
        params.signed_by(&key, issuer).unwrap().pem(),
        key.serialize_pem(),
    )
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
    early.get(&origin.url("/1")).is_origins(200, "page /1");
    assert!(at(&places[1]).try_tls("two.test", &ca).is_err());
    let (cert, key) = leaf("two.test", &issuer);
    gate.reload(
        |setup| {
            keep(setup.dir(), "proxy.pem", &cert, 0o644);
            keep(setup.dir(), "proxy.key", &key, 0o600);
        },
        RELOADED,
    );
    let mut wire = at(&places[1]).tls("two.test", &ca);
    wire.get(&origin.url("/2")).is_origins(200, "page /2");
    early.get(&origin.url("/3")).is_origins(200, "page /3");
    // An unreadable certificate leaves the old one in use.
    gate.reload(
        |setup| keep(setup.dir(), "proxy.pem", "none", 0o644),
        "the certificate stays as it was",
    );
    let mut wire = at(&places[1]).tls("two.test", &ca);
    wire.get(&origin.url("/4")).is_origins(200, "page /4");
}

#[test]
fn an_unusable_certificate_is_reported_with_its_file() {
    let (_, issuer) = authority();
    let (cert, key) = leaf("one.test", &issuer);
    let (_, other) = leaf("one.test", &issuer);
    for (case, cert, key, mode, told) in [
        (
            "a key that others may read",
            &cert,
            &key,
            0o644,
            "chmod 600",
        ),
        (
            "a key of another",
            &cert,
            &other,
            0o600,
            "it does not go with",
        ),
        ("no key", &cert, &cert, 0o600, "no private key in PEM form"),
        (
            "no certificate",
            &key,
            &key,
            0o600,
            "no certificate in PEM form",
        ),
    ] {
        let said = refused(|setup| {
            setup.tables(FILES);
            keep(setup.dir(), "proxy.pem", cert, 0o644);
            keep(setup.dir(), "proxy.key", key, mode);
        });
        assert!(
            said.contains(told) && said.contains("[[listener]] \"tls\""),
            "{case}: {said}"
        );
    }
}

/// Returns a client configuration that trusts the gate's CA and presents this certificate.
fn shows(ca_pem: &str, shown: Option<&(String, String)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap())
        .unwrap();
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
        wire.unwrap()
            .get(&url)
            .is_origins(200, &format!("page /{number}"));
        assert_eq!(gate.record_of(&url)["client"]["name"], client, "{case}");
    }
    assert_eq!(origin.seen_but_robots().len(), 4);
}

/// Returns a header of the PROXY protocol, version 2, for `192.0.2.7:40000`.
fn v2(command: u8) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, 0x11, 0, 12]);
    header.extend([192, 0, 2, 7, 127, 0, 0, 1, 0x9c, 0x40, 0, 80]);
    header
}

#[test]
fn a_load_balancer_says_for_whom_it_connects_and_nobody_else_may() {
    let listener = |name: &str, more: &str| {
        format!(
            "[[listener]]\nname = '{name}'\naddress = '127.0.0.1:0'\nallow = '192.0.2.0/24'\n{more}\n"
        )
    };
    let tables = [
        listener("balanced", "proxy_protocol_from = '127.0.0.1'"),
        listener("other", "proxy_protocol_from = '198.51.100.7'"),
        listener(
            "tls",
            "proxy_protocol_from = '127.0.0.1'\ntls = true\nnames = 'localhost'",
        ),
    ]
    .concat();
    let (gate, places) = gate_with(&tables, 4);
    let [_, balanced, other, tls] = places.as_slice() else {
        panic!("four listeners")
    };
    let origin = Origin::http();
    let v1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 80\r\n".to_vec();
    let cases: [(&str, &str, Vec<u8>, &str); 6] = [
        ("v1", balanced, v1.clone(), "192.0.2.7:40000"),
        ("v2", balanced, v2(1), "192.0.2.7:40000"),
        ("v2-local", balanced, v2(0), "127.0.0.1:"),
        (
            "v1-unknown",
            balanced,
            b"PROXY UNKNOWN\r\n".to_vec(),
            "127.0.0.1:",
        ),
        ("not-a-balancer", other, Vec::new(), "127.0.0.1:"),
        ("before-tls", tls, v1.clone(), "192.0.2.7:40000"),
    ];
    for (case, place, header, address) in cases {
        let url = origin.url(&format!("/{case}"));
        let mut wire = at(place);
        wire.send(header);
        if place == tls {
            wire = wire.tls("localhost", &gate.ca_pem());
        }
        wire.get(&url).is_origins(200, &format!("page /{case}"));
        let record = gate.record_of(&url);
        let recorded = record["client"]["address"].as_str().unwrap();
        assert!(recorded.starts_with(address), "{case}: {record}");
    }
    assert_eq!(origin.seen_but_robots().len(), 6);

    // A balancer without a header, with a malformed one, or with the address of a client that may not connect.
    let get = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/no"));
    let before = |header: &[u8]| [header, get.as_bytes()].concat();
    for (case, octets) in [
        ("no header", before(b"")),
        (
            "garbage",
            before(b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c"),
        ),
        (
            "another family",
            before(b"PROXY UDP4 192.0.2.7 127.0.0.1 1 2\r\n"),
        ),
        (
            "a header that is too long",
            before(&[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200], b"\r\n"].concat()),
        ),
        (
            "a client that may not connect",
            before(b"PROXY TCP4 198.51.100.9 127.0.0.1 1 2\r\n"),
        ),
        ("half a header, slowly", b"PROXY TCP4 192.0".to_vec()),
        ("nothing", Vec::new()),
    ] {
        let mut wire = at(balanced);
        wire.send(octets);
        assert_eq!(wire.drain(), 0, "{case}");
    }
    // A peer that is not a balancer and sends a header has sent a malformed request.
    for (case, header, status) in [("v1", v1, 505), ("v2", v2(1), 400)] {
        let mut wire = at(other);
        wire.send(before(&header));
        let record = gate.refused(&wire.response("GET"), status, "bad_request");
        let address = record["client"]["address"].as_str().unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{case}: {record}");
        assert!(wire.is_closed(), "{case}");
    }
    assert_eq!(origin.seen_but_robots().len(), 6);
}

#[test]
fn limits_hold_for_the_clients_behind_a_balancer() {
    let tables = "[[listener]]\nname = 'balanced'\naddress = '127.0.0.1:0'\nopen = true\n\
                  proxy_protocol_from = '127.0.0.1'\n";
    let (gate, places) = gate_in(tables, 2, |setup| {
        setup.set("limits", "connections_per_client", "1");
    });
    let latch = Latch::new();
    let slow = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let plain = Origin::http().on("/slow", [slow]);
    let from = |address: &str| {
        let mut wire = at(&places[1]);
        wire.send(format!("PROXY TCP4 {address} 127.0.0.1 1 2\r\n"));
        wire
    };
    let mut first = from("192.0.2.1");
    first.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
        plain.url("/slow")
    ));
    latch.arrivals(1);
    let answer = from("192.0.2.1").get(&plain.url("/2"));
    let record = gate.refused(&answer, 429, "client_limit");
    assert_eq!(record["client"]["address"], "192.0.2.1:1", "{record}");
    from("192.0.2.2")
        .get(&plain.url("/3"))
        .is_origins(200, "page /3");
    latch.open();
    assert_eq!(first.response("GET").status, 204);
}

#[test]
fn a_socket_that_systemd_passes_by_name_belongs_to_that_listener() {
    let mut setup = Setup::new();
    setup.tables("[[listener]]\nname = 'local'\nunix = 'unused.sock'\n");
    let (tcp, path) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        setup.dir().join("passed.sock"),
    );
    let address = tcp.local_addr().unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 3<&0 4>&1 </dev/null >/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=any:local; \
             exec \"$0\" serve --config \"$1\"",
        ])
        .arg(program())
        .arg(setup.write())
        .current_dir(setup.dir())
        .stdin(Stdio::from(OwnedFd::from(tcp)))
        .stdout(Stdio::from(OwnedFd::from(unix)))
        .stderr(Stdio::piped());
    let gate = Gate::spawn(setup, command);
    assert_eq!(gate.address, address);
    gate.wait_said("passed.sock");
    let origin = Origin::http();
    gate.get(&origin.url("/1")).is_origins(200, "page /1");
    ask_by(&path, &origin.url("/2")).is_origins(200, "page /2");
    assert!(!gate.setup.dir().join("unused.sock").exists());
    gate.signal(Signal::TERM);
    eventually("the process to end", || {
        UnixStream::connect(&path).is_err().then_some(())
    });
    assert!(path.exists(), "a file that is systemd's was taken away");
}
