//! Failures between us and an origin, in the words of RFC 9209 (Proxy-Status error types).

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::AlertDescription;

use super::http2::TOO_LONG;
use crawlgate_origins::access::Cause;
use crawlgate_origins::access::tls_fault::TlsFault;
use crawlgate_policy::address_policy::Prohibited;
use crawlgate_signing::identities::IdentityError;
use crawlgate_system::descriptors::is_exhaustion;
use crawlgate_trust::{TrustError, tls_fault};

/// The reason that no response head came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The name did not resolve.
    Dns,
    /// The connection was refused.
    Refused,
    /// No route, or any other failure to connect.
    Unroutable,
    /// The connection took too long.
    ConnectTimeout,
    /// No TLS session began.
    Tls(Arc<TlsFault>),
    /// The origin closed or reset the connection before its answer was whole.
    Terminated,
    /// The origin reset the stream of the request, and kept the connection.
    Reset,
    /// The connection that a login belonged to has ended. Nothing was sent.
    LoginLost,
    /// The origin speaks no protocol that the request can take.
    NoProtocol,
    /// The answer was not HTTP/1.1.
    Protocol,
    /// The answer was not HTTP/2.
    Http2,
    /// The answers over FTP were not valid, or led to no data connection.
    Ftp,
    /// There were too many interim responses.
    Interim,
    /// The response head took too long.
    ResponseTimeout,
    /// The crawler's own body broke off.
    RequestBody,
    /// The crawler's own body came too slowly.
    RequestStalled,
    /// No connection can be made to such an origin.
    Unaddressable,
    /// This machine has no descriptor or memory left for a connection, which says nothing about the origin.
    Exhausted,
    /// All places on the connections to the origin stayed taken, which says nothing about the origin.
    Crowded,
    /// The address policy prohibits it.
    Prohibited(Prohibited),
    /// The upstream proxy could not be reached.
    ProxyUnreachable,
    /// The upstream proxy says that it could not open the tunnel to the origin.
    ProxyFailed,
    /// The upstream proxy did not open the tunnel, and says nothing of the origin.
    ProxyRefused,
    /// The upstream proxy did not accept our credentials.
    ProxyLogin,
}

impl Failure {
    /// Classifies an error of the HTTP client by its root cause; but a crawler's body that broke off is never the
    /// origin's fault.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Failure {
        let mut failure = Failure::Protocol;
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = Failure::at(error) {
                failure = found;
            }
            if failure == Failure::RequestBody {
                break;
            }
            next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
                // An io::Error hides its inner error from `source`.
                Some(inner) => Some(inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        failure
    }

    fn at(error: &(dyn Error + 'static)) -> Option<Failure> {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(match tls {
                rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                    Failure::NoProtocol
                }
                error => tls_fault(error).into(),
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
        if let Some(http) = error.downcast_ref::<h2::Error>() {
            return match http.get_io() {
                Some(io) if io.kind() == TOO_LONG => Some(Failure::Http2),
                Some(io) => Failure::at(io).or(Some(Failure::Terminated)),
                None if http.is_remote() && http.is_reset() => Some(Failure::Reset),
                None if http.is_remote() => Some(Failure::Terminated),
                None => Some(Failure::Http2),
            };
        }
        let error = error.downcast_ref::<io::Error>()?;
        Some(match error.kind() {
            _ if is_exhaustion(error) => Failure::Exhausted,
            io::ErrorKind::ConnectionRefused => Failure::Refused,
            io::ErrorKind::TimedOut => Failure::ConnectTimeout,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Failure::Terminated,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable => Failure::Unroutable,
            // Any other error of the system is one of connecting.
            _ if error.raw_os_error().is_some() => Failure::Unroutable,
            _ => return None,
        })
    }

    /// Returns the error type of RFC 9209 section 2.3.
    pub fn error_type(&self) -> &'static str {
        match self {
            Failure::Dns => "dns_error",
            Failure::Refused => "connection_refused",
            Failure::Unroutable | Failure::Unaddressable => "destination_ip_unroutable",
            Failure::Exhausted | Failure::Crowded => "connection_limit_reached",
            Failure::Prohibited(prohibited) => prohibited.error_type(),
            Failure::ProxyUnreachable | Failure::ProxyFailed | Failure::ProxyRefused => {
                "destination_unavailable"
            }
            Failure::ProxyLogin => "proxy_configuration_error",
            Failure::ConnectTimeout => "connection_timeout",
            Failure::Tls(fault) => fault.error_type(),
            Failure::NoProtocol => "tls_alert_received",
            Failure::Terminated | Failure::Reset | Failure::LoginLost => "connection_terminated",
            Failure::Protocol | Failure::Http2 | Failure::Ftp | Failure::Interim => {
                "http_protocol_error"
            }
            Failure::ResponseTimeout => "http_response_timeout",
            Failure::RequestBody | Failure::RequestStalled => "http_request_error",
        }
    }

    /// Returns the error type for a response with a body that broke off with this error.
    pub fn of_body(error: &ResponseError) -> &'static str {
        match error {
            ResponseError::Http1(error) if Failure::of(error) == Failure::Protocol => {
                "http_response_transfer_coding"
            }
            ResponseError::Ftp(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                "http_response_body_size"
            }
            ResponseError::Http1(_)
            | ResponseError::Http2(_)
            | ResponseError::Ftp(_)
            | ResponseError::Length => "http_response_incomplete",
        }
    }

    /// Describes the failure, as the end of a sentence about the origin.
    pub fn sentence(&self) -> Cow<'static, str> {
        let words = match self {
            Failure::Tls(fault) => return fault.to_string().into(),
            Failure::Dns => "its name did not resolve",
            Failure::Refused => "it refused the connection",
            Failure::Unroutable | Failure::Unaddressable => "no connection could be made to it",
            Failure::Exhausted => "this proxy has no descriptor left for a connection to it",
            Failure::Crowded => "all connections to it are in use",
            Failure::Prohibited(_) => "it may not be reached from here",
            Failure::ProxyUnreachable => {
                "the proxy on the way to it ([[upstream.proxy]]) could not be reached"
            }
            Failure::ProxyFailed | Failure::ProxyRefused => {
                "the proxy on the way to it ([[upstream.proxy]]) did not connect to it"
            }
            Failure::ProxyLogin => {
                "the proxy on the way to it does not take our credentials ([[upstream.proxy]])"
            }
            Failure::ConnectTimeout => "the connection took too long",
            Failure::Terminated => "it closed the connection before its answer was whole",
            Failure::Reset => "it reset the HTTP/2 stream of the request before its answer began",
            Failure::LoginLost => {
                "the connection to it that the crawler had logged in on has ended; log in again on a new connection"
            }
            Failure::NoProtocol => {
                "it does not speak HTTP/1.1, by which logins with NTLM or Negotiate and requests to switch protocols are sent"
            }
            Failure::Protocol => "its answer was not valid HTTP/1.1",
            Failure::Http2 => "its answer was not valid HTTP/2",
            Failure::Ftp => "its answer over FTP was not valid or led to no data connection",
            Failure::Interim => "it sent interim responses without end",
            Failure::ResponseTimeout => "it did not answer in time",
            Failure::RequestBody => "the request's body broke off",
            Failure::RequestStalled => "the request's body came too slowly",
        };
        words.into()
    }

    /// Returns the fault for which no TLS session began.
    pub fn tls_fault(&self) -> Option<&TlsFault> {
        match self {
            Failure::Tls(fault) => Some(fault),
            Failure::NoProtocol => Some(&NO_APPLICATION_PROTOCOL),
            _ => None,
        }
    }

    /// Tells whether the failure is a time-out, which is answered with 504.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Failure::ConnectTimeout | Failure::ResponseTimeout)
    }

    /// Tells whether the origin was asked, and could not be reached or did not answer in time.
    pub fn is_of_the_origin(&self) -> bool {
        matches!(
            self,
            Failure::Refused
                | Failure::Unroutable
                | Failure::ConnectTimeout
                | Failure::ResponseTimeout
        )
    }

    /// Returns the meaning of the failure for a robots.txt.
    pub fn cause(&self) -> Cause {
        match self {
            Failure::Dns => Cause::Dns,
            Failure::Refused => Cause::Refused,
            Failure::Unroutable | Failure::ProxyFailed => Cause::Connect,
            Failure::Unaddressable => Cause::Unaddressable,
            Failure::Exhausted | Failure::Crowded => Cause::Exhausted,
            Failure::Prohibited(_) => Cause::Prohibited,
            Failure::ProxyUnreachable | Failure::ProxyRefused | Failure::ProxyLogin => {
                Cause::UpstreamProxy
            }
            Failure::ConnectTimeout | Failure::ResponseTimeout => Cause::Timeout,
            Failure::Tls(fault) => Cause::Tls(Arc::clone(fault)),
            Failure::NoProtocol => NO_APPLICATION_PROTOCOL.into(),
            Failure::Terminated | Failure::Reset | Failure::LoginLost => Cause::Incomplete,
            Failure::Protocol | Failure::Http2 | Failure::Ftp | Failure::Interim => Cause::Protocol,
            Failure::RequestBody | Failure::RequestStalled => Cause::Internal,
        }
    }
}

/// The fault of an origin that speaks none of the offered protocols.
const NO_APPLICATION_PROTOCOL: TlsFault = TlsFault::Alert(120);

impl From<TlsFault> for Failure {
    fn from(fault: TlsFault) -> Failure {
        Failure::Tls(Arc::new(fault))
    }
}

/// The reason that the egress could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The trusted roots cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// An identity has no usable key.
    #[error(transparent)]
    Signing(#[from] IdentityError),
    /// The credentials for an upstream proxy cannot be read.
    #[error("[[upstream.proxy]] credentials_file = {path}: {why}")]
    Credentials {
        /// The file that should hold them.
        path: PathBuf,
        /// The fault in it.
        why: String,
    },
}

/// The error that a response's body ended with.
#[derive(Debug, thiserror::Error)]
#[error("the response broke off")]
pub enum ResponseError {
    /// Of an HTTP/1.1 connection.
    Http1(#[source] hyper::Error),
    /// Of an HTTP/2 stream.
    Http2(#[source] h2::Error),
    /// Of a transfer over FTP.
    Ftp(#[source] io::Error),
    /// It has another length than it says.
    Length,
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use hyper::body::{Frame, Incoming};
    use hyper_util::rt::TokioIo;
    use rustls::CertificateError;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::{BodyError, RequestBody};
    use super::*;
    use crawlgate_origins::access::tls_fault::Holder;
    use crawlgate_system::clock::Moment;

    /// An error inside another one, as libraries wrap them.
    #[derive(Debug)]
    struct Wrapped(BodyError);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "wrapped: {}", self.0)
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    fn os(code: rustix::io::Errno) -> BodyError {
        io::Error::from(code).into()
    }

    fn tls(error: rustls::Error) -> BodyError {
        io::Error::new(io::ErrorKind::InvalidData, error).into()
    }

    #[test]
    fn an_error_is_classified_by_its_root() {
        use rustix::io::Errno;
        let expired = || TlsFault::Expired(Holder::Origin, Moment::from_millis(0));
        let distrusted = || CertificateError::Other(rustls::OtherError(Arc::new(expired())));
        let distrusted = || rustls::Error::InvalidCertificate(distrusted());
        let alert = || rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
        #[rustfmt::skip] // one row, one case
        let cases: Vec<(&str, BodyError, Failure)> = vec![
            ("refused", os(Errno::CONNREFUSED), Failure::Refused),
            ("no route", os(Errno::HOSTUNREACH), Failure::Unroutable),
            ("no network", os(Errno::NETUNREACH), Failure::Unroutable),
            ("a firewall", os(Errno::PERM), Failure::Unroutable),
            ("too many open files", os(Errno::MFILE), Failure::Exhausted),
            ("the connection took too long", os(Errno::TIMEDOUT), Failure::ConnectTimeout),
            ("reset", os(Errno::CONNRESET), Failure::Terminated),
            ("closed in the middle of a handshake",
                io::Error::from(io::ErrorKind::UnexpectedEof).into(), Failure::Terminated),
            ("a bad certificate", tls(distrusted()), expired().into()),
            ("a bad certificate, wrapped again", io::Error::other(Wrapped(tls(distrusted()))).into(), expired().into()),
            ("no common ground in TLS", tls(alert()), TlsFault::Alert(40).into()),
            ("no common protocol", tls(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)), Failure::NoProtocol),
            ("something else", "surprise".into(), Failure::Protocol),
        ];
        for (name, error, expected) in cases {
            assert_eq!(Failure::of(&*error), expected, "{name}");
            assert_eq!(Failure::of(&Wrapped(error)), expected, "{name}, wrapped");
        }
    }

    #[test]
    fn a_failure_and_the_cause_of_a_robots_txt_say_the_same_of_tls() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            (
                Failure::from(TlsFault::SelfSigned("CN=a".into())),
                "its certificate, CN=a, signed itself ([tls] extra_roots can name this certificate)",
                "tls_certificate_error",
                None,
            ),
            (TlsFault::NotTls.into(), "it does not speak TLS at this port", "tls_protocol_error", None),
            (
                TlsFault::Alert(112).into(),
                "it ended the TLS handshake with the alert unrecognized_name (112): it does not know its own name",
                "tls_alert_received",
                Some((112, "unrecognized_name")),
            ),
        ];
        for (failure, text, error, alert) in cases {
            assert_eq!(failure.sentence(), text);
            assert_eq!(failure.cause().to_string(), text);
            assert_eq!(
                (failure.error_type(), failure.tls_fault().and_then(TlsFault::alert)),
                (error, alert)
            );
        }
        let refused = Failure::NoProtocol;
        assert_eq!(refused.cause(), TlsFault::Alert(120).into());
        let alert = refused.tls_fault().and_then(TlsFault::alert);
        assert_eq!(alert, Some((120, "no_application_protocol")));
    }

    /// Sends a request to an origin that answers with `answer` and closes.
    async fn exchange(body: RequestBody, answer: &str) -> Result<Response<Incoming>, hyper::Error> {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await;
        let (mut sender, connection) = handshake.expect("nothing is exchanged yet");
        tokio::spawn(connection);
        let answer = answer.to_owned();
        tokio::spawn(async move {
            let mut request = [0; 16];
            theirs.read_exact(&mut request).await?;
            theirs.write_all(answer.as_bytes()).await
        });
        let mut request = Request::new(body);
        *request.method_mut() = http::Method::POST;
        sender.send_request(request).await
    }

    #[tokio::test]
    async fn an_invalid_answer_differs_from_one_that_breaks_off() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("no answer", "", Failure::Terminated),
            ("half a head", "HTTP/1.1 200 OK\r\nX: y", Failure::Terminated),
            ("not HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n", Failure::Protocol),
        ];
        for (name, answer, expected) in cases {
            let error = exchange(RequestBody::Empty, answer).await.expect_err(name);
            assert_eq!(Failure::of(&error), expected, "{name}: {error}");
        }
    }

    #[tokio::test]
    async fn a_body_that_broke_off_is_the_crawlers_fault_whatever_broke_it() {
        let truncated = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
        let response = exchange(RequestBody::Empty, truncated).await;
        let body = response.expect("a head").into_body();
        let broken = body.collect().await.expect_err("the body is cut short");
        assert_eq!(Failure::of(&broken), Failure::Terminated);
        let frames = Broken(Some(broken.into()));
        let error = exchange(RequestBody::stream(frames), "").await.expect_err("the body fails");
        assert_eq!(Failure::of(&error), Failure::RequestBody, "{error:?}");
    }

    struct Broken(Option<BodyError>);

    impl http_body::Body for Broken {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            std::task::Poll::Ready(self.0.take().map(Err))
        }
    }
}
