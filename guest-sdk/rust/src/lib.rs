//! Write Keyfold rules in Rust.
//!
//! A rule is a function from a key, the key's new events and its state to outputs, a new state and a timeout: Spark's
//! `mapGroupsWithState` as a WebAssembly component. The host keeps the state, durably and exactly once, and calls the
//! rule once for each key that has events in a micro-batch, and once for each key whose timeout is due.
//!
//! More than five high payments in one session; a session ends after thirty minutes without activity, or when that is confirmed:
//!
//! ```
//! use keyfold_sdk::prelude::*;
//!
//! const GAP_MS: i64 = 30 * 60 * 1000;
//!
//! #[derive(Deserialize)]
//! struct Payment { amount_minor: i64 }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Session { last_ms: i64, high: u32 }
//!
//! #[derive(Serialize)]
//! struct Alert { user_id: String, at_ms: i64 }
//!
//! struct Sessions;
//!
//! impl Rule for Sessions {
//!     type Event<'e> = Payment;
//!     type State = Session;
//!     type Output = Alert;
//!     type Parameters = NoParameters;
//!     const TIMEOUT: TimeoutKind = TimeoutKind::EventTime;
//!
//!     fn new(_: NoParameters) -> Result<Self> { Ok(Sessions) }
//!
//!     fn call(&self, user: &str, payments: Events<Payment>, state: &mut GroupState<Session>, out: &mut Outputs<Alert>) -> Result<()> {
//!         if state.has_timed_out() { state.remove(); return Ok(()); }
//!         let mut session = state.get_option()?;
//!         for payment in payments {
//!             let payment = payment?;
//!             let at_ms = payment.time_ms()?;
//!             let open = session.filter(|open| at_ms - open.last_ms <= GAP_MS);
//!             let mut open = open.unwrap_or(Session { last_ms: at_ms, high: 0 });
//!             open.last_ms = open.last_ms.max(at_ms);
//!             open.high += u32::from(payment.amount_minor >= 50_000);
//!             let is_confirmed = open.high > 5;
//!             if is_confirmed { out.emit(&Alert { user_id: user.into(), at_ms })?; }
//!             session = (!is_confirmed).then_some(open);
//!         }
//!         let Some(open) = session else { state.remove(); return Ok(()) };
//!         state.update(&open)?;
//!         state.set_timeout_timestamp((open.last_ms + GAP_MS).max(state.current_watermark_ms()?))?;
//!         Ok(())
//!     }
//! }
//!
//! keyfold_sdk::export!(Sessions);
//! # use keyfold_sdk::testing::TestStream;
//! # let mut stream = TestStream::new(Sessions, 0);
//! # let mut pay = |minutes: &[i64]| {
//! #     let high = |minute: &i64| (minute * 60_000, serde_json::json!({"amount_minor": 50_000}));
//! #     stream.events("u1", &minutes.iter().map(high).collect::<Vec<_>>()).unwrap().len()
//! # };
//! # assert_eq!(pay(&[1, 2, 3, 4, 5]), 0, "not more than five");
//! # assert_eq!(pay(&[36, 37, 38]), 0, "thirty-one minutes later it is another session");
//! # assert_eq!(pay(&[67, 68, 98, 99]), 1, "the sixth of one session, which ends with it");
//! # assert_eq!(pay(&[100, 101, 102, 103]), 0, "the fifth of the next one");
//! # assert_eq!(stream.state("u1").unwrap().unwrap().high, 5);
//! # stream.advance_event_to(134 * 60_000).unwrap();
//! # assert!(stream.state("u1").unwrap().is_none(), "the silence was long enough");
//! ```
//!
//! Build it with `keyfold build`: the result imports a log and a progress mark and nothing else. A rule has no clock, no
//! random numbers, no files and no network, so that a re-run of a batch gives the same bytes.
//!
//! - [`Rule`] writes any number of outputs for each call, [`MapRule`] exactly one.
//! - [`Migrate`] rewrites the states of earlier versions.
//! - [`GroupState`] has the methods of Spark's, with its errors and edge cases.
//! - [`testing`] calls a rule without a host.
//! - [`info!`] and its siblings write to the rule's log.

mod adapter;
mod error;
mod events;
mod group_state;
mod interval;
mod log;
mod map_rule;
mod members;
mod migration;
mod outputs;
mod rule;
pub mod testing;

#[doc(hidden)]
pub mod bindings;

pub use error::{Error, Result, StateError};
pub use events::{Event, Events};
pub use group_state::{GroupState, Timeout, TimeoutClock};
pub use interval::Interval;
pub use log::Level;
pub use map_rule::{Map, MapRule};
pub use migration::{Migrate, OldState};
pub use outputs::Outputs;
pub use rule::{Form, NoParameters, OutputMode, Rule, StateFormat, TimeoutKind};

#[doc(hidden)]
pub mod private {
    //! What the macros expand to. Not part of the interface.
    pub use crate::adapter::{Configured, call, configure, describe, migrate};
    pub use crate::log::write;
}

/// What nearly every rule uses.
pub mod prelude {
    pub use crate::{
        Error, Event, Events, GroupState, Interval, MapRule, Migrate, NoParameters, OldState, OutputMode, Outputs,
        Result, Rule, StateError, StateFormat, Timeout, TimeoutClock, TimeoutKind, bail,
    };
    pub use serde::{Deserialize, Serialize};
}

/// Makes a type that implements [`Rule`] the rule of this component. Once for each crate; for a [`MapRule`] it is [`export_map!`].
///
/// The crate must build a `cdylib`; `keyfold build` turns it into a component. The rule's name and version are those of
/// the crate.
///
/// `export!(Sessions, migration)` exports that the rule can rewrite older states, too: it implements [`Migrate`].
#[macro_export]
macro_rules! export {
    ($rule:ty, migration) => {
        $crate::export!($rule);

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::migration::exports::keyfold::rule::migration as contract;

            struct Migration;

            impl contract::Guest for Migration {
                fn migrate(
                    from_schema: u32,
                    to_schema: u32,
                    states: ::std::vec::Vec<u8>,
                    state_ends: ::std::vec::Vec<u32>,
                ) -> ::std::result::Result<contract::Migrated, contract::Failure> {
                    $crate::private::migrate::<$rule>(from_schema, to_schema, &states, &state_ends)
                }
            }

    $crate::bindings::migration::export!(Migration with_types_in $crate::bindings::migration);
        };
    };
    ($rule:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::exports::keyfold::rule::state_function as contract;

            ::std::thread_local! {
                static RULE: $crate::private::Configured<$rule> = const { $crate::private::Configured::new() };
            }

            struct Component;

            impl contract::Guest for Component {
                fn describe() -> ::std::vec::Vec<u8> {
                    $crate::private::describe::<$rule>(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
                }

                fn configure(parameters: ::std::vec::Vec<u8>) -> ::std::result::Result<(), contract::Failure> {
                    RULE.with(|rule| $crate::private::configure(rule, &parameters))
                }

                fn call(
                    batch: contract::Batch,
                    groups: contract::Groups,
                ) -> ::std::result::Result<contract::Outcomes, contract::Failure> {
                    RULE.with(|rule| $crate::private::call(rule, &batch, &groups))
                }
            }

    $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}

/// Makes a type that implements [`MapRule`] the rule of this component. Otherwise as [`export!`].
#[macro_export]
macro_rules! export_map {
    ($rule:ty, migration) => {
        $crate::export!($crate::Map<$rule>, migration);
    };
    ($rule:ty) => {
        $crate::export!($crate::Map<$rule>);
    };
}
