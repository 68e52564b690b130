//! Descriptions of parameters and files that no type of the program stands for.

#![allow(
    dead_code,
    reason = "the fields are described here, and read and written elsewhere"
)]

use utoipa::{IntoParams, ToSchema};

/// The logs to read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LogParam {
    /// The names of logs with commas between them, `*` for this process's own and all collected ones (`[audit] collection`);
    /// by default this process's own. The end of a name behind a slash is enough, or a part that no other name has.
    log: Option<String>,
}

/// An evidence file: a record with its proof, for a reader who has neither crawlgate nor the store.
#[derive(ToSchema)]
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
