//! The whole chain walked, and every decision proven.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::{Found, Trusted, VerifyArgs, hex};
use crate::audit::replay::{Evidence, Outcome, evidence};
use crate::audit::time_text;
use crate::audit::verify::review::{Finding, Review};
use crate::audit::verify::{Chain, Fault, Walk};
use crate::cli::screen::{self, printable};
use crate::cli::when::{self, Edge};
use crate::clock::{Clock, Moment};
use crate::store::chain::Seal;
use crate::store::{DecisionQuery, Store, StoreError, StoredDecision};

/// Records that are read at once.
const PAGE: usize = 1_000;

/// Faults that are told one by one; the others are counted.
const TOLD: usize = 100;

/// What came of all of it.
#[derive(Default)]
struct Tally {
    records: u64,
    proven: u64,
    /// By reason.
    attested: BTreeMap<&'static str, u64>,
    /// Lines that are no decisions, by what they tell.
    events: BTreeMap<String, u64>,
    /// Decisions outside the time that was asked for: chained, not replayed.
    passed: u64,
    wrong: u64,
    /// The first of what is wrong.
    told: Vec<Wrong>,
}

/// A decision that something is wrong with.
struct Wrong {
    seq: u64,
    id: Option<String>,
    code: &'static str,
    said: String,
}

/// Which decisions are replayed.
struct Span {
    since: Option<Moment>,
    until: Option<Moment>,
}

pub(super) async fn verify(
    args: &VerifyArgs,
    store: Arc<dyn Store>,
    trusted: &Trusted,
) -> Result<Found, String> {
    let failed = |error: StoreError| error.to_string();
    let now = Clock::system().now();
    let time = |text: &Option<String>, edge| {
        text.as_deref()
            .map(|text| when::moment(text, edge, now))
            .transpose()
    };
    let span = Span {
        since: time(&args.since, Edge::Since).map_err(|error| format!("--since {error}"))?,
        until: time(&args.until, Edge::Until).map_err(|error| format!("--until {error}"))?,
    };
    let seals = store.seals().await.map_err(failed)?;
    let mut faults = Vec::new();
    let mut walk = Walk::new(&seals, trusted.key.as_ref(), args.head, &mut faults);
    let mut tally = Tally::default();
    let bar = bar(&store).await.map_err(failed)?;
    let mut review = Review::new(store.as_ref());
    let mut after = 0;
    let mut page = store.links(after, PAGE).await.map_err(failed)?;
    while let Some(last) = page.last() {
        // The next page is read while this one is looked at.
        let next = tokio::spawn({
            let (store, after) = (Arc::clone(&store), last.seq);
            async move { store.links(after, PAGE).await }
        });
        tokio::task::yield_now().await;
        let is_gap = |first: &StoredDecision| first.seq > after.saturating_add(1);
        if page.first().is_some_and(is_gap) {
            // Retention may have dropped what comes next since the last page: a new seal says so then.
            walk.learn(&store.seals().await.map_err(failed)?);
        }
        after = last.seq;
        for decision in &page {
            walk.step(decision, &mut faults);
            tally
                .look(decision, &span, &mut review)
                .await
                .map_err(failed)?;
        }
        bar.inc(page.len() as u64);
        page = next
            .await
            .map_err(|error| error.to_string())?
            .map_err(failed)?;
    }
    let chain = walk.end(&mut faults);
    bar.finish_and_clear();
    let text = if args.json {
        format!("{}\n", as_json(&tally, &chain, &faults, trusted))
    } else {
        as_text(&tally, &chain, &faults, seals.last(), trusted)
    };
    screen::say(text.as_bytes())?;
    Ok(if faults.is_empty() && tally.wrong == 0 {
        Found::Nothing
    } else {
        Found::Faults
    })
}

/// A bar on a terminal; elsewhere nothing is drawn.
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
            Finding::Replayed(Outcome::Same) => self.proven += 1,
            Finding::Replayed(Outcome::Attested(why)) => {
                *self.attested.entry(why.as_str()).or_default() += 1;
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
        // One without a time is looked at: something is wrong with it.
        evidence::moment(&record.time).is_none_or(|time| {
            self.since.is_none_or(|since| time >= since)
                && self.until.is_none_or(|until| time < until)
        })
    }
}

fn as_text(
    tally: &Tally,
    chain: &Chain,
    faults: &[Fault],
    seal: Option<&Seal>,
    trusted: &Trusted,
) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for fault in faults.iter().take(TOLD) {
        let _ = writeln!(text, "fault: {fault}");
    }
    if let Some(more @ 1..) = faults.len().checked_sub(TOLD) {
        let _ = writeln!(text, "fault: and {more} more of the chain");
    }
    for wrong in &tally.told {
        let id = wrong.id.as_deref().unwrap_or("?");
        let said = format!("fault: record {} ({id}): {}", wrong.seq, wrong.said);
        let _ = writeln!(text, "{}", printable(&said));
    }
    if let Some(more @ 1..) = tally.wrong.checked_sub(tally.told.len() as u64) {
        let _ = writeln!(text, "fault: and {more} more decisions");
    }
    let whole = if faults.is_empty() {
        "whole"
    } else {
        "NOT whole"
    };
    let (first, head) = (chain.first, chain.head);
    let _ = match tally.records {
        0 => writeln!(text, "chain     no records, {whole}"),
        records => writeln!(
            text,
            "chain     {records} records, {first} to {}, {whole}",
            head.seq
        ),
    };
    let _ = writeln!(text, "head      {head}");
    let _ = match (chain.sealed, seal) {
        (Some(sealed), Some(seal)) => writeln!(
            text,
            "sealed    up to record {sealed}, last at {}; {} records after it are linked only",
            time_text(seal.time),
            head.seq.saturating_sub(sealed)
        ),
        _ => writeln!(
            text,
            "sealed    not yet: nothing vouches for the chain but its own links"
        ),
    };
    let _ = writeln!(text, "seals     believed of {}", trusted.told());
    if chain.kept_is_dropped {
        let _ = writeln!(
            text,
            "kept head before all records that are there: retention has dropped them"
        );
    }
    let attested: u64 = tally.attested.values().sum();
    let _ = write!(
        text,
        "decisions {} proven, {attested} attested only",
        tally.proven
    );
    let mut gap = " (";
    for (why, count) in &tally.attested {
        let _ = write!(text, "{gap}{count} {why}");
        gap = ", ";
    }
    if attested > 0 {
        text.push(')');
    }
    if tally.passed > 0 {
        let _ = write!(text, ", {} not replayed: outside the time", tally.passed);
    }
    let _ = writeln!(text, ", {} wrong", tally.wrong);
    for (event, count) in &tally.events {
        let _ = writeln!(text, "events    {count} {}", printable(event));
    }
    text
}

fn as_json(tally: &Tally, chain: &Chain, faults: &[Fault], trusted: &Trusted) -> Value {
    let wrong = tally.told.iter().map(|wrong| {
        json!({"seq": wrong.seq, "id": wrong.id, "outcome": wrong.code, "said": wrong.said})
    });
    json!({
        "ok": faults.is_empty() && tally.wrong == 0,
        "records": tally.records,
        "first": chain.first,
        "head": chain.head.to_string(),
        "sealed": chain.sealed,
        "key": trusted.key.as_ref().map(|key| hex(key)),
        "proven": tally.proven,
        "attested": tally.attested,
        "events": tally.events,
        "not_replayed": tally.passed,
        "wrong": tally.wrong,
        "decisions": wrong.collect::<Vec<_>>(),
        "faults": faults.iter().map(Fault::to_string).collect::<Vec<_>>(),
    })
}
