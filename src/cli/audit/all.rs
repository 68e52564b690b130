//! Walks the whole chain, and proves every decision.

mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

use self::report::{as_json, as_text};
use super::{Found, VerifyArgs};
use crate::admin::query::when::{self, Edge};
use crate::audit::replay::{Evidence, Outcome, evidence};
use crate::audit::verify::case::Trusted;
use crate::audit::verify::review::{Finding, Review};
use crate::audit::verify::{ChainVerifier, Fault, Head};
use crate::cli::screen;
use crate::clock::{Clock, Moment};
use crate::store::{DecisionQuery, Store, StoreError, StoredDecision};

/// Records to read at once.
const PAGE: usize = 1_000;

/// Faults to print one by one; the others are counted.
const TOLD: usize = 100;

/// The result for all decisions.
#[derive(Default)]
struct Tally {
    records: u64,
    proven: u64,
    /// Of these, decisions after the last record that a seal or head confirms.
    proven_since: u64,
    /// Replayed, but the record's hash does not fit the chain, or a seal or head contradicts it.
    unlinked: u64,
    /// Attested decisions by reason.
    attested: BTreeMap<&'static str, u64>,
    /// Lines that are no decisions, by kind.
    events: BTreeMap<String, u64>,
    /// Decisions outside the requested time: chained, not replayed.
    passed: u64,
    wrong: u64,
    /// The first faults.
    told: Vec<Wrong>,
}

/// A decision with a fault.
struct Wrong {
    seq: u64,
    id: Option<String>,
    code: &'static str,
    said: String,
}

/// The relation of a record to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// The record follows from the one before.
    Follows,
    /// The record follows, and a seal or head confirms the chain up to here.
    Vouched,
    /// The record does not follow.
    Broken,
    /// The record follows, but a seal or head contradicts it: no record since the last confirmed one can be trusted.
    Denied,
}

impl Link {
    /// Returns the relation of the record `seq`, just walked past, at which these faults were found.
    fn of(seq: u64, verifier: &ChainVerifier, found: &[Fault]) -> Link {
        if found
            .iter()
            .any(|fault| matches!(fault, Fault::Anchor { .. }))
        {
            Link::Denied
        } else if found
            .iter()
            .any(|fault| matches!(fault, Fault::Link { .. }))
        {
            Link::Broken
        } else if verifier.vouched() == seq {
            Link::Vouched
        } else {
            Link::Follows
        }
    }
}

/// The time of the decisions to replay.
struct Span {
    since: Option<Moment>,
    until: Option<Moment>,
}

impl Span {
    fn of(args: &VerifyArgs) -> Result<Span, String> {
        let now = Clock::system().now();
        let time = |name, text: &Option<String>, edge| {
            let time = text.as_deref().map(|text| when::moment(text, edge, now));
            time.transpose().map_err(|error| format!("{name} {error}"))
        };
        Ok(Span {
            since: time("--since", &args.since, Edge::Since)?,
            until: time("--until", &args.until, Edge::Until)?,
        })
    }
}

pub(super) async fn verify(
    args: &VerifyArgs,
    store: Arc<dyn Store>,
    trusted: &Trusted,
    written: Option<Head>,
) -> Result<Found, String> {
    let failed = |error: StoreError| error.to_string();
    let span = Span::of(args)?;
    let seals = store.seals().await.map_err(failed)?;
    let mut faults = Vec::new();
    let mut verifier = ChainVerifier::new(&seals, &trusted.keys, args.head, &mut faults);
    if let Some(written) = written {
        verifier.expect(written);
    }
    let mut tally = Tally::default();
    let bar = bar(&store).await.map_err(failed)?;
    let mut review = Review::new(store.as_ref());
    let mut after = 0;
    let mut page = store.links(after, PAGE).await.map_err(failed)?;
    while let Some(last) = page.last() {
        // The next page is read while this one is processed.
        let next = tokio::spawn({
            let (store, after) = (Arc::clone(&store), last.seq);
            async move { store.links(after, PAGE).await }
        });
        tokio::task::yield_now().await;
        let is_gap = |first: &StoredDecision| first.seq > after.saturating_add(1);
        if page.first().is_some_and(is_gap) {
            // Retention may have dropped the next records since the last page: a new seal says so then.
            verifier.learn(&store.seals().await.map_err(failed)?);
        }
        let is_whole = last.seq.saturating_sub(after) == page.len() as u64;
        if !is_whole {
            verifier.admit(store.gaps(after, last.seq).await.map_err(failed)?);
        }
        after = last.seq;
        for decision in &page {
            let known = faults.len();
            verifier.step(decision, &mut faults);
            let link = Link::of(
                decision.seq,
                &verifier,
                faults.get(known..).unwrap_or_default(),
            );
            tally
                .look(decision, &span, &mut review, link)
                .await
                .map_err(failed)?;
        }
        bar.inc(page.len() as u64);
        page = next
            .await
            .map_err(|error| error.to_string())?
            .map_err(failed)?;
    }
    let chain = verifier.end(&mut faults);
    bar.finish_and_clear();
    let is_whole = faults.is_empty();
    let mut faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
    faults.extend(trusted.fault(&seals));
    let text = if args.json {
        screen::json_line(&as_json(&tally, &chain, &faults, trusted))
    } else {
        as_text(&tally, &chain, is_whole, &faults, seals.last(), trusted).into_bytes()
    };
    screen::say(&text)?;
    Ok(if faults.is_empty() && tally.wrong == 0 {
        Found::Nothing
    } else {
        Found::Faults
    })
}

/// Creates a progress bar on a terminal; elsewhere none is drawn.
async fn bar(store: &Arc<dyn Store>) -> Result<ProgressBar, StoreError> {
    let end = |newest_first| DecisionQuery {
        newest_first,
        limit: 1,
        ..DecisionQuery::default()
    };
    let seq = |page: Vec<StoredDecision>| page.first().map_or(0, |decision| decision.seq);
    let first = seq(store.decisions(end(false)).await?);
    let last = seq(store.decisions(end(true)).await?);
    let bar = ProgressBar::new(last.saturating_sub(first).saturating_add(1));
    if let Ok(style) = ProgressStyle::with_template(
        "{wide_bar} {human_pos} of {human_len} records, {per_sec}, {eta} left",
    ) {
        bar.set_style(style);
    }
    Ok(bar)
}

impl Tally {
    async fn look(
        &mut self,
        decision: &StoredDecision,
        span: &Span,
        review: &mut Review<'_>,
        link: Link,
    ) -> Result<(), StoreError> {
        self.count(decision, span, review, link).await?;
        self.settle(link);
        Ok(())
    }

    /// Counts a decision that the evidence confirms, or does not contradict.
    fn replayed(&mut self, outcome: &Outcome, link: Link) {
        match outcome {
            _ if link == Link::Broken => self.unlinked += 1,
            Outcome::Attested(why) => *self.attested.entry(why.as_str()).or_default() += 1,
            _ => {
                self.proven += 1;
                self.proven_since += 1;
            }
        }
    }

    /// Takes back the proofs since the last confirmed record when a seal or head contradicts the chain.
    fn settle(&mut self, link: Link) {
        match link {
            Link::Follows | Link::Broken => {}
            Link::Vouched => self.proven_since = 0,
            Link::Denied => {
                let doubted = std::mem::take(&mut self.proven_since);
                self.proven = self.proven.saturating_sub(doubted);
                self.unlinked += doubted;
            }
        }
    }

    async fn count(
        &mut self,
        decision: &StoredDecision,
        span: &Span,
        review: &mut Review<'_>,
        link: Link,
    ) -> Result<(), StoreError> {
        self.records += 1;
        let evidence = Evidence::read(&decision.record);
        if evidence
            .as_ref()
            .is_ok_and(|evidence| !span.holds(evidence))
        {
            self.passed += 1;
            return Ok(());
        }
        match review.look(decision, &evidence).await? {
            Finding::Replayed(outcome @ (Outcome::Same | Outcome::Attested(_))) => {
                self.replayed(&outcome, link);
            }
            Finding::Dropped => self.records -= 1,
            Finding::Event(event) => *self.events.entry(event).or_default() += 1,
            wrong => {
                self.wrong += 1;
                if self.told.len() < TOLD {
                    self.told.push(Wrong {
                        seq: decision.seq,
                        id: evidence.ok().map(|evidence| evidence.id.to_string()),
                        code: wrong.code(),
                        said: wrong.to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Span {
    fn holds(&self, record: &Evidence<'_>) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        // A record without a time has a fault: look at it.
        evidence::moment(&record.time).is_none_or(|time| {
            self.since.is_none_or(|since| time >= since)
                && self.until.is_none_or(|until| time < until)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verify::Head;
    use crate::store::chain;

    /// Returns the relation of each of three records to the chain, one of them altered, with a stored head of the last.
    fn links(altered: Option<usize>, kept: [u8; 32]) -> Vec<Link> {
        let mut before = chain::GENESIS;
        let mut records: Vec<StoredDecision> = ["one", "two", "three"]
            .into_iter()
            .zip(1..)
            .map(|(record, seq)| {
                before = chain::link(&before, record.as_bytes());
                StoredDecision {
                    seq,
                    time: Moment::default(),
                    record: record.to_owned(),
                    hash: before,
                    acknowledged: None,
                }
            })
            .collect();
        let hash = if kept == [0; 32] { before } else { kept };
        if let Some(record) = altered.and_then(|place| records.get_mut(place)) {
            record.record.push('!');
        }
        let mut faults = Vec::new();
        let kept = Some(Head { seq: 3, hash });
        let mut verifier = ChainVerifier::new(&[], &[], kept, &mut faults);
        let links = records.iter().map(|record| {
            let known = faults.len();
            verifier.step(record, &mut faults);
            Link::of(
                record.seq,
                &verifier,
                faults.get(known..).unwrap_or_default(),
            )
        });
        links.collect()
    }

    #[test]
    fn unlinked_records_are_not_proven() {
        use Link::{Broken, Denied, Follows, Vouched};
        let cases = [
            (
                "nothing was altered",
                None,
                [0; 32],
                [Follows, Follows, Vouched],
                (3, 0),
            ),
            (
                "one was altered",
                Some(1),
                [0; 32],
                [Follows, Broken, Vouched],
                (2, 1),
            ),
            (
                "all were made anew",
                None,
                [1; 32],
                [Follows, Follows, Denied],
                (0, 3),
            ),
        ];
        for (name, altered, kept, want, (proven, unlinked)) in cases {
            let found = links(altered, kept);
            assert_eq!(found, want, "{name}");
            let mut tally = Tally::default();
            for link in found {
                tally.replayed(&Outcome::Same, link);
                tally.settle(link);
            }
            assert_eq!((tally.proven, tally.unlinked), (proven, unlinked), "{name}");
        }
    }
}
