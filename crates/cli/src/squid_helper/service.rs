//! The helper's client of the decision service.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::time::timeout;

use super::line::{DecisionFacts, Lookup, Outcome};
use crate::{Failure, terminal};
use crawlgate_egress::tls_config;
use crawlgate_proxy::decide::{DECISION, REASON, VERDICT};
use crawlgate_text::causes;
use crawlgate_trust::TrustError;

/// Octets of an answer to read.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Idle connections are closed before the instance does.
const IDLE: Duration = Duration::from_secs(15);

/// The way to a running instance.
#[derive(Debug)]
pub(super) struct Instance {
    /// The URL of its `[admin] address`.
    pub(super) url: String,
    /// The name that its certificate must have; none: that of the URL.
    pub(super) server_name: Option<String>,
    /// A file with its token, if it demands one.
    pub(super) token_file: Option<PathBuf>,
    /// Files with certificates to trust besides those of the system.
    pub(super) roots: Vec<PathBuf>,
}

/// A client of a running instance.
#[derive(Debug)]
pub(super) struct Service {
    client: Client<HttpsConnector<HttpConnector>, String>,
    /// `http://host:port` or `https://host:port`.
    place: String,
    authorization: Option<HeaderValue>,
    /// The end of each request's query.
    suffix: String,
    patience: Duration,
    /// True if the instance did not answer the last time: the helper logs that once.
    is_away: AtomicBool,
}

impl Service {
    /// Creates a client of the instance, for the `[[client]]` of this name, and with `patience` for an answer.
    ///
    /// # Errors
    /// When the URL is not valid, or a file cannot be read.
    pub(super) fn new(
        instance: &Instance,
        client: Option<&str>,
        patience: Duration,
    ) -> Result<Service, Failure> {
        let Instance { url, server_name, token_file, roots } = instance;
        let place = place_of(url).ok_or_else(|| {
            format!(
                "--url {url:?}: where the instance has its [admin] address, as in http://127.0.0.1:8119"
            )
        })?;
        let authorization = match token_file {
            None => None,
            Some(path) => {
                let failed =
                    |why: &dyn std::fmt::Display| format!("--token-file {}: {why}", path.display());
                let token = fs::read_to_string(path).map_err(|error| failed(&error))?;
                let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                    .map_err(|_| failed(&"this is no token"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut suffix = String::new();
        if let Some(name) = client {
            suffix = format!("&client={}", encoded(name.as_bytes()));
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(patience));
        connector.enforce_http(false);
        let tls = tls_config(roots).map_err(|error| match error {
            TrustError::Unreadable { path, source, .. } => {
                format!("--ca {}: {source}", path.display())
            }
            TrustError::Malformed { path, why, .. } => {
                format!("--ca {}: no certificates: {why}", path.display())
            }
            other => other.to_string(),
        })?;
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        if let Some(name) = server_name {
            let name = ServerName::try_from(name.clone());
            let name = name.map_err(|error| format!("[admin] hosts: {error}"))?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = builder.enable_http1().wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Service {
            client,
            place,
            authorization,
            suffix,
            patience,
            is_away: AtomicBool::new(false),
        })
    }

    /// Requests a decision.
    pub(super) async fn ask(&self, lookup: &Lookup) -> Outcome {
        let asked = timeout(self.patience, self.answer(lookup)).await;
        let outcome = asked.unwrap_or_else(|_| Err("no answer came in time".into()));
        let was_away = self.is_away.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok(outcome) => {
                if was_away {
                    say(&format!("{} answers again", self.place));
                }
                outcome
            }
            Err(why) => {
                let why = format!("{}: {why}", self.place);
                if !was_away {
                    say(&format!("{why}; until it answers, nothing is allowed"));
                }
                Outcome::Undecided(why)
            }
        }
    }

    async fn answer(&self, lookup: &Lookup) -> Result<Outcome, Failure> {
        let request = self.request(lookup)?;
        let response = self.client.request(request).await;
        let response = response.map_err(|error| causes(&error))?;
        let (head, body) = response.into_parts();
        let Some(verdict) = field(&head.headers, VERDICT) else {
            return Err(match head.status {
                StatusCode::UNAUTHORIZED => {
                    "it wants a token: --token-file names a file with that of [admin] token_file or of an [[admin.user]]"
                        .into()
                }
                // The error concerns only this request.
                StatusCode::BAD_REQUEST => return Ok(Outcome::Undecided(detail(body).await)),
                status => format!("status {status}, without a decision").into(),
            });
        };
        let mut facts = DecisionFacts {
            reason: field(&head.headers, REASON).unwrap_or_default(),
            id: field(&head.headers, DECISION).unwrap_or_default(),
            message: String::new(),
        };
        if head.status == StatusCode::OK {
            // Read to its end, or the connection could not be used again.
            octets(body).await;
            return Ok(Outcome::Allowed(facts));
        }
        facts.message = detail(body).await;
        if facts.message.is_empty() {
            facts.message = format!("{verdict}: {}", facts.reason);
        }
        Ok(Outcome::Refused(facts))
    }

    fn request(&self, lookup: &Lookup) -> Result<Request<String>, Failure> {
        let mut target = format!("{}/decide?url={}", self.place, encoded(&lookup.url));
        if lookup.is_tunnel() {
            target.push_str("&tunnel=true&method=CONNECT");
        }
        if let Some(agent) = &lookup.agent {
            target = target + "&agent=" + &encoded(agent);
        }
        let mut request = Request::get(target + &self.suffix);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        Ok(request.body(String::new())?)
    }
}

/// Returns `http://host:port` or `https://host:port` as such; none of any other URL.
fn place_of(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
    let is_bare = matches!(scheme, "http" | "https")
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none()
        && !authority.contains('@');
    is_bare.then(|| format!("{scheme}://{authority}"))
}

fn field(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Percent-encodes all octets but those that no reader could mistake.
fn encoded(octets: &[u8]) -> String {
    let mut text = String::new();
    for octet in octets {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*octet));
            }
            // Writing to a `String` does not fail.
            other => drop(write!(text, "%{other:02X}")),
        }
    }
    text
}

/// Returns the detail of a problem document; empty without one.
async fn detail(body: Incoming) -> String {
    let problem: Value = serde_json::from_slice(&octets(body).await).unwrap_or_default();
    let detail = problem.get("detail").and_then(Value::as_str);
    detail.unwrap_or_default().to_owned()
}

/// Reads a body; nothing of one over the limit.
async fn octets(body: Incoming) -> Bytes {
    let whole = Limited::new(body, LONGEST_ANSWER).collect().await;
    whole.map_or_else(|_| Bytes::new(), Collected::to_bytes)
}

/// Writes to Squid's log.
fn say(what: &str) {
    terminal::say(format_args!("crawlgate squid-helper: {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_by_host_and_port_only() {
        for (url, expected) in [
            ("http://127.0.0.1:8119", Some("http://127.0.0.1:8119")),
            ("http://gate.test/", Some("http://gate.test")),
            ("http://[::1]:8119", Some("http://[::1]:8119")),
            ("https://127.0.0.1:8119", Some("https://127.0.0.1:8119")),
            ("ftp://127.0.0.1:8119", None),
            ("127.0.0.1:8119", None),
            ("http://127.0.0.1:8119/decide", None),
            ("http://127.0.0.1:8119?url", None),
            ("http://user@127.0.0.1:8119", None),
            ("", None),
        ] {
            assert_eq!(place_of(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_question_arrives_as_it_was_asked() {
        let instance = Instance {
            url: "http://gate.test:1".to_owned(),
            server_name: None,
            token_file: None,
            roots: Vec::new(),
        };
        let service = Service::new(&instance, Some("news"), Duration::ZERO).unwrap();
        let asked = |url: &[u8], agent: Option<&[u8]>| {
            let lookup = Lookup { url: url.to_vec(), agent: agent.map(<[u8]>::to_vec) };
            service.request(&lookup).unwrap().uri().to_string()
        };
        assert_eq!(
            asked(b"http://a.test/x?b=1&c=%70#d", Some(b"A/1 (\xff)")),
            "http://gate.test:1/decide?url=http%3A%2F%2Fa.test%2Fx%3Fb%3D1%26c%3D%2570%23d&agent=A%2F1%20%28%FF%29&client=news"
        );
        assert_eq!(
            asked(b"a.test:443", None),
            "http://gate.test:1/decide?url=a.test%3A443&tunnel=true&method=CONNECT&client=news"
        );
    }
}
