//! The filing of records, with the bodies that they name, in one transaction.

use std::ops::Range;

use super::super::{ExportDir, Exported, Gap, Ground};
use super::{ImportError, PastGaps};
use crawlgate_block::MAX_ENTRIES;
use crawlgate_record::{Basis, Entry, EventKind};
use crawlgate_store::sqlite::collected::{Filing, MissingBody};
use crawlgate_store::{Entries, ObjectKind, Sha256, objects_of};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::BUNDLE;

/// Octets of entries to file at once.
const AT_ONCE: usize = 4 * 1024 * 1024;

/// The filing of records in one transaction.
pub(super) struct Step<'e, 's> {
    export: &'e Exported,
    pub(super) filing: Filing<'s>,
    /// The roots below the first record of the copy, to be filed before it.
    ground: Option<Ground>,
    batch: Entries,
    /// The latest time of a record.
    pub(super) time: Moment,
    /// Number of records that the export states to be missing.
    pub(super) lost: u64,
    /// Number of records that the copy has given up: they lie in one bundle with missing ones.
    pub(super) given_up: u64,
    /// The treatment of collected records that lie in one bundle with missing ones.
    past_gaps: PastGaps,
    /// The last record, if it replaces the key of the log.
    pub(super) rotation: Option<Vec<u8>>,
}

impl<'e, 's> Step<'e, 's> {
    /// Begins the filing.
    pub(super) fn of(
        export: &'e Exported,
        filing: Filing<'s>,
        ground: Option<Ground>,
        (time, past_gaps): (Moment, PastGaps),
    ) -> Self {
        Self {
            export,
            filing,
            ground,
            batch: Entries::default(),
            time,
            lost: 0,
            given_up: 0,
            past_gaps,
            rotation: None,
        }
    }

    /// Files the records of a range.
    pub(super) fn file(
        mut self,
        range: Range<u64>,
        mut progress: impl FnMut(u64),
    ) -> Result<Self, ImportError> {
        let export = self.export;
        parts(export, range, |range, part| {
            match part {
                Part::Entries(file) => {
                    export.entries(file, |index, entry| match range.contains(&index) {
                        true => self.record(index, entry),
                        false => Ok(()),
                    })?;
                }
                Part::Gap(gap) => self.gap(&gap)?,
            }
            progress(range.end);
            Ok(())
        })?;
        self.flush()?;
        Ok(self)
    }

    /// Files a gap. In the middle of a bundle, the copy would have to give up the records before it.
    fn gap(&mut self, gap: &Gap) -> Result<(), ImportError> {
        self.flush()?;
        self.ground(self.time)?;
        let given_up = gap.first % BUNDLE;
        if given_up > 0 && self.past_gaps == PastGaps::Stop {
            return Err(ImportError::Joined { first: gap.first + 1, last: gap.end, given_up });
        }
        let mut tree = self.filing.tree();
        let roots = gap.append_to(&mut tree).map_err(|_| ImportError::Joined {
            first: gap.first + 1,
            last: gap.end,
            given_up,
        })?;
        self.filing.missing(&roots, self.time)?;
        self.lost += gap.end - gap.first;
        self.given_up += given_up;
        self.rotation = None;
        Ok(())
    }

    fn ground(&mut self, time: Moment) -> Result<(), ImportError> {
        if let Some(Ground { segments, bundles, .. }) = self.ground.take() {
            self.filing.dropped_roots(&segments, &bundles, time)?;
        }
        Ok(())
    }

    fn record(&mut self, index: u64, octets: &[u8]) -> Result<(), ImportError> {
        let entry = read(index, octets)?;
        let time = Moment::from_millis(entry.time());
        self.ground(time)?;
        self.time = self.time.max(time);
        let is_rotation = matches!(entry, Entry::Event(event) if matches!(event.kind, EventKind::KeyRotated { .. }));
        self.rotation = is_rotation.then(|| octets.to_vec());
        for (kind, sha256) in objects_of(&entry) {
            self.object(*sha256, kind, time)?;
        }
        self.batch.push(|out| out.extend_from_slice(octets));
        if self.batch.octets() >= AT_ONCE || self.batch.len() >= MAX_ENTRIES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), ImportError> {
        self.filing.records(&self.batch)?;
        self.batch.clear(AT_ONCE, AT_ONCE);
        Ok(())
    }

    /// Files an object, and the text that it names.
    fn object(&mut self, sha256: Sha256, kind: ObjectKind, at: Moment) -> Result<(), ImportError> {
        if self.filing.knows(&sha256)? {
            return Ok(());
        }
        let body = self.export.body(ExportDir::Objects, &sha256)?;
        let missing = MissingBody { sha256, kind: Some(kind) };
        self.filing.object(missing, body.as_deref(), at)?;
        if let Some(text) = body.as_deref().and_then(|body| text_of(kind, body)) {
            file_text(self.export, &mut self.filing, text)?;
        }
        Ok(())
    }
}

/// Returns the digest of the robots.txt that an object names.
pub(super) fn text_of(kind: ObjectKind, body: &[u8]) -> Option<&Sha256> {
    match kind {
        ObjectKind::Basis => Basis::read(body).ok()?.sha256,
        ObjectKind::PolicySettings | ObjectKind::Override => None,
    }
}

/// Files the text of a robots.txt, unless it is there. False if the export does not have it.
pub(super) fn file_text(
    export: &Exported,
    filing: &mut Filing<'_>,
    sha256: &Sha256,
) -> Result<bool, ImportError> {
    if !filing.lacks_text(sha256)? {
        return Ok(true);
    }
    let Some(body) = export.body(ExportDir::Robots, sha256)? else {
        return Ok(false);
    };
    filing.text(sha256, &body)?;
    Ok(true)
}

/// The next part of an export.
pub(super) enum Part {
    /// The file with these entries: the first index, and that behind the last.
    Entries((u64, u64)),
    /// The statement that entries are missing.
    Gap(Gap),
}

/// Visits the files that hold the entries of a range, each with the first entry of the range in it and the index behind the
/// last, and the gaps among them.
pub(super) fn parts(
    export: &Exported,
    range: Range<u64>,
    mut visit: impl FnMut(Range<u64>, Part) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut at = range.start;
    while at < range.end {
        if let Some(file) = export.block_with(at) {
            let end = file.1.min(range.end);
            visit(at..end, Part::Entries(file))?;
            at = end;
            continue;
        }
        let mut gap = None;
        for one in export.gaps_with(at) {
            gap = export.gap(one)?.part(at, range.end);
            if gap.is_some() {
                break;
            }
        }
        let Some(gap) = gap else {
            let last = export.next_behind(at);
            let last = last.map_or(range.end, |next| next.min(range.end));
            return Err(ImportError::Gap { first: at + 1, last });
        };
        let end = gap.end;
        visit(at..end, Part::Gap(gap))?;
        at = end;
    }
    Ok(())
}

/// Reads the entry of an index.
pub(super) fn read(index: u64, octets: &[u8]) -> Result<Entry<'_>, ImportError> {
    Entry::read(octets).map_err(|error| ImportError::Entry { record: index + 1, error })
}
