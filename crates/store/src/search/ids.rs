//! The search for decisions by their identifiers.

use std::ops::RangeInclusive;

use crawlgate_block::Block;
use crawlgate_text::DecisionId;

/// Returns the decisions of a block with identifiers in `ids`: their places and identifiers, in the order of the block.
/// [`DecisionId::with_prefix`] gives the range of a prefix; the prefix is ambiguous if there are two decisions in all blocks
/// and the tail together.
pub fn decisions_by_id(
    block: &Block<'_>,
    ids: &RangeInclusive<DecisionId>,
) -> impl Iterator<Item = (u32, DecisionId)> {
    let keys = block.keys();
    let times = ids.start().time().as_millis()..=ids.end().time().as_millis();
    let rows = keys.time.iter().enumerate();
    let in_time = rows.filter(move |(_, time)| times.contains(time));
    let with_ids = in_time.filter_map(|(row, _)| {
        let id = DecisionId::from_octets(block.id(row)?);
        keys.place(row).map(|place| (place, id))
    });
    with_ids.filter(|(_, id)| ids.contains(id))
}
