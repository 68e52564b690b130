//! One decision and what came of it, as one line.

use std::{net::SocketAddr, time::Duration};

use super::{field, id::DecisionId, json::Object, public_url::public_url, stamp};
use crate::clock::Moment;

/// One exchange: what was asked, what was decided and why, what came of it.
///
/// Plain values, so that whoever ends an exchange can fill it in from what is at hand, without copies.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When the exchange began: its request's head was read. The decision came at most `hold` later.
    pub time: Moment,
    /// The identifier that the answer carries, too.
    pub id: DecisionId,
    /// `enforce`, or `report` where nothing is denied and the verdict says what would have been.
    pub mode: &'a str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'a str,
    /// The reason code, such as `robots_disallow`.
    pub reason: &'a str,
    /// Who asked.
    pub client: Client<'a>,
    /// As whom the crawler was judged.
    pub agent: Agent<'a>,
    /// The request's User-Agent field, octets as received.
    pub user_agent: Option<&'a [u8]>,
    /// The method, as received.
    pub method: &'a str,
    /// The URL, octets as received. The line leaves its userinfo out and, where so configured, its query.
    pub url: &'a [u8],
    /// The scheme of the origin; empty where the target could not be read.
    pub scheme: &'a str,
    /// Its host, in canonical form; empty where the target could not be read.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// How the request came: `plain`, `intercepted` or `tunnel`.
    pub via: &'a str,
    /// The exchange is a tunnel that was not looked into.
    pub opaque: bool,
    /// The rule that decided; none where no rule did.
    pub rule: Option<RuleLine<'a>>,
    /// The robots.txt that the decision rests on; none where it rests on none.
    pub robots: Option<RobotsCopy<'a>>,
    /// How long the request was held: for robots.txt, and for politeness.
    pub hold: Duration,
    /// The address that the request was sent to; none where it was not.
    pub upstream: Option<SocketAddr>,
    /// The status code that the crawler was answered with; none where it hung up first.
    pub status: Option<u16>,
    /// Octets of the request's body.
    pub bytes_in: u64,
    /// Octets of the response's body; of a tunnel, all that flowed to the crawler.
    pub bytes_out: u64,
    /// From the request's head to the end of the response.
    pub duration: Duration,
    /// What went wrong: the error type of the answer's Proxy-Status field (RFC 9209, section 2.3).
    pub error: Option<&'a str>,
}

/// The crawler's end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Its address.
    pub address: SocketAddr,
    /// The name that it authenticated with.
    pub name: Option<&'a str>,
}

/// The crawler's identity towards robots.txt.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// Product tokens, most specific first; empty for the global group.
    pub chain: &'a [&'a str],
    /// Where they came from, such as `config` or `user_agent`.
    pub source: &'a str,
}

/// One line of a robots.txt.
#[derive(Clone, Copy, Debug)]
pub struct RuleLine<'a> {
    /// The product token of the group that holds the rule, or `*`.
    pub group: &'a str,
    /// The rule as the file has it, such as `Disallow: /private`.
    pub text: &'a str,
    /// Its line, counted from 1.
    pub line: u32,
}

/// The copy of an origin's robots.txt that was in force.
#[derive(Clone, Copy, Debug)]
pub struct RobotsCopy<'a> {
    /// Where it was asked for.
    pub url: &'a str,
    /// Where it was found after redirects; none where nothing was found.
    pub final_url: Option<&'a str>,
    /// The origin's state, such as `successful`, `unavailable` or `unreachable`.
    pub state: &'a str,
    /// The status code of the fetch; none where there was no answer.
    pub status: Option<u16>,
    /// When this copy was fetched. The record's `age_s` is counted from here.
    pub fetched_at: Option<Moment>,
    /// SHA-256 of its content.
    pub sha256: Option<[u8; 32]>,
    /// Octets of its content.
    pub bytes: Option<u64>,
    /// The file was longer than the size limit.
    pub truncated: bool,
}

/// Bounds, in octets of the line. Together they keep every line below what a file is given in one write.
mod most {
    pub(super) const URL: usize = 16 * 1024;
    pub(super) const REDIRECTED_URL: usize = 4 * 1024;
    pub(super) const USER_AGENT: usize = 1_024;
    pub(super) const RULE: usize = 4 * 1024;
    pub(super) const HOST: usize = 1_024;
    pub(super) const TOKENS: usize = 32;
    pub(super) const TOKEN: usize = 256;
}

impl Record<'_> {
    /// Appends the record to `out` as one line: a JSON object and a line feed.
    ///
    /// `redact_query` replaces the query of the URL, which may hold what concerns nobody.
    pub fn write_line(&self, out: &mut Vec<u8>, redact_query: bool) {
        use field as f;
        let mut record = Object::open(out);
        record.plain(f::TIME, &stamp::rfc3339(self.time));
        record.plain(f::ID, &self.id.text());
        record.text(f::MODE, self.mode.as_bytes(), most::TOKEN);
        record.text(f::VERDICT, self.verdict.as_bytes(), most::TOKEN);
        record.text(f::REASON, self.reason.as_bytes(), most::TOKEN);

        let mut client = record.object(f::CLIENT);
        client.address(f::ADDRESS, self.client.address);
        client.text_or_null(f::NAME, self.client.name.map(str::as_bytes), most::TOKEN);
        client.close();

        let mut agent = record.object(f::AGENT);
        agent.texts(f::CHAIN, self.agent.chain, most::TOKENS, most::TOKEN);
        agent.text(f::SOURCE, self.agent.source.as_bytes(), most::TOKEN);
        agent.close();

        record.text_or_null(f::USER_AGENT, self.user_agent, most::USER_AGENT);
        record.text(f::METHOD, self.method.as_bytes(), most::TOKEN);
        record.text(f::URL, &public_url(self.url, redact_query), most::URL);
        record.text(f::SCHEME, self.scheme.as_bytes(), most::TOKEN);
        record.text(f::HOST, self.host.as_bytes(), most::HOST);
        record.number(f::PORT, self.port.into());
        record.text(f::VIA, self.via.as_bytes(), most::TOKEN);
        record.truth(f::OPAQUE, self.opaque);
        match &self.rule {
            Some(rule) => rule.write(record.object(f::RULE)),
            None => record.null(f::RULE),
        }
        match &self.robots {
            Some(robots) => robots.write(self.time, record.object(f::ROBOTS)),
            None => record.null(f::ROBOTS),
        }
        record.millis(f::HOLD_MS, self.hold);
        match self.upstream {
            Some(address) => record.address(f::UPSTREAM, address),
            None => record.null(f::UPSTREAM),
        }
        record.number_or_null(f::STATUS, self.status.map(u64::from));
        record.number(f::BYTES_IN, self.bytes_in);
        record.number(f::BYTES_OUT, self.bytes_out);
        record.millis(f::DURATION_MS, self.duration);
        record.text_or_null(f::ERROR, self.error.map(str::as_bytes), most::TOKEN);
        record.close();
        out.push(b'\n');
    }
}

impl RuleLine<'_> {
    fn write(&self, mut rule: Object<'_>) {
        use field as f;
        rule.text(f::GROUP, self.group.as_bytes(), most::TOKEN);
        rule.text(f::TEXT, self.text.as_bytes(), most::RULE);
        rule.number(f::LINE, self.line.into());
        rule.close();
    }
}

impl RobotsCopy<'_> {
    fn write(&self, now: Moment, mut robots: Object<'_>) {
        use field as f;
        robots.text(f::URL, self.url.as_bytes(), most::HOST);
        // A redirect's target is foreign: it may name a user, and be of any length.
        let final_url = self.final_url.map(|url| public_url(url.as_bytes(), false));
        robots.text_or_null(f::FINAL_URL, final_url.as_deref(), most::REDIRECTED_URL);
        robots.text(f::STATE, self.state.as_bytes(), most::TOKEN);
        robots.number_or_null(f::STATUS, self.status.map(u64::from));
        match self.fetched_at {
            Some(at) => robots.plain(f::FETCHED_AT, &stamp::rfc3339(at)),
            None => robots.null(f::FETCHED_AT),
        }
        let age = self.fetched_at.map(|at| now.since(at).as_secs());
        robots.number_or_null(f::AGE_S, age);
        match &self.sha256 {
            Some(digest) => robots.plain(f::SHA256, &hex(digest)),
            None => robots.null(f::SHA256),
        }
        robots.number_or_null(f::BYTES, self.bytes);
        robots.truth(f::TRUNCATED, self.truncated);
        robots.close();
    }
}

fn hex(digest: &[u8; 32]) -> [u8; 64] {
    let digit = |half: u8| match half {
        0..=9 => b'0' + half,
        _ => b'a' + half - 10,
    };
    let mut text = [0; 64];
    for (pair, octet) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[digit(octet >> 4), digit(octet & 15)]);
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use serde_json::{Value, json};

    use super::*;
    use crate::audit::lines::PIECE;

    pub(in crate::audit) const NOON: Moment = Moment::from_millis(1_795_176_000_123);

    /// A denial with every field filled in.
    pub(in crate::audit) fn denial() -> Record<'static> {
        Record {
            time: NOON,
            id: DecisionId::mint(NOON),
            mode: "enforce",
            verdict: "deny",
            reason: "robots_disallow",
            client: Client {
                address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000),
                name: Some("crawler-7"),
            },
            agent: Agent {
                chain: &["ExampleBot-Image", "ExampleBot"],
                source: "user_agent",
            },
            user_agent: Some(b"ExampleBot-Image/1.0 (+https://bot.example/)"),
            method: "GET",
            url: b"https://site.example/private/x?q=1",
            scheme: "https",
            host: "site.example",
            port: 443,
            via: "intercepted",
            opaque: false,
            rule: Some(RuleLine {
                group: "*",
                text: "Disallow: /private",
                line: 3,
            }),
            robots: Some(RobotsCopy {
                url: "https://site.example/robots.txt",
                final_url: Some("https://www.site.example/robots.txt"),
                state: "successful",
                status: Some(200),
                fetched_at: Some(NOON - Duration::from_secs(90)),
                sha256: Some([0xa5; 32]),
                bytes: Some(40),
                truncated: false,
            }),
            hold: Duration::from_micros(1_500),
            upstream: None,
            status: Some(403),
            bytes_in: 0,
            bytes_out: 512,
            duration: Duration::from_micros(42),
            error: None,
        }
    }

    fn line(record: &Record<'_>, redact_query: bool) -> String {
        let mut out = Vec::new();
        record.write_line(&mut out, redact_query);
        String::from_utf8(out).unwrap()
    }

    fn parsed(record: &Record<'_>) -> Value {
        serde_json::from_str(&line(record, false)).unwrap()
    }

    #[test]
    fn a_record_is_one_line_with_all_its_fields() {
        let record = denial();
        let text = line(&record, false);
        assert_eq!(text.find('\n'), Some(text.len() - 1));
        let want = json!({
            "time": "2026-11-20T12:00:00.123Z",
            "id": record.id.to_string(),
            "mode": "enforce",
            "verdict": "deny",
            "reason": "robots_disallow",
            "client": {"address": "127.0.0.1:40000", "name": "crawler-7"},
            "agent": {"chain": ["ExampleBot-Image", "ExampleBot"], "source": "user_agent"},
            "user_agent": "ExampleBot-Image/1.0 (+https://bot.example/)",
            "method": "GET",
            "url": "https://site.example/private/x?q=1",
            "scheme": "https",
            "host": "site.example",
            "port": 443,
            "via": "intercepted",
            "opaque": false,
            "rule": {"group": "*", "text": "Disallow: /private", "line": 3},
            "robots": {
                "url": "https://site.example/robots.txt",
                "final_url": "https://www.site.example/robots.txt",
                "state": "successful",
                "status": 200,
                "fetched_at": "2026-11-20T11:58:30.123Z",
                "age_s": 90,
                "sha256": "a5".repeat(32),
                "bytes": 40,
                "truncated": false,
            },
            "hold_ms": 1.5,
            "upstream": null,
            "status": 403,
            "bytes_in": 0,
            "bytes_out": 512,
            "duration_ms": 0.042,
            "error": null,
        });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), want);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut record = denial();
        record.client.name = None;
        record.agent.chain = &[];
        record.user_agent = None;
        record.rule = None;
        record.robots = None;
        record.status = None;
        let value = parsed(&record);
        for field in [
            &value["client"]["name"],
            &value["user_agent"],
            &value["rule"],
            &value["robots"],
            &value["status"],
        ] {
            assert_eq!(*field, Value::Null);
        }
        assert_eq!(value["agent"]["chain"], json!([]));

        let robots = RobotsCopy {
            url: "https://site.example/robots.txt",
            final_url: None,
            state: "unreachable",
            status: None,
            fetched_at: None,
            sha256: None,
            bytes: None,
            truncated: false,
        };
        record.robots = Some(robots);
        let value = parsed(&record);
        for name in [
            "final_url",
            "status",
            "fetched_at",
            "age_s",
            "sha256",
            "bytes",
        ] {
            assert_eq!(value["robots"][name], Value::Null, "{name}");
        }
    }

    #[test]
    fn what_urls_hold_in_confidence_stays_out() {
        let mut record = denial();
        record.url = b"https://user:secret@site.example/x?token=secret";
        let mut robots = record.robots.unwrap();
        robots.final_url = Some("https://user:secret@www.site.example/robots.txt");
        record.robots = Some(robots);
        assert_eq!(
            parsed(&record)["url"],
            "https://site.example/x?token=secret"
        );
        let text = line(&record, true);
        assert!(!text.contains("secret"), "{text}");
        assert!(
            text.contains("\"https://site.example/x?…redacted\""),
            "{text}"
        );
        assert!(
            text.contains("\"https://www.site.example/robots.txt\""),
            "{text}"
        );
    }

    #[test]
    fn the_most_hostile_exchange_is_one_valid_line_of_bounded_length() {
        let octets: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let text = String::from_utf8_lossy(&octets);
        let chain = vec![&*text; 100];
        let mut record = denial();
        record.client.name = Some(&text);
        record.agent.chain = &chain;
        record.user_agent = Some(&octets);
        record.method = &text;
        record.url = &octets;
        record.host = &text;
        record.rule = Some(RuleLine {
            group: &text,
            text: &text,
            line: u32::MAX,
        });
        let mut robots = record.robots.unwrap();
        robots.url = &text;
        robots.final_url = Some(&text);
        record.robots = Some(robots);
        record.error = Some(&text);

        let line = line(&record, false);
        assert_eq!(line.find('\n'), Some(line.len() - 1));
        assert!(line.len() <= PIECE, "{}", line.len());
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            value["agent"]["chain"].as_array().unwrap().len(),
            most::TOKENS + 1
        );
        assert_eq!(value["agent"]["chain"][most::TOKENS], "…[+68]");
    }
}
