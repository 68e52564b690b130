//! Random sequences of questions: both implementations give the same answers, to the microsecond.
//!
//! The real engine runs with a clock in hand (`clocked`). These differences are intended, and no sequence meets them:
//!
//! - A real engine grants nothing in the first second of a generation, and a generation begins with the first heartbeat. Here that
//!   heartbeat comes at once, and its generation begins a second earlier.
//! - A real engine drops an origin about which it was not asked for minutes. After that, no report of an earlier
//!   request comes, no instance knows of a gap, and an origin that nothing bounds stays so.
//!
//! The sequences are the same in each run. `PROPTEST_CASES` sets their number, and makes them new ones.

mod steps;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crawlgate_system::clock::{Clock, Moment};
use crawlgate_turns::fleet::coordinator::{
    AcquireFetch, Call, Coordinator, CoordinatorError, EngineTime, FetchLease, Heartbeat,
    PublishState, SealedOverrides, StateKey, Token,
};
use crawlgate_turns::fleet::in_memory::InMemoryEngine;
use crawlgate_turns::fleet::quota::{ChargeQuota, Charged};
use crawlgate_turns::fleet::reservation::{
    GiveBack, GroupInterval, ReportBackoff, Reserve, Sign, Slots, TurnKind,
};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRng, TestRunner};

use self::steps::{ACCOUNTS, Charge, GROUPS, NAMES, ORIGINS, RATES, SPANS, Step, Turns, sequences};
use super::clocked::Clocked;
use super::{beat, end_quiet_time, report};
use crate::support::Engine;

/// The sequences for each engine.
const SEQUENCES: u32 = 30;

/// A turn that was given.
#[derive(Debug, Clone, Copy)]
struct Given {
    origin: usize,
    at: EngineTime,
    group: Option<usize>,
}

/// Both implementations, and what the instances know of their answers.
struct Both<'a> {
    real: &'a Clocked,
    world: Arc<InMemoryEngine>,
    clock: Clock,
    /// The time at which the present generation began.
    began: Moment,
    /// The milliseconds by which the clock may still be set back: by more, a real engine forgets slots early.
    may_set_back: u64,
    /// In memory, and in the real engine.
    instances: [[Arc<dyn Coordinator>; 2]; NAMES.len()],
    news: [u64; NAMES.len()],
    /// The tokens of each state.
    tokens: [Vec<Token>; 2],
    given: Vec<Given>,
    slots: Vec<String>,
    charged: HashMap<(usize, usize, usize), Charged>,
}

impl<'a> Both<'a> {
    async fn begin(real: &'a Clocked) -> Both<'a> {
        let start = Moment::from_millis(1_795_000_000_000);
        let clock = Clock::manual(start);
        let world = InMemoryEngine::new(clock.clone());
        assert_eq!(real.engine.ask(&["FLUSHALL"]), "+OK\r\n");
        real.set(start);
        let instances = NAMES.map(|_| [world.coordinator() as Arc<dyn Coordinator>, real.join()]);
        for (number, (pair, name)) in instances.iter().zip(NAMES).enumerate() {
            let [memory, engine] = pair;
            let heard = beat(engine, name, None).await;
            if number == 0 {
                end_quiet_time(&real.engine);
            }
            assert_eq!(beat(memory, name, None).await, heard);
        }
        Both {
            real,
            world,
            clock,
            began: start,
            may_set_back: 10_000,
            instances,
            news: [0; NAMES.len()],
            tokens: [vec![Token(0)], vec![Token(0)]],
            given: Vec::new(),
            slots: vec!["a slot of before".to_owned()],
            charged: HashMap::new(),
        }
    }

    /// Asks both, and compares their answers.
    async fn ask<'b, T: PartialEq + Debug>(
        &'b self,
        who: usize,
        call: impl Fn(&'b dyn Coordinator) -> Call<'b, T>,
    ) -> Result<Result<T, CoordinatorError>, TestCaseError> {
        let [memory, real] = &self.instances[who];
        let want = call(&**memory).await;
        let got = call(&**real).await;
        prop_assert_eq!(&got, &want, "the real engine, and that in memory");
        Ok(want)
    }

    fn set(&self, now: Moment) {
        self.clock.set(now);
        self.real.set(now);
    }

    async fn take(&mut self, number: usize, who: usize, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Wait(millis) => self.set(self.clock.now() + ms(*millis)),
            Step::SetBack(millis) => {
                let back = self.may_set_back.min(*millis);
                self.may_set_back -= back;
                let earlier = self.clock.now() - ms(back);
                // Before its beginning, another generation begins.
                self.set(earlier.max(self.began));
            }
            Step::Forget => self.forget().await?,
            Step::Heartbeat { is_first, process } => {
                self.heartbeat(who, (!is_first).then_some(self.news[who]), process).await?;
            }
            Step::Leave(process) => {
                let _ = self.ask(who, |to| to.leave(NAMES[who], process)).await?;
            }
            Step::Announce => {
                let item = number.to_string();
                let _ = self.ask(who, |to| to.announce(&item)).await?;
            }
            Step::Members => {
                let _ = self.ask(who, |to| Box::pin(members(to))).await?;
            }
            Step::PutOverride { id, sealed, is_removal } => {
                let put = self.ask(who, |to| match is_removal {
                    true => to.remove_override(id, sealed),
                    false => to.add_override(id, sealed),
                });
                let _ = put.await?;
            }
            Step::Overrides => {
                let _ = self.ask(who, |to| Box::pin(overrides_of(to))).await?;
            }
            Step::AcquireFetch { .. } | Step::PublishState { .. } | Step::ReleaseFetch { .. } => {
                self.fetch(number, who, step).await?;
            }
            Step::Reserve(turns) => self.reserve(who, *turns).await?,
            Step::GiveBack(_) if self.given.is_empty() => {}
            Step::GiveBack(of) => {
                let given = *of.get(&self.given);
                let turn = GiveBack {
                    origin: ORIGINS[given.origin],
                    at: given.at,
                    group: given.group.map(group),
                };
                let _ = self.ask(who, |to| to.give_back(turn)).await?;
            }
            Step::Report { origin, sign, age, first } => {
                self.report(who, *origin, *sign, (*age, *first)).await?;
            }
            Step::RenewSlots(origin, slots) => {
                let slots = slots.iter().map(|slot| slot.get(&self.slots).clone());
                let slots: Vec<String> = slots.collect();
                let _ = self.ask(who, |to| to.renew_slots(ORIGINS[*origin], &slots)).await?;
            }
            Step::ReleaseSlot(origin, slot) => {
                let slot = slot.get(&self.slots).clone();
                let _ = self.ask(who, |to| to.release_slot(ORIGINS[*origin], &slot)).await?;
            }
            Step::ChargeQuota(charge) => self.charge(who, *charge).await?,
        }
        Ok(())
    }

    async fn forget(&mut self) -> Result<(), TestCaseError> {
        let now = self.clock.now();
        assert_eq!(self.real.engine.ask(&["FLUSHALL"]), "+OK\r\n");
        self.set(now);
        self.world.forget();
        self.began = now;
        self.heartbeat(0, Some(self.news[0]), "0a").await?;
        end_quiet_time(&self.real.engine);
        Ok(())
    }

    async fn heartbeat(
        &mut self,
        who: usize,
        after: Option<u64>,
        process: &str,
    ) -> Result<(), TestCaseError> {
        let report = report(process);
        let beat = Heartbeat {
            name: NAMES[who],
            process,
            key: super::KEY,
            report: &report,
            after,
            forget_after: Duration::from_secs(18),
        };
        if let Ok(heard) = self.ask(who, |to| to.heartbeat(beat)).await? {
            self.news[who] = heard.news.last;
        }
        Ok(())
    }

    async fn fetch(&mut self, number: usize, who: usize, step: &Step) -> Result<(), TestCaseError> {
        let of = |key: usize| StateKey {
            origin: ORIGINS[key].to_owned(),
            variant: "00000000-11111111".to_owned(),
        };
        match step {
            Step::AcquireFetch { key, holder, known, lease } => {
                let place = of(*key);
                let ask = AcquireFetch {
                    key: &place,
                    holder,
                    known: *known.get(&self.tokens[*key]),
                    highest: self.tokens.concat().into_iter().max().unwrap_or_default(),
                    lease: ms(*lease),
                };
                let answer = self.ask(who, |to| to.acquire_fetch(ask)).await?;
                if let Ok(FetchLease::Acquired { token, .. }) = answer {
                    self.tokens[*key].push(token);
                }
            }
            Step::PublishState { key, holder, token, keep } => {
                let (place, sealed) = (of(*key), number.to_string());
                let state = PublishState {
                    key: &place,
                    holder,
                    token: *token.get(&self.tokens[*key]),
                    sealed: sealed.as_bytes(),
                    keep: ms(*keep),
                };
                let _ = self.ask(who, |to| to.publish_state(state)).await?;
            }
            Step::ReleaseFetch { key, holder } => {
                let place = of(*key);
                let _ = self.ask(who, |to| to.release_fetch(&place, holder)).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn reserve(&mut self, who: usize, turns: Turns) -> Result<(), TestCaseError> {
        let (interval, burst) = RATES[turns.rate];
        let first = self.slots.len();
        let names = (first..).take(turns.wanted as usize);
        let names: Vec<String> = names.map(|number| format!("{}/{number}", NAMES[who])).collect();
        let ask = Reserve {
            origin: ORIGINS[turns.origin],
            kind: turns.kind,
            wanted: turns.wanted,
            horizon: ms(turns.horizon),
            interval: Duration::from_micros(interval),
            burst,
            group: turns.group.map(group),
            rest: ms(turns.rest),
            gap: ms(turns.gap),
            slots: turns.most.map(|most| Slots { most, names: &names }),
            memory: memory(turns.origin),
        };
        let Ok(reserved) = self.ask(who, |to| to.reserve(ask)).await? else {
            return Ok(());
        };
        let given = reserved.turns.iter().map(|turn| Given {
            origin: turns.origin,
            at: turn.at,
            group: turns.group,
        });
        self.given.extend(given);
        if turns.most.is_some() {
            self.slots.extend(names);
        }
        Ok(())
    }

    /// Sends a request without regard to its turn, and reports how it went.
    async fn report(
        &mut self,
        who: usize,
        origin: usize,
        sign: Sign,
        (age, first): (u64, u64),
    ) -> Result<(), TestCaseError> {
        let sent = Turns {
            origin,
            kind: TurnKind::Now,
            rate: usize::from(origin != 0),
            group: None,
            most: None,
            wanted: 1,
            horizon: 0,
            rest: 0,
            gap: 0,
        };
        self.reserve(who, sent).await?;
        let report = ReportBackoff {
            origin: ORIGINS[origin],
            sign,
            age: ms(age),
            first: ms(first),
            widest: Duration::from_secs(3_600),
            longest: Duration::from_secs(3_600),
            memory: memory(origin),
        };
        let _ = self.ask(who, |to| to.report_backoff(report)).await?;
        Ok(())
    }

    async fn charge(&mut self, who: usize, charge: Charge) -> Result<(), TestCaseError> {
        let key = (who, charge.account, charge.per);
        let last = self.charged.get(&key).copied().unwrap_or_default();
        let question = ChargeQuota {
            account: ACCOUNTS[charge.account],
            instance: NAMES[who],
            per: ms(SPANS[charge.per]),
            span: charge.late.map(|late| last.span.saturating_sub(late)),
            requests: match charge.late {
                Some(_) => (last.requests + charge.requests).saturating_sub(charge.returned),
                None => charge.requests,
            },
            bytes: charge.bytes + charge.late.map_or(0, |_| last.bytes),
            returned: charge.returned,
            wanted: charge.wanted,
            most_requests: charge.most_requests,
            most_bytes: charge.most_bytes,
            members: charge.members,
            after: ms(charge.after),
        };
        if let Ok(charged) = self.ask(who, |to| to.charge_quota(question)).await? {
            self.charged.insert(key, charged);
        }
        Ok(())
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn group(number: usize) -> GroupInterval<'static> {
    let (name, interval) = GROUPS[number];
    let interval = Duration::from_micros(interval);
    GroupInterval { name, interval }
}

/// Returns the longest time for which a request delays another.
fn memory(origin: usize) -> Duration {
    Duration::from_secs(if origin == 0 { 0 } else { 60 })
}

/// Returns the members by name.
async fn members(
    to: &dyn Coordinator,
) -> Result<Vec<(String, String, Duration)>, CoordinatorError> {
    let rows = to.members().await?.into_iter();
    let mut rows: Vec<_> = rows.map(|row| (row.name, row.report, row.silent)).collect();
    rows.sort();
    Ok(rows)
}

/// Returns the overrides by identifier.
async fn overrides_of(to: &dyn Coordinator) -> Result<SealedOverrides, CoordinatorError> {
    let mut all = to.overrides().await?;
    all.added.sort();
    all.removed.sort();
    Ok(all)
}

#[test]
fn any_sequence_of_questions_has_the_same_answers_from_a_real_engine_and_in_memory() {
    for engine in Engine::each() {
        let real = Clocked::new(engine);
        let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = match std::env::var_os("PROPTEST_CASES") {
            Some(_) => TestRunner::new(config),
            None => {
                config.cases = SEQUENCES;
                let same = TestRng::deterministic_rng(config.rng_algorithm);
                TestRunner::new_with_rng(config, same)
            }
        };
        let steps = prop_oneof![2 => sequences(false), 1 => sequences(true)];
        let run = runner.run(&steps, |steps| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut both = Both::begin(&real).await;
                for (number, (who, step)) in steps.iter().enumerate() {
                    let taken = both.take(number, *who, step).await;
                    taken.map_err(|error| match error {
                        TestCaseError::Fail(why) => {
                            TestCaseError::fail(format!("step {number}, {step:?}: {why}"))
                        }
                        rejected => rejected,
                    })?;
                }
                Ok(())
            })
        });
        if let Err(failure) = run {
            panic!("{failure}\n{runner}");
        }
    }
}
