//! The origins of which the Sitemap lines are listed.

use crawlgate_store::StoredState;

/// The origins to list; all conditions that are given must hold.
#[derive(Clone, Debug, Default)]
pub struct OriginFilter {
    /// A part of their names.
    pub containing: Option<String>,
    /// The state of the robots.txt with the lines.
    pub state: Option<String>,
}

impl OriginFilter {
    /// Tells whether lines of a robots.txt in this state are listed.
    pub(super) fn is_state(&self, state: &StoredState) -> bool {
        let wanted = self.state.as_deref();
        wanted.is_none_or(|wanted| wanted == state.name())
    }
}
