//! Credentials in the Basic scheme (RFC 7617): those of a crawler in `Proxy-Authorization`, and those of a user of the admin
//! side in `Authorization` (RFC 9110, sections 11.7.2 and 11.6.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Longest field that is read, in octets: a user, a password of 1,024, and base64.
const LONGEST: usize = 2_048;

/// The credentials in a request.
#[derive(Debug)]
pub enum Given {
    /// Nothing.
    Nothing,
    /// A field that is not one pair of user and password.
    Unreadable,
    /// A user and a password.
    Basic(Credentials),
}

/// A user and a password, as they were sent.
pub struct Credentials {
    text: Vec<u8>,
    colon: usize,
}

impl Credentials {
    /// Returns the user name.
    pub fn user(&self) -> &[u8] {
        self.text.get(..self.colon).unwrap_or_default()
    }

    /// Returns the password.
    pub fn password(&self) -> &[u8] {
        self.text.get(self.colon + 1..).unwrap_or_default()
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Returns the field line, if there is exactly one.
pub fn field<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Reads the credentials of a request in the field of this name.
pub fn read(headers: &HeaderMap, name: &HeaderName) -> Given {
    if !headers.contains_key(name) {
        return Given::Nothing;
    }
    match field(headers, name).and_then(|field| basic(field.as_bytes())) {
        Some(credentials) => Given::Basic(credentials),
        None => Given::Unreadable,
    }
}

fn basic(field: &[u8]) -> Option<Credentials> {
    const SCHEME: &[u8] = b"basic ";
    let (scheme, rest) = field.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || rest.len() > LONGEST {
        return None;
    }
    let text = STANDARD.decode(rest.trim_ascii()).ok()?;
    let colon = memchr::memchr(b':', &text)?;
    Some(Credentials { text, colon })
}

#[cfg(test)]
mod tests {
    use http::header::PROXY_AUTHORIZATION;

    use super::*;

    #[test]
    fn one_pair_of_user_and_password_is_read() {
        let pair = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let long = pair(&format!("news:{}", "x".repeat(LONGEST)));
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a pair", vec![pair("news:sesame")], Some(("news", "sesame"))),
            ("a scheme in other letters", vec![pair("news:sesame").replace("Basic", "bAsIc")], Some(("news", "sesame"))),
            ("white space before", vec![pair("news:sesame").replace(' ', "   ")], Some(("news", "sesame"))),
            ("a colon in the password", vec![pair("news:se:same")], Some(("news", "se:same"))),
            ("no password", vec![pair("news:")], Some(("news", ""))),
            ("letters beyond ASCII", vec![pair("news:schlüssel")], Some(("news", "schlüssel"))),
            ("no colon", vec![pair("news")], None),
            ("no base64", vec!["Basic news:sesame".into()], None),
            ("another scheme", vec!["Bearer bmV3czpzZXNhbWU=".into()], None),
            ("a scheme alone", vec!["Basic".into()], None),
            ("two fields", vec![pair("news:sesame"), pair("news:sesame")], None),
            ("too long", vec![long], None),
        ];
        for (name, lines, want) in cases {
            let mut headers = HeaderMap::new();
            for line in &lines {
                let value = HeaderValue::from_str(line).expect(name);
                headers.append(PROXY_AUTHORIZATION, value);
            }
            let given = read(&headers, &PROXY_AUTHORIZATION);
            let shown = format!("{given:?}");
            assert!(!shown.contains("sesame"), "{name}: {shown}");
            match (given, want) {
                (Given::Basic(found), Some((user, password))) => {
                    let wanted = (user.as_bytes(), password.as_bytes());
                    assert_eq!((found.user(), found.password()), wanted, "{name}");
                }
                (Given::Unreadable, None) => {}
                (given, _) => panic!("{name}: {given:?}"),
            }
        }
        assert!(matches!(read(&HeaderMap::new(), &PROXY_AUTHORIZATION), Given::Nothing));
    }
}
