//! The line of a record, derived from its entry: a JSON object and a line feed.
//!
//! The names are those of [`field`](super::field); the line of an entry never changes. A decision's line has all fields,
//! an event's line those of its kind after `time` and `event`.

mod event;

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::net::SocketAddr;

use aws_lc_rs::digest::{SHA256, digest};

use super::Digest;
use super::bounds::{is_of_unknown_client, most};
use super::cbor::Malformed;
use super::decision::{Decision, Pace, Rule, Signed};
use super::field as f;
use super::object::{Asserted, Basis, Outage};
use super::read::Entry;
use super::value::{Octets, Text, Texts};
use crawlgate_origins::document::Document;
use crawlgate_text::Moment;
use crawlgate_text::json::{Object, Written};
use crawlgate_text::{DecisionId, hex::Hex, hex::digits, timestamp};

/// Bounds of texts in a line, where they differ from those of an entry. They count octets of the line, with escapes.
mod most_in_line {
    /// A longer URL is named by the digest of the whole, too.
    pub(super) const URL: usize = 2 * 1024;
    pub(super) const REDIRECTED_URL: usize = 4 * 1024;
    /// Octets of a line after which no row is added.
    pub(super) const ROWS: usize = 48 * 1024;
}

/// The objects that entries name.
pub trait Objects {
    /// Returns the body of the object with this SHA-256.
    fn body(&self, sha256: &Digest) -> Option<&[u8]>;
}

impl<S: BuildHasher> Objects for HashMap<Digest, Vec<u8>, S> {
    fn body(&self, sha256: &Digest) -> Option<&[u8]> {
        self.get(sha256).map(Vec::as_slice)
    }
}

/// An object without which an entry has no line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The meaning of the object: the name of the line's field.
    pub what: &'static str,
    /// SHA-256 of its body.
    pub sha256: Digest,
    /// The fault of the body; `None` if it is missing.
    pub fault: Option<Malformed>,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, sha256, .. } = self;
        match self.fault {
            Some(fault) => write!(f, "the {what} object {}: {fault}", Hex(sha256)),
            None => write!(f, "the {what} object {} is missing", Hex(sha256)),
        }
    }
}

impl std::error::Error for LineError {}

/// Appends the line of an entry to `out`.
///
/// # Errors
/// When an object that the entry names is missing or invalid; `out` is then as before.
pub fn write_line(
    entry: &Entry<'_>,
    objects: &impl Objects,
    out: &mut Vec<u8>,
) -> Result<(), LineError> {
    let [overridden, basis, tdmrep] = entry.objects();
    let overridden = read(f::OVERRIDE, overridden, objects, Asserted::read)?;
    let basis = read(f::ROBOTS, basis, objects, Basis::read)?;
    let tdmrep = read(f::TDMREP, tdmrep, objects, Basis::read)?;
    match entry {
        Entry::Decision(decision) => write_decision(decision, overridden, [basis, tdmrep], out),
        Entry::Event(event) => self::event::write_event(event, overridden, out),
    }
    out.push(b'\n');
    Ok(())
}

/// Reads an object.
fn read<'o, T>(
    what: &'static str,
    sha256: Option<&Digest>,
    objects: &'o impl Objects,
    read: fn(&'o [u8]) -> Result<T, Malformed>,
) -> Result<Option<T>, LineError> {
    let Some(sha256) = sha256 else {
        return Ok(None);
    };
    let failed = |fault| LineError {
        what,
        sha256: *sha256,
        fault,
    };
    let body = objects.body(sha256).ok_or_else(|| failed(None))?;
    read(body).map(Some).map_err(|fault| failed(Some(fault)))
}

fn write_decision(
    decision: &Decision<'_>,
    overridden: Option<Asserted<'_>>,
    [basis, tdmrep]: [Option<Basis<'_>>; 2],
    out: &mut Vec<u8>,
) {
    let time = decision.time();
    let decided_at = time.saturating_add_signed(decision.decided_after);
    let most_of = |most: usize| {
        if is_of_unknown_client(decision.reason) {
            most.min(most::OF_STRANGERS)
        } else {
            most
        }
    };
    let mut line = Object::open(out);
    line.plain(f::TIME, &stamp(time));
    line.plain(f::ID, &DecisionId::from_octets(decision.id).text());
    line.plain(f::DECIDED_AT, &stamp(decided_at));
    line.text(f::MODE, decision.mode.as_str().as_bytes(), most::TOKEN);
    line.text(
        f::VERDICT,
        decision.verdict.as_str().as_bytes(),
        most::TOKEN,
    );
    line.text(f::REASON, decision.reason.as_bytes(), most::TOKEN);
    match decision.policy {
        Some(policy) => line.plain(f::POLICY, &digits::<32, 64>(policy)),
        None => line.null(f::POLICY),
    }
    write_client(&mut line, decision.client, decision.client_name);

    write_agent(&mut line, decision);
    let most = most_of(most::USER_AGENT);
    octets_or_null(&mut line, f::USER_AGENT, decision.user_agent, most);
    line.cut_text(
        f::METHOD,
        decision.method.kept.as_bytes(),
        decision.method.cut,
        most::TOKEN,
    );
    code_or_null(&mut line, f::VERSION, decision.version);
    write_url(&mut line, decision, most_of(most_in_line::URL));
    let (scheme, host, port) = decision.origin.map_or(("", "", 0), origin_parts);
    line.text(f::SCHEME, scheme.as_bytes(), most::TOKEN);
    line.text(f::HOST, host.as_bytes(), most::ORIGIN);
    line.number(f::PORT, port);
    line.text(f::VIA, decision.via.as_str().as_bytes(), most::TOKEN);
    line.boolean(f::OPAQUE, decision.opaque);
    match &decision.rule {
        Some(rule) => write_rule(rule, line.object(f::RULE)),
        None => line.null(f::RULE),
    }
    octets_or_null(&mut line, f::READING, decision.reading, most_in_line::URL);
    match &overridden {
        Some(overridden) => write_asserted(overridden, line.object(f::OVERRIDE)),
        None => line.null(f::OVERRIDE),
    }
    match &basis {
        Some(basis) => write_basis(basis, Document::RobotsTxt, time, line.object(f::ROBOTS)),
        None => line.null(f::ROBOTS),
    }
    write_exchange(&mut line, decision);
    if let Some(usage) = decision.usage {
        match &tdmrep {
            Some(tdmrep) => line.verbatim(f::USAGE, &with_tdmrep(usage, tdmrep, time)),
            None => line.verbatim(f::USAGE, usage),
        }
    }
    // Lines of entries from before this field stay as they are.
    if let Some(detail) = decision.detail {
        line.cut_text(f::DETAIL, detail.kept.as_bytes(), detail.cut, most::DETAIL);
    }
    if let Some(signed) = &decision.signed {
        write_signed(signed, line.object(f::SIGNED));
    }
    if let Some(exempt) = &decision.exempt {
        let mut to = line.object(f::EXEMPT);
        to.text(f::FROM, exempt.from.as_bytes(), most::TOKEN);
        to.text(f::REASON, exempt.reason.as_bytes(), most::WORDS);
        to.close();
    }
    line.close();
}

/// Writes what became of the request.
fn write_exchange(line: &mut Object<'_>, decision: &Decision<'_>) {
    line.micros(f::HOLD_MS, decision.hold);
    match &decision.pace {
        Some(pace) => write_pace(pace, line.object(f::PACE)),
        None => line.null(f::PACE),
    }
    match decision.upstream {
        Some(address) => line.address(f::UPSTREAM, address),
        None => line.null(f::UPSTREAM),
    }
    code_or_null(line, f::UPSTREAM_VERSION, decision.upstream_version);
    line.number_or_null(f::STATUS, decision.status.map(u64::from));
    line.number(f::BYTES_IN, decision.bytes_in);
    line.number(f::BYTES_OUT, decision.bytes_out);
    line.micros(f::DURATION_MS, decision.duration);
    text_or_null(line, f::ERROR, decision.error, most::TOKEN);
}

fn write_signed(signed: &Signed<'_>, mut to: Object<'_>) {
    match *signed {
        Signed::With {
            identity,
            key,
            created,
        } => {
            to.text(f::AS, identity.as_bytes(), most::TOKEN);
            to.text(f::KEYID, key.as_bytes(), most::TOKEN);
            to.number(f::CREATED, created);
        }
        Signed::Left => to.boolean(f::LEFT, true),
        Signed::Unsignable => to.boolean(f::UNSIGNABLE, true),
    }
    to.close();
}

fn stamp(millis: u64) -> [u8; 24] {
    timestamp::rfc3339(Moment::from_millis(millis))
}

fn stamp_or_null(object: &mut Object<'_>, name: &str, millis: Option<u64>) {
    match millis {
        Some(millis) => object.plain(name, &stamp(millis)),
        None => object.null(name),
    }
}

fn code_or_null(object: &mut Object<'_>, name: &str, code: Option<&str>) {
    object.text_or_null(name, code.map(str::as_bytes), most::TOKEN);
}

fn octets_or_null(object: &mut Object<'_>, name: &str, octets: Option<Octets<'_>>, most: usize) {
    match octets {
        Some(octets) => drop(object.cut_text(name, octets.kept, octets.cut, most)),
        None => object.null(name),
    }
}

fn text_or_null(object: &mut Object<'_>, name: &str, text: Option<Text<'_>>, most: usize) {
    let octets = text.map(|text| Octets {
        kept: text.kept.as_bytes(),
        cut: text.cut,
    });
    octets_or_null(object, name, octets, most);
}

fn write_texts(object: &mut Object<'_>, name: &str, texts: &Texts<'_>, count: usize) {
    let more = texts.more() + texts.len().saturating_sub(count) as u64;
    let texts = texts.iter().take(count);
    object.cut_texts(
        name,
        texts.map(|text| (text.kept.as_bytes(), text.cut)),
        more,
        most::TOKEN,
    );
}

fn write_client(line: &mut Object<'_>, address: SocketAddr, name: Option<Text<'_>>) {
    let mut client = line.object(f::CLIENT);
    client.address(f::ADDRESS, address);
    text_or_null(&mut client, f::NAME, name, most::TOKEN);
    client.close();
}

fn write_agent(line: &mut Object<'_>, decision: &Decision<'_>) {
    let mut agent = line.object(f::AGENT);
    write_texts(&mut agent, f::CHAIN, &decision.chain, most::TOKENS);
    agent.text(f::SOURCE, decision.source.as_str().as_bytes(), most::TOKEN);
    agent.boolean(f::MISMATCH, decision.mismatch);
    agent.close();
}

/// Writes the URL, and its digest if the line does not hold all of it.
fn write_url(line: &mut Object<'_>, decision: &Decision<'_>, most: usize) {
    let (pieces, cut) = decision.url.pieces(decision.origin);
    let url = pieces.concat();
    if line.cut_text(f::URL, &url, cut, most) == Written::Cut {
        let whole = decision.url.sha256.unwrap_or_else(|| {
            let whole = digest(&SHA256, &url);
            whole.as_ref().try_into().unwrap_or_default()
        });
        line.plain(f::URL_SHA256, &digits::<32, 64>(&whole));
    }
}

/// Splits a canonical origin into scheme, host and port.
pub fn origin_parts(origin: &str) -> (&str, &str, u64) {
    let (scheme, authority) = origin.split_once("://").unwrap_or(("", origin));
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let colon = authority.rfind(':').filter(|&colon| colon >= after_address);
    let (host, port) = colon.map_or((authority, ""), |colon| {
        let (host, port) = authority.split_at(colon);
        (host, port.trim_start_matches(':'))
    });
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        "ftp" => 21,
        _ => 0,
    };
    (scheme, host, port.parse().unwrap_or(default))
}

fn write_rule(rule: &Rule<'_>, mut object: Object<'_>) {
    object.cut_text(
        f::GROUP,
        rule.group.kept.as_bytes(),
        rule.group.cut,
        most::TOKEN,
    );
    object.cut_text(f::TEXT, rule.text.kept, rule.text.cut, most::RULE);
    object.number(f::LINE, rule.line.into());
    object.close();
}

fn write_pace(pace: &Pace<'_>, mut object: Object<'_>) {
    object.micros(f::INTERVAL_MS, pace.interval);
    object.text(f::SOURCE, pace.source.as_bytes(), most::TOKEN);
    object.boolean(f::CLAMPED, pace.clamped);
    object.close();
}

fn write_asserted(asserted: &Asserted<'_>, mut object: Object<'_>) {
    object.text(f::ID, asserted.id.as_bytes(), most::TOKEN);
    object.text(f::ORIGIN, asserted.origin.as_bytes(), most::ORIGIN);
    object.text(f::PATTERN, asserted.pattern.as_bytes(), most::RULE);
    object.text(f::ACTION, asserted.action.as_str().as_bytes(), most::TOKEN);
    object.text(f::BY, asserted.by.as_bytes(), most::WORDS);
    object.text(f::REASON, asserted.reason.as_bytes(), most::WORDS);
    stamp_or_null(&mut object, f::UNTIL, asserted.until);
    // Without a fleet, no override has one.
    if let Some(instance) = asserted.instance {
        object.text(f::INSTANCE, instance.as_bytes(), most::TOKEN);
    }
    object.close();
}

/// Returns the object about use with the state of tdmrep.json as its last member.
fn with_tdmrep(usage: &str, tdmrep: &Basis<'_>, time: u64) -> String {
    let mut state = Vec::new();
    write_basis(tdmrep, Document::TdmRep, time, Object::open(&mut state));
    let members = usage.strip_suffix('}').unwrap_or(usage);
    let state = String::from_utf8_lossy(&state);
    format!("{members},\"{}\":{state}}}", f::TDMREP)
}

fn write_basis(basis: &Basis<'_>, document: Document, time: u64, mut object: Object<'_>) {
    let url = [basis.origin, document.path()].concat();
    object.text(f::URL, url.as_bytes(), most::ORIGIN);
    object.text_or_null(f::FINAL_URL, basis.final_url, most_in_line::REDIRECTED_URL);
    object.text(f::STATE, basis.state.as_bytes(), most::TOKEN);
    code_or_null(&mut object, f::IDENTITY, basis.identity);
    let user_agent = basis.user_agent.map(str::as_bytes);
    object.text_or_null(f::USER_AGENT, user_agent, most::USER_AGENT);
    object.number_or_null(f::STATUS, basis.status.map(u64::from));
    stamp_or_null(&mut object, f::FETCHED_AT, basis.fetched_at);
    let age = basis.fetched_at.map(|at| time.saturating_sub(at) / 1_000);
    object.number_or_null(f::AGE_S, age);
    match basis.sha256 {
        Some(sha256) => object.plain(f::SHA256, &digits::<32, 64>(sha256)),
        None => object.null(f::SHA256),
    }
    object.number_or_null(f::BYTES, basis.bytes);
    object.boolean(f::TRUNCATED, basis.truncated);
    stamp_or_null(&mut object, f::FRESH_UNTIL, basis.fresh_until);
    match &basis.outage {
        Some(outage) => write_outage(outage, object.object(f::UNREACHABLE)),
        None => object.null(f::UNREACHABLE),
    }
    object.close();
}

fn write_outage(outage: &Outage<'_>, mut object: Object<'_>) {
    object.plain(f::SINCE, &stamp(outage.since));
    stamp_or_null(&mut object, f::LAST_FAILURE, outage.last_failure);
    object.text(f::CAUSE, outage.cause.as_bytes(), most::TOKEN);
    object.boolean(f::ANSWERS, outage.answers);
    object.number(f::ATTEMPTS, outage.attempts.into());
    object.plain(f::NEXT_ATTEMPT, &stamp(outage.next_attempt));
    object.close();
}
