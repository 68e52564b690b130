//! Both ends, in one process.

use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Answers with what it was asked.
struct Echo;

impl Service for Echo {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        Box::pin(async move {
            match request {
                Request::Forget { origin, .. } => Answer::Failed { error: origin },
                Request::Status => std::future::pending().await,
                _ => Answer::Noted,
            }
        })
    }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/crawlgate.sock");
    (folder, path)
}

async fn serving(path: &Path) -> tokio::task::JoinHandle<()> {
    let socket = Socket::bind(path).await.unwrap();
    tokio::spawn(socket.serve(Arc::new(Echo)))
}

async fn forget(path: &Path, origin: &str) -> Result<Answer, AskError> {
    let origin = origin.to_owned();
    let identity = None;
    ask(path, &Request::Forget { origin, identity }, TIMEOUT).await
}

/// Sends octets as they are.
async fn raw(path: &Path, octets: &[u8]) -> std::io::Result<Answer> {
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all(octets).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(serde_json::from_slice(&answer)?)
}

#[tokio::test]
async fn a_question_is_answered_and_the_file_is_the_owners() {
    let (_folder, path) = place();
    let server = serving(&path).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let answer = ask(&path, &Request::OverridesChanged, TIMEOUT)
        .await
        .unwrap();
    assert_eq!(answer, Answer::Noted);
    let error = "http://a.example".to_owned();
    assert_eq!(
        forget(&path, &error).await.unwrap(),
        Answer::Failed { error }
    );
    server.abort();
    assert!(server.await.is_err());
    assert!(!path.exists(), "the file goes with its socket");
}

#[tokio::test]
async fn an_invalid_request_gets_an_error() {
    let (_folder, path) = place();
    let _server = serving(&path).await;
    let endless = [b' '; 2 * LONGEST_REQUEST as usize];
    for (name, octets) in [
        ("nothing", &b"\n"[..]),
        ("no JSON", b"refresh http://a.example\n"),
        ("another command", b"{\"command\":\"stop\"}\n"),
        ("nothing to refresh", b"{\"command\":\"refresh\"}\n"),
        (
            "more than there is to say",
            b"{\"command\":\"forget\",\"origin\":\"\",\"now\":1}\n",
        ),
        ("not UTF-8", b"\xff\n"),
    ] {
        let answer = raw(&path, octets).await.unwrap();
        assert!(
            matches!(answer, Answer::Failed { .. }),
            "{name}: {answer:?}"
        );
    }
    // The process does not read the request to its end, so the answer may not arrive; the end of it does.
    if let Ok(answer) = raw(&path, &endless).await {
        assert!(matches!(answer, Answer::Failed { .. }), "{answer:?}");
    }
    assert!(forget(&path, "still there").await.is_ok());
}

#[tokio::test]
async fn silent_clients_delay_no_other_client() {
    let (_folder, path) = place();
    let _server = serving(&path).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(UnixStream::connect(&path).await.unwrap());
        let mut asked = UnixStream::connect(&path).await.unwrap();
        asked
            .write_all(b"{\"command\":\"status\"}\n")
            .await
            .unwrap();
        silent.push(asked);
    }
    // All slots are taken now, or soon will be: a new client is answered or sent away, at once.
    let late = tokio::time::timeout(Duration::from_secs(4), forget(&path, "x"));
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
    let error = forget(&path, "x").await.unwrap_err();
    assert!(matches!(error, AskError::NotRunning(_)), "{error}");
    let _server = serving(&path).await;
    let taken = Socket::bind(&path).await.unwrap_err();
    assert!(matches!(taken, BindError::Taken(_)), "{taken}");
    assert!(forget(&path, "x").await.is_ok(), "the first one stays");
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
    assert!(
        error.contains("shorter path with [admin] socket"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_process_is_an_error_of_its_own() {
    let (_folder, path) = place();
    let error = forget(&path, "x").await.unwrap_err();
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
    for name in [
        "crawlgate.run-.sock",
        "crawlgate.run-4x.sock",
        "crawlgate.sock",
    ] {
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
