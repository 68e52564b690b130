//! The names of a record's fields: stable, the same for all writers and readers.

#![allow(missing_docs, reason = "each is what its name says: see `Decision`")]

pub const TIME: &str = "time";
pub const ID: &str = "id";
pub const DECIDED_AT: &str = "decided_at";
pub const MODE: &str = "mode";
pub const VERDICT: &str = "verdict";
pub const REASON: &str = "reason";
pub const POLICY: &str = "policy";
pub const CLIENT: &str = "client";
pub const ADDRESS: &str = "address";
pub const NAME: &str = "name";
pub const AGENT: &str = "agent";
pub const CHAIN: &str = "chain";
pub const SOURCE: &str = "source";
pub const MISMATCH: &str = "mismatch";
pub const USER_AGENT: &str = "user_agent";
pub const METHOD: &str = "method";
pub const URL: &str = "url";
/// Of a URL that was cut: SHA-256 of the whole, as it would stand there.
pub const URL_SHA256: &str = "url_sha256";
pub const SCHEME: &str = "scheme";
pub const HOST: &str = "host";
pub const PORT: &str = "port";
pub const VERSION: &str = "version";
pub const VIA: &str = "via";
pub const OPAQUE: &str = "opaque";
pub const RULE: &str = "rule";
pub const GROUP: &str = "group";
pub const TEXT: &str = "text";
pub const LINE: &str = "line";
pub const READING: &str = "reading";
pub const OVERRIDE: &str = "override";
pub const ORIGIN: &str = "origin";
pub const PATTERN: &str = "pattern";
pub const ACTION: &str = "action";
pub const BY: &str = "by";
pub const UNTIL: &str = "until";
pub const INSTANCE: &str = "instance";
pub const ROBOTS: &str = "robots";
pub const FINAL_URL: &str = "final_url";
pub const IDENTITY: &str = "identity";
pub const STATE: &str = "state";
pub const STATUS: &str = "status";
pub const FETCHED_AT: &str = "fetched_at";
pub const AGE_S: &str = "age_s";
pub const SHA256: &str = "sha256";
pub const BYTES: &str = "bytes";
pub const TRUNCATED: &str = "truncated";
pub const FRESH_UNTIL: &str = "fresh_until";
pub const UNREACHABLE: &str = "unreachable";
pub const SINCE: &str = "since";
pub const CAUSE: &str = "cause";
pub const ANSWERS: &str = "answers";
pub const LAST_FAILURE: &str = "last_failure";
pub const ATTEMPTS: &str = "attempts";
pub const NEXT_ATTEMPT: &str = "next_attempt";
pub const HOLD_MS: &str = "hold_ms";
pub const PACE: &str = "pace";
pub const INTERVAL_MS: &str = "interval_ms";
pub const CLAMPED: &str = "clamped";
pub const UPSTREAM: &str = "upstream";
pub const UPSTREAM_VERSION: &str = "upstream_version";
pub const BYTES_IN: &str = "bytes_in";
pub const BYTES_OUT: &str = "bytes_out";
pub const DURATION_MS: &str = "duration_ms";
pub const ERROR: &str = "error";
pub const DETAIL: &str = "detail";
/// Statements of the site about the use of its content. Absent if the site stated nothing and the client declared no purpose.
pub const USAGE: &str = "usage";
/// Of `usage`: the state of the origin's tdmrep.json. Absent if the file was not asked.
pub const TDMREP: &str = "tdmrep";
/// The exemption of the client. Absent if the request needed none.
pub const EXEMPT: &str = "exempt";
/// Of `exempt`: the reason for which the request would have been denied. Its `reason` is the operator's.
pub const FROM: &str = "from";
pub const SIGNED: &str = "signed";
/// Of `signed`: the identity.
pub const AS: &str = "as";
/// Of `signed`: the thumbprint of its key.
pub const KEYID: &str = "keyid";
/// Of `signed`: the time in the signature, in seconds.
pub const CREATED: &str = "created";
/// Of `signed`: true where the crawler's own signature was kept unchanged.
pub const LEFT: &str = "left";
/// Of `signed`: true where the request could not be signed.
pub const UNSIGNABLE: &str = "unsignable";
/// Only in lines about other events than decisions, such as `records_lost`.
pub const EVENT: &str = "event";
/// Number of counted things.
pub const COUNT: &str = "count";
/// Of `answered_log_failed`: the id of a record with another answer, which did not leave.
pub const DECISION: &str = "decision";
/// Time of the first counted thing.
pub const FIRST: &str = "first";
/// Time of the last counted thing.
pub const LAST: &str = "last";
/// Of `started` and `stopped`: the number in the identifiers of the process.
pub const PROCESS: &str = "process";
/// Of `started` and `stopped`: the version of crawlgate.
pub const RELEASE: &str = "release";
/// Of `started` and `stopped`: SHA-256 of the configuration.
pub const CONFIGURATION: &str = "configuration";
/// Of `settings`.
pub const REPORT_ORIGINS: &str = "report_origins";
/// Of `settings`.
pub const REPORT_CLIENTS: &str = "report_clients";
/// Of `settings`: the name of each client that is exempt, and the operator's reason.
pub const EXEMPT_CLIENTS: &str = "exempt_clients";
/// Of `acknowledged`: the place of the decision's entry in the log, from 0.
pub const INDEX: &str = "index";
/// Of `acknowledged`: the person's remark.
pub const NOTE: &str = "note";
/// Of `dropped`: the place of the first entry that stays.
pub const BEFORE: &str = "before";
/// Of `key_rotated`: the key that signed the log before, as a signed note names it.
pub const OLD: &str = "old";
/// Of `key_rotated`: the key that signs the log since.
pub const NEW: &str = "new";
/// Of `forked`: the name of the log that it continues.
pub const LOG: &str = "log";
/// Of `forked`: the number of that log's entries.
pub const SIZE: &str = "size";
/// Of `forked`: the root of that log's tree.
pub const ROOT: &str = "root";
/// Of `forwarded`: requests by client.
pub const CLIENTS: &str = "clients";
