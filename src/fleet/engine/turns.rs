//! The turns at the origins, by scripts.

use std::time::Duration;

use super::argument::{Argument, micros};
use super::reply::{Reply, foreign};
use super::script::Script;
use super::{Engine, Keys};
use crate::fleet::coordinator::{CoordinatorError, EngineTime};
use crate::fleet::reservation::{
    GiveBack, GroupInterval, NEAR, ReportBackoff, Reserve, Reserved, ReservedTurn, SLOT_LIFE, Sign,
    Trouble, TurnKind,
};

impl Keys {
    /// Returns the names of the keys for turns and slots of an origin.
    pub(super) fn turns(&self, origin: &str) -> [String; 2] {
        let of = |name: &str| [&*self.prefix, ":{", origin, "}:", name].concat();
        [of("turns"), of("slots")]
    }
}

impl Engine {
    pub(super) async fn reserve_turns(
        &self,
        ask: Reserve<'_>,
    ) -> Result<Reserved, CoordinatorError> {
        let [turns, slots] = self.keys.turns(ask.origin);
        let kind = match ask.kind {
            TurnKind::Page => "page",
            TurnKind::Robots => "robots",
            TurnKind::Now => "now",
            TurnKind::RedirectHop => "aside",
        };
        let (group, interval) = group(ask.group);
        let names = ask.slots.map_or(&[][..], |slots| slots.names);
        let mut arguments = vec![
            u64::from(ask.wanted).into(),
            kind.into(),
            micros(ask.horizon),
            micros(NEAR),
            micros(ask.interval),
            u64::from(ask.burst.max(1)).into(),
            group,
            interval,
            micros(ask.rest),
            micros(ask.gap),
            u64::from(ask.slots.map_or(0, |slots| slots.most)).into(),
            micros(SLOT_LIFE),
            micros(ask.memory),
        ];
        arguments.extend(names.iter().map(|name| Argument::from(name.as_str())));
        let keys = [&*turns, &slots, &self.keys.counters];
        let reserved = reserved(self.call(Script::Reserve, &keys, &arguments).await?)?;
        self.counts.turns(ask.wanted, reserved.turns.len());
        Ok(reserved)
    }

    pub(super) async fn give_turn_back(&self, turn: GiveBack<'_>) -> Result<(), CoordinatorError> {
        let [turns, _] = self.keys.turns(turn.origin);
        let EngineTime(at) = turn.at;
        let (group, interval) = group(turn.group);
        let arguments = [at.into(), group, interval];
        self.call(Script::GiveBack, &[&turns], &arguments)
            .await
            .map(drop)
    }

    pub(super) async fn enter_sign(
        &self,
        report: ReportBackoff<'_>,
    ) -> Result<Trouble, CoordinatorError> {
        let [turns, _] = self.keys.turns(report.origin);
        let (word, retry_after) = match report.sign {
            Sign::Fine => ("fine", Duration::ZERO),
            Sign::Refused { retry_after } => ("refused", retry_after),
            Sign::Troubled => ("troubled", Duration::ZERO),
        };
        let arguments = [
            word.into(),
            micros(report.age),
            micros(report.first),
            micros(report.widest),
            micros(retry_after),
            micros(report.longest),
            micros(report.memory),
        ];
        let mut reply = self
            .call(Script::ReportBackoff, &[&turns], &arguments)
            .await?;
        expect_ok(&mut reply)?;
        Ok(Trouble {
            gap: span(&mut reply)?,
            rest: span(&mut reply)?,
        })
    }

    pub(super) async fn renew(
        &self,
        origin: &str,
        slots: &[String],
    ) -> Result<(), CoordinatorError> {
        let [_, key] = self.keys.turns(origin);
        let names = slots.iter().map(|name| Argument::from(name.as_str()));
        let arguments: Vec<_> = [micros(SLOT_LIFE)].into_iter().chain(names).collect();
        let connection = self.connected()?;
        let keys = [&*key];
        let reply = self.call_regardless(&connection, Script::RenewSlots, &keys, &arguments);
        reply.await.map(drop)
    }

    pub(super) async fn release(&self, origin: &str, slot: &str) -> Result<(), CoordinatorError> {
        let [_, key] = self.keys.turns(origin);
        let connection = self.connected()?;
        let arguments = [slot.into()];
        let keys = [&*key];
        let reply = self.call_regardless(&connection, Script::ReleaseSlot, &keys, &arguments);
        reply.await.map(drop)
    }
}

fn group(group: Option<GroupInterval<'_>>) -> (Argument<'_>, Argument<'static>) {
    match group {
        Some(group) => (group.name.into(), micros(group.interval)),
        None => ("".into(), 0.into()),
    }
}

fn reserved(mut reply: Reply) -> Result<Reserved, CoordinatorError> {
    expect_ok(&mut reply)?;
    let now = reply.number()?;
    let after = |at: u64| Duration::from_micros(at.saturating_sub(now));
    let next = after(reply.number()?);
    let (is_full, is_of_group) = (reply.number()? == 1, reply.number()? == 1);
    let trouble = Trouble {
        gap: span(&mut reply)?,
        rest: span(&mut reply)?,
    };
    let mut list = reply.list()?;
    let mut turns = Vec::new();
    while !list.is_empty() {
        let at = list.number()?;
        turns.push(ReservedTurn {
            after: after(at),
            at: EngineTime(at),
        });
    }
    Ok(Reserved {
        turns,
        next,
        is_full,
        is_of_group,
        trouble,
    })
}

fn expect_ok(reply: &mut Reply) -> Result<(), CoordinatorError> {
    match reply.text()?.as_str() {
        "OK" => Ok(()),
        _ => Err(foreign()),
    }
}

fn span(reply: &mut Reply) -> Result<Duration, CoordinatorError> {
    reply.number().map(Duration::from_micros)
}
