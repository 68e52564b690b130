//! The search in the columns of a block.

use std::ops::Range;

use super::words::{chain, client, origin, rule, shape_facts};
use super::{ClientMatch, Search};
use crawlgate_block::{Block, BlockError, Found, Word, WordKind};

/// The answers of a dictionary's words to one condition.
#[derive(Debug)]
struct Answers {
    words: Vec<bool>,
    /// The answer of a decision without a word; `None` if each has one.
    without: Option<bool>,
}

impl Answers {
    #[inline]
    fn holds(&self, word: u32) -> bool {
        let answer = self.words.get(word as usize).copied();
        answer.or(self.without).unwrap_or_default()
    }

    /// Tells whether each decision meets the condition.
    fn always(&self) -> bool {
        self.without != Some(false) && !self.words.contains(&false)
    }

    /// Tells whether no decision meets the condition.
    fn never(&self) -> bool {
        self.without != Some(true) && !self.words.contains(&true)
    }
}

/// The conditions of a search on the columns of one block.
#[derive(Debug)]
pub(super) struct Conditions<'s> {
    search: &'s Search,
    block: &'s Block<'s>,
    /// A column with the answers to its condition; none for a condition that each word meets.
    answers: Vec<(&'s [u32], Answers)>,
    /// The answers of the clients, if the query asks for a port, too.
    ports: Option<Vec<ClientMatch>>,
    has_times: bool,
}

impl<'s> Conditions<'s> {
    /// Evaluates the conditions once per word.
    pub(super) fn of(search: &'s Search, block: &'s Block<'s>) -> Self {
        let mut on = Self {
            search,
            block,
            answers: Vec::new(),
            ports: None,
            has_times: search.query.since.is_some() || search.query.until.is_some(),
        };
        let (query, keys) = (&search.query, block.keys());
        let clients: Vec<ClientMatch> = match &search.client {
            Some(_) => {
                let clients = block.words(WordKind::Client).map(|word| client(&word));
                clients.map(|(address, name)| search.holds_client(address, name)).collect()
            }
            None => Vec::new(),
        };
        // The most selective conditions come first.
        if query.origin.is_some() {
            let without = Some(search.holds_origin(None));
            on.ask(WordKind::Origin, &keys.origin, without, |word| {
                search.holds_origin(Some(origin(word).unwrap_or_default()))
            });
        }
        if query.rule.is_some() {
            on.ask(WordKind::Rule, &keys.rule, Some(false), |word| search.holds_rule(rule(word)));
        }
        // Also without a condition: a shape that no decision has matches nothing.
        on.ask(WordKind::Shape, &keys.shape, None, |word| {
            shape_facts(word).is_some_and(|facts| search.holds_shape(&facts))
        });
        if search.client.is_some() {
            let words = clients.iter().map(|client| *client != ClientMatch::No);
            let answers = Answers { words: words.collect(), without: None };
            on.put(&keys.client, answers);
        }
        if query.agent.is_some() {
            on.ask(WordKind::Requester, &keys.requester, None, |word| {
                search.holds_agent(chain(word).iter().map(|token| token.kept))
            });
        }
        let has_port = |client: &ClientMatch| matches!(client, ClientMatch::IfPort(_));
        on.ports = clients.iter().any(has_port).then_some(clients);
        on
    }

    fn ask(
        &mut self,
        kind: WordKind,
        column: &'s [u32],
        without: Option<bool>,
        holds: impl Fn(&Word<'s>) -> bool,
    ) {
        let words = self.block.words(kind).map(|word| holds(&word)).collect();
        self.put(column, Answers { words, without });
    }

    fn put(&mut self, column: &'s [u32], answers: Answers) {
        if !answers.always() {
            self.answers.push((column, answers));
        }
    }

    /// Tells whether no decision in the columns can match.
    fn matches_nothing(&self) -> bool {
        self.answers.iter().any(|(_, answers)| answers.never())
    }

    /// Tells whether the decision of a row matches.
    #[inline]
    pub(super) fn holds(&self, row: usize) -> Result<bool, BlockError> {
        let mut answers = self.answers.iter();
        let holds = answers.all(|(column, answers)| {
            let word = column.get(row);
            word.is_some_and(|word| answers.holds(*word))
        });
        if !holds || (self.has_times && !self.holds_time(row)) {
            return Ok(false);
        }
        if let Some(ports) = &self.ports {
            let client = self.block.keys().client.get(row);
            let client = client.and_then(|client| ports.get(*client as usize));
            if let Some(ClientMatch::IfPort(port)) = client
                && self.block.port(row)? != u64::from(*port)
            {
                return Ok(false);
            }
        }
        if self.search.path.is_some() {
            let path = self.block.path(row)?;
            let follows = self.block.follows_origin(row);
            return Ok(self.search.holds_path(path, follows));
        }
        Ok(true)
    }

    #[inline]
    fn holds_time(&self, row: usize) -> bool {
        let time = self.block.keys().time.get(row);
        time.is_some_and(|time| self.search.holds_time(*time))
    }
}

/// The matching places of a block, in either order.
pub struct Places<'s, A> {
    on: Conditions<'s>,
    range: Range<u32>,
    newest_first: bool,
    acknowledged: A,
}

impl<A> std::fmt::Debug for Places<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("range", &self.range).finish_non_exhaustive()
    }
}

impl Search {
    /// Returns the places of a block's matching decisions within `range`, one after the other, in the order of the
    /// places or against it. After a damaged section there are none.
    pub fn places<'s, A: Fn(u32) -> bool>(
        &'s self,
        block: &'s Block<'s>,
        range: Range<usize>,
        newest_first: bool,
        acknowledged: A,
    ) -> Places<'s, A> {
        let on = Conditions::of(self, block);
        let end = range.end.min(block.len());
        let mut range = range.start.min(end) as u32..end as u32;
        if on.matches_nothing() {
            range.start = range.end;
        }
        Places { on, range, newest_first, acknowledged }
    }
}

impl<'s, A: Fn(u32) -> bool> Places<'s, A> {
    /// Gives the row of each matching decision to a function.
    pub(crate) fn each(mut self, mut row: impl FnMut(usize)) -> Result<(), BlockError> {
        while let Some(place) = self.step() {
            if let Some(nth) = self.row(place)? {
                row(nth);
            }
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self) -> Option<u32> {
        if self.newest_first { self.range.next_back() } else { self.range.next() }
    }

    /// Returns the row of a place, if there is a decision that matches. Each decision has a row.
    #[inline]
    fn row(&self, place: u32) -> Result<Option<usize>, BlockError> {
        let Some(Found::Row(row)) = self.on.block.keys().at(place) else {
            return Ok(None);
        };
        let holds = self.on.holds(row)? && self.holds_acknowledged(place);
        Ok(holds.then_some(row))
    }

    fn holds_acknowledged(&self, place: u32) -> bool {
        let search = self.on.search;
        search.query.acknowledged.is_none() || search.holds_acknowledged((self.acknowledged)(place))
    }
}

impl<A: Fn(u32) -> bool> Iterator for Places<'_, A> {
    type Item = Result<u32, BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(place) = self.step() {
            match self.row(place) {
                Ok(Some(_)) => return Some(Ok(place)),
                Ok(None) => {}
                Err(error) => {
                    self.range.start = self.range.end;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
