//! Threads with a connection each that run one job after the other.
//!
//! The engine waits for the disk, so it has no place on a runtime's threads; and a connection of a single thread needs
//! no lock.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::engine::Failure;
use crate::{StoreError, failed};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// One or more threads on one queue. A dropped `Workers` ends them once the queue is empty.
pub(super) struct Workers {
    jobs: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    path: Arc<Path>,
}

impl Workers {
    /// Starts a thread for each of `connections`, to the database at `path`.
    pub(super) fn start(
        name: &str,
        path: &Arc<Path>,
        connections: Vec<Connection>,
    ) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for mut connection in connections {
            let queue = Arc::clone(&queue);
            let work = move || {
                // The lock is held while waiting, not while working.
                while let Some(job) = next(&queue) {
                    job(&mut connection);
                }
            };
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            let thread = thread.map_err(|error| {
                failed(format!("{}: no thread for the store: {error}", path.display()))
            })?;
            threads.push(thread);
        }
        Ok(Self { jobs: Some(jobs), threads, path: Arc::clone(path) })
    }

    /// Queues `work` and waits for its result. Once queued, the work runs even if the caller drops the future.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let path = Arc::clone(&self.path);
        let job = move |connection: &mut Connection| {
            let done = work(connection).map_err(|failure| failure.at(&path));
            let _ = answer.send(done); // the caller may have dropped the future
        };
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Box::new(job)); // a failure closes the answer's channel
        }
        answered.await.unwrap_or_else(|_| {
            let path = self.path.display();
            Err(failed(format!("{path}: the store's thread has ended")))
        })
    }
}

fn next(queue: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    queue.lock().recv().ok()
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panicked thread has reported the panic itself.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}
