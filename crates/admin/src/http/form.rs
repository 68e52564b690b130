//! Forms that change something.
//!
//! Each form carries a secret that only our own pages hold, besides the checks of `guard`: a form from a browser that
//! does not say where it comes from is not believed without it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::extract::{Form, FromRequest, Request};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use super::{Actor, AppState};

/// The name of the field with the secret: `<input type="hidden" name="csrf" value="…">`, with [`AppState::csrf`].
pub const CSRF: &str = "csrf";

/// A form of one of our own pages. `T` is read from its other fields.
#[derive(Debug)]
pub struct Posted<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for Posted<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Response> {
        let ours = request.extensions().get::<Actor>();
        let ours = ours.map(|actor| app.csrf(actor)).unwrap_or_default();
        let Form(mut pairs) = Form::<Vec<(String, String)>>::from_request(request, app)
            .await
            .map_err(IntoResponse::into_response)?;
        let shown = pairs.iter().position(|(name, _)| name == CSRF);
        let shown = shown.map(|place| pairs.swap_remove(place).1);
        if !shown.is_some_and(|shown| is_csrf(&ours, &shown)) {
            let why = "this form is not of this console, or from before it was restarted; load its page again";
            return Err(Problem::new(StatusCode::FORBIDDEN, why).into_response());
        }
        // Back to text, which the form reader expects.
        let text =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
        let request = Request::builder()
            .method(http::Method::POST)
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(text.into())
            .map_err(|error| Problem::bad(error.to_string()).into_response())?;
        let Form(fields) =
            Form::<T>::from_request(request, app).await.map_err(IntoResponse::into_response)?;
        Ok(Posted(fields))
    }
}

fn is_csrf(ours: &str, shown: &str) -> bool {
    !ours.is_empty() && verify_slices_are_equal(ours.as_bytes(), shown.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::token::secret_of;
    use super::*;

    #[test]
    fn each_sender_has_a_secret_that_leads_to_no_other() {
        let key = "0123456789abcdef";
        let (nameless, ada, eve) =
            (secret_of(key, None), secret_of(key, Some("ada")), secret_of(key, Some("eve")));
        assert!(nameless != ada && ada != eve && eve != nameless);
        // The key would make the secret of each user.
        assert_ne!(nameless, key);
        assert_ne!(secret_of(&nameless, Some("ada")), ada);
        assert!(is_csrf(&ada, &secret_of(key, Some("ada"))));
        for user in [None, Some("ada")] {
            assert!(!is_csrf(&secret_of("", user), ""), "{user:?}");
        }
    }
}
