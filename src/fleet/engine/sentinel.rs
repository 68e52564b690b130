//! The question to the sentinels: where is the primary?

use redis::Value;

use super::Settings;
use super::connection::Opened;
use super::reply::text_of;
use crate::config::Endpoint;

impl Settings {
    /// Returns the primary that the first answering sentinel names.
    ///
    /// # Errors
    /// When none answers, or none knows it; the message holds the answer of each.
    pub(super) async fn primary(&self) -> Result<Endpoint, String> {
        let mut failures = Vec::new();
        for sentinel in &self.sentinels {
            match self.asked(sentinel).await {
                Ok(primary) => return Ok(primary),
                Err(why) => failures.push(why),
            }
        }
        Err(format!(
            "no sentinel names the primary: {}",
            failures.join("; ")
        ))
    }

    async fn asked(&self, sentinel: &Endpoint) -> Result<Endpoint, String> {
        let asking = async {
            let Opened {
                mut link, driver, ..
            } = self.open(sentinel, false).await?;
            let mut command = redis::cmd("SENTINEL");
            command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
            let answer = command.query_async(&mut link).await;
            driver.abort();
            match answer.map_err(|error| format!("{sentinel}: {error}"))? {
                Value::Array(place) => {
                    endpoint(&place).ok_or_else(|| format!("{sentinel}: a strange answer"))
                }
                _ => Err(format!(
                    "{sentinel} knows no primary {:?} ([fleet] master)",
                    self.master
                )),
            }
        };
        let asked = tokio::time::timeout(self.timeout * 2, asking).await;
        asked.unwrap_or_else(|_| Err(format!("{sentinel} does not answer")))
    }
}

/// Reads a host and a port that others have chosen.
pub(super) fn endpoint(place: &[Value]) -> Option<Endpoint> {
    let [host, port] = place else { return None };
    Endpoint::told(text_of(host)?, text_of(port)?.parse().ok()?)
}
