//! Verdicts and their reasons: the codes that answers, records and documentation share.

mod info;
mod outcome;

pub use self::info::{Answer, Info, Replay};
pub use self::outcome::Outcome;

crawlgate_text::named! {
    /// The treatment of a request.
    Verdict {
        /// Forward it.
        #[default]
        Allow = 0 "allow",
        /// Refuse it.
        Deny = 1 "deny",
        /// Refuse it for now: the same request may be allowed later.
        Defer = 2 "defer",
    }
}

/// The reason for a verdict, with the same code in the answer, the record and the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A rule allows the path, or rules exist and none matches.
    RobotsAllow,
    /// robots.txt holds no rules for this crawler.
    NoRules,
    /// The origin has no robots.txt, or was unreachable for longer than the profile disallows: the record's
    /// `robots.state` tells which.
    RobotsUnavailable,
    /// The target is `/robots.txt` itself.
    RobotsTxt,
    /// An operator's override allows it.
    OperatorAllow,
    /// An operator's override denies it.
    OperatorDeny,
    /// A rule disallows the path.
    RobotsDisallow,
    /// A rule disallows another reading of the path.
    PathGuard,
    /// robots.txt is unreachable: complete disallow for now.
    RobotsUnreachable,
    /// An opaque tunnel to an origin that disallows something, or a tunnel that carries neither TLS nor HTTP.
    OpaqueTunnel,
    /// The fetch of robots.txt outlasts the longest hold.
    RobotsPending,
    /// Politeness would hold the request longer than allowed.
    Paced,
    /// The [address policy](super::address_policy) prohibits the address.
    AddressProhibited,
    /// CONNECT authority, SNI and inner Host disagree.
    Misdirected,
    /// The request is malformed, or of a form that a proxy refuses.
    BadRequest,
    /// Decisions cannot be recorded, so none are made.
    LogFailed,
    /// Credentials are needed here, and the request has none that are known.
    Unauthenticated,
    /// The peer is no client of this listener.
    UnknownClient,
    /// The crawler must name a product token, and names none.
    AgentRequired,
    /// The crawler's product token is not part of its User-Agent (RFC 9309 section 2.2.1).
    AgentMismatch,
    /// The client has used up its quota for this span.
    QuotaSpent,
    /// The client has reached its limit of requests in flight.
    ClientLimit,
    /// This instance has reached its limit of requests in flight.
    Overloaded,
    /// This instance is cut off from its fleet, so it may have missed an override.
    FleetCut,
    /// robots.txt or tdmrep.json disallows the use that the client declares.
    UsageDisallow,
    /// The response disallows that use.
    UsageWithheld,
    /// A licence applies that the operator does not list.
    LicenseRequired,
    /// tdmrep.json has not been fetched yet.
    UsagePending,
    /// robots.txt disallows the path, and the operator has exempted the client from that.
    ClientExempt,
}

impl Reason {
    /// All reasons in the order of the variants. A new one comes last: frozen entries have this order.
    pub const ALL: [Reason; 29] = [
        Reason::RobotsAllow,
        Reason::NoRules,
        Reason::RobotsUnavailable,
        Reason::RobotsTxt,
        Reason::OperatorAllow,
        Reason::OperatorDeny,
        Reason::RobotsDisallow,
        Reason::PathGuard,
        Reason::RobotsUnreachable,
        Reason::OpaqueTunnel,
        Reason::RobotsPending,
        Reason::Paced,
        Reason::AddressProhibited,
        Reason::Misdirected,
        Reason::BadRequest,
        Reason::LogFailed,
        Reason::Unauthenticated,
        Reason::UnknownClient,
        Reason::AgentRequired,
        Reason::AgentMismatch,
        Reason::QuotaSpent,
        Reason::ClientLimit,
        Reason::Overloaded,
        Reason::FleetCut,
        Reason::UsageDisallow,
        Reason::UsageWithheld,
        Reason::LicenseRequired,
        Reason::UsagePending,
        Reason::ClientExempt,
    ];

    /// Returns the reason with this code.
    pub fn from_name(code: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == code)
    }

    /// Returns its facts.
    pub fn info(self) -> &'static Info {
        info::row(self)
    }

    /// Returns the stable code.
    pub fn as_str(self) -> &'static str {
        self.info().code
    }

    /// Returns its index in [`Reason::ALL`].
    pub fn place(self) -> usize {
        self as usize
    }

    /// Returns its verdict.
    pub fn verdict(self) -> Verdict {
        self.info().outcome.verdict()
    }

    /// Tells whether it is enforced in every mode, because it does not depend on robots.txt, an override or the pace.
    pub fn is_always_enforced(self) -> bool {
        self.info().always_enforced
    }

    /// Tells whether the request is refused because its client is not identified.
    #[must_use]
    pub fn is_unidentified(self) -> bool {
        matches!(self, Reason::Unauthenticated | Reason::UnknownClient)
    }
}
