//! Versions of a rule: their bytes are taken and checked in the background.

use crate::api::access::By;
use crate::api::answers::{Answered, Placed};
use crate::api::app::App;
use crate::api::body::{Received, media_type, receive, unsupported};
use crate::api::problem::Problem;
use crate::limits::Limits;
use crate::service::model::Version;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Multipart, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use futures_util::FutureExt;
use utoipa::ToSchema;

/// Room for the boundaries and headers of a form around the component.
const FORM_BYTES: usize = 64 * 1024;
/// A component may take longer than other bodies: it is that much larger.
const SLOWER: u32 = 4;
const RAW: &[&str] = &["application/wasm", "application/octet-stream"];
const FORM: &str = "multipart/form-data";

/// The bytes of a component.
pub struct ComponentBody {
    bytes: Bytes,
    // The memory that they take.
    _received: Received,
}

impl FromRequest<App> for ComponentBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let content_type = media_type(request.headers());
        let is_form = content_type == FORM;
        if !is_form && !RAW.contains(&content_type.as_str()) {
            return Err(unsupported(&content_type, "application/wasm or a form"));
        }
        let headers = request.headers().clone();
        let bytes_max = usize::try_from(Limits::default().component_bytes_max).unwrap_or(usize::MAX);
        let bytes_max = bytes_max + if is_form { FORM_BYTES } else { 0 };
        let received = receive(request, app, bytes_max, app.limits.body_timeout * SLOWER).await?;
        let bytes = if is_form {
            // The form was read with the bounds of any body; now its parts are found in memory.
            let mut whole = Request::new(received.bytes.clone().into());
            *whole.headers_mut() = headers;
            component_of(whole).await?
        } else {
            received.bytes.clone()
        };
        Ok(ComponentBody { bytes, _received: received })
    }
}

async fn component_of(form: Request) -> Result<Bytes, Problem> {
    let malformed =
        |why: String| Problem::new(StatusCode::BAD_REQUEST, "invalid", format!("the form is not right: {why}"));
    let mut form = Multipart::from_request(form, &()).await.map_err(|error| malformed(error.body_text()))?;
    let field = form.next_field().await.map_err(|error| malformed(error.body_text()))?;
    let field = field.filter(|field| field.name() == Some("component"));
    let field = field.ok_or_else(|| malformed("its first part is not called component".to_owned()))?;
    let bytes = field.bytes().await.map_err(|error| malformed(error.body_text()))?;
    match form.next_field().await {
        Ok(None) => Ok(bytes),
        Ok(Some(_)) => Err(malformed("it has more than one part".to_owned())),
        Err(error) => Err(malformed(error.body_text())),
    }
}

/// The bytes of the component in a form that is all in memory; none when it is no such form.
pub fn component_in_form(content_type: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut form = Request::new(bytes.to_vec().into());
    form.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_str(content_type).ok()?);
    // Nothing has to be waited for.
    component_of(form).now_or_never()?.ok().map(Vec::from)
}

/// A form with a component.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what is sent")]
pub struct ComponentForm {
    /// The component.
    #[schema(value_type = String, format = Binary, content_media_type = "application/wasm")]
    component: Vec<u8>,
}

/// The bytes of a component.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "it describes what is sent")]
pub struct ComponentBytes(Vec<u8>);

/// Bring a version of a rule.
///
/// The bytes of a component, as they are or as the part `component` of a form. They are checked in the background: ask for the version
/// until it is `ready` or `refused`. Bytes that are there already are the same version (200).
#[utoipa::path(post, path = "/v1/rules/{rule}/versions", tag = "versions",
    request_body(content((ComponentBytes = "application/wasm"), (ComponentBytes = "application/octet-stream"), (ComponentForm = "multipart/form-data"))),
    responses((status = 200, body = Version), (status = 201, body = Version)))]
pub async fn upload(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
    component: ComponentBody,
) -> Answered<Placed<Version>> {
    let upload = move |service: &crate::service::Service, caller: &crate::service::Caller| {
        service.upload_version(caller, &rule, &component.bytes)
    };
    app.work.waiting(caller, upload).await.map(Placed)
}

/// List the versions of a rule, newest first.
#[utoipa::path(get, path = "/v1/rules/{rule}/versions", tag = "versions", responses((status = 200, body = Vec<Version>)))]
pub async fn versions(
    State(app): State<App>,
    By(caller): By,
    Path(rule): Path<String>,
) -> Answered<Json<Vec<Version>>> {
    app.work.short(caller, move |service, caller| service.versions(caller, &rule)).await.map(Json)
}

/// Show a version and how far its checks are.
///
/// By its digest, the beginning of it, or what the component calls its version when that is unique.
#[utoipa::path(get, path = "/v1/rules/{rule}/versions/{version}", tag = "versions", responses((status = 200, body = Version)))]
pub async fn version(
    State(app): State<App>,
    By(caller): By,
    Path((rule, version)): Path<(String, String)>,
) -> Answered<Json<Version>> {
    app.work.short(caller, move |service, caller| service.version(caller, &rule, &version)).await.map(Json)
}
