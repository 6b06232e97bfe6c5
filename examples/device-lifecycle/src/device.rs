//! [`Device`]: the state of one device, and its two ways to change: a deadline passes, an event arrives.

use crate::flaps::Flaps;
use crate::{DeviceEvent, Parameters, Report};
use serde::{Deserialize, Serialize};

/// The state of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    stage: Stage,
    /// The last sign of life; none before the first.
    last_seen_ms: Option<i64>,
    /// Silence counts from here: the last sign of life, or later, when maintenance or the host's absence made the silence
    /// before it meaningless.
    watched_from_ms: i64,
    /// The highest number of a heartbeat since the device counts.
    last_seq: Option<u64>,
    battery_percent: Option<u8>,
    flaps: Flaps,
    /// The outage is not reported yet, because the device is flapping.
    held: bool,
    /// When maintenance ends; when a retired device is forgotten.
    until_ms: Option<i64>,
    /// When the device was retired.
    retired_ms: Option<i64>,
    /// The retired device was heard and that was reported.
    zombie: bool,
}

/// Where a device is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Known, and never heard.
    Provisioned,
    /// Heard in time.
    Online,
    /// Silent for a while: not worth a report yet.
    Late,
    /// Silent for too long.
    Offline,
    /// Silent or not, someone works on it.
    Maintenance,
    /// Out of service.
    Retired,
}

impl Device {
    /// A device that was never heard.
    pub fn new(now_ms: i64) -> Self {
        Device {
            stage: Stage::Provisioned,
            last_seen_ms: None,
            watched_from_ms: now_ms,
            last_seq: None,
            battery_percent: None,
            flaps: Flaps::default(),
            held: false,
            until_ms: None,
            retired_ms: None,
            zombie: false,
        }
    }

    /// The one deadline of the stage, if it has one. It has passed when the clock reads this time.
    pub fn deadline_ms(&self, parameters: &Parameters) -> Option<i64> {
        match self.stage {
            Stage::Provisioned => None,
            Stage::Online => Some(self.watched_from_ms + parameters.late_ms),
            Stage::Late => Some(self.watched_from_ms + parameters.offline_ms),
            Stage::Offline if self.held => self.flaps.calm_ms(parameters.flap_count, parameters.flap_window_ms),
            Stage::Offline => None,
            Stage::Maintenance | Stage::Retired => self.until_ms,
        }
    }

    /// Applies every deadline that has passed, in order. None when the device is forgotten.
    pub fn advance(mut self, now_ms: i64, parameters: &Parameters, reports: &mut Vec<Report>) -> Option<Self> {
        let overdue_ms = self.deadline_ms(parameters).map_or(0, |deadline_ms| now_ms.saturating_sub(deadline_ms));
        if overdue_ms >= parameters.offline_ms {
            self.grant_grace(now_ms);
        }
        while let Some(deadline_ms) = self.deadline_ms(parameters).filter(|&deadline_ms| deadline_ms <= now_ms) {
            match self.stage {
                Stage::Online => self.stage = Stage::Late,
                Stage::Late => self.lose(deadline_ms, parameters, reports),
                Stage::Offline => self.report_offline(deadline_ms, reports),
                Stage::Maintenance => self.end_maintenance(deadline_ms),
                Stage::Retired => return None,
                Stage::Provisioned => unreachable!("a provisioned device has no deadline"),
            }
        }
        Some(self)
    }

    /// Applies one event, after the deadlines up to `now_ms`.
    pub fn apply(&mut self, event: DeviceEvent, now_ms: i64, parameters: &Parameters, reports: &mut Vec<Report>) {
        match event {
            DeviceEvent::Provisioned if self.stage == Stage::Retired => *self = Device::new(now_ms),
            DeviceEvent::Provisioned | DeviceEvent::Unknown => {}
            DeviceEvent::Heartbeat { seq, battery_percent } => {
                self.see(now_ms, Some(seq), parameters, reports);
                self.battery_percent = battery_percent.or(self.battery_percent);
            }
            DeviceEvent::Reboot => self.see(now_ms, None, parameters, reports),
            DeviceEvent::MaintenanceStart { until_ms } => self.start_maintenance(until_ms, now_ms),
            DeviceEvent::MaintenanceEnd if self.stage == Stage::Maintenance => self.end_maintenance(now_ms),
            DeviceEvent::MaintenanceEnd => {}
            DeviceEvent::Decommissioned => self.retire(now_ms, parameters),
        }
    }

    /// The host fires a timeout soon after it is due. One that comes a whole offline interval late was not fired because
    /// the host was down, and then the silence is the host's and not the device's: watching begins again.
    fn grant_grace(&mut self, now_ms: i64) {
        match self.stage {
            Stage::Online | Stage::Late => self.watched_from_ms = now_ms,
            Stage::Maintenance => self.until_ms = Some(now_ms),
            Stage::Provisioned | Stage::Offline | Stage::Retired => {}
        }
    }

    fn lose(&mut self, deadline_ms: i64, parameters: &Parameters, reports: &mut Vec<Report>) {
        self.stage = Stage::Offline;
        if self.flaps.count(deadline_ms, parameters.flap_window_ms) >= parameters.flap_count {
            self.held = true;
        } else {
            self.report_offline(deadline_ms, reports);
        }
    }

    fn report_offline(&mut self, at_ms: i64, reports: &mut Vec<Report>) {
        self.held = false;
        let since_ms = self.last_seen_ms.unwrap_or(self.watched_from_ms);
        reports.push(Report::Offline { at_ms, since_ms, battery_percent: self.battery_percent });
    }

    /// A sign of life, with the number of the heartbeat when it is one.
    fn see(&mut self, now_ms: i64, seq: Option<u64>, parameters: &Parameters, reports: &mut Vec<Report>) {
        if self.stage == Stage::Retired {
            if !self.zombie {
                reports.push(Report::Zombie { at_ms: now_ms, retired_ms: self.retired_ms.unwrap_or(now_ms) });
            }
            self.zombie = true;
            return;
        }
        if self.stage == Stage::Offline {
            self.recover(now_ms, seq, parameters, reports);
        }
        if self.stage != Stage::Maintenance {
            self.stage = Stage::Online;
            self.watched_from_ms = now_ms;
        }
        self.last_seen_ms = Some(now_ms);
        self.last_seq = seq.map(|seq| self.last_seq.map_or(seq, |last_seq| last_seq.max(seq)));
    }

    fn recover(&mut self, now_ms: i64, seq: Option<u64>, parameters: &Parameters, reports: &mut Vec<Report>) {
        let window_ms = parameters.flap_window_ms;
        let downtime_ms = now_ms - self.last_seen_ms.unwrap_or(self.watched_from_ms);
        let missed = seq.zip(self.last_seq).and_then(|(seq, last_seq)| seq.checked_sub(last_seq)?.checked_sub(1));
        let was_flapping = self.flaps.count(now_ms, window_ms) >= parameters.flap_count;
        self.flaps.push(now_ms);
        let count = self.flaps.count(now_ms, window_ms);
        self.held = false;
        if was_flapping {
            return;
        }
        reports.push(match count >= parameters.flap_count {
            true => Report::Flapping { at_ms: now_ms, count, window_ms, downtime_ms, missed },
            false => Report::Recovered { at_ms: now_ms, downtime_ms, missed },
        });
    }

    /// Maintenance that is over already changes nothing. An outage that was open ends here without a report.
    fn start_maintenance(&mut self, until_ms: i64, now_ms: i64) {
        if self.stage != Stage::Retired && until_ms > now_ms {
            self.stage = Stage::Maintenance;
            self.until_ms = Some(until_ms);
            self.held = false;
        }
    }

    fn end_maintenance(&mut self, at_ms: i64) {
        self.stage = if self.last_seen_ms.is_some() { Stage::Online } else { Stage::Provisioned };
        self.until_ms = None;
        self.watched_from_ms = at_ms;
    }

    fn retire(&mut self, now_ms: i64, parameters: &Parameters) {
        if self.stage != Stage::Retired {
            self.stage = Stage::Retired;
            self.held = false;
            self.retired_ms = Some(now_ms);
            self.until_ms = Some(now_ms + parameters.retired_keep_ms);
        }
    }
}
