//! One robots.txt as it was fetched: the evidence that decisions rest on.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::clock::Moment;
use crate::rep::{ProductToken, Robots, Rules, Selection};

/// Compiled rule sets kept per file. A file names more agents than ever ask about it.
const COMPILED_KEPT: usize = 16;

/// One robots.txt, parsed, with what is known of its fetch.
pub struct Snapshot {
    /// The parsed file; it owns the text.
    pub robots: Robots,
    /// SHA-256 of the text that counts.
    pub sha256: [u8; 32],
    /// When the fetch ended.
    pub fetched: Moment,
    /// Status of the final answer.
    pub status: u16,
    /// Where the text came from, after redirects.
    pub final_url: Box<str>,
    compiled: RwLock<Vec<(Selection, Arc<Rules>)>>,
}

impl Snapshot {
    /// Wraps a parsed file.
    pub fn new(robots: Robots, fetched: Moment, status: u16, final_url: &str) -> Snapshot {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, robots.text());
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(digest.as_ref());
        Snapshot {
            sha256,
            fetched,
            status,
            final_url: final_url.into(),
            compiled: RwLock::default(),
            robots,
        }
    }

    /// The rules for a chain of product tokens, compiled at its first use.
    pub fn rules(&self, chain: &[ProductToken]) -> Arc<Rules> {
        let selection = self.robots.selection(chain);
        if let Some(rules) = find(&self.compiled.read(), selection) {
            return rules;
        }
        let rules = Arc::new(self.robots.rules(selection));
        let mut compiled = self.compiled.write();
        if let Some(rules) = find(&compiled, selection) {
            return rules;
        }
        if compiled.len() >= COMPILED_KEPT {
            compiled.remove(0);
        }
        compiled.push((selection, Arc::clone(&rules)));
        rules
    }

    /// Octets this snapshot holds in memory, roughly.
    pub fn bytes(&self) -> usize {
        self.robots.bytes() + self.final_url.len() + 512
    }
}

fn find(compiled: &[(Selection, Arc<Rules>)], selection: Selection) -> Option<Arc<Rules>> {
    let (_, rules) = compiled.iter().find(|(known, _)| *known == selection)?;
    Some(Arc::clone(rules))
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("fetched", &self.fetched)
            .field("final_url", &self.final_url)
            .finish_non_exhaustive()
    }
}
