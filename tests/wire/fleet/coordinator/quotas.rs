//! The quotas of clients, as both implementations keep them.

use std::time::Duration;

use crawlgate_turns::fleet::coordinator::CoordinatorError;
use crawlgate_turns::fleet::quota::{ChargeQuota, Charged};

use super::{each, heartbeat, two};

/// A span that does not end during a test.
const PER: Duration = Duration::from_secs(3_650 * 86_400);

/// Asks for nothing, of a quota without bounds.
fn charge() -> ChargeQuota<'static> {
    ChargeQuota {
        account: "client:0123",
        instance: "a",
        per: PER,
        span: None,
        requests: 0,
        bytes: 0,
        returned: 0,
        wanted: 0,
        most_requests: None,
        most_bytes: None,
        members: 1,
        after: Duration::ZERO,
    }
}

/// The value behind a question: the span of its totals, or none.
const ON_TOP: bool = false;
const OF_SPAN: bool = true;

#[test]
fn instances_share_what_a_client_may_have() {
    let of = |instance: &'static str, requests, bytes, wanted| ChargeQuota {
        instance,
        requests,
        bytes,
        wanted,
        most_requests: Some(200),
        most_bytes: Some(1_000),
        ..charge()
    };
    let back = |requests, returned| ChargeQuota { requests, returned, ..of("a", 0, 0, 0) };
    #[rustfmt::skip] // one row, one question
    let rows = [
        // The question, its totals; granted, requests and octets of the instance, octets of all.
        (of("a", 0, 0, 1), ON_TOP, [1, 1, 0, 0]),
        // A fiftieth of what is left.
        (of("a", 1, 0, 100), OF_SPAN, [3, 4, 0, 0]),
        (ChargeQuota { members: 3, ..of("b", 0, 0, 100) }, ON_TOP, [1, 1, 0, 0]),
        // Totals of a process before this one.
        (of("b", 2, 10, 0), ON_TOP, [0, 3, 10, 10]),
        // The same question twice changes nothing.
        (of("b", 5, 20, 0), OF_SPAN, [0, 5, 20, 20]),
        (of("b", 5, 20, 0), OF_SPAN, [0, 5, 20, 20]),
        // Totals that the engine has known better.
        (of("b", 1, 1, 0), OF_SPAN, [0, 5, 20, 20]),
        (back(1, 3), OF_SPAN, [0, 1, 0, 20]),
        (of("a", 193, 0, 9), OF_SPAN, [1, 194, 0, 20]),
        (of("b", 5, 20, 9), OF_SPAN, [1, 6, 20, 20]),
        (of("b", 6, 20, 9), OF_SPAN, [0, 6, 20, 20]),
        (back(194, 1), OF_SPAN, [0, 194, 0, 20]),
        (of("a", 100, 980, 1), OF_SPAN, [0, 194, 980, 1_000]),
    ];
    each(async |test_engine| {
        let both = two(&test_engine).await;
        let span = both[0].charge_quota(charge()).await.unwrap().span;
        for (number, (question, totals, want)) in rows.into_iter().enumerate() {
            let question = ChargeQuota { span: (totals == OF_SPAN).then_some(span), ..question };
            let charged = both[number % 2].charge_quota(question).await.unwrap();
            let had = [charged.granted, charged.requests, charged.bytes, charged.all_bytes];
            assert_eq!(had, want, "question {number}: {question:?}");
            assert!(charged.left <= PER && charged.span == span, "{charged:?}");
        }
        // Another client, another span: accounts of their own.
        for other in [
            ChargeQuota { account: "client:4567", ..of("a", 0, 0, 1) },
            ChargeQuota { per: PER / 2, ..of("a", 0, 0, 1) },
        ] {
            let charged = both[0].charge_quota(other).await.unwrap();
            assert_eq!((charged.granted, charged.requests), (1, 1), "{other:?}");
        }
        // Totals of a span that is over do not count.
        let old = ChargeQuota { span: Some(span - 1), account: "client:89ab", ..of("a", 7, 7, 0) };
        let charged = both[0].charge_quota(old).await.unwrap();
        assert_eq!((charged.requests, charged.bytes), (0, 0));
    });
}

#[test]
fn a_clock_that_is_set_back_gives_no_quota_anew() {
    each(async |test_engine| {
        let [a, b] = two(&test_engine).await;
        let question = ChargeQuota { wanted: 1, most_requests: Some(2), ..charge() };
        let told = |charged: &Charged| ChargeQuota {
            span: Some(charged.span),
            requests: charged.requests,
            ..question
        };
        let mut charged = a.charge_quota(question).await.unwrap();
        charged = a.charge_quota(told(&charged)).await.unwrap();
        assert_eq!((charged.granted, charged.requests), (1, 2));
        for spans in [1, 3] {
            test_engine.set_back(spans, question.account, PER);
            let others = ChargeQuota { instance: "b", ..question };
            let granted = b.charge_quota(others).await.unwrap().granted;
            assert_eq!(granted, 0, "{spans} spans");
            charged = a.charge_quota(told(&charged)).await.unwrap();
            assert_eq!((charged.granted, charged.requests), (0, 2), "{spans} spans");
            assert!(charged.left <= PER * 2, "{charged:?}");
        }
    });
}

#[test]
fn an_engine_that_has_just_begun_gives_nothing() {
    each(async |test_engine| {
        let [one, _] = two(&test_engine).await;
        let question = ChargeQuota { wanted: 1, after: Duration::from_secs(60), ..charge() };
        let charged = one.charge_quota(question).await.unwrap();
        assert_eq!(charged.granted, 0);
        let wait = charged.wait.as_secs_f64();
        assert!((1.0..=60.0).contains(&wait), "{charged:?}");
        test_engine.forget();
        let lost = one.charge_quota(question).await;
        assert_eq!(lost, Err(CoordinatorError::Lost));
        heartbeat(&one, "a", 0).await;
        assert!(one.charge_quota(question).await.is_ok());
    });
}
