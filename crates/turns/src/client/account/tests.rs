use super::*;
use crawlgate_config::Rate;
use crawlgate_system::clock::Uptime;

const DAY: Duration = Duration::from_secs(86_400);
const MIDNIGHT: Moment = Moment::from_millis(20_000 * 86_400_000);

fn with_quota(requests: Option<u64>, bytes: Option<u64>) -> Client {
    Client { quota: Some(Quota { requests, bytes, per: DAY }), ..Client::default() }
}

fn with_rate(requests_per_second: f64, burst: u32) -> Client {
    Client { rate: Some(Rate { requests_per_second, burst }), ..Client::default() }
}

/// Returns the uptime of a machine that started at the epoch; its clock was never set.
fn uptime(now: Moment) -> impl FnOnce() -> Uptime {
    let clock = Clock::manual(Moment::default());
    clock.advance_to(now);
    move || clock.uptime()
}

/// Enters a request in this process's own usage.
fn enter_alone<'a>(
    client: &'a Client,
    now: Moment,
    uptime: impl FnOnce() -> Uptime,
    max_hold: Duration,
) -> Result<Reservation<'a>, QuotaExceeded> {
    let Usage::Alone(counters) = &client.account.0 else {
        panic!("the usage of a fleet");
    };
    let entry = counters.lock().enter(client, now, uptime, max_hold)?;
    Ok(Reservation {
        hold: entry.hold,
        entry: Some(ChargedUsage::Alone(counters, entry)),
        has_waited: false,
    })
}

fn enter(client: &Client, now: Moment, max_hold: Duration) -> Result<Duration, QuotaExceeded> {
    let entered = enter_alone(client, now, uptime(now), max_hold);
    entered.map(Reservation::commit)
}

#[test]
fn a_quota_is_spent_until_its_span_ends() {
    let client = with_quota(Some(2), None);
    let noon = MIDNIGHT + DAY / 2;
    for _ in 0..2 {
        assert_eq!(enter(&client, noon, DAY), Ok(Duration::ZERO));
    }
    assert_eq!(enter(&client, noon, DAY), Err(QuotaExceeded(MIDNIGHT + DAY)));
    let last = MIDNIGHT + (DAY - Duration::from_millis(1));
    assert_eq!(enter(&client, last, DAY), Err(QuotaExceeded(MIDNIGHT + DAY)));
    assert_eq!(enter(&client, MIDNIGHT + DAY, DAY), Ok(Duration::ZERO));
}

#[test]
fn a_clock_that_is_set_back_gives_no_quota_anew() {
    let days = |days: u64| MIDNIGHT + DAY * u32::try_from(days).unwrap();
    #[rustfmt::skip] // one row, one clock
    let rows: &[(&str, &[(Moment, bool)])] = &[
        ("over midnight and again", &[(days(1), true), (days(0), false), (days(1), false), (days(2), true)]),
        ("further", &[(days(9), true), (days(3), false), (days(4), true), (days(9), true)]),
        ("a clock that was years ahead", &[(days(3_000), true), (days(1), false), (days(2), true)]),
    ];
    for (name, steps) in rows {
        let client = with_quota(Some(1), None);
        for (step, (at, is_entered)) in steps.iter().enumerate() {
            let entered = enter(&client, *at, Duration::ZERO).is_ok();
            assert_eq!(entered, *is_entered, "{name}, step {step}");
        }
    }
}

#[test]
fn octets_count_when_they_are_known() {
    let client = with_quota(None, Some(100));
    for (took, fits) in [(60, true), (60, true), (0, false)] {
        assert_eq!(enter(&client, MIDNIGHT, DAY).is_ok(), fits, "before {took}");
        client.account.add_bytes(took, MIDNIGHT);
    }
    assert!(enter(&client, MIDNIGHT + DAY, DAY).is_ok(), "the next day");
}

#[test]
fn turns_are_an_interval_apart_and_a_burst_comes_at_once() {
    let ms = Duration::from_millis;
    let client = with_rate(10.0, 3);
    let holds: Vec<_> = (0..6).map(|_| enter(&client, MIDNIGHT, ms(200))).collect();
    let late = Err(QuotaExceeded(MIDNIGHT + ms(300)));
    let want = [Ok(ms(0)), Ok(ms(0)), Ok(ms(0)), Ok(ms(100)), Ok(ms(200)), late];
    assert_eq!(holds, want);
    // The refused request took no turn.
    let later = MIDNIGHT + ms(100);
    assert_eq!(enter(&client, later, ms(200)), Ok(ms(200)));
}

#[test]
fn a_clock_that_is_set_changes_no_rate() {
    let second = Duration::from_secs(1);
    for set in [MIDNIGHT - 300 * second, MIDNIGHT - DAY, MIDNIGHT + DAY] {
        let client = with_rate(1.0, 1);
        let clock = Clock::manual(MIDNIGHT);
        let enter = || {
            let (now, hold) = (clock.now(), 5 * second);
            let entered = enter_alone(&client, now, || clock.uptime(), hold);
            entered.map(Reservation::commit)
        };
        assert_eq!(enter(), Ok(Duration::ZERO));
        clock.set(set);
        assert_eq!(enter(), Ok(second), "one a second, and no more");
        for _ in 0..10 {
            clock.advance(second);
            assert_eq!(enter(), Ok(second), "as before");
        }
        clock.advance(10 * second);
        assert_eq!(enter(), Ok(Duration::ZERO), "nothing is left over");
    }
    // The reported moment is one of the wall clock.
    let (client, clock) = (with_rate(0.1, 1), Clock::manual(MIDNIGHT));
    let enter = |now| enter_alone(&client, now, || clock.uptime(), second);
    assert!(enter(MIDNIGHT).map(Reservation::commit).is_ok());
    let spent = enter(MIDNIGHT - DAY).map(Reservation::commit);
    assert_eq!(spent, Err(QuotaExceeded(MIDNIGHT - DAY + 10 * second)));
}

#[test]
fn a_client_that_disconnects_while_held_gives_its_turn_back() {
    let ms = Duration::from_millis;
    let client = with_rate(10.0, 1);
    let take = || enter_alone(&client, MIDNIGHT, uptime(MIDNIGHT), ms(300));
    assert_eq!(enter(&client, MIDNIGHT, ms(300)), Ok(ms(0)));
    // Requests that come and leave keep the turn free for the one that stays.
    for _ in 0..100 {
        assert_eq!(take().map(|entered| entered.hold()), Ok(ms(100)));
    }
    // A turn between two others goes to the next request, and no two requests go at the same time.
    let (first, second, third) = (take(), take(), take());
    assert!(take().is_err(), "the next would be late");
    drop(second);
    assert_eq!(enter(&client, MIDNIGHT, ms(300)), Ok(ms(200)));
    assert!(take().is_err());
    // A turn given back after its time is lost.
    drop(first);
    let later = MIDNIGHT + ms(150);
    assert_eq!(enter(&client, later, ms(300)), Ok(ms(250)));
    assert_eq!(third.map(Reservation::commit), Ok(ms(300)));
}

#[test]
fn a_client_that_disconnects_while_held_uses_up_no_quota() {
    let client = Client { rate: with_rate(1.0, 1).rate, ..with_quota(Some(2), None) };
    assert!(enter(&client, MIDNIGHT, DAY).is_ok());
    for _ in 0..5 {
        assert!(enter_alone(&client, MIDNIGHT, uptime(MIDNIGHT), DAY).is_ok());
    }
    assert!(enter(&client, MIDNIGHT, DAY).is_ok());
    assert!(enter(&client, MIDNIGHT, DAY).is_err(), "two have gone");
}

#[test]
fn a_change_of_the_span_keeps_the_usage() {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let per = |per| Client {
        quota: Some(Quota { requests: Some(2), bytes: None, per }),
        ..Client::default()
    };
    let before = per(hours(1));
    let mut after = per(hours(2));
    after.account = std::sync::Arc::clone(&before.account);
    assert!(enter(&before, MIDNIGHT, DAY).is_ok());
    assert!(enter(&after, MIDNIGHT, DAY).is_ok(), "one is left");
    assert!(enter(&after, MIDNIGHT, DAY).is_err(), "none is");
    // A span of the old quota ends.
    before.account.add_bytes(10, MIDNIGHT + hours(1));
    let late = MIDNIGHT + hours(1);
    assert_eq!(enter(&after, late, DAY), Err(QuotaExceeded(MIDNIGHT + hours(2))));
    assert!(enter(&after, MIDNIGHT + hours(2), DAY).is_ok());
}

#[test]
fn a_request_refused_by_the_rate_uses_up_no_quota() {
    let client = Client { rate: with_rate(1.0, 1).rate, ..with_quota(Some(2), None) };
    assert!(enter(&client, MIDNIGHT, Duration::ZERO).is_ok());
    for _ in 0..5 {
        assert!(enter(&client, MIDNIGHT, Duration::ZERO).is_err());
    }
    let later = MIDNIGHT + Duration::from_secs(1);
    assert!(enter(&client, later, Duration::ZERO).is_ok());
}
