//! The calls of the interface as scripts with their arguments, and their replies.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::script::Script;
use super::script::{Reply, foreign};
use super::{Engine, FAILOVER, LOSS};
use crate::fleet::coordinator::{
    AcquireFetch, Call, Coordinator, CoordinatorError, EngineTime, FetchLease, Heartbeat,
    HeartbeatReply, MemberRow, NAME_HELD, News, Observed, PublishState, Published, SealedOverrides,
    SharedState, StateKey, Token,
};
use crate::fleet::counts::Counts;
use crate::fleet::quota::{ChargeQuota, Charged};
use crate::fleet::reservation::{
    GiveBack, OriginBackoff, ReportBackoff, Reserve, Reserved, SLOT_LIFE, Sign,
};
use crate::history::micros;
use crawlgate_text::hex;

/// The answer to a heartbeat while another process has the name. No generation has this name.
const DUPLICATE: &str = "DUPLICATE";

/// The answer to a heartbeat while a member has another key.
const OTHER_KEY: &str = "OTHER_KEY";

impl Coordinator for Engine {
    fn keep_connected(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.connections())
    }

    fn heartbeat<'a>(&'a self, beat: Heartbeat<'a>) -> Call<'a, HeartbeatReply> {
        Box::pin(async move {
            let connection = self.connected()?;
            let mut random = [0; 8];
            aws_lc_rs::rand::fill(&mut random)
                .map_err(|_| CoordinatorError::refused("this system gives no random numbers"))?;
            let has_sentinels = !self.settings.sentinels.is_empty();
            let quiet = if has_sentinels { FAILOVER } else { LOSS };
            let keys = &self.keys;
            let keys =
                [&*keys.generation, &keys.members, &keys.reports, &keys.counters, &keys.news];
            let new = hex(random);
            let arguments = (
                beat.name,
                beat.report,
                millis(beat.forget_after),
                new,
                connection.run_id(),
                micros(quiet),
                or_any(beat.after),
                beat.process,
                millis(NAME_HELD),
                millis(SLOT_LIFE),
                beat.key,
            );
            let ran = self.run(&connection, Script::Heartbeat, None, &keys, arguments);
            let mut reply = Reply::of(ran.await?)?;
            let id = reply.text()?;
            if id == DUPLICATE {
                return Err(CoordinatorError::Duplicate(beat.name.into()));
            }
            if id == OTHER_KEY {
                return Err(CoordinatorError::OtherKey(reply.text()?.into()));
            }
            let overrides = reply.number()?;
            let (last, first) = (reply.number()?, reply.number()?);
            let mut items = Vec::new();
            let mut texts = reply.list()?;
            while !texts.is_empty() {
                items.push(texts.text()?);
            }
            let members = reply.number()?;
            let news = News {
                has_gap: beat.after.is_some_and(|after| {
                    if items.is_empty() {
                        // The counter went on without its messages, or back.
                        last != after
                    } else {
                        first != after.saturating_add(1)
                    }
                }),
                last,
                items,
            };
            Ok(HeartbeatReply { generation: self.in_generation(id), overrides, news, members })
        })
    }

    fn leave<'a>(&'a self, name: &'a str, process: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let keys = [&*self.keys.members, &self.keys.reports];
            self.call_regardless(Script::Leave, &keys, (name, process)).await
        })
    }

    fn announce<'a>(&'a self, item: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let keys = [&*self.keys.counters, &self.keys.news];
            self.call(Script::Announce, &keys, (item,)).await.map(drop)
        })
    }

    fn acquire_fetch<'a>(&'a self, ask: AcquireFetch<'a>) -> Call<'a, FetchLease> {
        Box::pin(async move {
            let [state, lease] = self.keys.state(ask.key);
            let arguments = (ask.holder, ask.known.0, millis(ask.lease), ask.highest.0);
            let keys = [&*state, &lease];
            let mut reply = self.call(Script::AcquireFetch, &keys, arguments).await?;
            let word = reply.text()?;
            let at = EngineTime(reply.number()?);
            match &*word {
                "NEWER" => Ok(FetchLease::Newer(shared_state(&mut reply)?, at)),
                "ACQUIRED" => Ok(FetchLease::Acquired {
                    token: Token(reply.number()?),
                    held: Token(reply.number()?),
                    at,
                }),
                "HELD" => Ok(FetchLease::Held {
                    by: reply.text()?,
                    left: Duration::from_millis(reply.number()?),
                }),
                _ => Err(foreign()),
            }
        })
    }

    fn publish_state<'a>(&'a self, state: PublishState<'a>) -> Call<'a, Published> {
        Box::pin(async move {
            let [place, lease] = self.keys.state(state.key);
            let arguments = (state.holder, state.token.0, state.sealed, millis(state.keep));
            let keys = [&*place, &lease];
            let mut reply = self.call(Script::PublishState, &keys, arguments).await?;
            match &*reply.text()? {
                "DONE" => Ok(Published::Done),
                "SUPERSEDED" => {
                    let at = EngineTime(reply.number()?);
                    Ok(Published::Superseded(shared_state(&mut reply)?, at))
                }
                _ => Err(foreign()),
            }
        })
    }

    fn release_fetch<'a>(&'a self, key: &'a StateKey, holder: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let [_, lease] = self.keys.state(key);
            let keys = [&*lease];
            let called = self.call(Script::ReleaseFetch, &keys, (holder,));
            called.await.map(drop)
        })
    }

    fn add_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64> {
        Box::pin(self.put_override(&self.keys.overrides, id, sealed))
    }

    fn remove_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64> {
        Box::pin(self.put_override(&self.keys.overrides_removed, id, sealed))
    }

    fn overrides(&self) -> Call<'_, SealedOverrides> {
        Box::pin(async move {
            let keys = &self.keys;
            let keys = [&*keys.counters, &keys.overrides, &keys.overrides_removed];
            let mut reply = self.call(Script::Overrides, &keys, NOTHING).await?;
            Ok(SealedOverrides {
                change: reply.number()?,
                added: pairs(reply.list()?)?,
                removed: pairs(reply.list()?)?,
            })
        })
    }

    fn members(&self) -> Call<'_, Vec<MemberRow>> {
        Box::pin(async move {
            let keys = [&*self.keys.members, &self.keys.reports];
            let mut reply = self.call(Script::Members, &keys, NOTHING).await?;
            let (mut list, mut rows) = (reply.list()?, Vec::new());
            while !list.is_empty() {
                rows.push(MemberRow {
                    name: list.text()?,
                    report: list.text()?,
                    silent: Duration::from_millis(list.number()?),
                });
            }
            Ok(rows)
        })
    }

    fn observe(&self) -> Call<'_, Observed> {
        Box::pin(async move {
            let connection = self.connected()?;
            self.observe_over(&mut connection.link(), connection.at()).await
        })
    }

    fn counts(&self) -> Option<&Counts> {
        Some(&self.counts)
    }

    fn reserve<'a>(&'a self, ask: Reserve<'a>) -> Call<'a, Reserved> {
        Box::pin(self.reserve_turns(ask))
    }

    fn give_back<'a>(&'a self, turn: GiveBack<'a>) -> Call<'a, ()> {
        Box::pin(async move {
            let [turns, _] = self.keys.turns(turn.origin);
            let EngineTime(at) = turn.at;
            let group = turn.group.map_or(("", 0), |group| (group.name, micros(group.interval)));
            self.call(Script::GiveBack, &[&turns], (at, group)).await.map(drop)
        })
    }

    fn report_backoff<'a>(&'a self, report: ReportBackoff<'a>) -> Call<'a, OriginBackoff> {
        Box::pin(async move {
            let [turns, _] = self.keys.turns(report.origin);
            let (word, retry_after) = match report.sign {
                Sign::Fine => ("fine", Duration::ZERO),
                Sign::Refused { retry_after } => ("refused", retry_after),
                Sign::Troubled => ("troubled", Duration::ZERO),
            };
            let spans = [
                report.age,
                report.first,
                report.widest,
                retry_after,
                report.longest,
                report.memory,
            ];
            let arguments = (word, &spans.map(micros));
            let mut reply = self.call(Script::ReportBackoff, &[&turns], arguments).await?;
            reply.expect_ok()?;
            Ok(OriginBackoff {
                gap: Duration::from_micros(reply.number()?),
                rest: Duration::from_micros(reply.number()?),
            })
        })
    }

    fn renew_slots<'a>(&'a self, origin: &'a str, slots: &'a [String]) -> Call<'a, ()> {
        Box::pin(async move {
            let [_, key] = self.keys.turns(origin);
            self.call_regardless(Script::RenewSlots, &[&key], (micros(SLOT_LIFE), slots)).await
        })
    }

    fn release_slot<'a>(&'a self, origin: &'a str, slot: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let [_, key] = self.keys.turns(origin);
            self.call_regardless(Script::ReleaseSlot, &[&key], (slot,)).await
        })
    }

    fn charge_quota<'a>(&'a self, charge: ChargeQuota<'a>) -> Call<'a, Charged> {
        Box::pin(async move {
            // Spans of different lengths have accounts of their own.
            let account = format!(
                "{}:{{{}}}:quota:{}",
                self.keys.prefix,
                charge.account,
                charge.per.as_millis()
            );
            let arguments = (
                charge.instance,
                millis(charge.per),
                or_any(charge.span),
                charge.requests,
                charge.bytes,
                charge.returned,
                charge.wanted,
                or_any(charge.most_requests),
                or_any(charge.most_bytes),
                charge.members.max(1),
                micros(charge.after),
            );
            let mut reply = self.call(Script::ChargeQuota, &[&account], arguments).await?;
            reply.expect_ok()?;
            Ok(Charged {
                span: reply.number()?,
                left: Duration::from_millis(reply.number()?),
                granted: reply.number()?,
                requests: reply.number()?,
                bytes: reply.number()?,
                all_bytes: reply.number()?,
                wait: Duration::from_micros(reply.number()?),
            })
        })
    }
}

impl Engine {
    /// Puts sealed content into a set of overrides; returns the number of the last change.
    async fn put_override(
        &self,
        set: &str,
        id: &str,
        sealed: &[u8],
    ) -> Result<u64, CoordinatorError> {
        let keys = [&*self.keys.counters, set];
        let called = self.call(Script::PutOverride, &keys, (id, sealed));
        called.await?.number()
    }
}

/// The arguments of a script that takes none.
const NOTHING: &[u64] = &[];

/// Returns whole milliseconds, at least one: scripts give them as lives of keys, which are positive.
fn millis(span: Duration) -> u64 {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    millis.max(1)
}

/// Returns the digits of a number; nothing for any number.
fn or_any(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// Reads the fields of a hash. A name that is no text is none of ours.
fn pairs(mut list: Reply) -> Result<Vec<(String, Vec<u8>)>, CoordinatorError> {
    let mut pairs = Vec::new();
    while !list.is_empty() {
        let name = list.octets()?.ok_or_else(foreign)?;
        let content = list.octets()?.ok_or_else(foreign)?;
        pairs.push((String::from_utf8_lossy(&name).into_owned(), content));
    }
    Ok(pairs)
}

/// Reads a state, which stands behind its token.
fn shared_state(reply: &mut Reply) -> Result<SharedState, CoordinatorError> {
    let octets = reply.octets()?.ok_or_else(foreign)?;
    let end = memchr::memchr(b' ', &octets).ok_or_else(foreign)?;
    let (token, rest) = octets.split_at(end);
    let token = std::str::from_utf8(token).ok();
    let token = token.and_then(|token| token.parse().ok());
    Ok(SharedState {
        token: Token(token.ok_or_else(foreign)?),
        sealed: rest.get(1..).unwrap_or_default().to_vec(),
    })
}
