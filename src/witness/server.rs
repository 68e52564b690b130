//! A witness of one's own: it answers `add-checkpoint` for the logs that it knows (c2sp.org/tlog-witness@v1.0.0).
//!
//! Size and root are on the disk before the cosignature leaves. Requests take turns, so two submissions of one log cannot
//! both continue the same size.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf as _;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::judge::{Judgement, Logs, judge};
use super::protocol::SIZE_TYPE;
use super::state_file::{self, StateError, WitnessState};
use crate::net::connection_limit::{ConnectionLimit, Slot};
use crawlgate_store::LogKey;
use crawlgate_system::clock::Clock;
use crawlgate_tlog::{KeyName, VerifierKey};

/// Open connections. At the limit the longest idle one closes.
const CONNECTIONS: usize = 256;

/// Time for a request's head, and for an idle connection.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// Time for a request's body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Time for the requests under way when the witness ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Octets of a request's head and of its body. A checkpoint with sixteen post-quantum signatures has 110,000.
const HEAD: usize = 16 * 1024;
const BODY: usize = 256 * 1024;

/// Pause after `accept` fails, as when descriptors run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// A witness.
#[derive(Debug)]
pub struct OwnWitness {
    key: LogKey,
    logs: Logs,
    memory: Mutex<WitnessState>,
    clock: Clock,
}

impl OwnWitness {
    /// Opens a witness of the logs with these keys. Its key and its state are made if neither is there; the state lies
    /// beside the key if it has no place of its own.
    ///
    /// # Errors
    /// When one of its files is missing, damaged or in use; the message names the way out.
    pub fn open(
        key: &Path,
        state: Option<&Path>,
        name: Option<KeyName>,
        logs: &[VerifierKey],
        clock: Clock,
    ) -> Result<Self, StateError> {
        let state = state.map_or_else(|| state_file::beside(key, ".state"), Path::to_owned);
        let (memory, key) = state_file::open(&state, key, name)?;
        Ok(Self {
            key,
            logs: Logs::of(logs),
            memory: Mutex::new(memory),
            clock,
        })
    }

    /// Returns the public key of a witness that may be running. Its key and its state are made if neither is there.
    ///
    /// # Errors
    /// When the key has another name, or one of the files is missing or damaged; the message names the way out.
    pub fn vkey_of(
        key: &Path,
        state: Option<&Path>,
        name: Option<KeyName>,
        clock: Clock,
    ) -> Result<VerifierKey, StateError> {
        match state_file::load(key, name.as_ref())? {
            Some(key) => Ok(key.cosigner().key().clone()),
            None => Ok(Self::open(key, state, name, &[], clock)?.vkey()),
        }
    }

    /// Returns the public key, with which others check its cosignatures.
    #[must_use]
    pub fn vkey(&self) -> VerifierKey {
        self.key.cosigner().key().clone()
    }

    /// Serves until `end`, and then the requests under way.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, end: impl Future<Output = ()>) {
        for log in self.logs.names() {
            let (size, _) = self.memory.lock().of(log);
            info!(%log, size, "this log is cosigned, from this size on");
        }
        let (slots, ending) = (
            Arc::<ConnectionLimit<()>>::default(),
            CancellationToken::new(),
        );
        let (mut open, mut end) = (JoinSet::new(), pin!(end));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut end => break,
            };
            while open.try_join_next().is_some() {}
            match accepted {
                Ok((stream, peer)) => match slots.slot(CONNECTIONS) {
                    Some(slot) => {
                        let witness = Arc::clone(&self);
                        open.spawn(serve_connection(
                            witness,
                            stream,
                            peer,
                            slot,
                            ending.clone(),
                        ));
                    }
                    None => debug!(%peer, "a connection is closed: all are busy"),
                },
                Err(error) => {
                    warn!(%error, "a connection cannot be accepted");
                    slots.make_room();
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        ending.cancel();
        let _ = timeout(DRAIN, async { while open.join_next().await.is_some() {} }).await; // the rest is cut off
    }

    /// Answers the body of a request.
    fn answer(&self, body: &[u8]) -> Response<String> {
        let mut memory = self.memory.lock();
        match judge(body, &self.logs, |log| memory.of(log)) {
            Judgement::Cosign { log, seen, text } => {
                let size = seen.0;
                if let Err(error) = memory.keep(log.clone(), seen) {
                    error!(%log, size, %error, "a checkpoint cannot be kept, and is not cosigned");
                    return answer(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the state cannot be written\n",
                    );
                }
                let seconds = self.clock.now().as_millis() / 1_000;
                let line = self.key.cosigner().cosign(&text, seconds);
                info!(%log, size, "a checkpoint is cosigned");
                answer(StatusCode::OK, format!("{line}\n"))
            }
            Judgement::Malformed => answer(
                StatusCode::BAD_REQUEST,
                "this is no add-checkpoint request\n",
            ),
            Judgement::UnknownLog => answer(StatusCode::NOT_FOUND, "this log is unknown here\n"),
            Judgement::UnknownKey => answer(
                StatusCode::FORBIDDEN,
                "no known key of this log has signed the checkpoint\n",
            ),
            Judgement::Conflict(size) => {
                let mut conflict = answer(StatusCode::CONFLICT, format!("{size}\n"));
                let content_type = HeaderValue::from_static(SIZE_TYPE);
                conflict.headers_mut().insert(CONTENT_TYPE, content_type);
                conflict
            }
            Judgement::Inconsistent(why) => {
                warn!(%why, "a log has shown a checkpoint that does not continue the one before");
                answer(StatusCode::UNPROCESSABLE_ENTITY, format!("{why}\n"))
            }
        }
    }
}

fn answer(status: StatusCode, body: impl Into<String>) -> Response<String> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    answer
}

async fn serve_connection(
    witness: Arc<OwnWitness>,
    stream: TcpStream,
    peer: SocketAddr,
    slot: Slot<()>,
    ending: CancellationToken,
) {
    let _ = stream.set_nodelay(true); // slower without, and no more
    let service = service_fn(|request: Request<Incoming>| {
        slot.begin();
        let (witness, slot) = (Arc::clone(&witness), &slot);
        async move {
            let answer = respond(witness, request).await;
            slot.end();
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let outcome = tokio::select! {
        outcome = &mut served => outcome,
        () = slot.has_to_leave() => return,
        () = ending.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = outcome {
        debug!(%peer, %error, "a connection ended early");
    }
}

async fn respond(witness: Arc<OwnWitness>, request: Request<Incoming>) -> Response<String> {
    if request.uri().path() != "/add-checkpoint" {
        return answer(StatusCode::NOT_FOUND, "there is /add-checkpoint alone\n");
    }
    if request.method() != Method::POST {
        let mut refused = answer(
            StatusCode::METHOD_NOT_ALLOWED,
            "a checkpoint is sent by POST\n",
        );
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return refused;
    }
    let body = match timeout(BODY_TIME, read(request.into_body())).await {
        Ok(Ok(Some(body))) => body,
        Ok(Ok(None)) => return answer(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long\n"),
        Ok(Err(_)) => return answer(StatusCode::BAD_REQUEST, "the request broke off\n"),
        Err(_) => return answer(StatusCode::REQUEST_TIMEOUT, "the request takes too long\n"),
    };
    // The answer waits for the disk.
    let answered = spawn_blocking(move || witness.answer(&body)).await;
    answered.unwrap_or_else(|_| answer(StatusCode::INTERNAL_SERVER_ERROR, ""))
}

/// Reads a body. `None` if it is too long.
async fn read(mut body: Incoming) -> Result<Option<Vec<u8>>, hyper::Error> {
    let mut octets = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(data) = frame?.into_data() {
            if octets.len() + data.remaining() > BODY {
                return Ok(None);
            }
            octets.extend_from_slice(&data);
        }
    }
    Ok(Some(octets))
}
