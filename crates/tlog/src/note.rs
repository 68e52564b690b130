//! Signed notes: a text, an empty line, and one line for each signature (c2sp.org/signed-note@v1.0.0).
//!
//! A note from outside is worth nothing before [`Note::verify`]. Signatures of unknown keys are neither trusted nor
//! dropped: a note that was read is written again octet for octet.

use std::fmt;

use thiserror::Error;

use super::key::{KeyName, VerifierKey};
use super::signature::{Signature, Signer, Verified};

/// The octets of the longest note that is read. Sixteen post-quantum signatures take 110,000.
pub const MAX_NOTE: usize = 1_000_000;

/// Signatures that a note may have; the specification asks for 16 at least.
pub const MAX_SIGNATURES: usize = 100;

/// A text with at least one signature, none of which has been checked. `Display` writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Ends in a line feed.
    text: String,
    signatures: Vec<Signature>,
}

/// The reason why octets are no note, or a note is not to be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoteError {
    /// The note is longer than [`MAX_NOTE`].
    #[error("the note has {0} octets, more than {MAX_NOTE}")]
    Long(usize),
    /// The note is not UTF-8, or has a control character.
    #[error("the note is not UTF-8 without control characters")]
    Characters,
    /// The text does not end in a line feed, or no signatures follow after an empty line.
    #[error("the note is not a text, an empty line and signatures")]
    Form,
    /// A signature line is malformed.
    #[error("signature line {0} is malformed")]
    Line(usize),
    /// The note has more than [`MAX_SIGNATURES`].
    #[error("the note has more than {MAX_SIGNATURES} signatures")]
    Many,
    /// A known key has not made the signature in its name.
    #[error("the signature of {0} does not hold")]
    Invalid(KeyName),
    /// No known key has signed.
    #[error("no known key has signed the note")]
    Unsigned,
}

impl Note {
    /// Signs a text.
    ///
    /// # Errors
    /// When the text does not end in a line feed, has control characters or is too long.
    pub fn sign(text: String, signer: &Signer<'_>) -> Result<Self, NoteError> {
        readable(text.as_bytes())?;
        if !text.ends_with('\n') {
            return Err(NoteError::Form);
        }
        let signature = signer.sign(&text);
        Ok(Self::with(text, signature))
    }

    pub(super) fn with(text: String, signature: Signature) -> Self {
        let signatures = vec![signature];
        Self { text, signatures }
    }

    /// Reads a note. The signatures are still to be verified.
    ///
    /// # Errors
    /// When the octets are no note, or exceed the limits.
    pub fn parse(octets: &[u8]) -> Result<Self, NoteError> {
        let note = readable(octets)?;
        let (text, lines) = note.rsplit_once("\n\n").ok_or(NoteError::Form)?;
        let lines = lines.strip_suffix('\n').ok_or(NoteError::Form)?;
        if lines.split('\n').nth(MAX_SIGNATURES).is_some() {
            return Err(NoteError::Many);
        }
        let read = |(n, line): (usize, &str)| line.parse().map_err(|_| NoteError::Line(n + 1));
        let signatures = lines.split('\n').enumerate().map(read);
        Ok(Self { text: format!("{text}\n"), signatures: signatures.collect::<Result<_, _>>()? })
    }

    /// Returns the signed text, with its last line feed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns all signatures in their order.
    #[must_use]
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// Adds a signature: of a second key, or the line that a witness answered.
    ///
    /// # Errors
    /// When the note would have more than [`MAX_SIGNATURES`].
    pub fn push(&mut self, signature: Signature) -> Result<(), NoteError> {
        if self.signatures.len() >= MAX_SIGNATURES {
            return Err(NoteError::Many);
        }
        self.signatures.push(signature);
        Ok(())
    }

    /// Checks the signatures of known keys, and returns those that hold: at least one. A key that has signed more than
    /// once counts once, with its first signature.
    ///
    /// # Errors
    /// When no known key has signed, or a signature in the name of a known key does not hold.
    pub fn verify<'k>(&self, keys: &'k [VerifierKey]) -> Result<Vec<Verified<'k>>, NoteError> {
        let mut verified: Vec<Verified<'k>> = Vec::new();
        for signature in &self.signatures {
            let known = keys.iter().find(|key| signature.is_named_after(key));
            if let Some(key) = known {
                let checked = signature.check(&self.text, key);
                let checked = checked.ok_or_else(|| NoteError::Invalid(key.name().clone()))?;
                if !verified.iter().any(|earlier| earlier.key == key) {
                    verified.push(checked);
                }
            }
        }
        if verified.is_empty() { Err(NoteError::Unsigned) } else { Ok(verified) }
    }

    /// Returns the signatures of these keys that hold, and passes over all others. A key counts once.
    pub fn holding<'k>(&self, keys: &'k [VerifierKey]) -> Vec<Verified<'k>> {
        let of = |key: &'k VerifierKey| {
            let named = self.signatures.iter().filter(|one| one.is_named_after(key));
            named.filter_map(|one| one.check(&self.text, key)).next()
        };
        keys.iter().filter_map(of).collect()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        let mut signatures = self.signatures.iter();
        signatures.try_for_each(|signature| writeln!(f, "{signature}"))
    }
}

/// Returns the octets as text that a note may have.
fn readable(octets: &[u8]) -> Result<&str, NoteError> {
    if octets.len() > MAX_NOTE {
        return Err(NoteError::Long(octets.len()));
    }
    let text = str::from_utf8(octets).map_err(|_| NoteError::Characters)?;
    if text.contains(|one: char| one < ' ' && one != '\n') {
        Err(NoteError::Characters)
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyKind;
    use crate::tests::{cosign, pair, signer};

    /// The example in c2sp.org/signed-note.
    const EXAMPLE: &str = "This is an example message.\n\n\
        — example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
    const KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

    #[test]
    fn the_published_note_is_read_verified_and_written() {
        let note = Note::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(note.text(), "This is an example message.\n");
        assert_eq!(note.to_string(), EXAMPLE);
        let keys = [KEY.parse().unwrap()];
        let key = &keys[0];
        assert_eq!(note.verify(&keys), Ok(vec![Verified { key, time: None }]));
        assert!(note.signatures()[0].is_named_after(key));
    }

    #[test]
    fn the_text_ends_at_the_last_empty_line() {
        let poem = "Ognuno sta solo sul cuor della terra\n\
            trafitto da un raggio di sole:\n\ned è subito sera.\n";
        let note = format!(
            "{poem}\n— quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
        );
        let read = Note::parse(note.as_bytes()).unwrap();
        assert_eq!((read.text(), read.to_string()), (poem, note));
        let open = Note::parse("a\n\n\n— b AAAAAAA=\n".as_bytes()).unwrap();
        assert_eq!(open.text(), "a\n\n");
    }

    #[test]
    fn octets_that_are_no_note_are_refused() {
        let line = "— a AAAAAAA=\n";
        let (many, long) = (line.repeat(MAX_SIGNATURES + 1), "x".repeat(MAX_NOTE));
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("nothing", String::new(), NoteError::Form),
            ("no signatures", "a\n".to_owned(), NoteError::Form),
            ("no signatures behind the empty line", "a\n\n".to_owned(), NoteError::Form),
            ("no line feed at the end", "a\n\n— a AAAAAAA=".to_owned(), NoteError::Form),
            ("no empty line", format!("a\n{line}"), NoteError::Form),
            ("a text behind the signature", format!("a\n\n{line}b\n"), NoteError::Line(2)),
            ("a carriage return", format!("a\r\n\n{line}"), NoteError::Characters),
            ("a NUL", format!("a\0\n\n{line}"), NoteError::Characters),
            ("a hyphen for the dash", "a\n\n- a AAAAAAA=\n".to_owned(), NoteError::Line(1)),
            ("two spaces", "a\n\n—  a AAAAAAA=\n".to_owned(), NoteError::Line(1)),
            ("two spaces before the signature", "a\n\n— a  AAAAAAA=\n".to_owned(), NoteError::Line(1)),
            ("a space at the end", "a\n\n— a AAAAAAA= \n".to_owned(), NoteError::Line(1)),
            ("no name", "a\n\n— AAAAAAA=\n".to_owned(), NoteError::Line(1)),
            ("a plus in the name", "a\n\n— a+b AAAAAAA=\n".to_owned(), NoteError::Line(1)),
            ("an id without signature", "a\n\n— a AAAAAA==\n".to_owned(), NoteError::Line(1)),
            ("no padding", "a\n\n— a AAAAAAA\n".to_owned(), NoteError::Line(1)),
            ("bits behind the last octet", "a\n\n— a AAAAAAB=\n".to_owned(), NoteError::Line(1)),
            ("too many signatures", format!("a\n\n{many}"), NoteError::Many),
            ("too long", format!("{long}\n\n{line}"), NoteError::Long(MAX_NOTE + 2 + line.len())),
        ];
        for (name, note, why) in rows {
            assert_eq!(Note::parse(note.as_bytes()), Err(why), "{name}");
        }
        assert_eq!(Note::parse(b"\xff\n\n- a b\n"), Err(NoteError::Characters));
        let most = format!("a\n\n{}", line.repeat(MAX_SIGNATURES));
        let mut most = Note::parse(most.as_bytes()).unwrap();
        let further = most.signatures()[0].clone();
        assert_eq!(most.push(further), Err(NoteError::Many));
    }

    #[test]
    fn each_signature_counts_for_its_own_key() {
        let (old, new) = (pair(1), pair(2));
        let (old, new) = (signer("log", &old), signer("log", &new));
        let mut note = Note::sign("text\n".to_owned(), &old).unwrap();
        note.push(new.sign(note.text())).unwrap();
        let (witness, cosignature) = cosign(note.text(), "witness", 3, 1_679_315_147);
        note.push(cosignature.to_string().parse().unwrap()).unwrap();
        let read = Note::parse(note.to_string().as_bytes()).unwrap();
        assert_eq!(read, note);

        let verify = |keys: &[&VerifierKey]| {
            let keys: Vec<_> = keys.iter().copied().cloned().collect();
            let verified = note.verify(&keys);
            verified.map(|all| all.iter().map(|one| (one.key.id(), one.time)).collect::<Vec<_>>())
        };
        let (old, new) = (old.key(), new.key());
        let time = Some(1_679_315_147);
        assert_eq!(verify(&[old]), Ok(vec![(old.id(), None)]));
        assert_eq!(verify(&[new, old]), Ok(vec![(old.id(), None), (new.id(), None)]));
        assert_eq!(verify(&[&witness]), Ok(vec![(witness.id(), time)]));
        // The same key under another name or kind is another key.
        let as_note = VerifierKey::new(witness.name().clone(), KeyKind::Ed25519, *witness.public());
        let as_other = VerifierKey::new("other".parse().unwrap(), KeyKind::Ed25519, *old.public());
        assert_eq!(verify(&[&as_note, &as_other]), Err(NoteError::Unsigned));
        assert_eq!(verify(&[]), Err(NoteError::Unsigned));
    }

    #[test]
    fn a_key_that_signs_twice_counts_once() {
        let pair = pair(1);
        let log = signer("log", &pair);
        let mut note = Note::sign("text\n".to_owned(), &log).unwrap();
        let (witness, first) = cosign(note.text(), "witness", 3, 7);
        let (_, second) = cosign(note.text(), "witness", 3, 8);
        for signature in [first, second.clone(), second, log.sign("text\n")] {
            note.push(signature).unwrap();
        }
        let keys = [log.key().clone(), witness];
        let found = note.verify(&keys).unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.key, one.time)).collect();
        assert_eq!(found, [(&keys[0], None), (&keys[1], Some(7))]);
        // The further signatures are checked, too.
        let (_, false_one) = cosign("other\n", "witness", 3, 7);
        note.push(false_one).unwrap();
        let why = NoteError::Invalid("witness".parse().unwrap());
        assert_eq!(note.verify(&keys), Err(why));
    }

    #[test]
    fn signatures_that_do_not_hold_are_passed_over() {
        let pair = pair(1);
        let log = signer("log", &pair);
        let mut note = Note::sign("text\n".to_owned(), &log).unwrap();
        let (witness, _) = cosign("other\n", "witness", 3, 7);
        let (stranger, of_stranger) = cosign(note.text(), "stranger", 4, 8);
        let (_, wrong) = cosign("other\n", "witness", 3, 7);
        note.push(wrong).unwrap();
        note.push(of_stranger).unwrap();
        let holding = |keys: &[VerifierKey]| {
            let all = note.holding(keys);
            all.iter().map(|one| one.time).collect::<Vec<_>>()
        };
        let log = log.key().clone();
        assert!(holding(&[]).is_empty());
        assert!(holding(std::slice::from_ref(&witness)).is_empty());
        assert_eq!(holding(&[witness.clone(), log, stranger]), [None, Some(8)]);
        let (_, right) = cosign(note.text(), "witness", 3, 9);
        let mut note = note.clone();
        note.push(right).unwrap();
        let keys = [witness];
        let all = note.holding(&keys);
        assert_eq!(all.iter().map(|one| one.time).collect::<Vec<_>>(), [Some(9)]);
    }

    #[test]
    fn a_text_that_no_note_can_have_is_not_signed() {
        let pair = pair(1);
        let sign = |text: &str| Note::sign(text.to_owned(), &signer("log", &pair)).err();
        assert_eq!(sign("text"), Some(NoteError::Form));
        assert_eq!(sign("a\tb\n"), Some(NoteError::Characters));
        assert_eq!(sign("\n"), None);
    }
}
