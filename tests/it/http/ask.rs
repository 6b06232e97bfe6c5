//! [`Ask`]: requests of the tests, and what came back.

use reqwest::Method;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::Duration;

/// Whoever asks a server with a token.
#[derive(Clone)]
pub struct Ask {
    pub url: String,
    pub token: Option<String>,
    pub client: Client,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Ask {
    /// Somebody without a token.
    pub fn nobody(url: &str) -> Self {
        let client = Client::builder().timeout(Duration::from_secs(60)).build().expect("a client can be made");
        Ask { url: url.to_owned(), token: None, client }
    }

    /// The same with this token.
    pub fn with(&self, token: &str) -> Self {
        Ask { token: Some(token.to_owned()), ..self.clone() }
    }

    /// A request that was not sent.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub fn get(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::GET, path).send().expect("the server answers"))
    }

    pub fn delete(&self, path: &str) -> Reply {
        Reply::of(self.request(Method::DELETE, path).send().expect("the server answers"))
    }

    pub fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, "application/json", body.to_string())
    }

    pub fn put(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PUT, path, "application/json", body.to_string())
    }

    /// Sends a body of this type.
    pub fn send(&self, method: Method, path: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
        let request = self.request(method, path).header("content-type", content_type).body(body.into());
        Reply::of(request.send().expect("the server answers"))
    }
}

impl Reply {
    pub fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, text: response.text().expect("answers are text") }
    }

    /// Panics unless this is the status.
    pub fn with_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// The body of a success.
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A header as text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The code of a problem, which must be complete.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}: {}", self.status, self.text);
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["request_id"], self.header("x-request-id"));
        let word = |name: &str| problem[name].as_str().filter(|text| !text.is_empty());
        for name in ["type", "title", "detail"] {
            assert!(word(name).is_some(), "it has no {name}: {}", self.text);
        }
        word("code").expect("it has a code").to_owned()
    }
}
