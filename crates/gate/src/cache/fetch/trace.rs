//! The trace of a fetch, besides its meaning: its hops, its answers, its duration.

use http::HeaderMap;
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, DATE, ETAG, EXPIRES, HeaderName,
    LAST_MODIFIED, LOCATION, RETRY_AFTER,
};

use super::FetchRequest;
use crawlgate_origins::access::AccessResult;
use crawlgate_store as store;
use crawlgate_system::clock::Moment;
use crawlgate_text::public_url;

/// Fields of the last answer that are kept: they identify a file, its age and its next fetch.
const KEPT: [HeaderName; 10] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CACHE_CONTROL,
    ETAG,
    LAST_MODIFIED,
    DATE,
    AGE,
    EXPIRES,
    RETRY_AFTER,
    LOCATION,
];

/// Octets of a field's value or a URL that are kept: the origin chooses their length.
const LONGEST: usize = 1024;

/// A fetch in progress.
#[derive(Debug)]
pub(super) struct Trace {
    started: Moment,
    hops: Vec<String>,
    status: Option<u16>,
    fields: Vec<(String, String)>,
    probe: Option<String>,
}

/// Key of the probe's result among the fields: no field can have this name.
const PROBE: &str = "(probe)";

impl Trace {
    pub(super) fn start(now: Moment) -> Trace {
        Trace { started: now, hops: Vec::new(), status: None, fields: Vec::new(), probe: None }
    }

    /// Starts again, for a repeated fetch.
    pub(super) fn restart(&mut self) {
        self.hops.clear();
    }

    /// Records the probe of a page that cannot exist, and its answer.
    pub(super) fn probed(&mut self, url: &str, answered: &str, agrees: bool) {
        let verdict = match agrees {
            true => "as robots.txt",
            false => "not as robots.txt",
        };
        self.probe = Some(bounded(&format!("{url}: {answered}, {verdict}")));
    }

    /// Records a request for a URL; an earlier answer was not the last one.
    pub(super) fn record_request(&mut self, url: &str) {
        self.hops.push(bounded(url));
        self.status = None;
        self.fields.clear();
    }

    /// Records its answer.
    pub(super) fn answered(&mut self, status: Option<u16>, headers: &HeaderMap) {
        self.status = status;
        self.fields = KEPT
            .iter()
            .filter_map(|name| {
                let value = value(headers, name)?;
                let value = match *name {
                    LOCATION => without_userinfo(&value),
                    _ => value,
                };
                Some((name.as_str().to_owned(), value))
            })
            .collect();
    }

    /// Returns the finished trace, with `result`.
    pub(super) fn end(
        self,
        asked: &FetchRequest,
        result: &AccessResult,
        now: Moment,
    ) -> store::Fetch {
        // A record names the fetch of its robots.txt by the time of the file.
        let (cause, sha256, time) = match result {
            AccessResult::Successful { snapshot, .. } => {
                (None, Some(snapshot.sha256), snapshot.fetched)
            }
            AccessResult::Unavailable { why, .. } => (Some(why.code()), None, now),
            AccessResult::Unreachable { cause, .. } => (Some(cause.code()), None, now),
        };
        store::Fetch {
            identity: asked.identity.clone(),
            user_agent: String::from_utf8_lossy(asked.user_agent.as_bytes()).into_owned(),
            other: None,
            time,
            duration: now.since(self.started),
            result: result.name().to_owned(),
            cause,
            status: self.status,
            hops: self.hops,
            sha256,
            fields: fields_and(self.fields, self.probe),
        }
    }
}

fn fields_and(mut fields: Vec<(String, String)>, probe: Option<String>) -> Vec<(String, String)> {
    fields.extend(probe.map(|probe| (PROBE.to_owned(), probe)));
    fields
}

/// Returns all lines of a field as one value, as RFC 9110 section 5.3 joins them.
fn value(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).iter();
    let mut value = String::from_utf8_lossy(lines.next()?.as_bytes()).into_owned();
    for line in lines {
        if value.len() > LONGEST {
            break;
        }
        value.push_str(", ");
        value.push_str(&String::from_utf8_lossy(line.as_bytes()));
    }
    Some(bounded(&value))
}

/// Removes the user information of a reference, so that credentials from an origin never reach the store.
fn without_userinfo(reference: &str) -> String {
    // Without a scheme, the authority begins with the slashes.
    let (relative, url) = match reference.starts_with("//") {
        true => ("x:", format!("x:{reference}")),
        false => ("", reference.to_owned()),
    };
    let shown = public_url(url.as_bytes(), false);
    let shown = String::from_utf8_lossy(&shown).into_owned();
    shown.strip_prefix(relative).unwrap_or(&shown).to_owned()
}

fn bounded(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;
    use crawlgate_origins::access::{Absence, Cause, Freshness, Hop};
    use crawlgate_origins::identity::Identity;

    const START: Moment = Moment::from_millis(1_790_000_000_000);

    fn asked() -> FetchRequest {
        FetchRequest {
            origin: crawlgate_robots::Origin::parse("http://a.example/").expect("a URL").0,
            identity: Identity::default(),
            client: None,
            user_agent: HeaderValue::from_static("GoodBot crawlgate/0.1"),
            signed_as: None,
            config: crawlgate_config::Config::default().robots.into(),
            judge: Box::new(|_, _| Box::pin(async { Hop::Refused(Cause::UnjudgedHop) })),
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                let value = HeaderValue::from_bytes(value.as_bytes()).expect("a field value");
                (HeaderName::from_static(name), value)
            })
            .collect()
    }

    #[test]
    fn the_last_answer_counts_and_every_hop_is_named() {
        let mut trace = Trace::start(START);
        trace.record_request("http://a.example/robots.txt");
        trace.answered(Some(302), &headers(&[("location", "http://b.example/")]));
        trace.record_request("http://b.example/");
        let lines = [("etag", "\"1\""), ("x-other", "no"), ("age", "3")];
        trace.answered(Some(404), &headers(&lines));
        let result =
            AccessResult::Unavailable { why: Absence::Status(404), freshness: Freshness::Unsaid };
        let fetch = trace.end(&asked(), &result, START + Duration::from_millis(250));
        assert_eq!(fetch.user_agent, "GoodBot crawlgate/0.1");
        assert_eq!(fetch.hops, ["http://a.example/robots.txt", "http://b.example/"]);
        assert_eq!(fetch.duration, Duration::from_millis(250));
        assert_eq!((fetch.status, fetch.cause.as_deref()), (Some(404), Some("status_404")));
        let fields = [("etag", "\"1\""), ("age", "3")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(fetch.fields, fields);
    }

    #[test]
    fn the_trace_contains_the_probe_besides_the_answer() {
        let mut trace = Trace::start(START);
        trace.record_request("http://a.example/robots.txt");
        trace.answered(Some(500), &headers(&[("etag", "\"1\"")]));
        trace.probed("http://a.example/5f.txt", "it answered 500", true);
        let result = AccessResult::Unavailable {
            why: Absence::NotFoundBehind(500),
            freshness: Freshness::Unsaid,
        };
        let fetch = trace.end(&asked(), &result, START);
        assert_eq!((fetch.status, fetch.hops.len()), (Some(500), 1));
        let probe = "http://a.example/5f.txt: it answered 500, as robots.txt";
        let fields = [("etag", "\"1\""), ("(probe)", probe)];
        assert_eq!(fetch.fields, fields.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn a_hop_without_an_answer_has_no_status() {
        let mut trace = Trace::start(START);
        trace.record_request("http://a.example/robots.txt");
        trace.answered(Some(302), &headers(&[("location", "http://b.example/")]));
        trace.record_request("http://b.example/");
        let result = AccessResult::Unreachable { cause: Cause::Connect, retry_after: None };
        let fetch = trace.end(&asked(), &result, START);
        assert_eq!((fetch.status, fetch.fields.len(), fetch.hops.len()), (None, 0, 2));
    }

    #[test]
    fn hops_and_fields_are_bounded() {
        let long = "ü".repeat(4000);
        let mut trace = Trace::start(START);
        trace.record_request(&long);
        let lines = [("cache-control", &*long), ("cache-control", &*long)];
        trace.answered(Some(200), &headers(&lines));
        let bound = LONGEST + "…".len();
        assert!(trace.hops[0].len() <= bound);
        assert!(trace.fields[0].1.len() <= bound);
        let short = headers(&[("cache-control", "a"), ("cache-control", "b")]);
        trace.answered(Some(200), &short);
        assert_eq!(trace.fields[0].1, "a, b");
    }

    #[test]
    fn a_location_is_kept_without_credentials() {
        for (location, kept) in [
            ("http://u:secret@b.example/r?q", "http://b.example/r?q"),
            ("//u:secret@b.example/r", "//b.example/r"),
            ("/a@b", "/a@b"),
            ("r", "r"),
        ] {
            assert_eq!(without_userinfo(location), kept);
        }
    }
}
