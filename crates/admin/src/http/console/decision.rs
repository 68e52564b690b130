//! The page of one decision: the request, the deciding rule, the robots.txt at that time, and the proof.

mod proof;

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use self::proof::{Proof, SignedRoot, checkpoint_of};
use super::super::logs::FoundDecision;
use super::super::problem::Problem;
use super::super::proof::evidence_file;
use super::super::{Actor, AppState};
use super::filter::{Filter, params};
use super::format::{Fact, Timestamp, encoded, headline, line};
use super::json::spread;
use super::layout::{Layout, Page, PageResult, Section};
use super::note::{NoteForm, mark_of};
use super::review::next_open;
use super::reviewer::Reviewer;
use super::text::Text;
use super::usage::UsageTable;
use crawlgate_evidence::replay;
use crawlgate_evidence::verify::case::{Case, Trusted};
use crawlgate_evidence::words::{answered, author, came_by, signature, time};
use crawlgate_policy::Reason;
use crawlgate_policy::agent;
use crawlgate_record::{File, Mode, Told, token_texts};
use crawlgate_robots::{Explanation, Origin, ProductToken};
use crawlgate_system::clock::Moment;

#[derive(Template)]
#[template(path = "decision.html", config = "src/http/console/askama.toml")]
pub(super) struct DecisionPage {
    layout: Layout,
    id: String,
    /// The log, unless it is that of this process.
    log: Option<LogLink>,
    seq: u64,
    /// The action that has just been done, in words.
    done: Option<&'static str>,
    verdict: String,
    reason: String,
    /// The sentence for the reason.
    headline: Option<String>,
    is_report: bool,
    url: String,
    /// The facts of the request.
    facts: Vec<Fact>,
    origin: Option<OriginLink>,
    proof: Proof,
    /// Statements of the site about the use of its content.
    usage: Option<UsageTable>,
    explained: Option<Explanation>,
    text: Option<Text>,
    record: String,
    seen: Option<AcknowledgedBy>,
    /// The conditions of the list that led here, as a query.
    list: String,
    /// The link to the next open decision of that list.
    next: Option<String>,
    /// The form for an acknowledgement.
    note: NoteForm,
}

/// The collected log of a decision.
struct LogLink {
    name: String,
    /// The name in a URL's query.
    encoded: String,
}

/// The origin of the decision.
struct OriginLink {
    name: String,
    link: String,
    /// The path without its query, for an override.
    pattern: String,
    is_forwarded: bool,
}

/// The person who has seen it.
struct AcknowledgedBy {
    time: Timestamp,
    by: String,
    note: String,
    /// The mark by which a form replaces this acknowledgement, and no later one.
    mark: String,
}

/// `/decisions/{id}`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    Path(id): Path<String>,
    reviewer: Reviewer,
    RawQuery(query): RawQuery,
) -> PageResult<DecisionPage> {
    let mut params = params(query.as_deref());
    let done = params.word("done", &["acknowledged"])?;
    let wanted = params.text("log")?;
    let filter = Filter::take(&mut params, "deny")?;
    params.finish(&["done", "log"])?;
    let note = NoteForm::of(reviewer);
    let page = DecisionPage::of(&app, &actor, &id, wanted.as_deref(), &filter, note).await?;
    Ok(Page(DecisionPage { done: done.map(|_| "It is acknowledged."), ..page }))
}

impl DecisionPage {
    /// Returns the page of a decision, from a list with these conditions.
    ///
    /// # Errors
    /// When there is no such decision, or a store cannot be read.
    pub(super) async fn of(
        app: &AppState,
        actor: &Actor,
        id: &str,
        log: Option<&str>,
        filter: &Filter,
        note: NoteForm,
    ) -> Result<DecisionPage, Problem> {
        let FoundDecision { log, store, decision, config } = app.find(id, log).await?;
        let trusted = Trusted::of_store(&[], &config, &store).await;
        let trusted = trusted.map_err(|error| Problem::busy(error.to_string()))?;
        let permit = app.work_permit().await?;
        let case = Case::of(&decision, &store, &trusted).await?;
        let checkpoint = checkpoint_of(&case, &store).await?;
        let next = if log.is_copy() { None } else { next_open(app, filter, decision.seq).await? };
        drop(permit);
        let now = app.now();
        let mut page = DecisionPage {
            layout: Layout::new(app, actor, Section::Denials, "A decision"),
            id: line(id),
            log: log.is_copy().then(|| LogLink {
                name: line(log.name().as_str()),
                encoded: encoded(log.name().as_str()),
            }),
            seq: decision.seq,
            done: None,
            verdict: String::new(),
            reason: String::new(),
            headline: None,
            is_report: false,
            url: String::new(),
            facts: Vec::new(),
            origin: None,
            proof: Proof::of(
                &case,
                &trusted,
                checkpoint.map(|one| SignedRoot::of(&one, &config.audit, now)),
            ),
            usage: None,
            explained: explained(&case),
            text: None,
            record: spread(&decision.record),
            seen: decision.acknowledged.as_ref().map(|seen| AcknowledgedBy {
                time: Timestamp::at(seen.time, now),
                by: line(&seen.by),
                note: line(&seen.note),
                mark: mark_of(seen),
            }),
            list: filter.link(&[("acknowledged", "")]),
            next,
            note,
        };
        if let Ok(one) = &case.told {
            page.tell(one, now);
            let deciding = one.rule.map(|rule| rule.line);
            let sha256 = one.robots.and_then(|file| file.sha256);
            let explained = page.explained.as_ref();
            let text = |file| Text::of(file, sha256, deciding, explained);
            page.text = case.file.as_deref().map(text);
        }
        Ok(page)
    }
}

/// `/decisions/{id}/evidence.json`
pub(super) async fn file(
    State(app): State<AppState>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Problem> {
    let mut params = params(query.as_deref());
    let wanted = params.text("log")?;
    params.finish(&["log"])?;
    let found = app.find(&id, wanted.as_deref()).await?;
    let file = evidence_file(&app, &found).await?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CONTENT_DISPOSITION, "attachment; filename=\"evidence.json\""),
    ];
    Ok((headers, file))
}

/// Explains how the file yields the verdict.
fn explained(case: &Case<'_>) -> Option<Explanation> {
    let (file, terms) = (case.file.as_ref()?, case.terms.as_ref()?);
    let one = case.told.as_ref().ok()?;
    let truncated = one.robots.is_some_and(|file| file.truncated);
    let chain = token_texts(&one.chain).into_iter();
    let chain: Vec<ProductToken> =
        chain.filter_map(|token| ProductToken::new(&token).ok()).collect();
    let url = one.url_text();
    let (_, path) = Origin::parse(&url).ok()?;
    let snapshot = replay::snapshot(file, terms, truncated);
    Some(snapshot.robots.explain(&chain, path.as_bytes()))
}

impl DecisionPage {
    fn tell(&mut self, one: &Told<'_>, now: Moment) {
        self.verdict = one.verdict.as_str().to_owned();
        self.reason = line(one.reason);
        self.headline = headline(one.reason, one.rule.is_some());
        self.is_report = one.mode == Mode::Report;
        let url = one.url_text();
        self.url = line(&url);
        self.tell_request(one, &url);
        self.tell_ruling(one);
        let usage = one.usage_record();
        self.usage = usage.map(|usage| UsageTable::of(&usage, one.tdmrep.as_ref()));
        if let Some(robots) = &one.robots {
            self.tell_robots(robots);
        }
        self.tell_times(one, now);
        self.tell_origin(one, &url);
    }

    fn fact(&mut self, name: &'static str, text: &str) {
        self.facts.push(Fact { name, text: line(text), when: None });
    }

    fn tell_request(&mut self, one: &Told<'_>, url: &str) {
        let chain = match token_texts(&one.chain).as_slice() {
            [] => "no product token: the rules for *".to_owned(),
            chain => chain.join(", "),
        };
        self.fact("Request", &format!("{} {url}", one.method));
        self.fact("Came as", &came_by(one));
        let name = one.client_name.map(|name| format!("{name}, "));
        let name = name.unwrap_or_default();
        self.fact("Client", &format!("{name}{}", one.client));
        self.fact("Judged as", &chain);
        if let Some(user_agent) = one.user_agent {
            let user_agent = user_agent.to_string();
            self.fact("User-Agent", &user_agent);
            if !agent::has_url(&user_agent) {
                self.fact("Remark", &format!("The User-Agent {}.", agent::WITHOUT_URL));
            }
        }
    }

    /// Tells of the rule or the override that decided, and of the answer.
    fn tell_ruling(&mut self, one: &Told<'_>) {
        if let Some(rule) = one.rule {
            let (text, line, group) = (rule.text, rule.line, rule.group);
            self.fact("Rule", &format!("{text}, line {line}, of the group {group}"));
        }
        if let Some(one) = &one.overridden {
            let action = one.action.as_str();
            let what = format!("{}: {action} {}{}", one.id, one.origin, one.pattern);
            self.fact("Override", &format!("{what}, by {}: {}", author(one), one.reason));
        }
        if let Some(exempt) = one.exempt {
            self.fact("Exempt", &format!("the client, from {}: {}", exempt.from, exempt.reason));
        }
        if let Some(answer) = answered(one) {
            self.fact("Answered", &answer);
        }
        if let Some(signature) = signature(one) {
            self.fact("Signed", &signature);
        }
    }

    fn tell_robots(&mut self, robots: &File<'_>) {
        let status = robots.status.map(|status| format!(", {status}"));
        let status = status.unwrap_or_default();
        let url = robots.url();
        self.fact("robots.txt", &format!("{url}: {}{status}", robots.state));
        if let Some(user_agent) = robots.user_agent {
            let identity = robots.identity.unwrap_or("*");
            self.fact("Fetched with", &format!("{user_agent} (known as {identity})"));
        }
        if let Some(from) = robots.final_url_text().filter(|from| *from != url) {
            self.fact("Came from", &from);
        }
        if let Some(outage) = &robots.outage {
            let (cause, since) = (outage.cause, time(outage.since));
            self.fact("Unreachable", &format!("since {since}: {cause}"));
        }
    }

    fn tell_times(&mut self, one: &Told<'_>, now: Moment) {
        let fetched = one.robots.and_then(|robots| robots.fetched_at);
        for (name, time) in [("Fetched", fetched), ("Decided", Some(one.decided()))] {
            let when = time.map(|time| Timestamp::at(Moment::from_millis(time), now));
            self.facts.extend(when.map(|when| Fact {
                name,
                text: String::new(),
                when: Some(when),
            }));
        }
    }

    fn tell_origin(&mut self, one: &Told<'_>, url: &str) {
        let path = Origin::parse(url).map(|(_, path)| path).unwrap_or_default();
        let pattern = path.split(['?', '#']).next().unwrap_or("/").to_owned();
        let origin = one.origin.and_then(|origin| Origin::parse(origin).ok());
        self.origin = origin.map(|(origin, _)| OriginLink {
            link: encoded(origin.as_str()),
            name: origin.to_string(),
            pattern: if pattern.is_empty() { "/".to_owned() } else { pattern },
            // No override lifts the address policy.
            is_forwarded: Reason::from_name(one.reason)
                .is_some_and(|reason| !reason.is_always_enforced()),
        });
    }
}
