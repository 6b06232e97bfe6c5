//! Finds the values that several JSON Pointers name, in one pass over a record.

use super::Refusal;
use super::scan::{Layout, Scanner};
use anyhow::{Context, Result, ensure};
use jsonptr::Pointer;
use jsonptr::index::Index;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// Pointers as a tree, so that a record is walked once for all of them.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    root: Node,
    count: usize,
}

/// A place in a record: what is looked for at it and below it.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// The pointers that end here.
    fields: Vec<usize>,
    children: Vec<Child>,
}

#[derive(Debug, Clone)]
pub(super) struct Child {
    name: String,
    /// The name as the place in an array, if it is one.
    index: Option<usize>,
    /// Whether the rule reads this member of the record.
    pub is_kept: bool,
    pub node: Node,
}

pub(super) type Found<'a, 'de> = &'a mut [Option<&'de str>];

impl Fields {
    pub(super) fn new<'p>(pointers: impl Iterator<Item = &'p String>) -> Result<Self> {
        let mut fields = Fields { root: Node::default(), count: 0 };
        for text in pointers {
            let pointer = Pointer::parse(text)
                .with_context(|| format!("{text:?} is not a JSON Pointer; write for example /user/id"))?;
            ensure!(!pointer.is_root(), "an empty JSON Pointer names the whole record; write for example /user/id");
            let mut node = &mut fields.root;
            for token in pointer.tokens() {
                let name = token.decoded();
                let index = match token.to_index() {
                    Ok(Index::Num(index)) => Some(index),
                    _ => None,
                };
                node = &mut node.child_or_new(&name, index).node;
            }
            node.fields.push(fields.count);
            fields.count += 1;
        }
        Ok(fields)
    }

    /// The same, with the members of the record that the rule reads marked.
    pub(super) fn keeping(&self, members: &[String]) -> Self {
        let mut fields = self.clone();
        members.iter().for_each(|name| fields.root.child_or_new(name, None).is_kept = true);
        fields
    }

    /// How many pointers there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Sets for each pointer the JSON text of what it names in a record, or none. `member` is called with the place of each member
    /// that is kept. Returns whether it was called for all of them. Records that come one after another share a layout.
    pub(super) fn find<'f, 'de>(
        &'f self,
        text: &'de str,
        layout: &mut Layout<'f>,
        found: Found<'_, 'de>,
        member: impl FnMut(Range<usize>),
    ) -> Result<bool, Box<Refusal>> {
        found.fill(None);
        if Scanner::new(text).record(&self.root, layout, found, member).is_some() {
            return Ok(true);
        }
        found.fill(None);
        self.find_slowly(text, found).map(|()| false)
    }

    /// The same with serde, which knows all of JSON.
    pub(super) fn find_slowly<'de>(&self, text: &'de str, found: Found<'_, 'de>) -> Result<(), Box<Refusal>> {
        let is_object = text.trim_ascii_start().starts_with('{');
        let mut reader = serde_json::Deserializer::from_str(text);
        let walked = match is_object {
            true => Walk { node: &self.root, found }.deserialize(&mut reader),
            false => IgnoredAny::deserialize(&mut reader).map(drop),
        };
        walked.and_then(|()| reader.end()).map_err(|error| invalid_json(&error))?;
        match is_object {
            true => Ok(()),
            false => Err(Box::new(Refusal::new("not-an-object", "the record is JSON, but not an object"))),
        }
    }
}

/// What serde says, without the line number, which is that of the record and not of the file.
pub(super) fn invalid_json(error: &serde_json::Error) -> Box<Refusal> {
    let said = error.to_string();
    let said = said.rfind(" at line ").map_or(said.as_str(), |end| &said[..end]);
    Box::new(Refusal::new("invalid-json", format!("{said} at column {}", error.column())))
}

/// Walks one value.
struct Walk<'a, 'de> {
    node: &'a Node,
    found: Found<'a, 'de>,
}

impl<'a, 'de> Walk<'a, 'de> {
    #[inline]
    fn value<A: MapAccess<'de>>(&mut self, child: &'a Child, map: &mut A) -> Result<(), A::Error> {
        // Most pointers are one level deep: their values are only marked.
        if let ([field], []) = (&child.node.fields[..], &child.node.children[..]) {
            self.found[*field] = Some(map.next_value::<&'de RawValue>()?.get());
            return Ok(());
        }
        map.next_value_seed(self.below(child))
    }

    fn below(&mut self, child: &'a Child) -> Walk<'_, 'de> {
        Walk { node: &child.node, found: self.found }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        self.node.forget(self.found);
        if self.node.fields.is_empty() {
            return reader.deserialize_any(self);
        }
        let value: &'de RawValue = Deserialize::deserialize(reader)?;
        self.node.set(value.get(), self.found);
        if self.node.children.is_empty() {
            return Ok(());
        }
        // Pointers end here and go on below, as /a and /a/b do, which is rare enough to walk the value twice.
        serde_json::Deserializer::from_str(value.get()).deserialize_any(self).map_err(D::Error::custom)
    }
}

impl Node {
    pub(super) fn child(&self, name: &[u8]) -> Option<&Child> {
        self.children.iter().find(|child| child.name.as_bytes() == name)
    }

    fn child_or_new(&mut self, name: &str, index: Option<usize>) -> &mut Child {
        let at = self.children.iter().position(|child| child.name == name).unwrap_or_else(|| {
            self.children.push(Child { name: name.to_owned(), index, is_kept: false, node: Node::default() });
            self.children.len() - 1
        });
        &mut self.children[at]
    }

    pub(super) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// This is what is at the place.
    pub(super) fn set<'de>(&self, value: &'de str, found: Found<'_, 'de>) {
        for field in &self.fields {
            found[*field] = Some(value);
        }
    }

    /// Of members that occur twice the last counts, with all that is below it.
    pub(super) fn forget(&self, found: Found<'_, '_>) {
        for field in &self.fields {
            found[*field] = None;
        }
        for child in &self.children {
            child.node.forget(found);
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let node = self.node;
        while let Some(child) = map.next_key_seed(Name(&node.children))? {
            match child {
                Some(child) => self.value(child, &mut map)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let node = self.node;
        for index in 0.. {
            let more = match node.children.iter().find(|child| child.index == Some(index)) {
                Some(child) => items.next_element_seed(self.below(child))?.is_some(),
                None => items.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    // Nothing lies below a scalar.

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a member name and finds its child.
struct Name<'a>(&'a [Child]);

impl<'a, 'de> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<&'a Child>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<&'a Child>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    #[inline]
    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|child| child.name == name))
    }
}
