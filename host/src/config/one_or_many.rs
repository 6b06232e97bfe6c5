//! [`OneOrMany`]: what may be written as one text or as a list.

use serde::Deserialize;

/// One text or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// A list.
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn map(self, of_one: impl Fn(String) -> String) -> Self {
        OneOrMany::Many(self.into_vec().into_iter().map(of_one).collect())
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}
