//! [`Generation`]: since which activation of a rule a row is as it is, and [`Older`], what becomes of rows that are older.
//!
//! An activation that does more than keep the states begins a new generation. Each row has the generation that it was written in
//! beside the number of its state's schema, so the first call of a key after the activation finds out by its row alone what is to
//! be done with it.

use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One of the times in a rule's life that an activation began. From 0; one that no row has any more is used again.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(transparent)]
pub struct Generation(pub u8);

/// Schema numbers are below this, so that the generation has room beside them.
pub const SCHEMA_NUMBER_END: u32 = 1 << SCHEMA_BITS;
const SCHEMA_BITS: u32 = 24;

/// What a row has beside its state: the number that the tables have, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mark {
    /// When the row was written.
    pub generation: Generation,
    /// The schema of its state; none for a row that has only a timeout.
    pub schema: Option<u32>,
}

impl Mark {
    /// As the tables have it. Schema numbers begin at 1, so a row without state has the place of 0.
    pub fn number(self) -> u32 {
        u32::from(self.generation.0) << SCHEMA_BITS | self.schema.unwrap_or(0)
    }

    /// Takes the number of the tables apart; it is missing only in rows without state of the first generation.
    pub fn of(number: Option<u32>) -> Self {
        let number = number.unwrap_or(0);
        let schema = number & (SCHEMA_NUMBER_END - 1);
        Mark { generation: Generation((number >> SCHEMA_BITS) as u8), schema: (schema != 0).then_some(schema) }
    }

    /// The state of a row as it is stored: it always comes with its number. A row without state has one of no bytes when the
    /// number says more than 0.
    pub fn stored(self, state: &[u8]) -> Option<(&[u8], u32)> {
        match (self.schema, self.number()) {
            (None, 0) => None,
            (None, number) => Some((&[], number)),
            (Some(_), number) => Some((state, number)),
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What becomes of the rows of some earlier generations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Older {
    /// The generations.
    pub generations: Vec<Generation>,
    /// What becomes of their rows.
    pub treatment: Treatment,
}

/// What becomes of a row of an earlier generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// The version that runs rewrites it: when its key is called, or when the sweep comes to it.
    Migrate,
    /// It counts as absent, and the sweep deletes it.
    Forget,
    /// Its key is run by another version, until it has no row any more.
    Drain(Drained),
}

/// A version that runs only the keys that it had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// The component.
    pub digest: String,
    /// Its parameters, as JSON text.
    pub parameters: String,
    /// What it may use.
    pub limits: Limits,
}

/// Who has a row of a generation in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The version that runs, as the row is.
    Current,
    /// The version that runs, after it has rewritten it.
    Migrated,
    /// Nobody.
    Nobody,
    /// The drained version of this number.
    Drained(usize),
}

/// Who has the rows of each generation in a batch.
#[derive(Debug, Clone)]
pub struct Owners(Vec<Owner>);

impl Owners {
    /// As a plan says.
    pub fn of(older: &[Older]) -> Self {
        let mut owners = vec![Owner::Current; usize::from(u8::MAX) + 1];
        let mut drained = 0;
        for Older { generations, treatment } in older {
            let owner = match treatment {
                Treatment::Migrate => Owner::Migrated,
                Treatment::Forget => Owner::Nobody,
                Treatment::Drain(_) => {
                    drained += 1;
                    Owner::Drained(drained - 1)
                }
            };
            generations.iter().for_each(|generation| owners[usize::from(generation.0)] = owner);
        }
        Owners(owners)
    }

    /// Who has the rows of a generation.
    pub fn owner(&self, generation: Generation) -> Owner {
        self.0[usize::from(generation.0)]
    }
}

/// The versions that are drained, in the order of their numbers.
pub fn drained(older: &[Older]) -> impl Iterator<Item = &Drained> {
    older.iter().filter_map(|older| match &older.treatment {
        Treatment::Drain(drained) => Some(drained),
        Treatment::Migrate | Treatment::Forget => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_first_generation_are_those_of_hosts_that_knew_none() {
        assert_eq!(Mark::of(Some(7)), Mark { generation: Generation(0), schema: Some(7) });
        assert_eq!(Mark::of(None), Mark::default());
        assert_eq!(Mark::of(Some(7)).stored(b"x"), Some((&b"x"[..], 7)));
        assert_eq!(Mark::default().stored(b""), None);
    }

    #[test]
    fn a_row_without_state_keeps_its_generation() {
        let mark = Mark { generation: Generation(3), schema: None };
        let (state, number) = mark.stored(b"").unwrap();
        assert_eq!((state, Mark::of(Some(number))), (&b""[..], mark));
    }

    #[test]
    fn a_mark_comes_back_from_its_number() {
        for generation in [0, 1, 255] {
            for schema in [None, Some(1), Some(SCHEMA_NUMBER_END - 1)] {
                let mark = Mark { generation: Generation(generation), schema };
                assert_eq!(Mark::of(Some(mark.number())), mark);
            }
        }
    }

    #[test]
    fn generations_that_nothing_is_said_of_are_the_current_versions() {
        let drain = Treatment::Drain(Drained {
            digest: "sha256:1".to_owned(),
            parameters: "{}".to_owned(),
            limits: Limits::default(),
        });
        let older = [
            Older { generations: vec![Generation(0)], treatment: Treatment::Forget },
            Older { generations: vec![Generation(1), Generation(2)], treatment: drain.clone() },
            Older { generations: vec![Generation(4)], treatment: drain },
        ];
        let owners = Owners::of(&older);
        let found: Vec<Owner> = (0..6).map(|generation| owners.owner(Generation(generation))).collect();
        let first = Owner::Drained(0);
        assert_eq!(found, [Owner::Nobody, first, first, Owner::Current, Owner::Drained(1), Owner::Current]);
        assert_eq!(drained(&older).count(), 2);
    }
}
