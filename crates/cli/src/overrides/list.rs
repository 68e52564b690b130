//! Overrides as a table.

use crate::terminal;
use crawlgate_admin::view::OverrideEntry;

/// Returns when the override ends, or how it has ended.
pub(super) fn end(one: &OverrideEntry) -> String {
    match (&one.removed, &one.until) {
        (Some(time), _) => {
            let by = one.removed_by.as_deref().unwrap_or_default();
            format!("removed {time} by {}", terminal::printable(by))
        }
        (None, None) => "-".to_owned(),
        (None, Some(until)) if one.in_force => until.clone(),
        (None, Some(until)) => format!("expired {until}"),
    }
}

/// Writes a table for people.
pub(super) fn table(shown: &[OverrideEntry], width: Option<usize>) -> String {
    const HEADING: [&str; 7] = ["ID", "ACTION", "ORIGIN", "PATTERN", "UNTIL", "BY", "REASON"];
    let rows = shown.iter().map(|one| {
        // A fleet's override says where it was added; without a fleet, nothing is added elsewhere.
        let by = match &one.instance {
            Some(instance) => format!("{} at {instance}", one.by),
            None => one.by.clone(),
        };
        [
            one.id.clone(),
            one.action.to_owned(),
            one.origin.clone(),
            one.pattern.clone(),
            end(one),
            by,
            one.reason.clone(),
        ]
    });
    terminal::table(HEADING, rows, width)
}
