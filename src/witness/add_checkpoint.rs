//! The question to a witness: a checkpoint, and the proof that the log continues the one that the witness has seen.
//!
//! Pure.

use std::fmt;

use crawlgate_tlog::{Hash, hash_text};

/// A request to cosign a checkpoint (c2sp.org/tlog-witness@v1.0.0, "add-checkpoint"). `Display` writes its body.
#[derive(Debug)]
pub(super) struct AddCheckpoint<'q> {
    /// The size at which the witness knows the log.
    pub(super) old: u64,
    /// The proof that the checkpoint continues that size.
    pub(super) path: Vec<Hash>,
    /// The signed note.
    pub(super) checkpoint: &'q str,
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
        let none = AddCheckpoint {
            old: 0,
            path: Vec::new(),
            checkpoint: note,
        };
        assert_eq!(none.to_string(), format!("old 0\n\n{note}"));
    }
}
