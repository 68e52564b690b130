//! The room of the states of origins, their fetches and texts of robots.txt.
//!
//! For lack of room, a registrable domain (one paid name) above its share gives first, so that endless names under one
//! domain displace nothing but each other. The same holds for a network: an IPv4 address, or an IPv6 /64. Within the
//! domain, else among all, texts without a decision go first, then states without a text, then texts behind decisions;
//! of each kind the least recently used first. A dropped state is no state: the origin is asked anew before any request
//! passes. The row of a dropped text behind decisions stays, so that no check takes the text for lost by damage.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::entries::oldest::oldest_kept;
use super::error::Failure;
use super::objects::MARGIN;
use super::rows::{integer, number, time};
use crate::Sha256;
use crawlgate_origins::requesting_client::network_of;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

/// The share of one domain while others want room: this part of all.
const SHARE: u64 = 16;

/// Texts, or times as many origins, dropped at once.
const AT_ONCE: usize = 2_048;

/// Origins dropped together.
const ORIGINS: i64 = 32;

/// Returns the domain that an origin counts for: the registrable one of a name, the network of an address.
pub(super) fn domain_of(origin: &Origin) -> Cow<'_, str> {
    let host = origin.host();
    match host.trim_matches(['[', ']']).parse() {
        Ok(address) => network_of(address).to_string().into(),
        Err(_) => psl2::lookup(host)
            .and_then(|name| name.registrable_domain())
            .unwrap_or(host)
            .into(),
    }
}

/// Notes the room of an origin, after its state and a fetch were written.
pub(super) fn note(connection: &Connection, origin: &Origin, used: Moment) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO kept SELECT ?1, ?2, ?3, 640 + (SELECT coalesce(sum(320 + length(hops) + length(fields)), 0) \
             FROM fetch WHERE origin = ?1) WHERE true \
             ON CONFLICT (origin) DO UPDATE SET used = max(used, excluded.used), octets = excluded.octets",
        )?
        .execute(params![origin.as_str(), domain_of(origin), time(used)])?;
    Ok(())
}

/// Returns the approximate octets of all origins' data.
pub(super) fn octets(connection: &Connection) -> Result<u64, Failure> {
    let mut value =
        connection.prepare_cached("SELECT value FROM meta WHERE name = 'robots_octets'")?;
    Ok(number(value.query_row([], |row| row.get(0))?))
}

/// Drops the least recently used data until `incoming` octets fit into `most`, or the step is full. Returns the numbers
/// of texts and origins.
pub(super) fn make_room(
    transaction: &Connection,
    most: u64,
    incoming: u64,
    now: Moment,
) -> Result<u64, Failure> {
    let mut gone = 0;
    if octets(transaction)? + incoming <= most {
        return Ok(gone);
    }
    let first = first_named(transaction)?;
    // A text that an entry rests on which is not shipped yet stays.
    let unshipped = super::shipping::unshipped_from(transaction)?;
    let unshipped = unshipped.map_or(i64::MAX, |from| {
        time(Moment::from_millis(number(from)) - MARGIN)
    });
    let bounds = (first, unshipped);
    for _ in 0..AT_ONCE {
        if octets(transaction)? + incoming <= most {
            break;
        }
        let mut dropped = 0;
        if let Some(domain) = over_its_share(transaction, most / SHARE)? {
            dropped = drop_one(transaction, Some(&domain), bounds, now)?;
        }
        if dropped == 0 {
            // The domain may have nothing left except texts behind decisions.
            dropped = drop_one(transaction, None, bounds, now)?;
        }
        gone += dropped;
        if dropped == 0 {
            break;
        }
    }
    Ok(gone)
}

/// Returns the time from which on texts that entries name are protected.
fn first_named(connection: &Connection) -> Result<i64, Failure> {
    let first = oldest_kept(connection)?;
    Ok(first.map_or(1, |first| time(first - MARGIN).max(1)))
}

/// Returns the domain that takes most if that is more than `share`.
fn over_its_share(connection: &Connection, share: u64) -> Result<Option<String>, Failure> {
    let mut most = connection
        .prepare_cached("SELECT name FROM domain WHERE octets > ?1 ORDER BY octets DESC LIMIT 1")?;
    Ok(most
        .query_row([integer(share)], |row| row.get(0))
        .optional()?)
}

/// Drops one text, or some origins, of a domain or of all, and returns their number.
fn drop_one(
    transaction: &Connection,
    domain: Option<&str>,
    (first, unshipped): (i64, i64),
    now: Moment,
) -> Result<u64, Failure> {
    if let Some(text) = oldest_text(transaction, domain, DroppableText::Nothing(first))? {
        return drop_text(transaction, domain, &text, first, now).map(|()| 1);
    }
    let origins = drop_origins(transaction, domain)?;
    if origins > 0 {
        return Ok(origins);
    }
    match oldest_text(transaction, domain, DroppableText::Decisions(unshipped))? {
        Some(text) => drop_text(transaction, domain, &text, first, now).map(|()| 1),
        None => Ok(0),
    }
}

struct Text {
    number: i64,
    sha256: Sha256,
    last_named: i64,
}

/// The texts that may go, by the time up to which entries may rest on them.
#[derive(Clone, Copy)]
enum DroppableText {
    /// Those without a decision from this time on.
    Nothing(i64),
    /// Those without a decision that is not shipped, which are from this time on.
    Decisions(i64),
}

/// Returns the least recently fetched text without a decision. Among texts behind decisions, it returns the one with the
/// oldest last decision: a file in use is fetched once a day at most.
fn oldest_text(
    connection: &Connection,
    domain: Option<&str>,
    droppable: DroppableText,
) -> Result<Option<Text>, Failure> {
    let (DroppableText::Nothing(before) | DroppableText::Decisions(before)) = droppable;
    let mut oldest = connection.prepare_cached(match domain {
        _ if matches!(droppable, DroppableText::Decisions(_)) => {
            "SELECT number, sha256, last_named FROM snapshot WHERE (?1 IS NULL OR domain = ?1) \
             AND dropped IS NULL AND last_named < ?2 ORDER BY last_named LIMIT 1"
        }
        Some(_) => {
            "SELECT number, sha256, last_named FROM snapshot WHERE domain = ?1 AND dropped IS NULL \
             AND last_named < ?2 ORDER BY last_fetched LIMIT 1"
        }
        None => {
            "SELECT number, sha256, last_named FROM snapshot WHERE ?1 IS NULL AND dropped IS NULL \
             AND last_named < ?2 ORDER BY last_fetched LIMIT 1"
        }
    })?;
    let found = oldest.query_row(params![domain, before], |row| {
        Ok(Text {
            number: row.get(0)?,
            sha256: row.get(1)?,
            last_named: row.get(2)?,
        })
    });
    Ok(found.optional()?)
}

/// Drops a text with the states of its origins. If another domain has the same text, that domain keeps it.
fn drop_text(
    transaction: &Connection,
    domain: Option<&str>,
    text: &Text,
    first: i64,
    now: Moment,
) -> Result<(), Failure> {
    transaction
        .prepare_cached(
            "DELETE FROM origin WHERE sha256 = ?1 AND (?2 IS NULL OR origin IN (SELECT origin FROM kept WHERE domain = ?2))",
        )?
        .execute(params![text.sha256, domain])?;
    let others: Option<Option<String>> = transaction
        .prepare_cached(
            "SELECT kept.domain FROM origin LEFT JOIN kept USING (origin) WHERE sha256 = ?1 LIMIT 1",
        )?
        .query_row([text.sha256], |row| row.get(0))
        .optional()?;
    if let Some(theirs) = others {
        transaction
            .prepare_cached("UPDATE snapshot SET domain = ?2 WHERE number = ?1")?
            .execute(params![text.number, theirs.unwrap_or_default()])?;
        return Ok(());
    }
    let is_fetched = transaction
        .prepare_cached("SELECT 1 FROM fetch WHERE sha256 = ?1")?
        .exists([text.sha256])?;
    // An object stays for a while after the last entry that names it.
    let is_behind_object = transaction
        .prepare_cached("SELECT 1 FROM object WHERE names = ?1")?
        .exists([text.sha256])?;
    let is_named = is_behind_object || (text.last_named >= first && text.last_named > 0);
    match is_fetched || is_named {
        true => transaction
            .prepare_cached("UPDATE snapshot SET body = x'', dropped = ?2 WHERE number = ?1")?
            .execute(params![text.number, time(now)])?,
        false => transaction
            .prepare_cached("DELETE FROM snapshot WHERE number = ?1")?
            .execute([text.number])?,
    };
    Ok(())
}

/// Drops the states of the least recently used origins without a text, and returns their number.
fn drop_origins(transaction: &Connection, domain: Option<&str>) -> Result<u64, Failure> {
    let mut drop = transaction.prepare_cached(match domain {
        Some(_) => {
            "DELETE FROM origin WHERE origin IN (SELECT origin FROM kept WHERE domain = ?1 AND NOT EXISTS \
             (SELECT 1 FROM origin AS held WHERE held.origin = kept.origin AND held.sha256 IS NOT NULL) \
             ORDER BY used LIMIT ?2)"
        }
        None => {
            "DELETE FROM origin WHERE ?1 IS NULL AND origin IN (SELECT origin FROM kept WHERE NOT EXISTS \
             (SELECT 1 FROM origin AS held WHERE held.origin = kept.origin AND held.sha256 IS NOT NULL) \
             ORDER BY used LIMIT ?2)"
        }
    })?;
    Ok(drop.execute(params![domain, ORIGINS])? as u64)
}

/// Tells whether the text of this digest was dropped to make room.
pub(super) fn is_dropped(connection: &Connection, sha256: Sha256) -> Result<bool, Failure> {
    let mut look = connection
        .prepare_cached("SELECT 1 FROM snapshot WHERE sha256 = ?1 AND dropped IS NOT NULL")?;
    Ok(look.exists([sha256])?)
}

/// Notes the room of each origin anew, after a rebuild of a damaged store.
pub(super) fn recount(transaction: &Connection) -> Result<(), Failure> {
    transaction.execute("DELETE FROM kept", [])?;
    let mut all = transaction.prepare("SELECT origin, max(updated) FROM origin GROUP BY origin")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let used = Moment::from_millis(number(row.get(1)?));
        if let Ok((origin, _)) = Origin::parse(&name) {
            note(transaction, &origin, used)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_for_their_registered_domain_and_addresses_for_their_network() {
        for (url, domain) in [
            ("https://example.com", "example.com"),
            ("http://a.b.example.com:8080", "example.com"),
            ("https://a.example.co.uk", "example.co.uk"),
            ("https://one.github.io", "one.github.io"),
            ("https://x.unheard-of", "x.unheard-of"),
            ("https://y.x_1.example.com.", "example.com"),
            ("http://localhost", "localhost"),
            ("http://192.0.2.7", "192.0.2.7"),
            ("http://192.0.2.8", "192.0.2.8"),
            ("http://[2001:db8::1]", "2001:db8::"),
            ("http://[2001:db8::ffff:0:0:2]:8080", "2001:db8::"),
            ("http://[2001:db8:0:1::1]", "2001:db8:0:1::"),
            ("http://[::ffff:192.0.2.7]", "192.0.2.7"),
        ] {
            let (origin, _) = Origin::parse(url).unwrap();
            assert_eq!(domain_of(&origin), domain, "{url}");
        }
    }
}
