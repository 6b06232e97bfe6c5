//! How answers become HTTP: 200 or 201 with what is there now, 204 with nothing, or a problem.

use super::problem::Problem;
use crate::service::Put;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What a handler answers.
pub type Answered<T> = Result<T, Problem>;

/// Something that was made or was there already.
pub struct Placed<T>(pub Put<T>);

impl<T: Serialize> IntoResponse for Placed<T> {
    fn into_response(self) -> Response {
        let status = if self.0.is_new { StatusCode::CREATED } else { StatusCode::OK };
        (status, Json(self.0.value)).into_response()
    }
}

/// Something that was made.
pub struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

/// It is done, and there is nothing to say.
pub struct Done;

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}
