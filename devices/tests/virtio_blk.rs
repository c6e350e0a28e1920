//! Promises of the block device, seen through a driver's eyes (virtio 1.2, 5.2).

mod rig;

use rig::disks::*;
use rig::driver::*;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use tane_devices::BlockOptions;
use tane_images::{Access, Callback, Callbacks, Event, Failure, Fault};
use tane_images::{Operation, Overlay, Raw};

#[test]
fn what_was_written_is_read_back_in_every_style() {
    every_style(|options, style| {
        let disk = ram(1 << 20);
        let guest = Guest::with(disk.clone(), options, style);
        for turn in 0..100 {
            let data = pattern(512 * (1 + turn % 5), turn as u8);
            assert_eq!(guest.write(7 * turn as u64, &data), OK, "{style:?}");
            assert_eq!(guest.read(7 * turn as u64, data.len()), (OK, data.clone()));
            assert_eq!(bytes(&*disk, 512 * 7 * turn as u64, data.len()), data);
        }
    });
}

#[test]
fn memory_is_answered_inside_the_notification() {
    let guest = Guest::new(ram(1 << 20));
    guest.write(0, &pattern(4096, 1));
    guest.read(0, 4096);
    let counters = guest.block.counters();
    assert_eq!(counters.at_once.load(Relaxed), 2);
    assert_eq!(counters.handed_over.load(Relaxed), 0);
    let (all, inside) = guest.line.counts();
    assert!(all > 0 && all == inside);
}

#[test]
fn a_notification_moves_a_bounded_number_of_bytes_itself() {
    let guest = Guest::new(ram(8 << 20));
    let requests: Vec<_> = (0..3)
        .map(|i| guest.put(0, IN, 256 * i, &[], 128 << 10))
        .collect();
    guest.kick(0);
    for _ in &requests {
        guest.wait(0);
    }
    for request in &requests {
        assert_eq!(guest.answer(request).0, OK);
    }
    let counters = guest.block.counters();
    assert_eq!(counters.at_once.load(Relaxed), 2);
    assert_eq!(counters.handed_over.load(Relaxed), 1);
}

#[test]
fn a_flush_reaches_the_backend_after_the_writes_before_it() {
    let disk = fault();
    let guest = Guest::new(disk.clone());
    for turn in 0..50 {
        for sector in 0..8 {
            guest.put(0, OUT, sector, &pattern(512, turn), 0);
        }
        guest.kick(0);
        for _ in 0..8 {
            guest.wait(0);
        }
        assert_eq!(guest.flush(), OK);
        let log = disk.log();
        assert_eq!(log.len(), 9 * (usize::from(turn) + 1));
        assert_eq!(log.last(), Some(&Event::Flush));
    }
}

#[test]
fn without_a_write_cache_every_write_is_durable_when_it_is_answered() {
    // The driver switches it off.
    let disk = fault();
    let guest = Guest::new(disk.clone());
    guest.registers.set_config(32, 0);
    assert_eq!(guest.write(0, &pattern(512, 1)), OK);
    assert_eq!(disk.log().last(), Some(&Event::Flush));
    guest.registers.set_config(32, 1);
    assert_eq!(guest.write(0, &pattern(512, 2)), OK);
    assert_ne!(disk.log().last(), Some(&Event::Flush));

    // The driver cannot flush at all.
    let disk = fault();
    let style = Style {
        refuse: F_FLUSH | F_CONFIG_WCE,
        ..Style::default()
    };
    let guest = Guest::with(disk.clone(), BlockOptions::default(), style);
    assert_eq!(guest.write(0, &pattern(512, 1)), OK);
    assert_eq!(disk.log().last(), Some(&Event::Flush));
}

#[test]
fn an_error_of_the_backend_is_an_io_error_of_that_request_only() {
    for errno in [libc::EIO, libc::ENOSPC] {
        let disk = Fault::new(ram(1 << 20), move |operation| match operation {
            Operation::Write { offset: 512, .. } | Operation::Read { offset: 1024, .. } => {
                Some(Failure::errno(errno))
            }
            _ => None,
        });
        let guest = Guest::new(Arc::new(disk));
        assert_eq!(guest.write(1, &pattern(512, 1)), IOERR);
        let text = io::Error::from_raw_os_error(errno).to_string();
        assert_eq!(guest.block.last_error(), Some(text));
        let (status, _, written) = guest.ask(IN, 2, &[], 512);
        assert_eq!((status, written), (IOERR, 1));
        assert_eq!(guest.write(0, &pattern(512, 1)), OK);
        assert_eq!(guest.read(0, 512), (OK, pattern(512, 1)));
        assert_eq!(guest.block.counters().errors.load(Relaxed), 2);
    }
}

#[test]
fn a_failed_flush_is_not_success() {
    let disk = Fault::new(ram(1 << 20), |operation| {
        (operation == Operation::Flush).then(|| Failure::errno(libc::EIO))
    });
    let guest = Guest::new(Arc::new(disk));
    assert_eq!(guest.flush(), IOERR);
    guest.registers.set_config(32, 0);
    assert_eq!(guest.write(0, &pattern(512, 1)), IOERR);
}

#[test]
fn a_write_of_which_only_a_part_got_through_is_not_success() {
    let disk = Fault::new(ram(1 << 20), |operation| match operation {
        Operation::Write { .. } => Some(Failure::Torn {
            bytes: 512,
            error: io::Error::from_raw_os_error(libc::EIO),
        }),
        _ => None,
    });
    let guest = Guest::new(Arc::new(disk));
    assert_eq!(guest.write(0, &pattern(1024, 1)), IOERR);
    assert_eq!(guest.read(0, 512).1, pattern(512, 1));
    assert_eq!(guest.read(1, 512).1, vec![0; 512]);
}

#[test]
fn a_panic_of_the_backend_is_an_io_error_of_that_request_only() {
    let callbacks = Callbacks {
        size: 1 << 20,
        read: Box::new(|_, offset| {
            assert_ne!(offset, 0, "on purpose");
            Ok(())
        }),
        write: None,
        flush: None,
        discard: None,
    };
    // One thread, which must survive.
    let options = BlockOptions {
        threads: 1,
        ..BlockOptions::default()
    };
    let disk = Arc::new(Callback::new(callbacks));
    let guest = Guest::with(disk, options, Style::default());
    for _ in 0..10 {
        assert_eq!(guest.read(0, 512).0, IOERR);
        assert_eq!(guest.read(1, 512).0, OK);
    }
}

#[test]
fn requests_beyond_the_disk_or_of_odd_lengths_fail() {
    let guest = Guest::new(fault());
    let sectors = 2048;
    assert_eq!(guest.read(sectors - 1, 512).0, OK);
    for (sector, len) in [
        (sectors, 512),
        (sectors - 1, 1024),
        (u64::MAX, 512),
        (u64::MAX / 512, 512),
        (u64::MAX / 512 + 1, 512),
        (0, 511),
        (0, 513),
    ] {
        assert_eq!(guest.read(sector, len).0, IOERR, "{sector} {len}");
        assert_eq!(guest.write(sector, &vec![1; len]), IOERR, "{sector} {len}");
    }
}

#[test]
fn a_read_only_disk_says_so_and_refuses_changes() {
    let disk = fault();
    let options = BlockOptions {
        read_only: true,
        ..BlockOptions::default()
    };
    let guest = Guest::with(disk.clone(), options, Style::default());
    // SAFETY: ours.
    let features = unsafe { (*guest.registers.pointer()).device_features };
    assert_ne!(features & 1 << 5, 0);
    assert_eq!(guest.write(0, &[1; 512]), IOERR);
    assert_ne!(guest.ranges(DISCARD, &[(0, 1, 0)]), OK);
    assert_ne!(guest.ranges(WRITE_ZEROES, &[(0, 1, 0)]), OK);
    assert_eq!(guest.read(0, 512).0, OK);
    assert_eq!(disk.log(), []);
}

#[test]
fn the_serial_number_is_answered() {
    for (serial, want) in [
        ("disk-1", "disk-1"),
        ("a serial of more than 20 bytes", "a serial of more tha"),
    ] {
        let options = BlockOptions {
            serial: serial.into(),
            ..BlockOptions::default()
        };
        let guest = Guest::with(ram(1 << 20), options, Style::default());
        let (status, id, written) = guest.ask(GET_ID, 0, &[], 20);
        assert_eq!((status, written), (OK, 21));
        let end = id.iter().position(|b| *b == 0).unwrap_or(20);
        assert_eq!(&id[..end], want.as_bytes());
        assert!(id[end..].iter().all(|b| *b == 0));
    }
}

#[test]
fn an_unknown_request_is_unsupported() {
    let guest = Guest::new(ram(1 << 20));
    for kind in [2, 3, 5, 10, 12, 14, 0x8000_0000, u32::MAX] {
        assert_eq!(guest.ask(kind, 0, &[], 512).0, UNSUPP);
    }
}

#[test]
fn discard_and_write_zeroes_do_all_their_ranges() {
    let disk = fault();
    let guest = Guest::new(disk.clone());
    assert_eq!(guest.write(0, &[7; 32 * 512]), OK);
    assert_eq!(guest.ranges(WRITE_ZEROES, &[(1, 2, 0), (8, 4, 1)]), OK);
    let mut want = vec![7; 32 * 512];
    want[512..3 * 512].fill(0);
    want[8 * 512..12 * 512].fill(0);
    assert_eq!(guest.read(0, 32 * 512), (OK, want));
    assert_eq!(guest.ranges(DISCARD, &[(16, 1, 0), (20, 2, 0)]), OK);
    let log = disk.log();
    let discarded = |sector: u64, count: u64| Event::Discard {
        offset: 512 * sector,
        len: 512 * count,
    };
    assert_eq!(log[log.len() - 2..], [discarded(16, 1), discarded(20, 2)]);
}

#[test]
fn a_wrong_range_changes_nothing_not_even_by_the_right_ones_before_it() {
    let disk = fault();
    let guest = Guest::new(disk.clone());
    for kind in [DISCARD, WRITE_ZEROES] {
        assert_eq!(guest.ranges(kind, &[(0, 1, 0), (2048, 1, 0)]), IOERR);
        assert_eq!(guest.ranges(kind, &[(0, 1, 0), (u64::MAX, 1, 0)]), IOERR);
        assert_eq!(guest.ranges(kind, &[(0, 1, 0), (0, u32::MAX, 0)]), IOERR);
        assert_eq!(guest.ranges(kind, &[(0, 1, 0), (0, 1, 2)]), UNSUPP);
        assert_eq!(guest.ask(kind, 0, &[0; 15], 0).0, IOERR);
        assert_eq!(guest.ask(kind, 0, &[], 0).0, IOERR);
        assert_eq!(guest.ask(kind, 0, &[0; 16 * 257], 0).0, IOERR);
    }
    // 5.2.6.2: it is implied there.
    assert_eq!(guest.ranges(DISCARD, &[(0, 1, 1)]), UNSUPP);
    assert_eq!(disk.log(), []);
}

#[test]
fn the_last_half_sector_of_an_image_ends_in_zeros_and_is_not_written() {
    let path = std::env::temp_dir().join(format!("tane-half-{}", std::process::id()));
    std::fs::write(&path, pattern(1024 + 100, 3)).unwrap();
    let access = Access {
        write: true,
        direct: false,
    };
    for inline in [true, false] {
        let raw = Raw::open(&path, access).unwrap();
        let options = BlockOptions {
            inline,
            ..BlockOptions::default()
        };
        let guest = Guest::with(Arc::new(raw), options, Style::default());
        assert_eq!(guest.registers.config(0, 8), 3u64.to_le_bytes());
        let mut want = pattern(1024 + 100, 3);
        want.resize(3 * 512, 0);
        assert_eq!(guest.read(0, 3 * 512), (OK, want));
        assert_eq!(guest.write(2, &[9; 512]), IOERR);
        assert_eq!(guest.write(1, &pattern(1024 + 100, 3)[512..1024]), OK);
        assert_eq!(guest.ranges(DISCARD, &[(3, 0, 0)]), OK);
    }
    assert_eq!(std::fs::read(&path).unwrap(), pattern(1024 + 100, 3));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_disk_of_8_tib_works_to_its_last_sector() {
    let disk = ram(8 << 40);
    let guest = Guest::new(disk);
    let last = (8u64 << 40) / 512 - 1;
    assert_eq!(guest.registers.config(0, 8), (last + 1).to_le_bytes());
    for sector in [last, (2 << 40) / 512, (4 << 40) / 512 - 1] {
        let data = pattern(512, sector as u8);
        assert_eq!(guest.write(sector, &data), OK);
        assert_eq!(guest.read(sector, 512), (OK, data));
    }
    assert_eq!(guest.read(last + 1, 512).0, IOERR);
}

#[test]
fn a_size_that_changes_is_told_and_used() {
    let path = std::env::temp_dir().join(format!("tane-grow-{}", std::process::id()));
    std::fs::write(&path, [0; 4096]).unwrap();
    let access = Access {
        write: true,
        direct: false,
    };
    let raw = Arc::new(Raw::open(&path, access).unwrap());
    let guest = Guest::new(raw.clone());
    assert_eq!(guest.write(8, &[1; 512]), IOERR);
    let before = guest.registers.generation();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(8192)
        .unwrap();
    raw.measure().unwrap();
    let capacity = guest.block.capacity();
    guest.transport.slot().change_config(0, &capacity);
    assert_ne!(guest.registers.generation(), before);
    assert_eq!(guest.registers.take_isr() & 2, 2);
    assert_eq!(guest.registers.config(0, 8), 16u64.to_le_bytes());
    assert_eq!(guest.write(8, &[1; 512]), OK);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_overlay_is_written_and_the_disk_below_is_not() {
    let below = fault();
    let guest = Guest::new(Arc::new(Overlay::new(below.clone())));
    assert_eq!(guest.write(3, &pattern(1024, 1)), OK);
    assert_eq!(guest.flush(), OK);
    assert_eq!(guest.ranges(WRITE_ZEROES, &[(0, 2, 0)]), OK);
    assert_eq!(guest.read(3, 1024), (OK, pattern(1024, 1)));
    assert_eq!(below.log(), []);
}

#[test]
fn reads_and_writes_at_random_agree_with_a_model() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let operation = (0..4u8, 0u64..64, 1u32..16, any::<u8>());
    let config = Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    };
    let test = proptest::collection::vec(operation, 1..40);
    let result = TestRunner::new(config).run(&test, |operations| {
        let model = Mutex::new(vec![0u8; 80 * 512]);
        let guest = Guest::new(Arc::new(Overlay::new(ram(80 * 512))));
        for (kind, sector, count, seed) in operations {
            let mut model = model.lock().unwrap();
            let range = sector as usize * 512..(sector as usize + count as usize) * 512;
            let len = range.len();
            match kind {
                0 => {
                    let data = pattern(len, seed);
                    prop_assert_eq!(guest.write(sector, &data), OK);
                    model[range].copy_from_slice(&data);
                }
                1 => {
                    prop_assert_eq!(guest.ranges(WRITE_ZEROES, &[(sector, count, 1)]), OK);
                    model[range].fill(0);
                }
                2 => prop_assert_eq!(guest.flush(), OK),
                _ => prop_assert_eq!(guest.read(sector, len), (OK, model[range].to_vec())),
            }
        }
        Ok(())
    });
    result.unwrap();
}
