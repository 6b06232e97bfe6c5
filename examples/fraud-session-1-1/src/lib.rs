//! Version 1.1 of `fraud-session`: it remembers for each user how often fraud was confirmed, and is stricter with those.
//!
//! The machine is that of 1.0. What is new is the state, [`History`] around the row of 1.0, and so the schema has the number 2. States
//! of 1.0 are rewritten: see [`FraudSession11`] as a [`Migrate`].

use fraud_session::{Event, FraudSession, Limits, Machine, Output, Parameters, Row, Stage, keep};
use keyfold_sdk::prelude::*;

/// What is stored for one user: the row of 1.0, and what it could not say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// As in 1.0.
    #[serde(flatten)]
    pub row: Row,
    /// How often an analyst found that it was fraud, while the user was known without a pause.
    pub confirmed: u32,
}

/// The rule.
pub struct FraudSession11 {
    limits: Limits,
    /// For users who have done it before.
    strict: Limits,
}

/// What an analyst writes who found fraud.
const CONFIRMED: &str = "confirmed_fraud";

impl Rule for FraudSession11 {
    type Event<'e> = Event;
    type State = History;
    type Output = Output;
    type Parameters = Parameters;
    const TIMEOUT: TimeoutKind = FraudSession::TIMEOUT;
    const STATE_SCHEMA: u32 = 2;

    fn new(parameters: Parameters) -> Result<Self> {
        let limits = parameters.check()?;
        let strict = Limits { velocity_limit: (limits.velocity_limit / 2).max(1), ..limits.clone() };
        Ok(FraudSession11 { limits, strict })
    }

    fn call(
        &self,
        user_id: &str,
        events: Events<Event>,
        state: &mut GroupState<History>,
        out: &mut Outputs<Output>,
    ) -> Result<()> {
        let watermark_ms = state.current_watermark_ms()?;
        let now_ms = state.current_processing_time_ms();
        let mut history = state.get_option()?.unwrap_or_default();
        for event in events {
            let event = event?;
            let at = event.time_ms()?;
            let before = history.row.stage.clone();
            let mut machine = self.machine(&history, user_id, now_ms, out);
            history.row = machine.event(history.row, event.into_inner(), at)?;
            history.look_back_at(&before);
        }
        let mut machine = self.machine(&history, user_id, now_ms, out);
        history.row.stage = machine.pass_deadlines(history.row.stage, watermark_ms)?;
        keep(&history, history.row.stage.deadline(&self.limits), state)
    }
}

impl FraudSession11 {
    fn machine<'c>(
        &'c self,
        history: &History,
        user_id: &'c str,
        now_ms: i64,
        out: &'c mut Outputs<Output>,
    ) -> Machine<'c> {
        let limits = if history.confirmed == 0 { &self.limits } else { &self.strict };
        Machine { limits, user_id, now_ms, out, observer: &|_| () }
    }
}

impl History {
    /// After an event: counts a case that was just closed, and forgets with the row.
    fn look_back_at(&mut self, before: &Stage) {
        match (before, &self.row.stage) {
            (Stage::Flagged(_), Stage::Closed(tombstone)) if tombstone.outcome == CONFIRMED => {
                self.confirmed = self.confirmed.saturating_add(1);
            }
            (_, Stage::Inactive) => self.confirmed = 0,
            _ => {}
        }
    }
}

impl Migrate<History> for FraudSession11 {
    /// A case that is closed and remembered says what the analyst found. A session after one does not, and begins with 0.
    fn migrate(from_schema: u32, old: OldState) -> Result<History> {
        if from_schema != FraudSession::STATE_SCHEMA {
            bail!("schema {from_schema} is not known: this version rewrites {}", FraudSession::STATE_SCHEMA);
        }
        let row: Row = old.decode()?;
        let is_confirmed = matches!(&row.stage, Stage::Closed(tombstone) if tombstone.outcome == CONFIRMED);
        Ok(History { row, confirmed: u32::from(is_confirmed) })
    }
}

keyfold_sdk::export!(FraudSession11, migration);
