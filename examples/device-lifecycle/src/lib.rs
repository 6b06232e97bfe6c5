//! Follows each device from provisioning to retirement, and reports the silent, the flapping and the undead.
//!
//! Silence has no event time, so the clock is processing time: a device was last seen at the time of the batch that
//! brought its last sign of life.

mod device;
mod event;
mod flaps;
mod parameters;
mod report;

pub use device::{Device, Stage};
pub use event::DeviceEvent;
pub use parameters::Parameters;
pub use report::{Output, Report};

use keyfold_sdk::prelude::*;

/// The rule.
pub struct DeviceLifecycle {
    parameters: Parameters,
}

impl Rule for DeviceLifecycle {
    type Event<'e> = DeviceEvent;
    type State = Device;
    type Output = Output;
    type Parameters = Parameters;
    const TIMEOUT: TimeoutKind = TimeoutKind::ProcessingTime;

    fn new(parameters: Parameters) -> Result<Self> {
        parameters.check()?;
        Ok(DeviceLifecycle { parameters })
    }

    fn call(
        &self,
        device_id: &str,
        events: Events<DeviceEvent>,
        state: &mut GroupState<Device>,
        outputs: &mut Outputs<Output>,
    ) -> Result<()> {
        let now_ms = state.current_processing_time_ms();
        let mut reports = Vec::new();
        // A batch that brings events of a key does not also call it for its timeout, so what is due is applied here,
        // whichever of the two came first.
        let mut device = state.get_option()?.and_then(|device| device.advance(now_ms, &self.parameters, &mut reports));
        for event in events {
            let event = event?.into_inner();
            if device.is_none() && event.introduces() {
                device = Some(Device::new(now_ms));
            }
            if let Some(device) = &mut device {
                device.apply(event, now_ms, &self.parameters, &mut reports);
            }
        }
        for report in reports {
            outputs.emit(&Output { device_id: device_id.to_owned(), report })?;
        }
        let Some(device) = device else {
            state.remove();
            return Ok(());
        };
        state.update(&device)?;
        // The call cleared the timeout, so it is set again, also when nothing changed.
        if let Some(deadline_ms) = device.deadline_ms(&self.parameters) {
            state.set_timeout_duration(length_until(deadline_ms, now_ms))?;
        }
        Ok(())
    }
}

/// A deadline has passed when the clock reads it, a timeout is due strictly after its time: hence one millisecond less.
/// The host takes no length of 0, so a deadline in the very next millisecond is one late.
fn length_until(deadline_ms: i64, now_ms: i64) -> i64 {
    (deadline_ms - 1 - now_ms).max(1)
}

keyfold_sdk::export!(DeviceLifecycle);
