//! The purposes that a crawler declares for its fetches, and the categories of use that each asks for.

use std::fmt;

use super::category::{Categories, Category};

crawlgate_text::spelled! {
    /// A declared purpose.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Purpose {
        /// An application that finds pages and links to them.
        Search = "search",
        /// Training of generative models.
        TrainAi = "train-ai",
        /// Input to generative models: grounding, retrieval, answers, summaries.
        AiInput = "ai-input",
        /// Other text and data mining.
        Tdm = "tdm",
        /// Archives, monitoring, link checks and the like; it asks for no category.
        Other = "other",
    }
}

impl Purpose {
    /// Returns the purpose with this word.
    pub fn from_name(name: &str) -> Option<Purpose> {
        let is = |purpose: &Purpose| purpose.as_str() == name;
        Purpose::ALL.into_iter().find(is)
    }

    /// Returns the categories that it asks for. Search does not ask for `tdm`: a reservation should not cost a site its
    /// place in an index (EU GPAI Code of Practice, copyright chapter, measure 1.3).
    pub fn asks(self) -> Categories {
        let tdm = Categories::one(Category::Tdm);
        match self {
            Purpose::Search => Categories::one(Category::Search),
            Purpose::TrainAi => tdm.and(Categories::one(Category::TrainAi)),
            Purpose::AiInput => tdm.and(Categories::one(Category::AiUse)),
            Purpose::Tdm => tdm,
            Purpose::Other => Categories::NONE,
        }
    }
}

/// A set of purposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Purposes(u8);

impl Purposes {
    /// The empty set: nothing is declared, so nothing is refused.
    pub const NONE: Purposes = Purposes(0);

    /// Returns the set with one purpose more.
    #[must_use]
    pub fn with(self, purpose: Purpose) -> Purposes {
        Purposes(self.0 | 1 << purpose as u8)
    }

    /// Tells whether the purpose is in the set.
    pub fn has(self, purpose: Purpose) -> bool {
        self.0 & 1 << purpose as u8 != 0
    }

    /// Tells whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the purposes, in the order of [`Purpose::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Purpose> {
        Purpose::ALL.into_iter().filter(move |purpose| self.has(*purpose))
    }

    /// Returns the categories that at least one purpose asks for.
    pub fn asks(self) -> Categories {
        self.iter().fold(Categories::NONE, |all, purpose| all.and(purpose.asks()))
    }

    /// Returns the purposes that ask for one of the `disallowed` categories.
    #[must_use]
    pub fn refused_by(self, disallowed: Categories) -> Purposes {
        let refused = self.iter().filter(|purpose| purpose.asks().meets(disallowed));
        refused.collect()
    }
}

impl fmt::Display for Purposes {
    /// Writes the words with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, purpose) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{}", purpose.as_str())?;
        }
        Ok(())
    }
}

impl FromIterator<Purpose> for Purposes {
    fn from_iter<I: IntoIterator<Item = Purpose>>(purposes: I) -> Purposes {
        purposes.into_iter().fold(Purposes::NONE, Purposes::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_refused_by_a_category_that_it_asks_for() {
        let all: Purposes = Purpose::ALL.into_iter().collect();
        #[rustfmt::skip] // one row, one case
        let cases: [(Category, &[Purpose]); 4] = [
            (Category::TrainAi, &[Purpose::TrainAi]),
            (Category::AiUse, &[Purpose::AiInput]),
            (Category::Search, &[Purpose::Search]),
            (Category::Tdm, &[Purpose::TrainAi, Purpose::AiInput, Purpose::Tdm]),
        ];
        for (disallowed, refused) in cases {
            let refused: Purposes = refused.iter().copied().collect();
            assert_eq!(all.refused_by(Categories::one(disallowed)), refused);
        }
        assert!(all.refused_by(Categories::NONE).is_empty());
    }

    #[test]
    fn each_word_names_its_purpose() {
        for purpose in Purpose::ALL {
            assert_eq!(Purpose::from_name(purpose.as_str()), Some(purpose));
        }
        assert_eq!(Purpose::from_name("train"), None);
    }
}
