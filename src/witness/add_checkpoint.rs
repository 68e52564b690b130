//! The question to a witness: a checkpoint, and the proof that the log continues the one that the witness has seen.
//!
//! Pure. The sender writes it, and a witness reads it.

use std::fmt;

use crawlgate_tlog::{Hash, MAX_SIZE, hash_from_text, hash_text};

/// Hashes that a proof has at most: a tree has no more levels.
const MAX_HASHES: usize = 63;

/// A request to cosign a checkpoint (c2sp.org/tlog-witness@v1.0.0, "add-checkpoint"). `Display` writes its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddCheckpoint<'q> {
    /// The size at which the witness knows the log.
    pub(super) old: u64,
    /// The proof that the checkpoint continues that size.
    pub(super) path: Vec<Hash>,
    /// The signed note.
    pub(super) checkpoint: &'q str,
}

impl<'q> AddCheckpoint<'q> {
    /// Reads the body of a request. `None` if it has another form.
    pub(super) fn parse(text: &'q str) -> Option<Self> {
        let (head, checkpoint) = text.split_once("\n\n")?;
        let mut lines = head.split('\n');
        let old = lines.next()?.strip_prefix("old ")?;
        let size: u64 = old.parse().ok().filter(|size| *size <= MAX_SIZE)?;
        let path: Vec<Hash> = lines.map(hash_from_text).collect::<Option<_>>()?;
        let is_right = size.to_string() == old && path.len() <= MAX_HASHES;
        is_right.then_some(Self {
            old: size,
            path,
            checkpoint,
        })
    }
}

impl fmt::Display for AddCheckpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        let mut path = self.path.iter();
        path.try_for_each(|hash| writeln!(f, "{}", hash_text(hash)))?;
        write!(f, "\n{}", self.checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_that_of_the_specification() {
        let note = "log\n3\nAAAA\n\n— log AAAA\n";
        let request = AddCheckpoint {
            old: 2,
            path: vec![[0; 32], [1; 32]],
            checkpoint: note,
        };
        let text = format!(
            "old 2\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\
             AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n\n{note}"
        );
        assert_eq!(request.to_string(), text);
        assert_eq!(AddCheckpoint::parse(&text), Some(request));
        let none = format!("old 0\n\n{note}");
        let read = AddCheckpoint::parse(&none).unwrap();
        assert_eq!((read.old, read.path.len(), read.checkpoint), (0, 0, note));
        assert_eq!(read.to_string(), none);
    }

    #[test]
    fn a_question_of_another_form_is_refused() {
        let hash = hash_text(&[7; 32]);
        let with = |count: usize| format!("old 1\n{}\nlog\n", format!("{hash}\n").repeat(count));
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("as many hashes as a tree has levels", with(MAX_HASHES), true),
            ("one more", with(MAX_HASHES + 1), false),
            ("nothing", String::new(), false),
            ("no empty line", "old 0\nlog\n".to_owned(), false),
            ("no size", "old \n\nlog\n".to_owned(), false),
            ("another word", "new 0\n\nlog\n".to_owned(), false),
            ("a leading zero", "old 01\n\nlog\n".to_owned(), false),
            ("a sign", "old +1\n\nlog\n".to_owned(), false),
            ("beyond 63 bits", format!("old {}\n\nlog\n", MAX_SIZE + 1), false),
            ("a short hash", "old 1\nAAAA\n\nlog\n".to_owned(), false),
            ("a carriage return", "old 0\r\n\r\nlog\n".to_owned(), false),
        ];
        for (name, text, want) in rows {
            assert_eq!(AddCheckpoint::parse(&text).is_some(), want, "{name}");
        }
    }
}
