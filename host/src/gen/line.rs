//! [`Line`]: one event as a line of JSON, written by hand because a generator makes over a million a second.

use crate::event::Millis;

/// A JSON object that is being written at the end of a buffer. Names and texts must not need escaping.
pub struct Line<'b> {
    buffer: &'b mut Vec<u8>,
}

impl<'b> Line<'b> {
    /// Begins an object with a text field.
    pub fn new(buffer: &'b mut Vec<u8>, name: &str, value: &str) -> Self {
        buffer.push(b'{');
        let mut line = Line { buffer };
        line.name(name);
        line.quoted(value);
        line
    }

    /// Begins an object with an id field; see [`Line::id`].
    pub fn with_id(buffer: &'b mut Vec<u8>, name: &str, prefix: u8, number: u64, digits: usize) -> Self {
        buffer.push(b'{');
        let mut line = Line { buffer };
        line.name(name);
        line.quoted_id(prefix, number, digits);
        line
    }

    /// A text.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.next(name);
        self.quoted(value);
        self
    }

    /// A text of a letter and a number with at least so many digits, such as `u000042`.
    pub fn id(mut self, name: &str, prefix: u8, number: impl Into<u64>, digits: usize) -> Self {
        self.next(name);
        self.quoted_id(prefix, number.into(), digits);
        self
    }

    /// A number.
    pub fn number(mut self, name: &str, number: impl Into<u64>) -> Self {
        self.next(name);
        push_number(self.buffer, number.into(), 1);
        self
    }

    /// A time, in milliseconds since 1970.
    pub fn time(mut self, name: &str, time: Millis) -> Self {
        self.next(name);
        if time.0 < 0 {
            self.buffer.push(b'-');
        }
        push_number(self.buffer, time.0.unsigned_abs(), 1);
        self
    }

    /// Ends the object.
    pub fn end(self) {
        self.buffer.push(b'}');
    }

    fn next(&mut self, name: &str) {
        self.buffer.push(b',');
        self.name(name);
    }

    fn name(&mut self, name: &str) {
        self.quoted(name);
        self.buffer.push(b':');
    }

    fn quoted(&mut self, text: &str) {
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'"');
    }

    fn quoted_id(&mut self, prefix: u8, number: u64, digits: usize) {
        self.buffer.extend_from_slice(&[b'"', prefix]);
        push_number(self.buffer, number, digits);
        self.buffer.push(b'"');
    }
}

/// The most digits that a 64-bit number has.
const DIGITS_MAX: usize = 20;

fn push_number(buffer: &mut Vec<u8>, mut number: u64, digits: usize) {
    let mut text = [b'0'; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    while number > 0 {
        start -= 1;
        text[start] += (number % 10) as u8;
        number /= 10;
    }
    buffer.extend_from_slice(&text[start.min(DIGITS_MAX - digits)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json() {
        let mut buffer = Vec::new();
        Line::new(&mut buffer, "type", "page.view")
            .id("user_id", b'u', 42u32, 6)
            .id("order", b'o', 12_345_678u64, 3)
            .number("zero", 0u32)
            .number("largest", u64::MAX)
            .time("ts", Millis(-5))
            .end();
        assert_eq!(
            String::from_utf8(buffer).unwrap(),
            r#"{"type":"page.view","user_id":"u000042","order":"o12345678","zero":0,"largest":18446744073709551615,"ts":-5}"#
        );
    }
}
