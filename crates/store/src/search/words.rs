//! The texts in the words of a block, as a search compares them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::ShapeFacts;
use crawlgate_block::Word;
use crawlgate_record::cbor::Reader;
use crawlgate_record::{Mode, Texts, Verdict, has_failed, key};

/// Returns foreign octets as the text of a line: an octet that is not UTF-8 is the four characters `\xNN`.
pub(crate) fn shown(octets: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(octets) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(octets.len() + 16);
    for chunk in octets.utf8_chunks() {
        text.push_str(chunk.valid());
        for octet in chunk.invalid() {
            let _ = write!(text, "\\x{octet:02X}"); // writing to a String does not fail
        }
    }
    Cow::Owned(text)
}

/// Returns the path of a URL with its query; `/` for a URL without a path.
pub(super) fn path_of(url: &[u8]) -> &[u8] {
    let scheme = url.windows(3).position(|three| three == b"://");
    let rest = url.get(scheme.map_or(0, |at| at + 3)..).unwrap_or_default();
    let start = rest.iter().position(|octet| matches!(octet, b'/' | b'?'));
    start.and_then(|start| rest.get(start..)).unwrap_or(b"/")
}

/// Returns the facts of a shape; `None` for one that no decision has.
pub(crate) fn shape_facts<'b>(shape: &Word<'b>) -> Option<ShapeFacts<'b>> {
    let number = |key| match shape.value(key) {
        Some(item) => Reader::new(item).uint().ok(),
        None => Some(0),
    };
    let value = |key| shape.value(key).map(Reader::new);
    let error = value(key::ERROR).and_then(|mut item| item.text().ok());
    let status = value(key::STATUS).and_then(|mut item| item.small().ok());
    Some(ShapeFacts {
        mode: Mode::from_number(number(key::MODE)?)?,
        verdict: Verdict::from_number(number(key::VERDICT)?)?,
        reason: Reader::new(shape.value(key::REASON)?).text().ok()?,
        error,
        ends_in_failure: has_failed(error, status),
    })
}

/// Returns the text of an origin's word.
pub(crate) fn origin<'b>(word: &Word<'b>) -> Option<&'b str> {
    Reader::new(word.octets).text().ok()
}

/// Returns the address and the name of a client's word.
pub(crate) fn client<'b>(word: &Word<'b>) -> (Option<IpAddr>, Option<&'b str>) {
    let mut reader = Reader::new(word.octets);
    let octets = reader.bytes().unwrap_or_default();
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from));
    (address.ok(), reader.text().ok())
}

/// Returns the product tokens of a requester's word.
pub(crate) fn chain<'b>(word: &Word<'b>) -> Texts<'b> {
    let mut reader = Reader::new(word.octets);
    if reader.is_array() { Texts::read(&mut reader).unwrap_or_default() } else { Texts::default() }
}

/// Returns the User-Agent of a requester's word.
pub(crate) fn user_agent<'b>(word: &Word<'b>) -> Option<&'b [u8]> {
    let mut reader = Reader::new(word.octets);
    if reader.is_array() {
        reader.item().ok()?;
    }
    reader.bytes().ok()
}

/// Returns the text of a rule's word.
pub(crate) fn rule<'b>(word: &Word<'b>) -> Option<&'b [u8]> {
    let mut reader = Reader::new(word.octets);
    reader.array().ok().filter(|count| *count == 3)?;
    reader.item().ok()?;
    reader.bytes().ok()
}
