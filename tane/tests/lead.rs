//! Promises of time that one thread leads: it passes when it is told to, and what is due
//! until then is done.

mod inside;

use inside::{builder, call, into, ok};
use std::time::Duration;
use tane::Kernel;

const SECOND: Duration = Duration::from_secs(1);
/// Of the clocks of led kernels.
const NOW: u64 = 946_684_800;

fn boot(seed: u64) -> Option<Kernel> {
    let builder = builder("tiny")?.memory(64 << 20).deterministic(NOW, seed);
    let kernel = builder.boot().unwrap_or_else(|e| panic!("{e}"));
    kernel.lead_time(true).expect("a kernel that is led");
    Some(kernel)
}

/// A timer that is due after so long, and whose reads do not wait.
fn timer(kernel: &Kernel, after: Duration) -> u64 {
    let flags = (libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) as u64;
    let fd = ok(
        kernel,
        libc::SYS_timerfd_create,
        &[libc::CLOCK_MONOTONIC as u64, flags],
    );
    let mut when = [0, 0, after.as_secs(), after.subsec_nanos().into()];
    ok(
        kernel,
        libc::SYS_timerfd_settime,
        &[fd, 0, into(&mut when), 0],
    );
    fd
}

/// How often it was due since somebody asked.
fn due(kernel: &Kernel, fd: u64) -> u64 {
    let mut times = 0u64;
    match call(kernel, libc::SYS_read, &[fd, into(&mut times), 8]) {
        Ok(_) => times,
        Err(libc::EAGAIN) => 0,
        Err(errno) => panic!("{}", std::io::Error::from_raw_os_error(errno)),
    }
}

#[test]
fn time_passes_when_it_is_told_to_and_not_by_itself() {
    let Some(kernel) = boot(1) else { return };
    let timer = timer(&kernel, SECOND);
    let before = kernel.time().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(kernel.time().unwrap(), before);
    assert_eq!(due(&kernel, timer), 0);

    kernel
        .pass_time_to(before + SECOND - Duration::from_nanos(1))
        .unwrap();
    assert_eq!(due(&kernel, timer), 0);
    kernel.pass_time_to(before + SECOND).unwrap();
    assert_eq!(due(&kernel, timer), 1);
    assert_eq!(kernel.time().unwrap(), before + SECOND);

    kernel.pass_time_to(before).unwrap();
    assert_eq!(kernel.time().unwrap(), before + SECOND, "time went back");
}

#[test]
fn the_next_timer_is_known_to_the_nanosecond() {
    let Some(kernel) = boot(1) else { return };
    // What its start has left behind.
    kernel
        .pass_time_to(kernel.time().unwrap() + 60 * SECOND)
        .unwrap();
    let after = Duration::from_nanos(1_234_567);
    let timer = timer(&kernel, after);
    let set = kernel.time().unwrap();
    loop {
        let next = kernel.next_timer().unwrap().expect("a timer");
        assert!(
            next <= set + after,
            "{next:?}: the timer of {after:?} was passed over"
        );
        kernel.pass_time_to(next).unwrap();
        if due(&kernel, timer) == 1 {
            assert_eq!(kernel.time().unwrap(), set + after);
            return;
        }
    }
}

#[test]
fn one_thread_leads_several_kernels_to_the_same_end_each_time() {
    let run = || -> Option<Vec<(Duration, usize)>> {
        let kernels = [boot(1)?, boot(2)?, boot(3)?];
        let timers = [3, 1, 2].map(|n| Duration::from_millis(n * 7));
        let timers: Vec<_> = (0..3).map(|i| timer(&kernels[i], timers[i])).collect();
        let mut order = Vec::new();
        for _ in 0..10_000 {
            let next = (0..3)
                .filter_map(|i| Some((kernels[i].next_timer().unwrap()?, i)))
                .min();
            let Some((time, which)) = next else { break };
            kernels[which].pass_time_to(time).unwrap();
            if due(&kernels[which], timers[which]) == 1 {
                order.push((time, which));
            }
            if order.len() == 3 {
                return Some(order);
            }
        }
        panic!("timers that are never due: {order:?}")
    };
    let (Some(first), Some(second)) = (run(), run()) else {
        return;
    };
    assert_eq!(
        first.iter().map(|(_, which)| *which).collect::<Vec<_>>(),
        [1, 2, 0]
    );
    assert_eq!(first, second);
}

#[test]
fn time_that_is_not_led_is_not_told() {
    let Some(plain) = builder("tiny") else { return };
    let plain = plain.boot().unwrap();
    let errno = |e: tane::Error| e.errno();
    assert_eq!(plain.lead_time(true).map_err(errno), Err(libc::EINVAL));
    assert_eq!(plain.time().map_err(errno), Err(libc::EINVAL));
    assert_eq!(plain.next_timer().map_err(errno), Err(libc::EINVAL));
    let Some(led) = boot(1) else { return };
    led.lead_time(false).unwrap();
    assert_eq!(led.pass_time_to(SECOND).map_err(errno), Err(libc::EINVAL));
    // It jumps again when a call waits.
    let mut hour = [3600u64, 0];
    ok(&led, libc::SYS_nanosleep, &[into(&mut hour), 0]);
    assert!(led.time().unwrap() >= 3600 * SECOND);
}

#[test]
fn a_call_that_waits_goes_on_when_another_thread_lets_time_pass() {
    let Some(kernel) = boot(1) else { return };
    let began = kernel.time().unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| ok(&kernel, libc::SYS_nanosleep, &[into(&mut [5u64, 0]), 0]));
        while !sleeper.is_finished() {
            let next = kernel.time().unwrap() + Duration::from_millis(100);
            kernel.pass_time_to(next).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(kernel.time().unwrap() >= began + 5 * SECOND);
}

#[test]
fn pages_of_a_mapping_come_while_time_is_led() {
    let Some(kernel) = boot(1) else { return };
    let tmp = kernel.tree("/").unwrap();
    let content = vec![7u8; 64 << 10];
    tmp.write("file", &content).unwrap();
    let map = tmp
        .open("file")
        .unwrap()
        .map(&tane::MapOptions::new())
        .unwrap();
    for at in (0..map.len()).step_by(4096) {
        // SAFETY: inside the mapping. The fault is a call that this thread does not make itself.
        assert_eq!(unsafe { map.as_ptr().add(at).read_volatile() }, 7);
        kernel
            .pass_time_to(kernel.time().unwrap() + Duration::from_millis(1))
            .unwrap();
    }
}

#[test]
fn time_later_than_linux_can_count_is_refused() {
    let Some(led) = boot(1) else { return };
    let errno = |e: tane::Error| e.errno();
    let passed = led.pass_time_to(Duration::MAX).map_err(errno);
    assert_eq!(passed, Err(libc::EINVAL));
    led.pass_time_to(SECOND).expect("time that there is");
    let Some(late) = builder("tiny") else { return };
    let refused = late.deterministic(u64::MAX, 1).boot().map(|_| ());
    let told = refused.expect_err("a time that there is not").to_string();
    assert!(told.contains("begins before 2116"), "{told}");
}
