//! The description of the API (OpenAPI 3.1), made from the types and functions of the API.
//!
//! `docs/openapi.json` holds what this module makes, so that the program is built without it: the derived descriptions take
//! as long to build as a tenth of the program. A test compares the two, and writes the file when
//! `CRAWLGATE_WRITE_OPENAPI` is set.

use utoipa::Modify;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder};

use super::{acknowledgements, check, decisions, live, origins, overrides, snapshots, status};
use crate::http::problem::{MEDIA_TYPE, Problem};

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
        status::fleet,
        decisions::list,
        decisions::one,
        decisions::evidence,
        decisions::proof,
        acknowledgements::one,
        acknowledgements::all,
        decisions::tallies,
        decisions::of_span,
        live::live,
        origins::list,
        origins::one,
        origins::fetches,
        origins::forget,
        origins::refresh,
        origins::list_sitemaps,
        snapshots::text,
        snapshots::diff,
        overrides::list,
        overrides::add,
        overrides::remove,
        check::check,
    ),
    modifiers(&Credentials, &Problems),
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
    fn modify(&self, description: &mut OpenApi) {
        let components = description.components.get_or_insert_default();
        #[rustfmt::skip] // one row, one scheme
        let schemes = [
            ("basic", HttpAuthScheme::Basic, "The name and the password of an [[admin.user]]"),
            ("bearer", HttpAuthScheme::Bearer, "The token of an [[admin.user]], or that of [admin] token_file"),
        ];
        for (name, scheme, said) in schemes {
            let http = HttpBuilder::new().scheme(scheme).description(Some(said));
            components.add_security_scheme(name, SecurityScheme::Http(http.build()));
        }
    }
}

/// The answers that are problems: each operation may answer "not now", and all are of one form.
struct Problems;

impl Modify for Problems {
    fn modify(&self, description: &mut OpenApi) {
        for item in description.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.post, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                let answers = &mut operation.responses.responses;
                let not_now = ResponseBuilder::new().description("Not now").build();
                let not_now = RefOr::T(not_now);
                answers.entry("5XX".to_owned()).or_insert(not_now);
                for status in ["4XX", "5XX"] {
                    if let Some(RefOr::T(answer)) = answers.get_mut(status) {
                        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
                        answer.content.insert(MEDIA_TYPE.to_owned(), RefOr::T(problem));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use utoipa::OpenApi as _;

    use super::Description;
    use crate::http::api::DESCRIPTION;

    #[test]
    fn the_file_describes_the_api_as_it_is() {
        let made = Description::openapi().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("CRAWLGATE_WRITE_OPENAPI").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
            std::fs::write(path, &made).unwrap();
            return;
        }
        assert_eq!(
            DESCRIPTION, made,
            "CRAWLGATE_WRITE_OPENAPI=1 cargo test openapi writes the file"
        );
    }
}
