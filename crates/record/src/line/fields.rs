//! The table of the fields of a decision's line, in their order. The line and its columns follow from it.

use aws_lc_rs::digest::{SHA256, digest as sha256};

use super::cell::{Cell, digest, list, octets, of, text, word};
use super::told::{File, Told};
use super::{most_in_line, origin_parts, write_fields};
use crate::bounds::{is_of_unknown_client, most};
use crate::decision::Signed;
use crawlgate_text::json::{self, Object};

/// Returns the value of a field.
pub(super) type CellOf = for<'t, 'a> fn(&'t Told<'a>) -> Cell<'a>;

/// A row of the table.
pub(super) enum Field {
    /// A value.
    Value {
        name: &'static str,
        /// The type of its column; `None` without one.
        kind: Option<&'static str>,
        /// True for a column that the line does not have.
        is_computed: bool,
        cell: CellOf,
    },
    /// An object. Its name is the beginning of its columns' names.
    Object {
        name: &'static str,
        is_given: fn(&Told<'_>) -> bool,
        /// True if the line leaves it out where it is not given, as for a field that older lines do not have.
        is_late: bool,
        fields: &'static [Field],
    },
}

const fn column(name: &'static str, kind: &'static str, cell: CellOf) -> Field {
    Field::Value { name, kind: Some(kind), is_computed: false, cell }
}

const fn txt(name: &'static str, cell: CellOf) -> Field {
    column(name, "TEXT", cell)
}

const fn int(name: &'static str, cell: CellOf) -> Field {
    column(name, "INTEGER", cell)
}

const fn real(name: &'static str, cell: CellOf) -> Field {
    column(name, "REAL", cell)
}

/// A field without a column.
const fn bare(name: &'static str, cell: CellOf) -> Field {
    Field::Value { name, kind: None, is_computed: false, cell }
}

/// A column that the line does not have.
const fn computed(name: &'static str, kind: &'static str, cell: CellOf) -> Field {
    Field::Value { name, kind: Some(kind), is_computed: true, cell }
}

const fn object(
    name: &'static str,
    is_given: fn(&Told<'_>) -> bool,
    fields: &'static [Field],
) -> Field {
    Field::Object { name, is_given, is_late: false, fields }
}

const fn late(
    name: &'static str,
    is_given: fn(&Told<'_>) -> bool,
    fields: &'static [Field],
) -> Field {
    Field::Object { name, is_given, is_late: true, fields }
}

/// The fields of a line. A new one stands at the end, and is [`Cell::Absent`] where it is not given: lines of entries
/// from before stay as they are.
#[rustfmt::skip] // one row, one field
pub(super) const LINE: &[Field] = &[
    txt("time", |one| Cell::Time(one.time())),
    txt("id", |one| Cell::Id(one.id)),
    txt("decided_at", |one| Cell::Time(one.decided())),
    txt("mode", |one| word(one.mode.as_str())),
    txt("verdict", |one| word(one.verdict.as_str())),
    txt("reason", |one| word(one.reason)),
    txt("policy", |one| of(one.policy, digest)),
    object("client", |_| true, &[
        txt("address", |one| Cell::Address(one.client)),
        txt("name", |one| of(one.client_name, |name| text(name, most::TOKEN))),
    ]),
    computed("agent", "TEXT", |one| match one.chain.iter().next() {
        Some(token) => text(token, most::TOKEN),
        None => word("*"),
    }),
    object("agent", |_| true, &[
        txt("chain", |one| list(one.chain)),
        txt("source", |one| word(one.source.as_str())),
        int("mismatch", |one| Cell::Flag(one.mismatch)),
    ]),
    txt("user_agent", |one| {
        let most = most_of(one, most::USER_AGENT);
        of(one.user_agent, |agent| octets(agent, most))
    }),
    txt("method", |one| text(one.method, most::TOKEN)),
    txt("version", |one| of(one.version, word)),
    txt("url", url),
    txt("url_sha256", url_sha256),
    computed("origin", "TEXT", |one| of(one.origin, word)),
    txt("scheme", |one| word(origin_parts(one.origin.unwrap_or_default()).0)),
    txt("host", |one| {
        let host = origin_parts(one.origin.unwrap_or_default()).1;
        text(host.into(), most::ORIGIN)
    }),
    int("port", |one| Cell::Number(one.origin.map_or(0, |origin| origin_parts(origin).2))),
    txt("via", |one| word(one.via.as_str())),
    int("opaque", |one| Cell::Flag(one.opaque)),
    object("rule", |one| one.rule.is_some(), &[
        txt("group", |one| of(one.rule, |rule| text(rule.group, most::TOKEN))),
        txt("text", |one| of(one.rule, |rule| octets(rule.text, most::RULE))),
        int("line", |one| of(one.rule, |rule| Cell::Number(rule.line.into()))),
    ]),
    txt("reading", |one| of(one.reading, |path| octets(path, most_in_line::URL))),
    object("override", |one| one.overridden.is_some(), OVERRIDE),
    object("robots", |one| one.robots.is_some(), FILE),
    real("hold_ms", |one| Cell::Micros(one.hold)),
    object("pace", |one| one.pace.is_some(), &[
        real("interval_ms", |one| of(one.pace, |pace| Cell::Micros(pace.interval))),
        txt("source", |one| of(one.pace, |pace| word(pace.source))),
        int("clamped", |one| of(one.pace, |pace| Cell::Flag(pace.clamped))),
    ]),
    txt("upstream", |one| of(one.upstream, Cell::Address)),
    txt("upstream_version", |one| of(one.upstream_version, word)),
    int("status", |one| of(one.status, |status| Cell::Number(status.into()))),
    int("bytes_in", |one| Cell::Number(one.bytes_in)),
    int("bytes_out", |one| Cell::Number(one.bytes_out)),
    real("duration_ms", |one| Cell::Micros(one.duration)),
    txt("error", |one| of(one.error, |error| text(error, most::TOKEN))),
    bare("usage", |one| match (one.usage, &one.tdmrep) {
        (Some(usage), Some(file)) => Cell::Json(with_tdmrep(usage, one, file).into()),
        (Some(usage), None) => Cell::Json(usage.into()),
        (None, _) => Cell::Absent,
    }),
    txt("detail", |one| match one.detail {
        Some(detail) => text(detail, most::DETAIL),
        None => Cell::Absent,
    }),
    late("signed", |one| one.signed.is_some(), &[
        txt("as", |one| signed(one, |identity, _, _| word(identity))),
        txt("keyid", |one| signed(one, |_, key, _| word(key))),
        int("created", |one| signed(one, |_, _, created| Cell::Number(created))),
        int("left", |one| said(one.signed == Some(Signed::Left))),
        int("unsignable", |one| said(one.signed == Some(Signed::Unsignable))),
    ]),
    late("exempt", |one| one.exempt.is_some(), &[
        txt("from", |one| of(one.exempt, |exempt| word(exempt.from))),
        txt("reason", |one| of(one.exempt, |exempt| text(exempt.reason.into(), most::WORDS))),
    ]),
    computed("usage_purposes", "TEXT", |one| used(one, "purposes")),
    computed("usage_refused", "TEXT", |one| used(one, "refused")),
    computed("usage_stage", "TEXT", |one| used(one, "stage")),
    computed("usage_combined", "TEXT", |one| used(one, "combined")),
    computed("usage_preferences", "TEXT", |one| used(one, "preferences")),
    computed("usage_invalid", "TEXT", |one| used(one, "invalid")),
    computed("usage_licenses", "TEXT", |one| used(one, "licenses")),
    computed("usage_let_out_by", "TEXT", |one| used(one, "let_out_by")),
    computed("usage_received_status", "INTEGER", |one| used(one, "received_status")),
];

/// The fields of an override.
#[rustfmt::skip] // one row, one field
pub(super) const OVERRIDE: &[Field] = &[
    txt("id", |one| of(one.overridden, |one| word(one.id))),
    txt("origin", |one| of(one.overridden, |one| text(one.origin.into(), most::ORIGIN))),
    txt("pattern", |one| of(one.overridden, |one| text(one.pattern.into(), most::RULE))),
    txt("action", |one| of(one.overridden, |one| word(one.action.as_str()))),
    txt("by", |one| of(one.overridden, |one| text(one.by.into(), most::WORDS))),
    txt("reason", |one| of(one.overridden, |one| text(one.reason.into(), most::WORDS))),
    txt("until", |one| of(one.overridden.and_then(|one| one.until), Cell::Time)),
    // Without a fleet, no override has one.
    bare("instance", |one| match one.overridden.and_then(|one| one.instance) {
        Some(instance) => word(instance),
        None => Cell::Absent,
    }),
];

/// The fields of the state of a robots.txt or a tdmrep.json.
#[rustfmt::skip] // one row, one field
pub(super) const FILE: &[Field] = &[
    txt("url", |one| of(one.robots, |file| Cell::Text { octets: file.url().into_bytes().into(), cut: 0, most: most::ORIGIN })),
    txt("final_url", |one| of(one.robots.and_then(|file| file.final_url), |url| octets(url.into(), most_in_line::REDIRECTED_URL))),
    txt("state", |one| of(one.robots, |file| word(file.basis.state))),
    txt("identity", |one| of(one.robots.and_then(|file| file.identity), word)),
    txt("user_agent", |one| of(one.robots.and_then(|file| file.user_agent), |name| text(name.into(), most::USER_AGENT))),
    int("status", |one| of(one.robots.and_then(|file| file.status), |status| Cell::Number(status.into()))),
    txt("fetched_at", |one| of(one.robots.and_then(|file| file.fetched_at), Cell::Time)),
    int("age_s", |one| match one.robots.and_then(|file| file.fetched_at) {
        Some(at) => Cell::Number(one.time().saturating_sub(at) / 1_000),
        None => Cell::Null,
    }),
    txt("sha256", |one| of(one.robots.and_then(|file| file.sha256), digest)),
    int("bytes", |one| of(one.robots.and_then(|file| file.bytes), Cell::Number)),
    int("truncated", |one| of(one.robots, |file| Cell::Flag(file.truncated))),
    txt("fresh_until", |one| of(one.robots.and_then(|file| file.fresh_until), Cell::Time)),
    object("unreachable", |one| one.outage().is_some(), &[
        txt("since", |one| of(one.outage(), |outage| Cell::Time(outage.since))),
        bare("last_failure", |one| of(one.outage().and_then(|outage| outage.last_failure), Cell::Time)),
        txt("cause", |one| of(one.outage(), |outage| word(outage.cause))),
        bare("answers", |one| of(one.outage(), |outage| Cell::Flag(outage.answers))),
        int("attempts", |one| of(one.outage(), |outage| Cell::Number(outage.attempts.into()))),
        txt("next_attempt", |one| of(one.outage(), |outage| Cell::Time(outage.next_attempt))),
    ]),
];

/// Returns the bound of a text that anyone could fill the store with.
fn most_of(one: &Told<'_>, most: usize) -> usize {
    match is_of_unknown_client(one.reason) {
        true => most.min(most::OF_STRANGERS),
        false => most,
    }
}

impl Told<'_> {
    /// Returns the URL as the line has it.
    #[must_use]
    pub fn url_text(&self) -> String {
        url(self).text().into_owned()
    }
}

/// Returns the URL.
fn url<'a>(one: &Told<'a>) -> Cell<'a> {
    let (pieces, cut) = one.url.pieces(one.origin);
    Cell::Text { octets: pieces.concat().into(), cut, most: most_of(one, most_in_line::URL) }
}

/// Returns the digest of the URL, if the line does not hold all of it.
fn url_sha256<'a>(one: &Told<'a>) -> Cell<'a> {
    let (pieces, cut) = one.url.pieces(one.origin);
    let most = most_of(one, most_in_line::URL);
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    if cut == 0 && length <= most / json::WIDEST {
        return Cell::Absent;
    }
    let url = pieces.concat();
    if !json::is_cut(&url, cut, most) {
        return Cell::Absent;
    }
    let whole = || {
        let whole = sha256(&SHA256, &url);
        whole.as_ref().try_into().unwrap_or_default()
    };
    Cell::Digest(one.url.sha256.unwrap_or_else(whole))
}

/// Returns the object about use with the state of tdmrep.json as its last member.
fn with_tdmrep(usage: &str, one: &Told<'_>, file: &File<'_>) -> String {
    let mut state = Vec::new();
    let of_file = Told { robots: Some(*file), ..*one };
    write_fields(FILE, &of_file, Object::open(&mut state));
    let members = usage.strip_suffix('}').unwrap_or(usage);
    let state = String::from_utf8_lossy(&state);
    format!("{members},\"tdmrep\":{state}}}")
}

fn used<'a>(one: &Told<'a>, name: &'static str) -> Cell<'a> {
    of(one.usage, |usage| Cell::Member(usage, name))
}

/// Returns a value of the signature that crawlgate made.
fn signed<'a>(one: &Told<'a>, cell: fn(&'a str, &'a str, u64) -> Cell<'a>) -> Cell<'a> {
    match one.signed {
        Some(Signed::With { identity, key, created }) => cell(identity, key, created),
        _ => Cell::Absent,
    }
}

fn said<'a>(is_so: bool) -> Cell<'a> {
    match is_so {
        true => Cell::Flag(true),
        false => Cell::Absent,
    }
}
