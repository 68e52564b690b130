//! A command's end of the socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{Answer, LONGEST_ANSWER, Request};

/// Asks the process that listens at `path` and waits at most `patience` for its answer.
///
/// # Errors
/// When no process listens there, or no answer comes.
pub async fn ask(path: &Path, request: &Request, patience: Duration) -> Result<Answer, AskError> {
    let failed = |error| AskError::Failed {
        path: path.to_owned(),
        error,
    };
    let asking = async {
        let mut stream = UnixStream::connect(path).await.map_err(|error| {
            if is_unanswered(&error) {
                AskError::NotRunning(path.to_owned())
            } else {
                failed(error)
            }
        })?;
        if !may_answer(&stream).map_err(failed)? {
            return Err(AskError::OtherUser(path.to_owned()));
        }
        exchange(&mut stream, request).await.map_err(failed)
    };
    timeout(patience, asking)
        .await
        .unwrap_or_else(|_| Err(failed(io::ErrorKind::TimedOut.into())))
}

/// Tells whether an error means that no process listens.
fn is_unanswered(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

async fn exchange(stream: &mut UnixStream, request: &Request) -> io::Result<Answer> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = Vec::new();
    let mut lines = BufReader::new(stream.take(LONGEST_ANSWER));
    lines.read_until(b'\n', &mut answer).await?;
    if answer.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it is too busy to answer; try again",
        ));
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Tells whether the process at the other end may answer: root may ask any process, other users only their own and
/// root's.
fn may_answer(stream: &UnixStream) -> io::Result<bool> {
    let us = rustix::process::geteuid().as_raw();
    let them = stream.peer_cred()?.uid();
    Ok(us == 0 || them == 0 || them == us)
}

/// No answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No process listens there.
    #[error("no crawlgate listens at {}", .0.display())]
    NotRunning(PathBuf),
    /// A process of another user listens there.
    #[error("{}: this belongs to another user; run the command as that user", .0.display())]
    OtherUser(PathBuf),
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
