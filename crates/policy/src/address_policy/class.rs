//! Classes of addresses: the special-purpose blocks of IPv4 and IPv6 (RFC 6890 and IANA's two registries).
//!
//! An address is *global* if it can be a site of the public internet, and of a [`Class`] if it cannot. IPv6 forms that
//! carry an IPv4 address are of two kinds: if the form determines the final destination (IPv4-mapped, NAT64), the
//! carried address is judged; if it does not (6to4, Teredo), the form itself is a class.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason that an address is no site of the public internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `0.0.0.0/8`, `::`.
    Unspecified,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// RFC 1918.
    Private,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// `100.64.0.0/10` (RFC 6598).
    Shared,
    /// `fc00::/7`.
    UniqueLocal,
    /// `fec0::/10`.
    SiteLocal,
    /// `224.0.0.0/4`, `ff00::/8`.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// RFC 5737, RFC 3849, RFC 9637.
    Documentation,
    /// `198.18.0.0/15`, `2001:2::/48`.
    Benchmarking,
    /// Addresses of metadata services, where clouds hand out credentials to any program inside.
    Metadata,
    /// `192.0.0.0/24`, `2001::/23`.
    Protocol,
    /// 6to4, Teredo, IPv4-compatible and -translated: an embedded IPv4 address with an unknown exit.
    Transition,
    /// `2001:10::/28`, `2001:20::/28`: names of keys, not of places.
    Orchid,
    /// `100::/64` and its neighbour: packets to it are dropped.
    Discard,
    /// Unassigned: `240.0.0.0/4`, and IPv6 outside of IANA's allocations.
    Reserved,
}

impl fmt::Display for Class {
    /// Writes the class so that it can follow "is".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "no address of any machine",
            Self::Loopback => "this machine itself",
            Self::Private => "in a private network",
            Self::LinkLocal => "on the local link",
            Self::Shared => "in a carrier's shared network",
            Self::UniqueLocal => "in a unique local network",
            Self::SiteLocal => "in a site-local network",
            Self::Multicast => "a multicast group",
            Self::Broadcast => "a broadcast address",
            Self::Documentation => "an address of documentation",
            Self::Benchmarking => "an address of benchmarks",
            Self::Metadata => "a cloud's metadata service",
            Self::Protocol => "an address of protocols",
            Self::Transition => "an IPv4 address in disguise",
            Self::Orchid => "the name of a key",
            Self::Discard => "an address that drops all",
            Self::Reserved => "a reserved address",
        })
    }
}

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Possibly a site of the public internet.
    Global,
    /// No site of the public internet.
    Special(Class),
    /// IPv4-mapped: another spelling of this address.
    Is(Ipv4Addr),
    /// A translator's address (NAT64): it is sent on to this IPv4 address, or to one of these if the length of the
    /// translator's prefix is unknown. Zeroes stand for none.
    SentTo([Ipv4Addr; 4]),
}

/// Metadata services, also those at ordinary-looking addresses: AWS and most others, AWS ECS and EKS, Alibaba, Azure's
/// host, Oracle's older one.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same in IPv6: AWS, AWS EKS, Google, Oracle.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
];

/// Classifies `address`.
pub(super) fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(v4) => of_v4(v4).map_or(Kind::Global, Kind::Special),
        IpAddr::V6(v6) => of_v6(v6),
    }
}

fn of_v4(address: Ipv4Addr) -> Option<Class> {
    if METADATA_V4.contains(&address) {
        return Some(Class::Metadata);
    }
    Some(match address.octets() {
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        [100, 64..=127, ..] => Class::Shared,
        [192, 0, 0, _] => Class::Protocol,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Documentation,
        // The relays of 6to4, which RFC 7526 abolished.
        [192, 88, 99, _] => Class::Transition,
        [198, 18 | 19, ..] => Class::Benchmarking,
        [224..=239, ..] => Class::Multicast,
        [255, 255, 255, 255] => Class::Broadcast,
        [240..=255, ..] => Class::Reserved,
        _ => return None,
    })
}

fn of_v6(address: Ipv6Addr) -> Kind {
    if METADATA_V6.contains(&address) {
        return Kind::Special(Class::Metadata);
    }
    if let Some(v4) = address.to_ipv4_mapped() {
        return Kind::Is(v4);
    }
    Kind::Special(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // IPv4-compatible (RFC 4291 2.5.5.1) and IPv4-translated (RFC 2765).
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Class::Transition,
        // NAT64 (RFC 6052 2.1): the last four octets.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            let none = Ipv4Addr::UNSPECIFIED;
            return Kind::SentTo([embedded(address, [12, 13, 14, 15]), none, none, none]);
        }
        [0x64, 0xff9b, 1, ..] => return Kind::SentTo(sent_to(address)),
        [0x100, 0, 0, 0 | 1, ..] => Class::Discard,
        [0x2001, 0, ..] => Class::Transition, // Teredo
        [0x2001, 2, 0, ..] => Class::Benchmarking,
        [0x2001, 0x10..=0x2f, ..] => Class::Orchid,
        [0x2001, 0..=0x1ff, ..] => Class::Protocol,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Class::Documentation,
        [0x2002, ..] => Class::Transition, // 6to4
        [0x2000..=0x3fff, ..] => return Kind::Global,
        [0xfc00..=0xfdff, ..] => Class::UniqueLocal,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfec0..=0xfeff, ..] => Class::SiteLocal,
        [0xff00..=0xffff, ..] => Class::Multicast,
        // RFC 4291 2.4: all unicast allocations so far lie in 2000::/3.
        _ => Class::Reserved,
    })
}

/// Returns the IPv4 addresses that an address of the local-use NAT64 block (RFC 8215) may be sent on to. The
/// translator's operator chooses the length of its prefix, so every length that RFC 6052 2.2 knows within the block
/// counts: 48, 56, 64 and 96.
fn sent_to(address: Ipv6Addr) -> [Ipv4Addr; 4] {
    [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15]]
        .map(|places| embedded(address, places))
}

fn embedded(address: Ipv6Addr, places: [usize; 4]) -> Ipv4Addr {
    let octets = address.octets();
    places.map(|place| octets.get(place).copied().unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_block_is_known_by_its_edges() {
        use Class::*;
        // The block, its class, and whether the addresses just below and just above it are global.
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, Class, bool, bool)] = &[
            ("this network", "0.0.0.0/8", Unspecified, false, true),
            ("private, A", "10.0.0.0/8", Private, true, true),
            ("shared", "100.64.0.0/10", Shared, true, true),
            ("loopback", "127.0.0.0/8", Loopback, true, true),
            ("link-local", "169.254.0.0/16", LinkLocal, true, true),
            ("private, B", "172.16.0.0/12", Private, true, true),
            ("protocol", "192.0.0.0/24", Protocol, true, true),
            ("documentation 1", "192.0.2.0/24", Documentation, true, true),
            ("6to4 relays", "192.88.99.0/24", Transition, true, true),
            ("private, C", "192.168.0.0/16", Private, true, true),
            ("benchmarking", "198.18.0.0/15", Benchmarking, true, true),
            ("documentation 2", "198.51.100.0/24", Documentation, true, true),
            ("documentation 3", "203.0.113.0/24", Documentation, true, true),
            ("multicast", "224.0.0.0/4", Multicast, true, false),
            ("discard", "100::/64", Discard, false, false),
            ("discard's neighbour", "100:0:0:1::/64", Discard, false, false),
            ("Teredo", "2001::/32", Transition, true, false),
            ("benchmarking, IPv6", "2001:2::/48", Benchmarking, false, false),
            ("ORCHID", "2001:10::/28", Orchid, false, false),
            ("ORCHID 2", "2001:20::/28", Orchid, false, false),
            ("protocol, IPv6", "2001:100::/24", Protocol, false, true),
            ("documentation, IPv6", "2001:db8::/32", Documentation, true, true),
            ("6to4", "2002::/16", Transition, true, true),
            ("documentation 2, IPv6", "3fff::/20", Documentation, true, true),
            ("beyond global unicast", "4000::/2", Reserved, true, false),
            ("segment routing", "5f00::/16", Reserved, false, false),
            ("unique local", "fc00::/7", UniqueLocal, false, false),
            ("link-local, IPv6", "fe80::/10", LinkLocal, false, false),
            ("site-local", "fec0::/10", SiteLocal, false, false),
            ("multicast, IPv6", "ff00::/8", Multicast, false, false),
        ];
        for (name, block, class, below, above) in cases {
            let block: ipnet::IpNet = block.parse().unwrap();
            for inside in [block.network(), block.broadcast()] {
                assert_eq!(kind(inside), Kind::Special(*class), "{name}: {inside}");
            }
            let neighbours = [(before(block.network()), below), (after(block.broadcast()), above)];
            for (neighbour, is_global) in neighbours {
                let Some(neighbour) = neighbour else { continue };
                let found = kind(neighbour) == Kind::Global;
                assert_eq!(found, *is_global, "{name}: beside it {neighbour}");
                let is_inside = kind(neighbour) == Kind::Special(*class);
                let may_go_on = matches!(*class, Discard | Orchid | Protocol | Reserved);
                assert!(!is_inside || may_go_on, "{name}: {neighbour} is taken for it");
            }
        }
    }

    fn before(address: IpAddr) -> Option<IpAddr> {
        Some(match address {
            IpAddr::V4(v4) => u32::from(v4).checked_sub(1).map(Ipv4Addr::from)?.into(),
            IpAddr::V6(v6) => u128::from(v6).checked_sub(1).map(Ipv6Addr::from)?.into(),
        })
    }

    fn after(address: IpAddr) -> Option<IpAddr> {
        Some(match address {
            IpAddr::V4(v4) => u32::from(v4).checked_add(1).map(Ipv4Addr::from)?.into(),
            IpAddr::V6(v6) => u128::from(v6).checked_add(1).map(Ipv6Addr::from)?.into(),
        })
    }

    #[test]
    fn single_addresses_are_known() {
        use Class::*;
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("::", Unspecified), ("::1", Loopback), ("::2", Transition), ("::7f00:1", Transition),
            ("::ffff:0:7f00:1", Transition), ("255.255.255.255", Broadcast), ("255.255.255.254", Reserved),
            ("240.0.0.1", Reserved), ("1::1", Reserved), ("64:ff9b:2::1", Reserved),
            ("169.254.169.254", Metadata), ("169.254.170.2", Metadata), ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata), ("192.0.0.192", Metadata),
            ("fd00:ec2::254", Metadata), ("fd20:ce::254", Metadata), ("fd00:c1::a9fe:a9fe", Metadata),
        ];
        for (address, class) in cases {
            assert_eq!(kind(address.parse().unwrap()), Kind::Special(class), "{address}");
        }
        #[rustfmt::skip] // one row, one case
        let public = [
            "1.1.1.1", "8.8.8.8", "168.63.129.15", "192.31.196.1", "223.255.255.255",
            "2000::", "2606:4700::1111", "2a00:1450::1", "3ffe::1",
        ];
        for address in public {
            assert_eq!(kind(address.parse().unwrap()), Kind::Global, "{address}");
        }
    }

    #[test]
    fn an_embedded_ipv4_address_is_found() {
        let v4 = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        let kind = |text: &str| kind(text.parse().unwrap());
        assert_eq!(kind("::ffff:127.0.0.1"), Kind::Is(v4("127.0.0.1")));
        assert_eq!(kind("::ffff:8.8.8.8"), Kind::Is(v4("8.8.8.8")));
        let none = Ipv4Addr::UNSPECIFIED;
        let sent_to = |text| Kind::SentTo([v4(text), none, none, none]);
        assert_eq!(kind("64:ff9b::7f00:1"), sent_to("127.0.0.1"));
        assert_eq!(kind("64:ff9b::808:808"), sent_to("8.8.8.8"));
        // RFC 6052 2.4, its example address 192.0.2.33 at each length of the prefix.
        for (address, place) in [
            ("64:ff9b:1:c000:2:2100::", 0),
            ("64:ff9b:1:c0:0:221::", 1),
            ("64:ff9b:1:0:c0:2:2100::", 2),
            ("64:ff9b:1::c000:221", 3),
        ] {
            let Kind::SentTo(found) = kind(address) else {
                panic!("{address} is a translator's");
            };
            assert_eq!(found[place], v4("192.0.2.33"), "{address}: {found:?}");
        }
    }
}
