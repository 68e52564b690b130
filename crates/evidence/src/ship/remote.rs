//! A service that takes files by PUT, as WebDAV servers and object storage do.
//!
//! A file is put under a condition: `If-None-Match: *` asks for no change of one that is there (412), and then its content
//! must be the same. Services that know no condition put the same octets in its place. The operator names the service, so
//! crawlgate reaches it directly, not as an origin.

use std::collections::HashSet;
use std::error::Error as StdError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HyperClient, Error as ExchangeError};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::timeout;

use crate::destination::{Destination, DestinationError, Placing};
use crate::export::same::is_same;
use crate::witness::client::{NAME, direct};
use crawlgate_store::collection;
use crawlgate_text::causes;
use crawlgate_tlog::KeyName;

/// Time for a whole exchange.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Octets of an answer that are read: the longest file.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Octets of a foreign text that a message repeats.
const MAX_SHOWN: usize = 200;

/// Bodies that are remembered as put.
const REMEMBERED: usize = 65_536;

/// The reason why there is no token.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("[ship] token_file {}: {error}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The fault.
        error: io::Error,
    },
    /// The file holds none.
    #[error("[ship] token_file {}: this is no token: one line is expected", .0.display())]
    Malformed(PathBuf),
}

/// The reason why a service does not do as asked.
#[derive(Debug, Error)]
#[error("{url}: {fault}")]
pub(super) struct ServiceError {
    url: String,
    fault: ServiceFault,
}

#[derive(Debug, Error)]
enum ServiceFault {
    /// The request cannot be made.
    #[error("{0}")]
    Request(#[from] http::Error),
    /// The service cannot be reached, or breaks off before its answer.
    #[error("{}", causes(.0))]
    Exchange(#[from] ExchangeError),
    /// The answer breaks off, or is too long.
    #[error("{}", causes(&**_0))]
    Body(#[from] Box<dyn StdError + Send + Sync>),
    /// No answer came in time.
    #[error("it does not answer within {} seconds", TIMEOUT.as_secs())]
    Late,
    /// It refuses the token.
    #[error("it refuses the token ({0}); see to [ship] token_file")]
    Token(StatusCode),
    /// It answers another status, and with this line.
    #[error("it answers {status}{}{line}", if line.is_empty() { "" } else { ": " })]
    Status { status: StatusCode, line: String },
    /// Another file stands in the place of one.
    #[error(
        "there is another file in its place, damaged or of other content, which is not overwritten; move it away, or name \
         another URL with [ship] to"
    )]
    Other,
}

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
        Self { hyper: direct(tls), token_file, put: Mutex::default() }
    }

    /// Returns the service at the URL of a log, with the token that the file has now.
    ///
    /// # Errors
    /// When the token cannot be read.
    pub(super) fn open<'c>(&'c self, url: &'c str) -> Result<Service<'c>, TokenError> {
        Ok(Service { client: self, url, token: self.token_file.as_deref().map(token).transpose()? })
    }

    /// Forgets what is there.
    pub(super) fn forget(&self) {
        self.put.lock().clear();
    }
}

/// Reads the token of a service.
///
/// # Errors
/// When the file cannot be read, or holds no token.
pub(super) fn token(path: &Path) -> Result<HeaderValue, TokenError> {
    let text = fs::read_to_string(path)
        .map_err(|error| TokenError::Unreadable { path: path.to_owned(), error })?;
    let token = HeaderValue::try_from(format!("Bearer {}", text.trim_end()));
    let mut token = token.map_err(|_| TokenError::Malformed(path.to_owned()))?;
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

    /// Returns a file. `None` if the service does not have it.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ServiceError> {
        match self.ask(Method::GET, name, Bytes::new()).await? {
            (StatusCode::OK, body) => Ok(Some(body.to_vec())),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) => Err(self.refused(name, status, &body)),
        }
    }

    /// Tells whether a file is there, as `content` says.
    async fn is_there(&self, name: &str, content: &[u8]) -> Result<bool, ServiceError> {
        match self.get(name).await? {
            Some(found) if is_same(name, content, &found) => Ok(true),
            Some(_) => Err(self.failed(name, ServiceFault::Other)),
            None => Ok(false),
        }
    }

    /// Puts a file at a place where a service that knows no condition might put it over another one.
    pub(super) async fn put_new(&self, name: &str, content: &[u8]) -> Result<(), ServiceError> {
        if self.is_there(name, content).await? {
            return Ok(());
        }
        self.put_file(name, content).await
    }

    async fn put_file(&self, name: &str, content: &[u8]) -> Result<(), ServiceError> {
        let body = Bytes::copy_from_slice(content);
        match self.ask(Method::PUT, name, body).await? {
            (StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT, _) => {}
            // Object storage answers 409 while another request puts the same file.
            (StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT, _)
                if self.is_there(name, content).await? => {}
            (status, body) => return Err(self.refused(name, status, &body)),
        }
        let mut put = self.client.put.lock();
        if put.len() >= REMEMBERED {
            put.clear();
        }
        put.insert(name.to_owned());
        Ok(())
    }

    async fn ask(
        &self,
        method: Method,
        name: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ServiceError> {
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
            let request = request.body(Full::new(body))?;
            let answer = self.client.hyper.request(request).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
            Ok::<_, ServiceFault>((head.status, body))
        };
        let outcome = timeout(TIMEOUT, exchange).await;
        let outcome = outcome.unwrap_or(Err(ServiceFault::Late));
        outcome.map_err(|fault| self.failed(name, fault))
    }

    fn refused(&self, name: &str, status: StatusCode, body: &[u8]) -> ServiceError {
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return self.failed(name, ServiceFault::Token(status));
        }
        let text = String::from_utf8_lossy(body);
        let line = text.lines().next().unwrap_or_default().chars();
        let line = line.filter(|one| !one.is_control()).take(MAX_SHOWN).collect();
        self.failed(name, ServiceFault::Status { status, line })
    }

    fn failed(&self, name: &str, fault: ServiceFault) -> ServiceError {
        let url = self.shown(name);
        ServiceError { url, fault }
    }
}

impl Destination for Service<'_> {
    fn has(&self, name: &str) -> bool {
        self.client.put.lock().contains(name)
    }

    fn put<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Placing<'a, ()> {
        Box::pin(async move {
            let put = self.put_file(name, content).await;
            put.map_err(DestinationError::new)
        })
    }
}
