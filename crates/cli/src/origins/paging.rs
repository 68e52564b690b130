//! The pages of a list: the part of it that a command prints, and the place where the next part begins.

use std::io::IsTerminal as _;

use clap::Args;

use super::NOTHING;
use crate::{Failure, terminal};

/// Items to read at once.
const PAGE: usize = 500;

/// Items to list by default.
const LIMIT: usize = 100;

/// The part of a list to print, and the form.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct Paging {
    /// Only origins with this text in their name
    #[arg(long, value_name = "TEXT")]
    pub(super) containing: Option<String>,
    /// Only what comes after this origin, or after the place that the list names at its end
    #[arg(long, value_name = "ORIGIN")]
    after: Option<String>,
    /// At most this many lines
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = LIMIT)]
    limit: usize,
    /// List everything, page by page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

impl Default for Paging {
    fn default() -> Paging {
        Paging { containing: None, after: None, limit: LIMIT, all: false, json: false }
    }
}

/// A part of a list, as it is printed.
pub(super) struct Part {
    /// The line of each item.
    pub(super) lines: Vec<Vec<u8>>,
    /// The place after which the next part begins; `None` at the end of the list.
    pub(super) next: Option<String>,
}

impl Paging {
    /// Prints a list under a heading. `part` reads at most so many items after a place.
    ///
    /// # Errors
    /// When a part cannot be read, or standard output cannot be written.
    pub(super) async fn print(
        &self,
        heading: &str,
        mut part: impl AsyncFnMut(Option<String>, usize) -> Result<Part, Failure>,
    ) -> Result<u8, Failure> {
        let mut left = if self.all { usize::MAX } else { self.limit };
        let mut after = self.after.clone();
        let mut is_first = true;
        while left > 0 {
            let Part { lines, next } = part(after, left.min(PAGE)).await?;
            let mut text = Vec::new();
            if is_first && !self.json && !lines.is_empty() {
                text.extend(heading.bytes());
            }
            text.extend(lines.concat());
            if !terminal::print(&text)? {
                return Ok(0);
            }
            is_first &= lines.is_empty();
            left -= lines.len();
            after = next;
            if after.is_none() {
                return Ok(if is_first { NOTHING } else { 0 });
            }
        }
        // A hint for people only; scripts have set their limit.
        if let Some(after) = after.filter(|_| std::io::stdout().is_terminal()) {
            terminal::print(
                format!("… there may be more: --after '{after}', or --all\n").as_bytes(),
            )?;
        }
        Ok(0)
    }
}
