//! Tests of the variables, the placeholders and the files.

use super::*;
use crawlgate_config::{Config, Places};
use crawlgate_system::clock::Clock;

fn files() -> Files {
    Files {
        certificates: Exports {
            authorities: "/t/ca.pem".into(),
            bundle: "/t/bundle.pem".into(),
            truststore: "/t dir/store.jks".into(),
        },
        wgetrc: "/t/wgetrc".into(),
        node: "/t dir/node.cjs".into(),
        php: "/t/php".into(),
    }
}

/// Returns the changes for a command that inherits these variables.
fn environment(inherited: &[(&str, &str)]) -> Variables {
    let inherited = inherited.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    child_environment("http://127.0.0.1:4711", &files(), &inherited.collect())
}

#[test]
fn each_variable_is_set_to_what_its_reader_understands() {
    let variables = environment(&[]);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("curl reads the lower-case one", "http_proxy", "http://127.0.0.1:4711"),
        ("HTTPS goes through it", "HTTPS_PROXY", "http://127.0.0.1:4711"),
        ("any scheme goes through it", "all_proxy", "http://127.0.0.1:4711"),
        ("WebSockets go through it", "ws_proxy", "http://127.0.0.1:4711"),
        ("over TLS, too", "wss_proxy", "http://127.0.0.1:4711"),
        ("what replaces gets the bundle", "SSL_CERT_FILE", "/t/bundle.pem"),
        ("requests gets the bundle", "REQUESTS_CA_BUNDLE", "/t/bundle.pem"),
        ("httplib2 gets the bundle", "HTTPLIB2_CA_CERTS", "/t/bundle.pem"),
        ("gRPC gets the bundle", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "/t/bundle.pem"),
        ("what Nix built gets the bundle", "NIX_SSL_CERT_FILE", "/t/bundle.pem"),
        ("what adds gets the authority alone", "NODE_EXTRA_CA_CERTS", "/t/ca.pem"),
        ("Bun's node:http is told to", "NODE_USE_ENV_PROXY", "1"),
        ("LWP is told to", "PERL_LWP_ENV_PROXY", "1"),
        ("Mojo is told to", "MOJO_PROXY", "1"),
        ("Wget gets a start-up file", "WGETRC", "/t/wgetrc"),
    ];
    for (name, variable, value) in cases {
        assert_eq!(variables[variable].as_deref(), Some(value), "{name}");
    }
}

#[test]
fn an_inherited_variable_that_excepts_hosts_or_names_another_proxy_is_removed() {
    let inherited = [
        "no_proxy",
        "NO_PROXY",
        "no_PROXY",      // Emacs
        "No_Proxy",      // Python
        "http_Proxy",    // Python
        "gopher_proxy",  // any scheme: Python, LWP, curl
        "no_grpc_proxy", // gRPC, before no_proxy
        "grpc_proxy",    // before http_proxy
        "npm_config_noproxy",
        "NPM_CONFIG_HTTPS_PROXY",
        "PIP_PROXY",
        "CARGO_HTTP_PROXY",
        "YARN_HTTP_PROXY",
        "GLOBAL_AGENT_NO_PROXY",
        "GLOBAL_AGENT_HTTP_PROXY",
        "CGI_HTTP_PROXY", // Ruby, LWP
        "socks_proxy",
    ];
    let variables = environment(&inherited.map(|name| (name, "elsewhere.test")));
    for name in inherited {
        assert_eq!(variables.get(name), Some(&None), "{name}");
    }
    let ours = Some("http://127.0.0.1:4711".to_owned());
    for name in ["http_proxy", "ALL_PROXY", "ftp_proxy"] {
        let variables = environment(&[(name, "http://elsewhere.test")]);
        assert_eq!(variables[name], ours, "{name}");
    }
    // Other variables stay.
    let variables = environment(&[("PROXY_LIST", "1"), ("PATH", "/bin")]);
    assert!(!variables.contains_key("PROXY_LIST") && !variables.contains_key("PATH"));
}

#[test]
fn options_are_added_to_those_that_stand_there() {
    let java = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=4711 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=4711 \
                -Dftp.proxyHost=127.0.0.1 -Dftp.proxyPort=4711 -Dhttp.nonProxyHosts= -Dftp.nonProxyHosts= \
                '-Djavax.net.ssl.trustStore=/t dir/store.jks' -Djavax.net.ssl.trustStoreType=JKS \
                -Djavax.net.ssl.trustStorePassword=changeit";
    let node = "--require \"/t dir/node.cjs\"";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("PHP_INI_SCAN_DIR", None, ":/t/php".to_owned()),
        ("PHP_INI_SCAN_DIR", Some(""), "/t/php".to_owned()),
        ("PHP_INI_SCAN_DIR", Some("/etc/a:/etc/b"), "/etc/a:/etc/b:/t/php".to_owned()),
        ("NODE_OPTIONS", None, node.to_owned()),
        ("NODE_OPTIONS", Some("--no-warnings"), format!("--no-warnings {node}")),
        ("JAVA_TOOL_OPTIONS", None, java.to_owned()),
        ("JAVA_TOOL_OPTIONS", Some(" "), java.to_owned()),
        ("JAVA_TOOL_OPTIONS", Some("-Xmx1g"), format!("-Xmx1g {java}")),
        // These overrule JAVA_TOOL_OPTIONS.
        ("_JAVA_OPTIONS", Some("-Dhttp.nonProxyHosts=*"), format!("-Dhttp.nonProxyHosts=* {java}")),
        ("JDK_JAVA_OPTIONS", Some("-Xmx1g"), format!("-Xmx1g {java}")),
    ];
    for (name, before, wanted) in cases {
        let inherited = before.map(|before| (name, before));
        let variables = environment(inherited.as_slice());
        assert_eq!(variables[name], Some(wanted), "{name} {before:?}");
    }
    assert!(!environment(&[]).contains_key("_JAVA_OPTIONS"));
    let v6 = java_options("http://[::1]:4711", Path::new("/t"));
    assert!(v6.starts_with("-Dhttp.proxyHost=::1 -Dhttp.proxyPort=4711 "), "{v6}");
}

#[test]
fn placeholders_are_filled_wherever_they_stand() {
    let cases = [
        ("chromium", "chromium"),
        ("--proxy-server={proxy}", "--proxy-server=http://127.0.0.1:1"),
        ("--errors-spki-list={spki}", "--errors-spki-list=AbC="),
        ("{ca}{ca}", "/c.pem/c.pem"),
        ("{other}", "{other}"),
    ];
    let mut filled = cases.map(|(argument, _)| argument.into());
    let ca = Path::new("/c.pem");
    fill_placeholders(&mut filled, "http://127.0.0.1:1", ca, "AbC=");
    assert_eq!(filled, cases.map(|(_, filled)| filled));
}

#[test]
fn a_users_wgetrc_is_kept_and_ours_comes_last() {
    let ours = "\nca_certificate = /t/b.pem\nuse_proxy = on\nno_proxy =\nhttp_proxy = http://127.0.0.1:4711\n\
                https_proxy = http://127.0.0.1:4711\nftp_proxy = http://127.0.0.1:4711\n";
    for users in ["tries = 1", ""] {
        let written = wgetrc(users.into(), Path::new("/t/b.pem"), "http://127.0.0.1:4711");
        assert_eq!(String::from_utf8(written).unwrap(), format!("{users}{ours}"));
    }
}

#[test]
fn the_files_hold_no_secret_every_user_may_read_them_and_they_leave_with_their_owner() {
    let directory = tempfile::tempdir().unwrap();
    let tls = TlsConfig {
        ca_cert: directory.path().join("ca.crt"),
        ca_key: directory.path().join("ca.key"),
        ..Config::builtin(&Places::default()).tls
    };
    let clock = Clock::system();
    let authority = Authority::create(&tls, clock.clone(), false).unwrap();
    let files =
        ClientFiles::create(&authority, &tls, "http://127.0.0.1:4711", clock.now()).unwrap();
    let Files { certificates, wgetrc, node, php } = files.files().clone();
    let Exports { authorities, bundle, truststore } = certificates;
    let place = authorities.parent().unwrap().to_owned();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place), mode(&php)), (0o755, 0o755));
    let key = fs::read_to_string(&tls.ca_key).unwrap();
    let key = key.lines().nth(1).unwrap();
    let settings = php.join("crawlgate.ini");
    for file in [&authorities, &bundle, &truststore, &node, &settings] {
        assert_eq!(mode(file), 0o644, "{}", file.display());
        let octets = fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&octets);
        assert!(!text.is_empty(), "{}", file.display());
        let has_key = text.contains("PRIVATE KEY") || text.contains(key);
        assert!(!has_key, "{}", file.display());
    }
    // That of the user who runs the tests may hold a password.
    let wgetrc_mode = if users_wgetrc().is_empty() { 0o644 } else { 0o600 };
    assert_eq!(mode(&wgetrc), wgetrc_mode);
    let module = fs::read_to_string(&node).unwrap();
    assert!(module.contains("new URL('http://127.0.0.1:4711')"), "{module}");
    let trusted = fs::read_to_string(&authorities).unwrap();
    assert_eq!(trusted, authority.certificate_pem());
    drop(files);
    assert!(!place.exists());
}
