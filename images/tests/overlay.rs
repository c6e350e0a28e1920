//! An overlay takes all writes; what is below never changes.

mod common;

use common::{hash, pattern, read, write, Temporary, READ};
use proptest::prelude::*;
use std::sync::Arc;
use tane_images::{buffer, buffer_mut, Backend, Failure, Fault, Operation, Overlay, Ram, Raw};

const SIZE: usize = 100_000;

fn over(bytes: &[u8]) -> (Temporary, Overlay) {
    let file = Temporary::new(bytes);
    let below = Arc::new(Raw::open(&file.0, READ).unwrap());
    (file, Overlay::new(below))
}

#[test]
fn the_image_below_keeps_its_bytes() {
    let (file, disk) = over(&pattern(SIZE, 1));
    let before = hash(&file.bytes());
    assert!(!disk.read_only());
    write(&disk, 1000, &[1; 40_000]).unwrap();
    disk.write_zeroes(50_000, 20_000, true).unwrap();
    disk.discard(0, SIZE as u64).unwrap();
    disk.flush().unwrap();
    disk.try_write(&[buffer(&[2; 512])], 0).unwrap();
    drop(disk);
    assert_eq!(hash(&file.bytes()), before);
}

#[test]
fn nothing_but_reads_reaches_what_is_below() {
    let below = Arc::new(Fault::new(Arc::new(Ram::new(1 << 20).unwrap()), |o| {
        assert!(matches!(o, Operation::Read { .. }), "{o:?}");
        None
    }));
    let disk = Overlay::new(below.clone());
    write(&disk, 10, &[1; 100]).unwrap();
    disk.write_zeroes(0, 1 << 19, true).unwrap();
    disk.discard(0, 1 << 20).unwrap();
    disk.flush().unwrap();
    assert_eq!(below.log(), []);
}

#[test]
fn a_read_mixes_what_is_above_and_below() {
    let mut model = pattern(SIZE, 2);
    let (_file, disk) = over(&model);
    for at in [0, 16_000, 40_000, 99_488] {
        write(&disk, at as u64, &[at as u8; 512]).unwrap();
        model[at..at + 512].fill(at as u8);
    }
    assert!(read(&disk, 0, SIZE).unwrap() == model);
    // Buffers that end where no chunk does.
    let mut got = vec![0; 60_000];
    let to: Vec<_> = got.chunks_mut(777).map(buffer_mut).collect();
    disk.read(&to, 15_001).unwrap();
    assert!(got == model[15_001..75_001]);
}

#[test]
fn only_what_is_written_takes_memory() {
    let disk = Overlay::new(Arc::new(Ram::new(1 << 40).unwrap()));
    assert_eq!(disk.resident(), 0);
    write(&disk, 1 << 39, &[1; 512]).unwrap();
    read(&disk, 0, 1 << 20).unwrap();
    assert!(disk.resident() <= 64 << 10);
    disk.write_zeroes(0, 1 << 30, true).unwrap();
    assert!(disk.resident() <= 64 << 10);
    disk.discard((1 << 39) - (1 << 20), 2 << 20).unwrap();
    assert_eq!(disk.resident(), 0);
}

#[test]
fn a_write_fails_and_changes_nothing_when_the_rest_of_its_chunk_cannot_be_read() {
    let below = Arc::new(Fault::new(Arc::new(Ram::new(1 << 20).unwrap()), |_| {
        Some(Failure::errno(libc::EIO))
    }));
    let disk = Overlay::new(below.clone());
    assert!(write(&disk, 100, &[1; 100]).is_err());
    below.plan(|_| None);
    assert_eq!(read(&disk, 0, 512).unwrap(), [0; 512]);
}

#[test]
fn nothing_reaches_behind_the_end() {
    let (_file, disk) = over(&[1; 1000]);
    assert!(write(&disk, 900, &[2; 101]).is_err());
    assert!(read(&disk, 900, 101).is_err());
    assert!(disk.write_zeroes(u64::MAX, 2, true).is_err());
    write(&disk, 900, &[2; 100]).unwrap();
    assert_eq!(read(&disk, 900, 100).unwrap(), [2; 100]);
}

#[test]
fn writers_of_one_chunk_do_not_undo_each_other() {
    let disk = Arc::new(Overlay::new(Arc::new(Ram::new(1 << 20).unwrap())));
    let threads: Vec<_> = (0..4u64)
        .map(|me| {
            let disk = disk.clone();
            std::thread::spawn(move || {
                for sector in (me..2048).step_by(4) {
                    let data = [me as u8 + 1; 512];
                    if !disk.try_write(&[buffer(&data)], sector * 512).unwrap() {
                        write(&*disk, sector * 512, &data).unwrap();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    for (sector, bytes) in read(&*disk, 0, 1 << 20).unwrap().chunks(512).enumerate() {
        assert_eq!(bytes, [sector as u8 % 4 + 1; 512]);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Read,
    TryRead,
    Write(u8),
    TryWrite(u8),
    Zero,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Read),
        Just(Step::TryRead),
        any::<u8>().prop_map(Step::Write),
        any::<u8>().prop_map(Step::TryWrite),
        Just(Step::Zero),
        Just(Step::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    #[test]
    fn it_behaves_like_a_vector(
        steps in proptest::collection::vec((step(), 0..SIZE, 0..50_000usize), 1..40),
    ) {
        let mut model = pattern(SIZE, 3);
        let (file, disk) = over(&model);
        for (step, offset, len) in steps {
            let len = len.min(SIZE - offset);
            let (at, range) = (offset as u64, offset..offset + len);
            match step {
                Step::Read => prop_assert!(read(&disk, at, len).unwrap() == model[range]),
                Step::TryRead => {
                    let mut got = vec![0; len];
                    if disk.try_read(&[buffer_mut(&mut got)], at).unwrap() {
                        prop_assert!(got == model[range]);
                    }
                }
                Step::Write(seed) | Step::TryWrite(seed) => {
                    let data = pattern(len, seed);
                    let try_it = matches!(step, Step::TryWrite(_));
                    if !(try_it && disk.try_write(&[buffer(&data)], at).unwrap()) {
                        write(&disk, at, &data).unwrap();
                    }
                    model[range].copy_from_slice(&data);
                }
                Step::Zero => {
                    disk.write_zeroes(at, len as u64, true).unwrap();
                    model[range].fill(0);
                }
                Step::Flush => disk.flush().unwrap(),
            }
        }
        prop_assert!(read(&disk, 0, SIZE).unwrap() == model);
        prop_assert!(file.bytes() == pattern(SIZE, 3));
    }
}
