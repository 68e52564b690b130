//! The frame of every page: its title, the navigation, and the response headers.

use std::borrow::Borrow;

use askama::Template;
use askama::filters::Safe;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

use super::super::open_denials::OpenCount;
use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::assets;
use super::format::{Timestamp, number};
use crawlgate_config::{Config, Mode, Role};
use crawlgate_system::clock::Moment;

/// The pages in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Denials,
    Origins,
    Overrides,
    Fleet,
    Report,
    Try,
    Live,
    Setup,
    /// A page outside the navigation.
    Elsewhere,
}

/// An entry of the navigation.
pub(super) struct NavEntry {
    pub(super) section: Section,
    pub(super) href: &'static str,
    pub(super) name: &'static str,
}

const NAV_ENTRIES: [NavEntry; 9] = [
    entry(Section::Overview, "/", "Overview"),
    entry(Section::Denials, "/denials", "Denials"),
    entry(Section::Origins, "/origins", "Origins"),
    entry(Section::Overrides, "/overrides", "Overrides"),
    entry(Section::Fleet, "/fleet", "Fleet"),
    entry(Section::Report, "/report", "Report"),
    entry(Section::Try, "/try", "Try a URL"),
    entry(Section::Live, "/watch", "Live"),
    entry(Section::Setup, "/setup", "Set-up"),
];

const fn entry(section: Section, href: &'static str, name: &'static str) -> NavEntry {
    NavEntry { section, href, name }
}

/// Exempt clients that a page names.
const MAX_EXEMPT: usize = 8;

/// The data of a page's frame.
pub(super) struct Layout {
    pub(super) title: String,
    here: Section,
    has_fleet: bool,
    /// The number of open denials.
    open: Option<OpenCount>,
    /// Warnings in words: denials that are not enforced, clients that are exempt.
    pub(super) warnings: Vec<String>,
    pub(super) now: Moment,
    pub(super) csrf: String,
    /// The signed-in user and its role.
    user: Option<(String, Role)>,
    role: Role,
}

impl Layout {
    pub(super) fn new(
        app: &AppState,
        actor: &Actor,
        here: Section,
        title: impl Into<String>,
    ) -> Layout {
        Layout {
            title: title.into(),
            here,
            has_fleet: app.proxy().gate().fleet().is_some(),
            open: app.open_denials().shown(),
            warnings: warnings(&app.proxy().settings()),
            now: app.now(),
            csrf: app.csrf(actor),
            user: actor.name().map(|name| (name.to_owned(), actor.role())),
            role: actor.role(),
        }
    }

    /// Shows a time.
    pub(super) fn when(&self, then: impl Borrow<Moment>) -> Safe<Timestamp> {
        Safe(Timestamp::at(*then.borrow(), self.now))
    }

    /// Shows the time of a text, if it is one.
    pub(super) fn when_of(&self, text: &Option<String>) -> Option<Safe<Timestamp>> {
        Timestamp::of(text.as_deref()?, self.now).map(Safe)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &'static NavEntry> {
        let is_shown = |entry: &&NavEntry| self.has_fleet || entry.section != Section::Fleet;
        NAV_ENTRIES.iter().filter(is_shown)
    }

    pub(super) fn is_here(&self, entry: &NavEntry) -> bool {
        entry.section == self.here
    }

    /// Returns the number of open denials beside this entry, in figures.
    pub(super) fn open(&self, entry: &NavEntry) -> Option<String> {
        let open = self.open.filter(|_| entry.section == Section::Denials)?;
        let more = if open.is_complete { "" } else { "+" };
        Some(format!("{}{more}", number(open.count)))
    }

    /// Returns the signed-in user and its role; none if no user is signed in.
    pub(super) fn user(&self) -> Option<(&str, Role)> {
        self.user.as_ref().map(|(name, role)| (&**name, *role))
    }

    /// Tells whether the sender may acknowledge.
    pub(super) fn may_review(&self) -> bool {
        self.role >= Role::Review
    }

    /// Tells whether the sender may change everything.
    pub(super) fn may_operate(&self) -> bool {
        self.role >= Role::Operate
    }

    pub(super) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    pub(super) fn style(&self) -> String {
        assets::STYLE.href()
    }

    pub(super) fn script(&self) -> String {
        assets::SCRIPT.href()
    }

    pub(super) fn icon(&self) -> String {
        assets::ICON.href()
    }
}

/// Returns the warnings: a user must not mistake a proxy that lets something out for one that denies it.
fn warnings(config: &Config) -> Vec<String> {
    [mode(config).map(str::to_owned), exempt(config)].into_iter().flatten().collect()
}

fn mode(config: &Config) -> Option<&'static str> {
    let policy = &config.policy;
    if policy.mode == Mode::Report {
        Some("Report mode: everything is decided and recorded, nothing is denied")
    } else if !policy.report_origins.is_empty() || !policy.report_clients.is_empty() {
        Some("Report mode for some origins or clients: nothing is denied there")
    } else {
        None
    }
}

/// Names the exempt clients, and the operator's reasons.
fn exempt(config: &Config) -> Option<String> {
    let all: Vec<_> = config
        .clients
        .iter()
        .filter_map(|client| Some(format!("{} ({})", client.name, client.exempt.as_ref()?)))
        .collect();
    let few = all.get(..MAX_EXEMPT).unwrap_or(&all).join(", ");
    let more = match all.len().saturating_sub(MAX_EXEMPT) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!all.is_empty()).then(|| format!("Exempt from what robots.txt disallows: {few}{more}"))
}

/// A page to send.
pub(super) struct Page<T>(pub(super) T);

impl<T: Template> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        match self.0.render() {
            Ok(page) => Html(page).into_response(),
            // Writing to a String does not fail; a template can.
            Err(error) => {
                let why = format!("the page cannot be written: {error}");
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
            }
        }
    }
}

/// The result of a handler.
pub(super) type PageResult<T> = Result<Page<T>, Problem>;

/// The result of a handler that gives a form back with the status of its faults.
pub(super) type FormResult<T> = Result<(StatusCode, Page<T>), Problem>;
