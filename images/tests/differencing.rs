//! Differencing VHD and VHDX: images of qemu-img, made children of others by hand, as
//! it makes none. Judged by 7-Zip.

mod common;
mod makers;
mod qemu;

use common::{pattern, read, write};
use makers::seven_zip_reads;
use qemu::*;
use tane_images::{ImageOptions, Layer};

const SIZE: usize = 6 << 20;
const SECTOR: usize = 512;

/// Sectors that a child has of a block that it has: some runs of odd lengths.
fn is_there(sector: usize) -> bool {
    (sector / 13).is_multiple_of(2) || (300..900).contains(&(sector % 2048))
}

/// A folder with `base`, and `child` with data here and there; with what they hold.
fn folder(kind: &str, words: &str) -> (Folder, Vec<u8>, Vec<u8>) {
    let folder = Folder::new();
    let base = pattern(SIZE, 21);
    folder.write("disk.raw", &base);
    folder.run(&format!("qemu-img convert -O {kind} {words} disk.raw base"));
    folder.run(&format!(
        "qemu-img create -q -f {kind} {words} child {SIZE}"
    ));
    folder.run(
        "qemu-io -c write\u{a0}-P\u{a0}7\u{a0}1M\u{a0}300k \
         -c write\u{a0}-P\u{a0}9\u{a0}5000k\u{a0}900k child",
    );
    let child = folder.qemu_reads("child");
    (folder, base, child)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

/// The complement of the sum of all bytes but the checksum's own.
fn put_checksum(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let sum: u32 = bytes.iter().map(|b| u32::from(*b)).sum();
    bytes[at..at + 4].copy_from_slice(&(!sum).to_be_bytes());
}

/// Make `child` one of `base`, which it names by this path. Returns the disk.
fn adopt_vhd(folder: &Folder, path: &str, base: &[u8], child: &[u8]) -> Vec<u8> {
    let parent = std::fs::read(folder.at("base")).unwrap();
    let mut file = std::fs::read(folder.at("child")).unwrap();
    let mut footer = file.split_off(file.len() - SECTOR);
    footer[60..64].copy_from_slice(&4u32.to_be_bytes());
    put_checksum(&mut footer, 64);
    file[..SECTOR].copy_from_slice(&footer);
    let header = be32(&footer, 20) as usize;
    let path = utf16(path, u16::to_le_bytes);
    let place = file.len() as u64;
    let mut put = |at: usize, bytes: &[u8]| {
        file[header + at..header + at + bytes.len()].copy_from_slice(bytes);
    };
    put(40, &parent[68..84]);
    put(64, &utf16("base", u16::to_be_bytes));
    put(576, b"W2ru");
    put(580, &512u32.to_be_bytes());
    put(584, &(path.len() as u32).to_be_bytes());
    put(592, &place.to_be_bytes());
    put_checksum(&mut file[header..header + 1024], 36);
    let (table, block) = (
        be32(&file, header + 20) as usize,
        be32(&file, header + 32) as usize,
    );
    let mut model = base.to_vec();
    for index in 0..SIZE.div_ceil(block) {
        let entry = be32(&file, table + 4 * index);
        if entry == u32::MAX {
            continue;
        }
        let bitmap = entry as usize * SECTOR;
        for sector in 0..block / SECTOR {
            let start = index * block + sector * SECTOR;
            if !is_there(sector) {
                file[bitmap + sector / 8] &= !(0x80 >> (sector % 8));
            } else if start < SIZE {
                model[start..start + SECTOR].copy_from_slice(&child[start..start + SECTOR]);
            }
        }
    }
    file.extend_from_slice(&path);
    file.resize(file.len().next_multiple_of(SECTOR), 0);
    file.extend_from_slice(&footer);
    folder.write("child", &file);
    model
}

const BAT: &[u8] = b"\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08";
const METADATA: &[u8] = b"\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e";
const PARAMETERS: &[u8] = b"\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b";
const LOCATOR: &[u8] = b"\x2d\x5f\xd3\xa8\x0b\xb3\x4d\x45\xab\xf7\xd3\xd8\x48\x34\xab\x0c";
const KIND: &[u8] = b"\xb7\xef\x4a\xb0\x9e\xd1\x81\x4a\xb7\x89\x25\xb8\xe9\x44\x59\x13";

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Where an identity stands in a table, of those from `at` on.
fn find(bytes: &[u8], at: usize, id: &[u8]) -> usize {
    let found = bytes[at..].chunks(16).position(|chunk| chunk == id);
    at + 16 * found.expect("the identity")
}

/// The identity that changes with each writer, as a child has it.
fn linkage(file: &[u8]) -> String {
    let newer = |a: usize, b: usize| {
        if le64(file, a + 8) > le64(file, b + 8) {
            a
        } else {
            b
        }
    };
    let id = &file[newer(64 << 10, 128 << 10)..][32..48];
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
    let turned =
        |from: usize, to: usize| hex(&id[from..to].iter().rev().copied().collect::<Vec<_>>());
    format!(
        "{{{}-{}-{}-{}-{}}}",
        turned(0, 4),
        turned(4, 6),
        turned(6, 8),
        hex(&id[8..10]),
        hex(&id[10..16])
    )
}

fn locator(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = KIND.to_vec();
    bytes.extend([0, 0]);
    bytes.extend((pairs.len() as u16).to_le_bytes());
    let mut texts = Vec::new();
    let start = 20 + 12 * pairs.len();
    for (key, value) in pairs {
        let [key, value] = [key, value].map(|text| utf16(text, u16::to_le_bytes));
        let places = [start + texts.len(), start + texts.len() + key.len()];
        for at in places {
            bytes.extend((at as u32).to_le_bytes());
        }
        for text in [&key, &value] {
            bytes.extend((text.len() as u16).to_le_bytes());
        }
        texts.extend(key);
        texts.extend(value);
    }
    bytes.extend(texts);
    bytes
}

fn adopt_vhdx(folder: &Folder, path: &str, base: &[u8], child: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 1 << 20;
    let linkage = linkage(&std::fs::read(folder.at("base")).unwrap());
    let mut file = std::fs::read(folder.at("child")).unwrap();
    let region = |file: &[u8], id: &[u8]| le64(file, find(file, 192 << 10, id) + 16) as usize;
    let (bat, metadata) = (region(&file, BAT), region(&file, METADATA));
    let parameters = find(&file, metadata + 32, PARAMETERS);
    let parameters = metadata + le64(&file, parameters + 16) as u32 as usize;
    file[parameters + 4] |= 2;
    // One more piece of metadata.
    let count = usize::from(file[metadata + 10]);
    file[metadata + 10] += 1;
    let entry = metadata + 32 + 32 * count;
    let list = locator(&[("parent_linkage", &linkage), ("relative_path", path)]);
    file[entry..entry + 16].copy_from_slice(LOCATOR);
    file[entry + 16..entry + 20].copy_from_slice(&(128u32 << 10).to_le_bytes());
    file[entry + 20..entry + 24].copy_from_slice(&(list.len() as u32).to_le_bytes());
    file[entry + 24] = 4;
    file[metadata + (128 << 10)..][..list.len()].copy_from_slice(&list);
    // The bitmap of all, at the end.
    let bitmap = file.len().next_multiple_of(BLOCK);
    file.resize(bitmap + BLOCK, 0);
    let chunk = (1usize << 23) * SECTOR / BLOCK;
    let place = bat + 8 * chunk;
    file[place..place + 8].copy_from_slice(&(bitmap as u64 | 6).to_le_bytes());
    let mut model = base.to_vec();
    for index in 0..SIZE / BLOCK {
        let entry = bat + 8 * index;
        let range = index * BLOCK..(index + 1) * BLOCK;
        match file[entry] & 7 {
            6 if index % 2 == 1 => {
                file[entry] |= 7;
                for sector in range.step_by(SECTOR).filter(|at| is_there(at / SECTOR)) {
                    let bit = sector / SECTOR;
                    file[bitmap + bit / 8] |= 1 << (bit % 8);
                    model[sector..sector + SECTOR].copy_from_slice(&child[sector..sector + SECTOR]);
                }
            }
            6 => model[range.clone()].copy_from_slice(&child[range]),
            // Zeros that hide what is below.
            _ if index == 2 => {
                file[entry] = 2;
                model[range].fill(0);
            }
            _ => file[entry..entry + 8].fill(0),
        }
    }
    folder.write("child", &file);
    model
}

type Adopt = fn(&Folder, &str, &[u8], &[u8]) -> Vec<u8>;
const KINDS: [(&str, &str, &str, Adopt); 2] = [
    ("vhd", "vpc", "-o force_size=on", adopt_vhd),
    ("vhdx", "vhdx", "-o block_size=1M", adopt_vhdx),
];

#[test]
fn a_child_reads_as_7_zip_reads_it_with_its_parent() {
    for (name, kind, words, adopt) in KINDS {
        let (folder, base, child) = folder(kind, words);
        let model = adopt(&folder, ".\\base", &base, &child);
        assert!(model != base && model != child);
        let image = ImageOptions::new().open(folder.at("child")).unwrap();
        let of = |layer: &Layer| (layer.path.clone(), layer.format.name());
        let layers: Vec<_> = image.layers.iter().map(of).collect();
        let expected = ["child", "base"].map(|file| (folder.at(file), name));
        assert_eq!(layers, expected);
        assert!(read(&*image.backend, 0, SIZE).unwrap() == model, "{name}");
        for at in (0..SIZE - 70_001).step_by(234_567) {
            let got = read(&*image.backend, at as u64, 70_001).unwrap();
            assert!(got == model[at..at + 70_001], "{name}");
        }
        drop(image);
        if let Some(theirs) = seven_zip_reads(&folder, name, "child") {
            assert!(theirs == model, "{name}: 7-Zip");
        }
    }
}

#[test]
fn what_is_written_to_a_child_leaves_its_parent_as_it_was() {
    for (name, kind, words, adopt) in KINDS {
        let (folder, base, child) = folder(kind, words);
        let mut model = adopt(&folder, ".\\base", &base, &child);
        let parent = std::fs::read(folder.at("base")).unwrap();
        let mut options = ImageOptions::new();
        let disk = options
            .write(true)
            .open(folder.at("child"))
            .unwrap()
            .backend;
        let mut numbers = Numbers(0x77);
        for turn in 0..30 {
            let len = 1 + numbers.next(100_000) as usize;
            let at = numbers.next((SIZE - len) as u64) as usize;
            let data = pattern(len, turn);
            write(&*disk, at as u64, &data).unwrap();
            model[at..at + len].copy_from_slice(&data);
        }
        disk.write_zeroes(0, 100_000, true).unwrap();
        model[..100_000].fill(0);
        disk.flush().unwrap();
        assert!(read(&*disk, 0, SIZE).unwrap() == model, "{name}");
        drop(disk);
        let again = ImageOptions::new().open(folder.at("child")).unwrap();
        assert!(read(&*again.backend, 0, SIZE).unwrap() == model, "{name}");
        drop(again);
        assert!(std::fs::read(folder.at("base")).unwrap() == parent);
        if let Some(theirs) = seven_zip_reads(&folder, name, "child") {
            assert!(theirs == model, "{name}: 7-Zip");
        }
    }
}

#[test]
fn a_parent_is_refused_if_it_is_elsewhere_missing_or_another() {
    for (name, kind, words, adopt) in KINDS {
        let (folder, base, child) = folder(kind, words);
        let model = adopt(&folder, "..\\base", &base, &child);
        let refused = |options: &ImageOptions| {
            let opened = options.open(folder.at("sub/child"));
            opened.err().expect("an error").to_string()
        };
        std::fs::create_dir(folder.at("sub")).unwrap();
        std::fs::rename(folder.at("child"), folder.at("sub/child")).unwrap();
        let told = refused(&ImageOptions::new());
        assert!(
            told.contains("not beside it") && told.contains("--trust"),
            "{told}"
        );
        let mut trusting = ImageOptions::new();
        let opened = trusting
            .trust(folder.at("base"))
            .open(folder.at("sub/child"));
        assert!(
            read(&*opened.unwrap().backend, 0, SIZE).unwrap() == model,
            "{name}"
        );
        // The directory that the path says is another host's.
        std::fs::rename(folder.at("base"), folder.at("sub/base")).unwrap();
        let opened = ImageOptions::new().open(folder.at("sub/child"));
        assert!(
            read(&*opened.unwrap().backend, 0, SIZE).unwrap() == model,
            "{name}"
        );
        std::fs::remove_file(folder.at("sub/base")).unwrap();
        let told = refused(&ImageOptions::new());
        assert!(told.contains("base, which is not there"), "{told}");
        folder.run(&format!(
            "qemu-img convert -O {kind} {words} disk.raw sub/base"
        ));
        let told = refused(&ImageOptions::new());
        assert!(told.contains("not what its child was made above"), "{told}");
    }
}

#[test]
fn a_child_of_itself_ends() {
    let (folder, base, child) = folder("vpc", "-o force_size=on");
    adopt_vhd(&folder, ".\\child", &base, &child);
    let mut file = std::fs::read(folder.at("child")).unwrap();
    let header = be32(&file, 20) as usize;
    let id: Vec<u8> = file[68..84].to_vec();
    file[header + 40..header + 56].copy_from_slice(&id);
    put_checksum(&mut file[header..header + 1024], 36);
    folder.write("child", &file);
    let told = ImageOptions::new().open(folder.at("child")).err().unwrap();
    assert!(told.to_string().contains("has no end"), "{told}");
}

#[test]
fn damaged_children_are_errors_or_disks() {
    for (name, kind, words, adopt) in KINDS {
        let (folder, base, child) = folder(kind, words);
        adopt(&folder, ".\\base", &base, &child);
        let whole = std::fs::read(folder.at("child")).unwrap();
        let head = (whole.len() as u64).min(4 << 20);
        let mut numbers = Numbers(0x51);
        for _ in 0..60 {
            let mut file = whole.clone();
            for _ in 0..1 + numbers.next(3) {
                let at = match numbers.next(3) {
                    0 => numbers.next(2048),
                    1 => numbers.next(head),
                    _ => whole.len() as u64 - 1 - numbers.next(2048),
                };
                file[at as usize] = [0, 0xff, numbers.next(256) as u8][numbers.next(3) as usize];
            }
            // The checksums are no defence.
            if kind == "vpc" && numbers.next(2) == 0 {
                put_checksum(&mut file[..SECTOR], 64);
                put_checksum(&mut file[512..1536], 36);
            }
            folder.write("child", &file);
            let write = numbers.next(2) == 0;
            let mut options = ImageOptions::new();
            let opened = options.format(name.parse().unwrap()).write(write);
            if let Ok(image) = opened.open(folder.at("child")) {
                let disk = image.backend;
                for at in [0, disk.size() / 2, disk.size().saturating_sub(9999)] {
                    let len = (disk.size() - at).min(9999) as usize;
                    let _ = read(&*disk, at, len);
                    let _ = write && common::write(&*disk, at, &vec![1; len]).is_ok();
                }
            }
        }
    }
}
