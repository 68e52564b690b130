//! Tables that explain a verdict on a path, as `crawlgate check` does.

use super::format::{line, octets};
use crawlgate_robots::{ApplicableGroup, Explanation, Judged, MatchedBy, TokenRole};

/// Rules of a kind to show.
const MAX_SHOWN: usize = 50;

/// An explanation, in words.
pub(super) struct Explained {
    /// The tokens of the chain, each with its result.
    pub(super) chain: Vec<(String, &'static str)>,
    is_named: bool,
    pub(super) groups: Vec<Group>,
    /// The requested path, then its variants.
    pub(super) paths: Vec<Path>,
}

/// A group that applies.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) rules: String,
}

/// One path, judged.
pub(super) struct Path {
    pub(super) path: String,
    /// The form for the comparison, if it differs.
    pub(super) form: Option<String>,
    pub(super) is_reading: bool,
    pub(super) is_disallowed: bool,
    pub(super) why: String,
    pub(super) rules: Vec<Rule>,
    /// Rules that are not shown.
    pub(super) more: usize,
}

/// A rule that matches.
pub(super) struct Rule {
    pub(super) text: String,
    pub(super) line: u32,
    pub(super) group: String,
    pub(super) octets: usize,
    /// The directory of the rule's path, if the match is by directory.
    pub(super) by_folder: Option<String>,
    pub(super) decides: bool,
}

impl Explained {
    pub(super) fn of(explanation: &Explanation) -> Explained {
        let standing = |standing: &TokenRole| match standing {
            TokenRole::Named => "named: its groups speak",
            TokenRole::NotNamed => "not named",
            TokenRole::NotAsked => "not asked for",
        };
        let chain = explanation.chain.iter();
        let readings = explanation.readings.iter();
        let written = Path::of(&explanation.written, false);
        Explained {
            is_named: explanation
                .chain
                .iter()
                .any(|(_, standing)| *standing == TokenRole::Named),
            chain: chain
                .map(|(token, found)| (token.to_string(), standing(found)))
                .collect(),
            groups: explanation.groups.iter().map(Group::of).collect(),
            paths: std::iter::once(written)
                .chain(readings.map(|reading| Path::of(reading, true)))
                .collect(),
        }
    }

    /// Returns whether the file names a token of the chain.
    pub(super) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Returns the deciding line to show in the file: that of a disallowed path variant, if there is one.
    pub(super) fn deciding(&self) -> Option<u32> {
        let disallowed = self.paths.iter().find(|path| path.is_disallowed);
        let path = disallowed.or(self.paths.first())?;
        path.rules
            .iter()
            .find(|rule| rule.decides)
            .map(|rule| rule.line)
    }

    /// Returns the user-agent lines of the groups that apply.
    pub(super) fn speakers(&self) -> Vec<u32> {
        self.groups.iter().map(|group| group.line).collect()
    }
}

impl Group {
    fn of(speaker: &ApplicableGroup) -> Group {
        Group {
            name: line(&speaker.name),
            line: speaker.line,
            rules: match speaker.rules {
                1 => "1 rule".to_owned(),
                rules => format!("{rules} rules"),
            },
        }
    }
}

impl Path {
    fn of(judged: &Judged, is_reading: bool) -> Path {
        let decides = judged.rule();
        let path = judged.path.split(|octet| *octet == b'#').next();
        let rules = judged.matches.iter().take(MAX_SHOWN).enumerate();
        Path {
            path: octets(&judged.path),
            form: (path != Some(&*judged.form)).then(|| octets(&judged.form)),
            is_reading,
            is_disallowed: judged.is_disallowed(),
            why: judged.why.to_string(),
            rules: rules
                .map(|(at, found)| Rule {
                    text: line(&found.rule.text),
                    line: found.rule.line,
                    group: line(&found.rule.group),
                    octets: found.octets,
                    by_folder: match found.by {
                        MatchedBy::Path => None,
                        MatchedBy::Folder => Some(line(&found.pattern)),
                    },
                    decides: at == 0 && decides.is_some(),
                })
                .collect(),
            more: judged.matches.len().saturating_sub(MAX_SHOWN),
        }
    }
}
