//! The description of the API (OpenAPI 3.1), made from the types and functions of the API.
//!
//! `docs/openapi.json` holds what this module makes, so that the program is built without it: the derived descriptions take
//! as long to build as a tenth of the program. A test compares the two, and writes the file when
//! `CRAWLGATE_WRITE_OPENAPI` is set.

#![allow(
    dead_code,
    reason = "the fields of parameters and files are described here, and read and written elsewhere"
)]

use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoParams, Modify, ToSchema};

use super::{
    acknowledgements, check, decisions, fleet, live, origins, overrides, report, sitemaps,
    snapshots, status,
};
use crate::admin::http::problem::Problem;
use crate::admin::query::{modes, verdicts};
use crate::policy::Reason;

/// The OpenAPI description.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "crawlgate",
        description = "The decisions of a running crawlgate, the states of origins, and people's overrides. Where users or a token \
            are configured, a request without right credentials is answered 401, and one beyond the role of its user 403: \
            `read` may do every GET and the check, `review` may acknowledge, too, `operate` may do everything. Too many wrong \
            passwords are answered 429.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/api/v1")),
    paths(
        status::status,
        fleet::fleet,
        decisions::list,
        decisions::one,
        decisions::evidence,
        decisions::proof,
        acknowledgements::one,
        acknowledgements::all,
        decisions::tallies,
        report::of_span,
        live::live,
        origins::list,
        origins::one,
        origins::fetches,
        origins::forget,
        origins::refresh,
        sitemaps::list,
        snapshots::text,
        snapshots::diff,
        overrides::list,
        overrides::add,
        overrides::remove,
        check::check,
    ),
    modifiers(&Credentials),
    security((), ("basic" = []), ("bearer" = [])),
    components(schemas(Problem)),
    tags(
        (name = "decisions", description = "Decisions, their clients, and their reasons"),
        (name = "origins", description = "Origins, their states and their robots.txt"),
        (name = "overrides", description = "Paths that people allow or deny regardless of robots.txt"),
        (name = "process", description = "The process itself"),
    ),
)]
struct Description;

/// The schemes of credentials.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let components = description.components.get_or_insert_default();
        for (name, scheme, said) in [
            (
                "basic",
                HttpAuthScheme::Basic,
                "The name and the password of an [[admin.user]]",
            ),
            (
                "bearer",
                HttpAuthScheme::Bearer,
                "The token of an [[admin.user]], or that of [admin] token_file",
            ),
        ] {
            let http = HttpBuilder::new().scheme(scheme).description(Some(said));
            components.add_security_scheme(name, SecurityScheme::Http(http.build()));
        }
    }
}

/// Conditions on decisions; all that are given must hold.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ConditionParams {
    /// Earliest time: `2026-11-20`, `2026-11-20T12:00`, `2026-11-20T12:00:00Z` (UTC), or a span back from now: `2h`,
    /// `7d`.
    #[param(example = "7d")]
    since: Option<String>,
    /// Latest time, exclusive; a day counts whole.
    #[param(example = "2027-12-31")]
    until: Option<String>,
    /// The origin (`https://site.example`), or a host with any scheme and port.
    #[param(example = "https://site.example")]
    origin: Option<String>,
    /// A pattern that matches the path, as in robots.txt.
    #[param(pattern = "^[/*]")]
    path: Option<String>,
    /// The text of the deciding rule, as its file has it: `Disallow: /private`.
    rule: Option<String>,
    /// The client's address or name.
    client: Option<String>,
    /// The product token that judges the crawler.
    agent: Option<String>,
    /// The reason.
    #[param(schema_with = reason)]
    reason: Option<String>,
    /// The verdict.
    #[param(schema_with = verdict)]
    verdict: Option<String>,
    /// The mode.
    #[param(schema_with = mode)]
    mode: Option<String>,
    /// True for requests that were let through and then failed, false for the others.
    failed: Option<bool>,
    /// True for acknowledged decisions, false for the others.
    acknowledged: Option<bool>,
}

/// The logs to read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LogParam {
    /// The names of logs with commas between them, `*` for this process's own and all collected ones (`[audit] collection`);
    /// by default this process's own. The end of a name behind a slash is enough, or a part that no other name has.
    log: Option<String>,
}

/// An evidence file: a record with its proof, for a reader who has neither crawlgate nor the store.
#[derive(ToSchema)]
pub(super) struct EvidenceFile {
    /// `crawlgate-evidence@1`.
    format: String,
    /// The name of the log.
    log: String,
    /// The key of the log, as the file says. The right key comes from another source.
    vkey: String,
    /// The program that made the file.
    made_by: String,
    /// The record.
    #[schema(value_type = Object)]
    record: serde_json::Value,
    /// The octets of the entry in the log, in base64.
    entry: String,
    /// The path from the entry to a signed checkpoint (c2sp.org/tlog-proof).
    proof: String,
    /// The objects that the entry names; one that the store no longer has is missing.
    #[schema(value_type = Vec<Object>)]
    objects: Vec<serde_json::Value>,
    /// The robots.txt that the decision rests on; none if there was none, or the store no longer has it.
    #[schema(value_type = Option<Object>)]
    robots: Option<serde_json::Value>,
}

fn words(words: &[&str]) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words.to_vec()))
        .build()
}

fn reason() -> Object {
    words(&Reason::ALL.map(Reason::as_str))
}

fn verdict() -> Object {
    words(&verdicts())
}

fn mode() -> Object {
    words(&modes())
}

#[cfg(test)]
mod tests {
    use utoipa::OpenApi as _;

    use super::Description;
    use crate::admin::http::api::DESCRIPTION;

    #[test]
    fn the_file_describes_the_api_as_it_is() {
        let made = Description::openapi().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("CRAWLGATE_WRITE_OPENAPI").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
            std::fs::write(path, &made).unwrap();
            return;
        }
        assert_eq!(
            DESCRIPTION, made,
            "CRAWLGATE_WRITE_OPENAPI=1 cargo test openapi writes the file"
        );
    }
}
