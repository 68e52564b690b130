//! The hosts that an authority's certificate lets it sign for (RFC 5280, section 4.2.1.10).
//!
//! Clients check constraints, so a stolen key signs for no more hosts than its certificate says. Here they only predict
//! a client's refusal. A name constraint speaks of one form of name and is silent on all others; so that an authority
//! limited to some domains cannot sign for addresses, a certificate made here excludes any form without a subtree.

use std::net::IpAddr;

use rcgen::{CidrSubnet, GeneralSubtree, NameConstraints, SanType};
use rustls::pki_types::DnsName;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

use super::CaError;
use crawlgate_config::Subtree;

/// The constraints of a certificate. Without any, every host is permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Constraints {
    permitted: Vec<Base>,
    excluded: Vec<Base>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Base {
    /// A domain and all below it; with a leading dot, as some issuers write it, only the names below.
    Domain(Box<str>),
    /// An address and the mask of the bits that count, both of four octets or of sixteen.
    Network { address: Box<[u8]>, mask: Box<[u8]> },
}

impl Constraints {
    /// Reads the constraints of `certificate`. `None` if they are unreadable, or of a kind unknown here.
    pub(super) fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let Some(extension) = certificate.name_constraints().ok()? else {
            return Some(Self::default());
        };
        let bases = |subtrees: &Option<Vec<x509_parser::extensions::GeneralSubtree<'_>>>| {
            let subtrees = subtrees.as_deref().unwrap_or_default();
            let bases = subtrees.iter().map(|subtree| Base::of(&subtree.base));
            bases.collect::<Option<Vec<_>>>()
        };
        Some(Self {
            permitted: bases(&extension.value.permitted_subtrees)?,
            excluded: bases(&extension.value.excluded_subtrees)?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.permitted.is_empty() && self.excluded.is_empty()
    }

    /// Tells whether a client would accept a certificate for `name`.
    pub(super) fn hold(&self, name: &Name) -> bool {
        let mut of_its_form = self.permitted.iter().filter(|base| base.is_of_form(name));
        let permitted = match of_its_form.clone().next() {
            None => true,
            Some(_) => of_its_form.any(|base| base.holds(name)),
        };
        permitted && !self.excluded.iter().any(|base| base.holds(name))
    }

    /// Tells whether a certificate limited to `subtrees` would have the same constraints, in whatever order.
    pub(super) fn are(&self, subtrees: &[Subtree]) -> bool {
        let bases: Vec<Base> = subtrees.iter().map(Base::of_subtree).collect();
        bases.len() == self.permitted.len()
            && bases.iter().all(|base| self.permitted.contains(base))
    }

    /// Returns the constraints as people read them: permitted ones, then excluded ones.
    pub(super) fn shown(&self) -> Vec<String> {
        let permitted = self.permitted.iter().map(Base::shown);
        let excluded = self.excluded.iter();
        let excluded = excluded.map(|base| format!("not {}", base.shown()));
        permitted.chain(excluded).collect()
    }
}

impl Base {
    fn of(name: &GeneralName<'_>) -> Option<Self> {
        match name {
            GeneralName::DNSName(domain) => Some(Self::Domain((*domain).into())),
            GeneralName::IPAddress(octets) if matches!(octets.len(), 8 | 32) => {
                let (address, mask) = octets.split_at_checked(octets.len() / 2)?;
                Some(Self::Network { address: address.into(), mask: mask.into() })
            }
            _ => None,
        }
    }

    fn of_subtree(subtree: &Subtree) -> Self {
        match subtree {
            Subtree::Domain(domain) => Self::Domain(domain.clone()),
            Subtree::Network(network) => match (network.network(), network.netmask()) {
                (IpAddr::V4(address), IpAddr::V4(mask)) => {
                    Self::Network { address: address.octets().into(), mask: mask.octets().into() }
                }
                (address, mask) => {
                    Self::Network { address: v6(address).into(), mask: v6(mask).into() }
                }
            },
        }
    }

    fn is_of_form(&self, name: &Name) -> bool {
        matches!(self, Self::Network { .. }) == name.address().is_some()
    }

    fn holds(&self, name: &Name) -> bool {
        match (self, name.address()) {
            (Self::Domain(domain), None) => is_within(name.text(), domain),
            (Self::Network { address, mask }, Some(IpAddr::V4(v4))) => {
                is_masked(&v4.octets(), address, mask)
            }
            (Self::Network { address, mask }, Some(IpAddr::V6(v6))) => {
                is_masked(&v6.octets(), address, mask)
            }
            _ => false,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Domain(domain) if domain.is_empty() => "names".to_owned(),
            Self::Domain(domain) => domain.to_string(),
            Self::Network { address, mask } => {
                let length: u32 = mask.iter().map(|octet| octet.count_ones()).sum();
                let address = match <[u8; 4]>::try_from(&address[..]) {
                    Ok(v4) => IpAddr::from(v4).to_string(),
                    Err(_) => <[u8; 16]>::try_from(&address[..])
                        .map_or_else(|_| "?".to_owned(), |v6| IpAddr::from(v6).to_string()),
                };
                format!("{address}/{length}")
            }
        }
    }
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn is_within(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.as_bytes(), domain.as_bytes());
    let Some(start) = host.len().checked_sub(domain.len()) else {
        return false;
    };
    let (before, end) = host.split_at(start);
    end.eq_ignore_ascii_case(domain)
        && match domain.first() {
            None => true,
            Some(b'.') => !before.is_empty(),
            Some(_) => before.is_empty() || before.ends_with(b"."),
        }
}

fn is_masked(host: &[u8], address: &[u8], mask: &[u8]) -> bool {
    host.len() == address.len()
        && host
            .iter()
            .zip(address)
            .zip(mask)
            .all(|((host, address), mask)| host & mask == address & mask)
}

/// Returns the extension for a certificate limited to `subtrees`.
pub(super) fn extension(subtrees: &[Subtree]) -> Option<NameConstraints> {
    if subtrees.is_empty() {
        return None;
    }
    let permitted_subtrees = subtrees.iter().map(|subtree| match subtree {
        Subtree::Domain(domain) => GeneralSubtree::DnsName(domain.to_string()),
        Subtree::Network(network) => GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(
            network.addr(),
            network.prefix_len(),
        )),
    });
    let mut excluded_subtrees = Vec::new();
    let is_domain = |subtree: &Subtree| matches!(subtree, Subtree::Domain(_));
    if !subtrees.iter().any(is_domain) {
        excluded_subtrees.push(GeneralSubtree::DnsName(String::new()));
    }
    if subtrees.iter().all(is_domain) {
        for all in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
            let all = CidrSubnet::from_addr_prefix(all, 0);
            excluded_subtrees.push(GeneralSubtree::IpAddress(all));
        }
    }
    Some(NameConstraints { permitted_subtrees: permitted_subtrees.collect(), excluded_subtrees })
}

/// A host that may stand in a certificate.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) address: Option<IpAddr>,
}

impl Name {
    /// Reads a DNS name (one trailing dot is dropped) or an IP address (IPv6 with or without brackets).
    pub(super) fn parse(host: &str) -> Result<Self, CaError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self { text: address.to_string(), address: Some(address) });
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        match DnsName::try_from(name.as_str()) {
            Ok(_) => Ok(Self { text: name, address: None }),
            Err(_) => Err(CaError::Host { host: host.chars().take(80).collect() }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(name: &str) -> Base {
        Base::Domain(name.into())
    }

    fn network(address: &[u8], mask: &[u8]) -> Base {
        Base::Network { address: address.into(), mask: mask.into() }
    }

    #[test]
    fn a_host_is_within_or_outside() {
        let example = || vec![domain("example.com")];
        let below = || vec![domain(".example.com")];
        let ten = || vec![network(&[10, 0, 0, 0], &[255, 0, 0, 0])];
        let no_names = || vec![domain("")];
        let no_addresses = || vec![network(&[0; 4], &[0; 4]), network(&[0; 16], &[0; 16])];
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("nothing said", vec![], vec![], "a.test", true),
            ("the domain itself", example(), vec![], "example.com", true),
            ("below it", example(), vec![], "www.Example.com", true),
            ("only ends like it", example(), vec![], "badexample.com", false),
            ("a part of it", example(), vec![], "com", false),
            ("below it only: itself", below(), vec![], "example.com", false),
            ("below it only: below", below(), vec![], "a.example.com", true),
            ("another form is free", example(), vec![], "192.0.2.1", true),
            ("another form, excluded", example(), no_addresses(), "192.0.2.1", false),
            ("another form, excluded", example(), no_addresses(), "[2001:db8::1]", false),
            ("in the network", ten(), no_names(), "10.2.3.4", true),
            ("outside of it", ten(), no_names(), "11.2.3.4", false),
            ("of the other family", ten(), no_names(), "::1", false),
            ("a name where none may be", ten(), no_names(), "example.com", false),
            ("excluded within", example(), vec![domain("a.example.com")], "b.a.example.com", false),
        ];
        for (case, permitted, excluded, host, within) in cases {
            let constraints = Constraints { permitted, excluded };
            let name = Name::parse(host).unwrap();
            assert_eq!(constraints.hold(&name), within, "{case}: {host}");
        }
    }
}
