//! The files that pages load: one style, one script, one picture, all compiled in.

use std::sync::OnceLock;

use aws_lc_rs::digest::{SHA256, digest};
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH};
use http::{HeaderValue, StatusCode};

use super::super::AppState;
use crawlgate_text::hex;

/// A file that is compiled in.
pub(super) struct Asset {
    path: &'static str,
    media_type: &'static str,
    content: &'static str,
    tag: OnceLock<String>,
}

pub(super) static STYLE: Asset =
    asset("/assets/console.css", "text/css; charset=utf-8", include_str!("assets/console.css"));

pub(super) static SCRIPT: Asset = asset(
    "/assets/console.js",
    "text/javascript; charset=utf-8",
    include_str!("assets/console.js"),
);

pub(super) static ICON: Asset =
    asset("/assets/icon.svg", "image/svg+xml", include_str!("assets/icon.svg"));

const fn asset(path: &'static str, media_type: &'static str, content: &'static str) -> Asset {
    Asset { path, media_type, content, tag: OnceLock::new() }
}

impl Asset {
    /// Returns the URL for pages: it changes with the content, so browsers may keep the file.
    pub(super) fn href(&self) -> String {
        format!("{}?{}", self.path, self.tag())
    }

    fn tag(&self) -> &str {
        self.tag.get_or_init(|| {
            let digest = digest(&SHA256, self.content.as_bytes());
            digest.as_ref().get(..8).map(hex).unwrap_or_default()
        })
    }

    /// Answers a request for the file.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", self.tag());
        let is_known = headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|known| known.trim().trim_start_matches("W/") == tag);
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.content.into_response()
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        // The browser asks again each time, and gets the file again from another build.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

/// Returns the routes.
pub(super) fn routes() -> Router<AppState> {
    [&STYLE, &SCRIPT, &ICON].into_iter().fold(Router::new(), |router, asset| {
        let answer = move |headers: HeaderMap| async move { asset.answer(&headers) };
        router.route(asset.path, get(answer))
    })
}
