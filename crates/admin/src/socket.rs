//! The process's end of the socket: the pages and the API, and a few routes only for the other commands of this
//! program.
//!
//! `[admin] socket` belongs to one process, `crawlgate serve`. Any number of runs of `crawlgate run` may write the same store at
//! the same time, so each listens at its own path, `crawlgate.run-4711.sock` for `crawlgate.db`, where commands that read the
//! store find it. A run has only the routes [`FLUSH`] and [`FLUSH_COUNTS`].

use std::fs::{self, DirBuilder, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use http::StatusCode;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::client::{FLUSH, FLUSH_COUNTS, OVERRIDES_CHANGED};
use super::http::connections::Connections;
use super::http::listener::{Peer, serve_http};
use super::http::problem::{self, Problem};
use super::http::{AppState, router};
use crawlgate_evidence::LogFailed;
use crawlgate_net::socket_file::SocketFile;
use crawlgate_proxy::Proxy;

/// Connections that are open at once.
const OPEN: usize = 16;

/// Time for the records to reach the store: a little less than a command waits for the answer.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(900);

/// Time for a process that may listen already to accept a connection.
const PROBE: Duration = Duration::from_secs(1);

/// Pause after `accept` fails, as when descriptors run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Returns what the socket of `crawlgate serve` has.
fn served(app: &AppState) -> Router {
    let changed = |State(app): State<AppState>| async move {
        app.process().take_over_overrides().await;
        StatusCode::NO_CONTENT
    };
    let changed = Router::new().route(OVERRIDES_CHANGED, post(changed));
    router(app.clone()).merge(changed.with_state(app.clone())).merge(flushes(app.proxy()))
}

/// Returns the routes that have the records written.
fn flushes(proxy: &Arc<Proxy>) -> Router {
    let records = |State(proxy): State<Arc<Proxy>>| flush(async move { proxy.log().flush().await });
    let counts =
        |State(proxy): State<Arc<Proxy>>| flush(async move { proxy.log().flush_counts().await });
    Router::new()
        .route(FLUSH, post(records))
        .route(FLUSH_COUNTS, post(counts))
        .with_state(Arc::clone(proxy))
}

/// Waits until the records made so far are written.
async fn flush(
    written: impl Future<Output = Result<(), LogFailed>>,
) -> Result<StatusCode, Problem> {
    match timeout(FLUSH_TIMEOUT, written).await {
        Ok(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Ok(Err(failure)) => Err(Problem::busy(failure.to_string())),
        Err(_) => Err(Problem::busy("the store takes too long")),
    }
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
        "admin socket {}: another crawlgate listens there; give this one a separate place with [admin] socket, or \
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

    /// Serves the pages, the API and the other commands, until this future is dropped: connections end with it.
    pub async fn serve(self, app: AppState) {
        self.serve_at(served(&app)).await;
    }

    /// Has the records of a run written for commands that read the store, until this future is dropped.
    pub async fn serve_run(self, proxy: Arc<Proxy>) {
        self.serve_at(flushes(&proxy).fallback(problem::not_found)).await;
    }

    /// Serves these routes to our user and root.
    pub(super) async fn serve_at(self, router: Router) {
        let slots = Connections::new(OPEN);
        let mut open = JoinSet::new();
        loop {
            let accepted = self.listener.accept().await;
            while open.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let router = if may_ask(&stream) { router.clone() } else { strangers() };
                    // A client that finds the process busy is not kept waiting.
                    if let Some(slot) = slots.slot() {
                        open.spawn(serve_http(stream, Peer::Local, slot, router));
                    }
                }
                Err(error) => {
                    debug!(%error, "a connection to the admin socket cannot be accepted");
                    slots.make_room();
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Listens at `path` with a socket of this mode, and replaces the socket of a crashed process. A missing directory is
/// created.
///
/// # Errors
/// When another process listens there, or the socket cannot be made.
pub async fn claim(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), BindError> {
    let failed = |error| BindError::Failed { path: path.to_owned(), error };
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
    let failed = |error| BindError::Failed { path: path.to_owned(), error };
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile::of(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    Ok((listener, file))
}

/// Makes room at `path`: removes the socket of a process that has ended, and nothing else.
async fn clear(path: &Path) -> Result<(), BindError> {
    let failed = |error| BindError::Failed { path: path.to_owned(), error };
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

fn may_ask(stream: &UnixStream) -> bool {
    let them = stream.peer_cred().map(|peer| peer.uid());
    them.is_ok_and(|them| them == 0 || them == rustix::process::geteuid().as_raw())
}

/// Returns what another user finds.
fn strangers() -> Router {
    warn!("a process of another user sent a request on the admin socket and was refused");
    let why = "only the user that crawlgate runs as, and root, may ask";
    Router::new().fallback(move || async move { Problem::new(StatusCode::FORBIDDEN, why) })
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

/// Returns the socket of the run with this process identifier.
fn run_socket(store: &Path, pid: u32) -> PathBuf {
    store.with_extension(format!("run-{pid}.sock"))
}

/// Returns the sockets of all runs that write a store, those of killed runs included. None if the directory cannot be read.
#[must_use]
pub fn run_sockets(store: &Path) -> Vec<PathBuf> {
    let folder = match store.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let (Some(stem), Ok(files)) = (store.file_stem(), fs::read_dir(folder)) else {
        return Vec::new();
    };
    let is_of_run = |name: &[u8]| {
        let rest = name.strip_prefix(stem.as_encoded_bytes());
        let pid = rest
            .and_then(|rest| rest.strip_prefix(b".run-"))
            .and_then(|rest| rest.strip_suffix(b".sock"));
        pid.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
    };
    let names = files.flatten().map(|file| file.file_name());
    names.filter(|name| is_of_run(name.as_encoded_bytes())).map(|name| folder.join(name)).collect()
}
