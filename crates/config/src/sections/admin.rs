//! `[admin]` and `[[admin.user]]`: access to the running process, its users, the credentials of each, and its role.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;

use crawlgate_origins::identity::client_name;
use crawlgate_policy::host::canonical_host;
use crawlgate_text::hex::{from_hex, hex};

use super::client::PasswordHash;
use super::*;

/// The address of the console, the API, health and metrics.
pub const DEFAULT_ADMIN_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8119);

section! {
    /// `[admin]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminConfig "admin" {
        /// A Unix socket for commands that must reach the running process; `None`: no socket.
        socket: Option<PathBuf> = None, or_false(unless("", path())), AtRestart;
        /// The address where `serve` shows the console, the API, health and metrics over HTTP; `None`: nowhere. Port 0 asks
        /// the system for a free one.
        address: Option<SocketAddr> = Some(DEFAULT_ADMIN_ADDRESS), or_false(unless("", text(admin_address))), AtRestart;
        /// A file with the token that all operators share, made if it is missing; `None`: no such token. Without one and
        /// without users, everyone who reaches the address may do everything, so it must be on loopback.
        token_file: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The certificate of that address; `None`: plain HTTP.
        cert: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The private key of that certificate; set if there is one.
        key: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// `[[admin.user]]`, in the order of the file: the users of that address besides holders of the token.
        users as "user": Vec<AdminUser> = Vec::new(), USERS, AtReload;
        /// True if a reload has removed all users: only a restart opens the address to requests without credentials. No key.
        had_users: bool = false, NoKey, AtReload;
        /// Canonical names by which that address is reached, besides `localhost` and its bare addresses.
        hosts: Vec<String> = Vec::new(), one_or_list(|| text(admin_host)), AtRestart;
        /// Open connections there; at least 1. At the limit, the longest idle one makes room for a new one. At most three
        /// quarters as many decision requests may be in progress.
        connections: usize = 256, integer(1..=100_000), AtRestart;
        /// The address where `serve` shows a page for everyone to try a URL; `None`: nowhere.
        public_try: Option<SocketAddr> = None, or_false(unless("", text(admin_address))), AtRestart;
        /// Questions of one peer there in a minute; at least 1.
        public_try_per_minute: u32 = 20, integer(1..=100_000), AtRestart;
    }
}

impl AdminConfig {
    /// The advice about an address that other machines reach without credentials.
    pub const EXPOSED: &str = "reachable from other machines; name a file for the token that they must show, \
        token_file = \"admin.token\", or users, [[admin.user]], or listen on 127.0.0.1 and reach it by ssh -L";

    /// Tells whether the address is safe to serve: on loopback, or with credentials.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.has_credentials() || self.is_on_loopback()
    }

    /// Tells whether clients of the address must send credentials.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.token_file.is_some() || self.is_for_users()
    }

    /// Returns the certificate of the address with its key; `None`: plain HTTP.
    #[must_use]
    pub fn tls(&self) -> Option<AdminTls> {
        let (cert, key) = (self.cert.clone()?, self.key.clone()?);
        Some(AdminTls { cert, key })
    }

    /// Tells whether there are users, or were some since the process started.
    #[must_use]
    pub fn is_for_users(&self) -> bool {
        self.had_users || !self.users.is_empty()
    }

    /// Tells whether the address refuses every request: a reload has removed the last user, and no token is left.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.token_file.is_none() && self.had_users && self.users.is_empty()
    }

    /// Tells whether only programs of this machine reach the address.
    #[must_use]
    pub fn is_on_loopback(&self) -> bool {
        self.address.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }
    /// Checks the rules between its keys.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>, has_upstream_proxy: bool) {
        let are_both = self.cert.is_some() == self.key.is_some();
        let why = "a certificate and its key go together; set both or neither";
        section.require(are_both, &["cert", "key"], why);
        let why = "it asks public addresses only, and crawlgate does not see the addresses behind an [[upstream.proxy]]: leave out \
                   one of them";
        let sees_addresses = !has_upstream_proxy || self.public_try.is_none();
        section.require(sees_addresses, &["public_try"], why);
        let is_guarded = self.is_guarded() || section.count("user") > 0;
        section.require(is_guarded, &["address"], Self::EXPOSED);
    }
}

/// The certificate of the admin listener. The files are read again at a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTls {
    /// The certificate, then its issuers, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

fn admin_address(text: &str) -> Result<SocketAddr, &'static str> {
    let expected = "expected an IP address and a port, \"127.0.0.1:8119\" or \"[::1]:8119\"";
    text.parse().map_err(|_| expected)
}

fn admin_host(text: &str) -> Result<String, &'static str> {
    canonical_host(text).ok_or("expected a host name without port: \"crawlgate.intranet.example\"")
}

/// One `[[admin.user]]`: a person or a program. It has a password, a token or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminUser {
    /// The name, in records and as the user name of credentials.
    pub name: Arc<str>,
    /// The acts that the user may do.
    pub role: Role,
    /// The hash of the user's password.
    pub password: Option<PasswordHash>,
    /// The digest of the user's token.
    pub token: Option<TokenDigest>,
}

const USERS: Tables<AdminUser> =
    Tables { name: "[admin.user]", read: user, write: UserKeys::write };

table! {
    struct UserKeys of user: AdminUser {
        name: Arc<str>, text(client_name), Some(user.name.clone());
        role: Role, word(), Some(user.role);
        password: Hidden<PasswordHash>, secret(|text| PasswordHash::parse(text).map(Hidden::from)), user.password.as_ref().map(PasswordHash::hidden);
        token: Hidden<TokenDigest>, secret(|text| TokenDigest::parse(text).map(Hidden::from)), user.token.as_ref().map(|token| Hidden::new(token, token.mark(&user.name)));
    }
}

/// Reads one `[[admin.user]]`, after those of `earlier`.
fn user(table: &mut Section<'_, '_>, cx: &Context, earlier: &[AdminUser]) -> Option<AdminUser> {
    let keys = UserKeys::read(table, cx);
    let is_new = is_new(earlier, |one| &one.name, &keys.name);
    table.require(is_new, &["name"], "an earlier user has this name");
    table.demand(&["name", "role"]);
    let token = keys.token.map(|token| token.secret);
    let is_new = token.is_none() || earlier.iter().all(|one| one.token != token);
    table.require_other_secret(is_new, "token", "an earlier user has this token");
    let has_one = table.names("password") || table.names("token");
    let why = "this user has neither a password nor a token; `crawlgate admin user add` makes an entry with one";
    table.require(has_one, &["name"], why);
    Some(AdminUser {
        name: keys.name?,
        role: keys.role?,
        password: keys.password.map(|password| password.secret),
        token,
    })
}

crawlgate_text::spelled! {
    /// The acts that a user may do. Each role may do what the ones before it may.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Role {
        /// See everything, and ask for decisions.
        Read = "read",
        /// Acknowledge decisions, too.
        Review = "review",
        /// Change everything that the admin side can change.
        Operate = "operate",
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

words! { for Role { Read = Role::Read.as_str(), Review = Role::Review.as_str(), Operate = Role::Operate.as_str(), } }

/// The SHA-256 of a token. All digests have equal length, so a comparison reveals nothing. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Reads `sha256:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// The allowed form, when `text` is something else.
    pub fn parse(text: &str) -> Result<TokenDigest, &'static str> {
        const EXPECTED: &str = "expected the digest of a token, \"sha256:\" and 64 digits, as `crawlgate admin user add --token` \
            makes it";
        let digits = text.strip_prefix("sha256:").ok_or(EXPECTED)?;
        from_hex(digits).map(TokenDigest).ok_or(EXPECTED)
    }

    /// Returns the digest of a token.
    #[must_use]
    pub fn of(token: &[u8]) -> TokenDigest {
        let mut octets = [0; 32];
        for (octet, of_digest) in octets.iter_mut().zip(digest(&SHA256, token).as_ref()) {
            *octet = *of_digest;
        }
        TokenDigest(octets)
    }

    /// Tells whether `token` has this digest.
    #[must_use]
    pub fn is_of(&self, token: &[u8]) -> bool {
        verify_slices_are_equal(&TokenDigest::of(token).0, &self.0).is_ok()
    }

    /// Returns the text that [`parse`](Self::parse) reads, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("sha256:{}", hex(self.0))
    }

    /// Returns eight digits that tell one digest of this user from another and lead to no token. The name is the key, so no
    /// table of marks serves for several users.
    #[must_use]
    pub fn mark(&self, user: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, user.as_bytes());
        let of_it = hmac::sign(&key, &self.0);
        of_it.as_ref().get(..4).map(hex).unwrap_or_default()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_and_matches_its_token_alone() {
        // printf %s 0123456789abcdef | sha256sum
        let digits = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let digest = TokenDigest::parse(&format!("sha256:{digits}")).expect("a digest");
        assert_eq!(digest, TokenDigest::of(b"0123456789abcdef"));
        assert_eq!(digest.reveal(), format!("sha256:{digits}"));
        assert_eq!(format!("{digest:?}"), "***");
        assert!(!digits.contains(&digest.mark("ada")));
        assert_eq!(digest.mark("ada"), TokenDigest::of(b"0123456789abcdef").mark("ada"));
        assert_ne!(digest.mark("ada"), digest.mark("eve"), "of another user");
        assert_ne!(digest.mark("ada"), TokenDigest::of(b"0").mark("ada"));
        for (token, right) in [
            ("0123456789abcdef", true),
            ("0123456789abcdeF", false),
            ("0123456789abcde", false),
            ("", false),
            (digits, false),
        ] {
            assert_eq!(digest.is_of(token.as_bytes()), right, "{token:?}");
        }
        for text in ["", "sha256:", digits, "0123456789abcdef", &format!("sha256:{digits}0")] {
            assert!(TokenDigest::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn each_role_may_do_what_the_ones_before_it_may() {
        assert!(Role::Read < Role::Review && Role::Review < Role::Operate);
    }
}
