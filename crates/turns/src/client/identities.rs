//! Tests of the identity that a client's requests have at an origin.

use http::HeaderValue;

use super::Client;
use crawlgate_config::Config;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, Identity, LONGEST_OWN, LONGEST_USER_AGENT, OWN};
use crawlgate_policy::agent::{Agent, Agents, Source};
use crawlgate_robots::ProductToken;

fn token(name: &str) -> ProductToken {
    ProductToken::new(name).expect("a valid token")
}

fn client(name: &str, user_agent: Option<&str>) -> Client {
    Client { name: Some(name.into()), user_agent: user_agent.map(Into::into), ..Client::default() }
}

#[test]
fn an_identity_is_a_client_and_the_first_token_or_a_star() {
    let unnamed = Client::default();
    let (news, shop) = (client("news", None), client("shop", Some("Shop/1")));
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &Client, &[&str], &str)] = &[
        ("no token, no client", &unnamed, &[], "*"),
        ("a token", &unnamed, &["GoodBot"], "goodbot"),
        ("a chain: its first", &unnamed, &["GoodBot-Image", "GoodBot"], "goodbot-image"),
        ("a client", &news, &["GoodBot"], "goodbot@news"),
        ("a client, no token", &news, &[], "*"),
        ("a client with a User-Agent, no token", &shop, &[], "*@shop"),
    ];
    for (name, client, tokens, text) in cases {
        let agent = Agent {
            tokens: tokens.iter().map(|name| token(name)).collect(),
            source: Source::UserAgent,
            mismatch: false,
        };
        let crawler = client.crawler(&agent);
        let identity = crawler.identity();
        assert_eq!(identity.to_string(), *text, "{name}");
        assert_eq!(Identity::parse(text), Some(identity.clone()), "{name}");
        assert!(crawler.is(&identity), "{name}");
        assert_eq!(crawler.is_common(), *text == "*", "{name}");
        assert_eq!(identity.is_common(), *text == "*", "{name}");
        let (file, text) = (crawler.asking(Document::TdmRep), format!("tdmrep.json:{text}"));
        assert_eq!(file.identity().to_string(), text, "{name}");
        assert_eq!(Identity::parse(&text), Some(file.identity()), "{name}");
        assert!(!crawler.is(&file.identity()) && !file.is(&identity));
        assert_eq!(file.identity().at(Document::RobotsTxt), identity);
    }
    for wrong in
        ["", "@", "a b", "goodbot@", "goodbot@a b", "*@NEWS", "tdmrep.json:", "robots.txt:*"]
    {
        assert_eq!(Identity::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn the_spelling_of_a_token_makes_no_identity_and_its_client_does() {
    let (lower, upper) = ([token("goodbot")], [token("GOODBOT")]);
    let (lower, upper) = (Crawler::named(&lower), Crawler::named(&upper));
    assert!(lower.is(&upper.identity()));
    assert_eq!(lower.identity(), upper.identity());
    let (news, shop) = (client("news", None), client("shop", None));
    let agent = Agent { tokens: vec![token("GoodBot")], ..Agent::default() };
    let (news, shop) = (news.crawler(&agent), shop.crawler(&agent));
    assert!(!news.is(&shop.identity()) && !news.is(&lower.identity()));
}

#[test]
fn no_user_agent_that_a_crawler_sends_goes_into_the_field() {
    let mut config = Config::default();
    let long = "L".repeat(128);
    let nine_kilobytes = format!("GoodBot/1.0 ({})", "x".repeat(9_000));
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[u8], String)] = &[
        ("a token and a version", b"GoodBot/2.1", format!("GoodBot {OWN}")),
        ("9 KB", nine_kilobytes.as_bytes(), format!("GoodBot {OWN}")),
        ("octets beyond ASCII", b"\xff\xfe GoodBot/1 \x80", format!("GoodBot {OWN}")),
        ("a browser's", b"Mozilla/5.0 (X11; Linux x86_64)", OWN.to_owned()),
        ("an attack", b"sqlmap/1.7#stable (http://sqlmap.org)", format!("sqlmap {OWN}")),
        ("nothing", b"", OWN.to_owned()),
        ("the longest token", long.as_bytes(), format!("{long} {OWN}")),
    ];
    let agents = Agents::new(&[]);
    let field = |config: &Config, client: &Client, sent: &[u8]| {
        let mut headers = http::HeaderMap::new();
        let value = HeaderValue::from_bytes(sent).expect("a field value");
        headers.insert(http::header::USER_AGENT, value);
        let agent = agents.identify(client.chain.as_ref(), &headers);
        let identity = client.crawler(&agent).identity();
        config.user_agents().for_identity(&identity).into_owned()
    };
    for (name, sent, expected) in cases {
        let sent = field(&config, &Client::default(), sent);
        assert_eq!(sent, *expected, "{name}");
        assert!(sent.len() <= LONGEST_USER_AGENT, "{name}");
    }
    config.robots.user_agent = "Fleet/3 (+https://fleet.example; GoodBot)".into();
    let sent = field(&config, &Client::default(), b"OtherBot/1");
    assert_eq!(sent, "OtherBot Fleet/3 (+https://fleet.example; GoodBot)");
    config.robots.user_agent = "GoodBot/3 (+https://fleet.example)".into();
    let sent = field(&config, &Client::default(), b"goodbot/1");
    assert_eq!(sent, "GoodBot/3 (+https://fleet.example)", "named once");
    config.robots.user_agent = "O".repeat(LONGEST_OWN).into();
    let sent = field(&config, &Client::default(), long.as_bytes());
    assert_eq!(sent.len(), LONGEST_USER_AGENT);
}
