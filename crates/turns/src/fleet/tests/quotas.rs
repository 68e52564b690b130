//! The quotas of clients, as `charge_quota.lua` keeps them.
//!
//! Pure: times are microseconds of the engine, and arguments.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::fleet::EngineTime;
use crate::fleet::quota::{ChargeQuota, Charged, span_after};

/// All accounts, by client and length of the span.
#[derive(Debug, Default)]
pub(super) struct Quotas(HashMap<(String, Duration), Account>);

#[derive(Debug, Default)]
struct Account {
    span: u64,
    /// Requests and octets by instance.
    totals: BTreeMap<String, (u64, u64)>,
}

impl Quotas {
    /// Carries out a question at `now`, in a generation that began at `began`.
    pub(super) fn charge(
        &mut self,
        charge: ChargeQuota<'_>,
        now: EngineTime,
        began: EngineTime,
    ) -> Charged {
        let (now, length) = (now.0 / 1_000, millis(charge.per));
        let key = (charge.account.to_owned(), charge.per);
        let account = self.0.entry(key).or_default();
        let last = account.span;
        let span = span_after(last, now / length);
        if span > last {
            account.totals.clear();
        }
        account.span = span;
        let mine = account.totals.entry(charge.instance.to_owned()).or_default();
        *mine = match charge.span {
            None => (mine.0 + charge.requests, mine.1 + charge.bytes),
            Some(of) if of == span || of == last && last > span => (
                mine.0.max(charge.requests + charge.returned) - charge.returned,
                mine.1.max(charge.bytes),
            ),
            Some(_) => *mine,
        };
        let all: (u64, u64) = account
            .totals
            .values()
            .fold((0, 0), |all, one| (all.0.saturating_add(one.0), all.1.saturating_add(one.1)));
        let after = u64::try_from(charge.after.as_millis()).unwrap_or(u64::MAX);
        let from = (began.0 / 1_000).saturating_add(after);
        let wait = from.saturating_sub(now);
        let is_used_up = charge.most_bytes.is_some_and(|most| all.1 >= most);
        let granted = match charge.most_requests {
            _ if wait > 0 || is_used_up => 0,
            Some(most) => {
                let left = most.saturating_sub(all.0);
                let part = (left / (50 * charge.members.max(1))).max(1);
                charge.wanted.min(left).min(part)
            }
            None => charge.wanted,
        };
        let mine = account.totals.entry(charge.instance.to_owned()).or_default();
        mine.0 += granted;
        Charged {
            span,
            left: Duration::from_millis((span + 1) * length - now),
            granted,
            requests: mine.0,
            bytes: mine.1,
            all_bytes: all.1,
            wait: Duration::from_millis(wait),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}
