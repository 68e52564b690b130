//! The header of a database file, read without the engine.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The facts in the header of the file.
pub(super) struct Header {
    /// The number of the program that owns the database.
    pub(super) application: i32,
    /// Octets that the file has, as the header says.
    pub(super) size: u64,
}

impl Header {
    /// Reads the engine's header, the first 100 octets: the size of a page in 16 and 17, the number of pages in 28 to 31,
    /// the application's number in 68 to 71, all of them big-endian. `None` if there is no such header.
    ///
    /// The caller keeps the file open as long as its process has connections to it: the end of any descriptor of a file
    /// releases the locks of the whole process on it.
    pub(super) fn read(file: &File) -> Option<Self> {
        let mut octets = [0; 100];
        file.read_exact_at(&mut octets, 0).ok()?;
        if !octets.starts_with(b"SQLite format 3\0") {
            return None;
        }
        let number = |at: usize| -> Option<u32> {
            let octets = octets.get(at..at + 4)?;
            octets.try_into().ok().map(u32::from_be_bytes)
        };
        let page = match number(16)? >> 16 {
            // The code for 65,536, which does not fit into two octets.
            1 => 65_536,
            size => size,
        };
        Some(Self {
            application: number(68)?.cast_signed(),
            size: u64::from(page) * u64::from(number(28)?),
        })
    }
}
