//! Both ends, in one process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::http::problem;
use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/crawlgate.sock");
    (folder, path)
}

/// Serves a route that answers at once, and one that never does.
async fn serving(path: &Path) -> tokio::task::JoinHandle<()> {
    let socket = Socket::bind(path).await.unwrap();
    let router = Router::new()
        .route("/text", get(|| async { "\"a text\"" }))
        .route("/process/overrides", post(|| async { StatusCode::NO_CONTENT }))
        .route("/endless", get(std::future::pending::<()>))
        .fallback(problem::not_found);
    tokio::spawn(socket.serve_at(router))
}

async fn told(path: &Path, target: &str) -> Result<String, AskError> {
    ask(path, Method::GET, target, None, TIMEOUT).await
}

/// Sends octets as they are.
async fn raw(path: &Path, octets: &[u8]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all(octets).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_question_is_answered_and_the_file_is_the_owners() {
    let (_folder, path) = place();
    let server = serving(&path).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let noted: Result<(), AskError> =
        ask(&path, Method::POST, OVERRIDES_CHANGED, None, TIMEOUT).await;
    noted.unwrap();
    assert_eq!(told(&path, "/text").await.unwrap(), "a text");
    let refused = told(&path, "/nothing").await.unwrap_err();
    assert_eq!(refused.to_string(), "/nothing: there is nothing here");
    let AskError::Refused { status, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(status, StatusCode::NOT_FOUND);
    server.abort();
    assert!(server.await.is_err());
    assert!(!path.exists(), "the file goes with its socket");
}

#[tokio::test]
async fn an_invalid_request_gets_an_error() {
    let (_folder, path) = place();
    let _server = serving(&path).await;
    let endless = [b"GET / HTTP/1.1\r\nx: ", &[b'x'; 128 * 1024][..]].concat();
    for (name, octets) in
        [("no HTTP", &b"refresh http://a.example\r\n\r\n"[..]), ("not UTF-8", b"\xff\r\n\r\n")]
    {
        let answer = raw(&path, octets).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{name}: {answer:?}");
    }
    // The process does not read the request to its end, so the answer may not arrive; the end of it does.
    if let Ok(answer) = raw(&path, &endless).await {
        assert!(!answer.contains(" 200 "), "{answer:?}");
    }
    assert!(told(&path, "/text").await.is_ok());
}

#[tokio::test]
async fn silent_clients_delay_no_other_client() {
    let (_folder, path) = place();
    let _server = serving(&path).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(UnixStream::connect(&path).await.unwrap());
        let mut asked = UnixStream::connect(&path).await.unwrap();
        let request = b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n";
        asked.write_all(request).await.unwrap();
        silent.push(asked);
    }
    // All slots are taken now, or soon will be: a new client is answered or sent away, at once.
    let late = tokio::time::timeout(Duration::from_secs(4), told(&path, "/text"));
    assert!(late.await.is_ok());
    drop(silent);
}

#[tokio::test]
async fn a_crashed_process_is_replaced_and_a_second_one_is_refused() {
    let (_folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    // A closed listener leaves its file, as a killed process does.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let error = told(&path, "/text").await.unwrap_err();
    assert!(matches!(error, AskError::NotRunning(_)), "{error}");
    let _server = serving(&path).await;
    let taken = Socket::bind(&path).await.unwrap_err();
    assert!(matches!(taken, BindError::Taken(_)), "{taken}");
    assert!(told(&path, "/text").await.is_ok(), "the first one stays");
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let (_folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "precious").unwrap();
    let error = Socket::bind(&path).await.unwrap_err().to_string();
    assert!(error.contains("no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_an_error() {
    let (folder, _) = place();
    let path = folder.path().join("x".repeat(120));
    let error = Socket::bind(&path).await.unwrap_err().to_string();
    assert!(error.contains("shorter path with [admin] socket"), "{error}");
}

#[tokio::test]
async fn a_missing_process_is_an_error_of_its_own() {
    let (_folder, path) = place();
    let error = told(&path, "/text").await.unwrap_err();
    assert!(matches!(error, AskError::NotRunning(_)), "{error}");
}

#[tokio::test]
async fn runs_listen_beside_their_store_and_remove_the_sockets_of_killed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = path("crawlgate.db");
    // A living run, a killed one, and files that are no sockets of runs of this store.
    let _living = UnixListener::bind(path("crawlgate.run-1.sock")).unwrap();
    drop(UnixListener::bind(path("crawlgate.run-2.sock")).unwrap());
    let _other = UnixListener::bind(path("other.run-3.sock")).unwrap();
    for name in ["crawlgate.run-.sock", "crawlgate.run-4x.sock", "crawlgate.sock"] {
        fs::write(path(name), "").unwrap();
    }
    let all = || {
        let mut all = run_sockets(&store);
        all.sort();
        all
    };
    let (living, killed) = (path("crawlgate.run-1.sock"), path("crawlgate.run-2.sock"));
    assert_eq!(all(), [living.clone(), killed.clone()]);
    let own = path(&format!("crawlgate.run-{}.sock", std::process::id()));
    let socket = Socket::bind_run(&store).await.unwrap();
    assert_eq!(socket.path(), own);
    assert!(all().contains(&living) && all().contains(&own));
    assert!(!killed.exists());
    let again = Socket::bind_run(&store).await.unwrap_err();
    assert!(matches!(again, BindError::Taken(_)), "{again}");
    drop(socket);
    assert_eq!(all(), [living]);
    assert!(run_sockets(&path("nowhere/crawlgate.db")).is_empty());
}
