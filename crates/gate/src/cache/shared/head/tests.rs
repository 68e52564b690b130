use super::*;

const THEN: Moment = Moment::from_millis(1_795_000_000_000);

const NEWSBOT: &str = "newsbot";

fn named(identity: &str) -> Identity {
    Identity::parse(identity).unwrap()
}

fn copy() -> SnapshotMeta {
    SnapshotMeta {
        sha256: [7; 32],
        fetched: THEN - Duration::from_secs(60),
        status: 200,
        final_url: "https://a.example/robots.txt".to_owned(),
        bytes: 14,
        truncated: false,
    }
}

fn outage() -> Outage {
    Outage {
        cause: Cause::Status(503),
        since: THEN - Duration::from_secs(30),
        last_failure: Some(THEN - Duration::from_secs(10)),
        last_attempt: THEN - Duration::from_secs(5),
        attempts: 3,
        next_attempt: THEN + Duration::from_secs(60),
    }
}

fn fresh() -> Fresh {
    Fresh {
        refresh_from: THEN + Duration::from_secs(3_000),
        until: THEN + Duration::from_secs(3_600),
    }
}

fn fetch() -> Fetch {
    Fetch {
        identity: Identity::parse("newsbot").unwrap(),
        user_agent: "newsbot crawlgate".to_owned(),
        other: Some(OtherAnswer {
            user_agent: "crawlgate".to_owned(),
            code: "successful".to_owned(),
        }),
        time: THEN,
        duration: Duration::from_millis(120),
        result: "successful".to_owned(),
        cause: Some("status_503".to_owned()),
        status: Some(200),
        hops: vec!["https://a.example/robots.txt".to_owned()],
        sha256: Some([7; 32]),
        fields: vec![("etag".to_owned(), "\"1\"".to_owned())],
    }
}

fn states() -> Vec<StoredState> {
    vec![
        StoredState::Successful { copy: copy(), fresh: fresh(), outage: Some(outage()) },
        StoredState::Unavailable {
            why: Absence::Status(404),
            fetched: THEN,
            fresh: fresh(),
            outage: None,
        },
        StoredState::Unreachable { outage: outage(), last_good: Some(copy()) },
        StoredState::Unreachable { outage: outage(), last_good: None },
    ]
}

#[test]
fn a_state_is_read_as_it_was_written() {
    for stored in states() {
        for fetch in [Some(fetch()), None] {
            let content =
                Content { stored: stored.clone(), fetch, user_agent: "crawlgate".to_owned() };
            let at = EngineTime(5_000_000_000);
            let text = content.fetch.as_ref().map(|_| b"User-agent: *\n\nDisallow: /\n".as_slice());
            let octets = Head::of(at, THEN, &named(NEWSBOT), &content).to_octets(text);
            // Two seconds later, on a machine with nearly the same clock.
            let (later, now) = (EngineTime(at.0 + 2_000_000), THEN + Duration::from_millis(2_400));
            let (read, found) = Head::read(&octets, &named(NEWSBOT), 30).unwrap();
            assert_eq!(found.as_deref(), text);
            assert_eq!(read.content(later, now), Some(content));
            assert_eq!(
                Head::read(&octets, &named(NEWSBOT), 20).is_none(),
                text.is_some(),
                "a longer text"
            );
        }
    }
}

#[test]
fn a_machine_with_another_clock_reads_its_own_moments() {
    let content =
        Content { stored: states().remove(1), fetch: Some(fetch()), user_agent: String::new() };
    let at = EngineTime(5_000_000_000);
    let octets = Head::of(at, THEN, &named(NEWSBOT), &content).to_octets(None);
    let five = Duration::from_secs(300);
    for (name, now, want) in
        [("ahead", THEN + five, THEN + five), ("behind", THEN - five, THEN - five)]
    {
        let read = Head::read(&octets, &named(NEWSBOT), 0).unwrap().0.content(at, now).unwrap();
        assert_eq!(read.fetch.unwrap().time, want, "{name}");
        let StoredState::Unavailable { fetched, fresh, .. } = read.stored else { panic!("{name}") };
        assert_eq!((fetched, fresh.until.since(fetched)), (want, Duration::from_secs(3_600)));
    }
}

#[test]
fn another_form_is_not_read() {
    let forgotten = Head::forgotten(&named(NEWSBOT)).to_octets(None);
    let (read, _) = Head::read(&forgotten, &named(NEWSBOT), 0).unwrap();
    assert_eq!(read.content(EngineTime(0), THEN), None);
    let text = String::from_utf8(unpack(&forgotten, LONGEST).unwrap()).unwrap();
    let newer = text.replace("\"version\":3", "\"version\":4");
    assert_ne!(newer, text);
    for other in ["", "{}", "null", &newer] {
        assert_eq!(Head::read(&pack(other.as_bytes()), &named(NEWSBOT), 0), None, "{other}");
    }
    assert_eq!(Head::read(text.as_bytes(), &named(NEWSBOT), 0), None, "not packed");
}

#[test]
fn a_state_of_another_identity_or_document_is_refused() {
    // As if all of them had one place in the engine.
    let content =
        Content { stored: states().remove(1), fetch: Some(fetch()), user_agent: String::new() };
    let all = ["newsbot", "newsbot@shop", "otherbot", "tdmrep.json:newsbot", "tdmrep.json:*", "*"];
    for of in all {
        let state = Head::of(EngineTime(1), THEN, &named(of), &content).to_octets(None);
        let forgotten = Head::forgotten(&named(of)).to_octets(None);
        for asks in all {
            for octets in [&state, &forgotten] {
                let read = Head::read(octets, &named(asks), 0);
                assert_eq!(read.is_some(), of == asks, "{asks} reads that of {of}");
            }
        }
    }
}
