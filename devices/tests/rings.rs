//! The device's side of a queue against a driver of the tests' own. No system
//! calls here, so that Miri runs it all.

mod rig;

use rig::memory::Ram;
use rig::ring::{into, out, Ring, INDIRECT, NEXT};
use std::sync::Arc;
use tane_devices::{Broken, Chain, Queue, QueueLayout};
use tane_host::Physical;

const SIZE: u16 = 8;
const BUFFER: u64 = 96 << 10;

fn pair(event_idx: bool, indirect: bool) -> (Ring, Queue) {
    let ram = Arc::new(Ram::new(128 << 10));
    let ring = Ring::new(ram.clone(), SIZE, event_idx, indirect);
    let queue = Queue::new(ram.guest(), ring.layout).unwrap();
    (ring, queue)
}

fn pop(queue: &mut Queue) -> Option<Chain> {
    let mut chain = Chain::default();
    queue.pop(&mut chain).unwrap().then_some(chain)
}

fn broken(queue: &mut Queue) -> Broken {
    let error = queue.pop(&mut Chain::default()).unwrap_err();
    // It stays so.
    assert_eq!(queue.pop(&mut Chain::default()), Err(error));
    error
}

#[test]
fn a_chain_arrives_with_its_buffers_in_order() {
    for indirect in [false, true] {
        let (mut ring, mut queue) = pair(false, indirect);
        assert!(pop(&mut queue).is_none());
        ring.ram.write(BUFFER, b"hello ");
        ring.ram.write(BUFFER + 100, b"world");
        let pieces = [
            out(BUFFER, 6),
            out(BUFFER + 100, 5),
            into(BUFFER + 200, 3),
            into(BUFFER + 300, 1),
        ];
        let head = ring.add(&pieces);
        let chain = pop(&mut queue).unwrap();
        assert_eq!(chain.head, head);
        let mut text = [0; 11];
        // SAFETY: guest memory of this test.
        unsafe { tane_images::gather(&chain.readable, &mut text) };
        assert_eq!(&text, b"hello world");
        let lengths: Vec<_> = chain.writable.iter().map(|b| b.iov_len).collect();
        assert_eq!(lengths, [3, 1]);
        // SAFETY: as above.
        unsafe { tane_images::scatter(b"abcd", &chain.writable) };
        queue.push(chain.head, 4);
        assert_eq!(ring.take(), Some((head, 4)));
        assert_eq!(ring.take(), None);
        assert_eq!(ring.ram.read(BUFFER + 200, 3), b"abc");
        assert_eq!(ring.ram.read(BUFFER + 300, 1), b"d");
    }
}

#[test]
fn a_queue_is_busy_until_the_driver_has_seen_the_last_answer() {
    let (mut ring, mut queue) = pair(true, false);
    assert!(!queue.is_busy(false));
    let head = ring.add(&[into(BUFFER, 1)]);
    assert!(queue.is_busy(false), "asked");
    assert!(!queue.is_busy(true), "nobody will take it");
    pop(&mut queue).unwrap();
    assert!(queue.is_busy(true), "taken");
    queue.push(head, 1);
    assert!(queue.is_busy(false), "answered");
    assert_eq!(ring.take(), Some((head, 1)));
    assert!(!ring.want_interrupt(1));
    assert!(!queue.is_busy(false));
}

#[test]
fn indices_wrap_around_and_answers_may_change_places() {
    let (mut ring, mut queue) = pair(true, false);
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    for round in 0..rounds {
        let heads: Vec<_> = (0..4)
            .map(|i| ring.add(&[out(BUFFER + i, 1), into(BUFFER + 8, 4)]))
            .collect();
        assert_eq!(ring.free(), 0, "the table is full");
        let chains: Vec<_> = (0..4).map(|_| pop(&mut queue).unwrap()).collect();
        assert!(pop(&mut queue).is_none());
        assert_eq!(queue.in_flight(), 4);
        for chain in chains.iter().rev() {
            queue.push(chain.head, round);
        }
        for head in heads.iter().rev() {
            assert_eq!(ring.take(), Some((*head, round)));
        }
    }
}

#[test]
fn every_used_buffer_interrupts_unless_the_driver_says_no() {
    let (mut ring, mut queue) = pair(false, false);
    for silent in [false, true, false] {
        ring.set_no_interrupt(silent);
        assert!(!queue.wants_interrupt(), "nothing new");
        ring.add(&[into(BUFFER, 1)]);
        let chain = pop(&mut queue).unwrap();
        queue.push(chain.head, 1);
        assert_eq!(queue.wants_interrupt(), !silent);
        assert!(!queue.wants_interrupt(), "said once");
        ring.take().unwrap();
    }
}

#[test]
fn an_interrupt_comes_when_the_used_index_passes_the_event() {
    let (mut ring, mut queue) = pair(true, false);
    let mut one = |ring: &mut Ring| {
        ring.add(&[into(BUFFER, 1)]);
        let chain = pop(&mut queue).unwrap();
        queue.push(chain.head, 1);
        ring.take().unwrap();
        queue.wants_interrupt()
    };
    // Around the wrap of the 16-bit index too.
    let rounds = if cfg!(miri) { 10 } else { 22_000 };
    for round in 0..rounds {
        let used = ring.used_index();
        ring.set_used_event(used.wrapping_add(2));
        let said = [one(&mut ring), one(&mut ring), one(&mut ring)];
        assert_eq!(said, [false, false, true], "round {round}");
    }
}

#[test]
fn a_request_that_comes_while_notifications_are_enabled_is_not_lost() {
    let (mut ring, mut queue) = pair(true, false);
    ring.add(&[into(BUFFER, 1)]);
    pop(&mut queue).unwrap();
    assert!(!queue.enable_notification());
    assert_eq!(ring.available_event(), 1);
    ring.add(&[into(BUFFER, 1)]);
    assert!(queue.enable_notification(), "one came in the meantime");
    pop(&mut queue).unwrap();
    assert!(!queue.enable_notification());
    assert_eq!(ring.available_event(), 2);
}

#[test]
fn a_queue_of_a_wrong_size_or_place_is_refused() {
    let (ring, _) = pair(false, false);
    let good = ring.layout;
    let bad = [
        QueueLayout { size: 0, ..good },
        QueueLayout { size: 7, ..good },
        QueueLayout {
            size: 1 << 15,
            ..good
        },
        QueueLayout {
            desc: Physical(8),
            ..good
        },
        QueueLayout {
            driver: Physical(1),
            ..good
        },
        QueueLayout {
            device: Physical(2),
            ..good
        },
        QueueLayout {
            desc: Physical((128 << 10) - 112),
            ..good
        },
        QueueLayout {
            driver: Physical(u64::MAX - 1),
            ..good
        },
        QueueLayout {
            device: Physical(u64::MAX - 3),
            ..good
        },
    ];
    for layout in bad {
        assert!(Queue::new(ring.ram.guest(), layout).is_err(), "{layout:?}");
    }
}

#[test]
fn loops_end() {
    let (mut ring, mut queue) = pair(false, false);
    ring.describe(ring.layout.desc, 0, out(BUFFER, 1), NEXT, 1);
    ring.describe(ring.layout.desc, 1, out(BUFFER, 1), NEXT, 0);
    ring.offer(0);
    broken(&mut queue);

    let (mut ring, mut queue) = pair(false, true);
    // An indirect table whose entry leads to itself, and one inside another.
    ring.describe(ring.layout.desc, 0, out(BUFFER, 16), INDIRECT, 0);
    ring.describe(BUFFER, 0, out(BUFFER, 1), NEXT, 0);
    ring.offer(0);
    broken(&mut queue);

    let (mut ring, mut queue) = pair(false, true);
    ring.describe(ring.layout.desc, 0, out(BUFFER, 16), INDIRECT, 0);
    ring.describe(BUFFER, 0, out(BUFFER, 16), INDIRECT, 0);
    ring.offer(0);
    broken(&mut queue);
}

#[test]
fn wrong_indices_break_the_queue() {
    let (mut ring, mut queue) = pair(false, false);
    ring.offer(SIZE);
    broken(&mut queue);

    let (mut ring, mut queue) = pair(false, false);
    ring.describe(ring.layout.desc, 0, out(BUFFER, 1), NEXT, SIZE);
    ring.offer(0);
    broken(&mut queue);

    let (mut ring, mut queue) = pair(false, false);
    ring.set_available(SIZE + 1);
    broken(&mut queue);

    let (mut ring, mut queue) = pair(false, false);
    ring.set_available(u16::MAX);
    broken(&mut queue);
}

#[test]
fn buffers_and_tables_outside_memory_break_the_queue() {
    for (pa, len) in [
        (128 << 10, 1),
        ((128 << 10) - 1, 2),
        (u64::MAX, 1),
        (u64::MAX - 3, 8),
        (0, u32::MAX),
        (1 << 40, 0),
    ] {
        let (mut ring, mut queue) = pair(false, false);
        ring.describe(ring.layout.desc, 0, out(pa, len), 0, 0);
        ring.offer(0);
        broken(&mut queue);
    }
    for (pa, len) in [
        (BUFFER, 0),
        (BUFFER, 15),
        (BUFFER, 24),
        (BUFFER, u32::MAX - 15),
        (u64::MAX - 15, 16),
        (128 << 10, 16),
        (BUFFER + 1, 16),
    ] {
        let (mut ring, mut queue) = pair(false, true);
        ring.describe(ring.layout.desc, 0, out(pa, len), INDIRECT, 0);
        ring.offer(0);
        broken(&mut queue);
    }
}

#[test]
fn an_indirect_table_without_the_feature_breaks_the_queue() {
    let (mut ring, mut queue) = pair(false, false);
    ring.describe(ring.layout.desc, 0, out(BUFFER, 16), INDIRECT, 0);
    ring.offer(0);
    broken(&mut queue);
}

#[test]
fn what_the_device_reads_comes_before_what_it_writes() {
    let (mut ring, mut queue) = pair(false, false);
    ring.add(&[out(BUFFER, 4), into(BUFFER, 4), out(BUFFER, 4)]);
    broken(&mut queue);
}

#[test]
fn empty_buffers_are_none() {
    let (mut ring, mut queue) = pair(false, false);
    ring.add(&[out(BUFFER, 0), into(BUFFER, 0)]);
    let chain = pop(&mut queue).unwrap();
    assert_eq!(tane_images::total(&chain.readable), 0);
    assert_eq!(tane_images::total(&chain.writable), 0);
    queue.push(chain.head, 0);
    assert!(ring.take().is_some());
}

#[test]
fn one_chain_offered_for_ever_is_not_remembered_for_ever() {
    let (mut ring, mut queue) = pair(false, false);
    ring.describe(ring.layout.desc, 0, out(BUFFER, 1), 0, 0);
    for _ in 0..SIZE {
        ring.offer(0);
        pop(&mut queue).unwrap();
    }
    ring.offer(0);
    broken(&mut queue);
}

#[test]
fn chains_popped_before_the_break_may_still_be_answered() {
    let (mut ring, mut queue) = pair(false, false);
    let head = ring.add(&[into(BUFFER, 1)]);
    ring.offer(SIZE);
    let chain = pop(&mut queue).unwrap();
    broken(&mut queue);
    queue.push(chain.head, 1);
    assert_eq!(ring.take(), Some((head, 1)));
}

#[test]
fn a_driver_on_another_thread_sees_its_answers() {
    let (mut ring, mut queue) = pair(true, true);
    let rounds = if cfg!(miri) { 20u32 } else { 50_000 };
    let ram = ring.ram.clone();
    let device = std::thread::spawn(move || {
        let mut done = 0;
        while done < rounds {
            match pop(&mut queue) {
                Some(chain) => {
                    // SAFETY: guest memory of this test.
                    unsafe { tane_images::scatter(&[done as u8], &chain.writable) };
                    queue.push(chain.head, 1);
                    done += 1;
                }
                None => std::thread::yield_now(),
            }
        }
    });
    for round in 0..rounds {
        let head = ring.add(&[into(BUFFER, 1)]);
        let (used, _) = loop {
            match ring.take() {
                Some(used) => break used,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!((used, ram.read(BUFFER, 1)[0]), (head, round as u8));
    }
    device.join().unwrap();
}
