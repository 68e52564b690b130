//! Entries one after the other: the length of each in two octets, big-endian, then its octets.

use super::super::engine::Failure;
use crawlgate_tlog::split_entry;

/// Entries one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames<'f>(pub(crate) &'f [u8]);

impl<'f> Iterator for Frames<'f> {
    type Item = Result<&'f [u8], Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((entry, rest)) = split_entry(self.0) else {
            self.0 = &[];
            return Some(Err(Failure::Damaged(
                "an entry of the log is cut off".to_owned(),
            )));
        };
        self.0 = rest;
        Some(Ok(entry))
    }
}
