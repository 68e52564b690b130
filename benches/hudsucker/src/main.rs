//! hudsucker as a peer of `cargo bench --bench exchange`: it intercepts all hosts, forwards, and does nothing else.
//!
//!     crawlgate-hudsucker LISTEN CA CA-KEY ORIGIN-CA
//!
//! It prints its address, and ends with its standard input. To clients and origins it offers HTTP/2 and HTTP/1.1. Unlike
//! hudsucker's defaults, it sets TCP_NODELAY on both sides, as the other proxies of the bench do, and has one worker thread.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use hudsucker::Proxy;
use hudsucker::certificate_authority::RcgenAuthority;
use hudsucker::rcgen::{Issuer, KeyPair};
use hudsucker::rustls::crypto::aws_lc_rs;
use hudsucker::rustls::pki_types::CertificateDer;
use hudsucker::rustls::pki_types::pem::PemObject as _;
use hudsucker::rustls::{ClientConfig, RootCertStore};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::net::TcpSocket;

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, ca, ca_key, origin_ca] = words.as_slice() else {
        return Err("usage: crawlgate-hudsucker LISTEN CA CA-KEY ORIGIN-CA".into());
    };

    let key = KeyPair::from_pem(&fs::read_to_string(ca_key)?)?;
    let issuer = Issuer::from_ca_cert_pem(&fs::read_to_string(ca)?, key)?;
    let authority = RcgenAuthority::new(issuer, 1_000, aws_lc_rs::default_provider());

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(origin_ca)?)?;
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(tcp);

    // Accepted connections inherit the option.
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    socket.bind(listen.parse()?)?;
    let listener = socket.listen(1024)?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let proxy = Proxy::builder()
        .with_listener(listener)
        .with_ca(authority)
        .with_http_connector(connector)
        .build()?;
    Ok(proxy.start().await?)
}
