//! Reads what an engine tells of itself and of the members, by plain commands: a command does so without being a member.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::time::timeout;

use super::Engine;
use super::connection::{CONNECT, ConnectError};
use super::reply::text_of;
use super::survey::{ask, pairs};
use crate::fleet::coordinator::{CoordinatorError, EngineReport, MemberRow, Observed};
use crate::fleet::survey::{fields_of_info, product};
use crawlgate_config::Endpoint;
use crawlgate_system::clock::Moment;

impl Engine {
    /// Asks the engine over a connection of its own.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn observe_once(&self) -> Result<Observed, CoordinatorError> {
        let opened = timeout(CONNECT, self.settings.open_primary()).await;
        let opened = opened.unwrap_or(Err(ConnectError::Late));
        let (at, mut opened) = opened.map_err(CoordinatorError::unreachable)?;
        self.observe_over(&mut opened.link, &at).await
    }

    /// Asks the engine at `at` over this connection.
    pub(super) async fn observe_over(
        &self,
        link: &mut MultiplexedConnection,
        at: &Endpoint,
    ) -> Result<Observed, CoordinatorError> {
        let keys = &self.keys;
        let mut info = redis::cmd("INFO");
        info.arg("server").arg("memory");
        let info = self.query(link, info).await?;
        let info = fields_of_info(&text_of(&info).unwrap_or_default());
        let number = |name: &str| info.get(name).and_then(|text| text.parse().ok());
        let mut get = redis::cmd("GET");
        get.arg(&keys.generation);
        let generation = text_of(&self.query(link, get).await?);
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(&keys.members)
            .arg("-inf")
            .arg("+inf")
            .arg("WITHSCORES");
        let heard = pairs(&self.query(link, list).await?);
        let mut reports = redis::cmd("HGETALL");
        reports.arg(&keys.reports);
        let mut reports = pairs(&self.query(link, reports).await?);
        // Last, so that no member was heard of after it.
        let now = micros(&self.query(link, redis::cmd("TIME")).await?);
        let since = |micros: u64| Duration::from_micros(now.saturating_sub(micros));
        let began = generation.and_then(|text| text.split(' ').nth(1)?.parse().ok());
        let members = heard.into_iter().map(|(name, score)| MemberRow {
            report: reports.remove(&name).unwrap_or_default(),
            name,
            silent: since(
                score
                    .parse::<u64>()
                    .unwrap_or_default()
                    .saturating_mul(1_000),
            ),
        });
        Ok(Observed {
            engine: EngineReport {
                address: at.to_string(),
                version: product(&info),
                used: number("used_memory").unwrap_or_default(),
                limit: number("maxmemory").unwrap_or_default(),
                generation: began.map(since),
                time: (now > 0).then(|| Moment::from_millis(now / 1_000)),
            },
            members: members.collect(),
        })
    }

    async fn query(
        &self,
        link: &mut MultiplexedConnection,
        command: Cmd,
    ) -> Result<Value, CoordinatorError> {
        let within = self.settings.timeout;
        match timeout(within, ask(link, command)).await {
            Ok(Ok(answer)) => answer.map_err(CoordinatorError::refused),
            Ok(Err(why)) => Err(CoordinatorError::unreachable(why)),
            Err(_) => Err(CoordinatorError::unreachable(format!(
                "no answer within {within:?}"
            ))),
        }
    }
}

/// Reads the answer to `TIME`.
fn micros(time: &Value) -> u64 {
    let Value::Array(parts) = time else { return 0 };
    let mut numbers = parts.iter().map(|part| text_of(part)?.parse::<u64>().ok());
    let mut next = || numbers.next().flatten().unwrap_or_default();
    next().saturating_mul(1_000_000).saturating_add(next())
}
