//! [`Endpoint`]: makes requests, and judges the answers.

use super::{Form, headers};
use crate::clock::Clock;
use crate::config::Webhook;
use crate::event::{BatchId, Millis, PartitionId};
use crate::sink::Outage;
use anyhow::{Context, Error, Result, anyhow};
use reqwest::blocking::{Client, Response};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url, redirect};
use std::io::Read;
use std::time::Duration;

/// Of an answer, so much is read, so that the connection can be used again.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Of a refusal, so much is shown.
const SHOWN_LETTERS_MAX: usize = 200;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const KEYFOLD_RULE: &str = "keyfold-rule";
const KEYFOLD_BATCH: &str = "keyfold-batch";

/// A URL that outputs are posted to.
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    shown: String,
    folder_id: String,
}

/// Why a request was not taken.
#[derive(Debug)]
pub(super) enum Failure {
    /// Not now.
    Unavailable(Outage),
    /// Never.
    Refused(Error),
    /// It cannot even be made.
    Broken(Error),
}

impl Endpoint {
    /// What is posted to, by this rule.
    pub fn new(webhook: &Webhook, rule: &str, folder_id: &str) -> Result<Self> {
        let mut headers = headers::resolve(&webhook.headers, |name| std::env::var(name).ok())?;
        let rule = HeaderValue::from_bytes(rule.as_bytes()).context("the name of the rule cannot be in a header")?;
        headers.insert(KEYFOLD_RULE, rule);
        let client = Client::builder()
            .user_agent(concat!("keyfold/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .timeout(webhook.timeout)
            .connect_timeout(webhook.timeout)
            // A redirected POST becomes a GET, and headers with secrets would go to a host that nobody named.
            .redirect(redirect::Policy::none())
            .pool_max_idle_per_host(webhook.concurrency)
            .build()
            .context("failed to prepare HTTP requests")?;
        Ok(Endpoint { client, url: webhook.url.clone(), shown: shown(&webhook.url), folder_id: folder_id.to_owned() })
    }

    /// The URL without what may be secret.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Posts outputs. `numbers` says which of the partition's outputs of the batch they are.
    pub fn post(
        &self,
        form: Form,
        batch: BatchId,
        partition: PartitionId,
        numbers: &str,
        outputs: Vec<u8>,
    ) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        let key = format!("{}/{partition}/{batch}/{numbers}", self.folder_id);
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| Failure::Broken(error.into()));
        headers.insert(IDEMPOTENCY_KEY, value(&key)?);
        headers.insert(KEYFOLD_BATCH, value(&batch.to_string())?);
        let request = self.client.post(self.url.clone()).headers(headers).body(outputs);
        // Only where the user's headers do not say it.
        let content = if form == Form::One { "application/json" } else { "application/x-ndjson" };
        let mut request = request.build().map_err(|error| Failure::Broken(error.without_url().into()))?;
        request.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content));
        let sent = self.client.execute(request).map_err(|error| {
            let error = Error::new(error.without_url()).context(format!("failed to post to {}", self.shown));
            Failure::Unavailable(error.into())
        })?;
        self.judge(sent)
    }

    fn judge(&self, response: Response) -> Result<(), Failure> {
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| retry_after_of(text, Clock::System.now()));
        let mut answer = Vec::new();
        // What was taken was taken, also when the rest of the answer does not arrive.
        let _ = response.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
        let error = || anyhow!("{} answers {status}{}", self.shown, shown_answer(&answer));
        match verdict(status) {
            Verdict::Taken => Ok(()),
            Verdict::Later => Err(Failure::Unavailable(Outage { error: error(), retry_after, took_some: false })),
            Verdict::Never => Err(Failure::Refused(error())),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    Later,
    Never,
}

/// A status in the four hundreds says that the request is wrong, and so it would be the next time. Not so when the receiver
/// is slow (408), not ready (425), asks to wait (429), or does not know who asks (401, 407): that is no fault of the output,
/// and a password that has run out must not send all of them to the dead letters.
fn verdict(status: StatusCode) -> Verdict {
    match status.as_u16() {
        200..=299 => Verdict::Taken,
        401 | 407 | 408 | 425 | 429 => Verdict::Later,
        400..=499 => Verdict::Never,
        _ => Verdict::Later,
    }
}

/// Seconds, or a date (RFC 9110, 10.2.3). A date that has passed is no pause.
fn retry_after_of(text: &str, now: Millis) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    Some(Duration::from_millis(u64::try_from(date.as_millisecond() - now.0).unwrap_or(0)))
}

/// Neither user and password nor the query: both are used for secrets.
fn shown(url: &Url) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

/// The beginning of an answer on one line; what cannot be printed is escaped.
fn shown_answer(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let text: String = text.trim().chars().take(SHOWN_LETTERS_MAX).flat_map(char::escape_debug).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_means_taken_later_or_never() {
        for (status, expected) in [
            (200, Verdict::Taken),
            (202, Verdict::Taken),
            (204, Verdict::Taken),
            (301, Verdict::Later),
            (400, Verdict::Never),
            (401, Verdict::Later),
            (404, Verdict::Never),
            (407, Verdict::Later),
            (408, Verdict::Later),
            (409, Verdict::Never),
            (413, Verdict::Never),
            (422, Verdict::Never),
            (425, Verdict::Later),
            (429, Verdict::Later),
            (500, Verdict::Later),
            (503, Verdict::Later),
        ] {
            let status = StatusCode::from_u16(status).expect("it is a status");
            assert_eq!(verdict(status), expected, "{status}");
        }
    }

    #[test]
    fn a_receiver_asks_to_wait_in_seconds_or_until_a_date() {
        let now = Millis(784_111_777_000);
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after_of(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn neither_passwords_nor_queries_are_shown() {
        let url = Url::parse("https://user:secret@alerts.example:8443/a/b?token=secret#secret").expect("it is a URL");
        assert_eq!(shown(&url), "https://alerts.example:8443/a/b");
    }

    #[test]
    fn an_answer_is_shown_on_one_short_line() {
        assert_eq!(shown_answer(b"  no such\nuser\x1b[31m "), ": no such\\nuser\\u{1b}[31m");
        assert_eq!(shown_answer(b" \n"), "");
        assert_eq!(shown_answer(&[b'x'; 10_000]).len(), 2 + SHOWN_LETTERS_MAX);
    }
}
