//! `devices`: a fleet of devices that say every minute that they are alive, reboot, are maintained, fall silent, and are
//! replaced. Silence has no event: it is what a rule must notice.

use super::{Line, Random, Scenario, Settings, Share};
use crate::event::Millis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How often a device says that it is alive.
pub const HEARTBEAT_MS: u32 = 60_000;

/// What happens instead of a heartbeat, as shares of the heartbeats.
const REBOOT: Share = Share::per_100_000(200);
const SHORT_SILENCE: Share = Share::per_100_000(200);
const LONG_SILENCE: Share = Share::per_100_000(200);
const MAINTENANCE: Share = Share::per_100_000(50);
const DECOMMISSIONED: Share = Share::per_100_000(10);

const MODELS: [&str; 4] = ["meter-2", "meter-3", "gateway-1", "pump-7"];
const REBOOT_REASONS: [&str; 3] = ["update", "watchdog", "power"];

/// The devices' events, in time order.
pub struct Devices {
    random: Random,
    devices: Vec<Device>,
    /// When each device does something next, the earliest on top.
    next: BinaryHeap<Reverse<(Millis, u32)>>,
    events_left: u64,
    /// The number of the next device that replaces one.
    next_number: u32,
}

/// One device of the fleet.
struct Device {
    number: u32,
    phase: Phase,
    /// Counts heartbeats since the last reboot, those that nobody received included.
    seq: u32,
    battery_percent: u32,
}

/// What a device does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Provision,
    Beat,
    EndMaintenance,
}

impl Devices {
    /// `settings.events` events of a fleet of `settings.keys` devices.
    pub fn new(settings: &Settings) -> Self {
        let mut random = Random::new(settings.seed, 0);
        let device = |number| Device { number, phase: Phase::Provision, seq: 0, battery_percent: 100 };
        let place = |place| Reverse((Millis(settings.start.0 + i64::from(random.below(HEARTBEAT_MS))), place));
        let next = (0..settings.keys).map(place).collect();
        Devices {
            random,
            devices: (0..settings.keys).map(device).collect(),
            next,
            events_left: settings.events,
            next_number: settings.keys,
        }
    }

    /// Lets the device at this place of the fleet act, and returns after how many milliseconds it acts again.
    fn act(&mut self, place: u32, time: Millis, line: &mut Vec<u8>) -> u32 {
        let Devices { random, devices, next_number, .. } = self;
        let device = &mut devices[place as usize];
        match device.phase {
            Phase::Provision => {
                device.begin(line, "provisioned", time).text("model", random.one_of(&MODELS)).end();
                device.phase = Phase::Beat;
                HEARTBEAT_MS
            }
            Phase::EndMaintenance => {
                device.begin(line, "maintenance.end", time).end();
                device.phase = Phase::Beat;
                5_000
            }
            Phase::Beat if random.chance(REBOOT) => {
                device.seq = 0;
                device.begin(line, "reboot", time).text("reason", random.one_of(&REBOOT_REASONS)).end();
                random.between(20_000, 90_000)
            }
            Phase::Beat if random.chance(MAINTENANCE) => {
                let length_ms = random.between(10, 45) * 60_000;
                let until = Millis(time.0 + i64::from(length_ms));
                device.begin(line, "maintenance.start", time).time("until_ms", until).end();
                device.phase = Phase::EndMaintenance;
                length_ms
            }
            Phase::Beat if random.chance(DECOMMISSIONED) => {
                device.begin(line, "decommissioned", time).end();
                *device = Device { number: *next_number, phase: Phase::Provision, seq: 0, battery_percent: 100 };
                *next_number += 1;
                HEARTBEAT_MS
            }
            Phase::Beat => {
                device.seq += 1;
                device.drain(random);
                let (seq, battery) = (device.seq, device.battery_percent);
                device.begin(line, "heartbeat", time).number("seq", seq).number("battery_percent", battery).end();
                device.wait(random)
            }
        }
    }
}

impl Scenario for Devices {
    fn next(&mut self, line: &mut Vec<u8>) -> Option<Millis> {
        self.events_left = self.events_left.checked_sub(1)?;
        let Reverse((time, place)) = self.next.pop()?;
        let wait_ms = self.act(place, time, line);
        self.next.push(Reverse((Millis(time.0 + i64::from(wait_ms)), place)));
        Some(time)
    }
}

impl Device {
    fn begin<'b>(&self, line: &'b mut Vec<u8>, kind: &str, time: Millis) -> Line<'b> {
        Line::new(line, "type", kind).id("device_id", b'd', self.number, 5).time("ts", time)
    }

    /// Until the next heartbeat: a minute and a little, or a silence, in which heartbeats are sent and lost.
    fn wait(&mut self, random: &mut Random) -> u32 {
        let lost = match () {
            () if random.chance(SHORT_SILENCE) => random.between(2, 4),
            () if random.chance(LONG_SILENCE) => random.between(6, 40),
            () => 0,
        };
        self.seq += lost;
        lost * HEARTBEAT_MS + random.between(HEARTBEAT_MS - 1_500, HEARTBEAT_MS + 1_500)
    }

    fn drain(&mut self, random: &mut Random) {
        if random.below(30) == 0 {
            self.battery_percent = if self.battery_percent > 5 { self.battery_percent - 1 } else { 100 };
        }
    }
}
