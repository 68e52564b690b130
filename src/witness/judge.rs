//! The judgement of a witness: whether a checkpoint continues the one that it has cosigned last.
//!
//! Pure: what the witness has seen is an argument, and the caller keeps what it sees now before it signs.

use std::collections::HashMap;

use super::add_checkpoint::AddCheckpoint;
use crawlgate_tlog::{
    Checkpoint, ConsistencyProof, EMPTY_ROOT, Hash, KeyName, Note, ProofError, VerifierKey,
};

/// The size and root of a log, as the witness has cosigned it last.
pub(super) type TreeHead = (u64, Hash);

/// The logs that a witness knows, each with its keys: more than one while a log replaces its key.
#[derive(Debug, Default)]
pub(super) struct Logs(HashMap<KeyName, Vec<VerifierKey>>);

impl Logs {
    pub(super) fn of(keys: &[VerifierKey]) -> Self {
        let mut logs = Self::default();
        for key in keys {
            let of_name = logs.0.entry(key.name().clone()).or_default();
            of_name.push(key.clone());
        }
        logs
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &KeyName> {
        self.0.keys()
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The checkpoint continues the log: the witness keeps its size and root, and then cosigns the text.
    Cosign {
        log: KeyName,
        seen: TreeHead,
        text: String,
    },
    /// The question is malformed.
    Malformed,
    /// The witness does not know the log.
    UnknownLog,
    /// No known key of the log has signed.
    UnknownKey,
    /// The witness knows the log at this size, and the question begins at another one, or contradicts it.
    Conflict(u64),
    /// The proof does not hold.
    Inconsistent(ProofError),
}

/// Judges the body of a request. `seen` returns what the witness has cosigned last of a log.
pub(super) fn judge(
    body: &[u8],
    logs: &Logs,
    seen: impl FnOnce(&KeyName) -> TreeHead,
) -> Judgement {
    let text = str::from_utf8(body).ok();
    let Some(request) = text.and_then(AddCheckpoint::parse) else {
        return Judgement::Malformed;
    };
    let note = Note::parse(request.checkpoint.as_bytes()).ok();
    let Some((note, checkpoint)) = note.and_then(|note| {
        let checkpoint = Checkpoint::from_text(note.text())?;
        Some((note, checkpoint))
    }) else {
        return Judgement::Malformed;
    };
    let Some(keys) = logs.0.get(&checkpoint.origin) else {
        return Judgement::UnknownLog;
    };
    if Checkpoint::open(&note, keys).is_err() {
        return Judgement::UnknownKey;
    }
    if request.old > checkpoint.size {
        return Judgement::Malformed;
    }
    let (size, root) = seen(&checkpoint.origin);
    let is_same_size = size == checkpoint.size;
    if request.old != size || (is_same_size && root != checkpoint.root) {
        return Judgement::Conflict(size);
    }
    let proof = ConsistencyProof {
        old: size,
        new: checkpoint.size,
        path: request.path,
    };
    let proven = proof.verify(&root, &checkpoint.root);
    if let Err(why) = proven {
        return Judgement::Inconsistent(why);
    }
    Judgement::Cosign {
        text: note.text().to_owned(),
        seen: (checkpoint.size, checkpoint.root),
        log: checkpoint.origin,
    }
}

/// The end of a log that the witness has never cosigned.
pub(super) const NOTHING: TreeHead = (0, EMPTY_ROOT);

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_tlog::samples::{pair, signer};
    use crawlgate_tlog::{Tree, leaf_hash};

    /// Returns the root of a log of so many entries.
    fn root(size: u64) -> Hash {
        let leaves: Vec<Hash> = (0..size).map(|n| leaf_hash(&n.to_be_bytes())).collect();
        Tree::root_of(&leaves)
    }

    #[test]
    fn each_question_has_the_answer_of_the_specification() {
        let (first, second, foreign) = (pair(1), pair(2), pair(3));
        let (log, next, other) = (
            signer("log", &first),
            signer("log", &second),
            signer("other", &foreign),
        );
        let logs = Logs::of(&[log.key().clone(), next.key().clone()]);
        let ask = |old: u64, path: &[Hash], checkpoint: &str| {
            let path = path.to_vec();
            AddCheckpoint {
                old,
                path,
                checkpoint,
            }
            .to_string()
        };
        let note = |size| log.checkpoint(size, root(size)).to_string();
        // The tree of three entries continues that of two by their last leaf.
        let path = [leaf_hash(&2_u64.to_be_bytes())];
        let forged = note(3).replace(
            &crawlgate_tlog::hash_text(&root(3)),
            &crawlgate_tlog::hash_text(&root(4)),
        );
        let cosign = |size| {
            let signed = log.checkpoint(size, root(size));
            Judgement::Cosign {
                log: "log".parse().unwrap(),
                seen: (size, root(size)),
                text: signed.text().to_owned(),
            }
        };
        use Judgement::*;
        let (none, two) = (NOTHING, (2, root(2)));
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("the first checkpoint", none, ask(0, &[], &note(2)), cosign(2)),
            ("the empty log", none, ask(0, &[], &note(0)), cosign(0)),
            ("the next one", two, ask(2, &path, &note(3)), cosign(3)),
            ("the same one again", two, ask(2, &[], &note(2)), cosign(2)),
            ("by the second key of the log", two, ask(2, &path, &next.checkpoint(3, root(3)).to_string()), cosign(3)),
            ("no question", two, "hello".to_owned(), Malformed),
            ("no note", two, ask(2, &path, "log\n3\n"), Malformed),
            ("no checkpoint", two, ask(2, &path, &Note::sign("log\n3\n".to_owned(), &log).unwrap().to_string()), Malformed),
            ("an older size than the one before", two, ask(3, &[], &note(2)), Malformed),
            ("another log", two, ask(2, &path, &other.checkpoint(3, root(3)).to_string()), UnknownLog),
            ("another key", two, ask(2, &path, &signer("log", &foreign).checkpoint(3, root(3)).to_string()), UnknownKey),
            ("another root than was signed", two, ask(2, &path, &forged), UnknownKey),
            ("from nothing", two, ask(0, &[], &note(3)), Conflict(2)),
            ("from a later size", two, ask(3, &[], &note(4)), Conflict(2)),
            ("to an earlier size", two, ask(1, &[], &note(1)), Conflict(2)),
            ("another tree of the same size", two, ask(2, &[], &log.checkpoint(2, root(5)).to_string()), Conflict(2)),
            ("without a proof", two, ask(2, &[], &note(3)), Inconsistent(ProofError::Length)),
            ("with a proof of another tree", two, ask(2, &[[7; 32]], &note(3)), Inconsistent(ProofError::Root)),
            ("from another tree", (2, root(5)), ask(2, &path, &note(3)), Inconsistent(ProofError::Root)),
            ("a proof of nothing", none, ask(0, &path, &note(3)), Inconsistent(ProofError::Length)),
        ];
        for (name, seen, request, want) in rows {
            assert_eq!(judge(request.as_bytes(), &logs, |_| seen), want, "{name}");
        }
        assert_eq!(judge(b"old 0\n\n\xff", &logs, |_| none), Malformed);
    }
}
