//! `[robots]` and `[robots.cache]`.

use std::time::Duration;

use toml::de::DeTable;

use super::super::{
    CacheConfig, MIB, ProfileRules, RobotsConfig, Timing, days, format_duration,
    read::{Read, Refusal, Section, Value},
    values::{boolean, bytes, choice, duration, integer, list, number, text, unless},
};
use super::{
    BY_CAUSE, FINALLY, FOREVER, LEAST_REDIRECTS, LEAST_SIZE_LIMIT, MEMORY, ONE_MS, PROFILES, SPAN,
    TIMEOUT, UNLIMITED,
};
use crawlgate_origins::identity::{LONGEST_OWN, user_agent};

pub(super) fn robots<'t>(
    mut section: Section<'_, 't>,
    to: &mut RobotsConfig,
) -> Option<&'t DeTable<'t>> {
    let size = LEAST_SIZE_LIMIT..=64 * MIB as u64;
    section.set("size_limit", &mut to.size_limit, bytes(size));
    let redirects = LEAST_REDIRECTS..=20;
    section.set("max_redirects", &mut to.max_redirects, integer(redirects));
    section.set(
        "connect_timeout",
        &mut to.connect_timeout,
        duration(TIMEOUT),
    );
    section.set(
        "first_byte_timeout",
        &mut to.first_byte_timeout,
        duration(TIMEOUT),
    );
    section.set("fetch_timeout", &mut to.fetch_timeout, duration(TIMEOUT));
    section.set("max_fetches", &mut to.max_fetches, integer(1..=100_000));
    section.set(
        "fetches_per_second",
        &mut to.fetches_per_second,
        unless(UNLIMITED, number(0.01..=1_000_000.0)),
    );
    section.set("hold", &mut to.hold, duration(TIMEOUT));
    section.set("lenient", &mut to.lenient, boolean);
    section.set("path_guard", &mut to.path_guard, boolean);
    section.set("soft_404", &mut to.soft_404, boolean);
    section.set(
        "soft_404_phrases",
        &mut to.soft_404_phrases,
        list(text(phrase)),
    );
    section.set("deny_statuses", &mut to.deny_statuses, list(deny_status));
    section.set(
        "unreachable_status",
        &mut to.unreachable_status,
        unless(BY_CAUSE, unreachable_status),
    );
    section.set(
        "user_agent",
        &mut to.user_agent,
        text(|text| user_agent(text, LONGEST_OWN)),
    );
    timing(&mut section, &mut to.timing);
    profile(&mut section, &mut to.timing.profile);
    let cache = section.subsection("cache");
    section.finish();
    cache
}

/// Reads a phrase of an error page. A phrase that is too short would be part of any page.
fn phrase(text: &str) -> Result<String, &'static str> {
    let phrase = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match phrase.chars().count() {
        4..=200 => Ok(phrase),
        _ => Err("expected a phrase of 4 to 200 characters"),
    }
}

fn deny_status(value: &Value<'_>) -> Read<u16> {
    match integer(400..=499)(value) {
        Ok(429) => Err(Refusal::new(value, "429 always means unreachable")),
        Ok(status) => Ok(status),
        Err(_) => Err(Refusal::new(value, "expected a status from 400 to 499")),
    }
}

fn unreachable_status(value: &Value<'_>) -> Read<u16> {
    match integer(0..=999)(value) {
        Ok(status @ (403 | 502..=504)) => Ok(status),
        _ => Err(Refusal::new(value, "not one of 403, 502, 503, 504")),
    }
}

fn timing(section: &mut Section<'_, '_>, to: &mut Timing) {
    section.set("fresh", &mut to.fresh, duration(ONE_MS..=days(365)));
    section.set("fresh_min", &mut to.fresh_min, duration(SPAN));
    section.set("fresh_max", &mut to.fresh_max, duration(ONE_MS..=days(365)));
    section.set("refresh_ahead", &mut to.refresh_ahead, number(0.01..=1.0));
    section.set("retry_min", &mut to.retry_min, duration(TIMEOUT));
    section.set("retry_max", &mut to.retry_max, duration(TIMEOUT));
    section.set("retry_max_503", &mut to.retry_max_503, duration(TIMEOUT));
    section.set("jitter", &mut to.jitter, number(0.0..=1.0));
    let order = [
        ("fresh_min", to.fresh_min, "fresh", to.fresh),
        ("fresh", to.fresh, "fresh_max", to.fresh_max),
        ("retry_min", to.retry_min, "retry_max", to.retry_max),
        ("retry_min", to.retry_min, "retry_max_503", to.retry_max_503),
    ];
    for (less, lower, more, upper) in order {
        section.require(lower <= upper, &[less, more], || {
            let (lower, upper) = (format_duration(lower), format_duration(upper));
            format!("{less} ({lower}) must not exceed {more} ({upper}): set both")
        });
    }
}

fn profile(section: &mut Section<'_, '_>, to: &mut ProfileRules) {
    // The profile comes first: the keys below change its values one by one.
    let mut name = to.name;
    section.set("profile", &mut name, choice(&PROFILES));
    *to = ProfileRules::of(name);
    section.set("disallow_for", &mut to.disallow_for, duration(SPAN));
    section.set(
        "last_good_until",
        &mut to.last_good_until,
        unless(FOREVER, duration(SPAN)),
    );
    section.set("finally", &mut to.finally, choice(&FINALLY));
    let until = to.last_good_until.unwrap_or(Duration::MAX);
    section.require(
        to.disallow_for <= until,
        &["disallow_for", "last_good_until", "profile"],
        || {
            format!(
                "disallow_for ({}) must not exceed last_good_until ({}): both count from the first failure",
                format_duration(to.disallow_for),
                format_duration(until),
            )
        },
    );
}

pub(super) fn cache(mut section: Section<'_, '_>, to: &mut CacheConfig) {
    section.set("origins", &mut to.origins, integer(1..=100_000_000));
    section.set("bytes", &mut to.bytes, bytes(MEMORY));
    section.finish();
}
