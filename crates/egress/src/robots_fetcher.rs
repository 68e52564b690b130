//! The way out for robots.txt and tdmrep.json, which need no permit.

use http::Request;
use http::uri::PathAndQuery;

use super::attempt::AttemptEnd;
use super::proof::{FetchTimeouts, RobotsTarget, SendPermit};
use super::{Egress, Failure, Received, RequestBody, Reuse};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

/// The right to send requests without a permit, for a robots.txt or a tdmrep.json. Each [`Egress`] comes with one, which the
/// cache keeps: elsewhere none can be made up,
///
/// ```compile_fail,E0423
/// fn forge(egress: &crawlgate_egress::Egress) -> crawlgate_egress::RobotsFetcher {
///     crawlgate_egress::RobotsFetcher(egress.clone())
/// }
/// ```
///
/// nor copied.
///
/// ```compile_fail,E0599
/// fn copy(fetcher: &crawlgate_egress::RobotsFetcher) -> crawlgate_egress::RobotsFetcher {
///     fetcher.clone()
/// }
/// ```
#[derive(Debug)]
pub struct RobotsFetcher(Egress);

impl RobotsFetcher {
    /// Returns the way out for the requests of this egress.
    pub(super) fn new(egress: Egress) -> RobotsFetcher {
        RobotsFetcher(egress)
    }

    /// Returns the egress.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.0
    }

    /// Sends the request for a robots.txt `now` and waits for the response head.
    ///
    /// # Errors
    /// The [`Failure`]; no response head came.
    pub async fn fetch(
        &self,
        (origin, path): (Origin, PathAndQuery),
        request: Request<RequestBody>,
        timeouts: FetchTimeouts,
        now: Moment,
    ) -> Result<Received, Failure> {
        let target = RobotsTarget { origin, path, timeouts };
        let send_permit = SendPermit::Robots(&target);
        let mut request = Box::new(request);
        let mut now = Some(now);
        for reuse in [Reuse::Allowed, Reuse::Forbidden] {
            let sent = self.0.try_send(send_permit, request, |_, _| {}, now.take(), reuse);
            match sent.await {
                Ok(received) => return Ok(received),
                Err(AttemptEnd::Failed(failure)) => return Err(failure),
                Err(
                    AttemptEnd::Lost(again)
                    | AttemptEnd::LeftBehind(again)
                    | AttemptEnd::Overtaken(again),
                ) => request = again,
            }
        }
        Err(Failure::Terminated)
    }
}
