//! Credentials of requests: who sends one, and what that sender may do.
//!
//! A user of `[[admin.user]]` sends its name and password (Basic, RFC 7617), for which a browser prompts, or its token
//! (Bearer, RFC 6750). The token that operators share opens as a Bearer token, or as the password to any name. There are no
//! sessions: each request is judged by the users in force, so a reload that removes a user, or changes its password, token
//! or role, holds from the next request on. A reload that removes the last user lets no request in: only a restart opens
//! the address to requests without credentials.
//!
//! Passwords are checked as those of clients (`client::passwords`): outcomes are remembered, few hashes run at once, and an
//! address has few attempts at each user. A token is too long to be guessed, so it is compared at once.
//!
//! [`role_of`] gives the role that a request takes. It goes by the route that the router has chosen, not by the octets of the
//! path, so no spelling of a path leads to another route than the one that is judged.

use std::net::{IpAddr, SocketAddr};

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use tracing::info;

use super::problem::Problem;
use super::refusals::{Reason, Refusals};
use super::token::Token;
use crawlgate_config::{AdminConfig, AdminUser, Role};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_turns::client::credentials::{self, Given};
use crawlgate_turns::client::passwords::{Claim, Outcome, Passwords};

/// The routes that take less than the role of their method, see [`role_of`]. Without a method: with any.
const LESSER_ROLES: [(Option<Method>, &str, Role); 10] = [
    // They decide or explain, and change no setting and no record of the past.
    (None, "/auth", Role::Read),
    (None, "/ext-authz/", Role::Read),
    (None, "/ext-authz/{*path}", Role::Read),
    (Some(Method::POST), "/api/v1/check", Role::Read),
    (Some(Method::POST), "/try", Role::Read),
    (Some(Method::POST), "/api/v1/decisions/{id}/acknowledgement", Role::Review),
    (Some(Method::POST), "/api/v1/acknowledgements", Role::Review),
    (Some(Method::POST), "/decisions/{id}/acknowledge", Role::Review),
    (Some(Method::POST), "/denials/acknowledge", Role::Review),
    (Some(Method::POST), "/denials/acknowledge/ticked", Role::Review),
];

/// Returns the role that a request with this method takes at this route of the router. GET and HEAD change nothing. Everything
/// else takes [`Role::Operate`], unless [`LESSER_ROLES`] has the route.
pub(super) fn role_of(method: &Method, route: &str) -> Role {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Role::Read;
    }
    let less = LESSER_ROLES
        .iter()
        .find(|(of, path, _)| *path == route && of.as_ref().is_none_or(|of| of == method));
    less.map_or(Role::Operate, |(.., role)| *role)
}

/// The sender of a request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Any program that reaches the address: no credentials are configured.
    Anyone,
    /// The user that the process runs as, or root, at the socket.
    Local,
    /// A holder of the token that operators share.
    TokenHolder,
    /// A user of `[[admin.user]]`, as it was when the request came.
    User(AdminUser),
}

impl Actor {
    /// Returns the sender's role.
    #[must_use]
    pub fn role(&self) -> Role {
        match self {
            Actor::Anyone | Actor::Local | Actor::TokenHolder => Role::Operate,
            Actor::User(user) => user.role,
        }
    }

    /// Tells whether the sender may do what takes `role`.
    #[must_use]
    pub fn may(&self, role: Role) -> bool {
        self.role() >= role
    }

    /// Returns the user's name; none if the sender has none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Actor::Anyone | Actor::Local | Actor::TokenHolder => None,
            Actor::User(user) => Some(&user.name),
        }
    }

    /// Tells of a user's act on an origin in the program's messages: forms and documents name the origin, and the path does
    /// not.
    pub(super) fn tell_of(&self, act: &str, origin: &str) {
        if let Some(user) = self.name() {
            info!(user, act, origin, "an act on an origin");
        }
    }

    /// Tells whether the sender would still be let in as it was, by these settings. For answers that go on.
    pub(super) fn stands(&self, admin: &AdminConfig) -> bool {
        match self {
            Actor::Anyone => !admin.is_for_users(),
            // Only a restart changes the token.
            Actor::Local | Actor::TokenHolder => true,
            Actor::User(user) => admin.users.contains(user),
        }
    }

    /// Returns the name that an act is recorded under: that of the user, or else the one in the request, if any.
    ///
    /// # Errors
    /// 403 if the request names another person than the user.
    pub fn acts_as(&self, named: Option<&str>) -> Result<Option<String>, Problem> {
        let named = named.map(str::trim).filter(|named| !named.is_empty());
        match (self.name(), named) {
            (None, named) => Ok(named.map(str::to_owned)),
            (Some(name), Some(named)) if name != named => Err(Problem::new(
                StatusCode::FORBIDDEN,
                format!(
                    "by: {name} cannot act in the name of {named}; leave the name out, and the act is recorded under {name}"
                ),
            )),
            (Some(name), _) => Ok(Some(name.to_owned())),
        }
    }
}

/// The sender, for handlers. `guard` has put it into the request.
impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Actor, Problem> {
        let actor = parts.extensions.get::<Actor>().cloned();
        actor.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "no sender is known"))
    }
}

/// The reason why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has no credentials.
    Missing,
    /// Its credentials are wrong.
    Wrong,
    /// Its address has sent too many wrong passwords for this user; the next one is checked after this moment.
    TooMany(Moment),
    /// Too many passwords wait for their check.
    Busy,
}

/// The check of credentials.
#[derive(Debug)]
pub(super) struct Access {
    token: Option<Token>,
    passwords: Passwords,
    refusals: Refusals,
}

impl Access {
    /// Creates the check, with the token that operators share, if there is one.
    pub(super) fn new(token: Option<Token>, refusals: Refusals, clock: Clock) -> Access {
        Access { token, passwords: Passwords::new(clock), refusals }
    }

    /// Returns the counts of refused requests.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Tells who sends a request with these fields from `peer`. Refusals of credentials are counted.
    ///
    /// # Errors
    /// When credentials are configured, and the request does not have right ones.
    pub(super) async fn identify(
        &self,
        admin: &AdminConfig,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<Actor, Refusal> {
        if self.token.is_none() && !admin.is_for_users() {
            return Ok(Actor::Anyone);
        }
        let users = &admin.users;
        let given = credentials::read(headers, &AUTHORIZATION);
        let user = match &given {
            Given::Basic(given) => users.iter().find(|user| user.name.as_bytes() == given.user()),
            Given::Nothing | Given::Unreadable => None,
        };
        let found = match &given {
            Given::Nothing => Err(Refusal::Missing),
            Given::Unreadable => self.by_token(users, headers).ok_or(Refusal::Wrong),
            Given::Basic(given) => {
                self.by_password(users, user, given.user(), given.password(), peer.ip()).await
            }
        };
        let reason = match found {
            Err(Refusal::Wrong) => Reason::Credentials,
            Err(Refusal::TooMany(_)) => Reason::Attempts,
            Err(Refusal::Busy) => Reason::Busy,
            Ok(_) | Err(Refusal::Missing) => return found,
        };
        // Only the name of a known user: people type a password into the wrong field.
        let known = user.map(|user| &*user.name);
        self.refusals.refuse(reason, peer, known);
        found
    }

    /// Returns the sender with the Bearer token of the request.
    fn by_token(&self, users: &[AdminUser], headers: &HeaderMap) -> Option<Actor> {
        let token = bearer(headers)?;
        let mut users = users.iter();
        let of_token = |user: &&AdminUser| user.token.as_ref().is_some_and(|one| one.is_of(token));
        match users.find(of_token) {
            Some(user) => Some(Actor::User(user.clone())),
            None => self.is_shared(token).then_some(Actor::TokenHolder),
        }
    }

    /// Returns the sender with this name and password. `user` is the one of the name, if there is one.
    async fn by_password(
        &self,
        users: &[AdminUser],
        user: Option<&AdminUser>,
        name: &[u8],
        password: &[u8],
        address: IpAddr,
    ) -> Result<Actor, Refusal> {
        // A program that cannot send Bearer tokens has no other place for one.
        if let Some(user) = user
            && user.token.as_ref().is_some_and(|one| one.is_of(password))
        {
            return Ok(Actor::User(user.clone()));
        }
        if self.is_shared(password) {
            return Ok(Actor::TokenHolder);
        }
        let Some(decoy) = users.iter().find_map(|user| user.password.as_ref()) else {
            return Err(Refusal::Wrong);
        };
        let named = user.and_then(|user| Some((user, user.password.as_ref()?)));
        let claim = Claim {
            address,
            user: name,
            password,
            stored: named.map(|(user, password)| (&user.name, password)),
            decoy,
        };
        match (self.passwords.check(&claim).await, named) {
            (Outcome::Right, Some((user, _))) => Ok(Actor::User(user.clone())),
            (Outcome::Right | Outcome::Wrong, _) => Err(Refusal::Wrong),
            (Outcome::TooMany(again), _) => Err(Refusal::TooMany(again)),
            (Outcome::Busy, _) => Err(Refusal::Busy),
        }
    }

    fn is_shared(&self, token: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|shared| shared.is(token))
    }
}

/// Returns the Bearer token of a request (RFC 6750, section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let field = credentials::field(headers, &AUTHORIZATION)?;
    let (scheme, token) = field.as_bytes().split_at_checked(SCHEME.len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
