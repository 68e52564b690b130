//! The token that all operators share. It lies in a file that only its owner may read; a missing file is created.
//! `access` reads it from requests.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::hmac;

use crawlgate_config::TokenDigest;
use crawlgate_system::atomic_file::place;
use crawlgate_text::hex;

/// Octets of randomness in a token that is made here.
const RANDOM: usize = 32;

/// Octets of the shortest valid token: a shorter one can be guessed.
const SHORTEST: usize = 16;

/// Octets of the longest valid token.
const LONGEST: u64 = 1024;

/// The advice when a file cannot be read.
const UNREADABLE: &str = "let this user read it";

/// The advice when no token can be made.
const UNWRITTEN: &str =
    "let this user write there, or name another file; `openssl rand -hex 32` makes a token";

/// The reason why there is no token. The message names the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file can neither be read nor made.
    #[error("[admin] token_file {path}: {source}; {advice}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
        /// The way out.
        advice: &'static str,
    },
    /// The parent of the file is not a directory.
    #[error("[admin] token_file {path}: its parent is not a directory; {UNWRITTEN}")]
    NoDirectory {
        /// The file.
        path: PathBuf,
    },
    /// Other users may read the file.
    #[error(
        "[admin] token_file {path}: it is open to others (mode {mode:o}); chmod 600 it, and change the token: others \
         may have read it"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds something else, or a token that can be guessed.
    #[error(
        "[admin] token_file {path}: this is no token; write one line of 16 or more printable characters without \
         spaces, as `openssl rand -hex 32` gives them; or move the file away, and one is made"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

impl TokenError {
    fn io(path: &Path, source: io::Error, advice: &'static str) -> TokenError {
        TokenError::Io { path: path.to_owned(), source, advice }
    }
}

/// The token, by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(TokenDigest);

impl Token {
    /// Returns the token in the file at `path`, made if the file is missing.
    ///
    /// # Errors
    /// When the token can neither be read nor made, others may read it, or it can be guessed.
    pub fn load_or_create(path: &Path) -> Result<Token, TokenError> {
        let unreadable = |error| TokenError::io(path, error, UNREADABLE);
        match fs::File::open(path) {
            Ok(file) => return Token::read(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(error)),
        }
        let made = Token::create(path).map_err(|error| TokenError::io(path, error, UNWRITTEN))?;
        match made {
            Some(token) => Ok(token),
            None => Token::read(fs::File::open(path).map_err(unreadable)?, path),
        }
    }

    /// Checks whether [`load_or_create`](Self::load_or_create) would succeed, without making a token.
    ///
    /// # Errors
    /// When it would fail.
    pub fn check(path: &Path) -> Result<(), TokenError> {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        match (path.try_exists(), above) {
            (Ok(false), Some(above)) => match fs::metadata(above) {
                Ok(above) if above.is_dir() => Ok(()),
                Ok(_) => Err(TokenError::NoDirectory { path: path.to_owned() }),
                Err(error) => Err(TokenError::io(path, error, UNWRITTEN)),
            },
            (Ok(false), None) => Ok(()),
            (Ok(true) | Err(_), _) => Token::load_or_create(path).map(drop),
        }
    }

    fn read(file: fs::File, path: &Path) -> Result<Token, TokenError> {
        let unreadable = |error| TokenError::io(path, error, UNREADABLE);
        // The mode of the open file, not of the path: the file that is checked is the file that is read.
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        let path = || path.to_owned();
        if mode & 0o077 != 0 {
            return Err(TokenError::Exposed { path: path(), mode });
        }
        let mut text = String::new();
        let octets = file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
        let token = text.trim();
        let is_one = token.bytes().all(|octet| octet.is_ascii_graphic());
        if octets as u64 > LONGEST || token.len() < SHORTEST || !is_one {
            return Err(TokenError::Malformed { path: path() });
        }
        Ok(Token::of(token))
    }

    /// Makes the file. `None` if another process was faster.
    fn create(path: &Path) -> io::Result<Option<Token>> {
        let token = random().ok_or_else(|| io::Error::other("the system has no randomness"))?;
        let is_made = place(path, &format!("{token}\n"))?;
        Ok(is_made.then(|| Token::of(&token)))
    }

    /// Returns the token of this text.
    pub fn of(text: &str) -> Token {
        Token(TokenDigest::of(text.as_bytes()))
    }

    /// Tells whether this is the token.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.is_of(shown)
    }
}

/// Returns 64 random hex digits; none if the system has no randomness.
pub fn random() -> Option<String> {
    let mut octets = [0; RANDOM];
    aws_lc_rs::rand::fill(&mut octets).ok()?;
    Some(hex(octets))
}

/// Returns the secret in the forms of a user, or of senders without a name: none has the key itself. Empty if the key is.
pub(super) fn secret_of(key: &str, user: Option<&str>) -> String {
    if key.is_empty() {
        return String::new();
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    // No user has the empty name.
    hex(hmac::sign(&key, user.unwrap_or_default().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_token_file_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.token");
        let made = Token::load_or_create(&path).expect("made");
        let mode = fs::metadata(&path).expect("made").mode() & 0o777;
        assert_eq!(mode, 0o600);
        let read = Token::load_or_create(&path).expect("read");
        assert_eq!(made, read);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let refused = Token::load_or_create(&path).expect_err("others may read it");
        let refused = refused.to_string();
        assert!(refused.contains("mode 640"), "{refused}");
        assert!(refused.contains("chmod 600"), "{refused}");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        for (name, text) in [
            ("nothing", ""),
            ("too short", "secret\n"),
            ("two lines", "0123456789abcdef\n0123456789abcdef\n"),
            ("spaces", "0123456789 abcdef0123456789\n"),
        ] {
            fs::write(&path, text).expect("written");
            let refused = Token::load_or_create(&path).expect_err(name).to_string();
            assert!(refused.contains("this is no token"), "{name}: {refused}");
            assert!(refused.contains("admin.token"), "{name}: {refused}");
        }
        fs::write(&path, "  0123456789abcdef\r\n").expect("written");
        let token = Token::load_or_create(&path).expect("a token, with white space around");
        assert!(token.is(b"0123456789abcdef"));
    }
}
