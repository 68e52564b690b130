//! A judgement for programs: one JSON object on one line.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use super::usage::Usage;
use super::{Alternative, File, Judgement, Unjudged, group_of, meaning};
use crate::view;
use crawlgate_policy::Decision;
use crawlgate_policy::overrides::Override;
use crawlgate_robots::{
    ApplicableGroup, Explanation, Field, Group, Judged, Lint, Match, MatchedBy, OtherLine,
    ProductToken, RuleKind, Selection, TokenRole, family,
};
use crawlgate_text::guarded::line;
use crawlgate_text::{hex, time_text};
use crawlgate_usage::{self as usage, record::UsageRecord};

view! {
    /// A URL, judged.
    pub struct Document<'a> of judged: &'a Judgement, notes: &'a [Lint] {
        url: String = format!("{}{}", judged.target.origin, judged.target.path),
        verdict: &'static str = judged.decision.verdict().as_str(),
        reason: &'static str = judged.decision.reason.as_str(),
        meaning: String = meaning(&judged.decision),
        rule: Option<&'a str> = rule(&judged.decision),
        line: Option<u32> = rule_line(&judged.decision),
        group: Option<&'a str> = match &judged.decision.asserted {
            Some(_) => None,
            None => group(&judged.decision, speaker(judged)),
        },
        #[serde(rename = "override")]
        asserted: Option<Assertion<'a>> = judged.decision.asserted.as_deref().map(|one| Assertion::of(one)),
        /// The override that would decide, if `--robots` did not exclude it.
        override_left_aside: Option<Assertion<'a>> = match &judged.alternative {
            Some(Alternative::Override(asserted)) => Some(Assertion::of(asserted)),
            _ => None,
        },
        /// The decision that would apply without the override.
        without_override: Option<Without<'a>> = match &judged.alternative {
            Some(Alternative::Robots(otherwise)) => Some(Without::of(otherwise, speaker(judged))),
            _ => None,
        },
        agent: Vec<Token<'a>> = chain(judged),
        robots: Option<RobotsTxt<'a>> = judged.snapshot.as_ref().map(|file| RobotsTxt::of(file, (&*file.final_url).into())),
        /// The User-Agent of the robots.txt fetch; none without a fetch.
        fetched_with: Option<&'a str> = judged.by_robots().fetched_as.as_ref().map(|it| &*it.user_agent),
        /// The moment of that fetch: of the gate's copy, if it judges by one.
        fetched: Option<String> = judged.fetched().map(time_text),
        groups: Vec<SpeakerOf<'a>> = judged.explanation.iter().flat_map(|it| &it.groups).map(SpeakerOf::of).collect(),
        path: Option<PathOf<'a>> = judged.explanation.as_ref().map(|it| PathOf::of(&it.written)),
        readings: Vec<PathOf<'a>> = judged.explanation.iter().flat_map(|it| &it.readings).map(PathOf::of).collect(),
        fields: Vec<FieldOf<'a>> = fields(judged),
        notes: Vec<NoteOf<'a>> = notes_of(notes),
        /// If no group names the crawler: the groups that name its family. They do not count, because the crawler does not give
        /// its family as its second name.
        families: Vec<FamilyOf<'a>> = families(judged),
        /// The statements of the site about the use of the page, in the form of a record; null where the site states nothing and
        /// the client declares no purpose.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        usage: Option<UsageRecord<'a>> = judged.usage.as_ref().and_then(Usage::record),
    }

    /// A group that names a crawler's family and does not count.
    pub struct FamilyOf<'a> of token: &'a str, named: &'static str {
        /// The product token of the crawler.
        token: &'a str = token,
        /// The product token of its family, which has a group.
        family: &'static str = named,
        /// The same in words, with the way out.
        pub message: String = format!(
            "no group has the name {token}, and that of its family, {named}, counts only for a crawler that gives {named} \
             as its second name: --agent {token} --agent {named}"
        ),
    }

    struct Assertion<'a> of asserted: &'a Override {
        id: String = asserted.id.to_string(),
        pattern: &'a str = &asserted.pattern,
        action: &'static str = asserted.action.as_str(),
        until: Option<String> = asserted.until.map(time_text),
        by: &'a str = &asserted.by,
        reason: &'a str = &asserted.reason,
    }

    struct Without<'a> of decision: &'a Decision, speaker: Option<&'a ApplicableGroup> {
        verdict: &'static str = decision.verdict().as_str(),
        reason: &'static str = decision.reason.as_str(),
        meaning: String = meaning(decision),
        rule: Option<&'a str> = rule(decision),
        line: Option<u32> = rule_line(decision),
        group: Option<&'a str> = group(decision, speaker),
    }

    struct Token<'a> of token: &'a ProductToken, all: &'a [ProductToken], role: Option<TokenRole> {
        token: &'a str = token.as_str(),
        #[serde(skip_serializing_if = "Option::is_none")]
        standing: Option<&'static str> = role.map(|role| match role {
            TokenRole::Named => "named",
            TokenRole::NotNamed => "not_named",
            TokenRole::NotAsked => "not_asked",
        }),
        /// The earlier token that belongs to this token's family.
        #[serde(skip_serializing_if = "Option::is_none")]
        family_of: Option<&'a str> = family_of(token.as_str(), all),
    }

    struct RobotsTxt<'a> of file: &File, name: Cow<'a, str> {
        url: Cow<'a, str> = name,
        octets: usize = file.robots.text().len(),
        truncated: bool = file.robots.is_truncated(),
        sha256: String = hex(file.sha256),
    }

    struct SpeakerOf<'a> of group: &'a ApplicableGroup {
        name: &'a str = &group.name,
        line: u32 = group.line,
        user_agents: Vec<Named<'a>> = group
            .user_agents
            .iter()
            .map(|(value, line)| Named::of(value.as_bytes(), *line))
            .collect(),
        rules: usize = group.rules,
    }

    struct Named<'a> of value: &'a [u8], line: u32 {
        value: Cow<'a, str> = String::from_utf8_lossy(value),
        line: u32 = line,
    }

    struct PathOf<'a> of judged: &'a Judged {
        path: Cow<'a, str> = String::from_utf8_lossy(&judged.path),
        compared: Cow<'a, str> = String::from_utf8_lossy(&judged.form),
        verdict: &'static str = if judged.is_disallowed() { "deny" } else { "allow" },
        why: &'static str = judged.why.as_str(),
        matches: Vec<MatchOf<'a>> = judged.matches.iter().map(MatchOf::of).collect(),
    }

    struct MatchOf<'a> of found: &'a Match {
        octets: usize = found.octets,
        kind: &'static str = found.rule.kind.as_str(),
        pattern: &'a str = &found.pattern,
        by: &'static str = match found.by {
            MatchedBy::Path => "path",
            MatchedBy::Folder => "folder",
        },
        rule: &'a str = &found.rule.text,
        line: u32 = found.rule.line,
        group: &'a str = &found.rule.group,
        group_line: u32 = found.rule.group_line,
    }

    struct FieldOf<'a> of other: &OtherLine<'a>, is_own: Option<bool> {
        field: &'static str = other.field.as_str(),
        value: Cow<'a, str> = String::from_utf8_lossy(other.value),
        line: u32 = other.line,
        /// True if its group applies to the crawler.
        #[serde(skip_serializing_if = "Option::is_none")]
        own: Option<bool> = is_own,
    }

    /// A note, as `check --json` and `--jsonl` write it.
    pub struct NoteOf<'a> of note: &'a Lint {
        line: u32 = note.line,
        kind: &'static str = note.kind.as_str(),
        message: String = note.kind.to_string(),
        text: &'a str = &note.text,
    }

    struct GroupOf<'a> of group: &Group<'a> {
        user_agents: Vec<Named<'a>> = group.user_agents().map(|(value, line)| Named::of(value, line)).collect(),
        rules: Vec<RuleOf<'a>> = group.rules().map(RuleOf::of).collect(),
        fields: Vec<FieldOf<'a>> = Vec::new(),
    }

    struct RuleOf<'a> of rule: (RuleKind, &'a [u8], u32) {
        kind: &'static str = rule.0.as_str(),
        rule: Cow<'a, str> = String::from_utf8_lossy(rule.1),
        line: u32 = rule.2,
    }
}

/// A file with its groups, fields and notes.
#[derive(Serialize)]
struct FileDocument<'a> {
    robots: RobotsTxt<'a>,
    groups: Vec<GroupOf<'a>>,
    fields: Vec<FieldOf<'a>>,
    notes: Vec<NoteOf<'a>>,
}

#[derive(Serialize)]
struct Failure<'a> {
    url: &'a str,
    error: &'a str,
}

/// Writes a judgement as one line of JSON.
pub fn of(judged: &Judgement) -> Vec<u8> {
    line(&Document::of(judged, &judged.notes()))
}

/// Writes a URL that cannot be judged as one line of JSON.
pub fn of_unjudged(unjudged: &Unjudged) -> Vec<u8> {
    line(&Failure { url: &unjudged.url, error: &unjudged.why })
}

/// Writes a file as one line of JSON.
pub fn of_file(file: &File, name: &Path) -> Vec<u8> {
    let groups: Vec<Group<'_>> = file.robots.groups().collect();
    let mut rows: Vec<GroupOf<'_>> = groups.iter().map(GroupOf::of).collect();
    let mut apart = Vec::new();
    for other in file.robots.others() {
        let group = group_of(&other, &groups).and_then(|at| rows.get_mut(at));
        let fields = group.map_or(&mut apart, |group| &mut group.fields);
        fields.push(FieldOf::of(&other, None));
    }
    line(&FileDocument {
        robots: RobotsTxt::of(file, name.to_string_lossy()),
        groups: rows,
        fields: apart,
        notes: notes_of(&usage::notes(&file.robots)),
    })
}

/// Converts notes to their JSON form.
pub fn notes_of(notes: &[Lint]) -> Vec<NoteOf<'_>> {
    notes.iter().map(NoteOf::of).collect()
}

fn rule(decision: &Decision) -> Option<&str> {
    decision.rule.as_ref().map(|rule| &*rule.text)
}

fn rule_line(decision: &Decision) -> Option<u32> {
    decision.rule.as_ref().map(|rule| rule.line)
}

/// Returns the first group that applies.
fn speaker(judged: &Judgement) -> Option<&ApplicableGroup> {
    judged.explanation.as_ref()?.groups.first()
}

/// Returns the group that decides, or that applies even if none of its rules matches.
fn group<'a>(decision: &'a Decision, speaker: Option<&'a ApplicableGroup>) -> Option<&'a str> {
    let of_rule = decision.rule.as_ref().map(|rule| &*rule.group);
    of_rule.or(speaker.map(|speaker| &*speaker.name))
}

fn chain(judged: &Judgement) -> Vec<Token<'_>> {
    let all = &judged.agent.tokens;
    match &judged.explanation {
        None => all.iter().map(|it| Token::of(it, all, None)).collect(),
        Some(Explanation { chain, .. }) => {
            chain.iter().map(|(it, role)| Token::of(it, all, Some(*role))).collect()
        }
    }
}

fn fields(judged: &Judgement) -> Vec<FieldOf<'_>> {
    let Some(file) = &judged.snapshot else {
        return Vec::new();
    };
    let selection = file.robots.selection(&judged.agent.tokens);
    let mut own: Vec<u32> = match selection {
        Selection::Nobody => Vec::new(),
        selection => file.robots.others_of(selection).map(|it| it.line).collect(),
    };
    own.sort_unstable();
    file.robots
        .others()
        .map(|other| match other.field {
            // A Sitemap belongs to no group.
            Field::Sitemap => FieldOf::of(&other, None),
            _ => FieldOf::of(&other, Some(own.binary_search(&other.line).is_ok())),
        })
        .collect()
}

// Families of crawlers: `Googlebot` speaks for `Googlebot-Image` where no group names that one, and only if the crawler gives
// it as its second name.

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
        matches!(selection, Selection::Token(_)).then(|| FamilyOf::of(token, family))
    });
    found.collect()
}
