//! The question to a witness, and the meaning of its answer (c2sp.org/tlog-witness@v1.0.0).
//!
//! Pure, and public for the checks of fuzzing. An answer is foreign text: it is believed only where a signature of the witness holds.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use crawlgate_text::Moment;
use crawlgate_tlog::{Hash, MAX_SIZE, Note, Signature, VerifierKey, hash_text};

/// The content type of an answer that states a size.
const SIZE_TYPE: &str = "text/x.tlog.size";

/// The largest difference between the time of a cosignature and our clock.
const SKEW: Duration = Duration::from_secs(3_600);

/// Octets of a foreign text that a message repeats.
const MAX_SHOWN: usize = 200;

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

/// The answer of a witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The witness has cosigned the checkpoint.
    Cosigned(Signature),
    /// The witness knows the log with this number of entries.
    Size(u64),
}

/// The reason why a witness has not cosigned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The witness does not know the log.
    #[error(
        "it does not know this log (404): give its operator the output of `crawlgate audit key`"
    )]
    UnknownLog,
    /// The witness knows the log by another key.
    #[error(
        "it knows this log by another key (403): give its operator the output of `crawlgate audit key`"
    )]
    OtherKey,
    /// The witness finds the proof wrong.
    #[error("it finds no proof that the log continues the one it has seen (422){0}")]
    Inconsistent(String),
    /// Another status.
    #[error("it answers {0}{1}")]
    Status(StatusCode, String),
    /// A body of another form.
    #[error("its answer is not a list of signatures")]
    Malformed,
    /// A body without a line of this witness.
    #[error("its answer has no signature of the configured vkey")]
    OtherWitness,
    /// A line of this witness with a wrong signature.
    #[error("its signature does not hold")]
    False,
    /// A line with a time far from ours.
    #[error("its clock or ours is wrong: it signs the time {0}, more than an hour from now")]
    Time(String),
}

impl fmt::Display for AddCheckpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        let mut path = self.path.iter();
        path.try_for_each(|hash| writeln!(f, "{}", hash_text(hash)))?;
        write!(f, "\n{}", self.checkpoint)
    }
}

impl Refusal {
    /// Returns the word for metrics.
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Malformed | Self::OtherWitness | Self::False | Self::Time(_) => Outcome::False,
            _ => Outcome::Refused,
        }
    }
}

/// The outcome of a request to a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The witness has cosigned.
    Cosigned,
    /// The witness knows a checkpoint that the store does not have.
    Ahead,
    /// The witness refuses to cosign.
    Refused,
    /// The witness sends something other than its cosignature.
    False,
    /// The witness does not answer.
    Unreachable,
    /// The store gives no checkpoint, or no proof.
    Store,
}

impl Outcome {
    /// The words for metrics, in the order of the values.
    pub(super) const WORDS: [&'static str; 6] =
        ["cosigned", "ahead", "refused", "false", "unreachable", "store"];

    /// Returns the place in [`Outcome::WORDS`].
    pub(super) const fn place(self) -> usize {
        self as usize
    }
}

/// An answer as it came.
#[derive(Debug)]
pub struct Received {
    /// The status.
    pub status: StatusCode,
    /// The content type, if there is one.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// Reads the answer to a request to cosign `note`, at the time `now`.
    ///
    /// # Errors
    /// When the witness refuses, or its answer is not its cosignature of this checkpoint.
    pub fn read(&self, note: &Note, witness: &VerifierKey, now: Moment) -> Result<Answer, Refusal> {
        match self.status {
            StatusCode::OK => self.cosignature(note, witness, now).map(Answer::Cosigned),
            StatusCode::CONFLICT => match self.size() {
                Some(size) => Ok(Answer::Size(size)),
                None => Err(Refusal::Status(self.status, self.shown())),
            },
            StatusCode::NOT_FOUND => Err(Refusal::UnknownLog),
            StatusCode::FORBIDDEN => Err(Refusal::OtherKey),
            StatusCode::UNPROCESSABLE_ENTITY => Err(Refusal::Inconsistent(self.shown())),
            status => Err(Refusal::Status(status, self.shown())),
        }
    }

    fn cosignature(
        &self,
        note: &Note,
        witness: &VerifierKey,
        now: Moment,
    ) -> Result<Signature, Refusal> {
        let text = str::from_utf8(&self.body).map_err(|_| Refusal::Malformed)?;
        let lines = text.strip_suffix('\n').ok_or(Refusal::Malformed)?;
        let lines: Result<Vec<Signature>, _> = lines.split('\n').map(str::parse).collect();
        let lines = lines.map_err(|_| Refusal::Malformed)?;
        // Lines of other keys do not count.
        let mut lines = lines.into_iter();
        let line = lines.find(|line| line.is_named_after(witness));
        let line = line.ok_or(Refusal::OtherWitness)?;
        let time = line.time_over(note.text(), witness).ok_or(Refusal::False)?;
        let time = Moment::from_millis(time.saturating_mul(1_000));
        if time.since(now).max(now.since(time)) > SKEW {
            Err(Refusal::Time(crawlgate_text::time_text(time)))
        } else {
            Ok(line)
        }
    }

    fn size(&self) -> Option<u64> {
        let content_type = self.content_type.as_deref()?;
        let essence = content_type.split(';').next()?.trim();
        if !essence.eq_ignore_ascii_case(SIZE_TYPE) {
            return None;
        }
        let text = str::from_utf8(&self.body).ok()?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let size: u64 = text.parse().ok().filter(|size| *size <= MAX_SIZE)?;
        (size.to_string() == text).then_some(size)
    }

    /// Returns the beginning of the first line, for a message.
    fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line = text.lines().next().unwrap_or_default();
        let line: String = line.chars().filter(|one| !one.is_control()).collect();
        let short: String = line.chars().take(MAX_SHOWN).collect();
        if short.is_empty() { short } else { format!(": {short}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_tlog::samples::{cosign, pair};
    use crawlgate_tlog::{EMPTY_ROOT, Signer};

    const NOW: Moment = Moment::from_millis(1_795_176_000_000);

    fn note() -> Note {
        let pair = pair(1);
        Signer::new("log".parse().unwrap(), &pair).checkpoint(0, EMPTY_ROOT)
    }

    #[test]
    fn the_question_is_that_of_the_specification() {
        let note = "log\n3\nAAAA\n\n— log AAAA\n";
        let request = AddCheckpoint { old: 2, path: vec![[0; 32], [1; 32]], checkpoint: note };
        let text = format!(
            "old 2\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\
             AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n\n{note}"
        );
        assert_eq!(request.to_string(), text);
        let none = AddCheckpoint { old: 0, path: Vec::new(), checkpoint: note };
        assert_eq!(none.to_string(), format!("old 0\n\n{note}"));
    }

    #[test]
    fn an_answer_is_believed_only_where_a_signature_holds() {
        let note = note();
        let seconds = NOW.as_millis() / 1_000;
        let of = |name: &str, seed, time| cosign(note.text(), name, seed, time);
        let (witness, right) = of("witness", 3, seconds);
        let line = |one: &Signature| format!("{one}\n");
        let (_, other) = of("other", 4, seconds);
        let (_, namesake) = of("witness", 4, seconds);
        let (_, of_other_text) = cosign("log\n1\n", "witness", 3, seconds);
        let early = of("witness", 3, seconds - 3_601).1;
        let late = of("witness", 3, seconds + 3_601).1;
        let zero = of("witness", 3, 0).1;
        let cosigned = Ok(Answer::Cosigned(right.clone()));
        let status = |code: u16, text: &str| {
            Err(Refusal::Status(StatusCode::from_u16(code).unwrap(), text.to_owned()))
        };
        let time = |text: &str| Err(Refusal::Time(text.to_owned()));
        let size = "text/x.tlog.size";
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("one line", 200, "", line(&right), cosigned.clone()),
            ("lines of other keys before and behind", 200, "", line(&other) + &line(&namesake) + &line(&right) + &line(&other), cosigned),
            ("an hour early", 200, "", line(&of("witness", 3, seconds - 3_600).1), Ok(Answer::Cosigned(of("witness", 3, seconds - 3_600).1))),
            ("more than an hour early", 200, "", line(&early), time("2026-11-20T10:59:59.000Z")),
            ("more than an hour late", 200, "", line(&late), time("2026-11-20T13:00:01.000Z")),
            ("no time", 200, "", line(&zero), time("1970-01-01T00:00:00.000Z")),
            ("another key of the name", 200, "", line(&namesake), Err(Refusal::OtherWitness)),
            ("another witness", 200, "", line(&other), Err(Refusal::OtherWitness)),
            ("another text", 200, "", line(&of_other_text), Err(Refusal::False)),
            ("no line feed", 200, "", right.to_string(), Err(Refusal::Malformed)),
            ("nothing", 200, "", String::new(), Err(Refusal::Malformed)),
            ("a page", 200, "text/html", "<html>\n".to_owned(), Err(Refusal::Malformed)),
            ("a size", 409, size, "12\n".to_owned(), Ok(Answer::Size(12))),
            ("a size with a charset", 409, "text/x.tlog.size; charset=utf-8", "12\n".to_owned(), Ok(Answer::Size(12))),
            ("a size of another type", 409, "text/plain", "12\n".to_owned(), status(409, ": 12")),
            ("a size beyond 63 bits", 409, size, "9223372036854775808\n".to_owned(), status(409, ": 9223372036854775808")),
            ("a size with a zero", 409, size, "012\n".to_owned(), status(409, ": 012")),
            ("no size", 409, size, String::new(), status(409, "")),
            ("an unknown log", 404, "", "who?".to_owned(), Err(Refusal::UnknownLog)),
            ("an unknown key", 403, "", String::new(), Err(Refusal::OtherKey)),
            ("no proof", 422, "", "bad proof\nmore".to_owned(), Err(Refusal::Inconsistent(": bad proof".to_owned()))),
            ("a redirect", 302, "", String::new(), status(302, "")),
            ("a fault", 500, "", "\u{1b}[1mx".to_owned(), status(500, ": [1mx")),
        ];
        for (name, code, content_type, body, want) in rows {
            let received = Received {
                status: StatusCode::from_u16(code).unwrap(),
                content_type: Some(content_type.to_owned()),
                body: body.into_bytes(),
            };
            assert_eq!(received.read(&note, &witness, NOW), want, "{name}");
        }
    }
}
