//! Which bytes of a disk lie unchanged in a file of the host.

mod common;

use common::{open_direct, pattern, write, Temporary, READ, WRITE};
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tane_images::{Backend, Fault, HostRange, Overlay, Ram, Raw};

const SIZE: usize = 200_000;
const CHUNK: u64 = 16 << 10;

fn bytes(range: &HostRange) -> Vec<u8> {
    let mut bytes = vec![0xee; range.len as usize];
    range.file.read_exact_at(&mut bytes, range.offset).unwrap();
    bytes
}

fn over(bytes: &[u8]) -> (Temporary, Overlay) {
    let file = Temporary::new(bytes);
    let below = Arc::new(Raw::open(&file.0, READ).unwrap());
    (file, Overlay::new(below))
}

#[test]
fn a_file_open_for_reading_says_where_its_bytes_are() {
    let model = pattern(SIZE, 1);
    let file = Temporary::new(&model);
    let disk = Raw::open(&file.0, READ).unwrap();
    let range = disk.host_range(777, 100_000).unwrap();
    assert!(bytes(&range) == model[777..100_777]);
}

#[test]
fn a_file_that_may_be_written_does_not() {
    let file = Temporary::new(&pattern(SIZE, 1));
    assert!(Raw::open(&file.0, WRITE)
        .unwrap()
        .host_range(0, 512)
        .is_none());
}

#[test]
fn nor_one_that_goes_past_the_page_cache() {
    let file = Temporary::new(&pattern(SIZE, 1));
    let Some(disk) = open_direct(&file.0) else {
        return;
    };
    assert!(disk.host_range(0, 512).is_none());
}

#[test]
fn nor_memory_nor_a_disk_that_is_to_fail() {
    let ram = Arc::new(Ram::new(1 << 20).unwrap());
    assert!(ram.host_range(0, 512).is_none());
    assert!(Overlay::new(ram).host_range(0, 512).is_none());
    let file = Temporary::new(&pattern(SIZE, 1));
    let raw = Arc::new(Raw::open(&file.0, READ).unwrap());
    assert!(Fault::logging(raw).host_range(0, 512).is_none());
}

#[test]
fn nothing_lies_behind_the_end() {
    let (_file, disk) = over(&[1; 1000]);
    assert!(disk.host_range(900, 100).is_some());
    for (offset, len) in [
        (900, 101),
        (1000, 1),
        (u64::MAX, 1),
        (1, u64::MAX),
        (1 << 40, 512),
    ] {
        assert!(disk.host_range(offset, len).is_none(), "{offset} {len}");
    }
}

#[test]
fn what_lies_in_an_overlay_does_not_lie_in_the_file() {
    let (_file, disk) = over(&pattern(SIZE, 1));
    write(&disk, 3 * CHUNK, &[1; 512]).unwrap();
    disk.write_zeroes(5 * CHUNK, CHUNK, true).unwrap();
    for chunk in [3, 5] {
        assert!(disk.host_range(chunk * CHUNK + 100, 1).is_none());
        assert!(disk.host_range(0, chunk * CHUNK + 1).is_none());
    }
    assert!(disk.host_range(0, 3 * CHUNK).is_some());
    assert!(disk.host_range(4 * CHUNK, CHUNK).is_some());
    assert!(disk.host_range(6 * CHUNK, CHUNK).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]
    #[test]
    fn whatever_was_written_it_says_nothing_that_a_read_does_not(
        writes in proptest::collection::vec((0..SIZE, 1..40_000usize, any::<bool>()), 0..8),
        asked in proptest::collection::vec((0..SIZE, 1..SIZE), 1..20),
    ) {
        let (_file, disk) = over(&pattern(SIZE, 3));
        for (at, len, zero) in writes {
            let len = len.min(SIZE - at);
            if zero {
                disk.write_zeroes(at as u64, len as u64, true).unwrap();
            } else {
                write(&disk, at as u64, &pattern(len, 9)).unwrap();
            }
        }
        for (at, len) in asked {
            let len = len.min(SIZE - at);
            if let Some(range) = disk.host_range(at as u64, len as u64) {
                prop_assert!(bytes(&range) == common::read(&disk, at as u64, len).unwrap());
            }
        }
    }
}
