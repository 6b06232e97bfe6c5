//! [`Migrate`]: a rule that rewrites the states which its earlier versions wrote. [`OldState`] is such a state.

use crate::group_state::encode;
use crate::{Map, Result, Rule, StateError, StateFormat};
use serde::de::DeserializeOwned;

/// A rule that rewrites the states which its earlier versions wrote, one key at a time.
///
/// It is needed when the shape of the state changes so that the new version cannot read the old one. A version that can read both
/// (say, because a field was added with `#[serde(default)]`) lists the old number in [`Rule::READABLE_SCHEMAS`] and needs none.
///
/// Export it with `export!(Sessions, migration)`, and activate the version with the choice to migrate. A state is rewritten when its
/// key is called next, or when the host comes to it; the timeout stays. A state for which this returns an error stays as it is: its
/// key fails, and its events go to the dead letters with the error's text.
///
/// ```
/// use keyfold_sdk::prelude::*;
/// use keyfold_sdk::testing;
///
/// /// Schema 1: amounts in whole units.
/// #[derive(Serialize, Deserialize)]
/// struct TotalBefore { amount: i64 }
///
/// /// Schema 2: in minor units.
/// #[derive(Serialize, Deserialize)]
/// struct Total { amount_minor: i64 }
///
/// struct Totals;
///
/// impl Rule for Totals {
///     type Event<'e> = i64;
///     type State = Total;
///     type Output = i64;
///     type Parameters = NoParameters;
///     const STATE_SCHEMA: u32 = 2;
///
///     fn new(_: NoParameters) -> Result<Self> { Ok(Totals) }
///
///     fn call(&self, _: &str, events: Events<i64>, state: &mut GroupState<Total>, out: &mut Outputs<i64>) -> Result<()> {
///         let mut total = state.get_option()?.unwrap_or(Total { amount_minor: 0 });
///         for amount_minor in events { total.amount_minor += *amount_minor?; }
///         state.update(&total)?;
///         out.emit(&total.amount_minor)
///     }
/// }
///
/// impl Migrate<Total> for Totals {
///     fn migrate(from_schema: u32, old: OldState) -> Result<Total> {
///         match from_schema {
///             1 => Ok(Total { amount_minor: old.decode::<TotalBefore>()?.amount * 100 }),
///             _ => bail!("schema {from_schema} is not known"),
///         }
///     }
/// }
///
/// keyfold_sdk::export!(Totals, migration);
///
/// assert_eq!(testing::migrate::<Totals>(1, &TotalBefore { amount: 7 }).unwrap().amount_minor, 700);
/// assert!(testing::migrate::<Totals>(3, &TotalBefore { amount: 7 }).is_err());
/// ```
pub trait Migrate<S> {
    /// Rewrites a state that an earlier version wrote under this schema number.
    fn migrate(from_schema: u32, old: OldState<'_>) -> Result<S>;
}

impl<S, R: Migrate<S>> Migrate<S> for Map<R> {
    fn migrate(from_schema: u32, old: OldState<'_>) -> Result<S> {
        R::migrate(from_schema, old)
    }
}

/// A state as an earlier version wrote it.
#[derive(Debug, Clone, Copy)]
pub struct OldState<'a> {
    bytes: &'a [u8],
    format: StateFormat,
}

impl<'a> OldState<'a> {
    /// A state of these bytes.
    pub fn new(bytes: &'a [u8], format: StateFormat) -> Self {
        OldState { bytes, format }
    }

    /// The state, when it was written in the format of this version.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, StateError> {
        self.decode_as(self.format)
    }

    /// The state, when it was written in another format.
    pub fn decode_as<T: DeserializeOwned>(&self, format: StateFormat) -> Result<T, StateError> {
        crate::group_state::decode(format, self.bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Rewrites one state, and adds it to others.
pub(crate) fn migrate_one<R: Rule + Migrate<R::State>>(
    from_schema: u32,
    old: &[u8],
    states: &mut Vec<u8>,
) -> Result<()> {
    let state = R::migrate(from_schema, OldState::new(old, R::STATE_FORMAT))?;
    let mut encoded = Vec::new();
    encode(R::STATE_FORMAT, &state, &mut encoded)?;
    states.append(&mut encoded);
    Ok(())
}
