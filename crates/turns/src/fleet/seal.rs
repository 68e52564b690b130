//! Authenticates what lies in the engine, under a key that the instances share.
//!
//! HMAC-SHA-256 (RFC 2104) over the place and the content. Octets that were planted, altered or moved to another place
//! open as nothing. Octets of an earlier time still open: tokens and tombstones tell which are newer.

use std::fs::File;
use std::io::{self, Read as _};

use std::path::{Path, PathBuf};

use aws_lc_rs::hmac;

use crawlgate_system::atomic_file::exposed_mode;
use crawlgate_text::{from_hex, hex};

/// Octets of a key.
const KEY: usize = 32;

/// Octets of an authenticator.
const TAG: usize = 32;

/// The key of a fleet.
pub struct FleetKey(hmac::Key);

impl FleetKey {
    /// Reads a key from its file.
    ///
    /// # Errors
    /// When it cannot be read, is open to other users, or is no key.
    pub fn load(path: &Path) -> Result<FleetKey, KeyError> {
        let unreadable = |error| KeyError::Io { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(unreadable)?;
        if let Some(mode) = exposed_mode(&file.metadata().map_err(unreadable)?) {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unreadable)?;
        let octets = from_hex(text.trim()).ok_or_else(|| KeyError::Malformed(path.to_owned()))?;
        Ok(FleetKey::of(&octets))
    }

    /// Returns a new key as the text of its file; `None` if the system gives no random numbers.
    #[must_use]
    pub fn generate() -> Option<String> {
        let mut octets = [0; KEY];
        aws_lc_rs::rand::fill(&mut octets).ok()?;
        Some(format!("{}\n", hex(octets)))
    }

    /// Returns the key of these octets.
    #[must_use]
    pub fn of(octets: &[u8; KEY]) -> FleetKey {
        FleetKey(hmac::Key::new(hmac::HMAC_SHA256, octets))
    }

    /// Returns `content` with its authenticator for `place`.
    #[must_use]
    pub fn seal(&self, place: &[&[u8]], content: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(TAG + content.len());
        sealed.extend_from_slice(self.tag(place, content).as_ref());
        sealed.extend_from_slice(content);
        sealed
    }

    /// Returns the content of what [`FleetKey::seal`] has made for `place`; `None` for anything else.
    #[must_use]
    pub fn open<'a>(&self, place: &[&[u8]], sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, content) = sealed.split_at_checked(TAG)?;
        let mut context = Vec::with_capacity(content.len() + 64);
        write(&mut context, place, content);
        hmac::verify(&self.0, &context, tag).ok()?;
        Some(content)
    }

    /// Returns a name of the key, from which the key does not follow.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = hex(self.tag(&[b"the key"], b""));
        name.truncate(16);
        name
    }

    /// Returns a name for the engine that only the instances can make of `name`.
    #[must_use]
    pub fn alias(&self, name: &str) -> String {
        let mut alias = hex(self.tag(&[b"alias"], name.as_bytes()));
        alias.truncate(KEY);
        alias
    }

    fn tag(&self, place: &[&[u8]], content: &[u8]) -> hmac::Tag {
        let mut context = Vec::with_capacity(content.len() + 64);
        write(&mut context, place, content);
        hmac::sign(&self.0, &context)
    }
}

/// Writes the authenticated octets: each part after its length, so that no two places read alike.
fn write(context: &mut Vec<u8>, place: &[&[u8]], content: &[u8]) {
    for part in place.iter().copied().chain([content]) {
        context.extend_from_slice(&(part.len() as u64).to_be_bytes());
        context.extend_from_slice(part);
    }
}

impl std::fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetKey")
    }
}

/// The reason why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("[fleet] key_file {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Other users can read it.
    #[error("[fleet] key_file {}: open to others (mode {mode:o}); make it the owner's alone (chmod 600)", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It holds no key.
    #[error("[fleet] key_file {}: expected 64 hexadecimal digits, as `crawlgate fleet key` makes them", _0.display())]
    Malformed(PathBuf),
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_same_octets_at_the_same_place_open() {
        let key = FleetKey::of(&[7; KEY]);
        let place: &[&[u8]] = &[b"state", b"https://a.example", b"1"];
        let sealed = key.seal(place, b"a head");
        assert_eq!(key.open(place, &sealed), Some(&b"a head"[..]));
        let elsewhere: [&[&[u8]]; 3] = [
            &[b"state", b"https://b.example", b"1"],
            &[b"state", b"https://a.example1", b""],
            &[b"state", b"https://a.example"],
        ];
        for other in elsewhere {
            assert_eq!(key.open(other, &sealed), None, "{other:?}");
        }
        assert_eq!(FleetKey::of(&[8; KEY]).open(place, &sealed), None, "another key");
        for bit in 0..sealed.len() * 8 {
            let mut altered = sealed.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(place, &altered), None, "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(key.open(place, &sealed[..length]), None, "{length} octets");
        }
    }

    #[test]
    fn a_key_is_64_digits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.key");
        std::fs::write(&path, format!("{}\n", "07".repeat(KEY))).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        let said = FleetKey::load(&path).unwrap_err().to_string();
        assert!(said.contains("open to others (mode 640)"), "{said}");
        mode(0o600);
        let sealed = FleetKey::load(&path).unwrap().seal(&[b"place"], b"content");
        let opened = FleetKey::load(&path).unwrap();
        assert_eq!(opened.open(&[b"place"], &sealed), Some(&b"content"[..]));
        for wrong in ["", "7", &"g".repeat(64), &"7".repeat(63), &"7".repeat(65)] {
            std::fs::write(&path, wrong).unwrap();
            let said = FleetKey::load(&path).unwrap_err().to_string();
            assert!(said.contains("64 hexadecimal digits"), "{wrong}: {said}");
        }
    }
}
