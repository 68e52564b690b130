//! The calls of the interface as scripts with their arguments, and their replies.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::super::coordinator::{
    AcquireFetch, Call, Coordinator, CoordinatorError, EngineTime, FetchLease, Heartbeat,
    HeartbeatReply, MemberRow, NAME_HELD, News, Observed, PublishState, Published, SealedOverrides,
    SharedState, StateKey, Token,
};
use super::super::counts::Counts;
use super::super::quota::{ChargeQuota, Charged};
use super::super::reservation::{
    GiveBack, OriginBackoff, ReportBackoff, Reserve, Reserved, SLOT_LIFE,
};
use super::argument::{Argument, micros, millis};
use super::reply::{Reply, foreign};
use super::script::Script;
use super::{Engine, FAILOVER, LOSS};
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
            let quiet = match self.settings.sentinels.is_empty() {
                true => LOSS,
                false => FAILOVER,
            };
            let keys = &self.keys;
            let keys = [
                &*keys.generation,
                &keys.members,
                &keys.reports,
                &keys.counters,
                &keys.news,
            ];
            let new = hex(random);
            let arguments = [
                beat.name.into(),
                beat.report.into(),
                millis(beat.forget_after),
                new.as_str().into(),
                connection.run_id().into(),
                micros(quiet),
                beat.after.map_or(Argument::from(""), Argument::from),
                beat.process.into(),
                millis(NAME_HELD),
                millis(SLOT_LIFE),
                beat.key.into(),
            ];
            let value = self
                .call_regardless(&connection, Script::Heartbeat, &keys, &arguments)
                .await?;
            let mut reply = Reply::of(value)?;
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
                has_gap: beat.after.is_some_and(|after| match items.is_empty() {
                    // The counter went on without its messages, or back.
                    true => last != after,
                    false => first != after.saturating_add(1),
                }),
                last,
                items,
            };
            Ok(HeartbeatReply {
                generation: self.in_generation(id),
                overrides,
                news,
                members,
            })
        })
    }

    fn leave<'a>(&'a self, name: &'a str, process: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let connection = self.connected()?;
            let keys = [&*self.keys.members, &self.keys.reports];
            let arguments = [name.into(), process.into()];
            self.call_regardless(&connection, Script::Leave, &keys, &arguments)
                .await
                .map(drop)
        })
    }

    fn announce<'a>(&'a self, item: &'a str) -> Call<'a, ()> {
        Box::pin(async move {
            let keys = [&*self.keys.counters, &self.keys.news];
            self.call(Script::Announce, &keys, &[item.into()])
                .await
                .map(drop)
        })
    }

    fn acquire_fetch<'a>(&'a self, ask: AcquireFetch<'a>) -> Call<'a, FetchLease> {
        Box::pin(async move {
            let [state, lease] = self.keys.state(ask.key);
            let arguments = [
                ask.holder.into(),
                ask.known.0.into(),
                millis(ask.lease),
                ask.highest.0.into(),
            ];
            let keys = [&*state, &lease];
            let mut reply = self.call(Script::AcquireFetch, &keys, &arguments).await?;
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
            let arguments = [
                state.holder.into(),
                state.token.0.into(),
                state.sealed.into(),
                millis(state.keep),
            ];
            let keys = [&*place, &lease];
            let mut reply = self.call(Script::PublishState, &keys, &arguments).await?;
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
            let arguments = [holder.into()];
            self.call(Script::ReleaseFetch, &[&lease], &arguments)
                .await
                .map(drop)
        })
    }

    fn add_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64> {
        Box::pin(self.put_override(&self.keys.overrides, id, sealed))
    }

    fn remove_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64> {
        Box::pin(self.put_override(&self.keys.overrides_removed, id, sealed))
    }

    fn overrides(&self) -> Call<'_, SealedOverrides> {
        Box::pin(self.all_overrides())
    }

    fn members(&self) -> Call<'_, Vec<MemberRow>> {
        Box::pin(self.all_members())
    }

    fn observe(&self) -> Call<'_, Observed> {
        Box::pin(async move {
            let connection = self.connected()?;
            self.observe_over(&mut connection.link(), connection.at())
                .await
        })
    }

    fn counts(&self) -> Option<&Counts> {
        Some(&self.counts)
    }

    fn reserve<'a>(&'a self, ask: Reserve<'a>) -> Call<'a, Reserved> {
        Box::pin(self.reserve_turns(ask))
    }

    fn give_back<'a>(&'a self, turn: GiveBack<'a>) -> Call<'a, ()> {
        Box::pin(self.give_turn_back(turn))
    }

    fn report_backoff<'a>(&'a self, report: ReportBackoff<'a>) -> Call<'a, OriginBackoff> {
        Box::pin(self.enter_sign(report))
    }

    fn renew_slots<'a>(&'a self, origin: &'a str, slots: &'a [String]) -> Call<'a, ()> {
        Box::pin(self.renew(origin, slots))
    }

    fn release_slot<'a>(&'a self, origin: &'a str, slot: &'a str) -> Call<'a, ()> {
        Box::pin(self.release(origin, slot))
    }

    fn charge_quota<'a>(&'a self, charge: ChargeQuota<'a>) -> Call<'a, Charged> {
        Box::pin(self.charge(charge))
    }
}

/// Reads a state, which stands behind its token.
fn shared_state(reply: &mut Reply) -> Result<SharedState, CoordinatorError> {
    let octets = reply.octets()?.ok_or_else(foreign)?;
    let end = octets
        .iter()
        .position(|octet| *octet == b' ')
        .ok_or_else(foreign)?;
    let (token, rest) = octets.split_at(end);
    let token = std::str::from_utf8(token).ok();
    let token = token
        .and_then(|token| token.parse().ok())
        .ok_or_else(foreign)?;
    Ok(SharedState {
        token: Token(token),
        sealed: rest.get(1..).unwrap_or_default().to_vec(),
    })
}
