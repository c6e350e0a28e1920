//! The block device under load and at its end: threads, slow storage, resets
//! with requests in flight, drivers that break.

mod rig;

use rig::machine::{Machine, FLUSH, IOERR, NEEDS_RESET, OK, READ, WRITE};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tane_devices::BlockOptions;
use tane_images::{Backend, Buffers, Event, Fault, Ram};

const SIZE: u64 = 1 << 20;

fn ram() -> Arc<Ram> {
    Arc::new(Ram::new(SIZE).unwrap())
}

#[test]
fn what_is_written_is_read_whatever_the_ring_looks_like() {
    let data: Vec<u8> = (0..64 << 10)
        .map(|i| (i * 7) as u8 ^ (i >> 8) as u8)
        .collect();
    for (inline, event_idx, indirect) in [
        (true, true, true),
        (false, true, true),
        (true, false, false),
        (false, false, false),
    ] {
        let options = BlockOptions {
            inline,
            ..Default::default()
        };
        let m = Machine::with(ram(), options, event_idx, indirect);
        let answer = m.write(3, &data);
        assert_eq!((answer.status, answer.written), (OK, 1));
        let answer = m.read(3, 64 << 10);
        assert_eq!((answer.status, answer.written), (OK, (64 << 10) + 1));
        assert_eq!(answer.data, data);
    }
}

#[test]
fn a_flush_is_behind_every_write_that_was_answered() {
    let fault = Arc::new(Fault::logging(ram()));
    let m = Machine::new(fault.clone(), BlockOptions::default());
    for round in 0..20 {
        let puts: Vec<_> = (0..8)
            .map(|i| m.put(0, WRITE, i, &[round; 512], 0))
            .collect();
        m.notify(0);
        for put in puts {
            assert_eq!(m.wait(0, put).status, OK);
        }
        assert_eq!(m.ask(FLUSH, 0, &[], 0).status, OK);
        let log = fault.log();
        assert_eq!(log.len(), 9 * (usize::from(round) + 1));
        assert_eq!(log.last(), Some(&Event::Flush));
    }
}

#[test]
fn many_requests_of_many_threads_on_many_queues_are_all_answered() {
    for inline in [true, false] {
        let options = BlockOptions {
            queues: 4,
            inline,
            ..Default::default()
        };
        let m = Arc::new(Machine::new(ram(), options));
        // Two threads for each queue, each with sectors of its own.
        let threads: Vec<_> = (0..8u64)
            .map(|me| {
                let m = m.clone();
                std::thread::spawn(move || {
                    let lane = me as usize % 4;
                    for round in 0..200u64 {
                        let fill = |i: u64| (me * 31 + round + i) as u8;
                        let sector = |i: u64| me * 200 + (round * 4 + i) % 200;
                        let puts: Vec<_> = (0..4)
                            .map(|i| m.put(lane, WRITE, sector(i), &[fill(i); 512], 0))
                            .collect();
                        m.notify(lane);
                        for put in puts {
                            assert_eq!(m.wait(lane, put).status, OK);
                        }
                        let put = m.put(lane, READ, sector(3), &[], 512);
                        m.notify(lane);
                        assert_eq!(m.wait(lane, put).data, [fill(3); 512]);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let counters = m.block.counters();
        assert_eq!(counters.reads.load(Ordering::Relaxed), 8 * 200);
        assert_eq!(counters.writes.load(Ordering::Relaxed), 8 * 800);
        assert_eq!(counters.errors.load(Ordering::Relaxed), 0);
    }
}

/// A disk that answers reads when it is told to.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    reading: AtomicUsize,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Backend for Gate {
    fn size(&self) -> u64 {
        SIZE
    }
    fn read(&self, to: Buffers, _: u64) -> io::Result<()> {
        self.reading.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
        // SAFETY: guest memory; a fault if it was taken away.
        unsafe { tane_images::scatter(&[5; 4096], to) };
        Ok(())
    }
    fn write(&self, _: Buffers, _: u64) -> io::Result<()> {
        panic!("on purpose")
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

#[test]
fn a_slow_request_delays_no_other_while_threads_are_left() {
    let gate = Arc::new(Gate::default());
    let options = BlockOptions {
        threads: 2,
        ..Default::default()
    };
    let m = Machine::new(gate.clone(), options);
    let slow = m.put(0, READ, 0, &[], 512);
    m.notify(0);
    while gate.reading.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // A notification must not wait either, or this would hang.
    assert_eq!(m.ask(FLUSH, 0, &[], 0).status, OK);
    gate.open();
    assert_eq!(m.wait(0, slow).data, [5; 512]);
}

#[test]
fn a_backend_that_panics_fails_one_request() {
    let gate = Arc::new(Gate::default());
    gate.open();
    let options = BlockOptions {
        threads: 1,
        ..Default::default()
    };
    let m = Machine::new(gate, options);
    for _ in 0..3 {
        assert_eq!(m.write(0, &[0; 512]).status, IOERR);
        assert_eq!(m.read(0, 512).status, OK);
    }
    m.reset();
}

#[test]
fn after_a_reset_guest_memory_is_touched_no_more() {
    for round in 0..20 {
        let gate = Arc::new(Gate::default());
        let options = BlockOptions {
            queues: 2,
            threads: 3,
            ..Default::default()
        };
        let m = Arc::new(Machine::new(gate.clone(), options));
        for i in 0..20 {
            m.put(i % 2, READ, i as u64, &[], 512);
        }
        m.notify(0);
        m.notify(1);
        let opener = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(round % 3));
            gate.open();
        });
        // Another thread notifies all the while.
        let stop = Arc::new(AtomicBool::new(false));
        let ringer = std::thread::spawn({
            let (m, stop) = (m.clone(), stop.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    m.notify(0);
                }
            }
        });
        m.reset();
        m.ram.protect();
        std::thread::sleep(Duration::from_millis(5));
        stop.store(true, Ordering::Relaxed);
        ringer.join().unwrap();
        opener.join().unwrap();
        m.ram.unprotect();
    }
}

#[test]
fn a_device_that_was_reset_answers_nobody() {
    let m = Machine::new(ram(), BlockOptions::default());
    assert_eq!(m.write(0, &[4; 512]).status, OK);
    m.reset();
    let request = m.put(0, READ, 0, &[], 512);
    m.notify(0);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(m.ram.read(request.status, 1), [0xee]);
}

#[test]
fn a_broken_driver_is_told_to_reset_and_its_good_requests_are_answered() {
    let m = Machine::new(ram(), BlockOptions::default());
    let good = m.put(0, READ, 0, &[], 512);
    m.lanes[0].lock().unwrap().ring.offer(9999);
    m.notify(0);
    assert_eq!(m.wait(0, good).status, OK);
    assert_ne!(m.status() & NEEDS_RESET, 0);
    assert!(m.line.raised.load(Ordering::SeqCst) > 0);
    m.reset();
    assert_eq!(m.status(), 0);
}

#[test]
fn interrupts_come_as_the_driver_asked() {
    let m = Machine::with(ram(), BlockOptions::default(), false, true);
    m.lanes[0].lock().unwrap().ring.set_no_interrupt(true);
    assert_eq!(m.write(0, &[4; 512]).status, OK);
    assert_eq!(m.line.raised.load(Ordering::SeqCst), 0);
    m.lanes[0].lock().unwrap().ring.set_no_interrupt(false);
    assert_eq!(m.write(0, &[4; 512]).status, OK);
    assert_eq!(m.line.raised.load(Ordering::SeqCst), 1);
}
