//! The process's end of the socket.

use std::fs::{self, DirBuilder, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::run_socket::{run_socket, run_sockets};
use super::{Answer, LONGEST_REQUEST, Request};
use crawlgate_net::socket_file::SocketFile;
use crawlgate_system::metrics::Registry;

/// Requests that are open at once.
const OPEN: usize = 16;

/// Time for a request to arrive, and for its answer to be read.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a process that may listen already to accept a connection.
const PROBE: Duration = Duration::from_secs(1);

/// Pause after `accept` fails, as when descriptors run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// The work that a process does on request.
pub trait Service: Send + Sync + 'static {
    /// Does the work, and answers.
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>>;

    /// Registers the instruments of its own.
    fn register(&self, _: &mut Registry) {}
}

/// A socket of this process. Its file is removed on drop.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

/// The reason why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error(
        "admin socket {}: another crawlgate listens there; give this one a place of its own with [admin] socket, or \
         \"\" for none",
        .0.display()
    )]
    Taken(PathBuf),
    /// The socket cannot be made.
    #[error("admin socket {path}: {error}; {}", advice(.error))]
    Failed {
        /// The path.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
}

impl Socket {
    /// Listens at `path`, and replaces the socket of a crashed process. A missing directory is created.
    ///
    /// # Errors
    /// When another process listens there, or the socket cannot be made.
    pub async fn bind(path: &Path) -> Result<Socket, BindError> {
        let (listener, file) = claim(path, 0o600).await?;
        Ok(Socket { listener, file })
    }

    /// Listens beside `store` for this process, a run, and removes the sockets of killed runs.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub async fn bind_run(store: &Path) -> Result<Socket, BindError> {
        for earlier in run_sockets(store) {
            // One that cannot be removed stays for the next run.
            let _ = clear(&earlier).await;
        }
        // No lock: the path is that of this process, and `serve` gives its socket up if another process holds the lock.
        let path = run_socket(store, std::process::id());
        clear(&path).await?;
        let (listener, file) = listen(&path, 0o600)?;
        Ok(Socket { listener, file })
    }

    /// Returns the path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Answers requests until this future is dropped.
    pub async fn serve(self, service: Arc<dyn Service>) {
        let open = Arc::new(Semaphore::new(OPEN));
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!(%error, "a connection to the admin socket cannot be accepted");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            // A client that finds the process busy is not kept waiting.
            if let Ok(slot) = Arc::clone(&open).try_acquire_owned() {
                let service = Arc::clone(&service);
                tokio::spawn(async move {
                    if let Err(error) = serve_connection(stream, &*service).await {
                        debug!(%error, "a question on the admin socket was given up");
                    }
                    drop(slot);
                });
            }
        }
    }
}

/// Listens at `path` with a socket of this mode, and replaces the socket of a crashed process. A missing directory is
/// created.
///
/// # Errors
/// When another process listens there, or the socket cannot be made.
pub(crate) async fn claim(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), BindError> {
    let failed = |error| BindError::Failed {
        path: path.to_owned(),
        error,
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.exists() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).map_err(failed)?;
    }
    // Held until this process listens: of two that start at once, the second would remove the first one's file.
    let lock = fs::File::open(folder).map_err(failed)?;
    // On a file system without locks the operator must not start two processes at once.
    if let Err(Errno::WOULDBLOCK) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        return Err(BindError::Taken(path.to_owned()));
    }
    clear(path).await?;
    listen(path, mode)
}

fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), BindError> {
    let failed = |error| BindError::Failed {
        path: path.to_owned(),
        error,
    };
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile::of(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    Ok((listener, file))
}

/// Makes room at `path`: removes the socket of a process that has ended, and nothing else.
async fn clear(path: &Path) -> Result<(), BindError> {
    let failed = |error| BindError::Failed {
        path: path.to_owned(),
        error,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(failed(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file that is no socket",
            )));
        }
        Ok(_) => {}
    }
    match timeout(PROBE, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Err(failed(error)),
        // The process answers, or is too busy to.
        Ok(_) | Err(_) => Err(BindError::Taken(path.to_owned())),
    }
}

/// Reads one request and answers it.
async fn serve_connection(mut stream: UnixStream, service: &dyn Service) -> io::Result<()> {
    let answer = if may_ask(&stream)? {
        let mut line = Vec::new();
        let mut question = BufReader::new((&mut stream).take(LONGEST_REQUEST));
        timeout(TIMEOUT, question.read_until(b'\n', &mut line)).await??;
        match serde_json::from_slice(&line) {
            Ok(request) => service.answer(request).await,
            Err(error) => Answer::Failed {
                error: format!("not a question: {error}"),
            },
        }
    } else {
        warn!("a process of another user sent a request on the admin socket and was refused");
        Answer::Failed {
            error: "only the user that crawlgate runs as, and root, may ask".to_owned(),
        }
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    timeout(TIMEOUT, stream.write_all(&line)).await??;
    Ok(())
}

fn may_ask(stream: &UnixStream) -> io::Result<bool> {
    let them = stream.peer_cred()?.uid();
    Ok(them == 0 || them == rustix::process::geteuid().as_raw())
}

/// Returns the way out of a failure to make the socket.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidInput => {
            "the system allows about a hundred octets for it: name a shorter path with [admin] socket"
        }
        io::ErrorKind::AlreadyExists => "move that away, or name another path with [admin] socket",
        _ => "name another path with [admin] socket, or \"\" for none",
    }
}
