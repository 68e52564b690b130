//! The documents of an origin that requests are judged by. Each is fetched and kept by itself.

use std::fmt;

use crawlgate_robots::Origin;

/// A document of an origin. All have the same states and the same life; what a state means for requests differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Document {
    /// robots.txt (RFC 9309).
    #[default]
    RobotsTxt,
    /// tdmrep.json (TDMRep): reservations of text and data mining.
    TdmRep,
}

impl Document {
    /// All documents.
    pub const ALL: [Document; 2] = [Document::RobotsTxt, Document::TdmRep];

    /// Returns the path of the document at its origin.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Document::RobotsTxt => "/robots.txt",
            Document::TdmRep => "/.well-known/tdmrep.json",
        }
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Document::RobotsTxt => "robots.txt",
            Document::TdmRep => "tdmrep.json",
        }
    }

    /// Returns the URL of the document at an origin.
    #[must_use]
    pub fn url(self, origin: &Origin) -> String {
        format!("{origin}{}", self.path())
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
