//! Threads that take turns: what they do together, not how long it takes.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[test]
fn no_more_threads_compute_at_the_same_time_than_there_are_permits() {
    let share = FairShare::new(2, 100);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..8 {
            let tenant = share.tenant(&format!("tenant-{}", number % 3), Share::default());
            let (now, most) = (&now, &most);
            scope.spawn(move || {
                let turn = CpuShare::of(&tenant).turn();
                for _ in 0..200 {
                    let _computing = turn.begin();
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::hint::black_box((0..1000).sum::<u64>());
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!((1..=2).contains(&most.into_inner()));
}

#[test]
fn a_tenant_that_comes_to_a_core_that_another_never_leaves_gets_its_turns() {
    let share = FairShare::new(1, 100);
    let (busy, quiet) = (share.tenant("busy", Share::default()), share.tenant("quiet", Share::default()));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let turn = CpuShare::of(&busy).turn();
                let _computing = turn.begin();
                while !stop.load(Ordering::Relaxed) {
                    turn.look();
                }
            });
        }
        let turn = CpuShare::of(&quiet).turn();
        while busy.used().cpu.is_zero() {
            thread::yield_now();
        }
        for _ in 0..20 {
            drop(turn.begin());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(busy.used().cpu > Duration::ZERO);
}

#[test]
fn a_tenant_waits_for_a_place_when_it_has_as_many_instances_as_it_may() {
    let share = FairShare::new(1, 3);
    let few = share.tenant("few", Share { instances_max: Some(1), ..Share::default() });
    let many = share.tenant("many", Share::default());
    let first = CpuShare::of(&few).slot();
    let others: Vec<_> = (0..2).map(|_| CpuShare::of(&many).slot()).collect();
    let has_come = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _slot = CpuShare::of(&few).slot();
            has_come.store(true, Ordering::SeqCst);
        });
        assert_eq!((few.used().instances, many.used().instances), (1, 2));
        assert!(!has_come.load(Ordering::SeqCst), "there is no place left, for anybody");
        drop(others);
        drop(first);
    });
    assert!(has_come.into_inner());
    assert_eq!((few.used().instances, many.used().instances), (0, 0));
}

#[test]
fn without_a_share_nothing_is_waited_for() {
    let free = CpuShare::default();
    assert!(free.slot().is_none());
    let turn = free.turn();
    let _first = turn.begin();
    let _second = turn.begin();
    turn.look();
    assert_eq!(turn.waited(), Duration::ZERO);
    assert_eq!(free.outputs_wait(), Duration::ZERO);
}

#[test]
fn outputs_over_the_rate_are_waited_for_and_a_tenant_keeps_its_share_by_its_id() {
    let share = FairShare::new(1, 1);
    let of = |outputs_per_second| share.tenant("t", Share { outputs_per_second, ..Share::default() });
    let one = of(Some(10));
    assert_eq!(one.outputs_wait(), Duration::ZERO);
    one.made_outputs(1000);
    assert!(one.outputs_wait() > Duration::ZERO);
    let same = of(Some(10));
    assert!(same.outputs_wait() > Duration::ZERO, "it is the same tenant");
    of(None);
    assert_eq!(one.outputs_wait(), Duration::ZERO);
}
