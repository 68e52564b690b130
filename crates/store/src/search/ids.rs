//! The search for decisions by their identifiers.

use std::ops::RangeInclusive;

use crawlgate_block::{Block, BlockError};
use crawlgate_record::Entry;
use crawlgate_text::DecisionId;

/// Returns the decisions of a block with identifiers in `ids`: their places and identifiers, in the order of the block's
/// columns, then those outside of them. [`DecisionId::with_prefix`] gives the range of a prefix; the prefix is ambiguous
/// if there are two decisions in all blocks and the tail together.
///
/// # Errors
/// When the section of entries outside the columns is damaged.
pub fn decisions_by_id(
    block: &Block<'_>,
    ids: &RangeInclusive<DecisionId>,
) -> Result<Vec<(u32, DecisionId)>, BlockError> {
    let keys = block.keys();
    let times = ids.start().time().as_millis()..=ids.end().time().as_millis();
    let rows = keys.time.iter().enumerate();
    let in_time = rows.filter(|(_, time)| times.contains(time));
    let with_ids = in_time.filter_map(|(row, _)| {
        let id = DecisionId::from_octets(block.id(row)?);
        keys.place(row).map(|place| (place, id))
    });
    let mut found: Vec<_> = with_ids.filter(|(_, id)| ids.contains(id)).collect();
    for (nth, place) in block.other_places().iter().enumerate() {
        if let Ok(Entry::Decision(decision)) = Entry::read(block.other(nth)?) {
            let id = DecisionId::from_octets(decision.id);
            found.extend(ids.contains(&id).then_some((*place, id)));
        }
    }
    Ok(found)
}
