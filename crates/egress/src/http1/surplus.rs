//! The octets behind a response that has its connection to itself.
//!
//! A Content-Length that is too small cuts a file: rules behind the cut vanish, and a line that it cuts is obeyed as a
//! shorter one. The request says `Connection: close`, so what the origin sends behind the end of the response belongs to
//! it, and the length is wrong. CR and LF are no such octets: old servers send them, and they end a line at most.
//!
//! The end of the connection shows that nothing follows. An origin that keeps it open is told that no other request
//! comes, and has a moment to close it.

use std::future::poll_fn;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::RequestBody;

/// Time for an origin to close the connection, as the request asks.
const CLOSING: Duration = Duration::from_millis(100);

/// Time for one that keeps it open, once our side is closed.
const CLOSED_HERE: Duration = Duration::from_millis(400);

/// Octets that are read at once.
const READ: usize = 1024;

/// Tells whether octets followed the response; an error if the connection was given up before that was known.
pub(in super::super) type Followed = oneshot::Receiver<bool>;

/// Moves the octets of a connection until its exchange has ended, then tells whether others follow.
pub(in super::super) async fn drive<S>(
    mut connection: http1::Connection<S, RequestBody>,
    told: oneshot::Sender<bool>,
) where
    S: Read + Write + Unpin,
{
    // An error is one of the exchange, which has it, or is about the octets that are looked at below.
    let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if told.is_closed() {
        return;
    }
    let parts = connection.into_parts();
    let mut io = TokioIo::new(parts.io);
    let follows = are_surplus(&parts.read_buf)
        || match timeout(CLOSING, follow(&mut io)).await {
            Ok(follows) => follows,
            Err(_) => {
                let closing = async {
                    let _ = io.shutdown().await;
                    follow(&mut io).await
                };
                timeout(CLOSED_HERE, closing).await.unwrap_or(false)
            }
        };
    let _ = told.send(follows);
}

/// Reads to the end of the connection; tells at once when surplus octets come.
async fn follow(io: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut octets = [0; READ];
    loop {
        match io.read(&mut octets).await {
            Ok(0) | Err(_) => return false,
            Ok(count) if are_surplus(octets.get(..count).unwrap_or_default()) => return true,
            Ok(_) => {}
        }
    }
}

fn are_surplus(octets: &[u8]) -> bool {
    !octets.iter().all(|octet| matches!(octet, b'\r' | b'\n'))
}
