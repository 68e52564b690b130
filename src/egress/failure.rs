//! What can go wrong between us and an origin, in the words of RFC 9209 (Proxy-Status error types).

use std::error::Error;
use std::io;

use super::DnsError;
use crate::robots::access::Cause;

/// Why no response head came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The name did not resolve.
    Dns,
    /// The connection was refused.
    Refused,
    /// No route, or any other failure to connect.
    Unroutable,
    /// The connection took too long.
    ConnectTimeout,
    /// The origin's certificate did not verify.
    Certificate,
    /// TLS failed otherwise.
    Tls,
    /// The origin closed or reset the connection before its answer was whole.
    Terminated,
    /// The answer was not HTTP.
    Protocol,
    /// The response head took too long.
    ResponseTimeout,
    /// The crawler's own body broke off.
    RequestBody,
    /// No connection can be made to such an origin.
    Unaddressable,
}

impl Failure {
    /// Classifies an error of the HTTP client by what lies at its root.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Failure {
        let mut failure = Failure::Protocol;
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = Failure::at(error) {
                failure = found;
            }
            next = match error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref)
            {
                // An io::Error hides what it wraps from `source`.
                Some(inner) => Some(inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        failure
    }

    fn at(error: &(dyn Error + 'static)) -> Option<Failure> {
        if error.is::<DnsError>() {
            return Some(Failure::Dns);
        }
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(match tls {
                rustls::Error::InvalidCertificate(_)
                | rustls::Error::NoCertificatesPresented
                | rustls::Error::UnsupportedNameType => Failure::Certificate,
                _ => Failure::Tls,
            });
        }
        if let Some(http) = error.downcast_ref::<hyper::Error>() {
            return if http.is_incomplete_message() || http.is_closed() || http.is_canceled() {
                Some(Failure::Terminated)
            } else if http.is_parse() {
                Some(Failure::Protocol)
            } else if http.is_user() || http.is_body_write_aborted() {
                Some(Failure::RequestBody)
            } else {
                None
            };
        }
        let kind = error.downcast_ref::<io::Error>()?.kind();
        Some(match kind {
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            io::ErrorKind::TimedOut => Failure::ConnectTimeout,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Failure::Terminated,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable => Failure::Unroutable,
            _ => return None,
        })
    }

    /// The error type of RFC 9209 section 2.3.
    pub fn error_type(self) -> &'static str {
        match self {
            Failure::Dns => "dns_error",
            Failure::Refused => "connection_refused",
            Failure::Unroutable | Failure::Unaddressable => "destination_ip_unroutable",
            Failure::ConnectTimeout => "connection_timeout",
            Failure::Certificate => "tls_certificate_error",
            Failure::Tls => "tls_protocol_error",
            Failure::Terminated => "connection_terminated",
            Failure::Protocol => "http_protocol_error",
            Failure::ResponseTimeout => "http_response_timeout",
            Failure::RequestBody => "http_request_error",
        }
    }

    /// What happened, as the end of a sentence about the origin.
    pub fn sentence(self) -> &'static str {
        match self {
            Failure::Dns => "its name did not resolve",
            Failure::Refused => "it refused the connection",
            Failure::Unroutable | Failure::Unaddressable => "no connection could be made to it",
            Failure::ConnectTimeout => "the connection took too long",
            Failure::Certificate => "its certificate could not be verified",
            Failure::Tls => "TLS with it failed",
            Failure::Terminated => "it closed the connection before its answer was whole",
            Failure::Protocol => "its answer was not valid HTTP",
            Failure::ResponseTimeout => "it did not answer in time",
            Failure::RequestBody => "the request's body broke off",
        }
    }

    /// Whether the failure is one of time, for which the answer is 504.
    pub fn is_timeout(self) -> bool {
        matches!(self, Failure::ConnectTimeout | Failure::ResponseTimeout)
    }

    /// What the failure means for a robots.txt.
    pub fn cause(self) -> Cause {
        match self {
            Failure::Dns => Cause::Dns,
            Failure::Refused | Failure::Unroutable | Failure::Unaddressable => Cause::Connect,
            Failure::ConnectTimeout | Failure::ResponseTimeout => Cause::Timeout,
            Failure::Certificate | Failure::Tls => Cause::Tls,
            Failure::Terminated => Cause::Incomplete,
            Failure::Protocol => Cause::Protocol,
            Failure::RequestBody => Cause::Internal,
        }
    }
}
