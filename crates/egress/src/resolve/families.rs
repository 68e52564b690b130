//! The addresses of a name in both families, asked for at once (RFC 8305, section 3).
//!
//! Some name servers answer for A and never for AAAA. A client that waits for both would never reach sites behind such
//! a server, so the first family with an address is enough, and the other one has a short time more. Addresses that
//! come after that join the attempts to connect, if those are still going on.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RData;
use tokio::time::timeout;

use super::{DnsError, Found};

/// Time to wait for the second family after the first one has an address (RFC 8305, section 3: the recommended
/// Resolution Delay). RFC 8305 lets IPv6 go first without waiting; one rule is enough here.
pub(super) const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// Finds the addresses of `name`, which is absolute; IPv6 comes first where both families are known. Waits for the second
/// family for `delay` after the first one has an address.
pub(super) async fn families(
    resolver: &TokioResolver,
    name: String,
    delay: Duration,
) -> Result<Found, DnsError> {
    let six = {
        let (resolver, name) = (resolver.clone(), name.clone());
        async move { resolver.ipv6_lookup(name).await }
    };
    let four = {
        let resolver = resolver.clone();
        async move { resolver.ipv4_lookup(name).await }
    };
    first_of(six, four, delay).await
}

async fn first_of(
    six: impl Future<Output = Result<Lookup, NetError>> + Send + 'static,
    four: impl Future<Output = Result<Lookup, NetError>> + Send + 'static,
    delay: Duration,
) -> Result<Found, DnsError> {
    let (mut six, mut four) = (Box::pin(six), Box::pin(four));
    let (first, is_six, mut other): (_, _, PendingLookup) = tokio::select! {
        first = &mut six => (first, true, four),
        first = &mut four => (first, false, six),
    };
    let now = match first {
        Ok(lookup) => addresses(&lookup),
        Err(error) => {
            // Only the other family decides.
            let first_error = DnsError::from(error);
            return match other.await {
                Ok(lookup) => Ok(addresses(&lookup).into()),
                Err(_) if first_error.is_exhaustion => Err(first_error),
                Err(error) => Err(error.into()),
            };
        }
    };
    match timeout(delay, &mut other).await {
        Ok(Ok(lookup)) => {
            let second = addresses(&lookup);
            Ok(if is_six { [now, second].concat().into() } else { [second, now].concat().into() })
        }
        Ok(Err(_)) => Ok(now.into()),
        Err(_) => {
            let later = async move {
                let lookup = other.await;
                lookup.map_or_else(|_| Vec::new(), |lookup| addresses(&lookup))
            };
            Ok(Found { now, later: Some(Box::pin(later)) })
        }
    }
}

/// A look-up in progress.
type PendingLookup = Pin<Box<dyn Future<Output = Result<Lookup, NetError>> + Send>>;

fn addresses(lookup: &Lookup) -> Vec<IpAddr> {
    let records = lookup.answers().iter();
    let addresses = records.filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::from(address.0)),
        RData::AAAA(address) => Some(IpAddr::from(address.0)),
        _ => None,
    });
    addresses.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use tokio::net::UdpSocket;
    use tokio::time::{Instant, sleep};

    use super::super::Names;
    use super::*;

    /// The name server's answer to a question for one family.
    #[derive(Debug, Clone)]
    pub(crate) enum Answer {
        /// This address, after this delay.
        Is(IpAddr, Duration),
        /// There is no such record.
        None,
        /// It reports a failure.
        Fails,
        /// It does not answer.
        Silent,
    }

    /// Runs a name server on this machine with these answers for AAAA and for A. It ends with the test.
    pub(crate) async fn name_server(six: Answer, four: Answer) -> Names {
        name_server_with(six, four, RESOLUTION_DELAY).await
    }

    /// Does so for names that wait for the second family for `delay`.
    async fn name_server_with(six: Answer, four: Answer, delay: Duration) -> Names {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let socket = std::sync::Arc::new(socket);
        tokio::spawn(async move {
            let mut octets = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut octets).await {
                let question = octets[..length].to_vec();
                // Header, then the name in labels, then its type.
                let mut end = 12;
                while question[end] != 0 {
                    end += 1 + usize::from(question[end]);
                }
                let (kind, answer) = match question[end + 2] {
                    28 => (28, six.clone()),
                    _ => (1, four.clone()),
                };
                let socket = std::sync::Arc::clone(&socket);
                tokio::spawn(async move {
                    let mut reply = question[..end + 5].to_vec();
                    // A response, recursion available; one question and nothing else.
                    reply[2] = 0x81;
                    reply[3] = 0x80;
                    reply[6..12].fill(0);
                    match answer {
                        Answer::Silent => return,
                        Answer::None => {}
                        Answer::Fails => reply[3] |= 2,
                        Answer::Is(address, after) => {
                            sleep(after).await;
                            reply[7] = 1;
                            let data = match address {
                                IpAddr::V4(four) => four.octets().to_vec(),
                                IpAddr::V6(six) => six.octets().to_vec(),
                            };
                            reply.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0]);
                            reply.push(u8::try_from(data.len()).unwrap());
                            reply.extend(data);
                        }
                    }
                    socket.send_to(&reply, peer).await.unwrap();
                });
            }
        });
        Names::asking(port, Path::new("/nonexistent/hosts"), delay)
    }

    #[tokio::test]
    async fn a_family_that_is_never_answered_for_does_not_hide_the_other() {
        use Answer::{Fails, Is, None, Silent};
        let at = |text: &str, after: u64| Is(text.parse().unwrap(), Duration::from_millis(after));
        let (six, four) = ("2001:db8::1", "192.0.2.1");
        #[rustfmt::skip] // one row, one case
        let cases: [(&str, Answer, Answer, &[&str], bool); 9] = [
            ("both", at(six, 0), at(four, 0), &[six, four], false),
            ("IPv6 a little later", at(six, 5), at(four, 0), &[six, four], false),
            ("IPv4 a little later", at(six, 0), at(four, 5), &[six, four], false),
            ("IPv6 never", Silent, at(four, 0), &[four], true),
            ("IPv4 never", at(six, 0), Silent, &[six], true),
            ("no IPv6", None, at(four, 300), &[four], false),
            ("no IPv4", at(six, 300), None, &[six], false),
            ("IPv6 fails", Fails, at(four, 300), &[four], false),
            ("neither", None, None, &[], false),
        ];
        for (name, six, four, expected, is_more_to_come) in cases {
            // A family that comes a little later is waited for, however slow this machine is.
            let delay = if is_more_to_come { RESOLUTION_DELAY } else { Duration::from_secs(60) };
            let names = name_server_with(six, four, delay).await;
            let began = Instant::now();
            let found = names.resolve("site.test").await;
            // The resolver's own time-out is five seconds; then it asks again.
            assert!(began.elapsed() < Duration::from_secs(4), "{name}");
            match found {
                Ok(found) => {
                    let expected: Vec<IpAddr> =
                        expected.iter().map(|text| text.parse().unwrap()).collect();
                    assert_eq!(found.now, expected, "{name}");
                    assert_eq!(found.later.is_some(), is_more_to_come, "{name}");
                }
                Err(error) => {
                    assert!(expected.is_empty(), "{name}: {error}");
                    assert_eq!(error.failure(), super::super::Failure::Dns, "{name}");
                }
            }
        }
    }

    #[tokio::test]
    async fn late_addresses_are_returned_later() {
        let at = |text: &str, after: u64| {
            Answer::Is(text.parse().unwrap(), Duration::from_millis(after))
        };
        let names = name_server(at("2001:db8::1", 400), at("192.0.2.1", 0)).await;
        let found = names.resolve("site.test").await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.now, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        let later = found.later.expect("more to come").await;
        assert_eq!(later, ["2001:db8::1".parse::<IpAddr>().unwrap()]);
    }
}
