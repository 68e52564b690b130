//! The URL of a decision, in parts.

use super::Digest;
use super::bounds::Bounds;
use aws_lc_rs::digest::{Context, SHA256};
use crawlgate_text::public_parts;

/// A URL without its userinfo and, if so configured, its query.
///
/// An encoder takes it in parts, so that nothing is joined before; a reader returns it as the first part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Url<'a> {
    /// True if the parts follow the origin, which then is the beginning of the URL.
    pub(super) follows: bool,
    pub(super) parts: [&'a [u8]; 3],
    /// Octets cut off after the parts.
    pub(super) cut: u64,
    /// SHA-256 of the whole, of a URL that is cut.
    pub(super) sha256: Option<Digest>,
}

impl<'a> Url<'a> {
    /// Takes the `parts` of a URL apart into the origin and the rest, if the URL begins with the origin. Nothing that
    /// it could be otherwise is taken for a path: it is empty, or begins with `/` or `?`.
    #[must_use]
    pub fn of(parts: [&'a [u8]; 3], origin: Option<&str>) -> Self {
        let rest = origin.and_then(|origin| after(parts, origin.as_bytes()));
        Self { follows: rest.is_some(), parts: rest.unwrap_or(parts), cut: 0, sha256: None }
    }

    /// Returns a URL as records have it: without userinfo and, if `redact_query`, without its query, which may be private.
    /// One that these bounds cut has the digest of the whole.
    #[must_use]
    pub fn public(url: &'a [u8], origin: Option<&str>, redact_query: bool, bounds: Bounds) -> Self {
        let parts = public_parts(url, redact_query);
        let url = Self::of(parts, origin);
        if url.len() <= bounds.url {
            return url;
        }
        let mut context = Context::new(&SHA256);
        parts.iter().for_each(|part| context.update(part));
        url.with_sha256(context.finish().as_ref().try_into().unwrap_or_default())
    }

    /// Adds the digest of the whole, which a URL that will be cut needs.
    #[must_use]
    pub fn with_sha256(mut self, sha256: Digest) -> Self {
        self.sha256 = Some(sha256);
        self
    }

    /// Returns the octets of the path, or of the URL if it does not follow the origin.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Tells whether there are no octets after the origin, or none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether the end was cut off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut > 0
    }

    /// Tells whether the octets follow the origin, which is then the beginning of the URL.
    #[must_use]
    pub fn follows_origin(&self) -> bool {
        self.follows
    }

    /// Returns the kept part of the whole URL in pieces, and the number of octets that were cut off.
    #[must_use]
    pub fn pieces(&self, origin: Option<&'a str>) -> ([&'a [u8]; 4], u64) {
        let origin = origin.filter(|_| self.follows).unwrap_or_default();
        let [first, second, third] = self.parts;
        ([origin.as_bytes(), first, second, third], self.cut)
    }
}

impl PartialEq for Url<'_> {
    fn eq(&self, other: &Self) -> bool {
        let octets = |url: &Self| url.parts.concat();
        (self.follows, self.cut, self.sha256) == (other.follows, other.cut, other.sha256)
            && octets(self) == octets(other)
    }
}

/// Returns the parts after `origin`, if they begin with it and the rest can be a path.
fn after<'a>(parts: [&'a [u8]; 3], origin: &[u8]) -> Option<[&'a [u8]; 3]> {
    let (mut parts, mut origin) = (parts, origin);
    for part in &mut parts {
        let common = part.len().min(origin.len());
        let (head, rest) = part.split_at(common);
        let (wanted, left) = origin.split_at(common);
        if head != wanted {
            return None;
        }
        (*part, origin) = (rest, left);
    }
    let next = parts.iter().find_map(|part| part.first());
    let is_path = matches!(next, None | Some(b'/' | b'?'));
    (origin.is_empty() && is_path).then_some(parts)
}
