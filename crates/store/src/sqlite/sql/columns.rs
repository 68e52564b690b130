//! The columns of decisions: the fields of a record's line, with the names of objects before those of their fields.

use rusqlite::types::Value;

use crawlgate_record::{Decision, Text, is_of_unknown_client, most, origin_parts};
use crawlgate_system::clock::Moment;
use crawlgate_text::{DecisionId, time_text};

/// A column of the views.
pub(crate) struct Column {
    /// The name.
    pub(crate) name: &'static str,
    /// The type, for a table.
    pub(crate) kind: &'static str,
    pub(crate) source: Source,
}

/// The source of a column's values.
pub(crate) enum Source {
    /// The field of the line at this JSON pointer. The function returns the same value from the entry, which costs a
    /// fraction, or `None` where only the line knows it.
    Line(&'static str, Short),
    /// A person's acknowledgement: this column of its table.
    Acknowledgement(&'static str),
    /// The whole line.
    Whole,
}

type Short = fn(&Decision<'_>) -> Option<Value>;

const fn column(name: &'static str, kind: &'static str, source: Source) -> Column {
    Column { name, kind, source }
}

const fn text(name: &'static str, pointer: &'static str, short: Short) -> Column {
    column(name, "TEXT", Source::Line(pointer, short))
}

const fn integer(name: &'static str, pointer: &'static str, short: Short) -> Column {
    column(name, "INTEGER", Source::Line(pointer, short))
}

const fn real(name: &'static str, pointer: &'static str, short: Short) -> Column {
    column(name, "REAL", Source::Line(pointer, short))
}

const fn noted(name: &'static str, source: &'static str) -> Column {
    column(name, "TEXT", Source::Acknowledgement(source))
}

/// Leaves a value to the line.
const LONG: Short = |_| None;

/// The columns after `seq`, the number of the record.
pub(crate) const COLUMNS: &[Column] = &[
    text("time", "/time", |one| stamp(one.time())),
    text("id", "/id", |one| {
        let id = DecisionId::from_octets(one.id).text();
        Some(Value::Text(String::from_utf8_lossy(&id).into_owned()))
    }),
    text("decided_at", "/decided_at", |one| {
        stamp(one.time().saturating_add_signed(one.decided_after))
    }),
    text("mode", "/mode", |one| known(one.mode.as_str())),
    text("verdict", "/verdict", |one| known(one.verdict.as_str())),
    text("reason", "/reason", |one| known(one.reason)),
    text("policy", "/policy", LONG),
    text("client_address", "/client/address", |one| {
        Some(Value::Text(one.client.to_string()))
    }),
    text("client_name", "/client/name", |one| {
        or_null(one.client_name, token)
    }),
    text("agent", "/agent/chain/0", |one| {
        one.chain.iter().next().map_or_else(|| known("*"), token)
    }),
    text("agent_chain", "/agent/chain", LONG),
    text("agent_source", "/agent/source", |one| {
        known(one.source.as_str())
    }),
    integer("agent_mismatch", "/agent/mismatch", |one| {
        boolean(one.mismatch)
    }),
    text("user_agent", "/user_agent", |one| {
        or_null(one.user_agent, |name| {
            foreign(name.kept, name.cut, most_of(one, most::USER_AGENT))
        })
    }),
    text("method", "/method", |one| token(one.method)),
    text("version", "/version", |one| or_null(one.version, known)),
    text("url", "/url", |one| {
        let (pieces, cut) = one.url.pieces(one.origin);
        foreign(&pieces.concat(), cut, most_of(one, 2 * 1_024))
    }),
    text("url_sha256", "/url_sha256", LONG),
    text("origin", "", |one| or_null(one.origin, known)),
    text("scheme", "/scheme", |one| {
        known(one.origin.map_or("", |origin| origin_parts(origin).0))
    }),
    text("host", "/host", |one| {
        let host = one.origin.map_or("", |origin| origin_parts(origin).1);
        foreign(host.as_bytes(), 0, most::ORIGIN)
    }),
    integer("port", "/port", |one| {
        count(one.origin.map_or(0, |origin| origin_parts(origin).2))
    }),
    text("via", "/via", |one| known(one.via.as_str())),
    integer("opaque", "/opaque", |one| boolean(one.opaque)),
    text("rule_group", "/rule/group", |one| {
        or_null(one.rule, |rule| token(rule.group))
    }),
    text("rule_text", "/rule/text", |one| {
        or_null(one.rule, |rule| {
            foreign(rule.text.kept, rule.text.cut, most::RULE)
        })
    }),
    integer("rule_line", "/rule/line", |one| {
        or_null(one.rule, |rule| count(rule.line.into()))
    }),
    text("reading", "/reading", |one| or_null(one.reading, |_| None)),
    text("override_id", "/override/id", overriding),
    text("override_origin", "/override/origin", overriding),
    text("override_pattern", "/override/pattern", overriding),
    text("override_action", "/override/action", overriding),
    text("override_by", "/override/by", overriding),
    text("override_reason", "/override/reason", overriding),
    text("override_until", "/override/until", overriding),
    text("robots_url", "/robots/url", basis),
    text("robots_final_url", "/robots/final_url", basis),
    text("robots_state", "/robots/state", basis),
    text("robots_identity", "/robots/identity", basis),
    text("robots_user_agent", "/robots/user_agent", basis),
    integer("robots_status", "/robots/status", basis),
    text("robots_fetched_at", "/robots/fetched_at", basis),
    integer("robots_age_s", "/robots/age_s", basis),
    text("robots_sha256", "/robots/sha256", basis),
    integer("robots_bytes", "/robots/bytes", basis),
    integer("robots_truncated", "/robots/truncated", basis),
    text("robots_fresh_until", "/robots/fresh_until", basis),
    text("unreachable_since", "/robots/unreachable/since", basis),
    text("unreachable_cause", "/robots/unreachable/cause", basis),
    integer(
        "unreachable_attempts",
        "/robots/unreachable/attempts",
        basis,
    ),
    text(
        "unreachable_next_attempt",
        "/robots/unreachable/next_attempt",
        basis,
    ),
    real("hold_ms", "/hold_ms", |one| millis(one.hold)),
    real("pace_interval_ms", "/pace/interval_ms", |one| {
        or_null(one.pace, |pace| millis(pace.interval))
    }),
    text("pace_source", "/pace/source", |one| {
        or_null(one.pace, |pace| known(pace.source))
    }),
    integer("pace_clamped", "/pace/clamped", |one| {
        or_null(one.pace, |pace| boolean(pace.clamped))
    }),
    text("upstream", "/upstream", |one| {
        or_null(one.upstream, |address| {
            Some(Value::Text(address.to_string()))
        })
    }),
    text("upstream_version", "/upstream_version", |one| {
        or_null(one.upstream_version, known)
    }),
    integer("status", "/status", |one| {
        or_null(one.status, |status| count(status.into()))
    }),
    integer("bytes_in", "/bytes_in", |one| count(one.bytes_in)),
    integer("bytes_out", "/bytes_out", |one| count(one.bytes_out)),
    real("duration_ms", "/duration_ms", |one| millis(one.duration)),
    text("error", "/error", |one| or_null(one.error, token)),
    text("detail", "/detail", |one| or_null(one.detail, |_| None)),
    text("exempt_from", "/exempt/from", |one| {
        or_null(one.exempt, |exempt| known(exempt.from))
    }),
    text("exempt_reason", "/exempt/reason", |one| {
        or_null(one.exempt, |_| None)
    }),
    text("signed_as", "/signed/as", signing),
    text("signed_keyid", "/signed/keyid", signing),
    integer("signed_created", "/signed/created", signing),
    integer("signed_left", "/signed/left", signing),
    integer("signed_unsignable", "/signed/unsignable", signing),
    text("usage_purposes", "/usage/purposes", of_use),
    text("usage_refused", "/usage/refused", of_use),
    text("usage_stage", "/usage/stage", of_use),
    text("usage_combined", "/usage/combined", of_use),
    text("usage_preferences", "/usage/preferences", of_use),
    text("usage_invalid", "/usage/invalid", of_use),
    text("usage_licenses", "/usage/licenses", of_use),
    text("usage_let_out_by", "/usage/let_out_by", of_use),
    integer("usage_received_status", "/usage/received_status", of_use),
    noted("acknowledged_at", "time"),
    noted("acknowledged_by", "person"),
    noted("acknowledged_note", "note"),
    column("line", "TEXT", Source::Whole),
];

/// Returns the value of a field that a decision may lack.
fn or_null<T>(field: Option<T>, value: impl FnOnce(T) -> Option<Value>) -> Option<Value> {
    field.map_or(Some(Value::Null), value)
}

fn token(text: Text<'_>) -> Option<Value> {
    foreign(text.kept.as_bytes(), text.cut, most::TOKEN)
}

fn stamp(millis: u64) -> Option<Value> {
    Some(Value::Text(time_text(Moment::from_millis(millis))))
}

/// Returns a text of our own, such as a code. A longer one than lines hold is left to the line.
fn known(text: &str) -> Option<Value> {
    foreign(text.as_bytes(), 0, most::TOKEN)
}

/// Returns foreign text that stands in the line as it is: whole, and UTF-8.
fn foreign(octets: &[u8], cut: u64, most: usize) -> Option<Value> {
    // In a line an octet takes up to six.
    let is_whole = cut == 0 && octets.len() <= most / 6;
    let text = std::str::from_utf8(octets).ok().filter(|_| is_whole)?;
    Some(Value::Text(text.to_owned()))
}

fn most_of(decision: &Decision<'_>, most: usize) -> usize {
    if is_of_unknown_client(decision.reason) {
        most.min(most::OF_STRANGERS)
    } else {
        most
    }
}

fn count(number: u64) -> Option<Value> {
    Some(Value::Integer(i64::try_from(number).ok()?))
}

fn boolean(boolean: bool) -> Option<Value> {
    Some(Value::Integer(boolean.into()))
}

fn millis(micros: u64) -> Option<Value> {
    Some(Value::Real(micros as f64 / 1_000.0))
}

fn overriding(decision: &Decision<'_>) -> Option<Value> {
    or_null(decision.overridden, |_| None)
}

fn basis(decision: &Decision<'_>) -> Option<Value> {
    or_null(decision.basis, |_| None)
}

fn signing(decision: &Decision<'_>) -> Option<Value> {
    or_null(decision.signed, |_| None)
}

fn of_use(decision: &Decision<'_>) -> Option<Value> {
    or_null(decision.usage, |_| None)
}

/// Returns the value at a JSON pointer of a line. Lists and objects are JSON.
pub(crate) fn of_line(line: &serde_json::Value, pointer: &str) -> Value {
    use serde_json::Value as Json;
    match line.pointer(pointer) {
        None | Some(Json::Null) => Value::Null,
        Some(Json::Bool(boolean)) => Value::Integer((*boolean).into()),
        Some(Json::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Integer(number),
            (None, Some(number)) => Value::Real(number),
            (None, None) => Value::Null,
        },
        Some(Json::String(text)) => Value::Text(text.clone()),
        Some(list) => Value::Text(list.to_string()),
    }
}
