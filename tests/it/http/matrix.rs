//! Who may use what: every route of the document with every kind of token. A route that does not say its roles fails the test.

use super::ask::{Ask, Reply};
use super::served::{ROLES, Served, manifest};
use crate::support::process::wait_until;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A route of the document.
struct Route {
    method: Method,
    path: String,
    roles: Vec<String>,
    has_body: bool,
}

impl Route {
    /// The path, with this in place of every name.
    fn path(&self, name: &str) -> String {
        let parts = self.path.split('/').map(|part| if part.starts_with('{') { name } else { part });
        parts.collect::<Vec<_>>().join("/")
    }

    /// Asks for it in a way that changes nothing: bodies are of a kind that no route takes.
    fn ask(&self, ask: &Ask, name: &str) -> Reply {
        let mut path = self.path(name);
        if self.path.ends_with("/state") {
            path += "?key=k";
        }
        let request = ask.request(self.method.clone(), &path);
        let request =
            if self.has_body { request.header("content-type", "text/plain").body("nothing") } else { request };
        Reply::of(request.send().unwrap_or_else(|error| panic!("{} {path}: {error}", self.method)))
    }
}

/// Routes that are for everybody.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];

fn routes(served: &Served) -> Vec<Route> {
    let document = served.nobody().get("/openapi.json").ok();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().expect("it has paths") {
        if OPEN.contains(&path.as_str()) {
            continue;
        }
        for (method, operation) in item.as_object().expect("it has operations") {
            let roles = operation["x-keyfold-roles"].as_array();
            let roles = roles.unwrap_or_else(|| panic!("{method} {path} does not say who may use it"));
            routes.push(Route {
                method: method.to_uppercase().parse().expect("it is a method"),
                path: path.clone(),
                roles: roles.iter().map(|role| role.as_str().expect("it is a word").to_owned()).collect(),
                has_body: !operation["requestBody"].is_null(),
            });
        }
    }
    assert!(routes.len() >= 35, "{} routes", routes.len());
    routes
}

#[test]
fn every_route_lets_in_whom_the_document_says_and_nobody_else() {
    let served = Served::start();
    let routes = routes(&served);
    let asks: BTreeMap<&str, Ask> =
        ROLES.into_iter().zip(served.tenant("acme")).chain([("platform", served.platform.clone())]).collect();
    let (mut let_in, mut kept_out) = (0, 0);
    for route in &routes {
        for (role, ask) in &asks {
            let reply = route.ask(ask, "absent");
            let what = format!("{} {} as {role}: {} {}", route.method, route.path, reply.status, reply.text);
            if route.roles.iter().any(|allowed| allowed == role) {
                let is_kept_out = reply.status == 401 || (reply.status == 403 && reply.problem() == "forbidden");
                assert!(!is_kept_out, "{what}");
                assert!(reply.status < 500, "{what}");
                let_in += 1;
            } else {
                assert_eq!((reply.status, reply.problem().as_str()), (403, "forbidden"), "{what}");
                kept_out += 1;
            }
        }
    }
    println!("{} routes × {} roles: {let_in} let in, {kept_out} kept out", routes.len(), asks.len());
}

#[test]
fn a_token_that_does_not_hold_is_the_same_as_none_at_every_route() {
    let served = Served::start();
    let [admin, ..] = served.tenant("acme");
    let secret = |body: Value| admin.post("/v1/tokens", body).ok()["secret"].as_str().expect("it has one").to_owned();
    let expired = secret(json!({ "name": "short", "role": "admin", "expires_in": "1s" }));
    let revoked = secret(json!({ "name": "gone", "role": "admin" }));
    let rotated = secret(json!({ "name": "turned", "role": "admin" }));
    admin.with(&revoked).get("/v1/whoami").ok();
    admin.delete("/v1/tokens/gone").ok();
    admin.post("/v1/tokens/turned/rotate", json!({})).ok();
    wait_until("the token has expired", || admin.with(&expired).get("/v1/whoami").status == 401);
    let good = admin.token.clone().expect("it has one");
    let cut = good[..good.len() - 1].to_owned();
    let wrong = format!("kf_{}", "0".repeat(good.len() - 3));
    let mut counts = 0;
    let routes = routes(&served);
    for route in &routes {
        let expected = route.ask(&served.nobody(), "absent").with_status(401);
        assert_eq!(expected.header("www-authenticate"), "Bearer");
        for (what, token) in
            [("expired", &expired), ("revoked", &revoked), ("rotated", &rotated), ("cut", &cut), ("wrong", &wrong)]
        {
            let reply = route.ask(&served.nobody().with(token), "absent");
            assert_eq!(reply.status, 401, "{} {} with a token that is {what}", route.method, route.path);
            assert_eq!(without_id(&reply), without_id(&expected), "{what}");
            counts += 1;
        }
    }
    println!("{} routes: {} refused without a token, {counts} with one that does not hold", routes.len(), routes.len());
}

/// What can be seen of an answer, without what differs in every one.
fn without_id(reply: &Reply) -> (u16, Vec<String>, Value) {
    let mut names: Vec<String> = reply.headers.keys().map(|name| name.as_str().to_owned()).collect();
    names.sort();
    let mut body: Value = serde_json::from_str(&reply.text).unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        body.remove("request_id");
    }
    (reply.status, names, body)
}

#[test]
fn what_another_tenant_has_is_the_same_as_what_is_not_there() {
    let served = Served::start();
    let [owner, ..] = served.tenant("acme");
    owner.put("/v1/streams/secret", json!({})).ok();
    owner.put("/v1/rules/secret", manifest("secret")).ok();
    owner.post("/v1/tokens", json!({ "name": "secret", "role": "reader" })).ok();
    let others = ROLES.into_iter().zip(served.tenant("other"));
    let others: Vec<_> = others.collect();
    let mut compared = 0;
    let all = routes(&served);
    let named = all.iter().filter(|route| route.path.contains('{') && route.method != Method::PUT);
    for route in named {
        for (role, ask) in &others {
            let (theirs, nothing) = (route.ask(ask, "secret"), route.ask(ask, "absent"));
            let what = format!("{} {} as {role} of another tenant", route.method, route.path);
            assert_eq!(without_id(&theirs), without_id(&nothing), "{what}");
            assert!(!theirs.text.contains("secret"), "{what}: {}", theirs.text);
            compared += 1;
        }
    }
    for path in ["/v1/streams/secret", "/v1/rules/secret"] {
        owner.get(path).ok();
    }
    for (role, ask) in &others {
        let seen = ["/v1/streams", "/v1/rules", "/metrics"].map(|path| ask.get(path).text).concat();
        assert!(!seen.contains("secret") && !seen.contains("acme"), "{role} sees {seen}");
    }
    println!("{compared} answers about another tenant's things are those about nothing");
}
