//! `[robots]`, `[robots.cache]` and `[signals]`: what sites say, and how it is fetched, kept and read.

use std::sync::Arc;
use std::time::Duration;

use crawlgate_origins::identity::{LONGEST_OWN, OWN, user_agent};
use crawlgate_origins::timing::{Finally, ProfileName, ProfileRules, Timing};
use crawlgate_usage::{Modes, Purpose, Purposes, SignalMode};

use super::*;

section! {
    /// `[robots]`
    #[derive(Clone, Debug, PartialEq)]
    pub struct RobotsConfig "robots" {
        /// The times of freshness and of retries.
        timing: Timing = Timing::default(), Part::Flat, AtReload;
        /// Octets of a file that are read; at least 512,000 (RFC 9309, section 2.5: 500 kibibytes).
        size_limit: usize = 500 * KIB, bytes(500 * KIB as u64..=64 * MIB as u64), AtReload;
        /// Redirects followed for one file (RFC 9309, section 2.3.1.2: at least five).
        max_redirects: u32 = 5, integer(5..=20), AtReload;
        /// Longest time to a connection, TLS included, when fetching a file.
        connect_timeout: Duration = secs(10), timeout(), AtReload;
        /// Longest time from the request to the first octet of the response.
        first_byte_timeout: Duration = secs(20), timeout(), AtReload;
        /// Longest time for a whole fetch, redirects included.
        fetch_timeout: Duration = secs(30), timeout(), AtReload;
        /// Fetches in progress, over all origins; at least 1.
        max_fetches: usize = 256, integer(1..=100_000), AtRestart;
        /// Fetches begun per second, over all origins, above 0; `None`: unlimited.
        fetches_per_second: Option<f64> = None, unlimited(number(0.01..=1_000_000.0)), AtRestart;
        /// Time that a crawler's request waits for the file before it is deferred as `robots_pending`.
        hold: Duration = secs(25), timeout(), AtReload;
        /// True to read frequent misspellings and lines that lack their colon.
        lenient: bool = true, boolean(), AtReload;
        /// True to judge each path in all forms that servers may read from it.
        path_guard: bool = true, boolean(), AtReload;
        /// True to treat a 5xx as a missing file if the site answers all missing pages so.
        soft_404: bool = true, boolean(), AtReload;
        /// The phrases in the error page of such a site.
        soft_404_phrases: Vec<String> = SOFT_404_PHRASES.map(str::to_owned).to_vec(), list(text(phrase)), AtReload;
        /// 4xx statuses that mean complete disallow instead of no restrictions; never 429, which is always unreachable.
        deny_statuses: Vec<u16> = Vec::new(), list(Form::new(deny_status, u16::to_string)), AtReload;
        /// Status of the answer while a file is unreachable; `None`: by the [cause](crawlgate_origins::access::Cause::answer).
        unreachable_status: Option<u16> = None, unless("by_cause", unreachable()), AtReload;
        /// crawlgate's own User-Agent: at most 127 octets of visible ASCII.
        user_agent: Box<str> = OWN.into(), text(|text| user_agent(text, LONGEST_OWN)), AtReload;
        /// `[robots.cache]`
        cache: CacheConfig = CacheConfig::builtin(), Part::Nested, AtRestart;
        /// `[signals]`: what sites say of the use of their content. It stands here because verdicts follow from it as they
        /// follow from the other settings of this struct.
        signals: Arc<Modes> = Arc::default(), Part::Apart, AtReload;
    }
}

section! {
    /// `[robots.cache]`: the states of origins in memory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheConfig "robots.cache" {
        /// Origins kept.
        origins: usize = 100_000, integer(1..=100_000_000), AtRestart;
        /// Octets kept, approximately.
        bytes: usize = 256 * MIB, bytes(MIB as u64..=1 << 40), AtRestart;
    }
}

section! {
    for Timing "robots" {
        profile: ProfileRules, Part::Flat, AtReload;
        fresh: Duration, duration(ONE_MS..=days(365)), AtReload;
        fresh_min: Duration, span(), AtReload;
        fresh_max: Duration, duration(ONE_MS..=days(365)), AtReload;
        refresh_ahead: f64, number(0.01..=1.0), AtReload;
        retry_min: Duration, timeout(), AtReload;
        retry_max: Duration, timeout(), AtReload;
        retry_max_503: Duration, timeout(), AtReload;
        jitter: f64, number(0.0..=1.0), AtReload;
    }
}

section! {
    for ProfileRules "robots" {
        name as "profile": ProfileName, word(), AtReload;
        disallow_for: Duration, span(), AtReload;
        last_good_until: Option<Duration>, forever(span()), AtReload;
        finally: Finally, word(), AtReload;
    }
}

section! {
    for Modes "signals" {
        content_usage: SignalMode, word(), AtReload;
        content_signal: SignalMode, word(), AtReload;
        tdm_reservation: SignalMode, word(), AtReload;
        tdmrep: SignalMode, word(), AtReload;
        robots_tag: SignalMode, word(), AtReload;
        license: SignalMode, word(), AtReload;
        licenses: Vec<Box<str>>, list(text(license)), AtReload;
        withhold: bool, boolean(), AtReload;
        stamp: bool, boolean(), AtReload;
    }
}

words! { for ProfileName { Standard = "standard", Google = "google", Archive = "archive", } }
words! { for Finally { Allow = "allow", Reachable = "reachable", } }
words! { for SignalMode { Off = "off", Record = "record", Enforce = "enforce", } }
words! { for Purpose { Search = "search", TrainAi = "train-ai", AiInput = "ai-input", Tdm = "tdm", Other = "other", } }

/// Phrases in error pages for missing pages, in the languages of most sites. "File not found" is not among them: a
/// broken script reports its own files so.
const SOFT_404_PHRASES: [&str; 23] = [
    "page not found",
    "page could not be found",
    "404 not found",
    "seite nicht gefunden",
    "seite wurde nicht gefunden",
    "page non trouvée",
    "page introuvable",
    "página no encontrada",
    "página não encontrada",
    "pagina non trovata",
    "pagina niet gevonden",
    "strona nie została znaleziona",
    "sidan hittades inte",
    "stránka nenalezena",
    "sayfa bulunamadı",
    "страница не найдена",
    "сторінку не знайдено",
    "الصفحة غير موجودة",
    "ページが見つかりません",
    "页面不存在",
    "找不到页面",
    "找不到網頁",
    "페이지를 찾을 수 없습니다",
];

impl RobotsConfig {
    /// Returns these settings with the published rules of a profile.
    #[must_use]
    pub fn under(&self, name: ProfileName) -> Self {
        let mut config = self.clone();
        config.timing.profile = ProfileRules::of(name);
        config
    }

    /// Sets the rules of the profile that the section names. The keys of the section change them one by one.
    pub(crate) fn begin(&mut self, section: &Section<'_, '_>) {
        let named = section.text("profile").and_then(ProfileName::of_word);
        if let Some(name) = named {
            self.timing.profile = ProfileRules::of(name);
        }
    }

    /// Checks the rules between its keys.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>) {
        let of = &self.timing;
        let order = [
            ("fresh_min", of.fresh_min, "fresh", of.fresh),
            ("fresh", of.fresh, "fresh_max", of.fresh_max),
            ("retry_min", of.retry_min, "retry_max", of.retry_max),
            ("retry_min", of.retry_min, "retry_max_503", of.retry_max_503),
        ];
        for (less, lower, more, upper) in order {
            let (from, to) = (format_duration(lower), format_duration(upper));
            let why = format_args!("{less} ({from}) must not exceed {more} ({to}): set both");
            section.require(lower <= upper, &[less, more], why);
        }
        let disallow_for = of.profile.disallow_for;
        let until = of.profile.last_good_until.unwrap_or(Duration::MAX);
        let why = format_args!(
            "disallow_for ({}) must not exceed last_good_until ({}): both count from the first failure",
            format_duration(disallow_for),
            format_duration(until),
        );
        let keys = &["disallow_for", "last_good_until", "profile"];
        section.require(disallow_for <= until, keys, why);
    }
}

/// A freshness, or a span in a profile.
fn span() -> Form<Duration> {
    duration(Duration::ZERO..=days(3_650))
}

/// Reads a phrase of an error page. A phrase that is too short would be part of any page.
fn phrase(text: &str) -> Result<String, &'static str> {
    let phrase = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match phrase.chars().count() {
        4..=200 => Ok(phrase),
        _ => Err("expected a phrase of 4 to 200 characters"),
    }
}

fn deny_status(value: &Value<'_>, cx: &Context) -> Read<u16> {
    let why = "expected a status from 400 to 499";
    match integer(400..=499).parse(value, cx) {
        Ok(429) => Err(Refusal::new(value, "429 always means unreachable")),
        read => read.map_err(|_| Refusal::new(value, why)),
    }
}

fn unreachable() -> Form<u16> {
    let read = |value: &Value<'_>| match whole(value)? {
        status @ (403 | 502..=504) => u16::try_from(status).ok(),
        _ => None,
    };
    checked(read, "not one of 403, 502, 503, 504", u16::to_string)
}

/// Reads a licence as sites name it: an absolute URL, compared octet for octet.
fn license(text: &str) -> Result<Box<str>, &'static str> {
    const EXPECTED: &str =
        "expected the URL of a licence as sites write it: \"https://site.example/license.xml\"";
    let url = url::Url::parse(text).map_err(|_| EXPECTED)?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(text.into())
    } else {
        Err(EXPECTED)
    }
}

/// The purposes for which clients fetch, one or several.
pub(super) fn purposes() -> Form<Purposes> {
    let all = one_or_list(word::<Purpose>);
    let written = list(word::<Purpose>());
    Form::new(
        move |value, cx| Ok(all.parse(value, cx)?.into_iter().collect()),
        move |purposes: &Purposes| written.write(&purposes.iter().collect()),
    )
}
