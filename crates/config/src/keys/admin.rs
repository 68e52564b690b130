//! `[[admin.user]]`: the users of the admin side.

use super::super::{
    PasswordHash,
    admin::{AdminUser, TokenDigest},
    read::{Read, Refusal, Section, Value},
    values::{choice, text},
};
use super::ROLES;
use crawlgate_origins::identity::client_name;

/// Reads one `[[admin.user]]`, after those of `earlier`.
pub(super) fn user(mut section: Section<'_, '_>, earlier: &[AdminUser]) -> Option<AdminUser> {
    let (mut name, mut role) = (None, None);
    section.set("name", &mut name, |value| {
        let named = text(client_name)(value)?;
        match earlier.iter().any(|one| one.name == named) {
            true => Err(Refusal::new(value, "an earlier user has this name")),
            false => Ok(Some(named)),
        }
    });
    section.set("role", &mut role, |value| choice(&ROLES)(value).map(Some));
    for key in ["name", "role"] {
        section.demand(key);
    }
    let (mut password, mut token) = (None, None);
    section.set("password", &mut password, secret(PasswordHash::parse));
    section.set("token", &mut token, |value| {
        let token = secret(TokenDigest::parse)(value)?;
        match earlier.iter().any(|one| one.token == token) {
            true => Err(Refusal::secret(value, "an earlier user has this token")),
            false => Ok(token),
        }
    });
    let has_one = section.names("password") || section.names("token");
    section.require(has_one, &["name"], || {
        "this user has neither a password nor a token; `crawlgate admin user add` makes an entry with one".to_owned()
    });
    section.finish();
    Some(AdminUser {
        name: name?,
        role: role?,
        password,
        token,
    })
}

/// Reads the hash of a secret. An operator who writes the secret instead must not find it in a log.
fn secret<T>(
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> impl Fn(&Value<'_>) -> Read<Option<T>> {
    move |value| {
        let text = value.get_ref().as_str().ok_or("expected a text in quotes");
        let read = text.and_then(&parse);
        read.map(Some).map_err(|why| Refusal::secret(value, why))
    }
}
