//! The client of a request.
//!
//! Without `[[client]]`, all requests belong to one client without a name. With entries, credentials name the client; a
//! request without credentials belongs to the first entry that asks for no password and fulfils all its other
//! conditions. Credentials count only if they could select an entry: the connection cannot be overheard
//! ([`Peer::is_private`]) and the entry's other conditions hold. There, wrong credentials are refused even if an entry
//! would fit without them; elsewhere credentials are ignored.
//!
//! A request that fits no entry is [unknown](AuthError::UnknownClient), or is [asked](AuthError::Unauthenticated) for
//! credentials where those count.
//!
//! Each connection [remembers](AuthCache) its client and credentials, so that the next request costs a comparison; a reload
//! clears this memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use super::account::{ClientAccount, NotEntered, QuotaExceeded, Reservation};
use super::credentials::{self, Credentials, Given};
use super::passwords::{Claim, Outcome, Passwords};
use super::{Client, Peer};
use crate::fleet::{Fleet, HeartbeatReply};
use crawlgate_config::{CertificateMatch, ClientConfig, Conditions, Config};
use crawlgate_system::clock::{Clock, Moment};

/// All clients, as configured.
pub struct Clients {
    table: ArcSwap<Table>,
    /// The table's number: an outcome from another table is not used.
    generation: AtomicU64,
    passwords: Passwords,
    /// The fleet that keeps the usage of the clients, if there is one.
    fleet: Option<Arc<Fleet>>,
    clock: Clock,
}

struct Table {
    entries: Vec<Arc<Client>>,
    /// The client of all requests if there are no entries.
    everybody: Arc<Client>,
    generation: u64,
    /// The longest time that a request is held for its client's turn.
    max_hold: Duration,
}

/// The reason that a request belongs to no client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthError {
    /// No client's conditions fit it.
    UnknownClient,
    /// It needs credentials, and brings no right ones.
    Unauthenticated,
    /// Its address sent too many wrong credentials; the next ones are checked after this moment.
    TooManyAttempts(Moment),
    /// Too many credentials wait for their check.
    Busy,
}

/// The credentials that one connection has shown, and its client.
#[derive(Default)]
pub struct AuthCache(Mutex<Option<Shown>>);

struct Shown {
    generation: u64,
    field: Option<HeaderValue>,
    client: Arc<Client>,
}

impl Clients {
    /// Builds the clients from the configuration.
    #[must_use]
    pub fn new(config: &Config, fleet: Option<Arc<Fleet>>, clock: Clock) -> Clients {
        let new = |name: &str| ClientAccount::of(name, fleet.as_ref(), &clock);
        Clients {
            table: ArcSwap::from_pointee(Table::of(config, None, new)),
            generation: AtomicU64::new(0),
            passwords: Passwords::new(clock.clone()),
            fleet,
            clock,
        }
    }

    /// Puts other clients in force. A client keeps its usage if its name stays.
    pub fn reconfigure(&self, config: &Config) {
        let before = self.table.load_full();
        let new = |name: &str| ClientAccount::of(name, self.fleet.as_ref(), &self.clock);
        let after = Table::of(config, Some(&before), new);
        let generation = after.generation;
        self.table.store(Arc::new(after));
        // Stored after the table, so that a reader of the new number finds the new table.
        self.generation.store(generation, Ordering::Release);
    }

    /// Returns the client of a request with these fields, if its connection has shown the same before.
    pub fn cached(&self, auth_cache: &AuthCache, headers: &HeaderMap) -> Option<Arc<Client>> {
        let shown = auth_cache.0.lock();
        let shown = shown.as_ref()?;
        if shown.generation != self.generation.load(Ordering::Acquire) {
            return None;
        }
        let same = match (&shown.field, credentials::field(headers, &PROXY_AUTHORIZATION)) {
            (None, None) => !headers.contains_key(PROXY_AUTHORIZATION),
            (Some(shown), Some(field)) => {
                let (shown, field) = (shown.as_bytes(), field.as_bytes());
                aws_lc_rs::constant_time::verify_slices_are_equal(shown, field).is_ok()
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        same.then(|| Arc::clone(&shown.client))
    }

    /// Returns the client of a request from `peer` with these fields; `auth_cache` belongs to its connection.
    ///
    /// # Errors
    /// When the request belongs to no client.
    pub async fn recognise(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        auth_cache: &AuthCache,
    ) -> Result<Arc<Client>, AuthError> {
        let table = self.table.load_full();
        let client = match credentials::read(headers, &PROXY_AUTHORIZATION) {
            Given::Basic(given) if table.may_authenticate(peer) => {
                self.authenticate(&table, peer, &given).await?
            }
            Given::Unreadable if table.may_authenticate(peer) => {
                return Err(AuthError::Unauthenticated);
            }
            Given::Nothing | Given::Unreadable | Given::Basic(_) => table.by_peer(peer)?,
        };
        *auth_cache.0.lock() = Some(Shown {
            generation: table.generation,
            field: credentials::field(headers, &PROXY_AUTHORIZATION).cloned(),
            client: Arc::clone(&client),
        });
        Ok(client)
    }

    async fn authenticate(
        &self,
        table: &Table,
        peer: &Peer,
        given: &Credentials,
    ) -> Result<Arc<Client>, AuthError> {
        let mut entries = table.entries.iter();
        let named = entries.find_map(|client| {
            let password = client.conditions.password.as_ref()?;
            let name = client.name.as_ref()?;
            let is_it = name.as_bytes() == given.user() && matches(&client.conditions, peer);
            is_it.then_some((client, name, password))
        });
        let mut entries = table.entries.iter();
        let decoy = entries.find_map(|client| client.conditions.password.as_ref());
        let Some(decoy) = decoy else {
            return Err(AuthError::UnknownClient);
        };
        let claim = Claim {
            address: peer.address.ip(),
            user: given.user(),
            password: given.password(),
            stored: named.map(|(_, name, password)| (name, password)),
            decoy,
        };
        match (self.passwords.check(&claim).await, named) {
            (Outcome::Right, Some((client, ..))) => Ok(Arc::clone(client)),
            (Outcome::Right | Outcome::Wrong, _) => Err(AuthError::Unauthenticated),
            (Outcome::TooMany(again), _) => Err(AuthError::TooManyAttempts(again)),
            (Outcome::Busy, _) => Err(AuthError::Busy),
        }
    }

    /// Re-identifies the client of an open connection after a reload: the same entry if its name and conditions are
    /// unchanged, otherwise the client that its address by itself would get.
    ///
    /// # Errors
    /// When the connection belongs to no client any more.
    pub fn again(
        &self,
        client: &Arc<Client>,
        peer: &Peer,
        auth_cache: &AuthCache,
    ) -> Result<Arc<Client>, AuthError> {
        let table = self.table.load_full();
        let client = match table.standing(client) {
            Some(client) => client,
            // There is no request left to ask for credentials.
            None => table.by_peer(peer).map_err(|_| AuthError::UnknownClient)?,
        };
        *auth_cache.0.lock() =
            Some(Shown { generation: table.generation, field: None, client: Arc::clone(&client) });
        Ok(client)
    }

    /// Finds the client of a request that was held while clients may have changed: the same entry in its new
    /// configuration, or, if it was removed, the one that `peer` belongs to without credentials.
    ///
    /// # Errors
    /// When no client is left, or the credentials of the request no longer count.
    pub fn reidentify(&self, client: &Arc<Client>, peer: &Peer) -> Result<Arc<Client>, AuthError> {
        let table = self.table.load();
        match table.standing(client) {
            Some(client) => Ok(client),
            None if client.conditions.password.is_none() => table.by_peer(peer),
            None if table.may_authenticate(peer) => Err(AuthError::Unauthenticated),
            None => Err(AuthError::UnknownClient),
        }
    }

    /// Returns the same client in its present configuration.
    #[must_use]
    pub fn standing(&self, client: &Arc<Client>) -> Option<Arc<Client>> {
        match client.name {
            Some(_) => self.table.load().standing(client),
            None => Some(self.anonymous()),
        }
    }

    /// Returns the client without a name, which has the general purposes.
    #[must_use]
    pub fn anonymous(&self) -> Arc<Client> {
        Arc::clone(&self.table.load().everybody)
    }

    /// Returns the client of a connection from `peer`; `None` if its requests' credentials may decide.
    #[must_use]
    pub fn known(&self, peer: &Peer) -> Option<Arc<Client>> {
        let table = self.table.load();
        if table.may_authenticate(peer) { None } else { table.by_peer(peer).ok() }
    }

    /// Enters a request of `client` that would go out `now`, and returns the time to hold it for. It was `held` already.
    ///
    /// # Errors
    /// [`NotEntered`] when the client has used up its rate or quota, or its fleet's engine does not answer.
    pub async fn enter<'a>(
        &self,
        client: &'a Client,
        now: Moment,
        held: Duration,
    ) -> Result<Reservation<'a>, NotEntered> {
        let left = self.table.load().max_hold.saturating_sub(held);
        let account = &client.account;
        account.enter(client, now, &self.clock, left).await
    }

    /// Counts a request of `client` that is refused `now`.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when the client has used up its rate or quota.
    pub fn count(&self, client: &Client, now: Moment) -> Result<(), QuotaExceeded> {
        let max_hold = self.table.load().max_hold;
        client.account.count(client, now, &self.clock, max_hold)
    }

    /// Tells the fleet what it has to know of the clients' usage, at a heartbeat.
    pub fn on_heartbeat(&self, reply: &HeartbeatReply) {
        for client in &self.table.load().entries {
            client.account.on_heartbeat(client, reply.generation);
        }
    }

    /// Gives back what this instance holds of the clients' quotas, when it leaves its fleet.
    pub async fn leave(&self) {
        for client in self.named() {
            if let Some(quota) = &client.quota {
                client.account.leave(quota).await;
            }
        }
    }

    /// Returns the named clients, in the order of the configuration.
    #[must_use]
    pub fn named(&self) -> Vec<Arc<Client>> {
        self.table.load().entries.clone()
    }

    /// Returns the password checks.
    #[must_use]
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }
}

impl Table {
    fn of(config: &Config, before: Option<&Table>, new: impl Fn(&str) -> ClientAccount) -> Table {
        let account = |name: &Arc<str>| {
            let same = before.into_iter().flat_map(|before| &before.entries);
            let mut same = same.filter(|client| client.name.as_ref() == Some(name));
            let account = same.next().map(|client| Arc::clone(&client.account));
            account.unwrap_or_else(|| Arc::new(new(name)))
        };
        let everybody = before.map(|before| Arc::clone(&before.everybody.account));
        let everybody = Client {
            purposes: config.policy.purposes,
            signed_as: config.agent.signing.clone(),
            account: everybody.unwrap_or_default(),
            ..Client::default()
        };
        let entry = |one: &ClientConfig| Arc::new(Client::of(one, &everybody, account(&one.name)));
        Table {
            entries: config.clients.iter().map(entry).collect(),
            everybody: Arc::new(everybody),
            generation: before.map_or(0, |before| before.generation + 1),
            max_hold: config.pace.max_hold,
        }
    }

    /// Returns the entry with the same name and conditions.
    fn standing(&self, client: &Client) -> Option<Arc<Client>> {
        let mut entries = self.entries.iter();
        let found = entries.find(|entry| {
            entry.name.is_some()
                && entry.name == client.name
                && entry.conditions == client.conditions
        });
        found.map(Arc::clone)
    }

    /// Returns the client for a peer that sent no credentials.
    fn by_peer(&self, peer: &Peer) -> Result<Arc<Client>, AuthError> {
        if self.entries.is_empty() {
            return Ok(Arc::clone(&self.everybody));
        }
        let found = self.entries.iter().find(|client| {
            client.conditions.password.is_none() && matches(&client.conditions, peer)
        });
        match found {
            Some(client) => Ok(Arc::clone(client)),
            None if self.may_authenticate(peer) => Err(AuthError::Unauthenticated),
            None => Err(AuthError::UnknownClient),
        }
    }

    /// Tells whether credentials could identify `peer` as a client.
    fn may_authenticate(&self, peer: &Peer) -> bool {
        peer.is_private
            && self.entries.iter().any(|client| {
                client.conditions.password.is_some() && matches(&client.conditions, peer)
            })
    }
}

/// Tells whether all conditions hold, without regard to the password.
fn matches(conditions: &Conditions, peer: &Peer) -> bool {
    let Conditions { password: _, networks, listeners, certificates } = conditions;
    let address = peer.address.ip().to_canonical();
    let by_network = || networks.iter().any(|network| network.contains(&address));
    let by_listener = || listeners.iter().any(|name| Some(name) == peer.listener.as_ref());
    let by_certificate = || certificates.iter().any(|wanted| shows(peer, wanted));
    (networks.is_empty() || by_network())
        && (listeners.is_empty() || by_listener())
        && (certificates.is_empty() || by_certificate())
}

fn shows(peer: &Peer, wanted: &CertificateMatch) -> bool {
    let Some(certificate) = &peer.certificate else {
        return false;
    };
    match wanted {
        CertificateMatch::Sha256(sha256) => certificate.sha256 == *sha256,
        CertificateMatch::Name(name) => {
            certificate.names.iter().any(|shown| shown.to_lowercase() == **name)
        }
    }
}

impl Clone for AuthCache {
    /// A clone serves another connection, which has shown nothing yet.
    fn clone(&self) -> AuthCache {
        AuthCache::default()
    }
}

impl std::fmt::Debug for AuthCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthCache")
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients")
            .field("entries", &self.table.load().entries.len())
            .field("passwords", &self.passwords)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
