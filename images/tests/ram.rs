//! A disk of memory: zero at first, takes what is used, gives back what is not.

mod common;

use common::{pattern, read, write};
use tane_images::{buffer, buffer_mut, Backend, Ram};

#[test]
fn it_is_zero_until_it_is_written() {
    let disk = Ram::new(1 << 20).unwrap();
    assert_eq!((disk.size(), disk.read_only()), (1 << 20, false));
    assert_eq!(read(&disk, 4096, 8192).unwrap(), vec![0; 8192]);
    let data = pattern(5000, 1);
    write(&disk, 100, &data).unwrap();
    assert_eq!(read(&disk, 100, 5000).unwrap(), data);
    disk.flush().unwrap();
}

#[test]
fn it_may_be_larger_than_memory() {
    let disk = Ram::new(16 << 40).unwrap();
    write(&disk, (16 << 40) - 512, &[3; 512]).unwrap();
    assert_eq!(read(&disk, (16 << 40) - 512, 512).unwrap(), [3; 512]);
    assert!(write(&disk, (16 << 40) - 256, &[3; 512]).is_err());
}

#[test]
fn it_answers_at_once() {
    let disk = Ram::new(8192).unwrap();
    assert!(disk.try_write(&[buffer(&[4; 512])], 512).unwrap());
    let mut got = [0; 1024];
    assert!(disk.try_read(&[buffer_mut(&mut got)], 512).unwrap());
    assert_eq!(got[..512], [4; 512]);
    assert_eq!(got[512..], [0; 512]);
}

#[test]
fn discarded_and_zeroed_ranges_read_as_zero() {
    let disk = Ram::new(64 << 10).unwrap();
    write(&disk, 0, &[9; 64 << 10]).unwrap();
    disk.discard(4096, 8192).unwrap();
    disk.write_zeroes(20_480, 512, false).unwrap();
    disk.write_zeroes(24_576, 4096, true).unwrap();
    let bytes = read(&disk, 0, 64 << 10).unwrap();
    for (at, &byte) in bytes.iter().enumerate() {
        let gone = matches!(at, 4096..=12_287 | 20_480..=20_991 | 24_576..=28_671);
        assert_eq!(byte, if gone { 0 } else { 9 }, "at {at}");
    }
}

#[test]
fn it_takes_memory_when_it_is_touched_and_no_more_than_it_may() {
    let disk = Ram::limited(1 << 40, 4 << 20).unwrap();
    assert_eq!(disk.resident().unwrap(), 0);
    for i in 0..4 {
        write(&disk, i << 35, &[5; 1 << 20][..(1 << 20) - 4096]).unwrap();
    }
    let error = write(&disk, 1 << 39, &[6; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(
        error.to_string().contains("4194304 bytes, is used up"),
        "{error}"
    );
    assert!(disk.resident().unwrap() <= 4 << 20);
    // What has memory already can be written as before.
    write(&disk, 2 << 35, &[7; 1 << 19]).unwrap();
    assert_eq!(read(&disk, 2 << 35, 512).unwrap(), [7; 512]);
    disk.discard(3 << 35, 1 << 20).unwrap();
    write(&disk, 1 << 39, &[8; 1 << 19]).unwrap();
}
