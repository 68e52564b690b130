//! Product tokens in a User-Agent field.
//!
//! Crawlers put their name in one of two places: in front (`CCBot/2.0 (https://…)`), or in a comment behind a browser's
//! name (`Mozilla/5.0 (compatible; bingbot/2.0; +http://…) Chrome/… Safari/…`). RFC 9110 section 10.1.5 gives the
//! grammar of the first; the second is custom. Names that every browser repeats identify no crawler and are left out.

use super::token::{ProductToken, is_wide};

/// The most tokens taken from one field. Real fields hold three at most.
const MAX_TOKENS: usize = 8;

/// Names of browsers, engines and platforms, which identify no crawler. In lower case.
const GENERIC: &[&str] = &[
    "android",
    "applewebkit",
    "build",
    "cfnetwork",
    "chrome",
    "chromium",
    "compatible",
    "cpu",
    "crios",
    "darwin",
    "debian",
    "duckduckgo",
    "fban",
    "fbav",
    "fedora",
    "firefox",
    "fxios",
    "gecko",
    "gsa",
    "headlesschrome",
    "intel",
    "ios",
    "ipad",
    "iphone",
    "khtml",
    "konqueror",
    "like",
    "linux",
    "mac",
    "macintosh",
    "maxthon",
    "minefield",
    "mobile",
    "mozilla",
    "msie",
    "netscape",
    "opera",
    "opios",
    "opr",
    "opx",
    "os",
    "presto",
    "qqbrowser",
    "safari",
    "samsungbrowser",
    "seamonkey",
    "trident",
    "tv",
    "u",
    "ubuntu",
    "ucbrowser",
    "ucweb",
    "version",
    "vivaldi",
    "waterfox",
    "webkit",
    "webview",
    "win64",
    "windows",
    "wv",
    "wow64",
    "x11",
    "x64",
    "x86_64",
    "yabrowser",
];

/// Returns the product tokens in a User-Agent field's value, in order, each once in any case; at most eight.
///
/// Outside comments and right after `compatible;` every product name counts; after it and platforms (`compatible; Linux
/// x86_64;`) a name with a version; elsewhere inside a comment a name with a number as its version (`Name/1.0`). A name
/// without a letter (`008/0.85`) needs a version. URLs and e-mail addresses are never names. The octets may be anything.
pub fn product_tokens(user_agent: &[u8]) -> Vec<ProductToken> {
    let mut tokens = Vec::new();
    let mut depth = 0_usize;
    let mut place = WordPlace::Outside;
    let mut rest = user_agent;
    while !rest.is_empty() && tokens.len() < MAX_TOKENS {
        let is_mark =
            |octet: &u8| matches!(octet, b'(' | b')') || depth > 0 && matches!(octet, b';' | b',');
        let end = rest.iter().position(is_mark).unwrap_or(rest.len());
        let (item, after) = rest.split_at_checked(end).unwrap_or_default();
        for word in words(item) {
            if let Some(token) = name(word, place)
                && tokens.len() < MAX_TOKENS
                && !tokens.contains(&token)
            {
                tokens.push(token);
            }
        }
        match after.first() {
            Some(b'(') => depth += 1,
            Some(b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        place = place.behind(item, depth);
        rest = after.get(1..).unwrap_or_default();
    }
    tokens
}

/// The place of a word in the field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPlace {
    Outside,
    Comment,
    /// In the item of a comment behind `compatible`.
    Compatible,
    /// In a later item, with nothing but names of platforms between.
    Platform,
}

impl WordPlace {
    /// Returns the place behind `item`, at the depth of comments there.
    fn behind(self, item: &[u8], depth: usize) -> WordPlace {
        let is_all = |is_one: fn(&[u8]) -> bool| words(item).all(is_one);
        if depth == 0 {
            WordPlace::Outside
        } else if words(item).next().is_none() {
            match self {
                WordPlace::Outside => WordPlace::Comment,
                place => place,
            }
        } else if self != WordPlace::Outside
            && is_all(|word| word.eq_ignore_ascii_case(b"compatible"))
        {
            WordPlace::Compatible
        } else if matches!(self, WordPlace::Compatible | WordPlace::Platform) && is_all(is_generic)
        {
            WordPlace::Platform
        } else {
            WordPlace::Comment
        }
    }
}

fn words(item: &[u8]) -> impl Iterator<Item = &[u8]> {
    item.split(|octet| octet.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// Returns the product token in `word[/version]`.
fn name(word: &[u8], place: WordPlace) -> Option<ProductToken> {
    let slash = word.iter().position(|octet| *octet == b'/');
    let (name, version) = word.split_at_checked(slash.unwrap_or(word.len()))?;
    let version = version.strip_prefix(b"/");
    let is_named = match (place, version) {
        (WordPlace::Outside | WordPlace::Compatible, _) => true,
        (WordPlace::Comment, None) => false,
        (WordPlace::Platform, version) => version.is_some(),
        // In a URL without a scheme, a path follows the slash; versions begin with a number.
        (WordPlace::Comment, Some(version)) => {
            matches!(version, [b'0'..=b'9', ..] | [b'v' | b'V', b'0'..=b'9', ..])
        }
    };
    // Strips separators from a bare name (`Foo;`, `Foo,`).
    let name = name.strip_suffix(b",").or_else(|| name.strip_suffix(b";")).unwrap_or(name);
    let has_letter = name.iter().any(u8::is_ascii_alphabetic);
    let is_name = name.iter().all(|octet| is_wide(*octet))
        && (has_letter || place != WordPlace::Comment && version.is_some());
    if !is_named || !is_name || is_generic(name) || is_host(name) {
        return None;
    }
    ProductToken::new(str::from_utf8(name).ok()?).ok()
}

fn is_generic(name: &[u8]) -> bool {
    // Edge has a name for each platform: Edge, Edg, EdgA, EdgiOS.
    let is_edge = [&b"edg"[..], b"edge", b"edga", b"edgios"]
        .iter()
        .any(|edge| name.eq_ignore_ascii_case(edge));
    is_edge || GENERIC.iter().any(|generic| name.eq_ignore_ascii_case(generic.as_bytes()))
}

/// Tells whether the name is a host name in place of a URL.
fn is_host(name: &[u8]) -> bool {
    name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"www."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(user_agent: &[u8]) -> Vec<String> {
        product_tokens(user_agent).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crawlers_are_found_and_browsers_are_not() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str])] = &[
            ("CCBot/2.0 (https://commoncrawl.org/faq/)", &["CCBot"]),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", &["Googlebot"]),
            ("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/99.0.1.2 Safari/537.36", &["Googlebot"]),
            ("Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", &["Googlebot"]),
            ("Googlebot-Image/1.0", &["Googlebot-Image"]),
            ("AdsBot-Google (+http://www.google.com/adsbot.html)", &["AdsBot-Google"]),
            ("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", &["GPTBot"]),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)", &["Applebot"]),
            ("Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)", &["Slurp"]),
            ("Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", &["MJ12bot"]),
            ("Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)", &["SemrushBot"]),
            ("Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)", &["archive.org_bot"]),
            ("Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)", &["Bytespider"]),
            ("facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", &["facebookexternalhit"]),
            ("Scrapy/2.11.0 (+https://scrapy.org)", &["Scrapy"]),
            ("python-requests/2.31.0", &["python-requests"]),
            ("curl/8.5.0", &["curl"]),
            ("Wget/1.21.4 (linux-gnu)", &["Wget"]),
            ("ExampleBot", &["ExampleBot"]),
            ("ExampleBot-News/1.0 ExampleBot/2.0 examplebot/3", &["ExampleBot-News", "ExampleBot"]),
            ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/120.0.0.0 Safari/537.36", &[]),
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:121.0) Gecko/20100101 Firefox/121.0", &[]),
            ("Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", &[]),
            ("Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)", &[]),
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Edg/120.0.0.0", &[]),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/120.0 Mobile/15E148 Safari/604.1", &[]),
            ("Opera/9.80 (Windows NT 6.1; U; en) Presto/2.8.131 Version/11.11", &[]),
            ("", &[]),
        ];
        for (user_agent, expected) in cases {
            assert_eq!(names(user_agent.as_bytes()), *expected, "{user_agent}");
        }
    }

    #[test]
    fn ours_names_are_told_from_other_words() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], &[&str])] = &[
            ("a URL in a comment", b"A/1 (http://b.example/1.0)", &["A"]),
            ("a URL without a scheme", b"A/1 (b.example/1bot; www.b.example/2)", &["A", "b.example"]),
            ("a URL outside comments", b"A/1 +http://b.example/ http://c.example/", &["A"]),
            ("an e-mail address", b"A/1 (b@c.example) d@e.example", &["A"]),
            ("a version alone", b"A 1.0 2", &["A"]),
            ("a bare name in a comment", b"A/1 (B; C)", &["A"]),
            ("a bare name right after compatible only", b"(compatible; B; C)", &["B"]),
            ("compatible and a comma", b"(compatible, B/1.0)", &["B"]),
            ("any version after compatible", b"(compatible; Linux x86_64; B/1) (compatible; Mail.RU_Bot/Robots/2.0; C/beta)", &["B", "Mail.RU_Bot"]),
            ("a name without a letter", b"(compatible; 008/0.85; x) 008/1 1.0 (007/1)", &["008"]),
            ("nested comments", b"A/1 (x (compatible; B/2) y) C/3", &["A", "B", "C"]),
            ("a bare name after a comment", b"A/1 (x) B", &["A", "B"]),
            ("a comment that does not end", b"A/1 (compatible; B", &["A", "B"]),
            ("a comment that does not begin", b"A/1) B/2", &["A", "B"]),
            ("octets that are not UTF-8", b"A\xFF/1 B/1 \xC3\x28", &["B"]),
            ("once, as first written", b"Bot/1 BOT/2 bot", &["Bot"]),
            ("no more than eight", b"a b c d e f g h i j", &["a", "b", "c", "d", "e", "f", "g", "h"]),
            ("a separator that clings to a name", b"Foo; Bar, Baz", &["Foo", "Bar", "Baz"]),
        ];
        for (name, user_agent, expected) in cases {
            assert_eq!(names(user_agent), *expected, "{name}");
        }
        assert_eq!(names(&[b'a'; 129]), [""; 0], "longer than a token may be");
    }
}
