//! The appending of entries, and the making of blocks.

use std::cell::Cell;

use rusqlite::{Connection, Transaction, params};

use super::super::engine::{Failure, Statements as _, integer, number};
use super::head::Head;
use super::lines::Frames;
use super::read::Blocks;
use super::tree::{StoredTree, keep_edges};
use super::uses::Effects;
use crate::failed;
use crate::segment::SegmentKeysBuilder;
use crate::segment::sums::SumsBuilder;
use crawlgate_block::{Block, BlockSummary, BlockWriter, MAX_ENTRIES};
use crawlgate_record::Event;
use crawlgate_tlog::{self as tlog, BUNDLE, SEGMENT, push_entry};

/// Entries of a batch from which on it becomes blocks at once.
const AT_ONCE: u64 = 1_024;

/// Entries, and octets, of the tail from which on it becomes blocks.
const MAX_TAIL: u64 = 4_096;
const MAX_TAIL_OCTETS: u64 = 4 * 1024 * 1024;

/// Octets of entries from which on a block ends with the present bundle.
const ENOUGH: usize = 8 * 1024 * 1024;

/// One block of so many is read again and compared, in a program built for use.
const LOOK: u32 = 64;

thread_local! {
    /// The writer of the last block, with the octets of its largest one. Its columns and its compressor would take new
    /// pages for each block.
    static WRITER: Cell<Option<(BlockWriter, usize)>> = const { Cell::new(None) };

    /// Blocks until one is read again; the first one is.
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(0) };
}

/// The earliest and the latest time of entries, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
struct Times {
    min: u64,
    max: u64,
}

impl Times {
    const NONE: Self = Self { min: u64::MAX, max: 0 };

    fn add(&mut self, entry: &[u8]) {
        let time = crawlgate_record::time_of(entry);
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }
}

/// Returns the entry of an event, without and with its length.
pub(crate) fn event_frames(event: &Event<'_>) -> Result<(Vec<u8>, Vec<u8>), Failure> {
    let (mut entry, mut frames) = (Vec::new(), Vec::new());
    event.encode(&mut entry);
    push_entry(&mut frames, &entry).map_err(|error| failed(error.to_string()))?;
    Ok((entry, frames))
}

/// Appends entries (`frames`) to the log; `head` becomes its new end, and `effects` takes what they count for, if that
/// matters. The tail becomes blocks when it is long, or takes more octets than `most`.
pub(crate) fn append(
    transaction: &Transaction<'_>,
    head: &mut Head,
    frames: &[u8],
    most: Option<u64>,
    mut effects: Option<&mut Effects<'_>>,
) -> Result<(), Failure> {
    if frames.is_empty() {
        return Ok(());
    }
    let first = head.size();
    let entries = Frames(frames).collect::<Result<Vec<_>, _>>()?;
    for entry in &entries {
        head.push(entry);
    }
    let most = most.unwrap_or(MAX_TAIL_OCTETS).min(MAX_TAIL_OCTETS);
    let is_long = head.size() - first >= AT_ONCE
        || head.tail_count() >= MAX_TAIL
        || head.tail_octets + frames.len() as u64 >= most;
    if is_long && head.tail_count() >= BUNDLE {
        return fold_with(transaction, head, u64::MAX, &entries, &mut effects);
    }
    let mut times = Times::NONE;
    for entry in &entries {
        times.add(entry);
        if let Some(effects) = &mut effects {
            effects.read(entry)?;
        }
    }
    put_row(transaction, first, head.size() - first, times, frames)?;
    head.tail_octets += frames.len() as u64;
    Ok(())
}

fn put_row(
    transaction: &Transaction<'_>,
    first: u64,
    count: u64,
    times: Times,
    frames: &[u8],
) -> Result<(), Failure> {
    let [first, count, min, max] = [first, count, times.min, times.max].map(integer);
    let values = params![first, count, min, max, frames];
    transaction.run("INSERT INTO tail VALUES (?1, ?2, ?3, ?4, ?5)", values).map(drop)
}

/// Turns the whole bundles of the tail before the index `until` into blocks. The rest of the tail stays.
pub(crate) fn fold(
    transaction: &Transaction<'_>,
    head: &mut Head,
    until: u64,
) -> Result<(), Failure> {
    fold_with(transaction, head, until, &[], &mut None)
}

/// As [`fold`]. The last entries of the tail may be in no row yet (`latest`): then `until` lies behind them, and `effects`
/// takes what they count for.
fn fold_with(
    transaction: &Transaction<'_>,
    head: &mut Head,
    until: u64,
    latest: &[&[u8]],
    effects: &mut Option<&mut Effects<'_>>,
) -> Result<(), Failure> {
    let count = until.min(head.size()).saturating_sub(head.tail);
    let end = head.tail + count / BUNDLE * BUNDLE;
    if end == head.tail {
        return Ok(());
    }
    // The latest entries stand behind each row.
    let read_to = if latest.is_empty() { end } else { head.size() };
    let text = "SELECT first, entries FROM tail WHERE first < ?1 ORDER BY first";
    let rows: Vec<(u64, Vec<u8>)> =
        transaction.all(text, [integer(read_to)], |row| Ok((number(row.get(0)?), row.get(1)?)))?;
    let mut entries = Vec::with_capacity(usize::try_from(head.tail_count()).unwrap_or(0));
    for (first, row) in &rows {
        if head.tail + entries.len() as u64 != *first {
            return Err(super::head::hole(*first));
        }
        for entry in Frames(row) {
            entries.push(entry?);
        }
    }
    let mut counted = entries.len();
    entries.extend_from_slice(latest);
    if !latest.is_empty() && entries.len() as u64 != head.tail_count() {
        return Err(super::head::hole(head.tail));
    }
    let count = usize::try_from(end - head.tail).unwrap_or(usize::MAX);
    let Some((mut left, rest)) = entries.split_at_checked(count) else {
        return Err(super::head::hole(head.tail + entries.len() as u64));
    };
    let (begin, blocks) = (head.tail, Blocks::default());
    while head.tail < end {
        let (block, behind) = left.split_at(next_block_len(left, head.tail, end));
        let (body, summary) = pack(block, counted, effects)?;
        put_block(transaction, head, &body, &summary)?;
        counted = counted.saturating_sub(block.len());
        left = behind;
    }
    if !rows.is_empty() {
        transaction.run("DELETE FROM tail WHERE first < ?1", [integer(read_to)])?;
    }
    let folded: usize = rows.iter().map(|(_, row)| row.len()).sum();
    head.tail_octets = head.tail_octets.saturating_sub(folded as u64);
    if !rest.is_empty() {
        let mut frames = Vec::new();
        let mut times = Times::NONE;
        for (place, entry) in rest.iter().enumerate() {
            times.add(entry);
            if let Some(effects) = effects
                && place >= counted
            {
                effects.read(entry)?;
            }
            push_entry(&mut frames, entry).map_err(|error| failed(error.to_string()))?;
        }
        put_row(transaction, end, rest.len() as u64, times, &frames)?;
        head.tail_octets += frames.len() as u64;
    }
    // A proof from a checkpoint in the middle of a bundle needs its leaves, unless these hashes are kept.
    let tree = StoredTree::new(transaction, &blocks);
    keep_edges(transaction, &tree, (begin, end), tlog::DropUnit::Bundle)?;
    Ok(())
}

/// Returns the number of entries of the next block: whole bundles, within a segment.
fn next_block_len(entries: &[&[u8]], first: u64, end: u64) -> usize {
    let to_segment = SEGMENT - first % SEGMENT;
    let most = (end - first).min(to_segment).min(MAX_ENTRIES as u64);
    let most = usize::try_from(most).unwrap_or(MAX_ENTRIES);
    let bundle = usize::try_from(BUNDLE).unwrap_or(1);
    let (mut count, mut octets) = (0, 0);
    while count < most && octets < ENOUGH {
        let bundle = entries.get(count..count + bundle).unwrap_or_default();
        octets += bundle.iter().map(|entry| entry.len()).sum::<usize>();
        count += bundle.len().max(1);
    }
    count.min(most)
}

/// Writes one block of the tail's first entries, and the segment that it completes.
fn put_block(
    transaction: &Transaction<'_>,
    head: &mut Head,
    body: &[u8],
    summary: &BlockSummary,
) -> Result<(), Failure> {
    let end = head.tail + summary.count as u64;
    let bundles = usize::try_from((end - head.tail) / BUNDLE).unwrap_or(usize::MAX);
    let roots = head.bundles.get(..bundles).unwrap_or_default();
    transaction.run(
        "INSERT INTO block VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            integer(head.tail),
            integer(summary.count as u64),
            integer(summary.min_time),
            integer(summary.max_time),
            integer(summary.denials as u64),
            roots.as_flattened(),
            body,
        ],
    )?;
    if end.is_multiple_of(SEGMENT)
        && let Some(root) = head.segments.first()
    {
        let number = end / SEGMENT - 1;
        let Index { keys, sums } = index(transaction, number)?;
        let text = "INSERT INTO segment SELECT ?1, ?2, min(min_time), max(max_time), ?4, ?5 FROM block WHERE first >= ?3";
        let values = params![integer(number), root, integer(end - SEGMENT), keys, sums];
        transaction.run(text, values)?;
    }
    head.move_tail(end);
    Ok(())
}

/// Makes a block. Entries from the place `counted` on are new: `effects` takes what they count for.
fn pack(
    entries: &[&[u8]],
    counted: usize,
    effects: &mut Option<&mut Effects<'_>>,
) -> Result<(Vec<u8>, BlockSummary), Failure> {
    let error_of = |error: &dyn std::fmt::Display| failed(format!("a block of records: {error}"));
    // A writer that fails is of no more use.
    let (mut writer, largest) = match WRITER.take() {
        Some(kept) => kept,
        None => (BlockWriter::new().map_err(|error| error_of(&error))?, 0),
    };
    for (place, entry) in entries.iter().enumerate() {
        let outline = writer.push(entry).map_err(|error| error_of(&error))?;
        let Some(effects) = effects.as_mut().filter(|_| place >= counted) else {
            continue;
        };
        match outline {
            Some(outline) => effects.count(&outline),
            None => effects.read(entry)?,
        }
    }
    let mut body = Vec::new();
    let summary = writer.finish(&mut body).map_err(|error| error_of(&error))?;
    let octets = entries.iter().map(|entry| entry.len()).sum::<usize>();
    // Smaller blocks need no columns as large as those of a burst.
    if octets >= largest / 4 && octets <= ENOUGH {
        WRITER.set(Some((writer, octets.max(largest))));
    }
    let until_look = UNTIL_LOOK.get();
    UNTIL_LOOK.set(until_look.checked_sub(1).unwrap_or(LOOK - 1));
    if !cfg!(debug_assertions) && until_look > 0 {
        return Ok((body, summary));
    }
    match differs(&body, entries) {
        None => Ok((body, summary)),
        Some(why) => Err(error_of(&why).into()),
    }
}

/// Reads a block again, and returns what of it is not as the entries are.
fn differs(body: &[u8], entries: &[&[u8]]) -> Option<String> {
    let block = match Block::read(body) {
        Ok(block) => block,
        Err(error) => return Some(error.to_string()),
    };
    let mut again = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        again.clear();
        if let Err(error) = block.entry(place, &mut again) {
            return Some(error.to_string());
        }
        if again != *entry {
            return Some(format!("entry {place} would not come back as it was"));
        }
    }
    (block.len() != entries.len()).then(|| "another number of entries".to_owned())
}

/// The columns of a segment that spare a search its blocks.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) keys: Option<Vec<u8>>,
    pub(super) sums: Option<Vec<u8>>,
}

/// Returns the index of a segment, from its blocks.
///
/// With a damaged block the index is empty. That is no failure: a search without the index reads the blocks.
pub(super) fn index(connection: &Connection, number: u64) -> Result<Index, Failure> {
    let text = "SELECT body FROM block WHERE first >= ?1 AND first < ?2 AND body IS NOT NULL ORDER BY first";
    let bounds = [integer(number * SEGMENT), integer((number + 1) * SEGMENT)];
    let (mut keys, mut sums) = (SegmentKeysBuilder::new(), SumsBuilder::new());
    let mut is_readable = true;
    connection.each(text, bounds, |row| {
        let body = row.get_ref(0)?.as_blob().unwrap_or_default();
        if is_readable && let Ok(block) = Block::read(body) {
            keys.add_block(&block);
            sums.add_block(&block);
        } else {
            is_readable = false;
        }
        Ok(())
    })?;
    if !is_readable {
        return Ok(Index::default());
    }
    Ok(Index { keys: Some(keys.finish()), sums: sums.finish().ok().flatten() })
}
