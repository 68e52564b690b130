//! The name of the person who reviews, which the browser remembers.
//!
//! It only fills in the field of a form: it is no credential, and nothing is allowed or refused by it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::HeaderName;
use http::header::{COOKIE, SET_COOKIE};
use http::request::Parts;

use super::super::{Actor, AppState};
use super::format::encoded;
use crawlgate_policy::overrides::words;

/// The name of the cookie.
const NAME: &str = "crawlgate_reviewer";

/// Seconds for which the browser remembers the name.
const AGE: u32 = 365 * 86_400;

/// The remembered name; empty without one.
pub(super) struct Reviewer(pub(super) String);

impl<S: Sync> FromRequestParts<S> for Reviewer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Reviewer, Infallible> {
        let fields = parts.headers.get_all(COOKIE).iter();
        let mut names = fields
            .filter_map(|field| field.to_str().ok())
            .flat_map(|field| field.split(';'))
            .filter_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='));
        Ok(Reviewer(names.next().map(read).unwrap_or_default()))
    }
}

/// Reads a value of the cookie; empty unless it is a name that a form may have.
fn read(value: &str) -> String {
    let query = format!("name={value}");
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let name = pairs.next().and_then(|(_, name)| words(&name).ok());
    name.unwrap_or_default()
}

/// Returns the field that makes the browser remember the name. None for a signed-in user, who types no name.
pub(super) fn remembered(
    app: &AppState,
    actor: &Actor,
    by: &str,
) -> Option<[(HeaderName, String); 1]> {
    let is_typed = actor.name().is_none();
    is_typed.then(|| [(SET_COOKIE, cookie(by, app.has_tls()))])
}

/// Returns the cookie with the name, only for TLS if the browser has come by TLS.
fn cookie(by: &str, has_tls: bool) -> String {
    let (value, secure) = (encoded(by), if has_tls { "; Secure" } else { "" });
    format!("{NAME}={value}; Path=/; Max-Age={AGE}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_remembered_as_it_was_written() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("none", "other=1", ""),
            ("empty", "crawlgate_reviewer=", ""),
            ("one", "crawlgate_reviewer=Ada", "Ada"),
            ("among others", "a=b; crawlgate_reviewer=Ada+Example; c=d", "Ada Example"),
            ("a control character", "crawlgate_reviewer=Ada%0a", "Ada"),
            ("a control character inside", "crawlgate_reviewer=A%1bda", ""),
            ("another name", "xcrawlgate_reviewer=Ada", ""),
            ("a second field in the value", "crawlgate_reviewer=Ada&name=Eve", "Ada"),
        ];
        for (name, cookie, expected) in cases {
            let request = http::Request::builder().header(COOKIE, cookie);
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            let Ok(Reviewer(read)) = Reviewer::from_request_parts(&mut parts, &()).await;
            assert_eq!(read, expected, "{name}");
        }
        for name in ["Ada Example", "Zoë; Path=/x", "a=b&c, \"d\""] {
            let field = cookie(name, false);
            assert_eq!(cookie(name, true), format!("{field}; Secure"));
            let pair = field.split("; ").next().unwrap();
            let request = http::Request::builder().header(COOKIE, pair);
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            let Ok(Reviewer(read)) = Reviewer::from_request_parts(&mut parts, &()).await;
            assert_eq!(read, name);
        }
    }
}
