//! [`DeviceEvent`]: what devices and their operators send.

use keyfold_sdk::prelude::*;

/// One event, told apart by its `type`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "type")]
pub enum DeviceEvent {
    /// The device was entered in the inventory. Also takes a retired device back.
    #[serde(rename = "provisioned")]
    Provisioned,
    /// A sign of life.
    #[serde(rename = "heartbeat")]
    Heartbeat {
        /// Counts the heartbeats of the device, so that lost ones show as a gap.
        seq: u64,
        /// The charge of its battery.
        battery_percent: Option<u8>,
    },
    /// A sign of life too; the device counts its heartbeats from the beginning again.
    #[serde(rename = "reboot")]
    Reboot,
    /// Someone works on the device: its silence means nothing.
    #[serde(rename = "maintenance.start")]
    MaintenanceStart {
        /// When it ends by itself, in milliseconds since 1970.
        until_ms: i64,
    },
    /// The work ended before its time.
    #[serde(rename = "maintenance.end")]
    MaintenanceEnd,
    /// The device was taken out of service.
    #[serde(rename = "decommissioned")]
    Decommissioned,
    /// A type that this version does not know. Failing here would send the heartbeats of the same batch to the dead
    /// letters and report a healthy device.
    #[serde(other)]
    Unknown,
}

impl DeviceEvent {
    /// Whether it makes an unknown device known.
    pub fn introduces(&self) -> bool {
        !matches!(self, DeviceEvent::MaintenanceEnd | DeviceEvent::Unknown)
    }
}
