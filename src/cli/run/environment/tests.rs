//! Tests of the variables, the placeholders and the files.

use std::collections::HashMap;

use super::*;
use crate::{
    clock::Clock,
    config::{Config, Places},
};

fn files() -> Files {
    Files {
        ca: "/t/ca.pem".into(),
        bundle: "/t/bundle.pem".into(),
        truststore: "/t dir/store.jks".into(),
        wgetrc: "/t/wgetrc".into(),
        node: "/t dir/node.cjs".into(),
    }
}

#[test]
fn each_variable_is_set_once_to_what_its_reader_understands() {
    let variables = child_environment("http://127.0.0.1:4711", &files(), |_| None);
    let count = variables.len();
    let variables: HashMap<String, String> = variables.into_iter().collect();
    assert_eq!(variables.len(), count, "a variable is set twice");
    let cases = [
        (
            "curl reads the lower-case one",
            "http_proxy",
            "http://127.0.0.1:4711",
        ),
        (
            "HTTPS goes through it",
            "HTTPS_PROXY",
            "http://127.0.0.1:4711",
        ),
        (
            "any scheme goes through it",
            "all_proxy",
            "http://127.0.0.1:4711",
        ),
        (
            "WebSockets go through it",
            "ws_proxy",
            "http://127.0.0.1:4711",
        ),
        ("over TLS, too", "wss_proxy", "http://127.0.0.1:4711"),
        ("no host is excepted", "NO_PROXY", ""),
        ("nor in lower case", "no_proxy", ""),
        (
            "what replaces gets the bundle",
            "SSL_CERT_FILE",
            "/t/bundle.pem",
        ),
        (
            "requests gets the bundle",
            "REQUESTS_CA_BUNDLE",
            "/t/bundle.pem",
        ),
        (
            "httplib2 gets the bundle",
            "HTTPLIB2_CA_CERTS",
            "/t/bundle.pem",
        ),
        (
            "gRPC gets the bundle",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
            "/t/bundle.pem",
        ),
        (
            "what Nix built gets the bundle",
            "NIX_SSL_CERT_FILE",
            "/t/bundle.pem",
        ),
        (
            "what adds gets the authority alone",
            "NODE_EXTRA_CA_CERTS",
            "/t/ca.pem",
        ),
        ("Node leaves it to our module", "NODE_USE_ENV_PROXY", "0"),
        ("Wget gets a start-up file", "WGETRC", "/t/wgetrc"),
    ];
    for (name, variable, value) in cases {
        assert_eq!(
            variables.get(variable).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
}

#[test]
fn node_options_are_added_to_those_that_stand_there() {
    let variables = child_environment("http://127.0.0.1:4711", &files(), |name| {
        (name == "NODE_OPTIONS").then(|| "--no-warnings".to_owned())
    });
    let options = variables.iter().find(|(name, _)| name == "NODE_OPTIONS");
    let wanted = "--no-warnings --require \"/t dir/node.cjs\"";
    assert_eq!(options.map(|(_, value)| value.as_str()), Some(wanted));
}

#[test]
fn java_options_are_added_to_those_that_stand_there() {
    let options = |proxy, before: Option<&str>| {
        let before = before.map(str::to_owned);
        child_environment(proxy, &files(), |name| {
            before.clone().filter(|_| name == "JAVA_TOOL_OPTIONS")
        })
        .into_iter()
        .find(|(name, _)| name == "JAVA_TOOL_OPTIONS")
        .unwrap()
        .1
    };
    let v4 = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=4711 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=4711 \
              -Dhttp.nonProxyHosts= '-Djavax.net.ssl.trustStore=/t dir/store.jks' \
              -Djavax.net.ssl.trustStoreType=JKS -Djavax.net.ssl.trustStorePassword=changeit";
    assert_eq!(options("http://127.0.0.1:4711", None), v4);
    assert_eq!(options("http://127.0.0.1:4711", Some(" ")), v4);
    assert_eq!(
        options("http://127.0.0.1:4711", Some("-Xmx1g")),
        format!("-Xmx1g {v4}")
    );
    assert!(
        options("http://[::1]:4711", None)
            .starts_with("-Dhttp.proxyHost=::1 -Dhttp.proxyPort=4711 ")
    );
}

#[test]
fn placeholders_are_filled_wherever_they_stand() {
    let mut arguments: Vec<OsString> = [
        "chromium",
        "--proxy-server={proxy}",
        "--ignore-certificate-errors-spki-list={spki}",
        "{ca}{ca}",
        "{other}",
    ]
    .map(OsString::from)
    .to_vec();
    fill_placeholders(
        &mut arguments,
        "http://127.0.0.1:1",
        Path::new("/c.pem"),
        "AbC=",
    );
    assert_eq!(
        arguments,
        [
            "chromium",
            "--proxy-server=http://127.0.0.1:1",
            "--ignore-certificate-errors-spki-list=AbC=",
            "/c.pem/c.pem",
            "{other}",
        ]
    );
}

#[test]
fn a_users_wgetrc_is_kept_and_ours_comes_last() {
    let bundle = Path::new("/t/b.pem");
    assert_eq!(
        wgetrc(b"tries = 1".to_vec(), bundle),
        b"tries = 1\nca_certificate = /t/b.pem\n"
    );
    assert_eq!(wgetrc(Vec::new(), bundle), b"\nca_certificate = /t/b.pem\n");
}

#[test]
fn the_files_are_private_and_leave_with_their_owner() {
    let directory = tempfile::tempdir().unwrap();
    let tls = TlsConfig {
        ca_cert: directory.path().join("ca.crt"),
        ca_key: directory.path().join("ca.key"),
        ..Config::builtin(&Places::default()).tls
    };
    let clock = Clock::system();
    let authority = Authority::create(&tls, clock.clone(), false).unwrap();
    let private =
        PrivateFiles::create(&authority, &tls, "http://127.0.0.1:4711", clock.now()).unwrap();
    let Files {
        ca,
        bundle,
        truststore,
        wgetrc,
        node,
    } = private.files().clone();
    let place = ca.parent().unwrap().to_owned();
    let mode = fs::metadata(&place).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    for file in [&ca, &bundle, &truststore, &wgetrc, &node] {
        assert!(fs::metadata(file).unwrap().len() > 0, "{}", file.display());
    }
    let module = fs::read_to_string(&node).unwrap();
    assert!(
        module.contains("new URL('http://127.0.0.1:4711')"),
        "{module}"
    );
    assert_eq!(
        fs::read_to_string(&ca).unwrap(),
        authority.certificate_pem()
    );
    drop(private);
    assert!(!place.exists());
}
