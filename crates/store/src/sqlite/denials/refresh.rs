//! The refresh of the tables of denials: the log is read by the connection for long searches, the rows are written in
//! transactions of some milliseconds.

use std::sync::Arc;

use super::{Room, daily, recent};
use crate::StoreError;
use crate::sqlite::Store;

impl Store {
    /// Lists the newest denials for programs that read the store by themselves, a thousand of those that are missing there at
    /// most. `max_size` is that of the retention.
    pub async fn list_denials(&self, max_size: Option<u64>) -> Result<(), StoreError> {
        // A log that cannot be carried over has room for records alone.
        if self.log.is_failing() {
            return Ok(());
        }
        let room = Room::of(max_size);
        let look = self.walk(move |connection, blocks| recent::look(connection, blocks, room));
        let Some(refresh) = look.await? else {
            return Ok(());
        };
        let (parts, done) = refresh.into_parts();
        for rows in parts {
            self.on_writer(move |connection| recent::put(connection, &rows))
                .await?;
        }
        self.on_writer(move |connection| done.note(connection))
            .await
    }

    /// Counts for such programs which rules have denied most often, on each day that has other entries than at the last call.
    pub async fn count_denied_rules(&self, max_size: Option<u64>) -> Result<(), StoreError> {
        if self.log.is_failing() {
            return Ok(());
        }
        let room = Room::of(max_size);
        let Some(refresh) = self
            .walk(|connection, blocks| daily::look(connection, blocks))
            .await?
        else {
            return Ok(());
        };
        let refresh = Arc::new(refresh);
        for day in &refresh.days {
            let (mut count, mut more) = (daily::Count::of(*day), true);
            while more {
                let step = self.walk(move |connection, blocks| {
                    let more = count.step(connection, blocks)?;
                    Ok((count, more))
                });
                (count, more) = step.await?;
            }
            let refresh = Arc::clone(&refresh);
            self.on_writer(move |connection| refresh.put(connection, count, room))
                .await?;
        }
        self.on_writer(move |connection| refresh.note(connection, room))
            .await
    }
}
