//! The journal of the changes to a folder: the shim that writes it, and what its entries say.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Compiles the shim, once.
pub(crate) fn shim() -> &'static Path {
    static SHIM: OnceLock<(PathBuf, tempfile::TempDir)> = OnceLock::new();
    let (shim, _) = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let shim = folder.path().join("shim.so");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/power_cut/shim.c");
        let done = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([shim.as_os_str(), source.as_ref()])
            .arg("-lpthread")
            .output()
            .expect("a C compiler, which crawlgate needs, too");
        assert!(done.status.success(), "{done:?}");
        (shim, folder)
    });
    shim
}

/// One entry of the journal.
pub(crate) struct Entry {
    /// Octets of the journal before it.
    pub(crate) at: u64,
    /// Time by the clock of the machine since its start.
    pub(crate) time: Duration,
    pub(crate) process: u32,
    /// The number of the open file in its process.
    pub(crate) file: i32,
    pub(crate) what: What,
}

/// The content of an entry.
pub(crate) enum What {
    Open { name: String, flags: i64 },
    Close,
    Write { offset: usize, data: Vec<u8> },
    Truncate { length: usize },
    Sync { number: i64 },
    Synced { number: i64 },
    Rename { from: String, to: String },
    Unlink { name: String },
    Link { from: String, to: String },
}

/// Octets of an entry before its names and data.
const HEAD: usize = 40;

/// Reads a journal to its end.
pub(crate) fn read(journal: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < journal.len() {
        let long = |place: usize| {
            let octets = journal[at + place..at + place + 8].try_into().unwrap();
            i64::from_ne_bytes(octets)
        };
        let short = |place: usize| {
            let octets = journal[at + place..at + place + 4].try_into().unwrap();
            u32::from_ne_bytes(octets)
        };
        let (number, kind) = (long(8), short(24));
        let (name, to, data) = (short(28) as usize, short(32) as usize, short(36) as usize);
        let rest = &journal[at + HEAD..at + HEAD + name + to + data];
        let (names, data) = rest.split_at(name + to);
        let (name, to) = names.split_at(name);
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        let what = match kind {
            1 => What::Open { name: text(name), flags: number },
            2 => What::Close,
            3 => What::Write { offset: number.try_into().unwrap(), data: data.to_vec() },
            4 => What::Truncate { length: number.try_into().unwrap() },
            5 => What::Sync { number },
            6 => What::Synced { number },
            7 => What::Rename { from: text(name), to: text(to) },
            8 => What::Unlink { name: text(name) },
            9 => What::Link { from: text(name), to: text(to) },
            kind => panic!("an entry of kind {kind}"),
        };
        entries.push(Entry {
            at: at as u64,
            time: Duration::from_nanos(long(0).try_into().unwrap()),
            process: short(16),
            file: short(20).cast_signed(),
            what,
        });
        at += HEAD + names.len() + data.len();
    }
    entries
}
