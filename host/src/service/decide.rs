//! Single events that somebody waits for.

use super::events::{decoded, of_append, ranges};
use super::model::{Decision, VersionName};
use super::{Answer, Caller, EventsBody, Operation, Service, ServiceError};
use crate::decisions::{Decided, Verdict};
use crate::event::InputId;
use crate::runner::Outcome;
use serde_json::Value;

impl Service {
    /// Puts one event through a rule, and waits for what it says, at most the rule's deadline.
    pub fn decide(&self, caller: &Caller, rule: &str, body: &EventsBody<'_>) -> Answer<Decision> {
        self.allow(caller, Operation::RULE_DECIDE, rule)?;
        let tenant = self.tenant_of(caller)?;
        let rule = tenant.rule(rule)?;
        super::activations::not_draining(&rule)?;
        if body.idempotency_key.is_some() {
            let message = "a decision takes no Idempotency-Key: give the event an id, and an event that was there is told as such";
            return Err(ServiceError::invalid("invalid", message));
        }
        let mut events = decoded(body, 1)?;
        let (Some(event), true) = (events.pop(), events.is_empty()) else {
            return Err(ServiceError::invalid("not-one-event", "a decision is made for one event"));
        };
        self.check_flow(&tenant, 1)?;
        let runner = self.runner_of(&rule)?;
        let checked = std::sync::Arc::clone(&rule.known().checked);
        let decided = runner.decide(InputId(checked.decide_input as u32), event, checked.deadline);
        let decided = decided.map_err(of_append)?;
        self.sweeper.wake();
        let placed = decided.placed.map(|placed| ranges(&[placed])).and_then(|mut ranges| ranges.pop());
        let undecided = |reason: String| Decision {
            decided: false,
            reason: Some(reason),
            key: None,
            outputs: Vec::new(),
            answer: checked.default_answer.clone(),
            version: None,
            batch: None,
            state_time: None,
            placed: placed.clone(),
        };
        Ok(match decided.outcome {
            Outcome::Undecided { reason, .. } => undecided(reason.to_owned()),
            Outcome::Decided(Decided { batch, time, key, digest, version, verdict }) => {
                let of_rule = |decision: Decision| Decision {
                    key: key.clone(),
                    version: Some(VersionName { version: version.clone(), digest: digest.clone() }),
                    batch: Some(batch),
                    state_time: Some(time.to_string()),
                    ..decision
                };
                match verdict {
                    Verdict::Failed { reason, message } => of_rule(undecided(format!("{reason}: {message}"))),
                    Verdict::Outputs(outputs) => of_rule(Decision {
                        decided: true,
                        reason: None,
                        outputs: outputs.into_iter().map(parsed).collect(),
                        answer: Value::Null,
                        ..undecided(String::new())
                    }),
                }
            }
        })
    }
}

fn parsed(output: String) -> Value {
    serde_json::from_str(&output).unwrap_or(Value::String(output))
}
