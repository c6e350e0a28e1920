//! Promises of the block device about many requests, queues and threads at a time, and
//! about its interrupts.

mod rig;

use rig::disks::*;
use rig::driver::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tane_devices::BlockOptions;
use tane_images::{Callback, Callbacks};

#[test]
fn requests_of_several_queues_are_all_answered_each_in_its_queue() {
    let options = BlockOptions {
        queues: 4,
        ..BlockOptions::default()
    };
    for inline in [true, false] {
        let options = BlockOptions {
            inline,
            ..options.clone()
        };
        let guest = Guest::with(ram(8 << 20), options, Style::default());
        assert_eq!(guest.registers.config(34, 2), [4, 0]);
        let mut asked = Vec::new();
        for turn in 0..40u64 {
            let queue = turn as usize % 4;
            asked.push(guest.put(queue, OUT, turn, &pattern(512, turn as u8), 0));
            guest.kick(queue);
        }
        for request in &asked {
            guest.wait(request.queue);
        }
        for (turn, request) in asked.iter().enumerate() {
            assert_eq!(guest.answer(request).0, OK);
            let sector = turn as u64;
            assert_eq!(guest.read(sector, 512), (OK, pattern(512, turn as u8)));
        }
    }
}

#[test]
fn many_requests_of_many_threads_are_all_answered_while_another_notifies() {
    const QUEUES: u64 = 8;
    for inline in [true, false] {
        let options = BlockOptions {
            queues: QUEUES as u16,
            inline,
            ..BlockOptions::default()
        };
        let guest = Guest::with(ram(1 << 20), options, Style::default());
        let (guest, left) = (&guest, &AtomicU64::new(QUEUES));
        let drive = move |me: u64| {
            let queue = me as usize;
            for round in 0..200u64 {
                let fill = |i: u64| [(me * 31 + round + i) as u8; 512];
                let sector = |i: u64| me * 200 + (round * 4 + i) % 200;
                let asked: Vec<_> = (0..4)
                    .map(|i| guest.put(queue, OUT, sector(i), &fill(i), 0))
                    .collect();
                guest.kick(queue);
                for _ in &asked {
                    guest.wait(queue);
                }
                assert!(asked.iter().all(|r| guest.answer(r).0 == OK));
                let back = guest.put(queue, IN, sector(3), &[], 512);
                guest.kick(queue);
                guest.wait(queue);
                assert_eq!(guest.answer(&back), (OK, fill(3).to_vec()));
            }
        };
        std::thread::scope(|scope| {
            for me in 0..QUEUES {
                scope.spawn(move || {
                    // Also when it fails.
                    let _done = Done(left);
                    drive(me);
                });
            }
            while left.load(Relaxed) > 0 {
                (0..QUEUES as u32).for_each(|queue| guest.transport.notify(queue));
            }
        });
        let counters = guest.block.counters();
        assert_eq!(counters.reads.load(Relaxed), QUEUES * 200);
        assert_eq!(counters.writes.load(Relaxed), QUEUES * 800);
        assert_eq!(counters.errors.load(Relaxed), 0);
    }
}

struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn interrupts_come_as_the_driver_asked() {
    let style = Style {
        event_idx: false,
        ..Style::default()
    };
    let guest = Guest::with(ram(1 << 20), BlockOptions::default(), style);
    for (silent, interrupts) in [(true, 0), (false, 1)] {
        guest.ring(0).set_no_interrupt(silent);
        // Memory: answered before the notification returns.
        let request = guest.put(0, OUT, 0, &[4; 512], 0);
        guest.kick(0);
        assert!(guest.ring(0).take().is_some());
        assert_eq!(guest.answer(&request).0, OK);
        assert_eq!(guest.line.counts().0, interrupts);
    }
}

#[test]
fn many_requests_at_a_time_are_answered_once_each() {
    every_style(|options, style| {
        let guest = Guest::with(ram(8 << 20), options, style);
        for _ in 0..20 {
            let mut asked = Vec::new();
            while guest.ring(0).free() >= 4 {
                let sector = asked.len() as u64 * 4;
                asked.push(guest.put(0, OUT, sector, &pattern(2048, sector as u8), 0));
            }
            guest.kick(0);
            let mut heads: Vec<_> = asked.iter().map(|_| guest.wait(0).0).collect();
            heads.sort_unstable();
            let mut want: Vec<_> = asked.iter().map(|r| r.head).collect();
            want.sort_unstable();
            assert_eq!(heads, want);
            assert!(guest.ring(0).take().is_none());
        }
    });
}

#[test]
fn a_disk_that_keeps_order_has_answered_when_the_notification_returns() {
    let options = BlockOptions {
        in_order: true,
        ..BlockOptions::default()
    };
    // Functions may wait, so that none of it would be done at once otherwise.
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let disk = Callback::new(Callbacks {
        size: 8 << 20,
        read: Box::new(|_, _| Ok(())),
        write: Some(Box::new(move |_, at| {
            seen.lock().unwrap().push(at / 512);
            Ok(())
        })),
        flush: None,
        discard: None,
    });
    let guest = Guest::with(Arc::new(disk), options, Style::default());
    let sectors = [40, 8, 24, 0, 16];
    let asked = sectors.map(|sector| guest.put(0, OUT, sector, &[7; 512], 0));
    let flush = guest.put(0, FLUSH, 0, &[], 0);
    guest.kick(0);
    for request in asked.iter().chain([&flush]) {
        assert_eq!(
            guest.ring(0).take().map(|(head, _)| head),
            Some(request.head)
        );
        assert_eq!(guest.answer(request).0, OK);
    }
    assert_eq!(*order.lock().unwrap(), sectors);
}
