//! The state that writer and reader of columns share.

/// The last basis and upstream of an origin: the next request there usually has the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub(super) basis: Option<u32>,
    pub(super) upstream: Option<u32>,
}

/// The last values of each origin, by its place; first those without an origin.
#[derive(Debug, Default)]
pub(super) struct Origins {
    all: Vec<Last>,
    spare: Last,
}

impl Origins {
    pub(super) fn of(&mut self, origin: Option<u32>) -> &mut Last {
        let at = origin.map_or(0, |origin| origin as usize + 1);
        if self.all.len() <= at {
            self.all.resize(at + 1, Last::default());
        }
        self.all.get_mut(at).unwrap_or(&mut self.spare)
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

/// The numbers of a column that predicts its values.
pub(super) struct Predicted;

impl Predicted {
    /// The value is that of the last decision on the same origin.
    pub(super) const AS_LAST: u64 = 0;
    /// The value is a new word.
    pub(super) const NEW: u64 = 1;
    /// The value is the first word; the others follow.
    pub(super) const FIRST: u64 = 2;
}
