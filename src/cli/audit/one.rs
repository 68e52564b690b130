//! One decision proven, and its evidence shown.

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::excerpt::{Extent, excerpt};
use super::{Found, Trusted, VerifyArgs, evidence};
use crate::audit::replay::{self, Evidence, Missing, Outcome, Unreadable};
use crate::audit::time_text;
use crate::audit::verify::review::{Finding, Review};
use crate::audit::verify::{Chain, Fault, Head, Walk};
use crate::cli::screen::{self, Paint, Tone, printable};
use crate::policy::terms::Terms;
use crate::rep::Origin;
use crate::robots::memory::hex;
use crate::store::{FETCHES_KEPT, Fetch, Store, StoreError, StoredDecision};

/// Links that are read at once.
const PAGE: usize = 1_000;

/// All that is known of one decision.
struct Case<'a> {
    decision: &'a StoredDecision,
    evidence: Result<Evidence<'a>, Unreadable>,
    finding: Finding,
    faults: Vec<Fault>,
    /// What is wrong with the key of the seals.
    keyless: Option<String>,
    chain: Chain,
    /// The file that it rests on, where it is there and is what the record names.
    file: Option<Vec<u8>>,
    terms: Option<Terms>,
    /// The fetch that brought the file, where it is still remembered.
    fetch: Option<Fetch>,
}

pub(super) async fn verify(
    id: &str,
    args: &VerifyArgs,
    store: &Arc<dyn Store>,
    trusted: &Trusted,
) -> Result<Found, String> {
    let failed = |error: StoreError| error.to_string();
    let Some(decision) = store
        .decision(&id.to_ascii_uppercase())
        .await
        .map_err(failed)?
    else {
        let text = format!(
            "{}; if it was there once, `crawlgate audit verify --all` tells whether any was taken out\n",
            crate::cli::log::unknown(id)
        );
        screen::say(text.as_bytes())?;
        return Ok(Found::Faults);
    };
    let case = case(&decision, store, trusted).await.map_err(failed)?;
    let text = if args.json {
        format!("{}\n", as_json(&case, trusted))
    } else {
        let paint = Paint::on(std::io::stdout().is_terminal());
        let extent = if args.full {
            Extent::Whole
        } else {
            Extent::Around
        };
        as_text(&case, trusted, extent, paint)
    };
    screen::say(text.as_bytes())?;
    Ok(case.found())
}

async fn case<'a>(
    decision: &'a StoredDecision,
    store: &Arc<dyn Store>,
    trusted: &Trusted,
) -> Result<Case<'a>, StoreError> {
    let mut faults = Vec::new();
    let chain = walk(decision.seq, store, trusted, &mut faults).await?;
    let keyless = trusted.fault(&store.seals().await?);
    let evidence = Evidence::read(&decision.record);
    let finding = Review::new(store.as_ref())
        .look(decision, &evidence)
        .await?;
    let (mut file, mut terms, mut fetch) = (None, None, None);
    if let Ok(evidence) = &evidence {
        if let Ok(Some(sha256)) = evidence.snapshot()
            && !matches!(finding, Finding::Altered(Missing::Snapshot))
        {
            file = store.snapshot(sha256).await?;
            fetch = fetch_of(evidence, store).await?;
        }
        if let Some(digest) = &evidence.policy {
            let text = store.policy(digest).await?;
            terms = text.and_then(|text| Terms::read(&text).ok());
        }
    }
    Ok(Case {
        decision,
        evidence,
        finding,
        faults,
        keyless,
        chain,
        file,
        terms,
        fetch,
    })
}

/// Walks from the record before this one to the first seal after it.
async fn walk(
    seq: u64,
    store: &Arc<dyn Store>,
    trusted: &Trusted,
    faults: &mut Vec<Fault>,
) -> Result<Chain, StoreError> {
    let seals = store.seals().await?;
    let mut seals_faults = Vec::new();
    let mut walk = Walk::new(&seals, &trusted.keys, None, &mut seals_faults);
    // What is wrong with a seal matters here only where it is one that should vouch for this record.
    faults.extend(seals_faults.into_iter().filter(|fault| match fault {
        Fault::Signature { seq: sealed } | Fault::Key { seq: sealed, .. } => *sealed >= seq,
        _ => true,
    }));
    if let Some(before) = seq.checked_sub(2) {
        let page = store.links(before, 1).await?;
        if let Some(before) = page.first().filter(|link| link.seq < seq) {
            walk.resume(Head {
                seq: before.seq,
                hash: before.hash,
            });
        }
    }
    let mut after = seq.saturating_sub(1);
    loop {
        let page = store.links(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for link in &page {
            walk.step(link, faults);
            let is_sealed = walk.sealed().is_some_and(|sealed| sealed >= seq);
            if is_sealed || !faults.is_empty() {
                return Ok(walk.so_far());
            }
        }
    }
    Ok(walk.end(faults))
}

/// The fetch that brought the file, by its time.
async fn fetch_of(
    evidence: &Evidence<'_>,
    store: &Arc<dyn Store>,
) -> Result<Option<Fetch>, StoreError> {
    let robots = evidence.robots.as_ref();
    let origin = robots.and_then(|robots| Origin::parse(&robots.url).ok());
    let fetched = robots.and_then(|robots| robots.fetched_at.as_deref());
    let (Some((origin, _)), Some(fetched)) = (origin, fetched) else {
        return Ok(None);
    };
    let fetches = store.fetches(&origin, FETCHES_KEPT).await?;
    Ok(fetches
        .into_iter()
        .find(|fetch| time_text(fetch.time) == fetched))
}

impl Case<'_> {
    fn found(&self) -> Found {
        let fits = matches!(
            self.finding,
            Finding::Replayed(Outcome::Same | Outcome::Attested(_))
                | Finding::Event(_)
                | Finding::Dropped
        );
        if fits && self.faults.is_empty() && self.keyless.is_none() {
            Found::Nothing
        } else {
            Found::Faults
        }
    }

    /// What is said first, and how it sounds.
    fn headline(&self) -> (Tone, String) {
        if !self.faults.is_empty() {
            return (
                Tone::Bad,
                "altered: the store does not say any more what it said then".to_owned(),
            );
        }
        match &self.finding {
            Finding::Replayed(Outcome::Same | Outcome::Attested(_)) if self.keyless.is_some() => (
                Tone::Bad,
                "not proven: whether it was altered cannot be told".to_owned(),
            ),
            Finding::Replayed(Outcome::Same) => (
                Tone::Good,
                "proven: the same decision follows from what was kept".to_owned(),
            ),
            Finding::Replayed(Outcome::Attested(why)) => {
                (Tone::Remark, format!("attested, not proven: {why}"))
            }
            Finding::Event(event) => (Tone::Remark, format!("no decision: {event}")),
            finding => (Tone::Bad, format!("not proven: {finding}")),
        }
    }

    fn sealed(&self, trusted: &Trusted) -> String {
        let seq = self.decision.seq;
        match self.chain.sealed {
            Some(sealed) if sealed >= seq => format!(
                "record {seq}, linked to the seal of record {sealed}, by {}",
                trusted.told()
            ),
            _ => format!("record {seq}, linked to the last one; not sealed yet"),
        }
    }
}

fn as_text(case: &Case<'_>, trusted: &Trusted, extent: Extent, paint: Paint) -> String {
    let (tone, headline) = case.headline();
    let mut text = match &case.evidence {
        Ok(evidence) => format!(
            "{} {}\n",
            printable(&evidence.id),
            paint.tone(tone, printable(&headline))
        ),
        Err(_) => format!("{}\n", paint.tone(tone, printable(&headline))),
    };
    for fault in &case.faults {
        evidence::line(&mut text, "fault", &fault.to_string());
    }
    if let Some(fault) = &case.keyless {
        evidence::line(&mut text, "fault", fault);
    }
    if let Finding::Replayed(Outcome::Differs(differences)) = &case.finding {
        for one in differences {
            let said = format!(
                "{}: recorded \"{}\", replayed \"{}\"",
                one.what, one.recorded, one.replayed
            );
            evidence::line(&mut text, "differs", &said);
        }
    }
    if let Ok(evidence) = &case.evidence {
        evidence::essentials(&mut text, evidence);
    }
    if let Some(fetch) = case.fetch.as_ref().filter(|fetch| fetch.hops.len() > 1) {
        evidence::line(&mut text, "hops", &fetch.hops.join(" → "));
    }
    evidence::line(&mut text, "chain", &case.sealed(trusted));
    if let (Some(file), Some(terms)) = (&case.file, &case.terms) {
        let robots = case.evidence.as_ref().ok();
        let robots = robots.and_then(|evidence| evidence.robots.as_ref());
        let truncated = robots.is_some_and(|robots| robots.truncated);
        let snapshot = replay::snapshot(file, terms, truncated);
        let deciding = case.evidence.as_ref().ok();
        let deciding = deciding.and_then(|evidence| Some(evidence.rule.as_ref()?.line));
        if deciding.is_some() || extent == Extent::Whole {
            text.push('\n');
            text.push_str(&excerpt(&snapshot.robots, deciding, extent, paint));
        }
    }
    text
}

fn as_json(case: &Case<'_>, trusted: &Trusted) -> Value {
    let differences = match &case.finding {
        Finding::Replayed(Outcome::Differs(differences)) => differences.as_slice(),
        _ => &[],
    };
    let differences = differences
        .iter()
        .map(|one| json!({"what": one.what, "recorded": one.recorded, "replayed": one.replayed}));
    let record: Option<Value> = serde_json::from_str(&case.decision.record).ok();
    let file = case.file.as_deref().map(String::from_utf8_lossy);
    json!({
        "outcome": case.finding.code(),
        "said": case.headline().1,
        "ok": case.found() == Found::Nothing,
        "differences": differences.collect::<Vec<_>>(),
        "faults": case.faults.iter().map(Fault::to_string).chain(case.keyless.clone()).collect::<Vec<_>>(),
        "seq": case.decision.seq,
        "hash": hex(&case.decision.hash),
        "sealed": case.chain.sealed.filter(|sealed| *sealed >= case.decision.seq),
        "keys": trusted.keys.iter().map(hex).collect::<Vec<_>>(),
        "record": record,
        "hops": case.fetch.as_ref().map(|fetch| &fetch.hops),
        "robots_txt": file,
    })
}
