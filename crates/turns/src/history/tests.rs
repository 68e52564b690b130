use super::*;

const START: u64 = 1_790_000_000_000_000;
const MS: u64 = 1_000;

fn rate(interval: u64, burst: u32) -> Rate {
    Rate {
        interval: interval * MS,
        burst,
    }
}

fn at(rate: Rate) -> Terms<'static> {
    Terms {
        rate: Some(rate),
        ..Terms::default()
    }
}

/// Returns the history after requests at this rate, in milliseconds from the start.
fn after(rate: Rate, requests: &[u64]) -> History {
    let mut history = History::default();
    for request in requests {
        history.take(&at(rate), START + request * MS);
    }
    history
}

#[test]
fn the_next_turn_comes_when_the_rate_says() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Rate, &[u64], u64)] = &[
        ("none was taken", rate(500, 1), &[], 0),
        ("one at a time", rate(500, 1), &[0], 500),
        ("late turns save nothing up", rate(500, 1), &[0, 900], 1_400),
        ("a burst goes at once", rate(1_000, 3), &[0, 0], 0),
        ("and is paid off turn by turn", rate(1_000, 3), &[0, 0, 0], 1_000),
    ];
    for (name, rate, requests, expected) in cases {
        let next = after(*rate, requests).next(&at(*rate), START);
        assert_eq!(next, START + expected * MS, "{name}");
    }
}

#[test]
fn under_another_rate_the_same_turns_count() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Rate, &[u64], Rate, u64)] = &[
        ("a slower one", rate(1_000, 1), &[0], rate(10_000, 1), 10_000),
        ("a faster one", rate(10_000, 1), &[0], rate(1_000, 1), 1_000),
        ("a burst that was used up is no debt of three", rate(1_000, 3), &[0, 0, 0], rate(1_000, 1), 1_000),
        ("a larger burst", rate(1_000, 1), &[0], rate(1_000, 2), 0),
        ("the same", rate(1_000, 3), &[0, 0, 0], rate(1_000, 3), 1_000),
    ];
    for (name, before, requests, now, expected) in cases {
        let next = after(*before, requests).next(&at(*now), START);
        assert_eq!(next, START + expected * MS, "{name}");
    }
}

#[test]
fn a_clock_that_is_set_back_moves_past_requests_back() {
    let group = Arc::from("*");
    let terms = Terms {
        group: Some((&group, 2_000 * MS)),
        ..at(rate(1_000, 1))
    };
    let mut history = History::default();
    history.take(&terms, START + 3_600_000 * MS);
    history.take_robots(START + 3_600_000 * MS);
    history.settle(START);
    assert_eq!(history.next(&at(rate(1_000, 1)), START), START + 1_000 * MS);
    assert_eq!(history.next(&terms, START), START + 2_000 * MS);
    assert!(!history.is_over(1_000 * MS, START));
    assert!(history.is_over(1_000 * MS, START + 1_000 * MS));
}

#[test]
fn an_undone_request_leaves_the_history_as_it_was() {
    let group = Arc::from("*");
    let terms = Terms {
        group: Some((&group, 2_000 * MS)),
        ..at(rate(1_000, 1))
    };
    let mut history = History::default();
    for before in [0, 5_000] {
        let due = history.next(&terms, START + before * MS);
        let undo = history.take(&terms, START + before * MS);
        history.undo(undo);
        assert_eq!(history.next(&terms, START + before * MS), due);
        history.take(&terms, START + before * MS);
    }
}

#[test]
fn a_redirect_hop_is_still_past_after_the_clock_was_set_back() {
    let (slow, fast) = (Arc::from("slow"), Arc::from("fast"));
    let group = |name, seconds: u64| Terms {
        group: Some((name, seconds * 1_000 * MS)),
        ..Terms::default()
    };
    let mut history = History::default();
    history.take(&group(&slow, 30), START - 3_000 * MS);
    let robots = Terms {
        is_robots: true,
        ..Terms::default()
    };
    let was_due = history.take_redirect_hop(&robots, (START, START), 10_000 * MS);
    assert!(!was_due);
    let now = START - 2_000 * MS;
    history.settle(now);
    assert_eq!(history.next(&group(&fast, 1), now), now + 1_000 * MS);
}
