//! An export brought into the collected copy of its log.
//!
//! Nothing of the export is believed but what the signature of a trusted key covers: entries are hashed as they come, the
//! root over them and over the copy must be the signed one, and bodies must have the digests that name them.
//!
//! The part between two checkpoints is filed in one transaction, unless it is long: then it is first read and hashed up
//! to the signed root, and filed in parts afterwards, each of which must lead to the root that was found there. So the room
//! for a transaction has a bound, and a copy holds nothing but what a signature covers; a run that was cut off is
//! continued.

mod fault;
mod step;

pub use self::fault::ImportError;
use self::step::{Part, Step, file_text, parts, read, text_of};
use super::read::Exported;
use super::{ExportDir, Ground};
use crate::verify::keys::Keys;
use crawlgate_block::MAX_ENTRIES;
use crawlgate_store::rotation::Rotation;
use crawlgate_store::sqlite::collected::{Collected, Filing, MissingBody};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{Checkpoint, Hash, Note, Tree, VerifierKey, leaf_hash};

/// Entries of a transaction: sixteen blocks, some 20 MB with what they name.
const PART: u64 = 16 * MAX_ENTRIES as u64;

/// The keys by which checkpoints of a log are verified.
#[derive(Clone, Debug)]
struct Trusted<'k> {
    /// The keys of the log itself, with those that have replaced them.
    log: Keys,
    /// The keys of known witnesses.
    witnesses: &'k [VerifierKey],
}

impl Trusted<'_> {
    fn at(&self, size: u64) -> Vec<VerifierKey> {
        [&self.log.at(size), self.witnesses].concat()
    }

    /// Puts the new key of a rotation first, if the old or the new one is trusted. False for other keys.
    fn rotate(&mut self, one: &Rotation) -> bool {
        let all = &mut self.log.all;
        let is_known = all.contains(&one.old) || all.contains(&one.new);
        if is_known {
            all.retain(|key| *key != one.new);
            all.insert(0, one.new.clone());
        }
        is_known
    }
}

/// The result of an export that holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Records filed.
    pub records: u64,
    /// Size of the copy's log now: its records, with those that were dropped or are missing.
    pub size: u64,
    /// Records that the copy has now.
    pub kept: u64,
    /// Records that the newest checkpoint of the export covers.
    pub exported: u64,
    /// Bodies filed that earlier exports did not have.
    pub filled: u64,
    /// Bodies that records of the copy name, and that neither the copy nor the export has.
    pub missing: Vec<MissingBody>,
    /// Records that the export states to be missing.
    pub lost: u64,
    /// Records that the copy had, and has given up because they lie in one bundle with missing ones.
    pub given_up: u64,
}

/// A checkpoint with a trusted signature.
#[derive(Debug)]
struct SignedCheckpoint {
    checkpoint: Checkpoint,
    note: Note,
}

/// The treatment of collected records that lie in one bundle with missing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastGaps {
    /// The copy gives them up, and continues behind the gap.
    Go,
    /// The copy keeps them, and stops before the gap.
    Stop,
}

/// Files the records of an export that a copy does not have yet. `log` are the trusted keys of the log: they lead to those
/// that have replaced them. `progress` is told how many of how many records were read.
///
/// # Errors
/// When the export or the copy has a fault. Records before it are filed as far as a checkpoint covers them that holds.
pub fn import(
    export: &Exported,
    copy: &mut Collected,
    log: &[VerifierKey],
    witnesses: &[VerifierKey],
    past_gaps: PastGaps,
    progress: impl FnMut(u64, u64),
) -> Result<Imported, ImportError> {
    import_in_parts((PART, past_gaps), export, copy, (log, witnesses), progress)
}

/// Does the same in transactions of about `part` entries.
///
/// # Errors
/// As [`import`].
pub fn import_in_parts(
    (part, past_gaps): (u64, PastGaps),
    export: &Exported,
    copy: &mut Collected,
    (log, witnesses): (&[VerifierKey], &[VerifierKey]),
    progress: impl FnMut(u64, u64),
) -> Result<Imported, ImportError> {
    let mut keys = Trusted { log: log.to_vec().into(), witnesses };
    keys.log.follow(&copy.rotations()?);
    let (known, _) = copy.end();
    let newest = *export.checkpoints.last().ok_or(ImportError::NoCheckpoint)?;
    require_continued(export, copy, &keys, newest)?;
    let (start, ground) = beginning(export, known, newest)?;
    // A run that was cut off may have filed records without the checkpoint that covers them.
    let signed = copy.newest()?.map(|newest| newest.size);
    let before = match (signed, known) {
        (Some(signed), _) => signed,
        (None, 0) => start,
        (None, _) => copy.first()?,
    };
    let mut import = Import {
        export,
        time: copy.latest()?,
        copy,
        keys,
        part,
        past_gaps,
        progress,
        known,
        start,
        ground,
        is_trusted: false,
        imported: Imported { size: known, exported: newest, ..Imported::default() },
    };
    // The first checkpoints, if no trusted key has signed them: a later record may prove that their key is an earlier one
    // of the log.
    let mut earlier = Vec::new();
    let sizes = export.checkpoints.iter().copied();
    for size in sizes.filter(|size| *size > before) {
        // The signature before the records.
        match open(export, size, &import.keys) {
            Err(ImportError::Signature { .. })
                if signed.is_none() && !import.is_trusted && size < newest =>
            {
                earlier.push(size);
            }
            signed => import.file(&signed?, &mut earlier)?,
        }
    }
    let Import { copy, imported, .. } = import;
    let filled = fill(export, copy)?;
    Ok(Imported { filled, missing: copy.missing()?, kept: copy.kept()?, ..imported })
}

/// The filing of an export's records, checkpoint by checkpoint.
struct Import<'a, P> {
    export: &'a Exported,
    copy: &'a mut Collected,
    keys: Trusted<'a>,
    /// Entries of a transaction, about.
    part: u64,
    past_gaps: PastGaps,
    progress: P,
    /// Number of records that were collected before.
    known: u64,
    /// Index of the next record to file.
    start: u64,
    /// The roots below the first record of the copy, until they are filed with it.
    ground: Option<Ground>,
    /// The latest time of a record.
    time: Moment,
    /// The trusted keys stand in the copy.
    is_trusted: bool,
    imported: Imported,
}

impl<P: FnMut(u64, u64)> Import<'_, P> {
    /// Files the records up to a checkpoint, and the checkpoint with them. Those `earlier` come too, if the records prove
    /// that a trusted key replaced the one that signed them.
    fn file(
        &mut self,
        signed: &SignedCheckpoint,
        earlier: &mut Vec<u64>,
    ) -> Result<(), ImportError> {
        let SignedCheckpoint { checkpoint, note } = signed;
        let (size, known) = (checkpoint.size, self.known);
        let end = self.start.max(size);
        self.file_parts(end, checkpoint)?;
        let report = since(&mut self.progress, known, self.imported.exported);
        let state = (self.time, self.past_gaps);
        let step = Step::of(self.export, self.copy.begin()?, self.ground.take(), state);
        let Step { mut filing, rotation, time, lost, given_up, .. } =
            step.file(self.start..end, report)?;
        let root = if size < end { filing.root(size)? } else { filing.end().1 };
        if root != checkpoint.root {
            return Err(ImportError::Root { size, known });
        }
        filing.checkpoint(size, note, time)?;
        let rotation = match rotation {
            Some(entry) => filing.rotation(entry, note)?,
            None => None,
        };
        let rotation = rotation.filter(|one| self.keys.rotate(one));
        if !earlier.is_empty() {
            self.keys.log.follow(rotation.as_slice());
            for size in earlier.drain(..) {
                file_earlier(self.export, size, &self.keys, &mut filing, time)?;
            }
        }
        if !self.is_trusted || rotation.is_some() {
            filing.trust(&self.keys.log.all)?;
        }
        filing.commit()?;
        self.is_trusted = true;
        self.keys.log.follow(&self.copy.rotations()?);
        self.filed(end, time, (lost, given_up));
        Ok(())
    }

    /// Files the records up to `end` in parts, all but the last part, if one transaction cannot hold them. All parts must lead
    /// to the signed root first.
    fn file_parts(&mut self, end: u64, checkpoint: &Checkpoint) -> Result<(), ImportError> {
        let (size, known, exported) = (checkpoint.size, self.known, self.imported.exported);
        if end - self.start <= self.part {
            return Ok(());
        }
        let report = since(&mut self.progress, known, exported);
        let tree = match &self.ground {
            Some(ground) => ground.tree().ok_or(ImportError::Root { size, known })?,
            None => self.copy.tree(),
        };
        let range = (self.start, end);
        let mut ends = places(self.export, tree, range, self.part, report)?;
        if ends.pop() != Some((size, checkpoint.root)) {
            return Err(ImportError::Root { size, known });
        }
        for (end, root) in ends {
            let report = since(&mut self.progress, known, exported);
            let state = (self.time, self.past_gaps);
            let step = Step::of(self.export, self.copy.begin()?, self.ground.take(), state);
            let Step { filing, time, lost, given_up, .. } = step.file(self.start..end, report)?;
            if filing.end() != (end, root) {
                return Err(ImportError::Root { size, known });
            }
            if !self.is_trusted {
                filing.trust(&self.keys.log.all)?;
            }
            filing.commit()?;
            self.is_trusted = true;
            self.filed(end, time, (lost, given_up));
        }
        Ok(())
    }

    /// Counts the records up to `end`, which are filed.
    fn filed(&mut self, end: u64, time: Moment, (lost, given_up): (u64, u64)) {
        self.imported.records += end - self.start - lost;
        self.imported.lost += lost;
        self.imported.given_up += given_up;
        self.imported.size = end;
        (self.start, self.time) = (end, time);
    }
}

/// Returns the report of an index: the number of records read and to read behind the `known` ones.
fn since(progress: &mut impl FnMut(u64, u64), known: u64, exported: u64) -> impl FnMut(u64) {
    move |at| progress(at.saturating_sub(known), exported.saturating_sub(known))
}

/// Reads the entries from `start` to before `end` without filing them. Returns the ends of parts of about `part` entries,
/// the last of which is `end`, with the roots there. `tree` is that of the entries before.
fn places(
    export: &Exported,
    mut tree: Tree,
    (start, end): (u64, u64),
    part: u64,
    mut progress: impl FnMut(u64),
) -> Result<Vec<(u64, Hash)>, ImportError> {
    let (mut places, mut filed) = (Vec::new(), start);
    parts(export, start..end, |range, piece| {
        match piece {
            Part::Entries(file) => {
                export.entries(file, |index, octets| -> Result<(), ImportError> {
                    if range.contains(&index) {
                        read(index, octets)?;
                        tree.push(leaf_hash(octets));
                    }
                    Ok(())
                })?;
            }
            Part::Gap(gap) => {
                let (size, known) = (end, start);
                let appended = gap.append_to(&mut tree);
                appended.map_err(|_| ImportError::Root { size, known })?;
            }
        }
        let at = range.end;
        progress(at);
        if at - filed >= part || at == end {
            places.push((at, tree.root()));
            filed = at;
        }
        Ok(())
    })?;
    Ok(places)
}

/// Files a checkpoint over a part of the records.
fn file_earlier(
    export: &Exported,
    size: u64,
    keys: &Trusted<'_>,
    filing: &mut Filing<'_>,
    time: Moment,
) -> Result<(), ImportError> {
    let SignedCheckpoint { checkpoint, note } = open(export, size, keys)?;
    if filing.root(size)? != checkpoint.root {
        return Err(ImportError::Root { size, known: 0 });
    }
    filing.checkpoint(size, &note, time)?;
    Ok(())
}

/// Fails if a checkpoint of the export contradicts the copy: one of the size of the copy, or the newest if that is
/// smaller. All others are compared as the copy grows.
fn require_continued(
    export: &Exported,
    copy: &Collected,
    keys: &Trusted<'_>,
    newest: u64,
) -> Result<(), ImportError> {
    let (known, root) = copy.end();
    if let Some(newest) = copy.newest()? {
        let note = Note::parse(newest.note.as_bytes()).ok();
        let log = keys.log.at(newest.size);
        let opened = note.and_then(|note| Checkpoint::open(&note, &log).ok().map(drop));
        opened.ok_or(ImportError::Copy)?;
    }
    let met = if newest < known {
        Some(newest)
    } else {
        export.checkpoints.contains(&known).then_some(known)
    };
    let Some(size) = met.filter(|size| *size > 0) else {
        return Ok(());
    };
    let signed = open(export, size, keys)?;
    let ours = if size == known { Some(root) } else { copy.root(size)? };
    if ours.is_none_or(|ours| ours == signed.checkpoint.root) {
        Ok(())
    } else {
        Err(ImportError::Contradiction(size))
    }
}

/// Returns the first entry to file, and the roots below it if the copy is to begin there.
fn beginning(
    export: &Exported,
    known: u64,
    newest: u64,
) -> Result<(u64, Option<Ground>), ImportError> {
    if known > 0 || newest == 0 {
        return Ok((known, None));
    }
    // Files that came in part may end at an earlier checkpoint.
    let mut sizes = export.checkpoints.iter().rev();
    match sizes.find_map(|size| export.start(*size)) {
        None => Err(ImportError::Gap { first: newest, last: newest }),
        Some(0) => Ok((0, None)),
        Some(start) => Ok((start, Some(export.ground(start)?))),
    }
}

/// Reads a checkpoint, and verifies its signatures.
fn open(export: &Exported, size: u64, keys: &Trusted<'_>) -> Result<SignedCheckpoint, ImportError> {
    let note = export.checkpoint(size)?;
    let known = keys.at(size);
    let opened = Checkpoint::open(&note, &known);
    let (checkpoint, _) = opened.map_err(|error| ImportError::Signature { size, error })?;
    if checkpoint.size == size && checkpoint.origin == export.log {
        Ok(SignedCheckpoint { checkpoint, note })
    } else {
        Err(ImportError::Misnamed(size))
    }
}

/// Files bodies that earlier exports, or files that came in part, did not have. Returns their number.
fn fill(export: &Exported, copy: &mut Collected) -> Result<u64, ImportError> {
    let missing = copy.missing()?;
    if missing.is_empty() {
        return Ok(0);
    }
    let mut filing = copy.begin()?;
    let mut filled = 0;
    for one in missing {
        let Some(kind) = one.kind else {
            filled += u64::from(file_text(export, &mut filing, &one.sha256)?);
            continue;
        };
        if let Some(body) = export.body(ExportDir::Objects, &one.sha256)? {
            filing.object(one, Some(&body), Moment::default())?;
            filled += 1;
            if let Some(text) = text_of(kind, &body) {
                filled += u64::from(file_text(export, &mut filing, text)?);
            }
        }
    }
    if filled > 0 {
        filing.commit()?;
    }
    Ok(filled)
}
