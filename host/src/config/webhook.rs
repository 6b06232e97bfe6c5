//! The table `[webhook]` of a rule file: where outputs are posted, and how.

use super::duration;
use crate::sink::Refused;
use crate::sink::webhook::Form;
use anyhow::{Context, Result, ensure};
use reqwest::Url;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A receiver that has not answered by then hangs: one that is merely busy says so within a second.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Partitions whose outputs are sent at the same time: enough for the default number of them.
const CONCURRENCY_DEFAULT: usize = 8;
/// Each takes a thread and a connection.
const CONCURRENCY_MAX: usize = 256;
/// Two attempts a minute are no burden for a receiver that is down, and few seconds late for one that is back.
const RETRY_INTERVAL_MAX_DEFAULT: Duration = Duration::from_secs(30);

/// The table as a user writes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct WebhookTable {
    /// Where outputs are posted.
    pub url: Option<String>,
    /// Headers of each request; `$NAME` in a value stands for an environment variable.
    pub headers: Option<BTreeMap<String, String>>,
    /// How long one request may take.
    pub timeout: Option<String>,
    /// The longest pause between two attempts.
    pub retry_max_interval: Option<String>,
    /// `one` output for each request, or `lines`.
    pub batch: Option<String>,
    /// Partitions whose outputs are sent at the same time.
    pub concurrency: Option<usize>,
    /// `hold` or `dead-letter`.
    pub refused: Option<String>,
}

/// Where outputs are posted, checked.
#[derive(Clone)]
pub struct Webhook {
    /// The URL, which may hold a password.
    pub url: Url,
    /// Names and values of headers, with names of environment variables in them.
    pub headers: BTreeMap<String, String>,
    /// How long one request may take.
    pub timeout: Duration,
    /// The longest pause between two attempts.
    pub retry_interval_max: Duration,
    /// What a request holds.
    pub form: Form,
    /// Partitions whose outputs are sent at the same time.
    pub concurrency: usize,
    /// What becomes of an output that the receiver will never take.
    pub refused: Refused,
}

impl fmt::Debug for Webhook {
    /// Without the URL and the values of headers: both may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("Webhook").field("host", &self.url.host_str()).field("headers", &names).finish_non_exhaustive()
    }
}

impl WebhookTable {
    /// This table, with what is absent taken from another.
    pub fn or(self, other: WebhookTable) -> WebhookTable {
        WebhookTable {
            url: self.url.or(other.url),
            headers: self.headers.or(other.headers),
            timeout: self.timeout.or(other.timeout),
            retry_max_interval: self.retry_max_interval.or(other.retry_max_interval),
            batch: self.batch.or(other.batch),
            concurrency: self.concurrency.or(other.concurrency),
            refused: self.refused.or(other.refused),
        }
    }

    /// Checks the table and fills in the defaults.
    pub fn check(self) -> Result<Webhook> {
        let concurrency = self.concurrency.unwrap_or(CONCURRENCY_DEFAULT);
        ensure!(
            (1..=CONCURRENCY_MAX).contains(&concurrency),
            "webhook.concurrency is {concurrency}: 1 to {CONCURRENCY_MAX} are possible"
        );
        let url = check_url(&self.url.context("webhook.url is missing: name the URL that outputs are posted to")?)?;
        let time = |name: &str, text: Option<String>, default| {
            let time = text.map_or(Ok(default), |text| duration(name, &text))?;
            ensure!(!time.is_zero(), "{name} is 0: it must be longer");
            Ok(time)
        };
        Ok(Webhook {
            url,
            headers: self.headers.unwrap_or_default(),
            timeout: time("webhook.timeout", self.timeout, TIMEOUT_DEFAULT)?,
            retry_interval_max: time(
                "webhook.retry-max-interval",
                self.retry_max_interval,
                RETRY_INTERVAL_MAX_DEFAULT,
            )?,
            form: one_of("webhook.batch", self.batch.as_deref(), [("one", Form::One), ("lines", Form::Lines)])?,
            concurrency,
            refused: one_of(
                "webhook.refused",
                self.refused.as_deref(),
                [("hold", Refused::Hold), ("dead-letter", Refused::DeadLetter)],
            )?,
        })
    }
}

/// The text is not part of the message: it may hold a password.
fn check_url(text: &str) -> Result<Url> {
    let url = Url::parse(text).context("webhook.url is not a URL: write https://host/path")?;
    ensure!(
        matches!(url.scheme(), "http" | "https") && url.has_host(),
        "webhook.url begins with {}: write https://host/path",
        url.scheme()
    );
    Ok(url)
}

/// The first of the values is the default.
fn one_of<T: Copy>(name: &str, text: Option<&str>, values: [(&str, T); 2]) -> Result<T> {
    let text = text.unwrap_or(values[0].0);
    let found = values.iter().find(|(word, _)| *word == text);
    found
        .map(|(_, value)| *value)
        .with_context(|| format!("{name} is '{text}': write {} or {}", values[0].0, values[1].0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Webhook> {
        toml::from_str::<WebhookTable>(text).expect("it parses").check()
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_a_password_is_not_repeated() {
        for (text, part) in [
            ("timeout = '1s'", "webhook.url is missing"),
            ("url = 'alerts.example/secret'", "https://host/path"),
            ("url = 'ftp://user:secret@alerts.example'", "ftp"),
            ("url = 'http://a'\nconcurrency = 0", "1 to 256"),
            ("url = 'http://a'\nbatch = 'two'", "one or lines"),
            ("url = 'http://a'\nrefused = 'drop'", "hold or dead-letter"),
            ("url = 'http://a'\ntimeout = '0s'", "webhook.timeout"),
            ("url = 'http://a'\nretry-max-interval = 'often'", "often"),
        ] {
            let error = format!("{:#}", check(text).expect_err(text));
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_left_out_has_a_default_and_secrets_are_not_shown() {
        let webhook = check("url = 'https://user:secret@a.example/x?token=secret'\nheaders = { A = 'secret' }")
            .expect("it is right");
        assert_eq!((webhook.form, webhook.refused, webhook.concurrency), (Form::One, Refused::Hold, 8));
        let shown = format!("{webhook:?}");
        assert!(shown.contains("a.example") && !shown.contains("secret"), "{shown}");
    }
}
