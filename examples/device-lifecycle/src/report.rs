//! [`Report`]: what the rule says about a device.

use serde::Serialize;

/// One output.
#[derive(Debug, Clone, Serialize)]
pub struct Output {
    /// What happened.
    #[serde(flatten)]
    pub report: Report,
    /// To which device.
    pub device_id: String,
}

/// What happened to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind")]
pub enum Report {
    /// Nothing was heard from it for too long.
    #[serde(rename = "device.offline")]
    Offline {
        /// The deadline that passed, which may lie before the batch that noticed.
        at_ms: i64,
        /// When it was last seen.
        since_ms: i64,
        /// The charge that it last told: an empty battery is the usual reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        battery_percent: Option<u8>,
    },
    /// It was offline and is back.
    #[serde(rename = "device.recovered")]
    Recovered {
        /// When it came back.
        at_ms: i64,
        /// Between the last sign of life and this one.
        downtime_ms: i64,
        /// The heartbeats lost in between; absent when its numbers do not tell, as after a reboot.
        #[serde(skip_serializing_if = "Option::is_none")]
        missed: Option<u64>,
    },
    /// It was offline and is back once too often. Until that calms down, its single outages are not reported.
    #[serde(rename = "device.flapping")]
    Flapping {
        /// When it came back.
        at_ms: i64,
        /// How often it came back within the window.
        count: u32,
        /// The window.
        window_ms: i64,
        /// As in `device.recovered`, for the last outage.
        downtime_ms: i64,
        /// As in `device.recovered`, for the last outage.
        #[serde(skip_serializing_if = "Option::is_none")]
        missed: Option<u64>,
    },
    /// It was retired and is alive. Said once for each retirement.
    #[serde(rename = "device.zombie")]
    Zombie {
        /// When it was heard.
        at_ms: i64,
        /// When it was retired.
        retired_ms: i64,
    },
}
