//! The fast way over a record: one pass that marks the wanted values, for records as nearly all are. Whatever it is not sure of (an
//! escape in a name or a `\u`, a pointer into an array, deep nesting, anything that is not JSON) it leaves to the slow way, which
//! decides, and words the error.

use super::fields::{Child, Found, Node};
use std::ops::Range;

/// Deeper values are left to the slow way, which has a limit of its own.
const DEPTH_MAX: u32 = 32;

/// The names of the last record's members with what stands around them, in their order. Nearly always the next record has the same ones.
#[derive(Default)]
pub(super) struct Layout<'f> {
    names: Vec<(Vec<u8>, Option<&'f Child>)>,
}

impl<'f> Layout<'f> {
    /// How long the name is that the text begins with, when it is the one that was in this place before.
    fn known(&self, place: usize, text: &[u8]) -> Option<(usize, Option<&'f Child>)> {
        let (name, child) = self.names.get(place)?;
        text.starts_with(name).then_some((name.len(), *child))
    }

    fn learn(&mut self, place: usize, name: &[u8], child: Option<&'f Child>) {
        if place == self.names.len() && place < LAYOUT_MAX {
            self.names.push((Vec::new(), None));
        }
        if let Some((known, of)) = self.names.get_mut(place) {
            known.clear();
            known.extend_from_slice(name);
            *of = child;
        }
    }
}

/// More members than these are not remembered.
const LAYOUT_MAX: usize = 64;

/// Where the fast way stands in a record.
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

/// Whether to go on; none when the slow way has to look.
type Sure<T = ()> = Option<T>;

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Scanner { text, at: 0 }
    }

    /// Finds the wanted values of a record that is an object, and calls `member` with the place of each member that is kept.
    pub(super) fn record<'f>(
        mut self,
        node: &'f Node,
        layout: &mut Layout<'f>,
        found: Found<'_, 't>,
        mut member: impl FnMut(Range<usize>),
    ) -> Sure {
        self.skip_blank();
        self.expect(b'{')?;
        self.skip_blank();
        if !self.skip_if(b'}') {
            for place in 0.. {
                let name_at = self.at;
                let child = match layout.known(place, &self.text.as_bytes()[name_at..]) {
                    Some((length, child)) => {
                        self.at += length;
                        self.skip_blank();
                        child
                    }
                    None => {
                        let child = self.child(node)?;
                        layout.learn(place, &self.text.as_bytes()[name_at..self.at], child);
                        child
                    }
                };
                self.member(child, found)?;
                if child.is_some_and(|child| child.is_kept) {
                    member(name_at..self.at);
                }
                if !self.has_next(b'}')? {
                    break;
                }
            }
        }
        self.skip_blank();
        (self.at == self.text.len()).then_some(())
    }

    fn object(&mut self, node: &Node, found: Found<'_, 't>) -> Sure {
        self.expect(b'{')?;
        self.skip_blank();
        if self.skip_if(b'}') {
            return Some(());
        }
        loop {
            let child = self.child(node)?;
            self.member(child, found)?;
            if !self.has_next(b'}')? {
                return Some(());
            }
        }
    }

    /// Moves over a name and the colon.
    fn child<'f>(&mut self, node: &'f Node) -> Sure<Option<&'f Child>> {
        let child = node.child(self.name()?);
        self.colon()?;
        Some(child)
    }

    /// Moves over the value of a member, and sets it where it is wanted.
    fn member(&mut self, child: Option<&Child>, found: Found<'_, 't>) -> Sure {
        let Some(child) = child else { return self.value(0) };
        let value_at = self.at;
        if child.node.has_children() {
            child.node.forget(found);
            match self.peek()? {
                b'{' => self.object(&child.node, found)?,
                b'[' => return None,
                _ => self.value(0)?,
            }
        } else {
            self.value(0)?;
        }
        child.node.set(self.text.get(value_at..self.at)?, found);
        Some(())
    }

    /// Moves over a value.
    fn value(&mut self, depth: u32) -> Sure {
        match self.peek()? {
            b'"' => self.string(),
            b'{' if depth < DEPTH_MAX => self.skip_object(depth + 1),
            b'[' if depth < DEPTH_MAX => self.skip_array(depth + 1),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    fn skip_object(&mut self, depth: u32) -> Sure {
        self.expect(b'{')?;
        self.skip_blank();
        if self.skip_if(b'}') {
            return Some(());
        }
        loop {
            self.string()?;
            self.colon()?;
            self.value(depth)?;
            if !self.has_next(b'}')? {
                return Some(());
            }
        }
    }

    fn skip_array(&mut self, depth: u32) -> Sure {
        self.expect(b'[')?;
        self.skip_blank();
        if self.skip_if(b']') {
            return Some(());
        }
        loop {
            self.value(depth)?;
            if !self.has_next(b']')? {
                return Some(());
            }
        }
    }

    /// Behind a value: whether another one follows before the end.
    fn has_next(&mut self, end: u8) -> Sure<bool> {
        self.skip_blank();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => {
                self.skip_blank();
                Some(true)
            }
            _ if byte == end => Some(false),
            _ => None,
        }
    }

    fn colon(&mut self) -> Sure {
        self.skip_blank();
        self.expect(b':')?;
        self.skip_blank();
        Some(())
    }

    /// A name, which has no escapes.
    fn name(&mut self) -> Sure<&'t [u8]> {
        self.expect(b'"')?;
        let from = self.at;
        self.skip_plain();
        let name = &self.text.as_bytes()[from..self.at];
        self.expect(b'"')?;
        Some(name)
    }

    fn string(&mut self) -> Sure {
        self.expect(b'"')?;
        loop {
            self.skip_plain();
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return Some(()),
                b'\\' => match self.peek()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// Moves to the next byte that may not stand in a string as it is: a quote, a backslash, a control character; or to the end.
    fn skip_plain(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(word) = bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            match special(u64::from_le_bytes(*word)) {
                0 => self.at += size_of::<u64>(),
                marks => {
                    self.at += (marks.trailing_zeros() / u8::BITS) as usize;
                    return;
                }
            }
        }
        while bytes.get(self.at).is_some_and(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Sure {
        self.skip_if(b'-');
        if !self.skip_if(b'0') {
            self.digits()?;
        }
        if self.skip_if(b'.') {
            self.digits()?;
        }
        if self.skip_if(b'e') || self.skip_if(b'E') {
            let _ = self.skip_if(b'+') || self.skip_if(b'-');
            self.digits()?;
        }
        Some(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Sure {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &str) -> Sure {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += word.len();
        rest.starts_with(word.as_bytes()).then_some(())
    }

    fn skip_blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.as_bytes().get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Sure<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Sure {
        self.skip_if(byte).then_some(())
    }

    fn skip_if(&mut self, byte: u8) -> bool {
        let is_next = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }
}

/// Marks the bytes of a word that may not stand in a string as they are, in the highest bit of each. Only the lowest mark is exact: a
/// borrow can set false ones above it.
fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
    control | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c))
}
