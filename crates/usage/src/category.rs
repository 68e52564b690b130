//! The categories of use that sites speak about, as one table with a version.

/// The version of the vocabulary: draft-ietf-aipref-vocab, with three flat categories; `tdm` is TDMRep's.
pub const VOCABULARY: &str = "aipref-vocab-08";

crawlgate_text::spelled! {
    /// A category of use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Category {
        /// Training of generative models.
        TrainAi = "train-ai",
        /// Use as input to generative models.
        AiUse = "ai-use",
        /// Applications that find pages and link to them.
        Search = "search",
        /// Text and data mining (Directive 2019/790, article 4).
        Tdm = "tdm",
    }
}

impl Category {
    /// Returns the category with this label, exactly as spelt.
    pub fn from_name(name: &str) -> Option<Category> {
        let is = |category: &Category| category.as_str() == name;
        Category::ALL.into_iter().find(is)
    }
}

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Categories(u8);

impl Categories {
    /// The empty set.
    pub const NONE: Categories = Categories(0);

    /// Returns the set of one category.
    pub const fn one(category: Category) -> Categories {
        Categories(1 << category as u8)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// Tells whether the category is in the set.
    pub fn has(self, category: Category) -> bool {
        self.0 & Categories::one(category).0 != 0
    }

    /// Tells whether the sets have a category in common.
    pub fn meets(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }

    /// Tells whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the categories, in the order of [`Category::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Category> {
        Category::ALL.into_iter().filter(move |category| self.has(*category))
    }
}
