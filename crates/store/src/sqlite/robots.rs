//! The room of the states of origins, their fetches and texts of robots.txt.
//!
//! For lack of room, a registrable domain (one paid name) above its share gives first, so that endless names under one
//! domain displace nothing but each other. The same holds for a network: an IPv4 address, or an IPv6 /64. Within the
//! domain, else among all, texts without a decision go first, then states without a text, then texts behind decisions;
//! of each kind the least recently used first. A dropped state is no state: the origin is asked anew before any request
//! passes. The row of a dropped text behind decisions stays, so that no check takes the text for lost by damage.

use std::borrow::Cow;

use rusqlite::{Connection, params};

use super::engine::{Failure, Statements as _, integer, moment, number, time};
use super::entries::retention::oldest_kept;
use super::objects::MARGIN;
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
        Err(_) => {
            psl2::lookup(host).and_then(|name| name.registrable_domain()).unwrap_or(host).into()
        }
    }
}

/// Notes the room of an origin, after its state and a fetch were written.
pub(super) fn note(connection: &Connection, origin: &Origin, used: Moment) -> Result<(), Failure> {
    let text = "INSERT INTO kept SELECT ?1, ?2, ?3, 640 + (SELECT coalesce(sum(320 + length(hops) + length(fields)), 0) \
                FROM fetch WHERE origin = ?1) WHERE true \
                ON CONFLICT (origin) DO UPDATE SET used = max(used, excluded.used), octets = excluded.octets";
    let values = params![origin.as_str(), domain_of(origin), time(used)];
    connection.run(text, values).map(drop)
}

/// Returns the approximate octets of all origins' data.
pub(super) fn octets(connection: &Connection) -> Result<u64, Failure> {
    let text = "SELECT value FROM meta WHERE name = 'robots_octets'";
    connection.only(text, []).map(number)
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
    let unshipped = super::notes::unshipped_from(transaction)?;
    let unshipped = unshipped.map_or(i64::MAX, |from| time(moment(from) - MARGIN));
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
    let text = "SELECT name FROM domain WHERE octets > ?1 ORDER BY octets DESC LIMIT 1";
    connection.value(text, [integer(share)])
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
    let text = match domain {
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
    };
    connection.first(text, params![domain, before], |row| {
        Ok(Text { number: row.get(0)?, sha256: row.get(1)?, last_named: row.get(2)? })
    })
}

/// Drops a text with the states of its origins. If another domain has the same text, that domain keeps it.
fn drop_text(
    transaction: &Connection,
    domain: Option<&str>,
    text: &Text,
    first: i64,
    now: Moment,
) -> Result<(), Failure> {
    let Text { number, sha256, last_named } = *text;
    transaction.run(
        "DELETE FROM origin WHERE sha256 = ?1 AND (?2 IS NULL OR origin IN (SELECT origin FROM kept WHERE domain = ?2))",
        params![sha256, domain],
    )?;
    let text =
        "SELECT kept.domain FROM origin LEFT JOIN kept USING (origin) WHERE sha256 = ?1 LIMIT 1";
    let others: Option<Option<String>> = transaction.value(text, [sha256])?;
    if let Some(theirs) = others {
        let text = "UPDATE snapshot SET domain = ?2 WHERE number = ?1";
        transaction.run(text, params![number, theirs.unwrap_or_default()])?;
        return Ok(());
    }
    let is_fetched = transaction.has("SELECT 1 FROM fetch WHERE sha256 = ?1", [sha256])?;
    // An object stays for a while after the last entry that names it.
    let is_behind_object = transaction.has("SELECT 1 FROM object WHERE names = ?1", [sha256])?;
    let is_named = is_behind_object || (last_named >= first && last_named > 0);
    if is_fetched || is_named {
        let text = "UPDATE snapshot SET body = x'', dropped = ?2 WHERE number = ?1";
        transaction.run(text, [number, time(now)]).map(drop)
    } else {
        let text = "DELETE FROM snapshot WHERE number = ?1";
        transaction.run(text, [number]).map(drop)
    }
}

/// Drops the states of the least recently used origins without a text, and returns their number.
fn drop_origins(transaction: &Connection, domain: Option<&str>) -> Result<u64, Failure> {
    let text = match domain {
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
    };
    Ok(transaction.run(text, params![domain, ORIGINS])? as u64)
}

/// Tells whether the text of this digest was dropped to make room.
pub(super) fn is_dropped(connection: &Connection, sha256: Sha256) -> Result<bool, Failure> {
    let text = "SELECT 1 FROM snapshot WHERE sha256 = ?1 AND dropped IS NOT NULL";
    connection.has(text, [sha256])
}

/// Notes the room of each origin anew, after a rebuild of a damaged store.
pub(super) fn recount(transaction: &Connection) -> Result<(), Failure> {
    transaction.run("DELETE FROM kept", [])?;
    let text = "SELECT origin, max(updated) FROM origin GROUP BY origin";
    transaction.each(text, [], |row| {
        let name: String = row.get(0)?;
        match Origin::parse(&name) {
            Ok((origin, _)) => note(transaction, &origin, moment(row.get(1)?)),
            Err(_) => Ok(()),
        }
    })
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
