//! Set-up of each client, as lines for a shell.
//!
//! `eval "$(crawlgate ca setup)"` only sets and unsets variables: a line exports a variable, unsets some or is a comment.
//! Set-up by options, code or another program is such a comment, to be pasted.
//!
//! Each recipe does two things: it points the client to the proxy, and it makes the client trust the authority. A
//! client that accepts an additional authority gets only ours; a client with a setting that replaces all others gets
//! the bundle.

use std::{fmt, net::SocketAddr};

/// The clients with a recipe.
pub const CLIENTS: [&str; 21] = [
    "curl",
    "wget",
    "aria2",
    "requests",
    "httpx",
    "aiohttp",
    "scrapy",
    "pycurl",
    "pip",
    "node",
    "npm",
    "php",
    "go",
    "java",
    "git",
    "cargo",
    "playwright",
    "selenium",
    "chromium",
    "firefox",
    "system",
];

/// The values in the recipes. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `http://host:port`
    pub proxy: String,
    /// The authority's certificate, PEM: for clients that read one certificate from a file.
    pub ca: String,
    /// The next authority's certificate, during a rotation.
    pub next: Option<String>,
    /// The certificates of both, and of earlier authorities, PEM.
    pub authorities: String,
    /// Public roots and the authority, PEM.
    pub bundle: String,
    /// The bundle as a Java truststore.
    pub truststore: String,
    /// The SHA-256 of the authority's SubjectPublicKeyInfo, base64; during a rotation, the next one's behind a comma.
    pub spki: String,
}

/// The recipe for one client. As text: its title as a comment, then its lines.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The client, of [`CLIENTS`].
    pub name: &'static str,
    /// The client's full name, and a remark.
    pub title: &'static str,
    /// Lines for a shell.
    pub lines: Vec<String>,
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.title)?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Setup {
    /// Returns the recipe for one client, found by its name in [`CLIENTS`], in any case.
    #[must_use]
    pub fn one(&self, client: &str) -> Option<Recipe> {
        let mut known = CLIENTS.into_iter();
        let name = known.find(|known| known.eq_ignore_ascii_case(client))?;
        let (title, lines) = self.lines(name)?;
        Some(Recipe { name, title, lines })
    }

    /// Returns all recipes.
    #[must_use]
    pub fn all(&self) -> String {
        let mut text = String::from(
            "# `crawlgate run COMMAND` sets all of this for one command. Evaluated by a shell, these lines set and unset\n\
             # variables and do nothing else; what other clients need stands in comments.\n\
             # The bundle and the truststore named here were written along with these lines.\n",
        );
        for recipe in CLIENTS.into_iter().filter_map(|client| self.one(client)) {
            text.push_str(&format!("\n{recipe}"));
        }
        text
    }

    fn lines(&self, client: &str) -> Option<(&'static str, Vec<String>)> {
        let Self { proxy, authorities, bundle, .. } = self;
        let bundle_in = |name| self.proxies_and(&[export(name, bundle)]);
        let words = |text: String| self.proxies_and(&[comment(&text)]);
        Some(match client {
            "curl" => ("curl", bundle_in("CURL_CA_BUNDLE")),
            "wget" => ("GNU Wget", words(format!("wget --ca-certificate={} URL", quoted(bundle)))),
            "aria2" => ("aria2", words(format!("aria2c --ca-certificate={} URL", quoted(bundle)))),
            "node" => (
                "Node.js: fetch reads the variables from version 24 (22.21 in its line) on",
                self.proxies_and(&[
                    export("NODE_USE_ENV_PROXY", "1"),
                    export("NODE_EXTRA_CA_CERTS", authorities),
                ]),
            ),
            "npm" => (
                "npm",
                vec![
                    export("npm_config_proxy", proxy),
                    export("npm_config_https_proxy", proxy),
                    unset("npm_config_noproxy"),
                    unset(EXCEPTIONS),
                    export("npm_config_cafile", bundle),
                ],
            ),
            "php" => ("PHP: its curl extension reads the variables", self.php()),
            "go" => {
                ("Go, net/http: loopback hosts are always excepted", bundle_in("SSL_CERT_FILE"))
            }
            "java" => ("Java", self.java()),
            "git" => ("git", bundle_in("GIT_SSL_CAINFO")),
            "cargo" => (
                "cargo",
                vec![export("CARGO_HTTP_PROXY", proxy), export("CARGO_HTTP_CAINFO", bundle)],
            ),
            "system" => (
                "The system's store (Debian and its kin; `trust anchor FILE` on Fedora and Arch)",
                self.system(),
            ),
            _ => return self.python(client).or_else(|| self.browser(client)),
        })
    }

    fn python(&self, client: &str) -> Option<(&'static str, Vec<String>)> {
        let Self { proxy, bundle, .. } = self;
        let bundle_in = |name| self.proxies_and(&[export(name, bundle)]);
        Some(match client {
            "requests" => ("Python requests", bundle_in("REQUESTS_CA_BUNDLE")),
            "httpx" => ("Python httpx", bundle_in("SSL_CERT_FILE")),
            "aiohttp" => (
                "Python aiohttp: the session must be told to read the variables",
                self.proxies_and(&[
                    export("ws_proxy", proxy),
                    export("wss_proxy", proxy),
                    export("SSL_CERT_FILE", bundle),
                    comment("aiohttp.ClientSession(trust_env=True)"),
                ]),
            ),
            "scrapy" => (
                "Scrapy: HttpProxyMiddleware, on by default, reads the variables",
                bundle_in("SSL_CERT_FILE"),
            ),
            "pycurl" => (
                "PycURL: libcurl reads the variables, and is told of the bundle by each handle",
                self.proxies_and(&[comment(&format!(
                    "handle.setopt(pycurl.CAINFO, {})",
                    literal(bundle)
                ))]),
            ),
            "pip" => (
                "pip, in which the second one overrules the first where it is set",
                self.proxies_and(&[
                    export("PIP_CERT", bundle),
                    export("REQUESTS_CA_BUNDLE", bundle),
                ]),
            ),
            _ => return None,
        })
    }

    fn browser(&self, client: &str) -> Option<(&'static str, Vec<String>)> {
        let proxy = &self.proxy;
        Some(match client {
            "playwright" => (
                "Playwright, Chromium",
                vec![comment(&format!(
                    "chromium.launch({{ proxy: {{ server: '{proxy}' }}, args: {:?} }})",
                    [self.spki_option()]
                ))],
            ),
            "selenium" => ("Selenium, Chromium", self.selenium()),
            "chromium" => ("Chromium", self.chromium()),
            "firefox" => (
                "Firefox: the proxy in its settings, the authority in its profile",
                self.each_authority(|ca, name| {
                    format!("certutil -d \"sql:$PROFILE\" -A -t C,, -n {name} -i {ca}")
                }),
            ),
            _ => return None,
        })
    }

    /// Returns the variables that name the proxy, and `more` lines.
    fn proxies_and(&self, more: &[String]) -> Vec<String> {
        let proxies = [
            export("http_proxy", &self.proxy),
            export("https_proxy", &self.proxy),
            unset(EXCEPTIONS),
        ];
        [&proxies, more].concat()
    }

    fn php(&self) -> Vec<String> {
        let bundle = quoted(&self.bundle);
        let address = self.proxy.trim_start_matches("http://");
        vec![
            export("http_proxy", &self.proxy),
            export("https_proxy", &self.proxy),
            unset(EXCEPTIONS),
            comment(&format!("php -d curl.cainfo={bundle} -d openssl.cafile={bundle} FILE")),
            comment("and for file_get_contents and other streams, which read no variable:"),
            comment(&format!(
                "stream_context_set_default(['http' => ['proxy' => 'tcp://{address}', 'request_fulluri' => true]]);"
            )),
        ]
    }

    fn java(&self) -> Vec<String> {
        let authority = self.proxy.trim_start_matches("http://");
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        // The JVM splits its options at white space, but not inside quotes.
        let options = format!(
            "-Dhttp.proxyHost={host} -Dhttp.proxyPort={port} -Dhttps.proxyHost={host} -Dhttps.proxyPort={port} \
             -Dftp.proxyHost={host} -Dftp.proxyPort={port} -Dhttp.nonProxyHosts= -Dftp.nonProxyHosts= \"-Djavax.net.ssl.trustStore={}\" -Djavax.net.ssl.trustStoreType={} \
             -Djavax.net.ssl.trustStorePassword={}",
            self.truststore,
            super::TRUSTSTORE_TYPE,
            super::TRUSTSTORE_PASSWORD,
        );
        vec![export("JAVA_TOOL_OPTIONS", &options)]
    }

    fn selenium(&self) -> Vec<String> {
        // The list of keys counts only together with a profile directory, which the driver makes.
        let options = [
            format!("--proxy-server={}", self.proxy),
            "--proxy-bypass-list=<-loopback>".to_owned(),
            self.spki_option(),
        ];
        let argument = |option: &String| comment(&format!("options.add_argument({option:?})"));
        let mut lines: Vec<String> = options.iter().map(argument).collect();
        lines.push(comment(
            "The driver is on this machine: where proxy variables are set, let no_proxy name localhost and 127.0.0.1.",
        ));
        lines
    }

    fn chromium(&self) -> Vec<String> {
        let Self { proxy, .. } = self;
        let mut lines = vec![
            // The list of keys counts only together with a profile directory.
            comment(&format!(
                "chromium --proxy-server={proxy} '--proxy-bypass-list=<-loopback>' --user-data-dir=\"$(mktemp -d)\" {}",
                self.spki_option()
            )),
            comment("or for good, for this user:"),
        ];
        lines.extend(self.each_authority(|ca, name| {
            format!("certutil -d \"sql:$HOME/.pki/nssdb\" -A -t C,, -n {name} -i {ca}")
        }));
        lines
    }

    fn system(&self) -> Vec<String> {
        let mut lines = self.each_authority(|ca, name| {
            format!("sudo install -m 644 {ca} /usr/local/share/ca-certificates/{name}.crt")
        });
        lines.push(comment("sudo update-ca-certificates"));
        lines
    }

    fn spki_option(&self) -> String {
        format!("--ignore-certificate-errors-spki-list={}", self.spki)
    }

    /// Returns a command for each authority, by its file and its name in the client.
    fn each_authority(&self, command: impl Fn(&str, &str) -> String) -> Vec<String> {
        let next = self.next.as_ref().map(|next| (next, "crawlgate-next"));
        [(&self.ca, "crawlgate")]
            .into_iter()
            .chain(next)
            .map(|(ca, name)| comment(&command(&quoted(ca), name)))
            .collect()
    }
}

/// The variables that name hosts without a proxy. They are unset, for Emacs takes an empty one for "every host".
const EXCEPTIONS: &str = "no_proxy NO_PROXY";

/// Returns a line that removes variables.
fn unset(names: &str) -> String {
    format!("unset {names}")
}

/// Returns a line that sets a variable.
fn export(name: &str, value: &str) -> String {
    format!("export {name}={}", quoted(value))
}

/// Returns a comment for a shell; a path may hold an end of line.
fn comment(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| format!("# {line}")).collect();
    lines.join("\n")
}

/// Returns a text as a Python literal.
fn literal(text: &str) -> String {
    format!("{text:?}")
}

/// Returns the URL at which clients on this machine reach a proxy that listens on `addresses`.
#[must_use]
pub fn proxy_url(addresses: &[SocketAddr]) -> String {
    let mut address =
        addresses.first().copied().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8118)));
    // "Any address" is one to listen on, not one to connect to.
    match address {
        SocketAddr::V4(any) if any.ip().is_unspecified() => {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(any) if any.ip().is_unspecified() => {
            address.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    format!("http://{address}")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:=+,@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
