//! The variables and files that make a client use the proxy and trust its authority.
//!
//! No single variable works for all clients, so all known ones are set, each in the form of its reader: most take a
//! bundle that *replaces* the trusted roots, some a certificate that they add, the JVM options and a truststore, GNU
//! Wget a start-up file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use tempfile::TempDir;

use crate::ca::Exports;
use crawlgate_ca::Authority;
use crawlgate_config::TlsConfig;
use crawlgate_system::clock::Moment;
use crawlgate_trust::{TRUSTSTORE_PASSWORD, TRUSTSTORE_TYPE};

/// The files that clients read.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The authority, the bundle with the public roots, and the truststore.
    pub(super) certificates: Exports,
    /// A start-up file for GNU Wget: its GnuTLS build reads a bundle from nowhere else.
    wgetrc: PathBuf,
    /// A module that sends every TCP connection of a Node.js through the proxy.
    node: PathBuf,
    /// A directory of settings for PHP, which reads the bundle from nowhere else.
    php: PathBuf,
}

/// The module for Node.js, with a placeholder for the proxy's URL.
const NODE: &str = include_str!("node.cjs");

/// [`Files`] in a directory of their own, removed on drop.
///
/// Every user may read them, because a command may give up root before it does. They hold no secret, except the
/// start-up file of Wget, which begins with the user's own one.
#[derive(Debug)]
pub(super) struct ClientFiles {
    directory: TempDir,
    files: Files,
}

impl ClientFiles {
    /// Writes the files for `authority` and for the proxy at `url`.
    ///
    /// # Errors
    ///
    /// If there is no temporary directory, if it cannot be written, or if an extra root cannot be read.
    pub(super) fn create(
        authority: &Authority,
        tls: &TlsConfig,
        url: &str,
        now: Moment,
    ) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("crawlgate-").tempdir()?;
        let file = |name| directory.path().join(name);
        let certificates = Exports::in_directory(directory.path());
        let files = Files {
            certificates,
            wgetrc: file("wgetrc"),
            node: file("node.cjs"),
            php: file("php"),
        };
        let written = files.certificates.write(authority, tls, now);
        written.map_err(io::Error::other)?;
        let bundle = &files.certificates.bundle;
        let users_wgetrc = users_wgetrc();
        // That of the user may hold a password.
        let wgetrc_mode = if users_wgetrc.is_empty() { 0o644 } else { 0o600 };
        fs::write(&files.wgetrc, wgetrc(users_wgetrc, bundle, url))?;
        fs::write(&files.node, NODE.replace("{proxy}", url))?;
        fs::create_dir(&files.php)?;
        let php = files.php.join("crawlgate.ini");
        fs::write(&php, php_settings(bundle))?;
        // Whatever the umask is. The directory last: until then, only this user may enter it.
        for (file, mode) in [
            (&files.wgetrc, wgetrc_mode),
            (&files.certificates.authorities, 0o644),
            (&files.certificates.bundle, 0o644),
            (&files.certificates.truststore, 0o644),
            (&files.node, 0o644),
            (&php, 0o644),
            (&files.php, 0o755),
            (&directory.path().to_owned(), 0o755),
        ] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
        }
        Ok(Self { directory, files })
    }

    /// Returns the paths of the files.
    pub(super) const fn files(&self) -> &Files {
        &self.files
    }

    /// Removes the files; a drop does the same and ignores errors.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub(super) fn remove(self) -> io::Result<()> {
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

/// Returns a start-up file with the content of `users` that trusts `bundle` and leads to `proxy`.
fn wgetrc(mut users: Vec<u8>, bundle: &Path, proxy: &str) -> Vec<u8> {
    // The last line on a subject wins, and the user's last line may lack its end. An empty list clears the one before.
    let ours = format!(
        "\nca_certificate = {}\nuse_proxy = on\nno_proxy =\nhttp_proxy = {proxy}\nhttps_proxy = {proxy}\n\
         ftp_proxy = {proxy}\n",
        bundle.display()
    );
    users.extend(ours.into_bytes());
    users
}

/// Returns settings of PHP that trust `bundle`.
fn php_settings(bundle: &Path) -> String {
    let bundle = bundle.display();
    format!("curl.cainfo = \"{bundle}\"\nopenssl.cafile = \"{bundle}\"\n")
}

/// The value of a variable.
#[derive(Clone, Copy)]
enum Value {
    /// The URL of the proxy.
    Proxy,
    /// A word that has the client read the variables with the URL.
    Flag,
    /// The bundle, which replaces the trusted roots.
    Bundle,
    /// The authority, which is added to the trusted roots.
    Authority,
    /// The start-up file of GNU Wget.
    Wgetrc,
    /// The directory of settings for PHP, behind the inherited ones.
    Php,
    /// Options of Node.js, behind the inherited ones.
    Node,
    /// Options of a JVM, behind the inherited ones.
    Java,
    /// The same, only where there are inherited ones.
    MoreJava,
}

/// The variables of all clients.
#[rustfmt::skip] // one row, one kind of client
const VARIABLES: &[(Value, &[&str])] = &[
    // Lower case too: curl reads `http_proxy` in no other spelling.
    (Value::Proxy, &["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ftp_proxy", "FTP_PROXY"]),
    // WebSockets of aiohttp, which looks for the variable of each scheme.
    (Value::Proxy, &["ws_proxy", "WS_PROXY", "wss_proxy", "WSS_PROXY", "all_proxy", "ALL_PROXY"]),
    // Bun's `node:http`; for Node.js itself, `node.cjs` undoes it.
    (Value::Flag, &["NODE_USE_ENV_PROXY"]),
    (Value::Flag, &["PERL_LWP_ENV_PROXY", "MOJO_PROXY"]),
    // OpenSSL, and so Python's ssl, httpx, aiohttp, Ruby; Go, .NET, rustls. Nix patches OpenSSL and others to read its own first.
    (Value::Bundle, &["SSL_CERT_FILE", "NIX_SSL_CERT_FILE"]),
    // Python requests reads the first, and with curl the second.
    (Value::Bundle, &["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"]),
    (Value::Bundle, &["DENO_CERT", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT", "npm_config_cafile"]),
    (Value::Bundle, &["PERL_LWP_SSL_CA_FILE", "HEX_CACERTS_PATH", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"]),
    (Value::Authority, &["NODE_EXTRA_CA_CERTS"]),
    (Value::Wgetrc, &["WGETRC"]),
    (Value::Php, &["PHP_INI_SCAN_DIR"]),
    (Value::Node, &["NODE_OPTIONS"]),
    (Value::Java, &["JAVA_TOOL_OPTIONS"]),
    // These two overrule JAVA_TOOL_OPTIONS.
    (Value::MoreJava, &["JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"]),
];

/// The variables of a command that differ from the inherited ones; none as the value removes the variable.
pub type Variables = BTreeMap<String, Option<String>>;

/// Returns the variables that make a command use `proxy` (`http://host:port`) and trust `files`.
///
/// `inherited` is the environment that the command would get otherwise. Its options are kept; its variables about
/// proxies are not, in any spelling: they name hosts that are excepted, or another proxy.
pub(super) fn child_environment(
    proxy: &str,
    files: &Files,
    inherited: &BTreeMap<String, String>,
) -> Variables {
    // Removed, not empty: Emacs takes an empty `no_proxy` for "every host". `GOPROXY` names a mirror of modules.
    let mut variables: Variables = inherited
        .keys()
        .filter(|name| name.to_ascii_lowercase().ends_with("proxy") && *name != "GOPROXY")
        .map(|name| (name.clone(), None))
        .collect();
    let named = VARIABLES.iter();
    let named = named.flat_map(|(value, names)| names.iter().map(move |name| (*value, *name)));
    for (value, name) in named {
        let before = inherited.get(name).map(String::as_str);
        let value = value.text(proxy, files, before);
        variables.extend(value.map(|value| (name.to_owned(), Some(value))));
    }
    variables
}

impl Value {
    /// Returns the text of a variable that is inherited as `before`, if at all; none if the variable stays.
    fn text(self, proxy: &str, files: &Files, before: Option<&str>) -> Option<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let appended = |options: String| match before {
            Some(before) if !before.trim().is_empty() => format!("{before} {options}"),
            _ => options,
        };
        let certificates = &files.certificates;
        let java = || appended(java_options(proxy, &certificates.truststore));
        Some(match self {
            Self::Proxy => proxy.to_owned(),
            Self::Flag => "1".to_owned(),
            Self::Bundle => path(&certificates.bundle),
            Self::Authority => path(&certificates.authorities),
            Self::Wgetrc => path(&files.wgetrc),
            // An empty element stands for the directory that is compiled in; an empty list, for none.
            Self::Php => {
                let places = before.unwrap_or(":");
                let is_ended = places.is_empty() || places.ends_with(':');
                places.to_owned() + if is_ended { "" } else { ":" } + &path(&files.php)
            }
            // Quoted, for the options are split at spaces.
            Self::Node => appended(format!("--require \"{}\"", path(&files.node))),
            Self::Java => java(),
            Self::MoreJava => return before.map(|_| java()),
        })
    }
}

/// Returns JVM options. A JVM takes its proxy from properties, not from variables.
fn java_options(proxy: &str, truststore: &Path) -> String {
    let authority = proxy.strip_prefix("http://").unwrap_or(proxy).trim_end_matches('/');
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let of_scheme = |scheme| format!("-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={port} ");
    let proxies = ["http", "https", "ftp"].map(of_scheme).concat();
    let truststore = truststore.to_string_lossy();
    // The hosts are empty, for otherwise loopback is excepted. Options are split at white space, but not inside quotes.
    format!(
        "{proxies}-Dhttp.nonProxyHosts= -Dftp.nonProxyHosts= '-Djavax.net.ssl.trustStore={truststore}' \
         -Djavax.net.ssl.trustStoreType={TRUSTSTORE_TYPE} -Djavax.net.ssl.trustStorePassword={TRUSTSTORE_PASSWORD}"
    )
}

/// Replaces `{proxy}`, `{ca}` and `{spki}` in `arguments` by the proxy's URL, the path of the authority's certificate
/// and the digest of its key: for programs that read options instead of variables. An argument that is not UTF-8 stays
/// unchanged.
pub(super) fn fill_placeholders(arguments: &mut [OsString], proxy: &str, ca: &Path, spki: &str) {
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
