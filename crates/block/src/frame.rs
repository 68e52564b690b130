//! The head of a block, and its sections as compressed frames.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

/// Maximum number of entries in a block.
pub const MAX_ENTRIES: usize = 16_384;

/// Octets of entries after which a block takes no more.
pub const MAX_OCTETS: usize = 32 * 1024 * 1024;

/// Maximum octets of all sections of a block, unpacked. More is refused before it is unpacked.
pub(super) const MAX_RAW: usize = 64 * 1024 * 1024;

/// The first octets of a block: its kind and its version.
const MAGIC: &[u8; 4] = b"cgb1";

/// The octets of the head before the sections are listed: magic, number of sections, number of entries.
const HEAD: usize = 4 + 1 + 4;

/// The octets of a section in the list: id, raw length, packed length.
const LISTED: usize = 1 + 4 + 4;

/// Compression level: level 3 gains 3 % for 45 % more time.
const LEVEL: i32 = 1;

/// A block that is damaged, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged block: {0}")]
pub struct BlockError(pub &'static str);

/// The error of all that packs.
const INCOMPRESSIBLE: BlockError = BlockError("the block cannot be compressed");

/// The sections of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Keys,
    Measures,
    Paths,
    Words,
    Others,
}

impl Section {
    pub(super) const ALL: [Section; 5] =
        [Self::Keys, Self::Measures, Self::Paths, Self::Words, Self::Others];

    fn id(self) -> u8 {
        self as u8 + 1
    }
}

/// Compresses the sections of blocks, one after the other.
pub(super) struct Packer {
    compressor: Compressor<'static>,
    /// Number of sections so far, their list, and their frames.
    sections: u8,
    list: Vec<u8>,
    frames: Vec<u8>,
    /// The latest frame.
    frame: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> Result<Self, BlockError> {
        let failed = |_| BlockError("the compressor cannot be set up");
        let mut compressor = Compressor::new(LEVEL).map_err(failed)?;
        compressor.include_checksum(true).map_err(failed)?;
        Ok(Self {
            compressor,
            sections: 0,
            list: Vec::new(),
            frames: Vec::new(),
            frame: Vec::new(),
        })
    }

    /// Adds a section, after those of lower ids. One without octets is left out.
    pub(super) fn add(&mut self, section: Section, raw: &[u8]) -> Result<(), BlockError> {
        if raw.is_empty() {
            return Ok(());
        }
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(raw.len()));
        let compressed = self.compressor.compress_to_buffer(raw, &mut self.frame);
        compressed.map_err(|_| INCOMPRESSIBLE)?;
        self.sections += 1;
        self.list.push(section.id());
        self.list.extend_from_slice(&length(raw.len())?);
        self.list.extend_from_slice(&length(self.frame.len())?);
        self.frames.extend_from_slice(&self.frame);
        Ok(())
    }

    /// Appends the block of `count` entries with these sections to `out`, and begins the next one.
    pub(super) fn finish(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), BlockError> {
        out.extend_from_slice(MAGIC);
        out.push(std::mem::take(&mut self.sections));
        out.extend_from_slice(&length(count)?);
        out.append(&mut self.list);
        out.append(&mut self.frames);
        Ok(())
    }
}

/// Returns a length as a head has it.
fn length(number: usize) -> Result<[u8; 4], BlockError> {
    let number = u32::try_from(number).map_err(|_| INCOMPRESSIBLE)?;
    Ok(number.to_be_bytes())
}

/// The sections of a block, packed.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    pub(super) count: usize,
    octets: Cow<'a, [u8]>,
    sections: Sections,
}

impl<'a> Packed<'a> {
    /// Reads the head of a block; unpacks nothing.
    pub(super) fn read(octets: Cow<'a, [u8]>) -> Result<Self, BlockError> {
        let (count, sections) = read_head(&octets)?;
        Ok(Self { count, octets, sections })
    }

    /// Unpacks a section; one that was left out has no octets.
    pub(super) fn unpack(&self, section: Section) -> Result<Vec<u8>, BlockError> {
        let of = self.sections.get(section as usize).and_then(Option::as_ref);
        let Some((raw, place)) = of else {
            return Ok(Vec::new());
        };
        let frame = self.octets.get(place.clone()).unwrap_or_default();
        unpack(frame, *raw)
    }
}

/// The raw length of each section, and its frame's place in the block.
type Sections = [Option<(usize, Range<usize>)>; Section::ALL.len()];

/// Returns the number of entries, and the sections.
fn read_head(block: &[u8]) -> Result<(usize, Sections), BlockError> {
    const CUT_OFF: BlockError = BlockError("it is cut off");
    let (head, rest) = block.split_at_checked(HEAD).ok_or(CUT_OFF)?;
    let [a, b, c, d, listed, count @ ..] = head else {
        return Err(CUT_OFF);
    };
    if [*a, *b, *c, *d] != *MAGIC {
        return Err(BlockError("it does not begin as a block"));
    }
    let count = number(count)?;
    if !(1..=MAX_ENTRIES).contains(&count) {
        return Err(BlockError("a number of entries out of range"));
    }
    let (list, mut rest) = rest.split_at_checked(usize::from(*listed) * LISTED).ok_or(CUT_OFF)?;
    let mut sections = Sections::default();
    let (mut last, mut whole) = (0, 0_usize);
    for one in list.chunks_exact(LISTED) {
        let [id, lengths @ ..] = one else {
            return Err(CUT_OFF);
        };
        let (raw, packed) = lengths.split_at_checked(4).ok_or(CUT_OFF)?;
        let raw = number(raw)?;
        whole = whole.saturating_add(raw);
        if *id <= last || raw == 0 || whole > MAX_RAW {
            return Err(BlockError("an invalid list of sections"));
        }
        let slot = sections.get_mut(usize::from(*id) - 1);
        let slot = slot.ok_or(BlockError("an unknown section"))?;
        let (frame, after) = rest.split_at_checked(number(packed)?).ok_or(CUT_OFF)?;
        let start = block.len() - rest.len();
        *slot = Some((raw, start..start + frame.len()));
        (last, rest) = (*id, after);
    }
    match rest {
        [] => Ok((count, sections)),
        _ => Err(BlockError("octets after its end")),
    }
}

thread_local! {
    /// Kept from frame to frame: a new one takes longer than a small frame.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks a frame that names the length of its content, at most `most` octets.
///
/// # Errors
/// When the frame names no length or a greater one, or is damaged.
pub fn unpack_frame(frame: &[u8], most: usize) -> Result<Vec<u8>, BlockError> {
    let named = zstd_safe::get_frame_content_size(frame).ok().flatten();
    let named = named.and_then(|named| usize::try_from(named).ok());
    match named.filter(|named| *named <= most) {
        Some(named) => unpack(frame, named),
        None => Err(BlockError("a frame that is too long, or none")),
    }
}

/// Unpacks a frame of `raw` octets.
pub fn unpack(frame: &[u8], raw: usize) -> Result<Vec<u8>, BlockError> {
    // A frame names its length itself: nothing is allocated for one that says another.
    let named = zstd_safe::get_frame_content_size(frame).ok().flatten();
    let whole = zstd_safe::find_frame_compressed_size(frame).ok();
    if named != Some(raw as u64) || whole != Some(frame.len()) {
        return Err(BlockError("a section of another length"));
    }
    let mut out = Vec::with_capacity(raw);
    let failed = |_: std::io::Error| BlockError("a section with a wrong checksum");
    DECOMPRESSOR
        .with_borrow_mut(|kept| {
            let decompressor = match kept {
                Some(decompressor) => decompressor,
                None => kept.insert(Decompressor::new()?),
            };
            decompressor.decompress_to_buffer(frame, &mut out)
        })
        .map_err(failed)?;
    if out.len() == raw { Ok(out) } else { Err(BlockError("a section of another length")) }
}

fn number(octets: &[u8]) -> Result<usize, BlockError> {
    let octets = octets.try_into().map_err(|_| BlockError("it is cut off"))?;
    usize::try_from(u32::from_be_bytes(octets)).map_err(|_| BlockError("a length beyond memory"))
}
