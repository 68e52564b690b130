//! The overrides of a fleet, as they lie in the engine.
//!
//! Each lies under its identifier, sealed by the fleet's key for that place, so that the engine can neither make one nor
//! pass one off as another. A removal says all that the override said: an instance that never saw the override keeps
//! both. Octets that do not open are as good as absent. Sealed octets that this version cannot read are not: a newer version
//! may have denied something by them. All versions write the end (`until`) alike, so one that has passed is known; and a removal that
//! opens is one, because its place names the override.

use serde::{Deserialize, Serialize};

use super::FleetKey;
use crawlgate_policy::overrides::{Action, Override, OverrideId, words};
use crawlgate_robots::{Origin, PathPattern};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// The removal of an override by a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The time of the removal.
    pub time: Moment,
    /// The person.
    pub by: String,
}

/// The text under the seal. Times are milliseconds since the epoch. `until` keeps its name and meaning in all versions.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    origin: String,
    pattern: String,
    action: String,
    until: Option<u64>,
    by: String,
    reason: String,
    created: u64,
    instance: String,
    removed: Option<u64>,
    removed_by: Option<String>,
}

/// The part of the text that other versions read.
#[derive(Deserialize)]
struct End {
    until: Option<u64>,
}

/// Returns the sealed form of an override, or of its removal, under its identifier; `None` if no fleet shares it.
#[must_use]
pub fn seal(
    key: &FleetKey,
    one: &Override,
    removal: Option<&Removal>,
) -> Option<(String, Vec<u8>)> {
    let OverrideId::Shared(id) = one.id else {
        return None;
    };
    let text = Text {
        origin: one.origin.as_str().to_owned(),
        pattern: one.pattern.clone(),
        action: one.action.as_str().to_owned(),
        until: one.until.map(Moment::as_millis),
        by: one.by.clone(),
        reason: one.reason.clone(),
        created: one.created.as_millis(),
        instance: one.instance.clone().unwrap_or_default(),
        removed: removal.map(|removal| removal.time.as_millis()),
        removed_by: removal.map(|removal| removal.by.clone()),
    };
    let content = serde_json::to_vec(&text).ok()?;
    let id = id.to_string();
    let sealed = key.seal(&place(&id, removal.is_some()), &content);
    Some((id, sealed))
}

/// The reason why octets are no override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened {
    /// The fleet's key did not make them for this place.
    NotSealed,
    /// The fleet's key did, and this version cannot read them.
    Unread {
        /// The end of the override; none if it has none, or that cannot be read, either.
        until: Option<Moment>,
    },
}

/// Opens an override that lies under `id`.
///
/// # Errors
/// When the fleet's key did not make it for this place, or this version cannot read it.
pub fn open_added(key: &FleetKey, id: &str, sealed: &[u8]) -> Result<Override, NotOpened> {
    open(key, id, sealed, false).map(|(one, _)| one)
}

/// Opens the removal of an override that lies under `id`.
///
/// # Errors
/// When the fleet's key did not make it for this place, or this version cannot read it.
pub fn open_removed(
    key: &FleetKey,
    id: &str,
    sealed: &[u8],
) -> Result<(Override, Removal), NotOpened> {
    let (one, removal) = open(key, id, sealed, true)?;
    let until = one.until;
    Ok((one, removal.ok_or(NotOpened::Unread { until })?))
}

fn open(
    key: &FleetKey,
    id: &str,
    sealed: &[u8],
    is_removed: bool,
) -> Result<(Override, Option<Removal>), NotOpened> {
    let content = key.open(&place(id, is_removed), sealed);
    let content = content.ok_or(NotOpened::NotSealed)?;
    read(id, content).ok_or_else(|| {
        let end: Option<End> = serde_json::from_slice(content).ok();
        let until = end.and_then(|end| end.until).map(Moment::from_millis);
        NotOpened::Unread { until }
    })
}

fn read(id: &str, content: &[u8]) -> Option<(Override, Option<Removal>)> {
    let text: Text = serde_json::from_slice(content).ok()?;
    PathPattern::new(&text.pattern).ok()?;
    let one = Override {
        id: OverrideId::Shared(DecisionId::from_text(id)?),
        origin: Origin::parse(&text.origin).ok()?.0,
        pattern: text.pattern,
        action: Action::from_name(&text.action)?,
        until: text.until.map(Moment::from_millis),
        by: words(&text.by).ok()?,
        reason: words(&text.reason).ok()?,
        created: Moment::from_millis(text.created),
        instance: Some(text.instance),
    };
    let removal = match (text.removed, text.removed_by) {
        (Some(time), Some(by)) => {
            Some(Removal { time: Moment::from_millis(time), by: words(&by).ok()? })
        }
        _ => None,
    };
    Some((one, removal))
}

/// Returns the place of an override: an addition does not open as a removal.
fn place(id: &str, is_removed: bool) -> [&[u8]; 2] {
    if is_removed { [b"override removed", id.as_bytes()] } else { [b"override", id.as_bytes()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);
    const ID: u128 = 0x0156_3e3a_b5d3_d676_4c61_efb9_9302_bd5b;

    fn one() -> Override {
        Override {
            id: OverrideId::Shared(DecisionId::from_octets(ID.to_be_bytes())),
            origin: Origin::parse("https://site.example").unwrap().0,
            pattern: "/p*.html$".to_owned(),
            action: Action::Deny,
            until: Some(NOON),
            by: "Ada Łukasz".to_owned(),
            reason: "a \"letter\"".to_owned(),
            created: NOON,
            instance: Some("a1".to_owned()),
        }
    }

    #[test]
    fn an_override_is_read_as_it_was_sealed_and_only_at_its_place() {
        let key = FleetKey::of(&[7; 32]);
        let removal = Removal { time: NOON, by: "Grace".to_owned() };
        let allow = Override { action: Action::Allow, until: None, ..one() };
        for one in [one(), allow] {
            let (id, added) = seal(&key, &one, None).unwrap();
            let (same, removed) = seal(&key, &one, Some(&removal)).unwrap();
            assert_eq!(id, same);
            assert_eq!(open_added(&key, &id, &added), Ok(one.clone()));
            let opened = open_removed(&key, &id, &removed);
            assert_eq!(opened, Ok((one.clone(), removal.clone())));
            assert_eq!(seal(&key, &one, None).unwrap().1, added, "the same octets again");
            // An addition is no removal, nor the other way round.
            let none = Err(NotOpened::NotSealed);
            assert_eq!(open_removed(&key, &id, &added).map(drop), none);
            assert_eq!(open_added(&key, &id, &removed).map(drop), none);
            let other = id.replace('0', "1");
            assert_eq!(open_added(&key, &other, &added).map(drop), none, "another id");
            let stranger = FleetKey::of(&[8; 32]);
            let opened = open_added(&stranger, &id, &added).map(drop);
            assert_eq!(opened, none, "another key");
        }
        let numbered = Override { id: OverrideId::Stored(1), ..one() };
        assert_eq!(seal(&key, &numbered, None), None);
    }

    #[test]
    fn a_sealed_text_of_another_form_is_told_from_a_planted_one() {
        let key = FleetKey::of(&[7; 32]);
        let (id, sealed) = seal(&key, &one(), None).unwrap();
        let text = key.open(&place(&id, false), &sealed).unwrap();
        let text = std::str::from_utf8(text).unwrap();
        let reads = |text: &str| {
            let sealed = key.seal(&place(&id, false), text.as_bytes());
            open_added(&key, &id, &sealed).map(drop)
        };
        assert_eq!(reads(text), Ok(()));
        for (from, to, until) in [
            ("deny", "destroy", Some(NOON)),
            ("\"/p", "\"p", Some(NOON)),
            ("https://", "nonsense", Some(NOON)),
            ("Ada", "Ada\\n", Some(NOON)),
            ("{", "{\"more\":1,", Some(NOON)),
            ("\"until\":1795176000000", "\"until\":\"noon\"", None),
            ("\"until\":1795176000000", "\"ends\":1795176000000", None),
            ("}", "", None),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text);
            assert_eq!(reads(&other), Err(NotOpened::Unread { until }), "{other}");
        }
    }
}
