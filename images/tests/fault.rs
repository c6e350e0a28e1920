//! The fault backend logs every change and fails as planned.

mod common;

use common::{pattern, read, write};
use proptest::prelude::*;
use std::io;
use std::sync::Arc;
use tane_images::power::{cut, durable, Survives};
use tane_images::{Backend, Event, Failure, Fault, Operation, Ram};

const SIZE: u64 = 64 << 10;

fn ram() -> Arc<Ram> {
    Arc::new(Ram::new(SIZE).unwrap())
}

#[test]
fn the_log_has_every_change_in_order_and_no_reads() {
    let disk = Fault::logging(ram());
    write(&disk, 512, &[1; 512]).unwrap();
    read(&disk, 0, 4096).unwrap();
    disk.flush().unwrap();
    disk.write_zeroes(0, 1024, false).unwrap();
    disk.discard(4096, 512).unwrap();
    let want = [
        Event::Write {
            offset: 512,
            data: vec![1; 512],
        },
        Event::Flush,
        Event::WriteZeroes {
            offset: 0,
            len: 1024,
        },
        Event::Discard {
            offset: 4096,
            len: 512,
        },
    ];
    assert_eq!(disk.log(), want);
    assert_eq!(durable(&want), 2);
}

#[test]
fn planned_errors_come_and_nothing_happens() {
    let disk = Fault::new(ram(), |operation| match operation {
        Operation::Write {
            offset: 512,
            len: 1024,
        } => Some(Failure::errno(libc::ENOSPC)),
        Operation::Read { offset: 0, .. } => Some(Failure::errno(libc::EIO)),
        Operation::Flush => Some(io::Error::from_raw_os_error(libc::EDQUOT).into()),
        Operation::Discard { .. } | Operation::WriteZeroes { .. } => {
            Some(Failure::errno(libc::EPERM))
        }
        _ => None,
    });
    let errno = |r: io::Result<()>| r.unwrap_err().raw_os_error().unwrap();
    assert_eq!(errno(write(&disk, 512, &[1; 1024])), libc::ENOSPC);
    assert_eq!(errno(read(&disk, 0, 512).map(drop)), libc::EIO);
    assert_eq!(errno(disk.flush()), libc::EDQUOT);
    assert_eq!(errno(disk.discard(0, 512)), libc::EPERM);
    assert_eq!(errno(disk.write_zeroes(0, 512, true)), libc::EPERM);
    assert_eq!(disk.log(), []);
    assert_eq!(read(&disk, 512, 1024).unwrap(), [0; 1024]);
    disk.plan(|_| None);
    write(&disk, 512, &[1; 1024]).unwrap();
    assert_eq!(read(&disk, 512, 1024).unwrap(), [1; 1024]);
}

#[test]
fn a_torn_write_gets_through_in_part_and_fails() {
    let disk = Fault::new(ram(), |_| {
        Some(Failure::Torn {
            bytes: 700,
            error: io::Error::from_raw_os_error(libc::EIO),
        })
    });
    assert!(write(&disk, 0, &[1; 2048]).is_err());
    let log = disk.log();
    assert_eq!(
        log,
        [Event::Write {
            offset: 0,
            data: vec![1; 700]
        }]
    );
}

#[test]
fn what_a_flush_covers_survives_every_power_cut() {
    let disk = Fault::logging(ram());
    write(&disk, 0, &[1; 1024]).unwrap();
    disk.flush().unwrap();
    write(&disk, 0, &[2; 1024]).unwrap();
    let log = disk.log();
    for (survives, want) in [
        (Survives::Nothing, [[1; 512], [1; 512]]),
        (Survives::All, [[2; 512], [2; 512]]),
        (Survives::Torn { bytes: 700 }, [[2; 512], [1; 512]]),
    ] {
        let medium = ram();
        cut(&log, &*medium, |_, _| survives).unwrap();
        assert_eq!(read(&*medium, 0, 1024).unwrap(), want.concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_log_replayed_is_the_disk(
        steps in proptest::collection::vec((0..4u8, 0..SIZE, 1..9000u64, any::<u8>()), 1..40),
    ) {
        let disk = Fault::logging(ram());
        let mut prefixes = Vec::new();
        for (kind, offset, len, seed) in steps {
            let len = len.min(SIZE - offset);
            match kind {
                0 => disk.flush().unwrap(),
                1 => disk.discard(offset, len).unwrap(),
                2 => disk.write_zeroes(offset, len, seed % 2 == 0).unwrap(),
                _ => write(&disk, offset, &pattern(len as usize, seed)).unwrap(),
            }
            prefixes.push(read(&disk, 0, SIZE as usize).unwrap());
        }
        // After every event: the test may cut the power there.
        let copy = ram();
        for (event, want) in disk.log().iter().zip(prefixes) {
            event.replay(&*copy).unwrap();
            prop_assert!(read(&*copy, 0, SIZE as usize).unwrap() == want);
        }
    }
}
