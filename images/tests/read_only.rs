//! What others keep disks in, and is only read: in pieces, for evidence, for phones
//! and on Macs. Made and judged by their own programs where there are any.

mod common;
mod makers;
mod qemu;

use common::{pattern, read, write};
use makers::{android, android_reads, dmg, ewf, ewf_reads, seven_zip_reads};
use qemu::*;
use tane_images::{Format, Image, ImageOptions};

const SIZE: usize = 6 << 20;

/// A folder with `disk.raw`.
fn folder(disk: &[u8]) -> Folder {
    let folder = Folder::new();
    folder.write("disk.raw", disk);
    folder
}

fn open(folder: &Folder, name: &str) -> Image {
    ImageOptions::new().open(folder.at(name)).unwrap()
}

fn refused(folder: &Folder, name: &str) -> String {
    let refused = ImageOptions::new().open(folder.at(name));
    let told = refused.err().expect("an error").to_string();
    assert!(told.starts_with(&text(&folder.at(name))), "{told}");
    told
}

/// Whole, in pieces that fit nothing, and by the way that must not wait.
fn assert_reads(image: &Image, model: &[u8]) {
    let disk = &*image.backend;
    assert_eq!(disk.size(), model.len() as u64);
    assert!(read(disk, 0, model.len()).unwrap() == model);
    for at in (0..model.len().saturating_sub(70_001)).step_by(1_234_567) {
        assert!(read(disk, at as u64, 70_001).unwrap() == model[at..at + 70_001]);
        let mut got = vec![1; 3000];
        if disk
            .try_read(&[tane_images::buffer_mut(&mut got)], at as u64)
            .unwrap()
        {
            assert!(got == model[at..at + 3000]);
        }
    }
}

fn formats(image: &Image) -> Vec<&'static str> {
    let layers = image.layers.iter();
    layers.map(|layer| layer.format.name()).collect()
}

#[test]
fn a_disk_in_pieces_is_opened_by_the_first() {
    let model = disk_with_holes(SIZE + 1000);
    let ways = [
        ("-d -a 3 --numeric-suffixes=1", "001"),
        ("-d -a 3", "000"),
        ("", "aa"),
        ("-a 3", "aaa"),
    ];
    for (words, first) in ways {
        let folder = folder(&model);
        let split = format!("split -b 1500k {words} disk.raw d.img.");
        folder.run(&split.replace("  ", " "));
        let first = format!("d.img.{first}");
        let image = open(&folder, &first);
        assert_eq!(formats(&image), ["split", "raw", "raw", "raw", "raw"]);
        assert_reads(&image, &model);
        // By a link of another name, too.
        std::os::unix::fs::symlink(&first, folder.at("link")).unwrap();
        assert_reads(&open(&folder, "link"), &model);
        // As it is told.
        let raw = ImageOptions::new()
            .format(Format::Raw)
            .open(folder.at(&first));
        assert_eq!(raw.unwrap().backend.size(), 1500 << 10);
    }
}

#[test]
fn what_is_written_to_a_disk_in_pieces_goes_into_them() {
    let mut model = disk_with_holes(SIZE);
    let folder = folder(&model);
    folder.run("split -b 1500k disk.raw d.");
    let image = ImageOptions::new().write(true).open(folder.at("d.aa"));
    let disk = image.unwrap().backend;
    let data = pattern(3 << 20, 77);
    write(&*disk, 1 << 20, &data).unwrap();
    model[1 << 20..4 << 20].copy_from_slice(&data);
    disk.flush().unwrap();
    let pieces = ["d.aa", "d.ab", "d.ac", "d.ad", "d.ae"];
    let pieces = pieces.map(|name| std::fs::read(folder.at(name)).unwrap());
    assert!(pieces.concat() == model);
}

#[test]
fn pieces_may_be_of_another_container() {
    let model = disk_with_holes(SIZE);
    for (inner, make) in [
        ("qcow2", "qemu-img convert -O qcow2 disk.raw whole"),
        ("gzip", "gzip -k disk.raw"),
    ] {
        let folder = folder(&model);
        folder.run(make);
        let whole = ["whole", "disk.raw.gz"].map(|name| folder.at(name));
        let whole = whole.iter().find(|path| path.exists()).unwrap();
        folder.run(&format!("split -b 100k -a 3 -d {} d.", text(whole)));
        let image = open(&folder, "d.000");
        assert_eq!(formats(&image)[0], "split");
        assert_eq!(formats(&image).last(), Some(&inner));
        assert_reads(&image, &model);
        drop(image);
        let told = ImageOptions::new().write(true).open(folder.at("d.000"));
        let told = told.err().expect("an error").to_string();
        assert!(told.contains("only be read"), "{told}");
    }
}

#[test]
fn pieces_that_are_missing_cut_or_elsewhere_are_told() {
    let folder = folder(&disk_with_holes(SIZE));
    folder.run("split -b 1500k -d -a 3 --numeric-suffixes=1 disk.raw d.");
    std::fs::rename(folder.at("d.003"), folder.at("x")).unwrap();
    let told = refused(&folder, "d.001");
    assert!(told.contains("d.003 is missing"), "{told}");
    let cut = std::fs::read(folder.at("x")).unwrap();
    folder.write("d.003", &cut[..1000]);
    let told = refused(&folder, "d.001");
    assert!(told.contains("d.003 has 1000"), "{told}");
    std::fs::remove_file(folder.at("d.003")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.at("d.003")).unwrap();
    let told = refused(&folder, "d.001");
    assert!(told.contains("not beside it"), "{told}");
}

#[test]
fn evidence_reads_as_libewf_reads_it() {
    // Its last chunk is short.
    let mut model = disk_with_holes(SIZE + 7 * 512);
    // What does not shrink, for more than one segment.
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    model[1 << 20..4 << 20].fill_with(|| numbers.next(256) as u8);
    let ways = [
        ("-f encase6 -c fast", "image.E01"),
        ("-f encase6 -c none -b 16", "image.E01"),
        ("-f encase6 -c best -b 1024 -P 2048", "image.E01"),
        ("-f encase6 -c empty-block -S 1048576", "image.E01"),
        ("-f encase5 -c fast -S 1048576", "image.E01"),
        ("-f encase1 -c fast -S 1048576", "image.E01"),
        ("-f ftk -c fast -S 1048576", "image.E01"),
        ("-f ewf -c none -S 1048576", "image.e01"),
        ("-f smart -c fast", "image.s01"),
        ("-f linen6 -c fast", "image.E01"),
    ];
    for (words, first) in ways {
        let model = match words.contains("2048") {
            true => &model[..SIZE],
            false => &model[..],
        };
        let folder = folder(model);
        if ewf(&folder, words).is_none() {
            return;
        }
        let image = open(&folder, first);
        assert_eq!(formats(&image)[0], "ewf", "{words}");
        assert_eq!(formats(&image).len() > 2, words.contains("-S"), "{words}");
        assert_reads(&image, model);
        let theirs = ewf_reads(&folder, first).unwrap();
        assert!(theirs == model, "{words}");
    }
}

#[test]
fn evidence_that_is_damaged_or_incomplete_is_told() {
    let model = pattern(SIZE, 9);
    for words in ["-c none -S 1048576", "-c fast -S 1048576"] {
        let folder = folder(&disk_with_holes(SIZE));
        folder.write("disk.raw", &model);
        if ewf(&folder, words).is_none() {
            return;
        }
        // A byte of the data.
        let whole = std::fs::read(folder.at("image.E01")).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        folder.write("image.E01", &bytes);
        let disk = open(&folder, "image.E01").backend;
        let told = read(&*disk, 0, SIZE).unwrap_err().to_string();
        assert!(told.contains("is damaged"), "{told}");
        folder.write("image.E01", &whole);
        assert_reads(&open(&folder, "image.E01"), &model);
        if folder.at("image.E02").exists() {
            let told = refused(&folder, "image.E02");
            assert!(told.contains("is segment 2"), "{told}");
            std::fs::remove_file(folder.at("image.E02")).unwrap();
            let told = refused(&folder, "image.E01");
            assert!(told.contains("image.E02 is missing"), "{told}");
        }
    }
}

#[test]
fn sparse_images_of_android_read_as_its_own_program_reads_them() {
    let mut model = disk_with_holes(SIZE);
    // A word again and again, and another one.
    model[2 << 20..3 << 20].fill(0x5a);
    for word in model[3 << 20..7 << 19].chunks_mut(4) {
        word.copy_from_slice(&[1, 2, 3, 4]);
    }
    for block in [4096, 1024] {
        let folder = folder(&model);
        if android(&folder, block).is_none() {
            return;
        }
        let image = open(&folder, "image");
        assert_eq!(formats(&image), ["android-sparse"]);
        assert_reads(&image, &model);
        assert!(android_reads(&folder).unwrap() == model);
        // One of several is not all of the disk.
        std::fs::rename(folder.at("image"), folder.at("system.img_sparsechunk.0")).unwrap();
        let told = refused(&folder, "system.img_sparsechunk.0");
        assert!(told.contains("one of several"), "{told}");
    }
}

#[test]
fn a_dmg_reads_as_7_zip_and_qemu_read_it() {
    let model = disk_with_holes(SIZE + 5 * 512);
    for (name, kind) in dmg::KINDS {
        let folder = Folder::new();
        folder.write("image.dmg", &dmg::make(&model, *kind));
        let image = open(&folder, "image.dmg");
        assert_eq!(formats(&image), ["dmg"]);
        assert_reads(&image, &model);
        let Some(theirs) = seven_zip_reads(&folder, "dmg", "image.dmg") else {
            return;
        };
        assert!(theirs == model, "{name}");
        // The others are modules of QEMU, in another package.
        if matches!(*name, "raw" | "zlib") {
            assert!(folder.qemu_reads("image.dmg") == model, "{name}");
        }
    }
}

#[test]
fn chunks_of_a_dmg_that_are_damaged_are_told() {
    let model = pattern(SIZE, 5);
    for (name, kind) in dmg::KINDS.iter().filter(|(name, _)| *name != "raw") {
        let folder = Folder::new();
        let mut bytes = dmg::make(&model, *kind);
        bytes[200..600].fill(0xff);
        folder.write("image.dmg", &bytes);
        let disk = open(&folder, "image.dmg").backend;
        // ADC has no checksum.
        if *name != "adc" {
            let told = read(&*disk, 0, 512).expect_err(name).to_string();
            assert!(told.contains("is damaged"), "{name}: {told}");
        }
        assert!(read(&*disk, 1 << 20, 4096).unwrap() == model[1 << 20..][..4096]);
    }
}

#[test]
fn what_is_known_and_not_read_is_named() {
    let marks: [(usize, &[u8], &str); 12] = [
        (0, b"encrcdsa", "encrypted disk image of Apple"),
        (0, b"LVF\x09\x0d\x0a\xff\0", "L01"),
        (0, b"EVF2\x0d\x0a\x81\0", "Ex01"),
        (0, b"AFF10\x0d\x0a\0", "AFF"),
        (0, b"\xbe\xba\xfe\xca\0\0\0\0", "seSparse"),
        (0, b"WithoutFreeSpace", "Parallels"),
        (0, b"shdw", "ASIF"),
        (0, b"MSWIM\0\0\0", "WIM"),
        (0, b"PK\x03\x04", "zip"),
        (257, b"ustar", "tar"),
        (0, b"COWD", "VMFS"),
        ((1 << 20) - 8, b"cdsaencr", "encrypted disk image of Apple"),
    ];
    for (at, mark, what) in marks {
        let folder = Folder::new();
        let mut bytes = vec![0; 1 << 20];
        bytes[at..at + mark.len()].copy_from_slice(mark);
        folder.write("image", &bytes);
        let told = refused(&folder, "image");
        assert!(
            told.contains(what) && told.contains("cannot be read"),
            "{told}"
        );
        // Who says so has it all the same.
        let raw = ImageOptions::new()
            .format(Format::Raw)
            .open(folder.at("image"));
        assert_eq!(raw.unwrap().backend.size(), 1 << 20);
    }
    // As made by others.
    let folder = folder(&disk_with_holes(SIZE));
    for (make, what) in [
        ("tar cf image disk.raw", "tar"),
        ("qemu-img convert -O parallels disk.raw image", "Parallels"),
        ("7z a -bso0 image.zip disk.raw", "zip"),
        ("7z a -bso0 image.7z disk.raw", "7z"),
    ] {
        folder.run(make);
        let made = ["image.zip", "image.7z", "image"].map(|name| folder.at(name));
        let made = made.into_iter().find(|path| path.exists()).unwrap();
        let name = made.file_name().unwrap().to_str().unwrap().to_owned();
        let told = refused(&folder, &name);
        assert!(told.contains(what), "{told}");
        std::fs::remove_file(made).unwrap();
    }
}

#[test]
fn none_of_them_is_opened_for_writing() {
    let folder = Folder::new();
    folder.write("image", &dmg::make(&disk_with_holes(SIZE), 1));
    let told = ImageOptions::new().write(true).open(folder.at("image"));
    let told = told.err().expect("an error").to_string();
    assert!(
        told.contains("only be read") && told.contains("overlay"),
        "{told}"
    );
}
