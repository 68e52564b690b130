//! Lines of bounded length from an untrusted input, as many at a time as arrive without waiting.

use std::io::{self, BufRead as _, BufReader, Read};

use memchr::memchr;

/// The longest line, in octets, its end not counted.
pub(super) const LONGEST: usize = 8 << 20;

/// Octets at which a batch ends.
const BATCH: usize = 256 << 10;

/// A line of the input, without its LF.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// A line of more than [`LONGEST`] octets, read to its end and dropped.
    TooLong,
}

pub(super) struct Lines<R> {
    input: BufReader<R>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(BATCH, input) }
    }

    /// Returns the next line, and those behind it that have arrived whole; `None` at the end.
    pub(super) fn batch(&mut self) -> io::Result<Option<Vec<Line>>> {
        let mut batch = Vec::new();
        let mut octets = 0;
        while let Some(line) = self.line()? {
            if let Line::Whole(line) = &line {
                octets += line.len();
            }
            batch.push(line);
            // An incomplete line may take its time.
            if octets >= BATCH || memchr(b'\n', self.input.buffer()).is_none() {
                break;
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    fn line(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let mut is_too_long = false;
        let mut is_begun = false;
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                break;
            }
            is_begun = true;
            let end = memchr(b'\n', available);
            let part = available.get(..end.unwrap_or(available.len()));
            let part = part.unwrap_or_default();
            is_too_long |= line.len() + part.len() > LONGEST;
            if is_too_long {
                line = Vec::new();
            } else {
                line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some() {
                break;
            }
        }
        Ok(is_begun.then_some(if is_too_long { Line::TooLong } else { Line::Whole(line) }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// An input that arrives in pieces.
    struct Pieces(VecDeque<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut piece) = self.0.pop_front() else {
                return Ok(0);
            };
            let length = piece.len().min(buffer.len());
            buffer[..length].copy_from_slice(&piece[..length]);
            if length < piece.len() {
                self.0.push_front(piece.split_off(length));
            }
            Ok(length)
        }
    }

    fn batches(pieces: &[&[u8]]) -> Vec<Vec<Line>> {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        let mut lines = Lines::new(Pieces(pieces));
        std::iter::from_fn(|| lines.batch().expect("reads")).collect()
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_handed_over_as_they_arrive() {
        assert_eq!(batches(&[]), Vec::<Vec<Line>>::new());
        assert_eq!(batches(&[b"a\nb\nc"]), [vec![whole("a"), whole("b")], vec![whole("c")]]);
        assert_eq!(batches(&[b"a", b"b\n", b"c\n"]), [[whole("ab")], [whole("c")]]);
        assert_eq!(batches(&[b"\n\n"]), [[whole(""), whole("")]], "empty lines are lines");
    }

    #[test]
    fn a_line_beyond_the_limit_is_skipped() {
        let mut input = vec![b'x'; LONGEST];
        input.extend(b"\n");
        input.extend(vec![b'x'; LONGEST + 1]);
        input.extend(b"\na\n");
        let lines: Vec<Line> = batches(&[&input]).into_iter().flatten().collect();
        assert_eq!(lines.len(), 3);
        assert!(matches!(&lines[0], Line::Whole(line) if line.len() == LONGEST));
        assert_eq!(lines[1..], [Line::TooLong, whole("a")]);
    }
}
