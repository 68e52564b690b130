//! Proves one decision, and shows its evidence.

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::excerpt::Extent;
use super::{CheckResult, VerifyArgs, evidence};
use crate::Failure;
use crate::terminal::{self, Paint, Tone, printable};
use crawlgate_config::Config;
use crawlgate_evidence::replay::Outcome;
use crawlgate_evidence::verify::case::{Case, CaseVerdict, Trusted};
use crawlgate_evidence::verify::review::Finding;
use crawlgate_store::Store;
use crawlgate_store::logs::unknown;
use crawlgate_store::state_file::State;
use crawlgate_text::hex;
use crawlgate_tlog::leaf_hash;

pub(super) async fn verify(
    id: &str,
    args: &VerifyArgs,
    store: &Arc<Store>,
    config: &Config,
    trusted: &Trusted,
    state: Option<State>,
) -> Result<CheckResult, Failure> {
    let Some(decision) = store.decision(&id.to_ascii_uppercase()).await? else {
        let text = format!(
            "{}; if it was there once, `crawlgate audit verify --all` tells whether any was taken out\n",
            unknown(id)
        );
        terminal::print(text.as_bytes())?;
        return Ok(CheckResult::Faults);
    };
    let mut case = Case::of(&decision, store, trusted).await?;
    if let Some(state) = state {
        case.compare(store, state.written).await?;
    }
    let path = crawlgate_store::named(config)?.display();
    let path = path.to_string();
    let text = if args.json {
        terminal::json_line(&as_json(&case, trusted, &path))
    } else {
        let paint = Paint::on(std::io::stdout().is_terminal());
        let extent = Extent::of(args.full);
        as_text(&case, trusted, &path, extent, paint).into_bytes()
    };
    terminal::print(&text)?;
    Ok(found(&case))
}

fn found(case: &Case<'_>) -> CheckResult {
    if case.holds() { CheckResult::Clean } else { CheckResult::Faults }
}

fn as_text(
    case: &Case<'_>,
    trusted: &Trusted,
    store: &str,
    extent: Extent,
    paint: Paint,
) -> String {
    let (held, headline) = case.headline();
    let tone = match held {
        CaseVerdict::Proven => Tone::Good,
        CaseVerdict::Attested => Tone::Remark,
        CaseVerdict::Broken => Tone::Bad,
    };
    let mut text = match &case.told {
        Ok(one) => format!("{} {}\n", one.id_text(), paint.tone(tone, printable(&headline))),
        Err(_) => format!("{}\n", paint.tone(tone, printable(&headline))),
    };
    if let Some(fault) = case.in_log.fault() {
        evidence::line(&mut text, "fault", fault);
    }
    if let Finding::Replayed(Outcome::Differs(differences)) = &case.finding {
        evidence::differences(&mut text, differences);
    }
    if let Ok(one) = &case.told {
        evidence::essentials(&mut text, one);
    }
    if let Some(fetch) = case.fetch.as_ref().filter(|fetch| fetch.hops.len() > 1) {
        evidence::line(&mut text, "hops", &fetch.hops.join(" → "));
    }
    evidence::line(&mut text, "log", &case.signed(trusted));
    evidence::line(&mut text, "store", store);
    if let (Some(file), Some(terms)) = (&case.file, &case.terms) {
        let read = case.told.as_ref().ok();
        evidence::file(&mut text, (file, terms), read, extent, paint);
    }
    text
}

fn as_json(case: &Case<'_>, trusted: &Trusted, store: &str) -> Value {
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
        "ok": case.holds(),
        "differences": differences.collect::<Vec<_>>(),
        "faults": case.in_log.fault().into_iter().collect::<Vec<_>>(),
        "store": store,
        "seq": case.decision.seq,
        "hash": hex(leaf_hash(&case.decision.entry)),
        "signed": case.in_log.signed(),
        "keys": trusted.keys.all.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "record": record,
        "hops": case.fetch.as_ref().map(|fetch| &fetch.hops),
        "robots_txt": file,
    })
}
