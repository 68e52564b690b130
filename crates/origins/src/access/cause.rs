//! The causes for which an origin's robots.txt is unreachable.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use super::codings::Codings;
use super::ftp_reply::FtpReply;
use super::tls_fault::TlsFault;

/// The cause that an origin's robots.txt is unreachable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// 429, 5xx, 206, or a 4xx that the operator chose to deny on.
    Status(u16),
    /// The FTP server refused.
    Ftp(FtpReply),
    /// The name did not resolve.
    Dns,
    /// The origin refused the connection.
    Refused,
    /// No connection: an unreachable network, or a proxy on the way that could not open it.
    Connect,
    /// No TLS session began.
    Tls(Arc<TlsFault>),
    /// The deadline for connect, first byte or the whole fetch passed.
    Timeout,
    /// The connection broke before the answer was whole.
    Incomplete,
    /// The answer is longer or shorter than it says: octets followed its Content-Length, its last chunk or a status without
    /// content.
    Length,
    /// Not HTTP, bad chunking, an unreadable Content-Length.
    Protocol,
    /// A `Content-Encoding` that is unknown or does not decode, or a transfer coding other than `chunked`. None in states that an
    /// earlier version stored.
    Encoding(Option<Codings>),
    /// A 3xx without a `Location` that can be followed, or a status that answers no unconditional GET: 1xx, 304, 600.
    Redirect(u16),
    /// No connection can be made to such an origin: its name fits no request, or `[upstream] ftp` is false.
    Unaddressable,
    /// An upstream proxy of the operator could not be reached, or did not let us through: the origin was not asked.
    UpstreamProxy,
    /// The address policy prohibits the origin.
    Prohibited,
    /// It redirected to a prohibited address.
    ProhibitedHop,
    /// It redirected to a URL that its own origin disallows, which does not replace a stored copy of its file.
    DisallowedHop,
    /// It redirected to a URL of another origin with unknown rules.
    UnjudgedHop,
    /// It redirected to a URL that an override of the operator denies.
    DeniedHop,
    /// It redirected to a URL of another origin, and the rules there are behind a longer chain of redirects than is
    /// followed.
    HopChain,
    /// This machine had no descriptor left for the fetch, or too many fetches wait here. It says nothing about the origin,
    /// and changes no state.
    Exhausted,
    /// The fetch itself failed inside crawlgate; never the origin's doing.
    Internal,
}

/// Returns the number after `prefix`.
pub(super) fn numbered(code: &str, prefix: &str) -> Option<u16> {
    code.strip_prefix(prefix)?.parse().ok()
}

impl Cause {
    /// Returns one stable word, for records and the store, with its facts behind a colon; [`Cause::from_code`] reads it.
    pub fn code(&self) -> String {
        let name = match self {
            Cause::Status(status) => return format!("status_{status}"),
            Cause::Ftp(reply) => return reply.word(),
            Cause::Redirect(status) => return format!("redirect_{status}"),
            Cause::Encoding(Some(codings)) => return codings.code(),
            Cause::Tls(fault) => return fault.code(),
            Cause::Dns => "dns",
            Cause::Refused => "refused",
            Cause::Connect => "connect",
            Cause::Timeout => "timeout",
            Cause::Incomplete => "incomplete",
            Cause::Length => "length",
            Cause::Protocol => "protocol",
            Cause::Encoding(None) => "encoding",
            Cause::Unaddressable => "unaddressable",
            Cause::UpstreamProxy => "upstream_proxy",
            Cause::Prohibited => "prohibited",
            Cause::ProhibitedHop => "prohibited_hop",
            Cause::DisallowedHop => "disallowed_hop",
            Cause::UnjudgedHop => "unjudged_hop",
            Cause::DeniedHop => "denied_hop",
            Cause::HopChain => "hop_chain",
            Cause::Exhausted => "exhausted",
            Cause::Internal => "internal",
        };
        name.to_owned()
    }

    /// Returns the code without its facts, to count by.
    pub fn word(&self) -> String {
        let mut code = self.code();
        code.truncate(code.find(':').unwrap_or(code.len()));
        code
    }

    /// Reads the word that [`Cause::code`] wrote.
    pub fn from_code(code: &str) -> Option<Cause> {
        if let Some(status) = numbered(code, "status_") {
            return Some(Cause::Status(status));
        }
        if let Some(reply) = FtpReply::from_word(code) {
            return Some(Cause::Ftp(reply));
        }
        if let Some(status) = numbered(code, "redirect_") {
            return Some(Cause::Redirect(status));
        }
        if let Some(codings) = Codings::from_code(code) {
            return Some(Cause::Encoding(Some(codings)));
        }
        Some(match code {
            "dns" => Cause::Dns,
            "refused" => Cause::Refused,
            "connect" => Cause::Connect,
            "timeout" => Cause::Timeout,
            "incomplete" => Cause::Incomplete,
            "length" => Cause::Length,
            "protocol" => Cause::Protocol,
            "encoding" => Cause::Encoding(None),
            "unaddressable" => Cause::Unaddressable,
            "upstream_proxy" => Cause::UpstreamProxy,
            "prohibited" => Cause::Prohibited,
            "prohibited_hop" => Cause::ProhibitedHop,
            "disallowed_hop" => Cause::DisallowedHop,
            "unjudged_hop" => Cause::UnjudgedHop,
            "denied_hop" => Cause::DeniedHop,
            "hop_chain" => Cause::HopChain,
            "exhausted" => Cause::Exhausted,
            "internal" => Cause::Internal,
            _ => return TlsFault::from_code(code).map(Cause::from),
        })
    }

    /// Returns the status and the error type (RFC 9209 2.3) of the answer to a request that is kept back for this cause.
    ///
    /// 502: no server spoke HTTP with us. 504: it did not in time. 503: it did, and its answer is no file for now; or this
    /// machine has no room.
    pub fn answer(&self) -> (StatusCode, &'static str) {
        let (status, error_type) = match self {
            Cause::Dns => (502, "dns_error"),
            Cause::Refused => (502, "connection_refused"),
            Cause::Connect | Cause::UpstreamProxy => (502, "destination_unavailable"),
            Cause::Unaddressable => (502, "destination_ip_unroutable"),
            Cause::Tls(fault) => (502, fault.error_type()),
            Cause::Protocol | Cause::Redirect(_) => (502, "http_protocol_error"),
            Cause::Encoding(_) => (502, "http_response_content_coding"),
            Cause::Prohibited | Cause::ProhibitedHop => (502, "destination_ip_prohibited"),
            Cause::Timeout => (504, "http_response_timeout"),
            Cause::Incomplete | Cause::Length => (503, "http_response_incomplete"),
            Cause::Status(_)
            | Cause::Ftp(_)
            | Cause::DisallowedHop
            | Cause::UnjudgedHop
            | Cause::DeniedHop
            | Cause::HopChain => (503, "destination_unavailable"),
            Cause::Exhausted => (503, "connection_limit_reached"),
            Cause::Internal => (503, "proxy_internal_error"),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        (status, error_type)
    }

    /// Tells whether the failure is on the way to the origin: nothing shows that a server was reached.
    pub fn is_network(&self) -> bool {
        match self {
            Cause::Tls(fault) => **fault != TlsFault::ServerName,
            Cause::Dns | Cause::Refused | Cause::Connect | Cause::Timeout | Cause::Incomplete => {
                true
            }
            _ => false,
        }
    }

    /// Tells whether the origin was asked: an earlier failure is never its outage.
    pub fn tells_of_origin(&self) -> bool {
        match self {
            Cause::Tls(fault) => **fault != TlsFault::ServerName,
            Cause::Unaddressable | Cause::UpstreamProxy | Cause::Prohibited | Cause::Internal => {
                false
            }
            _ => true,
        }
    }

    /// Tells whether the origin's own answer, or its network, is the cause: not crawlgate or its operator, nor the rules of
    /// the origin that it redirected to.
    pub fn is_of_the_document(&self) -> bool {
        let is_of_a_hop = matches!(
            self,
            Cause::ProhibitedHop
                | Cause::UnjudgedHop
                | Cause::DeniedHop
                | Cause::DisallowedHop
                | Cause::HopChain
        );
        self.tells_of_origin() && !is_of_a_hop && *self != Cause::Exhausted
    }

    /// Tells whether the origin's server answered at all, even if badly.
    pub fn is_answer(&self) -> bool {
        matches!(self, Cause::Status(_) | Cause::Ftp(_) | Cause::Redirect(_) | Cause::Encoding(_))
    }
}

impl From<TlsFault> for Cause {
    fn from(fault: TlsFault) -> Cause {
        Cause::Tls(Arc::new(fault))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Status(status) => write!(f, "it answered {status}"),
            Cause::Ftp(reply) => reply.fmt(f),
            Cause::Dns => f.write_str("its name did not resolve"),
            Cause::Refused => f.write_str("it refused the connection"),
            Cause::Connect => f.write_str("no connection could be made"),
            Cause::Tls(fault) => fault.fmt(f),
            Cause::Timeout => f.write_str("it did not answer in time"),
            Cause::Incomplete => f.write_str("the connection broke before the answer was whole"),
            Cause::Length => f.write_str(
                "its answer has another length than it says (Content-Length, last chunk), so a part may be missing",
            ),
            Cause::Protocol => f.write_str("the answer was not valid HTTP or FTP"),
            Cause::Encoding(Some(codings)) => {
                write!(f, "its body could not be decoded ({codings})")
            }
            Cause::Encoding(None) => {
                f.write_str("its Content-Encoding or Transfer-Encoding could not be decoded")
            }
            Cause::Redirect(status @ (300..=303 | 307 | 308)) => {
                write!(f, "it answered {status} without a usable Location")
            }
            Cause::Redirect(status @ 100..=599) => {
                write!(f, "it answered {status}, which answers no plain GET")
            }
            Cause::Redirect(status) => {
                write!(f, "it answered {status}, which is no status of HTTP")
            }
            Cause::UpstreamProxy => f.write_str(
                "the proxy on the way to it ([[upstream.proxy]]) could not be reached, or did not let crawlgate through",
            ),
            Cause::Prohibited => f.write_str("it may not be reached from here ([egress] allow)"),
            Cause::ProhibitedHop => {
                f.write_str("it redirected to what may not be reached from here ([egress] allow)")
            }
            Cause::DisallowedHop => {
                f.write_str("it redirected to a URL that its own robots.txt disallows")
            }
            Cause::UnjudgedHop => f.write_str(
                "it redirected to another site, and the rules there could not be fetched in time or do not settle the redirect",
            ),
            Cause::DeniedHop => f.write_str("it redirected to a URL that an override denies"),
            Cause::HopChain => f.write_str(
                "it redirected to another site, and the rules there are behind a longer chain of redirects than is followed",
            ),
            Cause::Unaddressable => f.write_str("no connection can be made to such an origin"),
            Cause::Exhausted => f.write_str("crawlgate has no room for the fetch"),
            Cause::Internal => f.write_str("the fetch failed inside crawlgate"),
        }
    }
}
