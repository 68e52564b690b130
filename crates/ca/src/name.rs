//! The host that a certificate is for.

use std::net::IpAddr;

use rcgen::SanType;
use rustls::pki_types::DnsName;

use super::CaError;

/// A host that may stand in a certificate.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) address: Option<IpAddr>,
}

impl Name {
    /// Reads a DNS name (one trailing dot is dropped) or an IP address (IPv6 with or without brackets).
    pub(super) fn parse(host: &str) -> Result<Self, CaError> {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self {
                text: address.to_string(),
                address: Some(address),
            });
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        match DnsName::try_from(name.as_str()) {
            Ok(_) => Ok(Self {
                text: name,
                address: None,
            }),
            Err(_) => Err(CaError::Host {
                host: host.chars().take(80).collect(),
            }),
        }
    }

    /// Returns the name or address, canonical.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    pub(super) fn san(&self) -> Result<SanType, CaError> {
        Ok(match self.address {
            Some(address) => SanType::IpAddress(address),
            None => SanType::DnsName(self.text.as_str().try_into().map_err(CaError::signing)?),
        })
    }
}
