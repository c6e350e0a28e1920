//! What RCU is told of a tick: one within a call is none in user mode.

mod common;

use common::{assert_healthy, kernel, tmp};
use tane_lab::Trace;

#[test]
fn a_tick_within_a_call_is_none_in_user_mode() {
    let Some(kernel) = kernel() else { return };
    let lab = kernel.trace().unwrap();
    let tmp = tmp(&kernel);
    let file = tmp.create("file").unwrap();
    let data = vec![1; 32 << 20];
    let ticks = lab.probe("rcu_sched_clock_irq", "user=$arg1:u32").unwrap();
    ticks.count_by("user").unwrap();
    // A call of some ticks' length, as often as it takes.
    let (start, mut seen) = (std::time::Instant::now(), 0);
    while seen < 20 {
        assert!(
            start.elapsed() < tane_test_support::PATIENCE,
            "{seen} ticks"
        );
        file.write_all_at(&data, 0).unwrap();
        seen = ticks.hits().unwrap();
    }
    let counts = ticks.counts().unwrap();
    // Between two calls there may be one in user mode.
    let within = counts.iter().find(|(user, _)| user == "0");
    assert!(
        within.is_some_and(|(_, count)| count * 2 > seen),
        "{counts:?}"
    );
    assert_healthy(&kernel);
}
