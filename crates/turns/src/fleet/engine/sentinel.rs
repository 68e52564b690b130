//! The question to the sentinels: where is the primary?

use redis::Value;

use super::Settings;
use super::connection::{ConnectError, Opened};
use super::reply::text_of;
use crate::fleet::survey::ServerFault;
use crawlgate_config::Endpoint;

impl Settings {
    /// Returns the primary that the first answering sentinel names.
    ///
    /// # Errors
    /// When none answers, or none knows it; the message holds the answer of each.
    pub(super) async fn primary(&self) -> Result<Endpoint, ConnectError> {
        let mut failures = Vec::new();
        for sentinel in &self.sentinels {
            match self.asked(sentinel).await {
                Ok(primary) => return Ok(primary),
                Err(why) => failures.push(why),
            }
        }
        Err(ConnectError::Unnamed(failures))
    }

    async fn asked(&self, sentinel: &Endpoint) -> Result<Endpoint, ConnectError> {
        let failed = |fault: ServerFault| ConnectError::server(sentinel, fault);
        let asking = async {
            let Opened {
                mut link, driver, ..
            } = self.open(sentinel, false).await.map_err(failed)?;
            let mut command = redis::cmd("SENTINEL");
            command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
            let answer = command.query_async(&mut link).await;
            driver.abort();
            match answer.map_err(|error| failed(ServerFault::Redis(error)))? {
                Value::Array(place) => endpoint(&place).ok_or_else(|| failed(ServerFault::Strange)),
                _ => Err(ConnectError::Unknown {
                    at: sentinel.clone(),
                    master: self.master.clone(),
                }),
            }
        };
        let asked = tokio::time::timeout(self.timeout * 2, asking).await;
        asked.unwrap_or_else(|_| Err(ConnectError::Silent(sentinel.clone())))
    }
}

/// Reads a host and a port that others have chosen.
pub(super) fn endpoint(place: &[Value]) -> Option<Endpoint> {
    let [host, port] = place else { return None };
    Endpoint::from_parts(text_of(host)?, text_of(port)?.parse().ok()?)
}
