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
    let FoundDecision { log, store, decision, config } = found;
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

/// An evidence file: a record with its proof, for a reader who has neither crawlgate nor the store.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the file is written octet by octet")]
pub(super) struct EvidenceFile {
    /// `crawlgate-evidence@1`.
    format: String,
    /// The name of the log.
    log: String,
    /// The key of the log, as the file says. The right key comes from another source.
    vkey: String,
    /// The program that made the file.
    made_by: String,
    /// The record.
    #[schema(value_type = Object)]
    record: serde_json::Value,
    /// The octets of the entry in the log, in base64.
    entry: String,
    /// The path from the entry to a signed checkpoint (c2sp.org/tlog-proof).
    proof: String,
    /// The objects that the entry names; one that the store no longer has is missing.
    #[schema(value_type = Vec<Object>)]
    objects: Vec<serde_json::Value>,
    /// The robots.txt that the decision rests on; none if there was none, or the store no longer has it.
    #[schema(value_type = Option<Object>)]
    robots: Option<serde_json::Value>,
    /// The tdmrep.json that the decision rests on; absent where it rests on none, or the store has lost it.
    #[schema(value_type = Option<Object>)]
    tdmrep: Option<serde_json::Value>,
    /// The proof of each new key of the log; absent where the key was never replaced.
    #[schema(value_type = Option<Vec<Object>>)]
    rotations: Option<Vec<serde_json::Value>>,
}

impl From<Unproven> for Problem {
    fn from(why: Unproven) -> Problem {
        match why {
            Unproven::Store(error) => error.into(),
            why => Problem::new(StatusCode::CONFLICT, why.to_string()),
        }
    }
}
