//! Families of crawlers in an explanation: `Googlebot` speaks for `Googlebot-Image` where no group names that one, and only
//! if the crawler gives it as its second name.

use serde::Serialize;

use super::Judgement;
use crawlgate_robots::{ProductToken, Selection, family};

/// A group that names a crawler's family and does not count.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FamilyOf<'a> {
    /// The product token of the crawler.
    token: &'a str,
    /// The product token of its family, which has a group.
    family: &'static str,
    /// The same in words, with the way out.
    pub message: String,
}

/// Returns the first of `tokens` that has `token` as its family.
pub fn family_of<'a>(token: &str, tokens: &'a [ProductToken]) -> Option<&'a str> {
    let mut names = tokens.iter().map(ProductToken::as_str);
    names.find(|name| family(name).is_some_and(|family| family.eq_ignore_ascii_case(token)))
}

/// Returns the groups that name the family of a crawler which no group names, and that do not count because the chain of
/// the crawler ends before its family.
pub fn families(judged: &Judgement) -> Vec<FamilyOf<'_>> {
    let (Some(explanation), Some(snapshot)) = (&judged.explanation, &judged.snapshot) else {
        return Vec::new();
    };
    if explanation.is_named() {
        return Vec::new();
    }
    let tokens = judged.agent.tokens.iter().map(ProductToken::as_str);
    let found = tokens.filter_map(|token| {
        let family = family(token)?;
        let named = ProductToken::new(family).ok()?;
        let selection = snapshot.robots.selection(std::slice::from_ref(&named));
        matches!(selection, Selection::Token(_)).then(|| FamilyOf {
            token,
            family,
            message: format!(
                "no group has the name {token}, and that of its family, {family}, counts only for a crawler that gives \
                 {family} as its second name: --agent {token} --agent {family}"
            ),
        })
    });
    found.collect()
}
