//! TLS sessions that clients ended before a request: most such clients do not trust the local CA. No request came, so
//! there is no record; they are counted by host, server name and alert.

use std::fmt;

use parking_lot::Mutex;
use serde::Serialize;

use crawlgate_origins::access::tls_fault::alert_name;

/// Kinds that are counted apart; later ones are counted together.
const KINDS: usize = 100;

/// Kinds in the text.
const SHOWN: usize = 5;

/// The counter.
#[derive(Debug, Default)]
pub(super) struct EndedSessions(Mutex<Vec<EndedSession>>);

/// TLS sessions of one kind that clients ended before a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndedSession {
    /// The origin that the tunnel was for; `None` for all kinds that are too many to be listed.
    pub origin: Option<String>,
    /// The server name that the client asked for (SNI).
    pub server_name: Option<String>,
    /// The alert that the client sent; `None`: it closed the connection without one.
    pub alert: Option<String>,
    /// The number of sessions.
    pub count: u64,
}

impl EndedSessions {
    /// Counts a session.
    pub(super) fn add(&self, origin: &str, server_name: Option<&str>, alert: Option<u8>) {
        let kind = EndedSession {
            origin: Some(origin.to_owned()),
            server_name: server_name.map(str::to_owned),
            alert: alert.map(|id| alert_name(id).map_or_else(|| id.to_string(), str::to_owned)),
            count: 0,
        };
        let mut all = self.0.lock();
        let kind = if all.len() < KINDS {
            kind
        } else {
            EndedSession { origin: None, server_name: None, ..kind }
        };
        let is_of_kind = |one: &&mut EndedSession| {
            let EndedSession { count, .. } = **one;
            EndedSession { count, ..kind.clone() } == **one
        };
        match all.iter_mut().find(is_of_kind) {
            Some(known) => known.count += 1,
            None => all.push(EndedSession { count: 1, ..kind }),
        }
    }

    /// Returns all kinds, most frequent first.
    pub(super) fn all(&self) -> Vec<EndedSession> {
        let mut all = self.0.lock().clone();
        all.sort_by_key(|one| std::cmp::Reverse(one.count));
        all
    }
}

/// Kinds of sessions as one line of a text.
pub(super) struct Line<'a>(pub(super) &'a [EndedSession]);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.0.iter().take(SHOWN).enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            kind.fmt(f)?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for EndedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndedSession { origin, server_name, alert, count } = self;
        f.write_str(origin.as_deref().unwrap_or("further hosts"))?;
        let authority = origin.as_deref().and_then(|origin| origin.split_once("//"));
        let is_of_origin = |name: &str| {
            let rest = authority.and_then(|(_, authority)| authority.strip_prefix(name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        if let Some(name) = server_name.as_deref().filter(|name| !is_of_origin(name)) {
            write!(f, " (as {name})")?;
        }
        match alert {
            Some(alert) => write!(f, " alert {alert} {count}"),
            None => write!(f, " closed {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_by_host_name_and_alert_within_a_bound() {
        let counted = EndedSessions::default();
        for _ in 0..2 {
            counted.add("https://site.example:8443", Some("site.example"), Some(48));
        }
        counted.add("https://site.example", Some("other.example"), None);
        counted.add("https://192.0.2.1:8443", None, Some(200));
        let text = Line(&counted.all()).to_string();
        assert_eq!(
            text,
            "https://site.example:8443 alert unknown_ca 2, https://site.example (as other.example) closed 1, \
             https://192.0.2.1:8443 alert 200 1"
        );
        for number in 0..2 * KINDS {
            counted.add(&format!("https://{number}.example"), None, Some(48));
        }
        let all = counted.all();
        assert_eq!(all.len(), KINDS + 1);
        let sum: u64 = all.iter().map(|one| one.count).sum();
        assert_eq!(sum, 4 + 2 * KINDS as u64);
        assert!(Line(&all).to_string().contains("further hosts alert unknown_ca 103, "));
    }
}
