//! What is done with a request, and why: the codes that answers, records and documentation share.

/// What crawlgate does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Forward it.
    Allow,
    /// Refuse it.
    Deny,
    /// Refuse it for now: the same request may be allowed later.
    Defer,
}

impl Verdict {
    /// The verdict's name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::Defer => "defer",
        }
    }
}

/// Why. The same code in the answer, the record and the documentation.
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
    /// A person has asserted that it may be fetched.
    OperatorAllow,
    /// A person has asserted that it may not.
    OperatorDeny,
    /// A rule disallows the path.
    RobotsDisallow,
    /// A rule disallows what the origin may make of the path.
    PathGuard,
    /// robots.txt cannot be had: complete disallow for now.
    RobotsUnreachable,
    /// A tunnel that cannot be looked into, to an origin that disallows something; or one in which neither TLS
    /// nor HTTP is spoken.
    OpaqueTunnel,
    /// The fetch of robots.txt outlasts the longest hold.
    RobotsPending,
    /// Politeness would hold the request longer than allowed.
    Paced,
    /// A wall of [`crate::egress::walls`] stands before it.
    AddressProhibited,
    /// CONNECT authority, SNI and inner Host disagree.
    Misdirected,
    /// The request is malformed, or of a form that a proxy refuses.
    BadRequest,
    /// Decisions cannot be recorded, so none is made.
    LogFailed,
    /// Credentials are needed here, and none that are known were given.
    Unauthenticated,
    /// Whoever is not a client of this listener is not served by it.
    UnknownClient,
    /// The crawler names no product token, and is required to.
    AgentRequired,
    /// The product token that it is judged as is not part of its User-Agent (RFC 9309 section 2.2.1).
    AgentMismatch,
    /// The client has had what it may have in this span.
    QuotaSpent,
    /// The client has as much under way as it may have.
    ClientLimit,
    /// As much is under way as this instance takes.
    Overloaded,
}

impl Reason {
    /// All of them, those that allow first.
    pub const ALL: [Reason; 23] = [
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
    ];

    /// The reason with this code.
    pub fn from_name(code: &str) -> Option<Reason> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == code)
    }

    /// The stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::RobotsAllow => "robots_allow",
            Reason::NoRules => "no_rules",
            Reason::RobotsUnavailable => "robots_unavailable",
            Reason::RobotsTxt => "robots_txt",
            Reason::OperatorAllow => "operator_allow",
            Reason::OperatorDeny => "operator_deny",
            Reason::RobotsDisallow => "robots_disallow",
            Reason::PathGuard => "path_guard",
            Reason::RobotsUnreachable => "robots_unreachable",
            Reason::OpaqueTunnel => "opaque_tunnel",
            Reason::RobotsPending => "robots_pending",
            Reason::Paced => "paced",
            Reason::AddressProhibited => "address_prohibited",
            Reason::Misdirected => "misdirected",
            Reason::BadRequest => "bad_request",
            Reason::LogFailed => "log_failed",
            Reason::Unauthenticated => "unauthenticated",
            Reason::UnknownClient => "unknown_client",
            Reason::AgentRequired => "agent_required",
            Reason::AgentMismatch => "agent_mismatch",
            Reason::QuotaSpent => "quota_spent",
            Reason::ClientLimit => "client_limit",
            Reason::Overloaded => "overloaded",
        }
    }

    /// Its place in [`Reason::ALL`].
    pub fn place(self) -> usize {
        self as usize
    }

    /// The verdict that goes with it.
    pub fn verdict(self) -> Verdict {
        match self {
            Reason::RobotsAllow
            | Reason::NoRules
            | Reason::RobotsUnavailable
            | Reason::RobotsTxt
            | Reason::OperatorAllow => Verdict::Allow,
            Reason::OperatorDeny
            | Reason::RobotsDisallow
            | Reason::PathGuard
            | Reason::RobotsUnreachable
            | Reason::OpaqueTunnel
            | Reason::AddressProhibited
            | Reason::Misdirected
            | Reason::BadRequest
            | Reason::Unauthenticated
            | Reason::UnknownClient
            | Reason::AgentRequired
            | Reason::AgentMismatch => Verdict::Deny,
            Reason::RobotsPending
            | Reason::Paced
            | Reason::LogFailed
            | Reason::QuotaSpent
            | Reason::ClientLimit
            | Reason::Overloaded => Verdict::Defer,
        }
    }

    /// Whether it holds in every mode: it is not about what robots.txt, a person or the pace say of a target.
    pub fn is_wall(self) -> bool {
        matches!(
            self,
            Reason::AddressProhibited
                | Reason::Misdirected
                | Reason::BadRequest
                | Reason::LogFailed
                | Reason::Unauthenticated
                | Reason::UnknownClient
                | Reason::QuotaSpent
                | Reason::ClientLimit
                | Reason::Overloaded
        )
    }
}
