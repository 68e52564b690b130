//! A service that takes files by PUT, as WebDAV servers and object storage do.
//!
//! A file is put under a condition: `If-None-Match: *` asks for no change of one that is there (412), and then its content
//! must be the same. Services that know no condition put the same octets in its place. The operator names the service, so
//! crawlgate reaches it directly, not as an origin.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::audit::export::same::is_same;
use crate::audit::export::write::{Destination, Placing};
use crate::store::collection;
use crate::text::causes;
use crate::tlog::KeyName;

/// Time for a whole exchange.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Octets of an answer that are read: the longest file.
const MOST: usize = 64 * 1024 * 1024;

/// Octets of a foreign text that a message repeats.
const SHOWN: usize = 200;

/// Bodies that are remembered as put.
const REMEMBERED: usize = 65_536;

const NAME: HeaderValue =
    HeaderValue::from_static(concat!("crawlgate/", env!("CARGO_PKG_VERSION")));

/// A client of one service.
#[derive(Debug)]
pub(super) struct Client {
    hyper: HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    token_file: Option<PathBuf>,
    /// The names of files that are there.
    put: Mutex<HashSet<String>>,
}

impl Client {
    /// Returns a client that trusts these roots.
    pub(super) fn new(tls: rustls::ClientConfig, token_file: Option<PathBuf>) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let hyper = HyperClient::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self {
            hyper,
            token_file,
            put: Mutex::default(),
        }
    }

    /// Returns the service at the URL of a log, with the token that the file has now.
    ///
    /// # Errors
    /// When the token cannot be read.
    pub(super) fn open<'c>(&'c self, url: &'c str) -> Result<Service<'c>, String> {
        Ok(Service {
            client: self,
            url,
            token: self.token_file.as_deref().map(token).transpose()?,
        })
    }

    /// Forgets what is there.
    pub(super) fn forget(&self) {
        self.put.lock().clear();
    }
}

/// Reads the token of a service.
///
/// # Errors
/// When it cannot be read, or is none.
pub(super) fn token(path: &Path) -> Result<HeaderValue, String> {
    let failed = |why: &str| format!("[ship] token_file {}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
    let token = HeaderValue::try_from(format!("Bearer {}", text.trim_end()));
    let mut token = token.map_err(|_| failed("this is no token: one line is expected"))?;
    token.set_sensitive(true);
    Ok(token)
}

/// Returns the URL of a log: the name is one segment, as the file of a collected log.
pub(super) fn url_of(prefix: &str, log: &KeyName) -> String {
    let name = collection::encoded(log.as_str()).replace('%', "%25");
    format!("{prefix}/{name}")
}

/// A service during a pass.
pub(super) struct Service<'c> {
    client: &'c Client,
    url: &'c str,
    token: Option<HeaderValue>,
}

impl Service<'_> {
    /// Returns the URL of a file.
    pub(super) fn shown(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Returns a file. `None` if there is none.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match self.ask(Method::GET, name, Bytes::new()).await? {
            (StatusCode::OK, body) => Ok(Some(body.to_vec())),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) => Err(self.refused(name, status, &body)),
        }
    }

    /// Puts a file at a place where a service that knows no condition might put it over another one.
    pub(super) async fn put_anew(&self, name: &str, content: &[u8]) -> Result<(), String> {
        match self.get(name).await? {
            Some(found) if is_same(name, content, &found) => Ok(()),
            Some(_) => Err(self.other(name)),
            None => self.put(name, content).await,
        }
    }

    async fn try_put(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let body = Bytes::copy_from_slice(content);
        match self.ask(Method::PUT, name, body).await? {
            (StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT, _) => Ok(()),
            // Object storage answers 409 while another request puts the same file.
            (status @ (StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT), body) => {
                match self.get(name).await? {
                    Some(found) if is_same(name, content, &found) => Ok(()),
                    Some(_) => Err(self.other(name)),
                    None => Err(self.refused(name, status, &body)),
                }
            }
            (status, body) => Err(self.refused(name, status, &body)),
        }
    }

    async fn ask(
        &self,
        method: Method,
        name: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let url = self.shown(name);
        let exchange = async {
            let mut request = Request::builder().method(&method).uri(&url);
            request = request.header(USER_AGENT, NAME);
            if let Some(token) = &self.token {
                request = request.header(AUTHORIZATION, token);
            }
            if method == Method::PUT {
                request = request.header(IF_NONE_MATCH, "*");
            }
            let request = request.body(Full::new(body));
            let request = request.map_err(|error| error.to_string())?;
            let answer = self.client.hyper.request(request).await;
            let (head, body) = answer.map_err(|error| causes(&error))?.into_parts();
            let body = Limited::new(body, MOST).collect().await;
            let body = body.map_err(|error| causes(&*error))?.to_bytes();
            Ok((head.status, body))
        };
        let late = || format!("it does not answer within {} seconds", PATIENCE.as_secs());
        let outcome = timeout(PATIENCE, exchange).await;
        outcome
            .unwrap_or_else(|_| Err(late()))
            .map_err(|why| format!("{url}: {why}"))
    }

    fn refused(&self, name: &str, status: StatusCode, body: &[u8]) -> String {
        let url = self.shown(name);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return format!("{url}: it refuses the token ({status}); see to [ship] token_file");
        }
        let text = String::from_utf8_lossy(body);
        let line = text.lines().next().unwrap_or_default();
        let line: String = line.chars().filter(|one| !one.is_control()).collect();
        let short: String = line.chars().take(SHOWN).collect();
        match short.is_empty() {
            true => format!("{url}: it answers {status}"),
            false => format!("{url}: it answers {status}: {short}"),
        }
    }

    fn other(&self, name: &str) -> String {
        format!(
            "{}: there is another file in its place, damaged or of other content, which is not overwritten; move it away, or \
             name another URL with [ship] to",
            self.shown(name)
        )
    }
}

impl Destination for Service<'_> {
    fn has(&self, name: &str) -> bool {
        self.client.put.lock().contains(name)
    }

    fn put<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Placing<'a, ()> {
        Box::pin(async move {
            self.try_put(name, content).await?;
            let mut put = self.client.put.lock();
            if put.len() >= REMEMBERED {
                put.clear();
            }
            put.insert(name.to_owned());
            Ok(())
        })
    }
}
