//! A transparency log that strangers can check: Merkle tree, signed checkpoints, proofs.
//!
//! The log is a sequence of entries, octets of any meaning. Each entry is a leaf of one growing tree (RFC 6962, RFC 9162);
//! a [`Signer`] signs its size and root as a [checkpoint](Checkpoint). With a checkpoint, an entry and an
//! [`EntryProof`] of a few hundred octets, a stranger checks that the log has the entry; with two checkpoints and a
//! [`ConsistencyProof`], that the log has only grown between them. The forms are those of C2SP, which other programs
//! read: signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof and tlog-tiles.
//!
//! The room is pure: it knows no store, clock or file. It refuses foreign texts that are not canonical, and never panics
//! on one.
//!
//! # The hashes that a store keeps
//!
//! A store keeps the entries, the root of each full *bundle* of 256 entries, and the root of each full *segment* of
//! 65,536. A proof needs the leaf hashes of two bundles at most, which the store recomputes from their entries. The rest
//! follows from the roots.
//!
//! ```
//! use aws_lc_rs::signature::Ed25519KeyPair;
//! use crawlgate_tlog::{
//!     Checkpoint, EntryProof, Hash, KeyName, Prover, Signer, Tile, Tree, leaf_hash,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The writer appends entries in batches, and stores each root that becomes full.
//! #[derive(Default)]
//! struct Store {
//!     entries: Vec<Vec<u8>>,
//!     bundles: Vec<Hash>,
//!     segments: Vec<Hash>,
//! }
//! let mut store = Store::default();
//! let mut tree = Tree::new();
//! for batch in 0..20 {
//!     for n in 0..50 {
//!         let entry = format!("entry {n} of batch {batch}").into_bytes();
//!         if let Some(full) = tree.push(leaf_hash(&entry)) {
//!             store.bundles.push(full.bundle);
//!             store.segments.extend(full.segment);
//!         }
//!         store.entries.push(entry);
//!     }
//! }
//!
//! // After a restart the same tree comes from the roots and the last few entries. `push_bundle` begins behind the last
//! // full segment; this log has none yet.
//! let mut again = Tree::new();
//! for root in &store.bundles {
//!     again.push_bundle(*root)?;
//! }
//! for entry in &store.entries[again.size() as usize..] {
//!     again.push(leaf_hash(entry));
//! }
//! assert_eq!(again, tree);
//!
//! // The log signs a checkpoint, after the store has made all entries below it durable.
//! let pair = Ed25519KeyPair::generate()?;
//! let name: KeyName = "logs.example.org/fra-1".parse()?;
//! let signer = Signer::new(name, &pair);
//! let note = signer.checkpoint(tree.size(), tree.root());
//!
//! // Later a publisher asks for entry 700. The prover reads one recomputed bundle here, and the stored roots.
//! let leaves = |bundle: u64| {
//!     let entries = store.entries.chunks(256).nth(bundle as usize)?;
//!     Some(entries.iter().map(|entry| leaf_hash(entry)).collect())
//! };
//! let source = |tile: Tile| -> Result<Vec<Hash>, String> {
//!     let hashes = match tile.level() {
//!         0 => leaves(tile.index()),
//!         1 => store.bundles.chunks(256).nth(tile.index() as usize).map(<[Hash]>::to_vec),
//!         _ => store.segments.chunks(256).nth(tile.index() as usize).map(<[Hash]>::to_vec),
//!     };
//!     hashes.ok_or_else(|| format!("{tile} is not stored"))
//! };
//! let (signed, _) = Checkpoint::open(&note, &[signer.key().clone()])?;
//! let proof = Prover::new(signed.size, source).inclusion(700)?;
//! let text = EntryProof::new(proof, note).to_string();
//!
//! // A stranger has the text, the entry, and from another source the key of the log.
//! let vkey = signer.key().to_string();
//! let proof = EntryProof::parse(text.as_bytes())?;
//! let (checkpoint, _) = proof.verify(&leaf_hash(b"entry 0 of batch 14"), &[vkey.parse()?])?;
//! assert_eq!(checkpoint.size, 1_000);
//! # Ok(())
//! # }
//! ```
//!
//! # Dropped parts
//!
//! A store may drop the entries of whole bundles, and later the bundle roots of whole segments. Each entry that it still
//! has stays provable in each later checkpoint. A checkpoint that lies in a dropped part needs an [`Edge`]: at most 17
//! hashes, which the store takes from [`Prover::edge`] before it drops the part and gives to [`Prover::with_edge`].

mod checkpoint;
mod entry_proof;
mod hash;
mod key;
mod note;
mod proof;
mod prover;
mod signature;
mod tile;
mod tree;

pub use self::checkpoint::{Checkpoint, CheckpointError};
pub use self::entry_proof::{EntryProof, EntryProofError};
pub use self::hash::{EMPTY_ROOT, Hash, hash_from_text, hash_text, leaf_hash, node_hash};
pub use self::key::{KeyError, KeyKind, KeyName, VerifierKey};
pub use self::note::{MAX_NOTE, MAX_SIGNATURES, Note, NoteError};
pub use self::proof::{ConsistencyProof, InclusionProof, ProofError};
pub use self::prover::{DropUnit, Edge, Prover, ProverError};
pub use self::signature::{MalformedLine, Signature, Signer, Verified};
pub use self::tile::{ContentError, MAX_ENTRY, Resource, Tile, WIDTH, push_entry, split_entry};
pub use self::tree::{BUNDLE, Full, MAX_SIZE, SEGMENT, Tree, Unaligned, subtrees};

#[cfg(any(test, feature = "test-support"))]
pub mod samples;
#[cfg(test)]
pub(crate) mod tests;
