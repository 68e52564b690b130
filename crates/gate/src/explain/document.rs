//! A judgement for programs: one JSON object on one line.

use std::borrow::Cow;

use serde::Serialize;

use super::families::{FamilyOf, families, family_of};
use super::usage::Usage;
use super::{Alternative, File, Judgement, Unjudged, group_of, meaning};
use crawlgate_policy::Decision;
use crawlgate_policy::overrides::Override;
use crawlgate_robots::{
    ApplicableGroup, Field, Group, Judged, Lint, MatchedBy, OtherLine, Rule, Selection, TokenRole,
};
use crawlgate_text::guarded::line;
use crawlgate_text::{hex, time_text};
use crawlgate_usage::{self as usage, record::UsageRecord};

/// A URL, judged.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Document<'a> {
    url: String,
    verdict: &'static str,
    reason: &'static str,
    meaning: String,
    rule: Option<&'a str>,
    line: Option<u32>,
    group: Option<&'a str>,
    #[serde(rename = "override")]
    asserted: Option<Assertion<'a>>,
    /// The override that would decide, if `--robots` did not exclude it.
    override_left_aside: Option<Assertion<'a>>,
    /// The decision that would apply without the override.
    without_override: Option<Without<'a>>,
    agent: Vec<Token<'a>>,
    robots: Option<RobotsTxt<'a>>,
    /// The User-Agent of the robots.txt fetch; none without a fetch.
    fetched_with: Option<&'a str>,
    /// The moment of that fetch: of the gate's copy, if it judges by one.
    fetched: Option<String>,
    groups: Vec<SpeakerOf<'a>>,
    path: Option<PathOf<'a>>,
    readings: Vec<PathOf<'a>>,
    fields: Vec<FieldOf<'a>>,
    notes: Vec<NoteOf<'a>>,
    /// If no group names the crawler: the groups that name its family. They do not count, because the crawler does not give
    /// its family as its second name.
    families: Vec<FamilyOf<'a>>,
    /// What the site says of the use of the page, as a record has it; null where it says nothing and no purpose is
    /// declared.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    usage: Option<UsageRecord<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Assertion<'a> {
    id: String,
    pattern: &'a str,
    action: &'static str,
    until: Option<String>,
    by: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Without<'a> {
    verdict: &'static str,
    reason: &'static str,
    meaning: String,
    rule: Option<&'a str>,
    line: Option<u32>,
    group: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Token<'a> {
    token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<&'static str>,
    /// The earlier token that belongs to this token's family.
    #[serde(skip_serializing_if = "Option::is_none")]
    family_of: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct RobotsTxt<'a> {
    url: Cow<'a, str>,
    octets: usize,
    truncated: bool,
    sha256: String,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct SpeakerOf<'a> {
    name: &'a str,
    line: u32,
    user_agents: Vec<Named<'a>>,
    rules: usize,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Named<'a> {
    value: Cow<'a, str>,
    line: u32,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct PathOf<'a> {
    path: Cow<'a, str>,
    compared: Cow<'a, str>,
    verdict: &'static str,
    why: &'static str,
    matches: Vec<MatchOf<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct MatchOf<'a> {
    octets: usize,
    kind: &'static str,
    pattern: &'a str,
    by: &'static str,
    rule: &'a str,
    line: u32,
    group: &'a str,
    group_line: u32,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct FieldOf<'a> {
    field: &'static str,
    value: Cow<'a, str>,
    line: u32,
    /// True if its group applies to the crawler.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<bool>,
}

/// A note, as `check --json` and `--jsonl` write it.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoteOf<'a> {
    line: u32,
    kind: &'static str,
    message: String,
    text: &'a str,
}

/// A file with its groups, fields and notes.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct FileDocument<'a> {
    robots: RobotsTxt<'a>,
    groups: Vec<GroupOf<'a>>,
    fields: Vec<FieldOf<'a>>,
    notes: Vec<NoteOf<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct GroupOf<'a> {
    user_agents: Vec<Named<'a>>,
    rules: Vec<RuleOf<'a>>,
    fields: Vec<FieldOf<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct RuleOf<'a> {
    kind: &'static str,
    rule: Cow<'a, str>,
    line: u32,
}

#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Failure<'a> {
    url: &'a str,
    error: &'a str,
}

/// Writes a judgement as one line of JSON.
pub fn of(judged: &Judgement) -> Vec<u8> {
    let Judgement {
        target, decision, ..
    } = judged;
    let rule = decision.rule.as_ref();
    let explanation = judged.explanation.as_ref();
    let notes = judged
        .snapshot
        .as_ref()
        .map(|file| usage::notes(&file.robots));
    let speaker = explanation.and_then(|explanation| explanation.groups.first());
    line(&Document {
        url: format!("{}{}", target.origin, target.path),
        verdict: decision.verdict().as_str(),
        reason: decision.reason.as_str(),
        meaning: meaning(decision),
        rule: rule.map(|rule| &*rule.text),
        line: rule.map(|rule| rule.line),
        group: match &decision.asserted {
            Some(_) => None,
            None => group(decision, speaker),
        },
        asserted: decision.asserted.as_deref().map(|one| assertion_of(one)),
        override_left_aside: match &judged.alternative {
            Some(Alternative::Override(asserted)) => Some(assertion_of(asserted)),
            _ => None,
        },
        without_override: match &judged.alternative {
            Some(Alternative::Robots(otherwise)) => Some(without(otherwise, speaker)),
            _ => None,
        },
        agent: chain(judged),
        robots: judged.snapshot.as_ref().map(robots),
        fetched_with: fetched_with(judged),
        fetched: judged.fetched().map(time_text),
        groups: explanation.map_or_else(Vec::new, |explanation| {
            explanation.groups.iter().map(speaker_of).collect()
        }),
        path: explanation.map(|explanation| path_of(&explanation.written)),
        readings: explanation.map_or_else(Vec::new, |explanation| {
            explanation.readings.iter().map(path_of).collect()
        }),
        fields: fields(judged),
        notes: notes_of(notes.as_deref().unwrap_or_default()),
        families: families(judged),
        usage: judged.usage.as_ref().and_then(Usage::record),
    })
}

/// Writes a URL that cannot be judged as one line of JSON.
pub fn of_unjudged(unjudged: &Unjudged) -> Vec<u8> {
    line(&Failure {
        url: &unjudged.url,
        error: &unjudged.why,
    })
}

/// Writes a file as one line of JSON.
pub fn of_file(file: &File, name: &std::path::Path) -> Vec<u8> {
    let groups: Vec<Group<'_>> = file.robots.groups().collect();
    let mut rows: Vec<GroupOf<'_>> = groups
        .iter()
        .map(|group| GroupOf {
            user_agents: group
                .user_agents()
                .map(|(value, line)| named(value, line))
                .collect(),
            rules: group
                .rules()
                .map(|(kind, content, line)| RuleOf {
                    kind: kind.as_str(),
                    rule: String::from_utf8_lossy(content),
                    line,
                })
                .collect(),
            fields: Vec::new(),
        })
        .collect();
    let mut apart = Vec::new();
    for other in file.robots.others() {
        let group = group_of(&other, &groups).and_then(|at| rows.get_mut(at));
        let fields = group.map_or(&mut apart, |group| &mut group.fields);
        fields.push(field(&other, None));
    }
    let notes = usage::notes(&file.robots);
    line(&FileDocument {
        robots: RobotsTxt {
            url: name.to_string_lossy(),
            ..robots(file)
        },
        groups: rows,
        fields: apart,
        notes: notes_of(&notes),
    })
}

/// Converts notes to their JSON form.
pub fn notes_of(notes: &[Lint]) -> Vec<NoteOf<'_>> {
    notes
        .iter()
        .map(|note| NoteOf {
            line: note.line,
            kind: note.kind.as_str(),
            message: note.kind.to_string(),
            text: &note.text,
        })
        .collect()
}

/// Returns the group that decides, or that applies even if none of its rules matches.
fn group<'a>(decision: &'a Decision, speaker: Option<&'a ApplicableGroup>) -> Option<&'a str> {
    let of_rule = decision.rule.as_ref().map(|rule| &*rule.group);
    of_rule.or(speaker.map(|speaker| &*speaker.name))
}

fn chain(judged: &Judgement) -> Vec<Token<'_>> {
    let tokens = &judged.agent.tokens;
    let of = |token, standing| Token {
        token,
        standing,
        family_of: family_of(token, tokens),
    };
    let Some(explanation) = &judged.explanation else {
        return tokens.iter().map(|it| of(it.as_str(), None)).collect();
    };
    let tokens = explanation.chain.iter().map(|(token, standing)| {
        let standing = match standing {
            TokenRole::Named => "named",
            TokenRole::NotNamed => "not_named",
            TokenRole::NotAsked => "not_asked",
        };
        of(token.as_str(), Some(standing))
    });
    tokens.collect()
}

fn fetched_with(judged: &Judgement) -> Option<&str> {
    let fetched_as = judged.by_robots().fetched_as.as_ref()?;
    Some(&fetched_as.user_agent)
}

fn robots(file: &File) -> RobotsTxt<'_> {
    RobotsTxt {
        url: Cow::Borrowed(&file.final_url),
        octets: file.robots.text().len(),
        truncated: file.robots.is_truncated(),
        sha256: hex(file.sha256),
    }
}

fn assertion_of(asserted: &Override) -> Assertion<'_> {
    Assertion {
        id: asserted.id.to_string(),
        pattern: &asserted.pattern,
        action: asserted.action.as_str(),
        until: asserted.until.map(time_text),
        by: &asserted.by,
        reason: &asserted.reason,
    }
}

fn without<'a>(decision: &'a Decision, speaker: Option<&'a ApplicableGroup>) -> Without<'a> {
    let rule = decision.rule.as_ref();
    Without {
        verdict: decision.verdict().as_str(),
        reason: decision.reason.as_str(),
        meaning: meaning(decision),
        rule: rule.map(|rule| &*rule.text),
        line: rule.map(|rule| rule.line),
        group: group(decision, speaker),
    }
}

fn speaker_of(group: &ApplicableGroup) -> SpeakerOf<'_> {
    SpeakerOf {
        name: &group.name,
        line: group.line,
        user_agents: group
            .user_agents
            .iter()
            .map(|(value, line)| named(value.as_bytes(), *line))
            .collect(),
        rules: group.rules,
    }
}

fn named(value: &[u8], line: u32) -> Named<'_> {
    Named {
        value: String::from_utf8_lossy(value),
        line,
    }
}

fn path_of(judged: &Judged) -> PathOf<'_> {
    PathOf {
        path: String::from_utf8_lossy(&judged.path),
        compared: String::from_utf8_lossy(&judged.form),
        verdict: if judged.is_disallowed() {
            "deny"
        } else {
            "allow"
        },
        why: judged.why.as_str(),
        matches: judged
            .matches
            .iter()
            .map(|found| {
                let Rule {
                    kind,
                    text,
                    line,
                    group,
                    group_line,
                } = &found.rule;
                MatchOf {
                    octets: found.octets,
                    kind: kind.as_str(),
                    pattern: &found.pattern,
                    by: match found.by {
                        MatchedBy::Path => "path",
                        MatchedBy::Folder => "folder",
                    },
                    rule: text,
                    line: *line,
                    group,
                    group_line: *group_line,
                }
            })
            .collect(),
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
            Field::Sitemap => field(&other, None),
            _ => field(&other, Some(own.binary_search(&other.line).is_ok())),
        })
        .collect()
}

fn field<'a>(other: &OtherLine<'a>, own: Option<bool>) -> FieldOf<'a> {
    FieldOf {
        field: other.field.as_str(),
        value: String::from_utf8_lossy(other.value),
        line: other.line,
        own,
    }
}
