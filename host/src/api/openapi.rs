//! The OpenAPI document, made from the routes themselves: what the code does not have, it does not say.

use super::problem::{PROBLEM_JSON, Problem};
use super::router::{Listed, listed};
use crate::service::model::Role;
use serde_json::{Value, json};
use std::sync::OnceLock;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, InfoBuilder, ObjectBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, Required,
    ResponseBuilder, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Which roles may use a route; absent where no token is needed.
const ROLES: &str = "x-keyfold-roles";
/// What the token is called in the document.
const TOKEN: &str = "token";
/// Names of things.
const NAME: &str = "^[a-z0-9][a-z0-9._-]{0,62}$";

/// The document as text, made once.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string())
}

/// The document.
pub fn document() -> Value {
    let mut document = serde_json::to_value(routes()).unwrap_or_default();
    name_unsigned(&mut document);
    document
}

/// Numbers without a sign are called so: what describes them gives them the range of those that have one.
fn name_unsigned(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let unsigned = match members.get("format").and_then(Value::as_str) {
                Some("int32") => "uint32",
                Some("int64") => "uint64",
                _ => "",
            };
            if !unsigned.is_empty() && members.get("minimum").and_then(Value::as_u64).is_some() {
                members.insert("format".to_owned(), unsigned.into());
            }
            members.values_mut().for_each(name_unsigned);
        }
        Value::Array(items) => items.iter_mut().for_each(name_unsigned),
        _ => {}
    }
}

fn routes() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Keyfold")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Stateful rules of many tenants: streams of events, rules that read them, versions that are swapped while they run."));
    let mut document = OpenApiBuilder::new().info(info).components(Some(Components::new())).build();
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert("Problem".to_owned(), Problem::schema());
    components.add_security_scheme(TOKEN, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    for Listed { operation, routes: (schemas, paths, _), .. } in listed() {
        components.schemas.extend(schemas);
        let roles = operation.map(|operation| operation.roles);
        for (path, mut item) in paths.paths {
            each_operation(&mut item, |operation| complete(operation, &path, roles));
            match document.paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => drop(document.paths.paths.insert(path, item)),
            }
        }
    }
    let mut named = Vec::new();
    <Problem as ToSchema>::schemas(&mut named);
    components.schemas.extend(named);
    document
}

fn each_operation(item: &mut PathItem, change: impl FnMut(&mut Operation)) {
    let all = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
    all.into_iter().flatten().for_each(change);
}

/// Says what holds for every route: its names, its roles, its problems.
fn complete(operation: &mut Operation, path: &str, roles: Option<&[Role]>) {
    let known = operation.parameters.get_or_insert_with(Vec::new);
    known.retain(|parameter| parameter.parameter_in != ParameterIn::Path);
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    known.splice(0..0, names.map(path_parameter));
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            response.description = match status.as_str() {
                "201" => "It was made",
                "204" => "It is done",
                _ => "It is done, or there already",
            }
            .to_owned();
        }
    }
    let mut statuses = vec![("400", "The request is wrong"), ("500", "The server failed"), ("503", "Not now")];
    if let Some(roles) = roles {
        operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], _>(TOKEN, [])]);
        operation.extensions = Some(ExtensionsBuilder::new().add(ROLES, words(roles)).build());
        statuses.extend([
            ("401", "No token, or one that does not hold"),
            ("403", "The token's role does not allow it, or a quota is used up"),
            ("404", "There is no such thing, or it is another tenant's"),
            ("409", "Not in the present state"),
            ("429", "Too much in a short time"),
            ("504", "It took too long"),
        ]);
    }
    if operation.request_body.is_some() {
        let of_bodies = [("408", "The body came too slowly"), ("413", "The body is too large")];
        statuses.extend(of_bodies);
        statuses.extend([("415", "The body is of another kind"), ("507", "The disk is full")]);
    }
    for (status, description) in statuses {
        let content = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new().description(description).content(PROBLEM_JSON, content).build();
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(response));
    }
}

fn words(roles: &[Role]) -> Value {
    json!(roles)
}

fn path_parameter(name: &str) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let (schema, description) = match name {
        "version" => (
            text.min_length(Some(1)).max_length(Some(100)).pattern(Some("^[A-Za-z0-9.:+_-]+$")),
            "Its digest, the beginning of it, or what the component calls its version".to_owned(),
        ),
        _ => (text.pattern(Some(NAME)), format!("The name of the {name}")),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Operation as Asked;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_is_of_version_3_1_and_every_route_in_it_says_its_roles() {
        let document: Value = serde_json::from_str(text()).expect("it is JSON");
        assert!(
            document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")),
            "{}",
            document["openapi"]
        );
        let open = ["/healthz", "/readyz", "/openapi.json"];
        let mut operations = 0;
        for (path, item) in document["paths"].as_object().expect("it has paths") {
            for (method, operation) in item.as_object().expect("it has operations") {
                operations += 1;
                let roles = operation[ROLES].as_array().map_or(0, Vec::len);
                assert_eq!(roles == 0, open.contains(&path.as_str()), "{method} {path}");
                assert_eq!(operation["security"].is_null(), roles == 0, "{method} {path}");
                assert!(operation["summary"].is_string(), "{method} {path} says what it does");
            }
        }
        assert_eq!(operations, listed().len(), "no route hides another one");
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_and_says_what_its_answers_are() {
        let document: Value = serde_json::from_str(text()).expect("it is JSON");
        let mut ids = BTreeSet::new();
        for item in document["paths"].as_object().expect("it has paths").values() {
            for operation in item.as_object().expect("it has operations").values() {
                let id = operation["operationId"].as_str().expect("it has one");
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
                for (status, answer) in operation["responses"].as_object().expect("it has answers") {
                    assert_ne!(answer["description"], "", "{id} {status}");
                }
            }
        }
    }

    #[test]
    fn everything_that_can_be_asked_has_a_route() {
        let routed: BTreeSet<&str> =
            listed().iter().filter_map(|l| l.operation).map(|operation| operation.name).collect();
        let all: BTreeSet<&str> = Asked::ALL.iter().map(|operation| operation.name).collect();
        assert_eq!(routed, all);
    }

    #[test]
    fn every_schema_that_is_referred_to_is_there() {
        let document: Value = serde_json::from_str(text()).expect("it is JSON");
        let schemas = document["components"]["schemas"].as_object().expect("it has schemas");
        let missing: BTreeSet<&str> = text()
            .split("#/components/schemas/")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .filter(|name| !schemas.contains_key(*name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
