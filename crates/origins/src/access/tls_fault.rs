//! The faults for which no TLS session with an origin begins, with their facts.
//!
//! One fault feeds the answer, `check`, `origins`, the service's log and the record: each writes it by [`fmt::Display`], as
//! the end of a sentence about the origin, or by `TlsFault::code`, from which it is read again. Names and issuers are
//! foreign text, so they are cut and printable.

use std::error::Error;
use std::fmt;

use crawlgate_text::Moment;
use crawlgate_text::json::printable;
use crawlgate_text::time_text;

/// Octets of the names of one fault, and of the name of one issuer.
const MOST: usize = 160;

/// The reason that no TLS session with an origin begins.
#[derive(Clone, PartialEq, Eq)]
pub enum TlsFault {
    /// A certificate has expired.
    Expired(Holder, Moment),
    /// A certificate is not valid yet.
    NotYetValid(Holder, Moment),
    /// The certificate is for other names.
    OtherNames(Names),
    /// This issuer is no trusted authority, and its certificate was not sent.
    UnknownIssuer(Box<str>),
    /// The chain ends at this root, which is no trusted authority.
    UntrustedRoot(Box<str>),
    /// The certificate signed itself, and stands in no file of roots.
    SelfSigned(Box<str>),
    /// The certificate is that of an authority.
    CaAsLeaf(Box<str>),
    /// An RSA key has this many bits.
    WeakKey(u32),
    /// A signature is made with this algorithm.
    SignatureAlgorithm(Box<str>),
    /// A signature does not verify.
    BadSignature,
    /// The certificate is not for servers.
    Purpose,
    /// The constraints of an issuer exclude the certificate.
    Constraints,
    /// The certificate is of a version before 3.
    OldCertificate,
    /// The certificate cannot be parsed, or has a critical extension that is unknown here.
    UnreadableCertificate,
    /// The origin showed no certificate.
    NoCertificate,
    /// The certificate did not verify for another reason.
    Certificate,
    /// The origin ended the handshake with this alert.
    Alert(u8),
    /// No version of TLS is common to both.
    Version,
    /// No algorithm of a session is common to both.
    NoCommonAlgorithm,
    /// The origin answered with something other than TLS.
    NotTls,
    /// The origin closed the connection in the handshake.
    Closed,
    /// The name of the host fits no TLS session.
    ServerName,
    /// The origin's messages break the protocol.
    Protocol,
}

/// The certificate that a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The origin's own.
    Origin,
    /// One of its issuers.
    Issuer,
}

/// The names of a certificate, as many as are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    first: Box<[Box<str>]>,
    more: usize,
}

impl Names {
    /// Keeps the first of these names.
    pub fn of(names: impl IntoIterator<Item = impl AsRef<str>>) -> Names {
        let (mut first, mut more, mut room) = (Vec::new(), 0, MOST);
        for name in names {
            let name = shown(name.as_ref()).replace(',', "_");
            match room.checked_sub(name.len() + 1) {
                Some(rest) if more == 0 => {
                    room = rest;
                    first.push(name.into());
                }
                _ => more += 1,
            }
        }
        let first = first.into();
        Names { first, more }
    }

    fn read(text: &str) -> Option<Names> {
        let (mut first, mut more) = (Vec::new(), 0);
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.strip_prefix('+') {
                Some(count) => more = count.parse().ok()?,
                None => first.push(part.into()),
            }
        }
        let first = first.into();
        Some(Names { first, more })
    }
}

/// Returns a foreign text that fits a fault.
pub fn shown(text: &str) -> Box<str> {
    const CUT: &str = "...";
    let text = printable(text);
    if text.len() < MOST {
        return text.into();
    }
    let kept = text.char_indices().map(|(at, _)| at);
    let end = kept.take_while(|at| at + CUT.len() < MOST).last();
    let kept = text.get(..end.unwrap_or_default()).unwrap_or_default();
    [kept, CUT].concat().into()
}

impl TlsFault {
    /// Returns the error type of RFC 9209 section 2.3.
    pub fn error_type(&self) -> &'static str {
        match self {
            TlsFault::Alert(_) => "tls_alert_received",
            TlsFault::Closed => "connection_terminated",
            _ if self.is_of_the_certificate() => "tls_certificate_error",
            _ => "tls_protocol_error",
        }
    }

    /// Tells whether the origin's certificate did not verify.
    pub fn is_of_the_certificate(&self) -> bool {
        !matches!(
            self,
            TlsFault::Alert(_)
                | TlsFault::Version
                | TlsFault::NoCommonAlgorithm
                | TlsFault::NotTls
                | TlsFault::Closed
                | TlsFault::ServerName
                | TlsFault::Protocol
        )
    }

    /// Returns the alert that the origin sent, and its name in the registry of TLS.
    pub fn alert(&self) -> Option<(u8, &'static str)> {
        match self {
            TlsFault::Alert(id) => Some((*id, alert_name(*id).unwrap_or("unknown"))),
            _ => None,
        }
    }

    /// Returns the fault in one word, with its fact behind a colon; [`TlsFault::from_code`] reads it.
    pub(super) fn code(&self) -> String {
        let (word, fact) = self.code_parts();
        match fact {
            Some(fact) => format!("{word}:{fact}"),
            None => word.to_owned(),
        }
    }

    fn code_parts(&self) -> (&'static str, Option<String>) {
        use Holder::{Issuer, Origin};
        let word = match self {
            TlsFault::Expired(Origin, at) => return ("certificate_expired", Some(time_text(*at))),
            TlsFault::Expired(Issuer, at) => {
                return ("certificate_issuer_expired", Some(time_text(*at)));
            }
            TlsFault::NotYetValid(Origin, from) => {
                return ("certificate_not_yet_valid", Some(time_text(*from)));
            }
            TlsFault::NotYetValid(Issuer, from) => {
                return ("certificate_issuer_not_yet_valid", Some(time_text(*from)));
            }
            TlsFault::OtherNames(Names { first, more }) => {
                let more = (*more > 0).then(|| format!("+{more}").into());
                let all: Vec<Box<str>> = first.iter().cloned().chain(more).collect();
                return ("certificate_names", Some(all.join(",")));
            }
            TlsFault::UnknownIssuer(name) => {
                return ("certificate_unknown_issuer", Some(name.to_string()));
            }
            TlsFault::UntrustedRoot(name) => {
                return ("certificate_untrusted_root", Some(name.to_string()));
            }
            TlsFault::SelfSigned(name) => {
                return ("certificate_self_signed", Some(name.to_string()));
            }
            TlsFault::CaAsLeaf(name) => return ("certificate_of_a_ca", Some(name.to_string())),
            TlsFault::WeakKey(bits) => return ("certificate_weak_key", Some(bits.to_string())),
            TlsFault::SignatureAlgorithm(name) => {
                return ("certificate_signature_algorithm", Some(name.to_string()));
            }
            TlsFault::Alert(id) => return ("tls_alert", Some(id.to_string())),
            TlsFault::BadSignature => "certificate_signature",
            TlsFault::Purpose => "certificate_purpose",
            TlsFault::Constraints => "certificate_constraints",
            TlsFault::OldCertificate => "certificate_version",
            TlsFault::UnreadableCertificate => "certificate_unreadable",
            TlsFault::NoCertificate => "certificate_missing",
            TlsFault::Certificate => "certificate",
            TlsFault::Version => "tls_version",
            TlsFault::NoCommonAlgorithm => "tls_algorithm",
            TlsFault::NotTls => "tls_not_spoken",
            TlsFault::Closed => "tls_closed",
            TlsFault::ServerName => "tls_server_name",
            TlsFault::Protocol => "tls",
        };
        (word, None)
    }

    /// Reads the word that [`TlsFault::code`] wrote.
    pub(super) fn from_code(code: &str) -> Option<TlsFault> {
        use Holder::{Issuer, Origin};
        let (word, fact) = code.split_once(':').unwrap_or((code, ""));
        Some(match word {
            "certificate_expired" => TlsFault::Expired(Origin, time(fact)?),
            "certificate_issuer_expired" => TlsFault::Expired(Issuer, time(fact)?),
            "certificate_not_yet_valid" => TlsFault::NotYetValid(Origin, time(fact)?),
            "certificate_issuer_not_yet_valid" => TlsFault::NotYetValid(Issuer, time(fact)?),
            "certificate_names" => TlsFault::OtherNames(Names::read(fact)?),
            "certificate_unknown_issuer" => TlsFault::UnknownIssuer(shown(fact)),
            "certificate_untrusted_root" => TlsFault::UntrustedRoot(shown(fact)),
            "certificate_self_signed" => TlsFault::SelfSigned(shown(fact)),
            "certificate_of_a_ca" => TlsFault::CaAsLeaf(shown(fact)),
            "certificate_weak_key" => TlsFault::WeakKey(fact.parse().ok()?),
            "certificate_signature_algorithm" => TlsFault::SignatureAlgorithm(shown(fact)),
            "certificate_signature" => TlsFault::BadSignature,
            "certificate_purpose" => TlsFault::Purpose,
            "certificate_constraints" => TlsFault::Constraints,
            "certificate_version" => TlsFault::OldCertificate,
            "certificate_unreadable" => TlsFault::UnreadableCertificate,
            "certificate_missing" => TlsFault::NoCertificate,
            "certificate" => TlsFault::Certificate,
            "tls_alert" => TlsFault::Alert(fact.parse().ok()?),
            "tls_version" => TlsFault::Version,
            "tls_algorithm" => TlsFault::NoCommonAlgorithm,
            "tls_not_spoken" => TlsFault::NotTls,
            "tls_closed" => TlsFault::Closed,
            "tls_server_name" => TlsFault::ServerName,
            "tls" => TlsFault::Protocol,
            _ => return None,
        })
    }
}

fn time(text: &str) -> Option<Moment> {
    let time: jiff::Timestamp = text.parse().ok()?;
    let millis = u64::try_from(time.as_millisecond()).ok()?;
    Some(Moment::from_millis(millis))
}

impl Error for TlsFault {}

impl fmt::Debug for TlsFault {
    /// Writes the words: rustls shows an error inside its own in this form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsFault::Expired(holder, at) => write!(f, "{holder} expired on {}", Minute(*at)),
            TlsFault::NotYetValid(holder, from) => {
                write!(f, "{holder} is not valid before {}", Minute(*from))
            }
            TlsFault::OtherNames(names) => write!(f, "its certificate is for {names}, not for it"),
            TlsFault::UnknownIssuer(issuer) => write!(
                f,
                "its certificate was issued by {issuer}, which is not trusted here: the server may leave out an intermediate \
                 certificate, or [tls] extra_roots lacks this authority"
            ),
            TlsFault::UntrustedRoot(root) => write!(
                f,
                "its certificate was issued under {root}, which is not trusted here ([tls] extra_roots can name this authority)"
            ),
            TlsFault::SelfSigned(subject) => write!(
                f,
                "its certificate, {subject}, signed itself ([tls] extra_roots can name this certificate)"
            ),
            TlsFault::CaAsLeaf(subject) => write!(
                f,
                "its certificate, {subject}, is that of an authority, not of a server"
            ),
            TlsFault::WeakKey(bits) => write!(
                f,
                "its certificate, or that of an issuer, has an RSA key of {bits} bits, and fewer than 2048 are not accepted"
            ),
            TlsFault::SignatureAlgorithm(name) => write!(
                f,
                "its certificate, or that of an issuer, is signed with {name}, which is not accepted"
            ),
            TlsFault::BadSignature => {
                f.write_str("a signature of its certificate or its handshake is false")
            }
            TlsFault::Purpose => {
                f.write_str("its certificate is not for servers (extended key usage)")
            }
            TlsFault::Constraints => {
                f.write_str("its certificate is outside the constraints of its issuer")
            }
            TlsFault::OldCertificate => f.write_str("its certificate is not of version 3"),
            TlsFault::UnreadableCertificate => f.write_str("its certificate cannot be read"),
            TlsFault::NoCertificate => f.write_str("it showed no certificate"),
            TlsFault::Certificate => f.write_str("its certificate could not be verified"),
            TlsFault::Alert(id) => {
                let name = alert_name(*id).unwrap_or("unknown");
                write!(f, "it ended the TLS handshake with the alert {name} ({id})")?;
                match id {
                    40 => f.write_str(": it accepts no algorithm that is offered, or asks for more than a client without a certificate"),
                    70 => f.write_str(": it accepts neither TLS 1.2 nor TLS 1.3"),
                    112 => f.write_str(": it does not know its own name"),
                    116 => f.write_str(": it asks for a certificate of the client"),
                    _ => Ok(()),
                }
            }
            TlsFault::Version => f.write_str("it speaks neither TLS 1.2 nor TLS 1.3"),
            TlsFault::NoCommonAlgorithm => {
                f.write_str("it has no algorithm of TLS in common with crawlgate")
            }
            TlsFault::NotTls => f.write_str("it does not speak TLS at this port"),
            TlsFault::Closed => f.write_str("it closed the connection in the TLS handshake"),
            TlsFault::ServerName => f.write_str(
                "its name fits no TLS session: a label may not begin or end with \"-\", and consists of letters, digits, \"-\" \
                 and \"_\", 63 at most",
            ),
            TlsFault::Protocol => f.write_str("its TLS messages break the protocol"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Holder::Origin => "its certificate",
            Holder::Issuer => "the certificate of its issuer",
        })
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Names { first, more } = self;
        match (first.is_empty(), more) {
            (true, 0) => f.write_str("no host (it has no subjectAltName)"),
            (true, more) => write!(f, "{more} other names"),
            (false, 0) => f.write_str(&first.join(", ")),
            (false, more) => write!(f, "{} and {more} more", first.join(", ")),
        }
    }
}

/// A moment to the minute, for people.
struct Minute(Moment);

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = time_text(self.0);
        let part = |range| text.get(range).unwrap_or_default();
        write!(f, "{} at {} UTC", part(0..10), part(11..16))
    }
}

/// Returns the name of an alert in the TLS registry (RFC 8446 6).
pub fn alert_name(id: u8) -> Option<&'static str> {
    Some(match id {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
