//! [`Event`]: a payment, or a control that an analyst gives. Both come on the same stream, so that their order is known.

use keyfold_sdk::prelude::*;

/// One event of a user.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Fields")]
pub struct Event {
    /// By this, a second delivery is recognised: the `txn_id` of a payment, the `id` of a control that has one.
    pub id: Option<String>,
    /// What it says.
    pub input: Input,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// `payment.authorized.v1`, and events without a type.
    Payment(Payment),
    /// `anomaly.cleared`: the suspicion is unfounded.
    AnomalyCleared,
    /// `pattern.confirmed`: the suspicion is right.
    PatternConfirmed,
    /// `case.closed`: the case is done.
    #[allow(missing_docs)]
    CaseClosed { outcome: String, by: Option<String> },
    /// A control that cannot be followed in any stage, and why. It is rejected rather than failed: a failure would take
    /// the user's payments of the batch with it.
    #[allow(missing_docs)]
    Unusable { control: String, reason: &'static str },
}

/// One payment.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Payment {
    pub txn_id: String,
    pub amount_minor: i64,
    pub country: Option<String>,
    pub device: Option<String>,
}

impl Input {
    /// The type of a control, for its rejection.
    pub fn control(&self) -> &str {
        match self {
            Input::Payment(_) => "payment.authorized.v1",
            Input::AnomalyCleared => "anomaly.cleared",
            Input::PatternConfirmed => "pattern.confirmed",
            Input::CaseClosed { .. } => "case.closed",
            Input::Unusable { control, .. } => control,
        }
    }
}

/// The event as it comes. Its user is the key and its `ts` the event time, so the host has read both already.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    txn_id: Option<String>,
    amount_minor: Option<i64>,
    country: Option<String>,
    device_id: Option<String>,
    outcome: Option<String>,
    by: Option<String>,
}

/// Ids, countries, devices and outcomes go into the state, which must stay small whoever writes the events.
const TEXT_BYTES_MAX: usize = 64;

impl TryFrom<Fields> for Event {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        fields.check_lengths()?;
        let Fields { kind, id, txn_id, amount_minor, country, device_id, outcome, by } = fields;
        let input = match (kind.as_deref(), outcome) {
            (None | Some("payment.authorized.v1"), _) => Input::Payment(Payment {
                txn_id: txn_id.ok_or("a payment has no txn_id")?,
                amount_minor: amount_minor.ok_or("a payment has no amount_minor")?,
                country,
                device: device_id,
            }),
            (Some("anomaly.cleared"), _) => Input::AnomalyCleared,
            (Some("pattern.confirmed"), _) => Input::PatternConfirmed,
            (Some("case.closed"), Some(outcome)) => Input::CaseClosed { outcome, by },
            (Some("case.closed"), None) => {
                Input::Unusable { control: "case.closed".into(), reason: "it has no outcome" }
            }
            (Some(other), _) => Input::Unusable { control: other.to_owned(), reason: "unknown type" },
        };
        let id = if let Input::Payment(payment) = &input { Some(payment.txn_id.clone()) } else { id };
        Ok(Event { id, input })
    }
}

impl Fields {
    fn check_lengths(&self) -> Result<(), String> {
        let texts = [
            ("type", &self.kind),
            ("id", &self.id),
            ("txn_id", &self.txn_id),
            ("country", &self.country),
            ("device_id", &self.device_id),
            ("outcome", &self.outcome),
            ("by", &self.by),
        ];
        for (name, text) in texts {
            let bytes = text.as_ref().map_or(0, String::len);
            if bytes > TEXT_BYTES_MAX {
                return Err(format!("{name} has {bytes} bytes: at most {TEXT_BYTES_MAX} are allowed"));
            }
        }
        Ok(())
    }
}
