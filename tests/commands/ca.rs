//! The authority as seen by the programs that must trust it: rustls, OpenSSL, Python's strictest mode, Java.
//!
//! A test without its program says so and passes; with `CRAWLGATE_REQUIRE_CLIENTS` it fails.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
    thread,
};

use crawlgate_ca::Authority;
use crawlgate_config::{Subtree, TlsConfig};
use crawlgate_system::clock::Clock;
use crawlgate_trust::{self as trust, TRUSTSTORE_PASSWORD};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName},
    version::{TLS12, TLS13},
};

mod made_elsewhere;

const HOSTS: [&str; 4] = ["www.example.com", "a_b.example", "127.0.0.1", "::1"];

fn tls(directory: &Path) -> TlsConfig {
    TlsConfig {
        ca_cert: directory.join("ca.crt"),
        ca_key: directory.join("ca.key"),
        leaf_cache: 100,
        ..crawlgate_config::Config::default().tls
    }
}

fn authority(directory: &Path) -> Authority {
    Authority::load_or_create(&tls(directory), Clock::system()).unwrap()
}

/// Starts a server that answers every request of every connection; it ends with the test.
fn serve(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                let server = ServerConnection::new(config).unwrap();
                let mut tls = StreamOwned::new(server, stream.unwrap());
                let mut head = Vec::new();
                let mut octet = [0];
                // A client reports its own failed handshake.
                while !head.ends_with(b"\r\n\r\n") {
                    match tls.read(&mut octet) {
                        Ok(1) => head.push(octet[0]),
                        _ => return,
                    }
                }
                let _ = tls.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                );
                tls.conn.send_close_notify();
                let _ = tls.flush();
            });
        }
    });
    address
}

/// Tells whether `program` is installed, by running `proof`; says that the test is left out if not.
fn has(program: &str, proof: &str) -> bool {
    let found =
        Command::new(program).arg(proof).output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(
            std::env::var_os("CRAWLGATE_REQUIRE_CLIENTS").is_none(),
            "{program} is required and missing"
        );
        eprintln!("left out: {program} is not installed");
    }
    found
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn succeed(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn rustls_shakes_hands_and_resumes_in_either_version() {
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    let own = CertificateDer::from(authority.certificate_der().to_vec());
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).unwrap();
    for (version, known) in [(&TLS13, ProtocolVersion::TLSv1_3), (&TLS12, ProtocolVersion::TLSv1_2)]
    {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let client = Arc::new(client);
        for host in HOSTS {
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let config = authority.server_config(host).unwrap();
                let mut server = ServerConnection::new(config).unwrap();
                let name = ServerName::try_from(host).unwrap();
                let mut client = ClientConnection::new(Arc::clone(&client), name).unwrap();
                shake(&mut client, &mut server);
                assert_eq!(client.protocol_version(), Some(known), "{host}");
                assert_eq!(client.alpn_protocol(), Some(&b"h2"[..]), "{host}");
                let chain = client.peer_certificates().unwrap();
                assert_eq!(chain.len(), 2, "{host}");
                assert_eq!(chain[1], own, "{host}: the chain ends in the authority");
                kinds.push(client.handshake_kind().unwrap());
            }
            assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed], "{host} {known:?}");
        }
    }
}

/// Passes octets between the two until neither sends any more.
fn shake(client: &mut ClientConnection, server: &mut ServerConnection) {
    try_to_shake(client, server).unwrap();
    assert!(!client.is_handshaking() && !server.is_handshaking());
}

fn try_to_shake(
    client: &mut ClientConnection,
    server: &mut ServerConnection,
) -> Result<(), rustls::Error> {
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

/// Has OpenSSL connect to `address` as `host` and verify as strictly as it can.
fn openssl_connects(address: SocketAddr, host: &str, root: &Path, strict: bool) {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-verify_return_error", "-brief", "-connect"])
        .arg(address.to_string())
        .arg("-CAfile")
        .arg(root);
    if strict {
        command.arg("-x509_strict");
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        command.args(["-noservername", "-verify_ip", host]);
    } else {
        command.args(["-servername", host, "-verify_hostname", host]);
    }
    succeed(&mut command);
}

#[test]
fn openssl_accepts_leaves_and_authority_in_strict_mode() {
    if !has("openssl", "version") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    for host in HOSTS {
        let address = serve(authority.server_config(host).unwrap());
        openssl_connects(address, host, authority.certificate_path(), true);
    }
    // The harness must be able to fail.
    let address = serve(authority.server_config("other.example").unwrap());
    let refused = run(Command::new("openssl")
        .args(["s_client", "-verify_return_error", "-verify_hostname", "www.example.com"])
        .args(["-connect", &address.to_string(), "-CAfile"])
        .arg(authority.certificate_path()));
    assert!(!refused.status.success(), "a leaf for another host was accepted");

    let shown = succeed(
        Command::new("openssl")
            .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
            .arg(authority.certificate_path()),
    );
    says!(shown, &authority.fingerprint_sha256());
    let spki = succeed(Command::new("sh").arg("-c").arg(format!(
        "openssl x509 -in '{}' -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary \
         | openssl base64",
        authority.certificate_path().display()
    )));
    assert_eq!(spki.trim(), authority.spki_sha256_base64());
}

#[test]
fn name_constraints_bind_those_who_verify() {
    let directory = tempfile::tempdir().unwrap();
    let config = TlsConfig {
        name_constraints: ["example.com", "127.0.0.0/8"]
            .map(|text| Subtree::new(text).unwrap())
            .to_vec(),
        ..tls(directory.path())
    };
    let authority = Authority::create(&config, Clock::system(), false).unwrap();
    let own = CertificateDer::from(authority.certificate_der().to_vec());
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Arc::new(client);
    let believed = |host: &str, server: Arc<ServerConfig>| {
        let mut server = ServerConnection::new(server).unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::clone(&client), name).unwrap();
        try_to_shake(&mut client, &mut server).is_ok()
    };
    let within = ["example.com", "www.example.com", "127.0.0.1"];
    for host in within {
        let server = authority.server_config(host).unwrap();
        assert!(believed(host, Arc::clone(&server)), "{host}");
        if has("openssl", "version") {
            openssl_connects(serve(server), host, authority.certificate_path(), true);
        }
    }

    // An attacker with the key signs for other hosts, and every client refuses the certificate.
    let key = KeyPair::from_pem(&fs::read_to_string(authority.key_path()).unwrap()).unwrap();
    let thief = Issuer::from_ca_cert_der(&own, key).unwrap();
    for (host, expected) in
        [("www.example.com", true), ("example.org", false), ("192.0.2.1", false), ("::1", false)]
    {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &thief).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key.into())
            .unwrap();
        assert_eq!(believed(host, Arc::new(server)), expected, "{host}");
    }
}

#[test]
fn python_accepts_leaves_in_strict_mode_and_resumes() {
    const SCRIPT: &str = r#"
import socket, ssl, sys
root, host, port, version = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
context = ssl.create_default_context(cafile=root)
context.verify_flags |= ssl.VERIFY_X509_STRICT
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
session = None
for resumed in (False, True):
    with socket.create_connection(("127.0.0.1", port)) as raw:
        with context.wrap_socket(raw, server_hostname=host, session=session) as tls:
            tls.sendall(b"GET / HTTP/1.1\r\n\r\n")
            answer = b""
            while not answer.endswith(b"ok"):
                answer += tls.recv(1000)
            session = tls.session
            assert tls.session_reused == resumed, (resumed, tls.session_reused)
"#;
    if !has("python3", "--version") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    for host in HOSTS {
        let port = serve(authority.server_config(host).unwrap()).port().to_string();
        for version in ["TLSv1_3", "TLSv1_2"] {
            succeed(
                Command::new("python3")
                    .args(["-c", SCRIPT])
                    .arg(authority.certificate_path())
                    .args([host, &port, version]),
            );
        }
    }
}

#[test]
fn java_reads_the_truststore_and_trusts_by_it() {
    const PROBE: &str = r#"
public class Probe {
    public static void main(String[] arguments) throws Exception {
        var connection = new java.net.URL(arguments[0]).openConnection();
        System.out.write(connection.getInputStream().readAllBytes());
        System.out.flush();
    }
}
"#;
    if !has("java", "-version") || !has("keytool", "-help") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    let roots = trust::public_roots();
    let store = directory.path().join("trust.jks");
    roots.write_truststore(&store, &authority.trusted_der(), Clock::system().now()).unwrap();

    let listed = succeed(
        Command::new("keytool")
            .args(["-list", "-storepass", TRUSTSTORE_PASSWORD, "-keystore"])
            .arg(&store),
    );
    let entries = listed.matches("trustedCertEntry").count();
    assert_eq!(entries, roots.certificates().len() + 1, "{listed}");
    says!(listed, &authority.fingerprint_sha256());

    let probe = directory.path().join("Probe.java");
    fs::write(&probe, PROBE).unwrap();
    let address = serve(authority.server_config("127.0.0.1").unwrap());
    let connect = |store: Option<&Path>| {
        let mut java = Command::new("java");
        if let Some(store) = store {
            java.arg(format!("-Djavax.net.ssl.trustStore={}", store.display()))
                .arg(format!("-Djavax.net.ssl.trustStorePassword={TRUSTSTORE_PASSWORD}"));
        }
        java.env_remove("JAVA_TOOL_OPTIONS").arg(&probe).arg(format!("https://{address}/"));
        java
    };
    assert_eq!(succeed(&mut connect(Some(&store))), "ok");
    assert!(!run(&mut connect(None)).status.success(), "trusted without the store");
}
