//! The system's hosts file, as of now.
//!
//! A name in the file has the addresses that the file gives, of either family, and no name server is asked: an answer
//! for the missing family could only come from a name server that the line was written to overrule, and a silent server
//! would cost its full time-out.
//!
//! The file is checked for each name and read again when it has changed, so an edit takes effect at the next
//! connection, without a reload.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crawlgate_system::descriptors::is_exhaustion;

type Entries = HashMap<Box<str>, Vec<IpAddr>>;

/// A hosts file, with its content when it was last read.
#[derive(Debug)]
pub(super) struct HostsFile {
    path: PathBuf,
    kept: Mutex<Option<(Stamp, Arc<Entries>)>>,
}

/// The version of the file: its inode, its length, and its modification time in seconds and nanoseconds.
type Stamp = (u64, u64, i64, i64);

impl HostsFile {
    /// Uses the file at `path`. It need not exist.
    pub(super) fn at(path: impl Into<PathBuf>) -> HostsFile {
        HostsFile { path: path.into(), kept: Mutex::default() }
    }

    /// Returns the addresses that the file gives `host`, a canonical host; none if it does not name it.
    ///
    /// # Errors
    /// When no descriptor is left to read it with: its content is unknown, and no name server may be asked instead.
    pub(super) fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.entries()?.get(host).cloned().unwrap_or_default())
    }

    fn entries(&self) -> io::Result<Arc<Entries>> {
        let mut kept = self.kept.lock();
        // One stat for each connection that is made; the file is local.
        let stamp = match std::fs::metadata(&self.path) {
            Ok(file) => (file.ino(), file.size(), file.mtime(), file.mtime_nsec()),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound && kept.is_some() {
                    tracing::warn!(file = %self.path.display(), %error, "the hosts file cannot be read any more");
                }
                *kept = None;
                return Ok(Arc::default());
            }
        };
        if let Some((former, entries)) = &*kept
            && *former == stamp
        {
            return Ok(Arc::clone(entries));
        }
        let entries = match std::fs::read(&self.path) {
            Ok(octets) => Arc::new(parse(&octets)),
            Err(error) if is_exhaustion(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(file = %self.path.display(), %error, "the hosts file cannot be read");
                Arc::default()
            }
        };
        *kept = Some((stamp, Arc::clone(&entries)));
        Ok(entries)
    }
}

/// Reads `address name name … # comment` lines. A line without an address (or with a zone, which has a meaning on one
/// link only) is left out, as hosts(5) readers do.
fn parse(octets: &[u8]) -> Entries {
    let mut entries = Entries::new();
    for line in String::from_utf8_lossy(octets).lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
            continue;
        };
        for name in words {
            let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
            let addresses = entries.entry(name.into()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn lines_give_addresses_to_names() {
        let text =
            b"\xef\xbb\xbf# comment\n127.0.0.1 localhost\n::1\tlocalhost ip6-localhost # both\n\
            192.0.2.1  One.Example. one # 192.0.2.9 nine\n192.0.2.1 one\r\n2001:db8::1 one\n\
            nonsense two\nfe80::1%eth0 three\n192.0.2.5\n\n  192.0.2.6 \xff six";
        let entries = parse(text);
        for (name, expected) in [
            ("localhost", &["127.0.0.1", "::1"][..]),
            ("ip6-localhost", &["::1"]),
            ("one.example", &["192.0.2.1"]),
            ("one", &["192.0.2.1", "2001:db8::1"]),
            ("six", &["192.0.2.6"]),
            ("nine", &[]),
            ("two", &[]),
            ("three", &[]),
        ] {
            let found = entries.get(name).cloned().unwrap_or_default();
            assert_eq!(found, addresses(expected), "{name}");
        }
    }

    #[test]
    fn an_edit_takes_effect_at_the_next_look_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        let file = HostsFile::at(&path);
        assert!(file.addresses("a.test").unwrap().is_empty(), "there is no file yet");
        std::fs::write(&path, "192.0.2.1 a.test").unwrap();
        assert_eq!(file.addresses("a.test").unwrap(), addresses(&["192.0.2.1"]));
        let same = Arc::as_ptr(&file.entries().unwrap());
        assert_eq!(Arc::as_ptr(&file.entries().unwrap()), same, "read twice");
        std::fs::write(&path, "192.0.2.22 a.test").unwrap();
        assert_eq!(file.addresses("a.test").unwrap(), addresses(&["192.0.2.22"]));
        std::fs::remove_file(&path).unwrap();
        assert!(file.addresses("a.test").unwrap().is_empty());
    }
}
