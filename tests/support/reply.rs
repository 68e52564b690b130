//! What an origin does with a request, as a script of steps. Nothing is checked: a reply may lie.

use super::Latch;

/// One step of a reply.
#[derive(Clone)]
pub(crate) enum Step {
    /// Writes these octets.
    Send(Vec<u8>),
    /// Writes these octets that many times, or until the peer has enough.
    Repeat(Vec<u8>, u64),
    /// Stands still until the latch opens.
    Wait(Latch),
    /// Reads the request's body now. A reply without this step reads it first.
    ReadBody,
    /// Sends back whatever comes, until the peer closes.
    Echo,
    /// Ends the connection with a TCP reset.
    Reset,
    /// Ends the connection without a word: a TLS session without its close_notify.
    Cut,
    /// Ends the connection in good order (for TLS: with a close_notify).
    Close,
}

/// A scripted reply. It keeps the connection open unless told otherwise.
#[derive(Clone, Default)]
pub(crate) struct Reply {
    pub(crate) steps: Vec<Step>,
    pub(crate) ignores_body: bool,
}

impl Reply {
    /// These octets and nothing else.
    pub(crate) fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::default().send(bytes)
    }

    /// A reply that does nothing yet.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// 200 with a text and its length.
    pub(crate) fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status(200, body)
    }

    /// Any status with a text and its length.
    pub(crate) fn status(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self::with(status, "", body)
    }

    /// Any status with more field lines (each ended by CRLF), a text and its length.
    pub(crate) fn with(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n{fields}\r\n"
        );
        Self::raw(head).send(body)
    }

    /// A redirect. An empty location leaves the field out.
    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        let field = if location.is_empty() {
            String::new()
        } else {
            format!("Location: {location}\r\n")
        };
        Self::with(
            status,
            &field,
            "User-agent: *\nDisallow: /body-of-a-redirect\n",
        )
    }

    /// 200 with a chunked body of one chunk.
    pub(crate) fn chunked(body: &str) -> Self {
        Self::raw(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        ))
    }

    /// More octets.
    pub(crate) fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }

    /// The same octets again and again.
    pub(crate) fn repeat(self, bytes: impl AsRef<[u8]>, times: u64) -> Self {
        self.step(Step::Repeat(bytes.as_ref().to_vec(), times))
    }

    /// Waits for the latch.
    pub(crate) fn wait(self, latch: &Latch) -> Self {
        self.step(Step::Wait(latch.clone()))
    }

    /// Reads the request's body at this step.
    pub(crate) fn read_body(self) -> Self {
        self.step(Step::ReadBody)
    }

    /// Becomes an echo.
    pub(crate) fn echo(self) -> Self {
        self.step(Step::Echo)
    }

    /// Closes here.
    pub(crate) fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Closes here, and cuts a TLS session short.
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
