//! Headers as a user names them: checked, and with values from the environment.

use anyhow::{Context, Result, bail, ensure};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;

/// What the sink says itself.
const OWN: [&str; 6] =
    ["idempotency-key", "keyfold-rule", "keyfold-batch", "content-length", "transfer-encoding", "host"];

/// The headers, with `$NAME` in their values replaced by what `variable` says; `$$` is a dollar sign. No message shows a value.
pub(super) fn resolve(
    headers: &BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<HeaderMap> {
    let mut resolved = HeaderMap::new();
    for (name, value) in headers {
        let header: HeaderName =
            name.parse().with_context(|| format!("webhook.headers has '{name}', which is no name of a header"))?;
        ensure!(!OWN.contains(&header.as_str()), "webhook.headers has {name}, which Keyfold sets itself: leave it out");
        let value = expand(value, &variable).with_context(|| format!("the header {name} of the webhook"))?;
        let Ok(mut value) = HeaderValue::from_str(&value) else {
            bail!(
                "the header {name} of the webhook has a value that no header can have, such as one with a line break"
            );
        };
        value.set_sensitive(true);
        resolved.insert(header, value);
    }
    Ok(resolved)
}

fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut expanded = String::new();
    let mut parts = text.split('$');
    expanded.push_str(parts.next().unwrap_or_default());
    while let Some(part) = parts.next() {
        let end = part.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        if name.is_empty() {
            ensure!(part.is_empty(), "a $ stands before no name: write $NAME for a variable, $$ for a dollar sign");
            expanded.push('$');
            let Some(rest) = parts.next() else {
                bail!("a $ stands at the end: write $NAME for a variable, $$ for a dollar sign");
            };
            expanded.push_str(rest);
            continue;
        }
        let value = variable(name).with_context(|| format!("the environment has no variable {name}"))?;
        // A file with a line feed at its end is how most such variables are set.
        expanded.push_str(value.trim_end_matches(['\r', '\n']));
        expanded.push_str(rest);
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("secret\n".to_owned()),
            "BROKEN" => Some("secret\u{1}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn values_come_from_the_environment() {
        for (text, expected) in [
            ("plain", "plain"),
            ("$TOKEN", "secret"),
            ("Bearer $TOKEN, twice $TOKEN.", "Bearer secret, twice secret."),
            ("5 $$ and $$TOKEN", "5 $ and $TOKEN"),
            ("$$", "$"),
        ] {
            assert_eq!(expand(text, variable).expect(text), expected);
        }
        for text in ["$", "5 $", "$ 5", "$MISSING"] {
            expand(text, variable).expect_err(text);
        }
    }

    #[test]
    fn what_cannot_be_a_header_is_refused_without_its_value() {
        for (name, value, part) in [
            ("Idempotency-Key", "secret", "leave it out"),
            ("Keyfold-Batch", "secret", "leave it out"),
            ("no name", "secret", "no name of a header"),
            ("Authorization", "$MISSING", "no variable MISSING"),
            ("Authorization", "$BROKEN", "Authorization"),
        ] {
            let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = format!("{:#}", resolve(&headers, variable).expect_err(name));
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }
}
