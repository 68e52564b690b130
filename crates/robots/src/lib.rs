//! The Robots Exclusion Protocol (RFC 9309) and nothing else: octets come in; a verdict and the rule that gave it come
//! out.
//!
//! This module knows no sockets, clocks, files or configuration. Nothing in it fails: any octets
//! are a robots.txt, any octets are a path, and the cost of both is bounded.
//!
//! ```
//! use crawlgate_robots::{ComparisonPath, ParseOptions, ProductToken, Robots, RuleKind};
//!
//! let text = b"User-agent: ExampleBot\nDisallow: /private/\nAllow: /private/*.html$\n";
//! let robots = Robots::parse(text, ParseOptions::default());
//! let chain = [ProductToken::new("examplebot").unwrap()];
//! let rules = robots.rules(robots.selection(&chain));
//!
//! let rule = rules.verdict(&ComparisonPath::new(b"/private/diary")).unwrap();
//! assert_eq!((rule.kind, rule.line, &*rule.group), (RuleKind::Disallow, 2, "ExampleBot"));
//! assert!(rules.verdict(&ComparisonPath::new(b"/public")).is_none());
//! ```
//!
//! One robots.txt holds for one [`Origin`]. `line` reads it, [`Robots`] keeps it and compiles it into [`Rules`], one
//! set for each [`Selection`] of groups that a chain of [`ProductToken`]s leads to. A path is put into its
//! [`ComparisonPath`] once and can then be judged any number of times.
//!
//! # Cost
//!
//! For a text of *n* octets and a path of *m*:
//!
//! - reading is one pass, O(*n*), for any text; each user-agent, rule or other known line takes four octets besides the
//!   text;
//! - compiling is O(*n* log *n*) and touches the rules of the selected groups only: patterns are borrowed from the
//!   text, hashes are keyed, and patterns that would crowd one hash are divided further (`prefix_index`,
//!   `trigram_index`);
//! - a verdict asks each pattern at most once and never goes back within one (`pattern`). Where patterns times *m*
//!   is more than a million, the path is indexed first (`suffix_array`), so it is O((*n* + *m*) log² *m*) and not
//!   O(*n* *m*). Usually it asks a handful of patterns, and allocates nothing.
//!
//! If Google's library and the RFC differ, Google's reading of files is followed, because authors test against it,
//! and the RFC's matching, because it is the stricter. The names of the tests say which is which: `rfc9309_…`,
//! `google_…`, and `ours_…` where neither decides.

mod agent;
mod compiled;
mod delay;
mod explain;
mod family;
mod field;
mod group;
mod guard;
mod key;
mod line;
mod lint;
mod origin;
mod parse;
mod path;
mod path_pattern;
mod pattern;
mod prefix_index;
mod ranked_paths;
mod redundant;
mod rule;
mod rules;
mod suffix_array;
mod token;
mod transfer_type;
mod trigram_index;
mod utf16;

pub use agent::product_tokens;
pub use delay::Interval;
pub use explain::{
    ApplicableGroup, Explanation, Judged, Match, MatchedBy, TokenRole, VerdictReason,
};
pub use family::family;
pub use field::Field;
pub use group::{Group, OtherLine};
pub use guard::{Comparison, PathVariants, Spelling};
pub use line::{has_rules, lines};
pub use lint::{Lint, LintKind};
pub use origin::{Origin, OriginError, Scheme};
pub use parse::{ParseOptions, Robots};
pub use path::ComparisonPath;
pub use path::digit;
pub use path_pattern::{PathPattern, PathPatternError};
pub use ranked_paths::{Applicable, RankedPaths};
pub use rule::{Rule, RuleKind, Selection};
pub use rules::{Finding, GuardVerdict, Rules};
pub use token::{ProductToken, TokenError};
pub use transfer_type::{TransferType, split_transfer_type};
pub use utf16::decoded;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
