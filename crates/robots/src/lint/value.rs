//! Values with something in them that their author did not mean to write there.

use super::super::field::Field;
use super::super::line::is_space;

/// Tags that editors and converters leave in a text.
const TAGS: [&str; 8] = ["br", "p", "div", "span", "li", "pre", "code", "b"];

/// Octets within which a tag ends, or the name of a field: a line that makes others look far is no such line.
const NEAR: usize = 64;

/// Returns an invisible character at an end of a text.
pub(super) fn invisible_end(text: &[u8]) -> Option<char> {
    let text = std::str::from_utf8(text).ok()?;
    let ends = [text.chars().next(), text.chars().next_back()];
    ends.into_iter().flatten().find(|end| is_invisible(*end))
}

/// Tells whether nothing shows a character. ASCII white space does not count at the end of a line, so it does not count
/// here.
fn is_invisible(character: char) -> bool {
    !character.is_ascii_whitespace()
        && (character.is_whitespace()
            || character.is_control()
            || matches!(
                character,
                '\u{ad}'
                    | '\u{34f}'
                    | '\u{61c}'
                    | '\u{180e}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{202a}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{fe00}'..='\u{fe0f}'
                    | '\u{feff}'
            ))
}

/// Tells whether a value has a tag of HTML in it.
pub(super) fn has_tag(value: &[u8]) -> bool {
    let is_tag = |at: usize| {
        let rest = value.get(at + 1..).unwrap_or_default();
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let end = rest.iter().position(|octet| !octet.is_ascii_alphanumeric());
        let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let is_known = |tag: &&str| name.eq_ignore_ascii_case(tag.as_bytes());
        let behind = behind.get(..NEAR).unwrap_or(behind);
        TAGS.iter().any(is_known) && behind.contains(&b'>')
    };
    memchr::memchr_iter(b'<', value).any(is_tag)
}

/// Returns the field that stands with its colon in a value, behind white space.
pub(super) fn second_field(value: &[u8]) -> Option<Field> {
    let is_start =
        |pair: &[u8]| matches!(pair, [before, at] if is_space(*before) && !is_space(*at));
    let starts = value.windows(2).enumerate();
    let mut starts = starts.filter(|(_, pair)| is_start(pair)).map(|(at, _)| at + 1);
    starts.find_map(|start| {
        let rest = value.get(start..)?;
        let colon = memchr::memchr(b':', rest.get(..NEAR).unwrap_or(rest))?;
        let name = rest.get(..colon)?.trim_ascii_end();
        Field::named(name, false)
    })
}

/// Tells whether the value of a Sitemap has several URLs, or a space in one.
pub(super) fn is_list(value: &[u8]) -> bool {
    let begins_another = |at: usize| {
        let rest = value.get(at + 1..).unwrap_or_default();
        let scheme = rest.get(..4).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"http")
    };
    value.iter().any(|octet| is_space(*octet))
        || memchr::memchr3_iter(b',', b';', b'|', value).any(begins_another)
}
