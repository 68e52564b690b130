//! A decision with the objects that its entry names.

use std::fmt;
use std::ops::Deref;

use super::{Cell, LineError, Objects, most_in_line, read};
use crate::Malformed;
use crate::decision::Decision;
use crate::object::{Asserted, Basis, Outage};
use crate::read::Entry;
use crawlgate_origins::document::Document;
use crawlgate_text::json;
use crawlgate_usage::record::UsageRecord;

/// A decision with the objects that its entry names: all that its line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told<'a> {
    /// The decision.
    pub decision: Decision<'a>,
    /// The override that decided.
    pub overridden: Option<Asserted<'a>>,
    /// The state of the origin's robots.txt.
    pub robots: Option<File<'a>>,
    /// The state of the origin's tdmrep.json, if it was asked.
    pub tdmrep: Option<File<'a>>,
    /// The object without which the three above are not given: it is missing or invalid.
    pub missing: Option<LineError>,
}

/// The state of a file that a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct File<'a> {
    /// The file.
    pub document: Document,
    /// Its state.
    pub basis: Basis<'a>,
}

/// The reason why an entry is no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untold {
    /// It is an event of this name.
    Event(&'static str),
    /// It is no entry.
    Malformed(Malformed),
    /// It is an event, and an object that it names is missing or invalid.
    Lacks(LineError),
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(name) => write!(f, "it is the event {name}, and no decision"),
            Self::Malformed(why) => why.fmt(f),
            Self::Lacks(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Untold {}

impl<'a> Told<'a> {
    /// Reads an entry with its objects.
    ///
    /// # Errors
    /// When the entry is no decision.
    pub fn read(entry: &'a [u8], objects: &'a impl Objects) -> Result<Self, Untold> {
        match Entry::read(entry).map_err(Untold::Malformed)? {
            Entry::Decision(decision) => Ok(Self::of(decision, objects)),
            Entry::Event(event) => {
                let [overridden, ..] = Entry::Event(event).objects();
                read("override", overridden, objects, Asserted::read).map_err(Untold::Lacks)?;
                Err(Untold::Event(event.kind.name()))
            }
        }
    }

    pub(super) fn bare(decision: Decision<'a>) -> Self {
        Self { decision, overridden: None, robots: None, tdmrep: None, missing: None }
    }

    /// Adds its objects to a decision.
    pub fn of(decision: Decision<'a>, objects: &'a impl Objects) -> Self {
        let bare = Self::bare(decision);
        let whole = || {
            let overridden = read("override", decision.overridden, objects, Asserted::read)?;
            let robots = read("robots", decision.basis, objects, Basis::read)?;
            let tdmrep = read("tdmrep", decision.tdmrep, objects, Basis::read)?;
            let file = |document, basis: Option<_>| basis.map(|basis| File { document, basis });
            Ok(Self {
                overridden,
                robots: file(Document::RobotsTxt, robots),
                tdmrep: file(Document::TdmRep, tdmrep),
                ..bare
            })
        };
        whole().unwrap_or_else(|error| Self { missing: Some(error), ..bare })
    }

    /// Returns what the site says of use, and the purposes that it refused.
    #[must_use]
    pub fn usage_record(&self) -> Option<UsageRecord<'static>> {
        self.decision.usage.and_then(UsageRecord::read)
    }

    /// Returns the value of a column.
    #[must_use]
    pub fn cell(&self, column: &str) -> Cell<'a> {
        let column = super::COLUMNS.iter().find(|one| one.name == column);
        column.map_or(Cell::Absent, |column| column.of(self))
    }

    pub(super) fn outage(&self) -> Option<Outage<'a>> {
        self.robots.and_then(|file| file.outage)
    }
}

impl<'a> Deref for Told<'a> {
    type Target = Decision<'a>;

    fn deref(&self) -> &Decision<'a> {
        &self.decision
    }
}

impl<'a> Deref for File<'a> {
    type Target = Basis<'a>;

    fn deref(&self) -> &Basis<'a> {
        &self.basis
    }
}

impl File<'_> {
    /// Returns the URL of the file.
    #[must_use]
    pub fn url(&self) -> String {
        [self.basis.origin, self.document.path()].concat()
    }

    /// Returns the URL after redirects as the line has it.
    #[must_use]
    pub fn final_url_text(&self) -> Option<String> {
        let url = self.basis.final_url?;
        Some(json::spelled(url, 0, most_in_line::REDIRECTED_URL).into_owned())
    }
}
