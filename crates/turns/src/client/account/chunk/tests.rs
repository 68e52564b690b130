use super::*;

use crawlgate_system::clock::{Clock, Moment};

const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);

fn at(after: Duration) -> Uptime {
    let clock = Clock::manual(Moment::from_millis(1));
    clock.uptime() + after + DAY
}

fn quota(requests: Option<u64>, bytes: Option<u64>) -> Quota {
    Quota { requests, bytes, per: DAY }
}

/// Has the engine answer a question in span 7, of which an hour is left.
fn answer(chunk: &mut Chunk, question: QuotaQuestion, granted: u64, others: u64, now: Uptime) {
    let charged = Charged {
        span: 7,
        left: SECOND * 3_600,
        granted,
        requests: question.mine.requests + granted,
        bytes: question.mine.bytes,
        all_bytes: question.mine.bytes + others,
        wait: Duration::ZERO,
    };
    chunk.answered(question, &charged, now);
}

#[test]
fn a_chunk_is_used_before_the_engine_is_asked_again() {
    let (mut chunk, quota) = (Chunk::default(), quota(Some(100), None));
    let now = at(Duration::ZERO);
    assert_eq!(chunk.take(&quota, now), Take::Ask);
    let question = chunk.ask(&quota, 3, now);
    assert_eq!((question.span, question.wanted), (None, 3));
    answer(&mut chunk, question, 3, 0, now);
    for _ in 0..3 {
        assert!(matches!(chunk.take(&quota, now), Take::Taken(_)));
    }
    assert_eq!(chunk.take(&quota, now), Take::Ask);
    let question = chunk.ask(&quota, 1, now);
    // As many as in the last second.
    assert_eq!((question.span, question.wanted), (Some(7), 3));
    assert_eq!(question.mine.requests, 3);
    answer(&mut chunk, question, 0, 0, now);
    let Take::Exceeded(until) = chunk.take(&quota, now) else {
        panic!("nothing is left");
    };
    assert_eq!(until, now + SECOND * 3_600);
    // Another instance may give something back.
    assert_eq!(chunk.take(&quota, now + SPENT), Take::Ask);
}

#[test]
fn what_is_not_used_goes_back() {
    let (mut chunk, quota) = (Chunk::default(), quota(Some(100), None));
    let now = at(Duration::ZERO);
    let question = chunk.ask(&quota, 5, now);
    answer(&mut chunk, question, 5, 0, now);
    let Take::Taken(taken) = chunk.take(&quota, now) else {
        panic!("five are there");
    };
    chunk.give_back(taken);
    assert!(matches!(chunk.take(&quota, now), Take::Taken(_)));
    assert!(!chunk.has_report(&quota, now), "in use");
    assert!(chunk.has_report(&quota, now + IDLE));
    let question = chunk.tell(&quota, now + IDLE);
    assert_eq!((question.returned, question.mine.requests), (4, 1));
    // Gone before the engine has answered.
    assert_eq!(chunk.take(&quota, now + IDLE), Take::Ask);
    answer(&mut chunk, question, 0, 0, now + IDLE);
    assert!(!chunk.has_report(&quota, now + IDLE * 2));
    assert_eq!(chunk.give_all_back(&quota, now + IDLE * 2), None);
}

#[test]
fn a_span_that_is_over_leaves_nothing_behind() {
    let (mut chunk, quota) = (Chunk::default(), quota(Some(100), Some(1_000)));
    let now = at(Duration::ZERO);
    let question = chunk.ask(&quota, 5, now);
    answer(&mut chunk, question, 5, 0, now);
    let Take::Taken(taken) = chunk.take(&quota, now) else {
        panic!("five are there");
    };
    chunk.add_bytes(1_000, now);
    assert!(chunk.has_exceeded(&quota, now).is_some());
    let tomorrow = now + SECOND * 3_600;
    assert_eq!(chunk.has_exceeded(&quota, tomorrow), None);
    assert_eq!(chunk.take(&quota, tomorrow), Take::Ask);
    chunk.give_back(taken);
    let question = chunk.ask(&quota, 1, tomorrow);
    assert_eq!((question.span, question.mine), (None, Totals::default()));
}

#[test]
fn the_answer_to_a_question_of_a_span_that_ended_counts_what_came_since() {
    let (mut chunk, quota) = (Chunk::default(), quota(Some(100), None));
    let now = at(Duration::ZERO);
    let question = chunk.ask(&quota, 5, now);
    answer(&mut chunk, question, 5, 0, now);
    let question = chunk.ask(&quota, 9, now);
    // The answer comes in the next span, in which one request was refused already.
    let later = now + SECOND * 3_600;
    assert_eq!(chunk.has_exceeded(&quota, later), None);
    chunk.count(later);
    let charged = Charged { span: 8, left: DAY, granted: 2, requests: 2, ..Charged::default() };
    chunk.answered(question, &charged, later);
    let question = chunk.ask(&quota, 1, later);
    assert_eq!((question.span, question.mine.requests), (Some(8), 3));
    assert!(matches!(chunk.take(&quota, later), Take::Taken(_)));
    assert!(matches!(chunk.take(&quota, later), Take::Taken(_)));
    assert_eq!(chunk.take(&quota, later), Take::Ask);
}

#[test]
fn octets_count_everywhere_and_are_told_soon() {
    let (mut chunk, quota) = (Chunk::default(), quota(None, Some(100)));
    let now = at(Duration::ZERO);
    assert_eq!(chunk.take(&quota, now), Take::Ask);
    let question = chunk.ask(&quota, 1, now);
    assert_eq!(question.wanted, 0);
    answer(&mut chunk, question, 0, 60, now);
    assert!(matches!(chunk.take(&quota, now), Take::Taken(_)));
    chunk.add_bytes(30, now);
    assert!(matches!(chunk.take(&quota, now), Take::Taken(_)));
    assert!(!chunk.has_report(&quota, now));
    assert!(chunk.has_report(&quota, now + UNREPORTED));
    let question = chunk.tell(&quota, now + UNREPORTED);
    assert_eq!(question.mine.bytes, 30);
    answer(&mut chunk, question, 0, 80, now + UNREPORTED);
    assert!(matches!(chunk.take(&quota, now + UNREPORTED), Take::Exceeded(_)));
    // After a while without requests, the instance asks for the octets of the others again.
    let mut chunk = Chunk::default();
    let question = chunk.ask(&quota, 1, now);
    answer(&mut chunk, question, 0, 0, now);
    assert_eq!(chunk.take(&quota, now + OLD), Take::Ask);
}

#[test]
fn an_engine_that_forgot_is_told_until_it_has_heard() {
    let (mut chunk, quota) = (Chunk::default(), quota(Some(100), None));
    let now = at(Duration::ZERO);
    chunk.is_forgotten();
    assert!(!chunk.has_report(&quota, now), "there is nothing to tell");
    let question = chunk.ask(&quota, 2, now);
    answer(&mut chunk, question, 2, 0, now);
    chunk.is_forgotten();
    for _ in 0..2 {
        // The first question has no answer.
        assert!(chunk.has_report(&quota, now + UNREPORTED));
        let question = chunk.tell(&quota, now + UNREPORTED);
        assert_eq!((question.span, question.mine.requests), (Some(7), 2));
    }
    let question = chunk.tell(&quota, now + UNREPORTED);
    answer(&mut chunk, question, 0, 0, now + UNREPORTED);
    assert!(!chunk.has_report(&quota, now + UNREPORTED));
}

#[test]
fn what_the_others_used_is_not_forgotten_with_the_engine() {
    let (mut chunk, quota) = (Chunk::default(), quota(None, Some(100)));
    let now = at(Duration::ZERO);
    let question = chunk.ask(&quota, 1, now);
    answer(&mut chunk, question, 0, 100, now);
    assert!(matches!(chunk.take(&quota, now), Take::Exceeded(_)));
    let question = chunk.tell(&quota, now + OLD);
    let charged = Charged { span: 7, left: SECOND * 3_600, wait: SECOND, ..Charged::default() };
    chunk.answered(question, &charged, now + OLD);
    assert!(matches!(chunk.take(&quota, now + OLD), Take::Exceeded(_)));
}

#[test]
fn a_span_of_another_length_begins_with_what_was_used() {
    let (mut chunk, day) = (Chunk::default(), quota(Some(100), None));
    let now = at(Duration::ZERO);
    let question = chunk.ask(&day, 5, now);
    answer(&mut chunk, question, 5, 0, now);
    assert!(matches!(chunk.take(&day, now), Take::Taken(_)));
    let hour = Quota { per: SECOND * 3_600, ..day };
    assert_eq!(chunk.take(&hour, now), Take::Ask);
    let question = chunk.ask(&hour, 1, now);
    assert_eq!((question.span, question.mine.requests), (None, 1));
}
