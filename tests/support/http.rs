//! HTTP/1.1 messages, read without validation: a test gets the octets as they came.

use std::fmt;
use std::io::{self, BufRead, Read};

use serde_json::Value;

/// One message head, octet for octet, without the empty line that ends it.
#[derive(Clone, Default)]
pub(crate) struct Head {
    /// The start line and the field lines with their line ends.
    pub(crate) raw: Vec<u8>,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Head {
    /// Reads up to the first empty line. `None` if the peer closed before it sent anything.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut raw = Vec::new();
        loop {
            let start = raw.len();
            if reader.read_until(b'\n', &mut raw)? == 0 {
                return if raw.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
            if matches!(&raw[start..], b"\r\n" | b"\n") {
                raw.truncate(start);
                return Ok(Some(Self { raw }));
            }
        }
    }

    /// Returns the request line or status line.
    pub(crate) fn start_line(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }

    /// Returns the `n`th word of the start line.
    pub(crate) fn word(&self, n: usize) -> String {
        self.start_line().split(' ').nth(n).unwrap_or_default().to_owned()
    }

    /// Returns every value of the field `name`, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let text = self.text();
        // A start line with a colon has no field's name before it; a trailer section has no start line.
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    }

    /// Returns the first value of the field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    /// Asserts the value of a field.
    #[track_caller]
    pub(crate) fn field_is(&self, name: &str, value: Option<&str>) {
        assert_eq!(self.field(name).as_deref(), value, "{name}: {self:?}");
    }

    /// Returns the head as text, for messages and searches.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    fn chunked(&self) -> bool {
        self.field("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"))
    }

    fn length(&self) -> Option<u64> {
        self.field("content-length").and_then(|value| value.parse().ok())
    }
}

/// A message body as it arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    /// The content, without chunk framing.
    pub(crate) bytes: Vec<u8>,
    /// The trailer section, raw.
    pub(crate) trailers: Head,
    /// True if the framing was complete: false if the peer closed or reset in the middle.
    pub(crate) whole: bool,
}

impl Body {
    fn of_length(reader: &mut impl BufRead, length: u64) -> Self {
        let mut bytes = Vec::new();
        let result = reader.take(length).read_to_end(&mut bytes);
        let whole = result.is_ok() && bytes.len() as u64 == length;
        Self { bytes, whole, ..Self::default() }
    }

    fn until_close(reader: &mut impl BufRead) -> Self {
        let mut bytes = Vec::new();
        let whole = reader.read_to_end(&mut bytes).is_ok();
        Self { bytes, whole, ..Self::default() }
    }

    fn chunked(reader: &mut impl BufRead) -> Self {
        let mut body = Self::default();
        body.whole = body.read_chunks(reader).is_ok();
        body
    }

    fn read_chunks(&mut self, reader: &mut impl BufRead) -> io::Result<()> {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(io::Error::other)?;
            if size == 0 {
                self.trailers = Head::read(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                return Ok(());
            }
            let chunk = Self::of_length(reader, size);
            self.bytes.extend(chunk.bytes);
            let mut end = [0; 2];
            reader.read_exact(&mut end)?;
            if &end != b"\r\n" {
                return Err(io::Error::other("a chunk without its line end"));
            }
        }
    }

    /// Reads the body of a request with this head.
    pub(crate) fn of_request(reader: &mut impl BufRead, head: &Head) -> Self {
        if head.chunked() {
            Self::chunked(reader)
        } else {
            Self::of_length(reader, head.length().unwrap_or(0))
        }
    }
}

/// One response with the interim responses that came before it.
#[derive(Clone, Default)]
pub(crate) struct Response {
    /// The 1xx responses, in order (101 is final).
    pub(crate) interim: Vec<Head>,
    /// The final response's head.
    pub(crate) head: Head,
    /// The final response's status code.
    pub(crate) status: u16,
    /// The final response's body.
    pub(crate) body: Vec<u8>,
    /// The trailer section of the final response.
    pub(crate) trailers: Head,
    /// True if the body came whole, by its own framing.
    pub(crate) whole: bool,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, body) = (if self.whole { "whole" } else { "broken off" }, self.text());
        let body: String = body.chars().take(2000).collect();
        write!(f, "{:?}\n{:?}\n{body}\n{:?}({whole})", self.interim, self.head, self.trailers)
    }
}

impl Response {
    /// Reads the heads up to the final one, and no body.
    pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut response = Self::default();
        loop {
            let Some(head) = Head::read(reader)? else {
                return Ok(None);
            };
            let status = head.word(1).parse().map_err(io::Error::other)?;
            if (100..200).contains(&status) && status != 101 {
                response.interim.push(head);
                continue;
            }
            return Ok(Some(Self { head, status, ..response }));
        }
    }

    /// Reads one response to a request with this method. `None` if the peer closed without one.
    pub(crate) fn read(reader: &mut impl BufRead, method: &str) -> io::Result<Option<Self>> {
        let Some(mut response) = Self::read_head(reader)? else {
            return Ok(None);
        };
        let bodiless = method == "HEAD"
            || matches!(response.status, 101 | 204 | 304)
            || (method == "CONNECT" && response.status / 100 == 2);
        let body = if bodiless {
            Body { whole: true, ..Body::default() }
        } else if response.head.chunked() {
            Body::chunked(reader)
        } else if let Some(length) = response.head.length() {
            Body::of_length(reader, length)
        } else {
            Body::until_close(reader)
        };
        (response.body, response.trailers, response.whole) =
            (body.bytes, body.trailers, body.whole);
        Ok(Some(response))
    }

    /// Returns the first value of the field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        self.head.field(name)
    }

    /// Asserts the value of a field.
    #[track_caller]
    pub(crate) fn field_is(&self, name: &str, value: Option<&str>) {
        self.head.field_is(name, value);
    }

    /// Asserts that it is the origin's page of a URL.
    #[track_caller]
    pub(crate) fn is_page(&self, url: &str) {
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        self.is_origins(200, &format!("page /{path}"));
    }

    /// Asserts the status, and returns the response.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the problem document; null if the body is not JSON.
    pub(crate) fn problem(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Tells whether crawlgate made this answer itself.
    pub(crate) fn is_ours(&self) -> bool {
        self.field("proxy-status")
            .is_some_and(|value| value.to_ascii_lowercase().contains("crawlgate"))
    }

    /// Asserts that the answer is the origin's, whole, with this status and body.
    #[track_caller]
    pub(crate) fn is_origins(&self, status: u16, body: &str) {
        assert_eq!((self.status, self.text().as_str()), (status, body), "{self:?}");
        assert!(self.whole && !self.is_ours(), "{self:?}");
    }
}
