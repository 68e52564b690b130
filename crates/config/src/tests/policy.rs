//! Tests of what the policy takes from the configuration.
//!
//! `[[signing]]`, and the clients that are signed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crawlgate_origins::access::phrases_in;
use crawlgate_policy::settings::PolicySettings;
use crawlgate_robots::Origin;
use crawlgate_signing::{Cover, Form};
use crawlgate_usage::SignalMode;

#[test]
fn instance_client_or_origin_may_be_in_report_mode() {
    let origin = |name: &str| Origin::parse(name).expect(name).0;
    let client = |text: &str| text.parse::<IpAddr>().expect(text);
    let mut config = Config::default().policy;
    config.report_origins = vec![origin("https://a.example")];
    config.report_clients = vec!["10.1.0.0/16".parse().expect("a network")];
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("neither", "https://b.example", "10.2.0.1", Mode::Enforce),
        ("the origin", "https://a.example", "10.2.0.1", Mode::Report),
        ("the same host, another scheme", "http://a.example", "10.2.0.1", Mode::Enforce),
        ("the same host, another port", "https://a.example:8443", "10.2.0.1", Mode::Enforce),
        ("the client", "https://b.example", "10.1.2.3", Mode::Report),
        ("the client, on a socket for both", "https://b.example", "::ffff:10.1.2.3", Mode::Report),
    ];
    let some = config.reporting();
    config.mode = Mode::Report;
    let all = config.reporting();
    for (name, asked, from, mode) in cases {
        assert_eq!(some.mode(&origin(asked), None, client(from)), mode, "{name}");
        assert_eq!(all.mode(&origin(asked), None, client(from)), Mode::Report, "{name}");
    }
}

#[test]
fn a_mode_of_its_own_outranks_all_but_the_origins() {
    let origin = |name: &str| Origin::parse(name).expect(name).0;
    let client: IpAddr = "10.1.0.1".parse().expect("an address");
    let mut config = Config::default().policy;
    config.mode = Mode::Report;
    config.report_clients = vec!["10.1.0.0/16".parse().expect("a network")];
    config.report_origins = vec![origin("https://a.example")];
    let reporting = config.reporting();
    let enforcing = Config::default().policy.reporting();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("enforced all the same", &reporting, "https://b.example", Mode::Enforce, Mode::Enforce),
        ("at an origin in report mode", &reporting, "https://a.example", Mode::Enforce, Mode::Report),
        ("reported all the same", &enforcing, "https://b.example", Mode::Report, Mode::Report),
        ("as the instance", &enforcing, "https://b.example", Mode::Enforce, Mode::Enforce),
    ];
    for (name, reporting, asked, own, mode) in cases {
        assert_eq!(reporting.mode(&origin(asked), Some(own), client), mode, "{name}");
    }
}

#[test]
fn the_text_is_read_back_and_contains_every_setting_that_counts() {
    let mut config = Config::default().robots;
    config.deny_statuses = vec![403, 401, 403];
    config.timing.profile.last_good_until = Some(Duration::from_millis(1_500));
    config.timing.profile.finally = Finally::Reachable;
    let settings = config.policy_settings();
    assert_eq!(
        settings.text(),
        "{\"lenient\":true,\"size_limit\":512000,\"path_guard\":true,\"soft_404\":true,\
         \"deny_statuses\":[401,403],\"unreachable\":{\"disallow_for_ms\":2592000000,\
         \"last_good_until_ms\":1500,\"finally\":\"reachable\"},\"signals\":{\"vocabulary\":\"aipref-vocab-08\",\
         \"content_usage\":\"enforce\",\"content_signal\":\"enforce\",\"tdm_reservation\":\"enforce\",\"tdmrep\":\"off\",\
         \"robots_tag\":\"record\",\"license\":\"record\",\"licenses\":[],\"withhold\":true}}"
    );
    assert_eq!(PolicySettings::read(&settings.text()).expect("our own"), settings);
    let profile = settings.profile();
    assert_eq!(profile.disallow_for, config.timing.profile.disallow_for);
    assert_eq!(profile.last_good_until, config.timing.profile.last_good_until);
    assert_eq!(profile.finally, Finally::Reachable);
    assert_eq!(settings.parse_options().limit, config.size_limit);
    assert_eq!(settings.modes(), *config.signals);
}

#[test]
fn the_digest_tells_settings_apart_and_nothing_else() {
    type Change = fn(&mut RobotsConfig);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, bool)] = &[
        ("nothing", |_| {}, true),
        ("misspellings", |c| c.lenient = false, false),
        ("the limit", |c| c.size_limit += 1, false),
        ("the guard", |c| c.path_guard = false, false),
        ("soft 404", |c| c.soft_404 = false, false),
        ("statuses", |c| c.deny_statuses.push(403), false),
        ("the first span", |c| c.timing.profile.disallow_for += Duration::from_millis(1), false),
        ("the second span", |c| c.timing.profile.last_good_until = Some(Duration::ZERO), false),
        ("the end", |c| c.timing.profile.finally = Finally::Reachable, false),
        ("a signal", |c| Arc::make_mut(&mut c.signals).robots_tag = SignalMode::Enforce, false),
        ("a licence", |c| Arc::make_mut(&mut c.signals).licenses = vec!["https://l.example/".into()], false),
        ("withholding", |c| Arc::make_mut(&mut c.signals).withhold = false, false),
        ("the stamp", |c| Arc::make_mut(&mut c.signals).stamp = true, true),
        ("how long a request waits", |c| c.hold += Duration::from_secs(1), true),
        ("the answer's status", |c| c.unreachable_status = Some(503), true),
        ("what is kept in memory", |c| c.cache.origins += 1, true),
    ];
    let config = Config::default().robots;
    for (name, change, same) in cases {
        let mut changed = config.clone();
        change(&mut changed);
        let digests = (config.policy_settings().digest(), changed.policy_settings().digest());
        assert_eq!(digests.0 == digests.1, *same, "{name}");
    }
}

#[test]
fn the_words_of_a_missing_page_are_none_of_a_failing_one() {
    let ours = Config::default().robots.soft_404_phrases;
    let php = b"Fatal error: Uncaught Exception: File not found in /srv/index.php";
    assert!(phrases_in(php, &ours).is_empty());
}

/// Returns the message for a text with faults, without the directory.
fn message(text: &str) -> String {
    let error = parse(text).expect_err("has a fault").to_string();
    error.replace("/etc/crawlgate/", "")
}

#[test]
fn an_identity_needs_a_name_a_url_and_a_key() {
    let config = parse("[[signing]]\nname = 'news'\nagent = 'https://bot.example'\nkey = 'a.key'");
    let config = config.expect("right");
    let [identity] = config.signing.as_slice() else {
        panic!("{:?}", config.signing);
    };
    assert_eq!(identity.key, Path::new("/etc/crawlgate/a.key"));
    assert_eq!(identity.lifetime, Duration::from_secs(60));
    assert_eq!(identity.cover, Cover::Request);
    assert_eq!(identity.form, Form::Dictionary);
    assert!(!identity.plain_http && identity.publish.is_empty());
    assert_eq!(config.signed_as().of(None), None, "it signs for those that name it");
}

#[test]
fn each_mistake_names_the_key_the_value_and_the_way_out() {
    const ONE: &str = "[[signing]]\nname = 'a'\nagent = 'https://a.example'\nkey = 'a.key'\n";
    let with = |line: &str| format!("{ONE}{line}");
    let url = "expected an https URL without user name, fragment and spaces: \
               \"https://bot.example/.well-known/http-message-signatures-directory\"";
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("[[signing]]".to_owned(), "config.toml:1: [[signing]] name is missing".to_owned()),
        ("[[signing]]".to_owned(), "config.toml:1: [[signing]] agent is missing".to_owned()),
        ("[[signing]]".to_owned(), "config.toml:1: [[signing]] key is missing".to_owned()),
        (with("[agent]\nsigning = 'b'"), "config.toml:6: [agent] signing = 'b': no [[signing]] has this name, or \"\"".to_owned()),
        (with("[[client]]\nname = 'c'\nsigning = 'b'"), "config.toml:7: [[client]] signing = 'b': no [[signing]] has this name".to_owned()),
        (with("lifetime = '0s'"), "config.toml:5: [[signing]] lifetime = '0s': expected a duration such as \"30s\" or \"1h30m\", from \"1s\" to \"24h\"".to_owned()),
        (with("lifetime = '25h'"), "config.toml:5: [[signing]] lifetime = '25h': expected a duration such as \"30s\" or \"1h30m\", from \"1s\" to \"24h\"".to_owned()),
        (with("cover = 'path'"), "config.toml:5: [[signing]] cover = 'path': not one of \"request\", \"authority\"".to_owned()),
        (with("form = 'both'"), "config.toml:5: [[signing]] form = 'both': not one of \"dictionary\", \"string\"".to_owned()),
        (with("publish = ['']"), "config.toml:5: [[signing]] publish = '': expected a path".to_owned()),
        (ONE.replace("https:", "http:"), format!("config.toml:3: [[signing]] agent = 'http://a.example': {url}")),
        (ONE.replace("a.example", "a.example/#k"), format!("config.toml:3: [[signing]] agent = 'https://a.example/#k': {url}")),
        (format!("{ONE}{}", ONE.replace("a.key", "b.key")), "config.toml:6: [[signing]] name = 'a': another [[signing]] has this name".to_owned()),
        (format!("{ONE}{}", ONE.replace("'a'", "'b'")), "config.toml:8: [[signing]] key = 'a.key': \"a\" has this key; each identity needs its own: `crawlgate signing new` makes one".to_owned()),
    ];
    for (text, want) in rows {
        let found = message(&text);
        assert!(found.contains(&want), "{text}\n{found}\n{want}");
    }
    let found = message(&ONE.replace("a.example", "u:sesame@a.example"));
    assert!(found.contains(url) && !found.contains("sesame"), "{found}");
}

#[test]
fn a_key_in_the_place_of_its_path_is_not_repeated() {
    let one = "[[signing]]\nname = 'a'\nagent = 'https://a.example'\n";
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("key", "key = \"-----BEGIN PRIVATE KEY-----\\nsesame\""),
        ("key", "key = '-----BEGIN PRIVATE KEY-----sesame'"),
        ("key", "key = \"sesame\\r\""),
        ("publish", "key = 'a.key'\npublish = ['b.key', \"sesame\\n\"]"),
    ];
    for (key, line) in rows {
        let found = message(&format!("{one}{line}"));
        let why = format!("[[signing]] {key} = …: expected the path of a file with the key");
        assert!(found.contains(&why), "{line}\n{found}");
        assert!(!found.contains("sesame"), "{line}\n{found}");
    }
}

#[test]
fn an_identity_with_a_fault_makes_no_further_fault_of_those_that_name_it() {
    let found = message("[agent]\nsigning = 'a'\n[[signing]]\nname = 'a'\nagent = 'x'\nkey = 'k'");
    assert!(!found.contains("[agent]"), "{found}");
}

#[test]
fn a_client_is_signed_as_it_says_or_as_all_others() {
    let config = parse(OTHER).expect("right");
    let signed_as = config.signed_as();
    let of = |client| signed_as.of(client).map(|name| &**name);
    assert_eq!(of(Some("fleet-7")), Some("news"));
    assert_eq!(of(Some("rest")), Some("all"));
    assert_eq!(of(None), Some("all"));
}
