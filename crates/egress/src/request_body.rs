//! The body of a request to an origin.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crawlgate_net::transit::Transit;

/// The body of a request to an origin.
#[derive(Default)]
pub enum RequestBody {
    /// None.
    #[default]
    Empty,
    /// The body as it comes from the crawler.
    Stream(Stream),
}

/// The reason that a body could not be forwarded.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

type Octets = Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>;

/// A body that records when it was read to its end.
pub struct Stream {
    octets: Octets,
    transit: Transit,
    taken: Arc<AtomicBool>,
}

/// A flag that tells whether a body was read to its end.
#[derive(Debug, Clone)]
pub(super) struct ReadFlag(Option<Arc<AtomicBool>>);

impl RequestBody {
    /// Builds a body from these frames.
    pub fn stream(
        octets: impl Body<Data = Bytes, Error = BodyError> + Send + 'static,
    ) -> RequestBody {
        RequestBody::Stream(Stream {
            octets: Box::pin(octets),
            transit: Transit::default(),
            taken: Arc::default(),
        })
    }

    /// Returns the flag that tells, later on, whether this body was read to its end.
    pub(super) fn taken(&self) -> ReadFlag {
        match self {
            RequestBody::Empty => ReadFlag(None),
            RequestBody::Stream(stream) => ReadFlag(Some(Arc::clone(&stream.taken))),
        }
    }
}

impl ReadFlag {
    /// Tells whether the body was read to its end.
    pub(super) fn is_whole(&self) -> bool {
        let is_taken = |taken: &Arc<AtomicBool>| taken.load(Ordering::Acquire);
        self.0.as_ref().is_none_or(is_taken)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let stream = match self.get_mut() {
            RequestBody::Empty => return Poll::Ready(None),
            RequestBody::Stream(stream) => stream,
        };
        ready!(stream.transit.poll_next(cx));
        let frame = ready!(stream.octets.as_mut().poll_frame(cx));
        // hyper does not poll a body of known length again after its last octet.
        if frame.is_none() || stream.octets.is_end_stream() {
            stream.taken.store(true, Ordering::Release);
        }
        let transit = &mut stream.transit;
        Poll::Ready(frame.map(|frame| frame.map(|frame| transit.counted(frame))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Stream(stream) => stream.octets.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Empty => SizeHint::with_exact(0),
            RequestBody::Stream(stream) => stream.octets.size_hint(),
        }
    }
}
