//! The path guard: lists the other paths that the origin server may read a path as.
//!
//! Between the request line and the resource, a server decodes escapes, cuts parameters off segments, takes backslashes
//! for slashes, resolves dot segments and merges slashes. Servers differ in the steps that they take and in their
//! order, and a request often passes two servers. So the guard does not model one server after the other: it asks about
//! every path that any order of these steps makes.
//!
//! | step | makes of | this | taken by (of those in `docs/path-guard.md`) |
//! |---|---|---|---|
//! | decode once | `/private%2Fdiary` | `/private/diary` | nearly all |
//! | decode twice | `/private%252Fdiary` | `/private/diary` | two servers in a row |
//! | cut parameters | `/private;x/diary` | `/private/diary` | Tomcat, Jetty |
//! | backslashes | `/private\diary` | `/private/diary` | Node's `new URL` |
//! | cut the authority | `//host/private/diary` | `/private/diary` | Node's `new URL` |
//! | resolve and merge | `/a/..//private/diary` | `/private/diary` | nearly all |
//! | drop a final slash | `/page.php/.` | `/page.php` | file servers |
//! | an escaped `?` | `/page.php%3F` | `/page.php?` | two servers in a row |
//! | an escaped `#` | `/page.php%23` | `/page.php` | two servers in a row |
//! | the end of a line | `/page.php%20` | `/page.php` | two servers in a row |
//! | drop an empty query | `/x.gif?` | `/x.gif` | all |
//! | drop what is no UTF-8 | `/pri%80vate/` | `/private/` | Bottle |
//! | read as ISO-8859-1 | `/caf%E9` | `/caf%C3%A9` | CherryPy, Jetty |
//! | drop tabs and line ends | `/pri%09vate/` | `/private/` | waitress, cheroot behind nginx |
//! | end at a NUL | `/page.php%00` | `/page.php` | h2o |
//! | drop final controls | `/page.php%01` | `/page.php` | Node's `url.parse` |
//! | read code points | `/private%u002Fdiary` | `/private/diary` | Jetty |
//! | drop final dots | `/private./` | `/private/` | CivetWeb |
//!
//! A final slash of the written path is dropped only behind a file's name: a rule that ends in `$` distinguishes
//! `/folder` from `/folder/`. A variant without its final slash is judged only by rules that end in `$` or hold a `?`
//! ([`tells_slash`]): any other rule that disallows it also disallows the path with the slash, unless an allow that ends
//! in that slash takes precedence.
//! A slash that a final dot segment leaves (`/a/b/..`) is no slash that the crawler wrote, and file servers drop it, so
//! all rules judge the variant without it.
//!
//! All steps work on comparison forms, in which most spellings of one path are equal already. The guard visits each
//! form once, so the search ends; [`MAX`] and [`MAX_OCTETS`] bound it for a hostile path. A path with more variants
//! is denied if the rules disallow anything at all: no author of a page writes such a path.
//!
//! A slash that a server decodes in the query is no slash of its path: `query` has the rules that it meets. An allow that
//! holds an empty query takes part where that was dropped (`Allow: /w/load.php?`).
//!
//! A server that decodes a path serves one resource for `/a/b` and `/a%2Fb`, so a rule for one holds for the other: a
//! decoded path is compared with decoded rules ([`Spelling`]). Rules that test only for punctuation are the exception
//! (`punctuation`).

mod comparison;
mod octets;
mod query;
mod steps;

use std::borrow::Cow;

pub(super) use self::comparison::Punctuation;
pub(super) use self::comparison::tells_slash;
pub use self::comparison::{Comparison, Spelling};
pub(super) use self::octets::latin1_value;
use self::octets::{
    before_nul, of_latin1, with_code_points, without_breaks, without_final_dots,
    without_space_of_path, without_space_of_query, without_strays,
};
pub(super) use self::steps::decoded_value;
use self::steps::{
    Decoding, Order, decoded, ends_in_dot_segment, is_changed_by_a_step, is_file_with_slash,
    is_stable, resolved, with_query, with_slashes, without_authority, without_empty_query,
    without_final_slash, without_fragment, without_line_end, without_parameters,
};
use super::path::ComparisonPath;

/// The limit on the variants of one path.
const MAX: usize = 64;

/// The limit on the octets of all variants of a path together. A path of up to 2 KiB reaches [`MAX`] first.
const MAX_OCTETS: usize = 128 * 1024;

/// All other variants of a path, each once; almost every path has none.
#[derive(Debug)]
pub struct PathVariants<'a> {
    written: &'a [u8],
    /// The punctuation that stays escaped.
    kept: Punctuation,
    /// The path as written, then its other variants; empty if it has none.
    found: Vec<PathVariant<'a>>,
    is_complete: bool,
}

/// One variant of the path.
#[derive(Debug)]
struct PathVariant<'a> {
    /// The variant in comparison form, with a mark for each slash that was decoded in its query.
    form: Cow<'a, [u8]>,
    is_decoded: bool,
    /// True if an authority was cut off: the rest holds no second one.
    is_past_authority: bool,
    /// True if another variant equals this one with a final slash.
    lacks_slash: bool,
    /// True if another variant equals this one with an empty query.
    lacks_query: bool,
}

impl<'a> PathVariants<'a> {
    /// Returns the variants of a path. A path without other variants costs one scan and no allocation.
    pub fn of(path: &'a ComparisonPath<'_>) -> Self {
        Self::keeping(path, Punctuation::default())
    }

    /// Returns the variants in which an escaped slash stays escaped: `%2F` is not `/` (RFC 9309 section 2.2.2).
    pub(super) fn keeping_slashes(path: &'a ComparisonPath<'_>) -> Self {
        Self::keeping(path, Punctuation::SLASH)
    }

    /// Returns the punctuation that rules test for and that some variant has decoded; empty for almost every path.
    pub(super) fn decoded(&self, tested: Punctuation) -> Punctuation {
        if self.are_none() {
            return Punctuation::default();
        }
        Punctuation::escaped_in(self.written).within(tested)
    }

    /// Returns sets of variants that keep the escapes of `decoded` in turn, each with the punctuation that it still
    /// decodes.
    pub(super) fn keeping_some(
        path: &'a ComparisonPath<'_>,
        decoded: Punctuation,
    ) -> impl Iterator<Item = (Self, Punctuation)> {
        let kept = decoded.to_keep();
        kept.map(move |kept| (Self::keeping(path, kept), decoded.without(kept)))
    }

    /// Returns the variants that keep the escapes of some characters.
    fn keeping(path: &'a ComparisonPath<'_>, kept: Punctuation) -> Self {
        let mut variants =
            Self { written: path.as_bytes(), kept, found: Vec::new(), is_complete: true };
        if !is_plain(variants.written) && is_changed_by_a_step(variants.written) {
            variants.search();
        }
        variants
    }

    /// Tells whether the path has no other variant.
    pub(super) fn are_none(&self) -> bool {
        self.found.is_empty()
    }

    /// Tells whether all variants are known. A path with too many variants is not to be trusted.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the variants, without the path as written.
    pub fn paths(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let others = self.found.iter().skip(1);
        others.map(|variant| query::unmarked(&variant.form))
    }

    /// Returns the comparisons to make besides that of the path as written: each variant, with the rules in one or both
    /// spellings. `has_escapes` tells whether the two spellings of the rules differ; then the path as written is also
    /// compared with the decoded rules.
    pub fn comparisons(&self, has_escapes: bool) -> impl Iterator<Item = Comparison<'_>> {
        let is_stable = |form: &[u8]| is_stable(form, self.kept);
        let itself = (has_escapes && is_stable(self.written))
            .then(|| Comparison::of(self.written, Spelling::Decoded));
        let others = self.found.iter().skip(1).flat_map(move |variant| {
            let form = &*variant.form;
            let is_written = !variant.is_decoded;
            // No server decoded a form that still holds escapes, and decoded rules hold no escapes.
            let is_decoded = variant.is_decoded || has_escapes && is_stable(form);
            let with = |spelling| Comparison {
                lacks_slash: variant.lacks_slash,
                lacks_query: variant.lacks_query,
                ..Comparison::of(form, spelling)
            };
            let written = is_written.then(|| with(Spelling::Written));
            let decoded = is_decoded.then(|| with(Spelling::Decoded));
            written.into_iter().chain(decoded)
        });
        itself.into_iter().chain(others)
    }

    /// Finds every form that the steps lead to, in three levels: without decoding, with one decoding, with two.
    // Not inlined: almost every path skips it.
    #[inline(never)]
    fn search(&mut self) {
        self.found.push(PathVariant {
            form: Cow::Borrowed(self.written),
            is_decoded: false,
            is_past_authority: false,
            lacks_slash: false,
            lacks_query: false,
        });
        let mut next = 0;
        for decoding in [None, Some(Decoding::Once), Some(Decoding::Twice)] {
            if let Some(decoding) = decoding {
                for at in 0..self.found.len() {
                    let made = self.found.get(at).and_then(|variant| {
                        Some(PathVariant {
                            form: Cow::Owned(decoded(&variant.form, decoding, self.kept)?),
                            is_decoded: true,
                            is_past_authority: variant.is_past_authority,
                            lacks_slash: false,
                            lacks_query: variant.lacks_query,
                        })
                    });
                    self.add(made);
                }
            }
            while let Some(variant) = self.found.get(next) {
                for made in variant.one_step(self.kept) {
                    self.add(made);
                }
                if !self.is_complete {
                    return;
                }
                next += 1;
            }
        }
    }

    fn add(&mut self, made: Option<PathVariant<'a>>) {
        let Some(made) = made else { return };
        let mut known = self.found.iter_mut();
        if let Some(known) = known.find(|known| known.form == made.form) {
            known.lacks_slash &= made.lacks_slash;
            known.lacks_query &= made.lacks_query;
            return;
        }
        let others = self.found.iter().skip(1);
        let octets: usize = others.map(|variant| variant.form.len()).sum();
        if self.found.len() > MAX || octets + made.form.len() > MAX_OCTETS {
            self.is_complete = false;
            return;
        }
        self.found.push(made);
    }
}

impl<'a> PathVariant<'a> {
    /// Returns the results of each single step except decoding.
    fn one_step(&self, kept: Punctuation) -> [Option<PathVariant<'a>>; 22] {
        let form = &*self.form;
        let made = |form: Vec<u8>| PathVariant {
            form: Cow::Owned(form),
            is_decoded: self.is_decoded,
            is_past_authority: self.is_past_authority,
            lacks_slash: false,
            lacks_query: self.lacks_query,
        };
        let without_query = |form| PathVariant { lacks_query: true, ..made(form) };
        let with_query = || {
            let form = (!kept.holds(b'?')).then(|| with_query(form)).flatten();
            form.map(|form| PathVariant { lacks_query: false, ..made(form) })
        };
        let without_slash = |form| PathVariant { lacks_slash: true, ..made(form) };
        let behind_authority = || {
            (!self.is_past_authority).then(|| {
                Some(PathVariant { is_past_authority: true, ..made(without_authority(form)?) })
            })
        };
        // To the author of a rule, `/folder/` is another path than `/folder`.
        let drops_slash = matches!(self.form, Cow::Owned(_)) || is_file_with_slash(form);
        let bare = drops_slash.then(|| without_final_slash(form)).flatten();
        let ends_in_dots = ends_in_dot_segment(form);
        let [merged_first, merged_last, kept_empty] =
            [Order::MergeFirst, Order::MergeLast, Order::Keep].map(|order| resolved(form, order));
        let bare_of_dots = |resolved: &Option<Vec<u8>>| {
            let folder = resolved.as_deref().filter(|_| ends_in_dots)?;
            without_final_slash(folder).map(made)
        };
        [
            bare_of_dots(&merged_first),
            bare_of_dots(&merged_last),
            bare_of_dots(&kept_empty),
            merged_first.map(made),
            merged_last.map(made),
            kept_empty.map(made),
            bare.map(without_slash),
            without_parameters(form).map(made),
            with_slashes(form).map(made),
            behind_authority().flatten(),
            without_empty_query(form).map(without_query),
            with_query(),
            without_fragment(form).map(made),
            without_line_end(form).map(made),
            without_strays(form).map(made),
            of_latin1(form).map(made),
            without_breaks(form).map(made),
            before_nul(form).map(made),
            with_code_points(form).map(made),
            without_final_dots(form).map(made),
            without_space_of_path(form).map(made),
            without_space_of_query(form).map(made),
        ]
    }
}

/// Tells whether no step can change a form: it holds no escape, no parameter, no doubled slash, no segment that begins
/// or ends with a dot, no empty query, no slash before a query and none behind a file. The scan compiles to vector
/// instructions.
fn is_plain(form: &[u8]) -> bool {
    let after = form.get(1..).unwrap_or_default();
    let suspects = form.iter().zip(after).fold(false, |any, (before, octet)| {
        let begins = (*before == b'/') & ((*octet == b'/') | (*octet == b'.') | (*octet == b'?'));
        let ends = (*before == b'.') & ((*octet == b'/') | (*octet == b'?'));
        any | (*octet == b'%') | (*octet == b';') | begins | ends
    });
    !suspects
        && match form.last() {
            Some(b'?' | b'.') => false,
            Some(b'/') => !is_file_with_slash(form),
            _ => true,
        }
}

#[cfg(test)]
mod tests;
