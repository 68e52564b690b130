//! The path guard's question: which other paths may the origin server make of this one?
//!
//! Between the request line and the resource, a server takes some steps: it decodes escapes, cuts parameters off
//! segments, takes backslashes for slashes, resolves dot segments, merges slashes. Servers differ in which of them they
//! take and in which order, and a request often passes two servers. So the guard does not model one server after the
//! other: it asks about all that any row of these steps makes of a path.
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
//!
//! A final slash that stands in the path as it is written is dropped only behind a file's name: a rule that ends in `$`
//! means to tell `/folder` from `/folder/`. And what is read without a final slash is judged by rules that end in `$`
//! alone: any other rule that disallows it disallows it with the slash, too, unless an allow that ends in that very slash
//! goes before.
//!
//! All of it happens on comparison forms, where most spellings of one path are one already. A form that is found once
//! is not looked at again, so the search ends; [`MOST`] and [`MOST_OCTETS`] bound what a hostile path makes of it. A path
//! with more readings than that is denied wherever anything is disallowed: no author of a page writes one.
//!
//! A server that decodes a path serves one resource for `/a/b` and `/a%2Fb`. What a rule says of one it says of the
//! other, so a decoded path is compared with decoded rules ([`Spelling`]). Rules that test for punctuation alone are the
//! exception (`punctuation`).

mod punctuation;
mod steps;

use std::borrow::Cow;

pub(super) use self::punctuation::Punctuation;
pub(super) use self::steps::decoded_value;
use self::steps::{
    Decoding, Order, decoded, is_changed_by_a_step, is_file_with_slash, is_stable, resolved,
    with_query, with_slashes, without_authority, without_empty_query, without_final_slash,
    without_fragment, without_line_end, without_parameters,
};
use super::path::ComparisonPath;

/// The most readings of one path that are asked about.
const MOST: usize = 64;

/// The most octets that all readings of a path have together. A path of up to 2 KiB never reaches it before [`MOST`].
const MOST_OCTETS: usize = 128 * 1024;

/// Which spelling of the rules a path is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// As the author wrote them, in comparison form: `%2F` is not `/`.
    Written,
    /// With their escapes decoded, as a server decodes those of a path.
    Decoded,
}

/// All other readings of a path, each once; none for almost every path.
#[derive(Debug)]
pub struct Readings<'a> {
    written: &'a [u8],
    /// What is not decoded.
    kept: Punctuation,
    /// The path itself is the first, unless there are none.
    found: Vec<Reading<'a>>,
    is_complete: bool,
}

/// What the path may be read as.
#[derive(Debug)]
struct Reading<'a> {
    /// In comparison form.
    form: Cow<'a, [u8]>,
    is_decoded: bool,
    /// What follows an authority holds no second one.
    is_past_authority: bool,
    /// Whether it is another one without its final slash.
    lacks_slash: bool,
}

/// What is to be asked beside the path as it is written.
#[derive(Debug)]
pub struct Question<'a> {
    /// A reading.
    pub path: ComparisonPath<'a>,
    /// The spelling of the rules that it is compared with.
    pub spelling: Spelling,
    /// Whether it is another reading without its final slash. A rule without a `$` at its end has said of that one what
    /// it says.
    pub lacks_slash: bool,
}

impl Question<'_> {
    /// Whether a disallow has a say in it, given the punctuation that the readings decode, and the disallow's pattern.
    pub(super) fn admits(&self, decoded: Punctuation, text: &[u8], is_anchored: bool) -> bool {
        (is_anchored || !self.lacks_slash)
            && (decoded.is_empty() || !decoded.meets(Punctuation::tested_by(text)))
    }
}

impl<'a> Readings<'a> {
    /// The readings of a path. One look at its octets, and no allocation, where it has none.
    pub fn of(path: &'a ComparisonPath<'_>) -> Self {
        Self::keeping(path, Punctuation::default())
    }

    /// Of the punctuation that rules test for, what some reading has decoded; nothing for almost every path.
    pub(super) fn decoded(&self, tested: Punctuation) -> Punctuation {
        if self.are_none() {
            return Punctuation::default();
        }
        Punctuation::escaped_in(self.written).within(tested)
    }

    /// What is to be asked about where that is something: readings that keep such escapes, and what they still decode.
    pub(super) fn keeping_some(
        path: &'a ComparisonPath<'_>,
        decoded: Punctuation,
    ) -> impl Iterator<Item = (Self, Punctuation)> {
        let kept = decoded.to_keep();
        kept.map(move |kept| (Self::keeping(path, kept), decoded.without(kept)))
    }

    /// The readings that keep the escapes of some characters.
    fn keeping(path: &'a ComparisonPath<'_>, kept: Punctuation) -> Self {
        let mut readings = Self {
            written: path.as_bytes(),
            kept,
            found: Vec::new(),
            is_complete: true,
        };
        if !is_plain(readings.written) && is_changed_by_a_step(readings.written) {
            readings.search();
        }
        readings
    }

    /// Whether the path can be read in no other way.
    pub(super) fn are_none(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether all of them are known. A path with too many is not to be trusted.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The readings, without the path as written.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.found.iter().skip(1).map(|reading| &*reading.form)
    }

    /// What is to be asked beside the path as written: each reading, with the rules in one or both of their spellings.
    /// `has_escapes` tells whether the two spellings of the rules differ; then the path as written is asked about
    /// in the decoded one, too.
    pub fn questions(&self, has_escapes: bool) -> impl Iterator<Item = Question<'_>> {
        let is_stable = |form: &[u8]| is_stable(form, self.kept);
        let question = |form, spelling, lacks_slash| Question {
            path: ComparisonPath::of_form(form),
            spelling,
            lacks_slash,
        };
        let itself = (has_escapes && is_stable(self.written))
            .then(|| question(self.written, Spelling::Decoded, false));
        let others = self.found.iter().skip(1).flat_map(move |reading| {
            let form = &*reading.form;
            let is_written = !reading.is_decoded;
            // What still holds escapes was not decoded by anyone, and the decoded rules hold none.
            let is_decoded = reading.is_decoded || has_escapes && is_stable(form);
            let ask = |spelling| question(form, spelling, reading.lacks_slash);
            let written = is_written.then(|| ask(Spelling::Written));
            let decoded = is_decoded.then(|| ask(Spelling::Decoded));
            written.into_iter().chain(decoded)
        });
        itself.into_iter().chain(others)
    }

    /// Finds every form that steps lead to, level by level: without decoding, with one, with two.
    // Out of the way of the paths that have none.
    #[inline(never)]
    fn search(&mut self) {
        self.found.push(Reading {
            form: Cow::Borrowed(self.written),
            is_decoded: false,
            is_past_authority: false,
            lacks_slash: false,
        });
        let mut next = 0;
        for decoding in [None, Some(Decoding::Once), Some(Decoding::Twice)] {
            if let Some(decoding) = decoding {
                for at in 0..self.found.len() {
                    let made = self.found.get(at).and_then(|reading| {
                        Some(Reading {
                            form: Cow::Owned(decoded(&reading.form, decoding, self.kept)?),
                            is_decoded: true,
                            is_past_authority: reading.is_past_authority,
                            lacks_slash: false,
                        })
                    });
                    self.add(made);
                }
            }
            while let Some(reading) = self.found.get(next) {
                for made in reading.one_step(self.kept) {
                    self.add(made);
                }
                if !self.is_complete {
                    return;
                }
                next += 1;
            }
        }
    }

    fn add(&mut self, made: Option<Reading<'a>>) {
        let Some(made) = made else { return };
        let mut known = self.found.iter_mut();
        if let Some(known) = known.find(|known| known.form == made.form) {
            known.lacks_slash &= made.lacks_slash;
            return;
        }
        let others = self.found.iter().skip(1);
        let octets: usize = others.map(|reading| reading.form.len()).sum();
        if self.found.len() > MOST || octets + made.form.len() > MOST_OCTETS {
            self.is_complete = false;
            return;
        }
        self.found.push(made);
    }
}

impl<'a> Reading<'a> {
    /// What each step, but for decoding, makes of it.
    fn one_step(&self, kept: Punctuation) -> [Option<Reading<'a>>; 11] {
        let form = &*self.form;
        let made = |form: Vec<u8>| Reading {
            form: Cow::Owned(form),
            is_decoded: self.is_decoded,
            is_past_authority: self.is_past_authority,
            lacks_slash: false,
        };
        let without_slash = |form| Reading {
            lacks_slash: true,
            ..made(form)
        };
        let behind_authority = || {
            (!self.is_past_authority).then(|| {
                Some(Reading {
                    is_past_authority: true,
                    ..made(without_authority(form)?)
                })
            })
        };
        // As its author wrote it, `/folder/` is another path than `/folder`.
        let drops_slash = matches!(self.form, Cow::Owned(_)) || is_file_with_slash(form);
        let bare = drops_slash.then(|| without_final_slash(form)).flatten();
        [
            resolved(form, Order::MergeFirst).map(made),
            resolved(form, Order::MergeLast).map(made),
            resolved(form, Order::Keep).map(made),
            bare.map(without_slash),
            without_parameters(form).map(made),
            with_slashes(form).map(made),
            behind_authority().flatten(),
            without_empty_query(form).map(made),
            (!kept.holds(b'?'))
                .then(|| with_query(form))
                .flatten()
                .map(made),
            without_fragment(form).map(made),
            without_line_end(form).map(made),
        ]
    }
}

/// Whether no step could change a form: it holds no escape, no parameter, no doubled slash, no segment that begins with
/// a dot, no empty query and no slash behind a file. The scan compiles to vector instructions.
fn is_plain(form: &[u8]) -> bool {
    let after = form.get(1..).unwrap_or_default();
    let suspects = form.iter().zip(after).fold(false, |any, (before, octet)| {
        let begins = (*before == b'/') & ((*octet == b'/') | (*octet == b'.'));
        any | (*octet == b'%') | (*octet == b';') | begins
    });
    !suspects
        && match form.last() {
            Some(b'?') => false,
            Some(b'/') => !is_file_with_slash(form),
            _ => true,
        }
}

#[cfg(test)]
mod tests;
