//! Fields that proxies on the way read or write: Via with our name in it, Max-Forwards (RFC 9110 7.6.2), Proxy-Support
//! (RFC 4559 6).

use http::header::VIA;
use http::header::{CONNECTION, MAX_FORWARDS};
use http::{HeaderMap, HeaderValue, Version};

use crawlgate_egress::ViaChain;

/// Counts this proxy in the Max-Forwards of an OPTIONS, and tells whether the request may go on (RFC 9110 7.6.2). A value that is
/// no number means nothing; of several, the lowest counts.
pub fn count_forward(headers: &mut HeaderMap) -> bool {
    let number = |value: &HeaderValue| {
        let digits = value.to_str().ok()?;
        let is_number = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let Some(most) = headers.get_all(MAX_FORWARDS).iter().filter_map(number).min() else {
        return true;
    };
    let Some(left) = most.checked_sub(1) else {
        return false;
    };
    headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    true
}

/// Tells the crawler that a login by NTLM or Negotiate lasts as long as its connection to this proxy (RFC 4559 6).
pub fn support_logins(headers: &mut HeaderMap) {
    const SUPPORT: &str = "Session-Based-Authentication";
    headers.insert("proxy-support", HeaderValue::from_static(SUPPORT));
    headers.append(CONNECTION, HeaderValue::from_static("Proxy-Support"));
}

/// Our name in `Via`, and the setting to send it.
#[derive(Debug, Clone)]
pub struct Pseudonym {
    name: Box<str>,
    /// `1.1 name`, `1.0 name` and `2.0 name`.
    via: [HeaderValue; 3],
    signs: bool,
}

impl Pseudonym {
    /// Builds the name from a suffix that no other proxy on the way has, so that a loop differs from a chain; `signs`
    /// is `[upstream] via`.
    pub fn new(suffix: &str, signs: bool) -> Pseudonym {
        let suffix: String = suffix.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = format!("crawlgate-{suffix}");
        let line = |version| {
            HeaderValue::try_from(format!("{version} {name}"))
                .unwrap_or(HeaderValue::from_static("1.1 crawlgate"))
        };
        Pseudonym { via: [line("1.1"), line("1.0"), line("2.0")], name: name.into(), signs }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds us to the `Via` of a message that came by `version` (RFC 9110 7.6.3), if messages carry our name.
    pub fn sign(&self, headers: &mut HeaderMap, version: Version) {
        if !self.signs {
            return;
        }
        let [http_11, http_10, http_2] = &self.via;
        let ours = match version {
            Version::HTTP_10 => http_10,
            Version::HTTP_2 => http_2,
            _ => http_11,
        };
        headers.append(VIA, ours.clone());
    }

    /// Tells whether the message has passed here before.
    pub fn has_signed(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(VIA)
            && headers.get_all(VIA).iter().any(|line| {
                line.as_bytes()
                    .split(|byte| matches!(byte, b',' | b' ' | b'\t'))
                    .any(|word| word == self.name.as_bytes())
            })
    }
}

/// Octets of `Via` that are carried on: a circle is seen at its first turn.
const MAX_VIA: usize = 1024;

/// Returns the proxies that a message names as having passed it on, if any.
pub fn via_chain(headers: &HeaderMap) -> Option<ViaChain> {
    let lines = headers.get_all(VIA).iter();
    let lines: Vec<_> = lines.filter_map(|line| line.to_str().ok()).collect();
    let via = lines.join(", ");
    (1..=MAX_VIA).contains(&via.len()).then(|| ViaChain::from(via))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, in_order, shown};

    #[test]
    fn forwards_are_counted_down_to_none() {
        for (lines, may_go_on, left) in [
            (&[][..], true, &[][..]),
            (&["10"], true, &["max-forwards: 9"]),
            (&["001"], true, &["max-forwards: 0"]),
            (&["0"], false, &["max-forwards: 0"]),
            (&["3", "2"], true, &["max-forwards: 1"]),
            (&["99999999999999999999"], true, &["max-forwards: 18446744073709551614"]),
            (&["many"], true, &["max-forwards: many"]),
            (&["-1"], true, &["max-forwards: -1"]),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("Max-Forwards", *line)).collect();
            let mut headers = fields(&lines);
            assert_eq!(count_forward(&mut headers), may_go_on, "{lines:?}");
            assert_eq!(shown(&headers), left, "{lines:?}");
        }
    }

    #[test]
    fn without_via_nothing_is_signed_and_our_name_is_still_known() {
        let (silent, loud) = (Pseudonym::new("ab12", false), Pseudonym::new("ab12", true));
        let mut headers = fields(&[("A", "1")]);
        silent.sign(&mut headers, Version::HTTP_11);
        assert_eq!(in_order(&headers), ["a: 1"]);
        loud.sign(&mut headers, Version::HTTP_11);
        assert!(silent.has_signed(&headers));
    }

    #[test]
    fn a_loop_is_seen_and_a_chain_is_not() {
        let (ours, other) = (Pseudonym::new("ab12", true), Pseudonym::new("cd34", true));
        let mut headers = fields(&[("Via", "1.1 proxy, 1.0 fred (crawlgate)")]);
        other.sign(&mut headers, Version::HTTP_10);
        assert!(!ours.has_signed(&headers));
        ours.sign(&mut headers, Version::HTTP_11);
        assert!(ours.has_signed(&headers) && other.has_signed(&headers));
    }
}
