//! The way to a witness: one POST, with bounds on its time and on its answer.
//!
//! A witness is named by the operator, like an OpenTelemetry collector: crawlgate reaches it directly, not as an origin.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Buf as _;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HyperClient, Error as ExchangeError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::time::timeout;

use super::protocol::Received;
use crawlgate_text::causes;

/// Time for a whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time that an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Octets of an answer that are read. A signature line has about 200, one of a post-quantum key 4,500.
const MAX_ANSWER: usize = 64 * 1024;

/// The User-Agent.
pub(crate) const NAME: HeaderValue =
    HeaderValue::from_static(concat!("crawlgate/", env!("CARGO_PKG_VERSION")));

/// The reason why no answer came.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The request cannot be made.
    #[error("{0}")]
    Request(#[from] http::Error),
    /// The witness cannot be reached, or breaks off before its answer.
    #[error("{}", causes(.0))]
    Exchange(#[from] ExchangeError),
    /// The answer breaks off.
    #[error("{}", causes(.0))]
    Body(#[from] hyper::Error),
    /// The answer is too long.
    #[error("its answer has more than {MAX_ANSWER} octets")]
    Long,
    /// No answer came in time.
    #[error("it does not answer within {} seconds", TIMEOUT.as_secs())]
    Late,
}

/// Returns a client that trusts these roots, without the ways out of origins.
pub(crate) fn direct<B>(tls: rustls::ClientConfig) -> HyperClient<HttpsConnector<HttpConnector>, B>
where
    B: http_body::Body<Data: Send> + Send,
{
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    HyperClient::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(connector)
}

/// A client of witnesses. Clones share its connections.
#[derive(Clone, Debug)]
pub(super) struct Client(HyperClient<HttpsConnector<HttpConnector>, String>);

impl Client {
    /// Returns a client that trusts these roots.
    pub(super) fn new(tls: rustls::ClientConfig) -> Self {
        Self(direct(tls))
    }

    /// Sends a question, and returns the answer. It follows no redirect.
    ///
    /// # Errors
    /// With the reason why no answer came, or not in time.
    pub(super) async fn ask(&self, url: &Uri, question: String) -> Result<Received, ClientError> {
        let exchange = timeout(TIMEOUT, self.exchange(url, question)).await;
        exchange.unwrap_or(Err(ClientError::Late))
    }

    async fn exchange(&self, url: &Uri, question: String) -> Result<Received, ClientError> {
        let request = Request::post(url).header(USER_AGENT, NAME).body(question)?;
        let (head, body) = self.0.request(request).await?.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        Ok(Received {
            status: head.status,
            content_type: content_type.map(str::to_owned),
            body: read(body).await?,
        })
    }
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, ClientError> {
    let mut octets = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame?.into_data() {
            if octets.len() + data.remaining() > MAX_ANSWER {
                return Err(ClientError::Long);
            }
            octets.extend_from_slice(&data);
        }
    }
    Ok(octets)
}
