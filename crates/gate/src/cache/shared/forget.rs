//! Tells the fleet that an origin was forgotten.

use std::time::Duration;

use tokio::time::sleep;

use super::head::{Head, place};
use super::{KEPT, LONGEST, Sharing};
use crate::cache::Shared;
use crawlgate_origins::identity::Identity;
use crawlgate_robots::Origin;
use crawlgate_turns::fleet::coordinator::{CoordinatorError, FetchLease, PublishState, Token};

/// The time for which an instance that has missed a command to forget may find its own state fresh, unless
/// `[robots] fresh_max` is longer.
const FRESHEST: Duration = Duration::from_secs(86_400);

impl Shared {
    /// Makes the fleet forget the states of an origin. A fetch that is in progress ends first.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub(in crate::cache) async fn forget_shared(
        &self,
        sharing: &Sharing,
        origin: &Origin,
        identities: &[Identity],
    ) -> Result<(), CoordinatorError> {
        let settings = self.settings.load_full();
        for identity in identities {
            let key = Sharing::key(origin, identity, &settings);
            let holder = sharing.holder(self.clock.now());
            let mut known = Token::default();
            loop {
                match sharing.acquire(&key, &holder, known).await? {
                    FetchLease::Newer(state, _) => known = state.token,
                    FetchLease::Held { .. } => sleep(LONGEST).await,
                    FetchLease::Acquired { token, .. } => {
                        let octets = token.0.to_be_bytes();
                        let head = Head::forgotten(identity).to_octets(None);
                        let sealed = sharing.fleet.key().seal(&place(&key, &octets), &head);
                        let publish = PublishState {
                            key: &key,
                            holder: &holder,
                            token,
                            sealed: &sealed,
                            keep: settings.ours.config.timing.fresh_max.max(FRESHEST) + KEPT,
                        };
                        sharing.fleet.coordinator().publish_state(publish).await?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
