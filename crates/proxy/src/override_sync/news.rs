//! The news of a fleet: one instance was told to fetch or to forget the robots.txt of an origin, so each does.
//!
//! News carry no seal: they can cost a fetch, and permit nothing.

use std::sync::Arc;

use tracing::{debug, warn};

use super::OverrideSync;
use crawlgate_origins::identity::Identity;
use crawlgate_robots::Origin;
use crawlgate_turns::fleet::coordinator::CoordinatorError;
use crawlgate_turns::fleet::{Fleet, News};

/// A message to all instances. As text: `forget https://site.example * a1`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    kind: MessageKind,
    origin: Origin,
    /// The identity of the state to fetch or to drop; `None`: all identities.
    identity: Option<Identity>,
    /// The instance that it comes from.
    from: String,
}

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Fetch the robots.txt now.
    Refresh,
    /// Drop its state.
    Forget,
}

impl MessageKind {
    const ALL: [MessageKind; 2] = [MessageKind::Refresh, MessageKind::Forget];

    fn as_str(self) -> &'static str {
        match self {
            MessageKind::Refresh => "refresh",
            MessageKind::Forget => "forget",
        }
    }
}

/// Stands for all identities. No product token has this form.
const ALL: &str = "-";

impl Message {
    fn to_text(&self) -> String {
        let identity = self.identity.as_ref().map(ToString::to_string);
        let identity = identity.as_deref().unwrap_or(ALL);
        let kind = self.kind.as_str();
        format!("{kind} {} {identity} {}", self.origin, self.from)
    }

    fn read(text: &str) -> Option<Message> {
        let mut words = text.splitn(4, ' ');
        let kind = words.next()?;
        Some(Message {
            kind: MessageKind::ALL.into_iter().find(|one| one.as_str() == kind)?,
            origin: Origin::parse(words.next()?).ok()?.0,
            identity: match words.next()? {
                ALL => None,
                named => Some(Identity::parse(named)?),
            },
            from: words.next()?.to_owned(),
        })
    }
}

impl OverrideSync {
    /// Tells all other instances.
    ///
    /// # Errors
    /// When the engine does not take the message.
    pub async fn announce(
        &self,
        kind: MessageKind,
        origin: &Origin,
        identity: Option<&Identity>,
    ) -> Result<(), CoordinatorError> {
        let Some(fleet) = self.proxy.gate().fleet() else {
            return Ok(());
        };
        let message = Message {
            kind,
            origin: origin.clone(),
            identity: identity.cloned(),
            from: fleet.name().to_owned(),
        };
        fleet.coordinator().announce(&message.to_text()).await
    }

    /// Does what the other instances were told to do.
    pub(super) fn take_news(&self, fleet: &Fleet, news: &News) {
        for text in &news.items {
            let Some(message) = Message::read(text) else {
                debug!(news = text.escape_debug().to_string(), "news of another version");
                continue;
            };
            if message.from != fleet.name() {
                tokio::spawn(do_as_told(Arc::clone(&self.proxy), message));
            }
        }
    }
}

async fn do_as_told(proxy: Arc<crate::Proxy>, message: Message) {
    let cache = proxy.gate().robots_cache();
    let (origin, identity) = (&message.origin, message.identity.as_ref());
    let done = match message.kind {
        MessageKind::Refresh => cache.follow_refresh(origin, identity).await,
        MessageKind::Forget => {
            // The instance that was told first has forgotten for the identities that it knows.
            if identity.is_none()
                && let Err(why) = cache.forget_in_fleet(origin, None).await
            {
                let text = message.to_text();
                warn!("the fleet's message {text:?} is followed only at this instance: {why}");
            }
            cache.forget(origin, identity).await.map(drop)
        }
    };
    if let Err(why) = done {
        let text = message.to_text();
        warn!("the fleet's message {text:?} cannot be followed: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let origin = Origin::parse("https://site.example:8443").unwrap().0;
        for kind in MessageKind::ALL {
            for identity in [None, Some("*"), Some("examplebot"), Some("examplebot@ada")] {
                let message = Message {
                    kind,
                    origin: origin.clone(),
                    identity: identity.map(|named| Identity::parse(named).unwrap()),
                    from: "a1/7".to_owned(),
                };
                assert_eq!(Message::read(&message.to_text()), Some(message.clone()), "{message:?}");
            }
        }
        for other in [
            "",
            "forget",
            "forget https://site.example",
            "forget https://site.example -",
            "destroy https://site.example - a1",
            "forget site.example - a1",
        ] {
            assert_eq!(Message::read(other), None, "{other}");
        }
    }
}
