//! The evidence file of a decision, as the API and the console give it.

use http::StatusCode;

use super::AppState;
use super::logs::FoundDecision;
use super::problem::Problem;
use crawlgate_evidence::bundle::write;
use crawlgate_evidence::prove::{Prover, Unproven};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store as store;

/// Returns the evidence file of a decision. If no checkpoint of the log of this process covers it yet, one is signed.
pub(super) async fn evidence_file(
    app: &AppState,
    found: &FoundDecision,
) -> Result<Vec<u8>, Problem> {
    let _export = app.export_permit()?;
    let _permit = app.work_permit().await?;
    let FoundDecision {
        log,
        store,
        decision,
        config,
    } = found;
    let trusted = Trusted::of_store(&[], config, store)
        .await
        .map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))?;
    let seq = decision.seq;
    let prover = match Prover::of(seq, store, &trusted).await {
        Err(Unproven::Unsigned(_)) if !log.is_copy() => {
            let key = store::kept_log_key(config)?;
            store.checkpoint(key, app.now()).await?;
            Prover::of(seq, store, &trusted).await?
        }
        prover => prover?,
    };
    let shown = prover.show(decision, store).await?;
    let mut file = Vec::new();
    write(&prover.header(), &shown.exhibit, &mut file);
    Ok(file)
}

impl From<Unproven> for Problem {
    fn from(why: Unproven) -> Problem {
        match why {
            Unproven::Store(error) => error.into(),
            why => Problem::new(StatusCode::CONFLICT, why.to_string()),
        }
    }
}
