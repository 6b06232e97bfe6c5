//! A CloudEvent in binary mode, its attributes in headers and its data in the body, becomes the structured one that rules see.

use super::{Body, Refusal, invalid, split_type};
use serde_json::Value;
use serde_json::value::RawValue;

const PREFIX: &str = "ce-";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The structured event.
pub(super) fn event(body: &Body<'_>) -> Result<Vec<u8>, Refusal> {
    let mut members: Vec<(String, String)> = Vec::new();
    for (name, value) in body.headers {
        let Some(attribute) = name.strip_prefix(PREFIX) else { continue };
        let is_name = attribute.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        // These two have another place.
        if !is_name || attribute.is_empty() || matches!(attribute, "data" | "datacontenttype") {
            return Err(invalid(format!("the header {name} names no attribute of a CloudEvent")));
        }
        if members.iter().any(|(known, _)| known == attribute) {
            return Err(invalid(format!("there are two headers {name}")));
        }
        let value = decoded(value).ok_or_else(|| invalid(format!("the value of the header {name} is not UTF-8")))?;
        members.push((attribute.to_owned(), text(&value)));
    }
    if let Some(content_type) = body.content_type {
        members.push(("datacontenttype".to_owned(), text(content_type)));
    }
    if !body.bytes.is_empty() {
        let (name, value) = data(body)?;
        members.push((name.to_owned(), value));
    }
    let members: Vec<String> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    Ok(format!("{{{}}}", members.join(",")).into_bytes())
}

/// The data: as JSON when it says that it is, as text when it says that, and else in base64.
fn data(body: &Body<'_>) -> Result<(&'static str, String), Refusal> {
    let (media, _) = split_type(body.content_type.unwrap_or("application/json"));
    let as_text = || std::str::from_utf8(body.bytes);
    if media == "application/json" || media == "text/json" || media.ends_with("+json") {
        let json: &RawValue = serde_json::from_slice(body.bytes).map_err(|error| {
            Refusal::new("invalid-json", format!("the data of the CloudEvent is not JSON: {error}"))
        })?;
        return Ok(("data", json.get().to_owned()));
    }
    match as_text() {
        Ok(data) if media.starts_with("text/") => Ok(("data", text(data))),
        _ => Ok(("data_base64", format!("\"{}\"", base64(body.bytes)))),
    }
}

/// Text as JSON.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}

/// The value of a header: what is not printable ASCII comes as `%` and two digits. Nothing when the bytes are not UTF-8.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = BASE64[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_in_its_rfc() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        cases.iter().for_each(|(bytes, expected)| assert_eq!(base64(bytes.as_bytes()), *expected));
        assert_eq!(base64(&[0xff, 0xfe, 0xfd, 0]), "//79AA==");
    }

    #[test]
    fn what_headers_cannot_hold_is_written_with_percent_signs() {
        assert_eq!(decoded("Euro%20%E2%82%AC%F0%9F%98%80").as_deref(), Some("Euro \u{20ac}\u{1f600}"));
        assert_eq!(decoded("100% sure%2").as_deref(), Some("100% sure%2"));
        assert_eq!(decoded("%ff"), None);
    }
}
