//! The response fields that speak of use, and the one that X-Robots-Tag is read beside.

use smallvec::SmallVec;

crawlgate_text::spelled! {
    /// The name of a response field that is read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum FieldName {
        /// Content-Usage (IETF aipref).
        ContentUsage = "content-usage",
        /// Content-Signal (Cloudflare).
        ContentSignal = "content-signal",
        /// `tdm-reservation` of TDMRep.
        TdmReservation = "tdm-reservation",
        /// `tdm-policy` of TDMRep. It is text only, and states nothing here.
        TdmPolicy = "tdm-policy",
        /// X-Robots-Tag.
        RobotsTag = "x-robots-tag",
        /// Link (RSL).
        Link = "link",
        /// Content-Type, by which X-Robots-Tag knows images. It does not speak of use.
        ContentType = "content-type",
    }
}

/// One field line: the name, and the octets.
pub type Line<'a> = (FieldName, &'a [u8]);

/// Field lines. Few responses have more than one of each field, so that they take no memory of their own.
pub type Lines<'a> = SmallVec<[Line<'a>; FieldName::ALL.len()]>;

impl FieldName {
    /// Returns the field of this name, in any case. `None` for all fields that are not read.
    #[must_use]
    pub fn of(name: &str) -> Option<FieldName> {
        // No two of them have the same length and last letter, and hardly another field has both.
        let field = match (name.len(), name.as_bytes().last()?.to_ascii_lowercase()) {
            (13, b'e') => FieldName::ContentUsage,
            (14, b'l') => FieldName::ContentSignal,
            (15, b'n') => FieldName::TdmReservation,
            (10, b'y') => FieldName::TdmPolicy,
            (12, b'g') => FieldName::RobotsTag,
            (12, b'e') => FieldName::ContentType,
            (4, b'k') => FieldName::Link,
            _ => return None,
        };
        // Nearly all names are in lower case.
        let known = field.as_str();
        (name == known || name.eq_ignore_ascii_case(known)).then_some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_known_in_any_case() {
        for field in FieldName::ALL {
            let name = field.as_str();
            assert_eq!(FieldName::of(name), Some(field));
            assert_eq!(FieldName::of(&name.to_ascii_uppercase()), Some(field));
            assert_eq!(FieldName::of(&name.replace(['k', 't'], "q")), None);
        }
        assert_eq!(FieldName::of(""), None);
        assert_eq!(FieldName::of("content-size"), None);
    }
}
