//! Courses of time on one core or several, played without threads: everybody who computes does so for a slice, then looks.

use super::*;
use std::collections::BTreeMap;

const SLICE: Duration = Duration::from_millis(1);

/// Plays tenants that always want to compute, each with so many threads.
struct Play {
    scheduler: Scheduler<usize>,
    now: Duration,
    computing: Vec<usize>,
    had: BTreeMap<usize, Duration>,
}

impl Play {
    fn new(permits: usize) -> Self {
        Play { scheduler: Scheduler::new(permits), now: Duration::ZERO, computing: Vec::new(), had: BTreeMap::new() }
    }

    fn tenant(&mut self, weight: u32, cores: Option<f64>) -> usize {
        self.scheduler.add(weight, cores, self.now)
    }

    fn ask(&mut self, tenant: usize, threads: usize) {
        (0..threads).for_each(|_| self.scheduler.ask(tenant, tenant));
        self.dispatch();
    }

    fn dispatch(&mut self) {
        self.computing.extend(self.scheduler.dispatch(self.now));
    }

    /// One slice of all that compute.
    fn slice(&mut self) {
        self.now += SLICE;
        for tenant in std::mem::take(&mut self.computing) {
            self.scheduler.charge(tenant, SLICE, self.now);
            *self.had.entry(tenant).or_default() += SLICE;
            if self.scheduler.is_to_hand_over(tenant, self.now) {
                self.scheduler.release(tenant, self.now);
                self.scheduler.ask(tenant, tenant);
            } else {
                self.computing.push(tenant);
            }
        }
        self.dispatch();
    }

    fn slices(&mut self, slices: u32) -> BTreeMap<usize, u32> {
        self.had.clear();
        (0..slices).for_each(|_| self.slice());
        self.had.iter().map(|(&tenant, had)| (tenant, had.as_millis() as u32)).collect()
    }
}

#[test]
fn tenants_get_cores_by_weight_however_many_threads_they_have() {
    let mut play = Play::new(2);
    let (one, three) = (play.tenant(100, None), play.tenant(300, None));
    play.ask(one, 50);
    play.ask(three, 2);
    let had = play.slices(4000);
    assert!((1990..=2010).contains(&had[&one]), "{had:?}");
    assert!((5990..=6010).contains(&had[&three]), "{had:?}");
}

#[test]
fn whoever_comes_to_a_busy_machine_waits_for_one_slice_at_most() {
    let mut play = Play::new(2);
    let (busy, quiet) = (play.tenant(100, None), play.tenant(100, None));
    play.ask(busy, 100);
    play.slices(10_000);
    let mut waited = Vec::new();
    for _ in 0..1000 {
        play.ask(quiet, 1);
        let mut slices = 0;
        while !play.computing.contains(&quiet) {
            play.slice();
            slices += 1;
        }
        waited.push(slices);
        // It computes for less than a slice, and is idle again for five.
        play.computing.retain(|&tenant| tenant != quiet);
        play.scheduler.charge(quiet, SLICE / 10, play.now);
        play.scheduler.release(quiet, play.now);
        play.dispatch();
        play.slices(5);
    }
    assert!(waited[0] <= 1 && waited[1..].iter().all(|&slices| slices == 0), "{waited:?}");
}

#[test]
fn the_last_permit_is_kept_for_a_second_and_no_longer() {
    let mut play = Play::new(2);
    let (busy, quiet) = (play.tenant(100, None), play.tenant(100, None));
    play.ask(quiet, 1);
    play.slices(1);
    play.computing.clear();
    play.scheduler.release(quiet, play.now);
    play.ask(busy, 2);
    let had = play.slices(1000);
    assert!((999..=1001).contains(&had[&busy]), "{had:?}");
    let had = play.slices(1000);
    assert_eq!(had[&busy], 2000);
}

#[test]
fn idle_time_is_not_saved_up() {
    let mut play = Play::new(1);
    let (busy, late) = (play.tenant(100, None), play.tenant(100, None));
    play.ask(busy, 1);
    play.slices(100_000);
    play.ask(late, 1);
    let had = play.slices(100);
    assert!((49..=51).contains(&had[&busy]), "{had:?}");
}

#[test]
fn nobody_has_more_than_its_quota_also_when_nobody_else_wants_to_compute() {
    let mut play = Play::new(2);
    let half = play.tenant(100, Some(0.5));
    play.ask(half, 2);
    play.slices(1000);
    let had = play.slices(10_000);
    assert!((4900..=5100).contains(&had[&half]), "{had:?}");
}

#[test]
fn whoever_waited_for_its_quota_does_not_push_others_aside_afterwards() {
    let mut play = Play::new(1);
    let (limited, free) = (play.tenant(100, Some(0.1)), play.tenant(100, None));
    play.ask(limited, 1);
    play.ask(free, 1);
    play.slices(10_000);
    play.scheduler.set(limited, 100, None, play.now);
    let had = play.slices(1000);
    assert!((490..=510).contains(&had[&free]), "{had:?}");
}

#[test]
fn permits_of_nobody_else_go_to_whoever_wants_them() {
    let mut play = Play::new(4);
    let only = play.tenant(1, None);
    play.ask(only, 3);
    let had = play.slices(100);
    assert_eq!(had[&only], 300);
    let other = play.tenant(1, None);
    play.ask(other, 1);
    let had = play.slices(100);
    assert_eq!((had[&only], had[&other]), (300, 100), "the free permit was enough for it");
}

#[test]
fn threads_of_one_tenant_take_turns() {
    let mut scheduler = Scheduler::new(1);
    let tenant = scheduler.add(100, None, Duration::ZERO);
    for thread in ["one", "two", "three"] {
        scheduler.ask(tenant, thread);
    }
    let mut turns = Vec::new();
    let mut now = Duration::ZERO;
    for _ in 0..2 * 3 {
        let granted = scheduler.dispatch(now);
        turns.extend(granted.iter().copied());
        now += SLICE;
        scheduler.charge(tenant, SLICE, now);
        assert!(scheduler.is_to_hand_over(tenant, now));
        scheduler.release(tenant, now);
        scheduler.ask(tenant, granted[0]);
    }
    assert_eq!(turns, ["one", "two", "three", "one", "two", "three"]);
}
