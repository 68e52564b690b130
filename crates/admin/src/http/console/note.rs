//! The form of a note on decisions: the person's name, and the words. A field that makes no sense is told beside it.

use http::{HeaderMap, StatusCode};

use super::super::problem::Problem;
use super::filter::FieldErrors;
use super::reviewer::Reviewer;
use crate::query::InvalidParam;
use crawlgate_policy::overrides::words;
use crawlgate_store::Acknowledgement;
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_tlog::leaf_hash;

/// The fields, as they are filled in.
pub(super) struct NoteForm {
    pub(super) by: String,
    pub(super) text: String,
    faults: FieldErrors,
}

impl NoteForm {
    /// Returns the form with the remembered name.
    pub(super) fn of(Reviewer(by): Reviewer) -> NoteForm {
        NoteForm { by, text: String::new(), faults: FieldErrors::default() }
    }

    /// Reads the note of a person.
    ///
    /// # Errors
    /// The form as it was, if a field makes no sense.
    pub(super) fn read(by: &str, text: &str, now: Moment) -> Result<Acknowledgement, NoteForm> {
        match (words(by), words(text)) {
            (Ok(by), Ok(note)) => Ok(Acknowledgement { time: now, by, note }),
            (read_by, read_text) => {
                let faults = [("by", read_by.err()), ("note", read_text.err())];
                let faults = faults.map(|(name, why)| Some(InvalidParam::new(name, why?)));
                Err(NoteForm {
                    by: by.to_owned(),
                    text: text.to_owned(),
                    faults: FieldErrors::all(faults.into_iter().flatten().collect()),
                })
            }
        }
    }

    /// Returns what is wrong with a field.
    pub(super) fn fault(&self, name: &str) -> Option<String> {
        self.faults.of(name)
    }

    /// Tells whether a field makes no sense.
    pub(super) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Returns the status of a page with this form. A program reads no page: it gets the first fault as a problem.
    pub(super) fn status(&self, headers: &HeaderMap) -> Result<StatusCode, Problem> {
        self.faults.status(headers)
    }
}

/// Returns the mark of an acknowledgement, by which a form says which one its page showed.
pub(super) fn mark_of(seen: &Acknowledgement) -> String {
    let Acknowledgement { time, by, note } = seen;
    hex(leaf_hash(format!("{}\0{by}\0{note}", time.as_millis()).as_bytes()))
}
