//! The columns that a search seldom needs: measures and rare values, paths, and entries that are no decisions.

use super::columns::{Origins, Predicted};
use super::frame::BlockError;
use super::keys::{Keys, NO_WORD};
use super::shape::{KeySet, RARE, Shape};
use super::varint::Input;
use super::words::{Places, Words};
use crawlgate_record::key;

/// Octets with the bounds of their parts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    section: Vec<u8>,
    bounds: Vec<(u32, u32)>,
}

impl Parts {
    /// Reads the section of the paths.
    pub(super) fn of_paths(
        section: Vec<u8>,
        keys: &Keys,
        shapes: &[Shape],
    ) -> Result<Self, BlockError> {
        let has = |holes: KeySet| holes.has(key::PATH) || holes.has(key::URL);
        let has: Vec<bool> = shapes.iter().map(|shape| has(shape.holes)).collect();
        let mut input = Input(&section);
        let mut bounds = vec![(0, 0); keys.len()];
        for (bounds, shape) in bounds.iter_mut().zip(&keys.shape) {
            if has.get(*shape as usize).is_some_and(|has| *has) {
                bounds.1 = input.length()? as u32;
            }
        }
        let mut end = section.len() - input.0.len();
        for bounds in &mut bounds {
            *bounds = take(&mut input, &mut end, bounds.1)?;
        }
        input.end()?;
        Ok(Self { section, bounds })
    }

    /// Reads the section of entries that are no decisions.
    pub(super) fn of_others(section: Vec<u8>, count: usize) -> Result<Self, BlockError> {
        let mut input = Input(&section);
        let mut bounds = Vec::with_capacity(count);
        for _ in 0..count {
            let length = input.length()? as u32;
            let mut start = section.len() - input.0.len();
            bounds.push(take(&mut input, &mut start, length)?);
        }
        input.end()?;
        Ok(Self { section, bounds })
    }

    /// Returns one part.
    pub(super) fn get(&self, nth: usize) -> Option<&[u8]> {
        let bounds = self.bounds.get(nth)?;
        Some(slice(&self.section, *bounds))
    }
}

/// The measures of all decisions.
#[derive(Debug)]
pub(super) struct Measures {
    /// The section, in which the rare values lie.
    section: Vec<u8>,
    rows: Vec<Measured>,
}

/// The measures of a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) decided_after: i64,
    pub(super) port: u64,
    pub(super) basis: u32,
    pub(super) hold: u64,
    pub(super) duration: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) upstream: u32,
    rest: [(u32, u32); RARE.len()],
}

/// Enters the next value of a column into the row of a decision on this origin.
type Put<'p> = &'p mut dyn FnMut(&mut Measured, Option<u32>) -> Result<(), BlockError>;

impl Measures {
    /// Reads the section.
    pub(super) fn read(
        section: Vec<u8>,
        keys: &Keys,
        shapes: &[Shape],
        bases: &Words,
        upstreams: &Words,
    ) -> Result<Self, BlockError> {
        let mut rows = vec![Measured::default(); keys.len()];
        let mut input = Input(&section);
        // Gives the rows that have a value at a key, each with the number of its origin.
        let mut each = |key: u8, put: Put<'_>| {
            for ((row, shape), origin) in rows.iter_mut().zip(&keys.shape).zip(&keys.origin) {
                if holes(shapes, *shape)?.has(key) {
                    put(row, Some(*origin).filter(|origin| *origin != NO_WORD))?;
                }
            }
            Ok(())
        };
        each(key::DECIDED_AFTER, &mut |to, _| {
            to.decided_after = input.signed()?;
            Ok(())
        })?;
        each(key::CLIENT, &mut |to, _| {
            to.port = input.number()?;
            Ok(())
        })?;
        let mut origins = Origins::default();
        let mut bases = Places::new(bases);
        each(key::BASIS, &mut |to, origin| {
            let last = &mut origins.of(origin).basis;
            to.basis = predicted(input.number()?, &mut bases, last)?;
            Ok(())
        })?;
        bases.end()?;
        each(key::HOLD, &mut |to, _| {
            to.hold = input.number()?;
            Ok(())
        })?;
        each(key::DURATION, &mut |to, _| {
            to.duration = input.number()?;
            Ok(())
        })?;
        each(key::BYTES_IN, &mut |to, _| {
            to.bytes_in = input.number()?;
            Ok(())
        })?;
        each(key::BYTES_OUT, &mut |to, _| {
            to.bytes_out = input.number()?;
            Ok(())
        })?;
        let mut upstreams = Places::new(upstreams);
        each(key::UPSTREAM, &mut |to, origin| {
            let last = &mut origins.of(origin).upstream;
            to.upstream = predicted(input.number()?, &mut upstreams, last)?;
            Ok(())
        })?;
        upstreams.end()?;
        // Lengths first, then the octets; both row by row.
        for (row, shape) in rows.iter_mut().zip(&keys.shape) {
            let holes = holes(shapes, *shape)?;
            for (key, bounds) in RARE.into_iter().zip(&mut row.rest) {
                if holes.has(key) {
                    bounds.1 = input.length()? as u32;
                }
            }
        }
        let mut end = section.len() - input.0.len();
        for bounds in rows.iter_mut().flat_map(|row| &mut row.rest) {
            *bounds = take(&mut input, &mut end, bounds.1)?;
        }
        input.end()?;
        Ok(Self { section, rows })
    }

    /// Returns the measures of a decision.
    pub(super) fn row(&self, nth: usize) -> Option<&Measured> {
        self.rows.get(nth)
    }

    /// Returns the rare value of a decision at `key`.
    pub(super) fn rare(&self, of: &Measured, key: u8) -> &[u8] {
        let nth = RARE.iter().position(|rare| *rare == key);
        let bounds = nth.and_then(|nth| of.rest.get(nth));
        slice(&self.section, bounds.copied().unwrap_or_default())
    }
}

fn holes(shapes: &[Shape], shape: u32) -> Result<KeySet, BlockError> {
    let shape = shapes.get(shape as usize);
    let shape = shape.ok_or(BlockError("a shape that is not there"))?;
    Ok(shape.holes)
}

/// Returns the octets between bounds that were checked when they were read.
fn slice(octets: &[u8], (start, end): (u32, u32)) -> &[u8] {
    octets.get(start as usize..end as usize).unwrap_or_default()
}

/// Takes the next octets, and returns their bounds in the section.
fn take(input: &mut Input<'_>, end: &mut usize, length: u32) -> Result<(u32, u32), BlockError> {
    input.take(length as usize)?;
    let start = *end as u32;
    *end += length as usize;
    Ok((start, *end as u32))
}

/// Reads a predicted place.
fn predicted(
    number: u64,
    places: &mut Places<'_>,
    last: &mut Option<u32>,
) -> Result<u32, BlockError> {
    let place = match number {
        Predicted::AS_LAST => last.ok_or(BlockError("a value that none comes before"))?,
        number => places.place(number - Predicted::NEW)?,
    };
    *last = Some(place);
    Ok(place)
}
