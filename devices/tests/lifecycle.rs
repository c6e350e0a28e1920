//! A device comes, is reset and goes, whatever is under way: requests are
//! answered, and afterwards nothing touches guest memory.

mod rig;

use rig::driver::*;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tane_devices::BlockOptions;
use tane_images::{Backend, Buffers, Ram};
use tane_test_support::PATIENCE;

/// A disk that reads and writes when it is let.
struct Gate {
    ram: Ram,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    waiting: usize,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ram: Ram::new(1 << 20).unwrap(),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |s| !s.open).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.changed.notify_all();
    }

    /// Until so many requests have arrived.
    fn await_requests(&self, count: usize) {
        let state = self.state.lock().unwrap();
        let wait = self
            .changed
            .wait_timeout_while(state, PATIENCE, |s| s.waiting < count);
        assert!(!wait.unwrap().1.timed_out(), "requests do not arrive");
    }
}

impl Backend for Gate {
    fn size(&self) -> u64 {
        self.ram.size()
    }
    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.pass();
        self.ram.read(to, offset)
    }
    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.pass();
        self.ram.write(from, offset)
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Open the gate in a moment, from another thread.
fn open_soon(gate: &Arc<Gate>) {
    let gate = gate.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        gate.open();
    });
}

#[test]
fn a_notification_does_not_wait_for_storage() {
    let gate = Gate::new();
    let guest = Guest::new(gate.clone());
    let asked: Vec<_> = (0..10).map(|s| guest.put(0, IN, s, &[], 512)).collect();
    guest.kick(0);
    let more = guest.put(0, FLUSH, 0, &[], 0);
    guest.kick(0);
    // Here already, or it would wait for the gate for ever.
    gate.await_requests(4);
    assert!(guest.ring(0).take().is_none());
    gate.open();
    for _ in 0..11 {
        guest.wait(0);
    }
    for request in asked.iter().chain([&more]) {
        assert_eq!(guest.answer(request).0, OK);
    }
}

#[test]
fn a_reset_answers_what_is_under_way_and_nothing_afterwards() {
    let gate = Gate::new();
    let guest = Guest::new(gate.clone());
    let asked: Vec<_> = (0..12).map(|s| guest.put(0, IN, s, &[], 512)).collect();
    guest.kick(0);
    gate.await_requests(4);
    open_soon(&gate);
    guest.reset();
    for request in &asked {
        assert_eq!(guest.answer(request).0, OK);
    }

    let late = guest.put(0, IN, 0, &[], 512);
    let before = guest.ram.read(0, guest.ram.len() as usize);
    let interrupts = guest.line.counts();
    guest.transport.notify(0);
    std::thread::sleep(Duration::from_millis(50));
    assert!(before == guest.ram.read(0, guest.ram.len() as usize));
    assert_eq!(guest.answer(&late).0, UNANSWERED);
    assert_eq!(guest.line.counts(), interrupts);
}

#[test]
fn after_a_reset_guest_memory_is_touched_no_more() {
    for round in 0..20 {
        let gate = Gate::new();
        let options = BlockOptions {
            queues: 2,
            threads: 3,
            ..BlockOptions::default()
        };
        let guest = Guest::with(gate.clone(), options, Style::default());
        for i in 0..20 {
            guest.put(i % 2, IN, i as u64, &[], 512);
        }
        guest.kick(0);
        guest.kick(1);
        let (guest, stop) = (&guest, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            // The reset waits for it, early or late.
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(round % 3));
                gate.open();
            });
            // Another thread notifies all the while.
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    guest.transport.notify(0);
                }
            });
            guest.reset();
            guest.ram.protect();
            std::thread::sleep(Duration::from_millis(5));
            stop.store(true, Relaxed);
        });
        guest.ram.unprotect();
    }
}

#[test]
fn a_slow_request_delays_no_other_while_threads_are_left() {
    let gate = Gate::new();
    let options = BlockOptions {
        threads: 2,
        ..BlockOptions::default()
    };
    let guest = Guest::with(gate.clone(), options, Style::default());
    let slow = guest.put(0, IN, 0, &[], 512);
    guest.kick(0);
    gate.await_requests(1);
    assert_eq!(guest.flush(), OK);
    gate.open();
    guest.wait(0);
    assert_eq!(guest.answer(&slow).0, OK);
}

#[test]
fn a_device_that_is_removed_answers_what_is_under_way() {
    let gate = Gate::new();
    let guest = Guest::new(gate.clone());
    let asked: Vec<_> = (0..6).map(|s| guest.put(0, OUT, s, &[1; 512], 0)).collect();
    guest.kick(0);
    gate.await_requests(4);
    open_soon(&gate);
    guest.transport.stop();
    for request in &asked {
        assert_eq!(guest.answer(request).0, OK);
    }
}

#[test]
fn a_device_works_again_after_a_reset_and_after_a_stop() {
    let mut guest = Guest::new(Arc::new(Ram::new(1 << 20).unwrap()));
    for turn in 0..20 {
        assert_eq!(guest.write(turn, &[turn as u8; 512]), OK);
        guest.reset();
        if turn % 5 == 0 {
            guest.transport.stop();
        }
        guest.start();
        assert_eq!(guest.read(turn, 512), (OK, vec![turn as u8; 512]));
    }
}

#[test]
fn a_driver_that_breaks_the_rules_is_told_to_reset_and_can() {
    let gate = Gate::new();
    let mut guest = Guest::new(gate.clone());
    let good = guest.put(0, IN, 0, &[], 512);
    guest.kick(0);
    gate.await_requests(1);
    guest.registers.take_isr();
    guest.ring(0).offer(60_000);
    guest.transport.notify(0);
    assert_ne!(guest.registers.status() & NEEDS_RESET, 0);
    assert_eq!(guest.registers.take_isr() & 2, 2);
    assert!(guest.block.last_error().is_some());

    // What was asked before is still answered.
    gate.open();
    guest.wait(0);
    assert_eq!(guest.answer(&good).0, OK);

    guest.transport.notify(0);
    guest.reset();
    guest.start();
    assert_eq!(guest.registers.status() & NEEDS_RESET, 0);
    assert_eq!(guest.read(0, 512).0, OK);
}

#[test]
fn a_queue_in_a_wrong_place_is_told_and_the_others_work() {
    let options = BlockOptions {
        queues: 2,
        ..BlockOptions::default()
    };
    let disk = Arc::new(Ram::new(1 << 20).unwrap());
    let guest = Guest::with(disk, options, Style::default());
    for wrong in [1, u64::MAX - 15, guest.ram.len()] {
        guest.reset();
        // SAFETY: ours; the device looks at DRIVER_OK.
        unsafe {
            (*guest.registers.pointer()).queues[1]
                .desc
                .store(wrong, Relaxed)
        };
        *guest.ring(0) = rig::ring::Ring::new(guest.ram.clone(), 64, true, true);
        let layout = guest.ring(0).layout;
        // SAFETY: as above.
        unsafe {
            let queue = &(*guest.registers.pointer()).queues[0];
            queue.desc.store(layout.desc.0, Relaxed);
            queue.driver.store(layout.driver.0, Relaxed);
            queue.device.store(layout.device.0, Relaxed);
        }
        guest.set_status(15);
        assert_ne!(guest.registers.status() & NEEDS_RESET, 0);
        assert_eq!(guest.read(0, 512).0, OK);
        guest.transport.notify(1);
    }
}

#[test]
fn notifications_of_queues_that_are_not_there_do_nothing() {
    let guest = Guest::new(Arc::new(Ram::new(1 << 20).unwrap()));
    for queue in [1, 7, 8, 0xfffd, u32::MAX] {
        guest.transport.notify(queue);
    }
    assert_eq!(guest.line.counts(), (0, 0));
}

#[test]
fn resets_from_one_thread_and_requests_from_another_come_to_an_end() {
    let disk = Arc::new(Ram::new(1 << 20).unwrap());
    for inline in [false, true] {
        let options = BlockOptions {
            inline,
            ..BlockOptions::default()
        };
        let mut guest = Guest::with(disk.clone(), options, Style::default());
        for round in 0..200 {
            let room = guest.ring(0).free() / 4;
            for sector in 0..room as u64 {
                guest.put(0, [IN, OUT][round % 2], sector, &[3; 512], 0);
            }
            let transport = &guest.transport;
            std::thread::scope(|scope| {
                scope.spawn(|| transport.notify(0));
                scope.spawn(|| transport.notify(0));
                guest.registers.set_status(0);
                transport.status();
            });
            guest.ram.forget();
            guest.start();
        }
    }
}

#[test]
fn a_request_without_room_for_an_answer_is_given_back() {
    let guest = Guest::new(Arc::new(Ram::new(1 << 20).unwrap()));
    let pa = guest.ram.allocate(16, 16);
    let part = |len, writable| rig::ring::Part { pa, len, writable };
    for parts in [&[part(16, false)][..], &[part(0, true)], &[part(0, false)]] {
        let head = guest.ring(0).add(parts);
        guest.kick(0);
        assert_eq!(guest.wait(0), (head, 0));
    }
    // A header that is too short has room for one.
    let status = guest.ram.allocate(1, 1);
    let answer = rig::ring::Part {
        pa: status,
        len: 1,
        writable: true,
    };
    guest.ring(0).add(&[part(15, false), answer]);
    guest.kick(0);
    guest.wait(0);
    assert_eq!(guest.ram.read(status, 1), [UNSUPP]);
}
