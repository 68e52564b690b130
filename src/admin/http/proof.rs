//! The evidence file of a decision, as the API and the console give it.

use http::StatusCode;

use super::Site;
use super::problem::Problem;
use crate::audit::bundle::write;
use crate::audit::prove::{Prover, Unproven};
use crate::audit::verify::case::Trusted;
use crate::store::{self, StoredDecision};

/// Returns the evidence file of a decision. If no checkpoint covers it yet, one is signed.
pub(super) async fn evidence_file(
    site: &Site,
    decision: &StoredDecision,
) -> Result<Vec<u8>, Problem> {
    let _place = site.export()?;
    let _turn = site.turn().await?;
    let (settings, store) = (site.proxy().settings(), site.kept()?);
    let trusted = Trusted::of_store(&[], &settings, &**store)
        .await
        .map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))?;
    let seq = decision.seq;
    let prover = match Prover::of(seq, &**store, &trusted).await {
        Err(Unproven::Unsigned(_)) => {
            let key = store::kept_log_key(&settings)?;
            store.checkpoint(key, site.now()).await?;
            Prover::of(seq, &**store, &trusted).await?
        }
        prover => prover?,
    };
    let shown = prover.show(decision, &**store).await?;
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
