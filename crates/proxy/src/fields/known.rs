//! The fields that a proxy treats specially, by name.

use http::HeaderName;

use super::target_names::names_target;

/// A field that gets special treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Connection,
    KeepAlive,
    ProxyConnection,
    ProxyAuthorization,
    ProxyAuthenticate,
    Te,
    TransferEncoding,
    Upgrade,
    ContentLength,
    ProxyStatus,
    /// Every field that names another path or host to a server than the request line and Host do, which were judged.
    TargetName,
}

/// Number of such fields.
const KNOWN: usize = 11;

impl Known {
    pub(super) const ALL: [Known; KNOWN] = [
        Known::Connection,
        Known::KeepAlive,
        Known::ProxyConnection,
        Known::ProxyAuthorization,
        Known::ProxyAuthenticate,
        Known::Te,
        Known::TransferEncoding,
        Known::Upgrade,
        Known::ContentLength,
        Known::ProxyStatus,
        Known::TargetName,
    ];

    pub(super) fn of(name: &HeaderName) -> Option<Known> {
        Some(match name.as_str() {
            "connection" => Known::Connection,
            "keep-alive" => Known::KeepAlive,
            "proxy-connection" => Known::ProxyConnection,
            "proxy-authorization" => Known::ProxyAuthorization,
            "proxy-authenticate" => Known::ProxyAuthenticate,
            "te" => Known::Te,
            "transfer-encoding" => Known::TransferEncoding,
            "upgrade" => Known::Upgrade,
            "content-length" => Known::ContentLength,
            "proxy-status" => Known::ProxyStatus,
            other => return names_target(other).then_some(Known::TargetName),
        })
    }

    /// Returns the name; `None` if fields of several names are meant.
    pub(super) fn name(self) -> Option<&'static str> {
        Some(match self {
            Known::Connection => "connection",
            Known::KeepAlive => "keep-alive",
            Known::ProxyConnection => "proxy-connection",
            Known::ProxyAuthorization => "proxy-authorization",
            Known::ProxyAuthenticate => "proxy-authenticate",
            Known::Te => "te",
            Known::TransferEncoding => "transfer-encoding",
            Known::Upgrade => "upgrade",
            Known::ContentLength => "content-length",
            Known::ProxyStatus => "proxy-status",
            Known::TargetName => return None,
        })
    }
}

/// Known fields of a message, before it was stripped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found([bool; KNOWN]);

impl Found {
    pub(super) fn has(self, known: Known) -> bool {
        self.0.get(known as usize).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, known: Known) {
        if let Some(found) = self.0.get_mut(known as usize) {
            *found = true;
        }
    }
}
