//! Fields that proxies on the way read or write: Max-Forwards (RFC 9110 7.6.2), Proxy-Support (RFC 4559 6).

use http::header::{CONNECTION, MAX_FORWARDS};
use http::{HeaderMap, HeaderValue};

/// Counts this proxy in the Max-Forwards of an OPTIONS, and tells whether the request may go on (RFC 9110 7.6.2). A value that is
/// no number means nothing; of several, the lowest counts.
pub fn count_forward(headers: &mut HeaderMap) -> bool {
    let number = |value: &HeaderValue| {
        let digits = value.to_str().ok()?;
        let is_number = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let Some(most) = headers
        .get_all(MAX_FORWARDS)
        .iter()
        .filter_map(number)
        .min()
    else {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{fields, shown};
    use super::*;

    #[test]
    fn forwards_are_counted_down_to_none() {
        for (lines, may_go_on, left) in [
            (&[][..], true, &[][..]),
            (&["10"], true, &["max-forwards: 9"]),
            (&["001"], true, &["max-forwards: 0"]),
            (&["0"], false, &["max-forwards: 0"]),
            (&["3", "2"], true, &["max-forwards: 1"]),
            (
                &["99999999999999999999"],
                true,
                &["max-forwards: 18446744073709551614"],
            ),
            (&["many"], true, &["max-forwards: many"]),
            (&["-1"], true, &["max-forwards: -1"]),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("Max-Forwards", *line)).collect();
            let mut headers = fields(&lines);
            assert_eq!(count_forward(&mut headers), may_go_on, "{lines:?}");
            assert_eq!(shown(&headers), left, "{lines:?}");
        }
    }
}
