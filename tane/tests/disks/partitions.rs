//! Promises about partitions: their numbers, places, names and identities.

use crate::common::{blank, ext4, kernel, TempDir};
use std::path::Path;
use tane::{DiskOptions, MountOptions};

#[test]
fn partitions_are_found_with_numbers_names_and_places() {
    let dir = TempDir::new();
    let image = blank(&dir, "disk", 24);
    let Some(kernel) = kernel() else { return };
    // Two primary partitions: 1 MiB at 1 MiB, and number 3 with 16 MiB at 4.
    let mut mbr = [0u8; 512];
    for (entry, start, len) in [(0, 2048u32, 2048u32), (2, 8192, 32768)] {
        let at = 446 + 16 * entry;
        mbr[at + 4] = 0x83;
        mbr[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        mbr[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
    }
    mbr[440..444].copy_from_slice(&0xdead_0001u32.to_le_bytes());
    mbr[510..].copy_from_slice(b"\x55\xaa");
    let part = ext4(&dir, 16);
    let mut content = std::fs::read(&image).unwrap();
    content[..512].copy_from_slice(&mbr);
    content[4 << 20..20 << 20].copy_from_slice(&std::fs::read(part).unwrap());
    std::fs::write(&image, content).unwrap();

    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    assert_eq!(disk.size().unwrap(), 24 << 20);
    assert_eq!(disk.probe().unwrap(), None);
    let partitions = disk.partitions().unwrap();
    let places: Vec<_> = partitions
        .iter()
        .map(|p| (p.number, p.start, p.size))
        .collect();
    assert_eq!(places, [(1, 1 << 20, 1 << 20), (3, 4 << 20, 16 << 20)]);
    assert_eq!(partitions[1].device(), Path::new("/dev/vda3"));
    assert_eq!(partitions[1].uuid.as_deref(), Some("dead0001-03"));
    assert_eq!(partitions[1].kind.as_deref(), Some("0x83"));
    let found = kernel.probe(partitions[1].device()).unwrap().unwrap();
    assert_eq!(found.fstype, "ext4");
    assert_eq!(found.label.as_deref(), Some("test"));
    let mount = MountOptions::new()
        .mount(&kernel, partitions[1].device())
        .unwrap();
    mount.write("f", "x").unwrap();
    drop(disk);
    mount.unmount().unwrap();
    assert!(!kernel.tree("/dev").unwrap().exists("vda3").unwrap());
}

#[test]
fn a_gpt_names_and_identifies_its_partitions() {
    let dir = TempDir::new();
    let image = blank(&dir, "disk", 8);
    let Some(kernel) = kernel() else { return };
    std::fs::write(&image, gpt(8 << 11)).unwrap();
    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    let partitions = disk.partitions().unwrap();
    assert_eq!(partitions.len(), 1, "{}", kernel.dmesg());
    let partition = &partitions[0];
    assert_eq!((partition.number, partition.start), (2, 1 << 20));
    assert_eq!(partition.size, 1 << 20);
    assert_eq!(partition.name.as_deref(), Some("data"));
    let uuid = "33221100-5544-7766-8899-aabbccddeeff";
    assert_eq!(partition.uuid.as_deref(), Some(uuid));
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    assert_eq!(partition.kind.as_deref(), Some(linux));
}

/// A disk of this many sectors whose second partition is 1 MiB at 1 MiB.
fn gpt(sectors: u64) -> Vec<u8> {
    let mut entries = vec![0; 128 * 128];
    let entry = &mut entries[128..256];
    entry[..16].copy_from_slice(&[
        0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d,
        0xe4,
    ]);
    for (i, byte) in entry[16..32].iter_mut().enumerate() {
        *byte = i as u8 * 0x11;
    }
    entry[32..40].copy_from_slice(&2048u64.to_le_bytes());
    entry[40..48].copy_from_slice(&4095u64.to_le_bytes());
    for (i, unit) in "data".encode_utf16().enumerate() {
        entry[56 + 2 * i..58 + 2 * i].copy_from_slice(&unit.to_le_bytes());
    }
    let mut header = vec![0; 512];
    header[..16].copy_from_slice(b"EFI PART\0\0\x01\0\x5c\0\0\0");
    for (at, word) in [(24, 1), (32, sectors - 1), (40, 34), (48, sectors - 34)] {
        header[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    header[56] = 1; // the disk's GUID
    header[72] = 2;
    header[80] = 128;
    header[84] = 128;
    header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
    let sum = crc32(&header[..92]);
    header[16..20].copy_from_slice(&sum.to_le_bytes());

    let mut disk = vec![0; sectors as usize * 512];
    disk[446 + 4] = 0xee;
    disk[446 + 8] = 1;
    disk[446 + 12..446 + 16].copy_from_slice(&(sectors as u32 - 1).to_le_bytes());
    disk[510..512].copy_from_slice(b"\x55\xaa");
    disk[512..1024].copy_from_slice(&header);
    disk[1024..1024 + entries.len()].copy_from_slice(&entries);
    disk
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}
