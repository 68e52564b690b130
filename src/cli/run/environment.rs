//! What makes a client use the proxy and trust its authority.
//!
//! There is no one variable that all clients read, so all are set that are known to be read, each to what its reader
//! understands: most take a bundle that *replaces* what they trusted before, some a certificate that they add, the JVM
//! options and a truststore, GNU Wget a start-up file.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    ca::Authority,
    clock::Moment,
    config::TlsConfig,
    trust::{self, TRUSTSTORE_PASSWORD, TRUSTSTORE_TYPE},
};

/// Where the files are that clients read.
#[derive(Clone, Debug)]
pub struct Files {
    /// The authority's certificate, PEM: for clients that add it to what they trust.
    pub ca: PathBuf,
    /// Public roots, the operator's extra roots and the authority, PEM: for clients that trust one file.
    pub bundle: PathBuf,
    /// The same as a Java truststore.
    pub truststore: PathBuf,
    /// A start-up file for GNU Wget, which where it is built with GnuTLS learns of a bundle in no other way.
    pub wgetrc: PathBuf,
    /// A module that makes a Node.js that is too old to read the proxy variables use the proxy.
    pub node: PathBuf,
}

const NODE: &str = include_str!("node.cjs");

/// [`Files`] in a directory that only this user may enter, removed when this is dropped.
#[derive(Debug)]
pub struct PrivateFiles {
    directory: TempDir,
    files: Files,
}

impl PrivateFiles {
    /// Writes the files for `authority`.
    ///
    /// # Errors
    ///
    /// If there is no temporary directory, if it cannot be written, or if an extra root cannot be read.
    pub fn create(authority: &Authority, tls: &TlsConfig, now: Moment) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("crawlgate-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let file = |name| directory.path().join(name);
        let files = Files {
            ca: file("ca.pem"),
            bundle: file("bundle.pem"),
            truststore: file("truststore.jks"),
            wgetrc: file("wgetrc"),
            node: file("node.cjs"),
        };
        let roots = trust::public_roots()
            .with_files(&tls.extra_roots)
            .map_err(io::Error::other)?;
        let trusted = authority.trusted_pem();
        fs::write(&files.ca, &trusted)?;
        roots
            .write_bundle(&files.bundle, &trusted)
            .and_then(|()| roots.write_truststore(&files.truststore, &authority.trusted_der(), now))
            .map_err(io::Error::other)?;
        fs::write(&files.wgetrc, wgetrc(users_wgetrc(), &files.bundle))?;
        fs::write(&files.node, NODE)?;
        Ok(Self { directory, files })
    }

    /// Where the files are.
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// Removes the files; dropping does the same and keeps the error to itself.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        self.directory.close()
    }
}

/// The user's own start-up file of GNU Wget, which ours takes the place of.
fn users_wgetrc() -> Vec<u8> {
    env::var_os("WGETRC")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".wgetrc")))
        .and_then(|path| fs::read(path).ok())
        .unwrap_or_default()
}

/// A start-up file that says what `users` says, but trusts `bundle`.
fn wgetrc(mut users: Vec<u8>, bundle: &Path) -> Vec<u8> {
    // The last line on a subject holds, and the user's last line may lack its end.
    users.extend(format!("\nca_certificate = {}\n", bundle.display()).into_bytes());
    users
}

/// The variables to set for a command so that it uses `proxy` (`http://host:port`) and trusts what `files` hold.
///
/// `inherited` looks a variable up in the environment that the command would get otherwise; options that stand there
/// are kept.
#[must_use]
pub fn child_environment(
    proxy: &str,
    files: &Files,
    inherited: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = Vec::new();
    let mut set = |names: &[&str], value: &str| {
        variables.extend(
            names
                .iter()
                .map(|name| ((*name).to_owned(), value.to_owned())),
        );
    };

    // Where to send requests. Lower case too: curl reads `http_proxy` in no other spelling.
    set(
        &[
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "HTTPS_PROXY",
            "ftp_proxy",
            "FTP_PROXY",
            "all_proxy",
            "ALL_PROXY",
        ],
        proxy,
    );
    // A host that is excepted is a host that is not held to its robots.txt.
    set(&["no_proxy", "NO_PROXY"], "");
    // Node's `fetch` and `http` read the variables above only when told to, and old ones never: see `node.cjs`.
    set(&["NODE_USE_ENV_PROXY"], "1");

    // Replaces what is trusted.
    set(
        &[
            "SSL_CERT_FILE", // OpenSSL, and so Python's ssl, httpx, aiohttp, Ruby; Go, .NET, rustls
            "REQUESTS_CA_BUNDLE", // Python requests
            "CURL_CA_BUNDLE", // curl, Python requests
            "DENO_CERT",
            "CARGO_HTTP_CAINFO",
            "GIT_SSL_CAINFO",
            "AWS_CA_BUNDLE",
            "PIP_CERT",
            "npm_config_cafile",
            "PERL_LWP_SSL_CA_FILE",
            "HEX_CACERTS_PATH",
            "HTTPLIB2_CA_CERTS",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
            "NIX_SSL_CERT_FILE", // OpenSSL and others as Nix patches them, before SSL_CERT_FILE
        ],
        &path(&files.bundle),
    );
    set(&["WGETRC"], &path(&files.wgetrc));
    // Adds to what is trusted.
    set(&["NODE_EXTRA_CA_CERTS"], &path(&files.ca));

    // Options, which are added to those that stand there.
    for (name, options) in [
        ("JAVA_TOOL_OPTIONS", java_options(proxy, &files.truststore)),
        // Quoted, for the options are split at spaces.
        (
            "NODE_OPTIONS",
            format!("--require \"{}\"", path(&files.node)),
        ),
    ] {
        match inherited(name) {
            Some(before) if !before.trim().is_empty() => {
                set(&[name], &format!("{before} {options}"));
            }
            _ => set(&[name], &options),
        }
    }
    variables
}

/// The JVM reads no variables of its own accord, only properties.
fn java_options(proxy: &str, truststore: &Path) -> String {
    let authority = proxy
        .strip_prefix("http://")
        .unwrap_or(proxy)
        .trim_end_matches('/');
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let truststore = truststore.to_string_lossy();
    [
        format!("-Dhttp.proxyHost={host}"),
        format!("-Dhttp.proxyPort={port}"),
        format!("-Dhttps.proxyHost={host}"),
        format!("-Dhttps.proxyPort={port}"),
        // Empty, for otherwise loopback is excepted.
        "-Dhttp.nonProxyHosts=".to_owned(),
        // The options are split at white space, but not inside quotes.
        format!("'-Djavax.net.ssl.trustStore={truststore}'"),
        format!("-Djavax.net.ssl.trustStoreType={TRUSTSTORE_TYPE}"),
        format!("-Djavax.net.ssl.trustStorePassword={TRUSTSTORE_PASSWORD}"),
    ]
    .join(" ")
}

/// Replaces `{proxy}`, `{ca}` and `{spki}` in `arguments` by the proxy's URL, the path of the authority's certificate
/// and the digest of its key: for programs that read options where others read variables. An argument that is not
/// UTF-8 is left alone.
pub fn fill_placeholders(arguments: &mut [OsString], proxy: &str, ca: &Path, spki: &str) {
    for argument in arguments {
        if let Some(text) = argument.to_str()
            && text.contains('{')
        {
            *argument = text
                .replace("{proxy}", proxy)
                .replace("{ca}", &ca.to_string_lossy())
                .replace("{spki}", spki)
                .into();
        }
    }
}

#[cfg(test)]
mod tests {
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
            ("Node is told to look", "NODE_USE_ENV_PROXY", "1"),
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
        let private = PrivateFiles::create(&authority, &tls, clock.now()).unwrap();
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
        assert_eq!(
            fs::read_to_string(&ca).unwrap(),
            authority.certificate_pem()
        );
        drop(private);
        assert!(!place.exists());
    }
}
