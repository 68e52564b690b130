//! Families of crawlers: names that also stand for more specific ones.
//!
//! An author who disallows `Googlebot` means `Googlebot-Image` as well, and the operators of these crawlers say that they
//! read it so. Each row follows what the operator publishes:
//!
//! - Google, "Google's common crawlers": each lists the tokens it obeys, the more specific first. Of the AdsBots, which
//!   ignore `*`, the mobile one is a kind of `AdsBot-Google`.
//! - Yandex, "The User-agent directive": `Yandex` is for all of its robots except those that a group names. Their names
//!   begin with it.
//! - Baidu, "Baiduspider": the spiders of its products (`Baiduspider-image`, `Baiduspider-render`, …) obey `Baiduspider` if
//!   no group names them.
//! - Apple, "About Applebot": `Applebot-Extended` is a further token of Applebot's pages.

/// Pairs of a crawler's token and the token of its family.
const FAMILIES: &[(&str, &str)] = &[
    ("AdsBot-Google-Mobile", "AdsBot-Google"),
    ("AdsBot-Google-Mobile-Apps", "AdsBot-Google"),
    ("Applebot-Extended", "Applebot"),
    ("Google-CloudVertexBot", "Googlebot"),
    ("Google-InspectionTool", "Googlebot"),
    ("GoogleOther-Image", "GoogleOther"),
    ("GoogleOther-Video", "GoogleOther"),
    ("Googlebot-Image", "Googlebot"),
    ("Googlebot-Mobile", "Googlebot"),
    ("Googlebot-News", "Googlebot"),
    ("Googlebot-Video", "Googlebot"),
];

/// Pairs of a prefix and a family. A crawler belongs to the family if its token begins with the prefix. The operators of
/// these crawlers say so.
const PREFIXES: &[(&str, &str)] = &[("Baiduspider-", "Baiduspider"), ("Yandex", "Yandex")];

/// Returns the family of the crawler with this product token, in any case; `None` if the crawler belongs to no family.
pub fn family(token: &str) -> Option<&'static str> {
    let is_named = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(token);
    let has_prefix = |(prefix, _): &&(&str, &str)| {
        let start = token.get(..prefix.len());
        token.len() > prefix.len() && start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let found = FAMILIES.iter().find(is_named);
    let (_, family) = found.or_else(|| PREFIXES.iter().find(has_prefix))?;
    Some(family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProductToken;

    #[test]
    fn rows_hold_valid_tokens_and_a_family_has_no_family() {
        for (name, of) in FAMILIES {
            assert!(ProductToken::new(name).is_ok() && ProductToken::new(of).is_ok());
            assert_eq!(family(&name.to_ascii_uppercase()), Some(*of), "{name}");
            assert_eq!(family(of), None, "{of}");
        }
        let spiders = [
            ("Baiduspider-image", "Baiduspider"),
            ("baiduspider-Render", "Baiduspider"),
            ("YandexBot", "Yandex"),
            ("YANDEXFavicons", "Yandex"),
        ];
        for (name, of) in spiders {
            assert_eq!(family(name), Some(of), "{name}");
        }
        for other in [
            "Baiduspider",
            "Baiduspider-",
            "BaiduspiderImage",
            "Yandex",
            "yandé",
            "NotYandexBot",
            "Googlebot",
            "Googlebot-Images",
            "GooglebotImage",
            "Storebot-Google",
            "GPTBot",
            "",
        ] {
            assert_eq!(family(other), None, "{other}");
        }
    }
}
