//! The facts of a segment of 65,536 entries that spare a search its blocks.
//!
//! ```text
//! let mut keys = SegmentKeysBuilder::new();
//! keys.add_block(&block);
//! let octets = keys.finish();
//! search.wanted().may_be_in(SegmentKeys::read(&octets)?)
//!
//! let mut sums = SumsBuilder::new();
//! sums.add_block(&block);
//! let octets = sums.finish()?;          None: too long, the segment has no sums
//! let sums = Sums::read(&octets)?;
//! sums.count_by(&search, &mut counts)     false: count its blocks instead
//! ```
//!
//! All of it follows from the blocks, and can be made anew from them. Where retention has dropped a part of a segment, its
//! sums still count that part, and its key set may say yes for it.
//!
//! A key is the first four octets of SHA-256 over the octet of its kind and its text. A key set is `cgk1`, then the keys,
//! each once, ascending. Texts are those that a search compares: origins, hosts and tokens in lower case, rules as lines
//! show them, addresses of clients without their ports.
//!
//! The room knows no IO, clock or log.

pub mod sums;

use aws_lc_rs::digest::{SHA256, digest};

use crate::search::words::{chain, client, origin, rule, shape_facts, shown};
use crawlgate_block::words::Dictionary;
use crawlgate_block::{Block, WordKind};
use crawlgate_record::origin_parts;

/// The first octets of a key set: its kind and its version.
const MAGIC: &[u8; 4] = b"cgk1";

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Origin = 1,
    Host,
    Rule,
    Token,
    ClientName,
    ClientAddress,
    Reason,
}

/// Returns the key of a text.
pub(crate) fn key(kind: Kind, text: &[u8]) -> u32 {
    key_of(&[&[kind as u8], text].concat())
}

/// Returns the key of a kind with its text.
fn key_of(octets: &[u8]) -> u32 {
    let digest = digest(&SHA256, octets);
    let first = digest.as_ref().first_chunk().copied();
    u32::from_be_bytes(first.unwrap_or_default())
}

/// Collects the keys of a segment.
#[derive(Debug, Default)]
pub struct SegmentKeysBuilder {
    /// The texts with their kinds: each is hashed once.
    texts: Dictionary,
    keys: Vec<u32>,
    text: Vec<u8>,
}

impl SegmentKeysBuilder {
    /// Returns a builder without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the keys of a block.
    pub fn add_block(&mut self, block: &Block<'_>) {
        for word in block.words(WordKind::Shape) {
            if let Some(facts) = shape_facts(&word) {
                self.put(Kind::Reason, facts.reason.as_bytes());
            }
        }
        for word in block.words(WordKind::Origin) {
            self.put_origin(origin(&word).unwrap_or_default());
        }
        for word in block.words(WordKind::Rule) {
            self.put_rule(rule(&word).unwrap_or_default());
        }
        for word in block.words(WordKind::Requester) {
            chain(&word).iter().for_each(|token| self.put_token(token.kept));
        }
        for word in block.words(WordKind::Client) {
            let (address, name) = client(&word);
            if let Some(address) = address {
                self.put(Kind::ClientAddress, address.to_string().as_bytes());
            }
            if let Some(name) = name {
                self.put(Kind::ClientName, name.as_bytes());
            }
        }
    }

    /// Returns the key set.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.keys.sort_unstable();
        self.keys.dedup();
        let mut out = MAGIC.to_vec();
        out.extend(self.keys.iter().flat_map(|key| key.to_be_bytes()));
        out
    }

    fn put_origin(&mut self, origin: &str) {
        let origin = origin.to_ascii_lowercase();
        self.put(Kind::Origin, origin.as_bytes());
        self.put(Kind::Host, origin_parts(&origin).1.as_bytes());
    }

    fn put_rule(&mut self, rule: &[u8]) {
        self.put(Kind::Rule, shown(rule).as_bytes());
    }

    fn put_token(&mut self, token: &str) {
        self.put(Kind::Token, token.to_ascii_lowercase().as_bytes());
    }

    fn put(&mut self, kind: Kind, text: &[u8]) {
        self.text.clear();
        self.text.push(kind as u8);
        self.text.extend_from_slice(text);
        if self.texts.place(&self.text).1 {
            self.keys.push(key_of(&self.text));
        }
    }
}

/// A key set, as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct SegmentKeys<'a>(&'a [[u8; 4]]);

impl<'a> SegmentKeys<'a> {
    /// Reads a key set; `None` if the octets are none.
    #[must_use]
    pub fn read(octets: &'a [u8]) -> Option<Self> {
        let (keys, rest) = octets.strip_prefix(MAGIC)?.as_chunks();
        rest.is_empty().then_some(Self(keys))
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Tells whether there is no key.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(self, key: u32) -> bool {
        self.0.binary_search(&key.to_be_bytes()).is_ok()
    }
}
