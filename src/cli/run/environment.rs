//! The variables and files that make a client use the proxy and trust its authority.
//!
//! No single variable works for all clients, so all known ones are set, each in the form of its reader: most take a
//! bundle that *replaces* the trusted roots, some a certificate that they add, the JVM options and a truststore, GNU
//! Wget a start-up file.

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

/// The files that clients read.
#[derive(Clone, Debug)]
pub struct Files {
    /// The authority's certificate, PEM: for clients that add it to their trusted roots.
    pub ca: PathBuf,
    /// Public roots, the operator's extra roots and the authority, PEM: for clients that trust one file.
    pub bundle: PathBuf,
    /// The bundle as a Java truststore.
    pub truststore: PathBuf,
    /// A start-up file for GNU Wget: its GnuTLS build reads a bundle from nowhere else.
    pub wgetrc: PathBuf,
    /// A module that sends every TCP connection of a Node.js through the proxy.
    pub node: PathBuf,
}

/// The module for Node.js, with a placeholder for the proxy's URL.
const NODE: &str = include_str!("node.cjs");

/// [`Files`] in a directory that only this user may enter, removed on drop.
#[derive(Debug)]
pub struct PrivateFiles {
    directory: TempDir,
    files: Files,
}

impl PrivateFiles {
    /// Writes the files for `authority` and for the proxy at `url`.
    ///
    /// # Errors
    ///
    /// If there is no temporary directory, if it cannot be written, or if an extra root cannot be read.
    pub fn create(
        authority: &Authority,
        tls: &TlsConfig,
        url: &str,
        now: Moment,
    ) -> io::Result<Self> {
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
        fs::write(&files.node, NODE.replace("{proxy}", url))?;
        Ok(Self { directory, files })
    }

    /// Returns the paths of the files.
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the directory, which no other user may enter.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Removes the files; a drop does the same and ignores errors.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        self.directory.close()
    }
}

/// Returns the user's own start-up file of GNU Wget, which ours replaces.
fn users_wgetrc() -> Vec<u8> {
    env::var_os("WGETRC")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".wgetrc")))
        .and_then(|path| fs::read(path).ok())
        .unwrap_or_default()
}

/// Returns a start-up file with the content of `users` that trusts `bundle`.
fn wgetrc(mut users: Vec<u8>, bundle: &Path) -> Vec<u8> {
    // The last line on a subject wins, and the user's last line may lack its end.
    users.extend(format!("\nca_certificate = {}\n", bundle.display()).into_bytes());
    users
}

/// The variables that name a proxy. Lower case too: curl reads `http_proxy` in no other spelling.
const PROXY: &[&str] = &[
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "ftp_proxy",
    "FTP_PROXY",
    // WebSockets of aiohttp, which looks for the variable of each scheme.
    "ws_proxy",
    "WS_PROXY",
    "wss_proxy",
    "WSS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];

/// The variables that replace the trusted roots.
const ROOTS: &[&str] = &[
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
];

/// Returns the variables that make a command use `proxy` (`http://host:port`) and trust `files`.
///
/// `inherited` looks a variable up in the environment that the command would get otherwise; existing options are kept.
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

    set(PROXY, proxy);
    // An excepted host would not be held to its robots.txt.
    set(&["no_proxy", "NO_PROXY"], "");
    // `node.cjs` sends all of Node's connections through the proxy. Node's own support, enabled by 1, covers less, and
    // breaks clients with proxy support of their own (axios and Crawlee on Node 24).
    set(&["NODE_USE_ENV_PROXY"], "0");

    set(ROOTS, &path(&files.bundle));
    set(&["WGETRC"], &path(&files.wgetrc));
    // Adds to the trusted roots.
    set(&["NODE_EXTRA_CA_CERTS"], &path(&files.ca));

    // Options, added to the existing ones.
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

/// Returns JVM options. A JVM takes its proxy from properties, not from variables.
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
/// and the digest of its key: for programs that read options instead of variables. An argument that is not UTF-8 is
/// left alone.
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
mod tests;
