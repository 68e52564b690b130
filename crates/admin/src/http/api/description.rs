//! The description of the API (OpenAPI 3.1), made from the types and functions of the API.
//!
//! `docs/openapi.json` holds what this module makes, so that the program is built without it: the derived descriptions take
//! as long to build as a tenth of the program. A test compares the two, and writes the file when
//! `CRAWLGATE_WRITE_OPENAPI` is set.

use utoipa::Modify;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::{acknowledgements, check, decisions, live, origins, overrides, snapshots, status};
use crate::http::problem::Problem;

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
