//! The variables and files that make a client use the proxy and trust its authority.
//!
//! No single variable works for all clients, so all known ones are set, each in the form of its reader: most take a
//! bundle that *replaces* the trusted roots, some a certificate that they add, the JVM options and a truststore, GNU
//! Wget a start-up file.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crawlgate_ca::Authority;
use crawlgate_config::TlsConfig;
use crawlgate_system::clock::Moment;
use crawlgate_trust::{self as trust, TRUSTSTORE_PASSWORD, TRUSTSTORE_TYPE};

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
    /// A directory of settings for PHP, which reads the bundle from nowhere else.
    pub php: PathBuf,
}

/// The module for Node.js, with a placeholder for the proxy's URL.
const NODE: &str = include_str!("node.cjs");

/// [`Files`] in a directory of their own, removed on drop.
///
/// Every user may read them, because a command may give up root before it does. They hold no secret, except the
/// start-up file of Wget, which begins with the user's own one.
#[derive(Debug)]
pub struct ClientFiles {
    directory: TempDir,
    files: Files,
}

impl ClientFiles {
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
        let directory = tempfile::Builder::new().prefix("crawlgate-").tempdir()?;
        let file = |name| directory.path().join(name);
        let files = Files {
            ca: file("ca.pem"),
            bundle: file("bundle.pem"),
            truststore: file("truststore.jks"),
            wgetrc: file("wgetrc"),
            node: file("node.cjs"),
            php: file("php"),
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
        let users_wgetrc = users_wgetrc();
        let wgetrc_mode = match users_wgetrc.is_empty() {
            true => 0o644,
            false => 0o600, // it may hold a password
        };
        fs::write(&files.wgetrc, wgetrc(users_wgetrc, &files.bundle, url))?;
        fs::write(&files.node, NODE.replace("{proxy}", url))?;
        fs::create_dir(&files.php)?;
        let php = files.php.join("crawlgate.ini");
        fs::write(&php, php_settings(&files.bundle))?;
        // Whatever the umask is. The directory last: until then, only this user may enter it.
        for (file, mode) in [
            (&files.wgetrc, wgetrc_mode),
            (&files.ca, 0o644),
            (&files.bundle, 0o644),
            (&files.truststore, 0o644),
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
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
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

/// Returns a start-up file with the content of `users` that trusts `bundle` and leads to `proxy`.
fn wgetrc(mut users: Vec<u8>, bundle: &Path, proxy: &str) -> Vec<u8> {
    // The last line on a subject wins, and the user's last line may lack its end. An empty list clears the one before.
    users.extend(
        format!(
            "\nca_certificate = {}\nuse_proxy = on\nno_proxy =\nhttp_proxy = {proxy}\nhttps_proxy = {proxy}\n\
             ftp_proxy = {proxy}\n",
            bundle.display()
        )
        .into_bytes(),
    );
    users
}

/// Returns settings of PHP that trust `bundle`.
fn php_settings(bundle: &Path) -> String {
    let bundle = bundle.display();
    format!("curl.cainfo = \"{bundle}\"\nopenssl.cafile = \"{bundle}\"\n")
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

/// The variables that make clients read those of [`PROXY`].
const READ_THE_PROXY: &[&str] = &[
    "NODE_USE_ENV_PROXY", // Bun's `node:http`; for Node.js itself, `node.cjs` undoes it
    "PERL_LWP_ENV_PROXY",
    "MOJO_PROXY",
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

/// The variables of a command that differ from the inherited ones; none as the value removes the variable.
pub type Variables = BTreeMap<String, Option<String>>;

/// Returns the variables that make a command use `proxy` (`http://host:port`) and trust `files`.
///
/// `inherited` is the environment that the command would get otherwise. Its options are kept; its variables about
/// proxies are not, in any spelling: they name hosts that are excepted, or another proxy.
#[must_use]
pub fn child_environment(
    proxy: &str,
    files: &Files,
    inherited: &BTreeMap<String, String>,
) -> Variables {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    // Removed, not empty: Emacs takes an empty `no_proxy` for "every host". `GOPROXY` names a mirror of modules.
    let mut variables: Variables = inherited
        .keys()
        .filter(|name| name.to_ascii_lowercase().ends_with("proxy") && *name != "GOPROXY")
        .map(|name| (name.clone(), None))
        .collect();
    let mut set = |names: &[&str], value: &str| {
        for name in names {
            variables.insert((*name).to_owned(), Some(value.to_owned()));
        }
    };

    set(PROXY, proxy);
    set(READ_THE_PROXY, "1");

    set(ROOTS, &path(&files.bundle));
    set(&["WGETRC"], &path(&files.wgetrc));
    // An empty element stands for the directory that is compiled in; an empty list, for none.
    let before = match inherited.get("PHP_INI_SCAN_DIR") {
        None => ":".to_owned(),
        Some(places) if places.is_empty() || places.ends_with(':') => places.clone(),
        Some(places) => format!("{places}:"),
    };
    set(&["PHP_INI_SCAN_DIR"], &(before + &path(&files.php)));
    // Adds to the trusted roots.
    set(&["NODE_EXTRA_CA_CERTS"], &path(&files.ca));

    let java = java_options(proxy, &files.truststore);
    // Quoted, for the options are split at spaces.
    let node = format!("--require \"{}\"", path(&files.node));
    for (name, options) in [("JAVA_TOOL_OPTIONS", &java), ("NODE_OPTIONS", &node)] {
        set(&[name], &appended(inherited.get(name), options));
    }
    // These two overrule JAVA_TOOL_OPTIONS.
    for name in ["JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"] {
        if let Some(before) = inherited.get(name) {
            set(&[name], &appended(Some(before), &java));
        }
    }
    variables
}

/// Returns `options` behind those that stand there already.
fn appended(before: Option<&String>, options: &str) -> String {
    match before {
        Some(before) if !before.trim().is_empty() => format!("{before} {options}"),
        _ => options.to_owned(),
    }
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
        format!("-Dftp.proxyHost={host}"),
        format!("-Dftp.proxyPort={port}"),
        // Empty, for otherwise loopback is excepted.
        "-Dhttp.nonProxyHosts=".to_owned(),
        "-Dftp.nonProxyHosts=".to_owned(),
        // The options are split at white space, but not inside quotes.
        format!("'-Djavax.net.ssl.trustStore={truststore}'"),
        format!("-Djavax.net.ssl.trustStoreType={TRUSTSTORE_TYPE}"),
        format!("-Djavax.net.ssl.trustStorePassword={TRUSTSTORE_PASSWORD}"),
    ]
    .join(" ")
}

/// Replaces `{proxy}`, `{ca}` and `{spki}` in `arguments` by the proxy's URL, the path of the authority's certificate
/// and the digest of its key: for programs that read options instead of variables. An argument that is not UTF-8 stays
/// unchanged.
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
