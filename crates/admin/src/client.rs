//! A command's end of the socket.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::http::problem;

/// Octets of an answer: a fleet has some hundreds of octets for each of its members.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// The route that has the records made so far written into the store. A run has it, too.
pub const FLUSH: &str = "/process/flush";

/// The same, with the counts of requests that have no record of their own.
pub const FLUSH_COUNTS: &str = "/process/flush/counts";

/// The route of a command that has changed overrides in the store.
pub const OVERRIDES_CHANGED: &str = "/process/overrides";

/// Encodes a value as part of a URL.
#[must_use]
pub fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Asks the process that listens at `path`, with a JSON document if there is one, and waits at most `patience` for its
/// answer. An answer without content is `null`.
///
/// # Errors
/// When no process listens there, no answer comes, or it is a problem.
pub async fn ask<T: DeserializeOwned>(
    path: &Path,
    method: Method,
    target: &str,
    body: Option<Value>,
    patience: Duration,
) -> Result<T, AskError> {
    let failed = |error| AskError::Failed { path: path.to_owned(), error };
    let asking = async {
        let stream = UnixStream::connect(path).await.map_err(|error| {
            if is_unanswered(&error) {
                AskError::NotRunning(path.to_owned())
            } else {
                failed(error)
            }
        })?;
        if !may_answer(&stream).map_err(failed)? {
            return Err(AskError::OtherUser(path.to_owned()));
        }
        exchange(stream, method, target, body).await.map_err(failed)
    };
    let answer = timeout(patience, asking).await;
    let answer = answer.unwrap_or_else(|_| Err(failed(io::ErrorKind::TimedOut.into())))?;
    answer.read().map_err(|error| failed(error.into()))?
}

/// Tells whether an error means that no process listens.
fn is_unanswered(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

async fn exchange(
    stream: UnixStream,
    method: Method,
    target: &str,
    body: Option<Value>,
) -> io::Result<Answer> {
    let mut sent = http::Request::builder().method(method).uri(target).header(HOST, "localhost");
    let mut content = Bytes::new();
    if let Some(body) = body {
        sent = sent.header(CONTENT_TYPE, "application/json");
        content = body.to_string().into();
    }
    let sent = sent.body(Full::new(content)).map_err(io::Error::other)?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(failure)?;
    let answering = async {
        let (head, body) = sender.send_request(sent).await.map_err(failure)?.into_parts();
        let is_problem = head.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes())
            == Some(problem::MEDIA_TYPE.as_bytes());
        let body = Limited::new(body, LONGEST_ANSWER).collect().await;
        Ok(Answer {
            status: head.status,
            is_problem,
            body: body.map_err(io::Error::other)?.to_bytes(),
        })
    };
    tokio::pin!(answering);
    tokio::select! {
        answer = &mut answering => answer,
        // Its end is an error of the request, too.
        _ = connection => answering.await,
    }
}

/// Returns the error of a connection as that of its socket.
fn failure(error: hyper::Error) -> io::Error {
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(source) => io::Error::new(source.kind(), source.to_string()),
        None if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "it is too busy to answer; try again")
        }
        None => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

/// Tells whether the process at the other end may answer: root may ask any process, other users only their own and
/// root's.
fn may_answer(stream: &UnixStream) -> io::Result<bool> {
    let us = rustix::process::geteuid().as_raw();
    let them = stream.peer_cred()?.uid();
    Ok(us == 0 || them == 0 || them == us)
}

/// An answer of the process.
struct Answer {
    status: StatusCode,
    is_problem: bool,
    body: Bytes,
}

/// A problem document.
#[derive(Deserialize)]
struct Refusal {
    detail: String,
}

impl Answer {
    fn read<T: DeserializeOwned>(&self) -> serde_json::Result<Result<T, AskError>> {
        if self.is_problem {
            let Refusal { detail } = serde_json::from_slice(&self.body)?;
            let status = self.status;
            return Ok(Err(AskError::Refused { status, detail }));
        }
        let body: &[u8] = match &*self.body {
            b"" => b"null",
            body => body,
        };
        serde_json::from_slice(body).map(Ok)
    }
}

/// No answer, or a problem.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No process listens there.
    #[error("no crawlgate listens at {}", .0.display())]
    NotRunning(PathBuf),
    /// A process of another user listens there.
    #[error("{}: this belongs to another user; run the command as that user", .0.display())]
    OtherUser(PathBuf),
    /// The process does not do it.
    #[error("{detail}")]
    Refused {
        /// The status of its answer.
        status: StatusCode,
        /// The reason.
        detail: String,
    },
    /// The process cannot be reached, or sends no valid answer.
    #[error("admin socket {path}: {error}{}", advice(.error))]
    Failed {
        /// The path of the socket.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
}

/// Returns the way out of a failure to reach the process.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run the command as the user that crawlgate runs as",
        _ => "",
    }
}
