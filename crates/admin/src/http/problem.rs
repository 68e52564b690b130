//! Problem documents (RFC 9457), the form of all errors here.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode, Uri};
use serde::Serialize;
use thiserror::Error;

use crawlgate_store::{StoreError, StoreErrorKind};

/// The media type.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Octets of a library's message about a refused request.
const LONGEST: usize = 8 * 1024;

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{detail}")]
pub struct Problem {
    /// The type of problem: always `about:blank`, as the status says it (RFC 9457, section 4.2.1).
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(example = "about:blank"))]
    kind: &'static str,
    /// The status in words.
    #[cfg_attr(feature = "openapi", schema(example = "Bad Request"))]
    title: &'static str,
    /// The status.
    #[cfg_attr(feature = "openapi", schema(minimum = 400, maximum = 599, example = 400))]
    status: u16,
    /// The error, and the way out.
    detail: String,
    /// Seconds after which to try again.
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl Problem {
    /// Creates a problem with this status and text.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Unknown"),
            status: status.as_u16(),
            detail: detail.into(),
            retry_after: None,
        }
    }

    /// Creates a 400: the request is not valid.
    pub fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Creates a 404: there is no such thing.
    pub fn missing(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// Creates a 503, with a time to retry.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem { retry_after: Some(5), ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// Creates a 429, with the time to wait.
    pub fn too_many(detail: impl Into<String>, wait: Duration) -> Problem {
        Problem {
            retry_after: Some(wait.as_secs() + 1),
            ..Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
        }
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the error text.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status(), self.retry_after);
        let mut response = (status, Json(self)).into_response();
        let media_type = HeaderValue::from_static(MEDIA_TYPE);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, media_type);
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// An error of the store.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error.kind {
            StoreErrorKind::Ambiguous => Problem::new(StatusCode::CONFLICT, error.to_string()),
            _ => Problem::busy(error.to_string()),
        }
    }
}

/// Answers a request for an unknown path.
pub async fn not_found(uri: Uri) -> Problem {
    let path = uri.path();
    Problem::missing(format!("{path}: there is nothing here"))
}

/// Answers a request with a wrong method.
pub async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let path = uri.path();
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path}: {method} is not for this; Allow says what is"),
    )
}

/// Turns a library's plain text about a refused request into a problem document.
pub async fn rewrite(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let media_type = response.headers().get(CONTENT_TYPE);
    let is_plain =
        media_type.is_none_or(|media_type| media_type.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !is_plain {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let said = to_bytes(body, LONGEST).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let detail = match said.trim() {
        "" => head.status.canonical_reason().unwrap_or_default().to_owned(),
        said => said.to_owned(),
    };
    let (ours, body) = Problem::new(status, detail).into_response().into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.extend(ours.headers);
    Response::from_parts(head, Body::new(body))
}
