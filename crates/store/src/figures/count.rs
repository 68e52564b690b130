//! The counting of decisions in the columns of a block.

use std::collections::HashMap;
use std::ops::Range;

use super::states::Use;
use super::{DAY, FRESH, Figures, Lookup, OutcomeInMode, Sum};
use crate::search::Search;
use crate::search::words::{chain, client, origin, rule, shape_facts, shown, user_agent};
use crawlgate_block::{Block, BlockError, NO_WORD, Word, WordKind};
use crawlgate_policy::Outcome;
use crawlgate_record::cbor::Reader;
use crawlgate_record::{Digest, Entry, Mode, Verdict, key, outcome};

/// The facts of decisions that share a shape.
#[derive(Clone, Copy, Debug)]
struct Traits<'a> {
    mode: Mode,
    verdict: Verdict,
    reason: &'a str,
    error: Option<&'a str>,
    outcome_in_mode: OutcomeInMode,
    is_opaque: bool,
    policy: Option<Digest>,
    overridden: Option<Digest>,
}

/// Returns the outcome of a request by what its record says.
pub(super) fn outcome_in_mode(
    mode: Mode,
    verdict: Verdict,
    reason: &str,
    has_failed: bool,
) -> OutcomeInMode {
    let is_reported = mode == Mode::Report && verdict != Verdict::Allow;
    let outcome = outcome(mode, verdict, reason, has_failed);
    (outcome, is_reported)
}

impl<'a> Traits<'a> {
    /// Reads the word of a shape; `None` if no decision has such a shape.
    fn of_word(word: &Word<'a>) -> Option<Self> {
        let facts = shape_facts(word)?;
        let value = |key| word.value(key).map(Reader::new);
        let digest = |key| value(key).and_then(|mut item| item.fixed().ok().copied());
        Some(Self {
            mode: facts.mode,
            verdict: facts.verdict,
            reason: facts.reason,
            error: facts.error,
            outcome_in_mode: outcome_in_mode(
                facts.mode,
                facts.verdict,
                facts.reason,
                facts.ends_in_failure,
            ),
            is_opaque: value(key::OPAQUE).is_some(),
            policy: digest(key::POLICY),
            overridden: digest(key::OVERRIDE),
        })
    }

    /// Tells whether the request was refused, or would have been without report mode.
    fn is_refusal(&self) -> bool {
        self.verdict != Verdict::Allow
    }
}

/// The sums of one block by the numbers of its words.
struct Columns {
    clients: Vec<Sum>,
    requesters: Vec<Sum>,
    /// The last is that of decisions without an origin.
    origins: Vec<Sum>,
    /// By day and shape, with the first row.
    shapes: HashMap<(u64, u32), (Sum, usize), ahash::RandomState>,
    /// By origin and rule.
    rules: HashMap<(u32, u32), Sum, ahash::RandomState>,
    /// By origin.
    reported: HashMap<u32, Sum, ahash::RandomState>,
    opaque: HashMap<u32, Sum, ahash::RandomState>,
    /// By basis and shape, with the number of those that were fresh.
    bases: HashMap<(u32, u32), (Sum, u64), ahash::RandomState>,
}

impl Figures {
    /// Counts the matching decisions of a block within `range`, and its events.
    ///
    /// # Errors
    /// When a section of the block is damaged. A part of its decisions may then be counted.
    pub fn count_block(
        &mut self,
        search: &Search,
        block: &Block<'_>,
        range: Range<usize>,
        acknowledged: impl Fn(u32) -> bool,
        objects: Lookup<'_>,
    ) -> Result<(), BlockError> {
        for (nth, place) in block.other_places().iter().enumerate() {
            if !range.contains(&(*place as usize)) {
                continue;
            }
            if let Ok(Entry::Event(event)) = Entry::read(block.other(nth)?) {
                self.count_event(search, &event);
            }
        }
        let mut rows = Vec::new();
        let places = search.places(block, range, false, |_| false);
        places.each(|row| rows.push(row))?;
        if rows.is_empty() {
            return Ok(());
        }
        self.count_rows(block, &rows, acknowledged, objects)
    }

    fn count_rows(
        &mut self,
        block: &Block<'_>,
        rows: &[usize],
        acknowledged: impl Fn(u32) -> bool,
        objects: Lookup<'_>,
    ) -> Result<(), BlockError> {
        let keys = block.keys();
        let shapes: Vec<Word<'_>> = block.words(WordKind::Shape).collect();
        let shapes: Vec<Option<Traits<'_>>> = shapes.iter().map(Traits::of_word).collect();
        let bases = block.words(WordKind::Basis);
        let bases: Vec<Option<Digest>> =
            bases.map(|word| Reader::new(word.octets).fixed().ok().copied()).collect();
        let mut fetched: Vec<Option<Option<u64>>> = vec![None; bases.len()];
        let sums = |kind| vec![Sum::default(); block.words(kind).count()];
        let mut columns = Columns {
            clients: sums(WordKind::Client),
            requesters: sums(WordKind::Requester),
            origins: sums(WordKind::Origin),
            shapes: HashMap::default(),
            rules: HashMap::default(),
            reported: HashMap::default(),
            opaque: HashMap::default(),
            bases: HashMap::default(),
        };
        columns.origins.push(Sum::default());
        let last = columns.origins.len() - 1;
        for &row in rows {
            let word = |column: &[u32]| column.get(row).copied().unwrap_or(NO_WORD);
            let time = keys.time.get(row).copied().unwrap_or_default();
            let (shape, of_origin) = (word(&keys.shape), word(&keys.origin));
            let Some(Some(traits)) = shapes.get(shape as usize) else {
                continue;
            };
            let count = |sum: &mut Sum| sum.count(traits.outcome_in_mode, 1, time, time);
            self.records += 1;
            for (sums, nth) in [
                (&mut columns.clients, word(&keys.client) as usize),
                (&mut columns.requesters, word(&keys.requester) as usize),
                (&mut columns.origins, (of_origin as usize).min(last)),
            ] {
                sums.get_mut(nth).map(count);
            }
            let of_shape = columns.shapes.entry((time / DAY, shape));
            count(&mut of_shape.or_insert_with(|| (Sum::default(), row)).0);
            if traits.is_refusal() {
                let rule = word(&keys.rule);
                if rule != NO_WORD {
                    count(columns.rules.entry((of_origin, rule)).or_default());
                }
                if traits.outcome_in_mode.1 {
                    count(columns.reported.entry(of_origin).or_default());
                }
                self.acknowledgeable += 1;
                let place = keys.row(row).map(|row| row.place);
                self.acknowledged += u64::from(place.is_some_and(&acknowledged));
            }
            if traits.is_opaque {
                count(columns.opaque.entry(of_origin).or_default());
            }
            if let Some(usage) = block.usage(row)? {
                self.usage.count(usage);
            }
            if let Some(basis) = block.basis(row)? {
                let at = (fetched.get_mut(basis as usize), bases.get(basis as usize));
                let (Some(fetched), Some(Some(digest))) = at else {
                    continue;
                };
                let fetched = *fetched.get_or_insert_with(|| self.fetched_at(digest, objects));
                let (sum, fresh) = columns.bases.entry((basis, shape)).or_default();
                count(sum);
                *fresh += u64::from(is_fresh(fetched, time));
            }
        }
        self.take(block, &columns, &shapes, &bases);
        Ok(())
    }

    /// Adds the sums of a block under the texts of its words.
    fn take(
        &mut self,
        block: &Block<'_>,
        columns: &Columns,
        shapes: &[Option<Traits<'_>>],
        bases: &[Option<Digest>],
    ) {
        for ((day, shape), (sum, row)) in &columns.shapes {
            if let Some(Some(traits)) = shapes.get(*shape as usize) {
                self.add_shape(traits, *day, sum, block.id(*row));
            }
        }
        for (word, sum) in block.words(WordKind::Client).zip(&columns.clients) {
            let (address, name) = client(&word);
            let text = name.map(str::to_owned);
            let text = text.or_else(|| Some(address?.to_string()));
            self.clients.add(text.unwrap_or_default(), sum);
        }
        for (word, sum) in block.words(WordKind::Requester).zip(&columns.requesters) {
            let token = chain(&word).iter().next().map_or("", |token| token.kept);
            self.tokens.add(token.to_owned(), sum);
            let user_agent = shown(user_agent(&word).unwrap_or_default());
            self.user_agents.add(user_agent.into_owned(), sum);
        }
        let origins: Vec<Word<'_>> = block.words(WordKind::Origin).collect();
        let name = |nth: u32| {
            let word = origins.get(nth as usize);
            word.and_then(origin).unwrap_or_default().to_owned()
        };
        for (nth, sum) in columns.origins.iter().enumerate() {
            self.origins.add(name(nth as u32), sum);
        }
        for (nth, sum) in &columns.reported {
            self.reported.add(name(*nth), sum);
        }
        for (nth, sum) in &columns.opaque {
            self.opaque.add(name(*nth), sum);
        }
        let rules: Vec<Word<'_>> = block.words(WordKind::Rule).collect();
        for ((nth, of_rule), sum) in &columns.rules {
            let text = rules.get(*of_rule as usize).and_then(rule);
            let text = shown(text.unwrap_or_default()).into_owned();
            self.rules.add((name(*nth), text), sum);
        }
        for ((basis, shape), (sum, fresh)) in &columns.bases {
            let digest = bases.get(*basis as usize).copied().flatten();
            if let (Some(digest), Some(Some(traits))) = (digest, shapes.get(*shape as usize)) {
                self.rest_on(&digest, Use::of(traits.reason), sum, *fresh);
            }
        }
    }

    fn add_shape(&mut self, traits: &Traits<'_>, day: u64, sum: &Sum, example: Option<[u8; 16]>) {
        self.days.entry(day).or_default().add(sum);
        self.add_reason((traits.mode, traits.verdict, traits.reason), sum, example);
        if traits.outcome_in_mode.0 == Outcome::Failed {
            let error = traits.error.unwrap_or_default().to_owned();
            self.errors.add(error, sum);
        }
        if let Some(policy) = traits.policy {
            self.policies.add(policy, sum);
        }
        if let Some(overridden) = traits.overridden {
            self.overrides.add(overridden, sum);
        }
    }

    pub(super) fn add_reason(
        &mut self,
        (mode, verdict, reason): (Mode, Verdict, &str),
        sum: &Sum,
        example: Option<[u8; 16]>,
    ) {
        let key = (mode, verdict, reason.to_owned());
        let known = self.reasons.entry(key).or_default();
        known.sum.add(sum);
        known.example = match (known.example, example) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
    }
}

/// Tells whether a robots.txt was at most a day old at a time.
fn is_fresh(fetched: Option<u64>, time: u64) -> bool {
    fetched.is_some_and(|fetched| time.saturating_sub(fetched) <= FRESH)
}
