//! One robots.txt or tdmrep.json as it was fetched: the evidence for decisions.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use super::crawl_delay::CrawlDelay;
use crawlgate_robots::{ParseOptions, ProductToken, Robots, Rules, Selection};
use crawlgate_text::Moment;
use crawlgate_usage::{Statements, TdmRep, UnusedReason};

/// Compiled sets of rules, and of statements, kept per file. A file usually names more agents than ever ask for it.
const COMPILED_KEPT: usize = 16;

/// Number of token chains with remembered rules: selecting the rules in a file of many groups takes longer than the
/// verdict.
const CHAINS_KEPT: usize = 32;

/// One fetched file, parsed, with the facts about its fetch.
pub struct Snapshot {
    /// The parsed robots.txt; it owns the text. A tdmrep.json is no robots.txt: its text is only asked for by
    /// [`Snapshot::tdmrep`].
    pub robots: Robots,
    /// SHA-256 of the part of the text that counts.
    pub sha256: [u8; 32],
    /// The moment at which the fetch ended.
    pub fetched: Moment,
    /// Status of the final answer.
    pub status: u16,
    /// The URL of the text, after redirects.
    pub final_url: Box<str>,
    rules: RwLock<Compiled<Rules>>,
    rules_bytes: AtomicUsize,
    /// The file's statements about use; never filled if it has none.
    statements: RwLock<Compiled<Statements>>,
    statements_bytes: AtomicUsize,
    /// The text as a tdmrep.json, read at its first use.
    tdmrep: OnceLock<Result<TdmRep, UnusedReason>>,
    /// Crawl delays by chain of tokens, the oldest first.
    crawl_delays: RwLock<Vec<AskedOf>>,
}

/// A chain of tokens, and its crawl delay.
type AskedOf = (Box<[ProductToken]>, Option<Arc<CrawlDelay>>);

/// Rules or statements, compiled, by chain of tokens, the oldest first.
struct Compiled<T> {
    sets: Vec<(Selection, Arc<T>)>,
    chains: Vec<(Box<[ProductToken]>, Arc<T>)>,
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
            rules: RwLock::default(),
            rules_bytes: AtomicUsize::new(0),
            statements: RwLock::default(),
            statements_bytes: AtomicUsize::new(0),
            tdmrep: OnceLock::new(),
            crawl_delays: RwLock::default(),
            robots,
        }
    }

    /// Parses the stored text of a file again. The size limit was applied when the file was fetched: `truncated` tells
    /// whether there was more.
    pub fn reread(text: &[u8], lenient: bool, truncated: bool) -> Robots {
        let options = ParseOptions { lenient, limit: text.len() };
        if truncated {
            // One octet more, as when it was fetched: the file was longer than the limit.
            Robots::parse(&[text, b"\n"].concat(), options)
        } else {
            Robots::parse(text, options)
        }
    }

    /// Returns the same fetch with its file parsed leniently or not.
    #[must_use]
    pub fn reparsed(&self, lenient: bool) -> Snapshot {
        let robots = Snapshot::reread(self.robots.text(), lenient, self.robots.is_truncated());
        Snapshot::new(robots, self.fetched, self.status, &self.final_url)
    }

    /// Returns the rules for a chain of product tokens, compiled at their first use.
    pub fn rules(&self, chain: &[ProductToken]) -> Arc<Rules> {
        let compile = |selection| self.robots.rules(selection);
        self.compiled(&self.rules, &self.rules_bytes, chain, compile, Rules::bytes)
    }

    /// Returns what the file says of use to a chain of product tokens, compiled at its first use. `None` where no line
    /// of the file speaks of it.
    pub fn statements(&self, chain: &[ProductToken]) -> Option<Arc<Statements>> {
        let compile = |selection| Statements::selected(&self.robots, selection);
        let (all, bytes) = (&self.statements, &self.statements_bytes);
        self.robots
            .has_usage()
            .then(|| self.compiled(all, bytes, chain, compile, Statements::bytes))
    }

    /// Returns the file as a tdmrep.json, read at its first use.
    ///
    /// # Errors
    /// When the file is no tdmrep.json.
    pub fn tdmrep(&self) -> Result<&TdmRep, UnusedReason> {
        let read = || {
            if self.robots.is_truncated() {
                Err(UnusedReason::TooLong)
            } else {
                TdmRep::parse(self.robots.text())
            }
        };
        self.tdmrep.get_or_init(read).as_ref().map_err(|why| *why)
    }

    fn compiled<T>(
        &self,
        all: &RwLock<Compiled<T>>,
        total: &AtomicUsize,
        chain: &[ProductToken],
        compile: impl Fn(Selection) -> T,
        size_of_set: fn(&T) -> usize,
    ) -> Arc<T> {
        if let Some(set) = all.read().known(chain) {
            return set;
        }
        let selection = self.robots.selection(chain);
        let known = all.read().selected(selection);
        let set = known.unwrap_or_else(|| Arc::new(compile(selection)));
        let mut all = all.write();
        // Another request may have compiled it meanwhile.
        let set = all.selected(selection).unwrap_or(set);
        let bytes = all.keep(chain, selection, &set, size_of_set);
        total.store(bytes, Ordering::Relaxed);
        set
    }

    /// Returns the crawl delay for this chain of product tokens, read at its first use.
    pub fn crawl_delay(&self, chain: &[ProductToken]) -> Option<Arc<CrawlDelay>> {
        let known = |crawl_delays: &[AskedOf]| {
            let (_, crawl_delay) = crawl_delays.iter().find(|(known, _)| **known == *chain)?;
            Some(crawl_delay.clone())
        };
        if let Some(crawl_delay) = known(&self.crawl_delays.read()) {
            return crawl_delay;
        }
        let crawl_delay = CrawlDelay::of(&self.robots, chain).map(Arc::new);
        let mut crawl_delays = self.crawl_delays.write();
        if known(&crawl_delays).is_none() {
            if crawl_delays.len() >= CHAINS_KEPT {
                crawl_delays.remove(0);
            }
            crawl_delays.push((Box::from(chain), crawl_delay.clone()));
        }
        crawl_delay
    }

    /// Returns the octets of this snapshot in memory, roughly. The number grows as rules are compiled.
    pub fn bytes(&self) -> usize {
        let rules = self.rules_bytes.load(Ordering::Relaxed);
        let statements = self.statements_bytes.load(Ordering::Relaxed);
        let tdmrep = self.tdmrep.get().and_then(|read| read.as_ref().ok());
        let tdmrep = tdmrep.map_or(0, TdmRep::bytes);
        self.robots.bytes() + rules + statements + tdmrep + self.final_url.len() + 512
    }
}

impl<T> Default for Compiled<T> {
    fn default() -> Compiled<T> {
        Compiled { sets: Vec::new(), chains: Vec::new() }
    }
}

impl<T> Compiled<T> {
    /// Returns the remembered set of a chain of tokens.
    fn known(&self, chain: &[ProductToken]) -> Option<Arc<T>> {
        let (_, set) = self.chains.iter().find(|(known, _)| **known == *chain)?;
        Some(Arc::clone(set))
    }

    fn selected(&self, selection: Selection) -> Option<Arc<T>> {
        let (_, set) = self.sets.iter().find(|(known, _)| *known == selection)?;
        Some(Arc::clone(set))
    }

    /// Remembers the set of a chain, and returns the octets of all sets.
    fn keep(
        &mut self,
        chain: &[ProductToken],
        selection: Selection,
        set: &Arc<T>,
        size_of_set: fn(&T) -> usize,
    ) -> usize {
        if self.selected(selection).is_none() {
            if self.sets.len() >= COMPILED_KEPT {
                let (_, oldest) = self.sets.remove(0);
                self.chains.retain(|(_, set)| !Arc::ptr_eq(set, &oldest));
            }
            self.sets.push((selection, Arc::clone(set)));
        }
        if self.known(chain).is_none() {
            if self.chains.len() >= CHAINS_KEPT {
                self.chains.remove(0);
            }
            self.chains.push((Box::from(chain), Arc::clone(set)));
        }
        let sets = self.sets.iter().map(|(_, set)| size_of::<T>() + size_of_set(set));
        // The tokens share their text with the crawler's configured or cached chain.
        let chains = self.chains.iter().map(|(chain, _)| 32 + size_of_val(&**chain));
        sets.chain(chains).sum()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("fetched", &self.fetched)
            .field("final_url", &self.final_url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
        Snapshot::new(robots, Moment::default(), 200, "")
    }

    fn chain(token: &str) -> [ProductToken; 1] {
        [ProductToken::new(token).expect("a valid token")]
    }

    #[test]
    fn rules_are_compiled_once_for_all_agents_of_a_group() {
        let snapshot = snapshot("User-agent: a\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n");
        let global = snapshot.rules(&chain("b"));
        assert!(Arc::ptr_eq(&global, &snapshot.rules(&chain("c"))));
        assert!(Arc::ptr_eq(&global, &snapshot.rules(&[])));
        assert!(!Arc::ptr_eq(&global, &snapshot.rules(&chain("A"))));
    }

    #[test]
    fn compiled_rules_are_weighed_and_bounded() {
        let names: Vec<String> = (0..COMPILED_KEPT + 5).map(|n| "a".repeat(n + 1)).collect();
        let groups = names.iter().map(|name| format!("User-agent: {name}\nDisallow: /a\n"));
        let snapshot = snapshot(&groups.collect::<String>());
        let bare = snapshot.bytes();
        let mut weights = Vec::new();
        for name in &names {
            snapshot.rules(&chain(name));
            weights.push(snapshot.bytes());
        }
        assert!(bare < weights[0]);
        assert!(weights[..COMPILED_KEPT].is_sorted_by(|a, b| a < b));
        assert_eq!(snapshot.rules.read().sets.len(), COMPILED_KEPT);
        assert_eq!(snapshot.rules.read().chains.len(), COMPILED_KEPT);
        // All sets are alike except for their names.
        let grown = weights[weights.len() - 1].abs_diff(weights[COMPILED_KEPT - 1]);
        assert!(grown < 1000, "{grown}");
    }

    #[test]
    fn statements_are_compiled_once_and_weighed() {
        let bare = snapshot("User-agent: *\nDisallow: /a\n");
        assert!(bare.statements(&chain("a")).is_none());
        let text =
            "User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n\nUser-agent: a\nAllow: /\n";
        let snapshot = snapshot(text);
        let before = snapshot.bytes();
        let global = snapshot.statements(&chain("b")).expect("the file speaks of use");
        assert!(!global.is_empty() && snapshot.bytes() > before);
        let again = snapshot.statements(&[]).expect("the file speaks of use");
        assert!(Arc::ptr_eq(&global, &again));
        let own = snapshot.statements(&chain("a")).expect("the file speaks of use");
        assert!(own.is_empty());
    }

    #[test]
    fn the_digest_is_of_the_text_that_counts() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(crawlgate_text::hex(snapshot("").sha256), empty);
    }
}
