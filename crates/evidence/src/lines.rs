//! A file of whole lines.
//!
//! A write can stop anywhere: a full disk takes the first half of a line, a kill interrupts between two calls. So lines
//! are appended in pieces that each end with a line. Half a line of a failed write is cut off before the next write,
//! and half a line of a crash is moved aside when the file is opened again.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
};

use super::sink::Stopped;

/// Maximum octets of one write. A regular file takes them in one go, unless the disk is full.
pub(super) const PIECE: usize = 64 * 1024;

/// A file, as [`Lines`] needs it. Tests have one that fails at will.
pub(super) trait Storage {
    /// Returns the octets in the file now, whichever process wrote them.
    fn len(&self) -> io::Result<u64>;
    /// Appends some of `octets` and returns their number.
    fn append(&mut self, octets: &[u8]) -> io::Result<usize>;
    /// Cuts the file to `len` octets.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Storage for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn append(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.write(octets)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// A writer that appends to a file of whole lines, and keeps it so.
#[derive(Debug)]
pub(super) struct Lines<S> {
    storage: S,
    end: End,
}

/// The end of the file.
#[derive(Debug)]
enum End {
    Whole,
    /// Half a line, which begins at this offset and could not be cut off yet.
    Torn(u64),
}

impl<S: Storage> Lines<S> {
    /// Takes a `storage` that is empty or ends with a whole line.
    pub(super) fn new(storage: S) -> Self {
        let end = End::Whole;
        Self { storage, end }
    }

    pub(super) fn storage(&self) -> &S {
        &self.storage
    }

    /// Appends `lines`, which end with a line feed. After a failure, the whole lines in the file count as written; any
    /// rest is cut off before the next write.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), Stopped> {
        let mut rest = lines;
        let stopped = |rest: &[u8], error| Stopped { written: lines.len() - rest.len(), error };
        self.mend().map_err(|error| stopped(rest, error))?;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece(rest));
            let start = self.storage.len().map_err(|error| stopped(rest, error))?;
            if let Err((taken, error)) = self.append_piece(piece) {
                let whole = whole_lines(piece.split_at(taken).0);
                if whole < taken {
                    self.end = End::Torn(start + whole as u64);
                    // If this fails, too, the next write tries it again.
                    let _ = self.mend();
                }
                return Err(stopped(rest.split_at(whole).1, error));
            }
            rest = after;
        }
        Ok(())
    }

    /// Cuts off half a line that a failed write has left.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if let End::Torn(at) = self.end {
            // Cutting must never lengthen a file that another process has emptied meanwhile.
            if self.storage.len()? > at {
                self.storage.cut(at)?;
            }
            self.end = End::Whole;
        }
        Ok(())
    }

    fn append_piece(&mut self, piece: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut taken = 0;
        while let Some(rest @ [_, ..]) = piece.get(taken..) {
            match self.storage.append(rest) {
                Ok(0) => return Err((taken, io::ErrorKind::WriteZero.into())),
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((taken, error)),
            }
        }
        Ok(())
    }
}

/// Returns the length of the next piece of `lines`: as many whole lines as fit, at least one.
fn piece(lines: &[u8]) -> usize {
    let fitting = whole_lines(lines.split_at(PIECE.min(lines.len())).0);
    if fitting > 0 {
        return fitting;
    }
    lines.iter().position(|&octet| octet == b'\n').map_or(lines.len(), |end| end + 1)
}

/// Returns the octets of `text` up to and including its last line feed.
fn whole_lines(text: &[u8]) -> usize {
    text.iter().rposition(|&octet| octet == b'\n').map_or(0, |end| end + 1)
}

/// Returns the offset of the unfinished last line of `file`; its length if all lines are whole.
pub(super) fn end_of_whole_lines(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; PIECE];
    while end > 0 {
        let start = end.saturating_sub(PIECE as u64);
        let (octets, _) = block.split_at_mut((end - start) as usize);
        file.read_exact_at(octets, start)?;
        match whole_lines(octets) {
            0 => end = start,
            whole => return Ok(start + whole as u64),
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many octets, which can also refuse to cut.
    #[derive(Default)]
    struct Disk {
        content: Vec<u8>,
        room: usize,
        stuck: bool,
    }

    impl Storage for Disk {
        fn len(&self) -> io::Result<u64> {
            Ok(self.content.len() as u64)
        }

        fn append(&mut self, octets: &[u8]) -> io::Result<usize> {
            let count = octets.len().min(self.room - self.content.len());
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.content.extend_from_slice(octets.split_at(count).0);
            Ok(count)
        }

        fn cut(&mut self, len: u64) -> io::Result<()> {
            if self.stuck {
                return Err(io::ErrorKind::Other.into());
            }
            self.content.resize(len as usize, 0); // like the real one, it would also lengthen
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_and_a_retry_completes_them() {
        let lines = b"first\nsecond\n\nfourth line\n";
        for room in 0..lines.len() {
            let mut file = Lines::new(Disk { room, ..Disk::default() });
            let stopped = file.append(lines).unwrap_err();
            assert_eq!(stopped.written, whole_lines(lines.split_at(room).0), "room for {room}");
            assert_eq!(file.storage.content, lines.split_at(stopped.written).0, "room for {room}");

            file.storage.room = 1_000;
            file.append(lines.split_at(stopped.written).1).unwrap();
            assert_eq!(file.storage.content, lines, "room for {room}");
        }
    }

    #[test]
    fn half_a_line_is_cut_off_before_the_next_write() {
        let mut file = Lines::new(Disk { room: 8, stuck: true, ..Disk::default() });
        assert_eq!(file.append(b"first\nsecond\n").unwrap_err().written, 6);
        assert_eq!(file.storage.content, b"first\nse");
        file.storage.room = 1_000;
        assert_eq!(file.append(b"second\n").unwrap_err().written, 0, "still torn");
        file.storage.stuck = false;
        file.append(b"second\n").unwrap();
        assert_eq!(file.storage.content, b"first\nsecond\n");
    }

    #[test]
    fn a_file_emptied_by_someone_else_is_not_lengthened() {
        let mut file = Lines::new(Disk { room: 8, stuck: true, ..Disk::default() });
        file.append(b"first\nsecond\n").unwrap_err();
        file.storage = Disk { room: 1_000, ..Disk::default() };
        file.append(b"second\n").unwrap();
        assert_eq!(file.storage.content, b"second\n");
    }

    #[test]
    fn pieces_end_with_lines() {
        let short = [b"x".repeat(99), b"\n".to_vec()].concat().repeat(1_000);
        let long = [b"x".repeat(3 * PIECE), b"\nnext\n".to_vec()].concat();
        let cases = [
            ("all that fits", b"a\nb\n".to_vec(), 4),
            ("as many lines as fit", short, PIECE / 100 * 100),
            ("an overlong line alone", long, 3 * PIECE + 1),
        ];
        for (name, lines, want) in cases {
            assert_eq!(piece(&lines), want, "{name}");
        }
    }

    #[test]
    fn the_unfinished_last_line_is_found() {
        let far = [b"whole\n".to_vec(), b"x".repeat(2 * PIECE)].concat();
        let cases: &[(&str, &[u8], u64)] = &[
            ("an empty file", b"", 0),
            ("whole lines", b"a\nb\n", 4),
            ("half a line", b"a\nb\nhal", 4),
            ("nothing but half a line", b"hal", 0),
            ("a line feed at the edge of a block", &far, 6),
        ];
        for (name, content, want) in cases {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            assert_eq!(end_of_whole_lines(&file).unwrap(), *want, "{name}");
        }
    }
}
