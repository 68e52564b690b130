//! An origin's reply to a request, as a script of steps. Nothing is checked, so a reply may break the protocol.

use std::time::Duration;

use super::Latch;

/// One step of a reply.
#[derive(Clone)]
pub(crate) enum Step {
    /// Writes these octets.
    Send(Vec<u8>),
    /// Writes these octets that many times, or until the peer closes.
    Repeat(Vec<u8>, u64),
    /// Waits until the latch opens.
    Wait(Latch),
    /// Takes this time, as a slow origin does.
    Pause(Duration),
    /// Reads the request's body now. A reply without this step reads it first.
    ReadBody,
    /// Answers a WebSocket's handshake (RFC 6455 4.2.2).
    WebSocket,
    /// Echoes everything, until the peer closes.
    Echo,
    /// Ends the connection with a TCP reset.
    Reset,
    /// Closes without notice: a TLS session without its close_notify.
    Cut,
    /// Closes cleanly (for TLS: with a close_notify).
    Close,
}

/// A scripted reply. Without a closing step, the connection stays open.
#[derive(Clone, Default)]
pub(crate) struct Reply {
    pub(crate) steps: Vec<Step>,
    pub(crate) ignores_body: bool,
}

impl Reply {
    /// Returns a reply of these octets and nothing else.
    pub(crate) fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::default().send(bytes)
    }

    /// Returns the answer that completes a WebSocket's handshake.
    pub(crate) fn websocket() -> Self {
        Self::default().step(Step::WebSocket)
    }

    /// Returns a reply without steps.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// Returns a 200 with a text and its length.
    pub(crate) fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status(200, body)
    }

    /// Returns any status with a text and its length.
    pub(crate) fn status(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self::with(status, "", body)
    }

    /// Returns any status with further field lines (each ended by CRLF), a text and its length.
    pub(crate) fn with(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n{fields}\r\n"
        );
        Self::raw(head).send(body)
    }

    /// Returns a redirect. An empty location leaves the field out.
    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        let field =
            if location.is_empty() { String::new() } else { format!("Location: {location}\r\n") };
        Self::with(status, &field, "User-agent: *\nDisallow: /body-of-a-redirect\n")
    }

    /// Returns a 200 with a chunked body of one chunk.
    pub(crate) fn chunked(body: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        ))
    }

    /// Adds octets.
    pub(crate) fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Adds the same octets many times.
    pub(crate) fn repeat(self, bytes: impl AsRef<[u8]>, times: u64) -> Self {
        self.step(Step::Repeat(bytes.as_ref().to_vec(), times))
    }

    /// Waits for the latch.
    pub(crate) fn wait(self, latch: &Latch) -> Self {
        self.step(Step::Wait(latch.clone()))
    }

    /// Waits for the latch before anything else.
    pub(crate) fn held(mut self, latch: &Latch) -> Self {
        self.steps.insert(0, Step::Wait(latch.clone()));
        self
    }

    /// Takes this time before what follows.
    pub(crate) fn pause(self, span: Duration) -> Self {
        self.step(Step::Pause(span))
    }

    /// Reads the request's body at this step.
    pub(crate) fn read_body(self) -> Self {
        self.step(Step::ReadBody)
    }

    /// Echoes from here on.
    pub(crate) fn echo(self) -> Self {
        self.step(Step::Echo)
    }

    /// Closes here.
    pub(crate) fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Closes here without a TLS close_notify.
    pub(crate) fn cut(self) -> Self {
        self.step(Step::Cut)
    }

    /// Resets here.
    pub(crate) fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// Never reads the request's body.
    pub(crate) fn ignoring_body(mut self) -> Self {
        self.ignores_body = true;
        self
    }

    pub(crate) fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}
