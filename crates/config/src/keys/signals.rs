//! `[signals]`: what sites say of the use of their content. `purposes` of `[policy]` and `[[client]]`.

use super::super::{
    read::{Read, Section, Value},
    values::{boolean, choice, list, one_or_list, text},
};
use super::{PURPOSES, SIGNAL_MODES};
use crawlgate_usage::{Modes, Purpose, Purposes};

pub(super) fn signals(mut section: Section<'_, '_>, to: &mut Modes) {
    for (key, mode) in [
        ("content_usage", &mut to.content_usage),
        ("content_signal", &mut to.content_signal),
        ("tdm_reservation", &mut to.tdm_reservation),
        ("tdmrep", &mut to.tdmrep),
        ("robots_tag", &mut to.robots_tag),
        ("license", &mut to.license),
    ] {
        section.set(key, mode, choice(&SIGNAL_MODES));
    }
    section.set("licenses", &mut to.licenses, list(text(license)));
    section.set("withhold", &mut to.withhold, boolean);
    section.set("stamp", &mut to.stamp, boolean);
    section.finish();
}

/// Reads the purposes of `key`, one or several.
pub(super) fn purposes(value: &Value<'_>) -> Read<Purposes> {
    let all: Vec<Purpose> = one_or_list(choice(&PURPOSES))(value)?;
    Ok(all.into_iter().collect())
}

/// Reads a licence as sites name it: an absolute URL, compared octet for octet.
fn license(text: &str) -> Result<Box<str>, &'static str> {
    const EXPECTED: &str =
        "expected the URL of a licence as sites write it: \"https://site.example/license.xml\"";
    let url = url::Url::parse(text).map_err(|_| EXPECTED)?;
    match matches!(url.scheme(), "http" | "https") && url.has_host() {
        true => Ok(text.into()),
        false => Err(EXPECTED),
    }
}
