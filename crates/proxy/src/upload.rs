//! The body of a request on its way to the origin, and the signal that lets it go.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::client_stream::CrawlerBody;
use super::fields::mend_trailers;
use super::stall::{StallLimit, StallTimer};
use crawlgate_egress::BodyError;

/// Progress of a request's body on its way.
#[derive(Debug, Default)]
pub struct UploadProgress {
    /// Octets so far.
    pub octets: Arc<AtomicU64>,
    /// A [`UploadState`].
    flow: AtomicU8,
}

/// State of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum UploadState {
    /// Ended, or not taken by the origin.
    Still = 0,
    /// Waiting for the crawler.
    Awaited = 1,
    /// The crawler took too long.
    Stalled = 2,
}

impl UploadProgress {
    /// Starts a progress that counts in `octets`.
    pub fn new(octets: Arc<AtomicU64>) -> UploadProgress {
        UploadProgress { octets, flow: AtomicU8::default() }
    }

    /// Returns the state of the body.
    pub fn flow(&self) -> UploadState {
        match self.flow.load(Ordering::Relaxed) {
            1 => UploadState::Awaited,
            2 => UploadState::Stalled,
            _ => UploadState::Still,
        }
    }

    fn turn(&self, flow: UploadState) {
        self.flow.store(flow as u8, Ordering::Relaxed);
    }
}

/// The body of a crawler's request on its way to the origin.
#[derive(Debug)]
pub struct Upload {
    incoming: CrawlerBody,
    upload: Arc<UploadProgress>,
    stall: StallTimer,
    /// Set while the crawler waits for `100 Continue`: the body is not read, and so not asked for, until the origin
    /// wants it (RFC 9110 10.1.1).
    invited: Option<oneshot::Receiver<()>>,
}

impl Upload {
    /// Creates an upload that reports to `upload` and waits for the crawler within `limit`. With `invited`, the first
    /// octet waits for that signal; if its sender is dropped, the origin has answered and does not want the body.
    pub fn new(
        incoming: CrawlerBody,
        upload: Arc<UploadProgress>,
        limit: StallLimit,
        invited: Option<oneshot::Receiver<()>>,
    ) -> Upload {
        Upload { incoming, upload, stall: StallTimer::new(limit), invited }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(invited) = &mut this.invited {
            let word = ready!(Pin::new(invited).poll(cx));
            this.invited = None;
            if word.is_err() {
                return Poll::Ready(Some(Err("the origin did not ask for the body".into())));
            }
        }
        let Poll::Ready(mut frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            this.upload.turn(UploadState::Awaited);
            ready!(this.stall.poll_too_long(cx));
            this.upload.turn(UploadState::Stalled);
            return Poll::Ready(Some(Err("the crawler's body came too slowly".into())));
        };
        this.upload.turn(UploadState::Still);
        mend_trailers(&mut frame);
        if let Some(Ok(frame)) = &frame {
            let octets = frame.data_ref().map_or(0, |data| data.len() as u64);
            this.upload.octets.fetch_add(octets, Ordering::Relaxed);
            this.stall.moved(octets);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// Lets a waiting body go, once.
#[derive(Debug)]
pub struct ContinueSignal(Mutex<Option<oneshot::Sender<()>>>);

impl ContinueSignal {
    /// Creates the signal that `invite` carries.
    pub fn new(invite: oneshot::Sender<()>) -> ContinueSignal {
        ContinueSignal(Mutex::new(Some(invite)))
    }

    /// Lets the body go, and tells whether this was the first time.
    pub fn send(&self) -> bool {
        let Some(invite) = self.0.lock().take() else {
            return false;
        };
        let _ = invite.send(()); // the body may be gone already
        true
    }
}
