//! What to set up in each client, as lines to paste.
//!
//! Each recipe does two things: it points the client to the proxy, and it makes the client trust the authority. Where
//! a client can be told of one more authority it is told of ours alone; where what it is told replaces all others it
//! gets the bundle.

use std::{fmt::Write as _, net::SocketAddr};

/// The clients that there is a recipe for.
pub(crate) const CLIENTS: [&str; 14] = [
    "curl", "wget", "requests", "httpx", "aiohttp", "scrapy", "node", "go", "java", "git", "cargo",
    "chromium", "firefox", "system",
];

/// What the recipes are filled with. Paths are absolute.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// `http://host:port`
    pub(crate) proxy: String,
    /// The authority's certificate, PEM: for clients that read one certificate from a file.
    pub(crate) ca: String,
    /// The next authority's, while a rotation is under way.
    pub(crate) next: Option<String>,
    /// Both, and those that signed before, PEM.
    pub(crate) authorities: String,
    /// Public roots and the authority, PEM.
    pub(crate) bundle: String,
    /// The same as a Java truststore.
    pub(crate) truststore: String,
    /// The SHA-256 of the authority's SubjectPublicKeyInfo, base64; during a rotation, the next one's behind a comma.
    pub(crate) spki: String,
}

impl Setup {
    /// The recipe for one client, found by its name in [`CLIENTS`], in any case.
    #[must_use]
    pub(crate) fn one(&self, client: &str) -> Option<String> {
        let client = CLIENTS
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(client))?;
        let (title, lines) = self.lines(client)?;
        let mut text = format!("# {title}\n");
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        Some(text)
    }

    /// All recipes.
    #[must_use]
    pub(crate) fn all(&self) -> String {
        let mut text = String::from(
            "# `crawlgate run COMMAND` sets all of this for one command.\n\
             # The bundle and the truststore named here were written along with these lines.\n",
        );
        for recipe in CLIENTS.into_iter().filter_map(|client| self.one(client)) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{recipe}");
        }
        text
    }

    fn lines(&self, client: &str) -> Option<(&'static str, Vec<String>)> {
        let Self {
            proxy,
            ca,
            next,
            authorities,
            bundle,
            truststore,
            spki,
        } = self;
        let export = |name: &str, value: &str| format!("export {name}={}", quoted(value));
        let proxies = || {
            vec![
                export("http_proxy", proxy),
                export("https_proxy", proxy),
                export("no_proxy", ""),
            ]
        };
        let with = |mut lines: Vec<String>, more: Vec<String>| {
            lines.extend(more);
            lines
        };
        // A line for each authority, by the name that it is to have.
        let each = |line: &dyn Fn(&str, &str) -> String| {
            let next = next
                .as_ref()
                .map(|next| line(&quoted(next), "crawlgate-next"));
            let mut lines = vec![line(&quoted(ca), "crawlgate")];
            lines.extend(next);
            lines
        };
        Some(match client {
            "curl" => (
                "curl",
                with(proxies(), vec![export("CURL_CA_BUNDLE", bundle)]),
            ),
            "wget" => (
                "GNU Wget",
                vec![format!(
                    "wget -e http_proxy={proxy} -e https_proxy={proxy} --ca-certificate={} URL",
                    quoted(bundle)
                )],
            ),
            "requests" => (
                "Python requests",
                with(proxies(), vec![export("REQUESTS_CA_BUNDLE", bundle)]),
            ),
            "httpx" => (
                "Python httpx",
                with(proxies(), vec![export("SSL_CERT_FILE", bundle)]),
            ),
            "aiohttp" => (
                "Python aiohttp: the session must be told to read the variables",
                with(
                    proxies(),
                    vec![
                        export("SSL_CERT_FILE", bundle),
                        "# aiohttp.ClientSession(trust_env=True)".to_owned(),
                    ],
                ),
            ),
            "scrapy" => (
                "Scrapy: HttpProxyMiddleware, on by default, reads the variables",
                with(proxies(), vec![export("SSL_CERT_FILE", bundle)]),
            ),
            "node" => (
                "Node.js: fetch reads the variables from version 24 (22.21 in its line) on",
                with(
                    proxies(),
                    vec![
                        export("NODE_USE_ENV_PROXY", "1"),
                        export("NODE_EXTRA_CA_CERTS", authorities),
                    ],
                ),
            ),
            "go" => (
                "Go, net/http: loopback hosts are always excepted",
                with(proxies(), vec![export("SSL_CERT_FILE", bundle)]),
            ),
            "java" => ("Java", self.java(truststore)),
            "git" => (
                "git",
                vec![
                    format!("git config --global http.proxy {proxy}"),
                    format!("git config --global http.sslCAInfo {}", quoted(bundle)),
                ],
            ),
            "cargo" => (
                "cargo",
                vec![
                    export("CARGO_HTTP_PROXY", proxy),
                    export("CARGO_HTTP_CAINFO", bundle),
                ],
            ),
            "chromium" => (
                "Chromium, also under Playwright, Puppeteer or Selenium",
                with(
                    vec![
                        // The list of keys counts only together with a profile directory.
                        format!(
                            "chromium --proxy-server={proxy} '--proxy-bypass-list=<-loopback>' \
                             --user-data-dir=\"$(mktemp -d)\" --ignore-certificate-errors-spki-list={spki}"
                        ),
                        "# or for good, for this user:".to_owned(),
                    ],
                    each(&|ca, name| {
                        format!("certutil -d \"sql:$HOME/.pki/nssdb\" -A -t C,, -n {name} -i {ca}")
                    }),
                ),
            ),
            "firefox" => (
                "Firefox: the proxy in its settings, the authority in its profile",
                each(&|ca, name| {
                    format!("certutil -d \"sql:$PROFILE\" -A -t C,, -n {name} -i {ca}")
                }),
            ),
            "system" => (
                "The system's store (Debian and its kin; `trust anchor FILE` on Fedora and Arch)",
                with(
                    each(&|ca, name| {
                        format!(
                            "sudo install -m 644 {ca} /usr/local/share/ca-certificates/{name}.crt"
                        )
                    }),
                    vec!["sudo update-ca-certificates".to_owned()],
                ),
            ),
            _ => return None,
        })
    }

    fn java(&self, truststore: &str) -> Vec<String> {
        let authority = self.proxy.trim_start_matches("http://");
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        vec![format!(
            "java -Dhttp.proxyHost={host} -Dhttp.proxyPort={port} -Dhttps.proxyHost={host} -Dhttps.proxyPort={port} \
             -Dhttp.nonProxyHosts= {} -Djavax.net.ssl.trustStoreType={} -Djavax.net.ssl.trustStorePassword={} …",
            quoted(&format!("-Djavax.net.ssl.trustStore={truststore}")),
            super::TRUSTSTORE_TYPE,
            super::TRUSTSTORE_PASSWORD,
        )]
    }
}

/// The URL at which clients on this machine find a proxy that listens on `addresses`.
#[must_use]
pub(crate) fn proxy_url(addresses: &[SocketAddr]) -> String {
    let mut address = addresses
        .first()
        .copied()
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8118)));
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

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:=+,@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            proxy: "http://127.0.0.1:8118".into(),
            ca: "/srv/gate keeper/ca.crt".into(),
            next: None,
            authorities: "/srv/gate keeper/authorities.pem".into(),
            bundle: "/srv/bundle.pem".into(),
            truststore: "/srv/truststore.jks".into(),
            spki: "AbC/+=".into(),
        }
    }

    #[test]
    fn every_client_has_a_recipe_that_names_the_proxy_or_the_authority() {
        let setup = setup();
        let all = setup.all();
        for client in CLIENTS {
            let recipe = setup.one(client).unwrap();
            assert!(
                recipe.starts_with("# ") && recipe.lines().count() > 1,
                "{client}: {recipe}"
            );
            assert!(
                recipe.contains("127.0.0.1") || recipe.contains("'/srv/gate keeper/ca.crt'"),
                "{client}: {recipe}"
            );
            assert!(all.contains(&recipe), "{client}");
        }
        assert_eq!(setup.one("gopher"), None);
    }

    #[test]
    fn the_proxy_is_named_by_an_address_that_can_be_connected_to() {
        for (listens, url) in [
            ("127.0.0.1:8118", "http://127.0.0.1:8118"),
            ("0.0.0.0:3128", "http://127.0.0.1:3128"),
            ("[::]:3128", "http://[::1]:3128"),
            ("192.0.2.7:80", "http://192.0.2.7:80"),
        ] {
            assert_eq!(proxy_url(&[listens.parse().unwrap()]), url);
        }
        assert_eq!(proxy_url(&[]), "http://127.0.0.1:8118");
    }

    #[test]
    fn words_reach_the_shell_as_they_are() {
        for (word, shell) in [
            ("/a/b.pem", "/a/b.pem"),
            ("/a b", "'/a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shell);
        }
    }
}
