//! Requests that are judged by configured product tokens although their User-Agent names none of them: counted, with the
//! first of them as the example.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::write_foreign;
use crawlgate_robots::ProductToken;

/// Octets of the User-Agent that are kept.
const KEPT: usize = 256;

/// The counter.
#[derive(Debug, Default)]
pub(super) struct Mismatches {
    count: AtomicU64,
    first: OnceLock<Example>,
}

#[derive(Debug)]
struct Example {
    judged_as: Vec<ProductToken>,
    user_agent: Option<String>,
}

/// All such requests so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatched {
    /// Their number.
    pub count: u64,
    /// The product tokens that the first one was judged by.
    pub judged_as: Vec<String>,
    /// The User-Agent that it sent; `None` if it sent none.
    pub user_agent: Option<String>,
}

impl Mismatches {
    /// Counts a request that is judged by these tokens and sends this User-Agent.
    pub(super) fn add(&self, judged_as: &[ProductToken], user_agent: Option<&[u8]>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(|| Example {
            judged_as: judged_as.to_vec(),
            user_agent: user_agent.map(|sent| {
                let kept = sent.get(..KEPT).unwrap_or(sent);
                String::from_utf8_lossy(kept).into_owned()
            }),
        });
    }

    /// Returns what was counted; `None` for nothing.
    pub(super) fn all(&self) -> Option<Mismatched> {
        let first = self.first.get()?;
        let token = |token: &ProductToken| token.as_str().to_owned();
        Some(Mismatched {
            count: self.count.load(Ordering::Relaxed),
            judged_as: first.judged_as.iter().map(token).collect(),
            user_agent: first.user_agent.clone(),
        })
    }
}

impl fmt::Display for Mismatched {
    /// Writes the line of a summary.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.judged_as.join(", ");
        write!(f, "mismatch  {:>10}  judged as {tokens}, but sent ", self.count)?;
        match &self.user_agent {
            Some(user_agent) => {
                f.write_str("User-Agent: ")?;
                write_foreign(f, user_agent)
            }
            None => f.write_str("no User-Agent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_is_the_example() {
        let counted = Mismatches::default();
        assert_eq!(counted.all(), None);
        let tokens = ["NewsBot-Image", "NewsBot"].map(|token| ProductToken::new(token).unwrap());
        counted.add(&tokens, Some(b"curl/8 \x1b[2J"));
        counted.add(&tokens[1..], None);
        assert_eq!(
            counted.all().unwrap().to_string(),
            "mismatch           2  judged as NewsBot-Image, NewsBot, but sent User-Agent: curl/8 \\u{1b}[2J"
        );
        let counted = Mismatches::default();
        counted.add(&tokens[1..], None);
        assert_eq!(
            counted.all().unwrap().to_string(),
            "mismatch           1  judged as NewsBot, but sent no User-Agent"
        );
        let long = [b'x'; 2 * KEPT];
        let counted = Mismatches::default();
        counted.add(&tokens, Some(&long));
        assert_eq!(counted.all().unwrap().user_agent.unwrap().len(), KEPT);
    }
}
