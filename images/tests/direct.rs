//! Direct I/O gives the same bytes as any other, whatever the alignment.

mod common;

use common::{open_direct, pattern, read, write, Temporary};
use proptest::prelude::*;
use std::sync::Arc;
use tane_images::{buffer, buffer_mut, Backend};

#[test]
fn unaligned_buffers_are_read_and_written() {
    let file = Temporary::sparse(3 << 20);
    let Some(disk) = open_direct(&file.0) else {
        return;
    };
    let data = pattern((2 << 20) + 512 + 3, 1);
    // Odd addresses, a split in the middle of a sector, more than one bounce.
    let (a, b) = data[1..data.len() - 2].split_at(777);
    disk.write(&[buffer(a), buffer(b)], 1536).unwrap();
    disk.flush().unwrap();
    let mut got = vec![0; data.len() + 4];
    let (c, d) = got[3..3 + data.len() - 3].split_at_mut(100_001);
    disk.read(&[buffer_mut(c), buffer_mut(d)], 1536).unwrap();
    assert!(got[3..3 + data.len() - 3] == data[1..data.len() - 2]);
    drop(disk);
    let bytes = file.bytes();
    assert!(bytes[1536..1536 + data.len() - 3] == data[1..data.len() - 2]);
    assert!(bytes[..1536].iter().all(|&b| b == 0));
    assert!(bytes[1536 + data.len() - 3..].iter().all(|&b| b == 0));
}

#[test]
fn an_uneven_end_is_read_and_written_and_stays_where_it_is() {
    let data = pattern(4096 + 1000, 2);
    let file = Temporary::new(&data);
    let Some(disk) = open_direct(&file.0) else {
        return;
    };
    let mut want = data[4096..].to_vec();
    want.resize(1024, 0);
    assert_eq!(read(&disk, 4096, 1024).unwrap(), want);
    assert_eq!(read(&disk, 4608, 512).unwrap(), want[512..]);
    write(&disk, 4096, &[5; 1000]).unwrap();
    write(&disk, 512, &[6; 512]).unwrap();
    drop(disk);
    let bytes = file.bytes();
    assert_eq!(bytes.len(), data.len());
    assert_eq!(bytes[4096..], [5; 1000]);
    assert_eq!(bytes[512..1024], [6; 512]);
    assert_eq!(bytes[1024..4096], data[1024..4096]);
}

#[test]
fn writers_of_neighbouring_sectors_do_not_undo_each_other() {
    let file = Temporary::sparse(64 << 10);
    let Some(disk) = open_direct(&file.0) else {
        return;
    };
    let disk = Arc::new(disk);
    let threads: Vec<_> = (0..8u64)
        .map(|me| {
            let disk = disk.clone();
            std::thread::spawn(move || {
                for round in 0..16u64 {
                    write(&*disk, (round * 8 + me) * 512, &[me as u8 + 1; 512]).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let bytes = file.bytes();
    for (sector, bytes) in bytes.chunks(512).enumerate() {
        assert_eq!(bytes, [sector as u8 % 8 + 1; 512], "sector {sector}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]
    #[test]
    fn any_transfers_are_those_of_a_vector(
        operations in proptest::collection::vec((any::<bool>(), 0usize..9000, 1usize..9000, any::<u8>()), 1..20),
        size in 10_000usize..20_000,
    ) {
        let mut model = pattern(size, 0);
        let file = Temporary::new(&model);
        let Some(disk) = open_direct(&file.0) else { return Ok(()) };
        for (store, offset, len, seed) in operations {
            let len = len.min(size - offset);
            if store {
                let data = pattern(len, seed);
                write(&disk, offset as u64, &data).unwrap();
                model[offset..offset + len].copy_from_slice(&data);
            } else {
                prop_assert!(read(&disk, offset as u64, len).unwrap() == model[offset..offset + len]);
            }
        }
        drop(disk);
        prop_assert!(file.bytes() == model);
    }
}
