//! Families of crawlers: names that speak for more specific ones.
//!
//! An author who disallows `Googlebot` means `Googlebot-Image` as well, and the operators of these crawlers say that they
//! read it so. Each row follows what the operator publishes:
//!
//! - Google, "Google's common crawlers": each lists the tokens it obeys, the more specific first. Of the AdsBots, which
//!   ignore `*`, the mobile one is a kind of `AdsBot-Google`.
//! - Yandex, "The User-agent directive": `Yandex` is for all of its robots, but for those that are named.
//! - Baidu, "Baiduspider": the spiders of its products obey `Baiduspider` where they are not named.
//! - Apple, "About Applebot": `Applebot-Extended` is a further token of Applebot's pages.

/// The family of each crawler that has one.
const FAMILIES: &[(&str, &str)] = &[
    ("AdsBot-Google-Mobile", "AdsBot-Google"),
    ("AdsBot-Google-Mobile-Apps", "AdsBot-Google"),
    ("Applebot-Extended", "Applebot"),
    ("Baiduspider-ads", "Baiduspider"),
    ("Baiduspider-cpro", "Baiduspider"),
    ("Baiduspider-favo", "Baiduspider"),
    ("Baiduspider-image", "Baiduspider"),
    ("Baiduspider-mobile", "Baiduspider"),
    ("Baiduspider-news", "Baiduspider"),
    ("Baiduspider-video", "Baiduspider"),
    ("Google-CloudVertexBot", "Googlebot"),
    ("Google-InspectionTool", "Googlebot"),
    ("GoogleOther-Image", "GoogleOther"),
    ("GoogleOther-Video", "GoogleOther"),
    ("Googlebot-Image", "Googlebot"),
    ("Googlebot-Mobile", "Googlebot"),
    ("Googlebot-News", "Googlebot"),
    ("Googlebot-Video", "Googlebot"),
    ("YandexBlogs", "Yandex"),
    ("YandexBot", "Yandex"),
    ("YandexImages", "Yandex"),
    ("YandexMarket", "Yandex"),
    ("YandexMedia", "Yandex"),
    ("YandexMobileBot", "Yandex"),
    ("YandexNews", "Yandex"),
    ("YandexVideo", "Yandex"),
];

/// Returns the family of the crawler with this product token, whatever its case; none where it is no more than itself.
pub fn family(token: &str) -> Option<&'static str> {
    let mut families = FAMILIES.iter();
    let (_, family) = families.find(|(name, _)| name.eq_ignore_ascii_case(token))?;
    Some(family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rep::ProductToken;

    #[test]
    fn every_row_is_of_tokens_and_no_family_has_one() {
        for (name, of) in FAMILIES {
            assert!(ProductToken::new(name).is_ok() && ProductToken::new(of).is_ok());
            assert_eq!(family(&name.to_ascii_uppercase()), Some(*of), "{name}");
            assert_eq!(family(of), None, "{of}");
        }
        for other in [
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
