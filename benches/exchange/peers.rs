//! Other proxies that take part in the measurement: a bare one of our own, and others if they are there.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::lab::process::{self, Process};

/// The name of the origin in requests.
pub const ORIGIN: &str = "127.0.0.1";

/// A proxy under way.
pub struct Proxy {
    pub process: Process,
    pub port: u16,
    /// The name of the origin in requests through this proxy.
    pub host: &'static str,
    /// Its requests name it as their origin.
    pub is_reverse: bool,
}

/// Runs a minimal forward proxy on hyper.
pub fn bare() {
    process::end_with_parent();
    crate::runtime().block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<_, hyper::body::Incoming> =
            Client::builder(TokioExecutor::new()).build(connector);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        std::io::stdout().flush().unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let client = client.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| client.request(request));
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
}

/// Starts nghttpx before the origin that speaks HTTP/2, if it is installed.
pub fn nghttpx(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    if !runs("nghttpx") {
        return left_out("nghttpx", "it is not installed");
    }
    // It takes no port 0.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    drop(held);
    let words = [
        "--conf=/dev/null".to_owned(),
        "--no-ocsp".to_owned(),
        "--single-process".to_owned(),
        "--workers=1".to_owned(),
        "--log-level=ERROR".to_owned(),
        format!("--frontend=127.0.0.1,{port}"),
        format!("--backend=127.0.0.1,{};;proto=h2;tls", lab.ports.http2),
        "--insecure".to_owned(),
        lab.file("origin.key").display().to_string(),
        lab.file("origin.crt").display().to_string(),
    ];
    reverse(Process::start("nghttpx", &words, cpus))
}

/// Starts Envoy before the origin that speaks HTTP/2, if it is installed or named.
pub fn envoy(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    let program = std::env::var("EXCHANGE_ENVOY").unwrap_or_else(|_| "envoy".to_owned());
    if !runs(&program) {
        return left_out("Envoy", "it is not installed, and EXCHANGE_ENVOY names no program");
    }
    let file = lab.file("envoy.json");
    fs::write(&file, envoy_settings(lab).to_string()).unwrap();
    let words = [
        "--config-path".to_owned(),
        file.display().to_string(),
        "--concurrency".to_owned(),
        "1".to_owned(),
        "--disable-hot-restart".to_owned(),
        "--log-level".to_owned(),
        "error".to_owned(),
    ];
    reverse(Process::start(&program, &words, cpus))
}

/// Starts hudsucker, if it is built or named, with the CA of crawlgate. It mints no certificates for addresses.
pub fn hudsucker(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    let built = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/hudsucker/target/release/crawlgate-hudsucker"
    );
    let program = std::env::var("EXCHANGE_HUDSUCKER").unwrap_or_else(|_| built.to_owned());
    if !fs::exists(&program).unwrap_or(false) {
        return left_out("hudsucker", "benches/README.md tells how to build it");
    }
    let file = |name: &str| lab.file(name).display().to_string();
    let words = ["127.0.0.1:0".to_owned(), file("ca.crt"), file("ca.key"), file("origin-ca.pem")];
    let mut process = Process::start(&program, &words, cpus);
    let address = process.line();
    let (_, port) = address.trim().rsplit_once(':').unwrap();
    Some(Proxy { port: port.parse().unwrap(), process, host: "localhost", is_reverse: false })
}

fn runs(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

fn left_out(name: &str, reason: &str) -> Option<Proxy> {
    println!("Without {name}: {reason}.");
    None
}

fn reverse(mut process: Process) -> Option<Proxy> {
    let port = process.listening_port();
    Some(Proxy { process, port, host: ORIGIN, is_reverse: true })
}

/// Returns the settings of a reverse proxy with HTTP/2 in TLS on both sides.
fn envoy_settings(lab: &Lab) -> Value {
    let file = |name: &str| lab.file(name).display().to_string();
    let of_type = |name: &str| format!("type.googleapis.com/envoy.extensions.{name}");
    let address = |port: u16| json!({"socket_address": {"address": ORIGIN, "port_value": port}});
    let downstream = json!({
        "@type": of_type("transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": {
            "alpn_protocols": ["h2"],
            "tls_certificates": [{
                "certificate_chain": {"filename": file("origin.crt")},
                "private_key": {"filename": file("origin.key")},
            }],
        },
    });
    let upstream = json!({
        "@type": of_type("transport_sockets.tls.v3.UpstreamTlsContext"),
        "common_tls_context": {
            "alpn_protocols": ["h2"],
            "validation_context": {"trusted_ca": {"filename": file("origin-ca.pem")}},
        },
    });
    let manager = json!({
        "@type": of_type("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "bench",
        "route_config": {"virtual_hosts": [{
            "name": "origin",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "origin"}}],
        }]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": of_type("filters.http.router.v3.Router")},
        }],
    });
    json!({"static_resources": {
        "listeners": [{
            "address": address(0),
            "filter_chains": [{
                "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": downstream},
                "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}],
            }],
        }],
        "clusters": [{
            "name": "origin",
            "type": "STATIC",
            "load_assignment": {
                "cluster_name": "origin",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(lab.ports.http2)}}]}],
            },
            "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": of_type("upstreams.http.v3.HttpProtocolOptions"),
                "explicit_http_config": {"http2_protocol_options": {}},
            }},
            "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": upstream},
        }],
    }})
}

/// Starts the program of another build of crawlgate that is named, if any.
pub fn other_build(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    let program = std::env::var("EXCHANGE_BUILD").ok()?;
    let (process, port) = lab.crawlgate_of_build(&program, cpus);
    Some(Proxy { process, port, host: ORIGIN, is_reverse: false })
}
