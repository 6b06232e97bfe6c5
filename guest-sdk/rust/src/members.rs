//! Which members of an event a type reads: what does not reach the rule costs neither a copy nor a pass over it.
//!
//! A derived `Deserialize` of a struct asks for its fields by name. So a deserializer that has no data learns the names, and sees what
//! the type does with a member that it has no field for. Types that ask for anything else read events whole.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor, value::Error};
use serde::{Deserialize, forward_to_deserialize_any};

/// What the contract allows.
const MEMBERS_MAX: usize = 64;

/// The names of the members that a type reads; none when it may read any.
pub(crate) fn members_of<'de, E: Deserialize<'de>>() -> Option<Vec<&'static str>> {
    let mut asked = Asked::default();
    // It ends in an error: there is no event.
    let _ = E::deserialize(&mut asked);
    let members = asked.members.filter(|_| asked.ignores_others)?;
    (members.len() <= MEMBERS_MAX).then_some(members)
}

/// What a type has asked for.
#[derive(Default)]
struct Asked {
    members: Option<Vec<&'static str>>,
    /// Whether a member without a field is skipped: with `deny_unknown_fields` it is not, and must be seen.
    ignores_others: bool,
}

fn no_event<T>() -> Result<T, Error> {
    Err(de::Error::custom("there is no event"))
}

impl<'de> Deserializer<'de> for &mut Asked {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.members = Some(fields.to_vec());
        visitor.visit_map(OneOther(self))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        (self.members, self.ignores_others) = (Some(Vec::new()), true);
        no_event()
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        no_event()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map enum identifier
    }
}

/// An event with one member, whose name no type has a field for.
struct OneOther<'a>(&'a mut Asked);

impl<'de> MapAccess<'de> for OneOther<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        seed.deserialize(de::value::BorrowedStrDeserializer::new("\0")).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let mut asked = Asked::default();
        // It ends in an error, too.
        let ended = seed.deserialize(&mut asked);
        self.0.ignores_others = asked.ignores_others;
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::members_of;
    use serde::Deserialize;
    use serde::de::IgnoredAny;
    use std::collections::BTreeMap;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Payment<'e> {
        amount: i64,
        #[serde(rename = "cc", alias = "currency")]
        code: Option<&'e str>,
        #[serde(skip)]
        seen: bool,
        place: Place,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Place {
        city: String,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Strict {
        amount: i64,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Flattened {
        amount: i64,
        #[serde(flatten)]
        others: BTreeMap<String, String>,
    }

    #[derive(Deserialize)]
    #[serde(tag = "kind")]
    #[allow(dead_code)]
    enum Tagged {
        Payment { amount: i64 },
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Wrapped(Place);

    #[test]
    fn a_struct_names_what_it_reads() {
        let mut members = members_of::<Payment<'_>>().expect("it names them");
        members.sort_unstable();
        assert_eq!(members, ["amount", "cc", "currency", "place"]);
        assert_eq!(members_of::<Wrapped>(), Some(vec!["city"]));
        assert_eq!(members_of::<IgnoredAny>(), Some(vec![]));
    }

    #[test]
    fn what_may_look_at_anything_reads_events_whole() {
        assert_eq!(members_of::<Strict>(), None, "another member is an error, which must not go unseen");
        assert_eq!(members_of::<Flattened>(), None);
        assert_eq!(members_of::<Tagged>(), None);
        assert_eq!(members_of::<serde_json::Value>(), None);
        assert_eq!(members_of::<BTreeMap<String, i64>>(), None);
        assert_eq!(members_of::<Option<Place>>(), None);
    }
}
