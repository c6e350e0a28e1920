//! Compressed streams, written by the programs that people write them with.

mod common;
mod qemu;

use common::{read, write};
use qemu::*;
use std::sync::{Arc, Mutex};
use tane_images::{Format, ImageOptions};

const SIZE: usize = 6 << 20;

/// How a stream is made from `disk`, its name, and whether it has pieces.
const STREAMS: &[(&str, &str, Format, bool)] = &[
    ("gzip -k disk", "disk.gz", Format::Gzip, false),
    ("bgzip -k disk", "disk.gz", Format::Gzip, true),
    (
        "xz -k -0 --block-size=1MiB disk",
        "disk.xz",
        Format::Xz,
        true,
    ),
    ("xz -k -0 disk", "disk.xz", Format::Xz, true),
    ("zstd -q -k disk", "disk.zst", Format::Zstd, true),
    // Its frames do not say how long they are.
    ("pzstd -q -k -p 4 disk", "disk.zst", Format::Zstd, false),
    ("bzip2 -k disk", "disk.bz2", Format::Bzip2, false),
];

#[test]
fn a_compressed_disk_reads_as_the_disk_in_pieces_if_it_has_any() {
    let bytes = disk_with_holes(SIZE);
    for (make, name, format, pieces) in STREAMS {
        let folder = Folder::new();
        folder.write("disk", &bytes);
        folder.run(make);
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let mut options = ImageOptions::new();
        options.notice(move |text| heard.lock().unwrap().push(text.to_owned()));
        let image = options.open(folder.at(name)).unwrap();
        assert_eq!(image.layers[0].format, *format, "{make}");
        assert!(image.backend.read_only());
        for at in (0..SIZE - 70_001).rev().step_by(1_234_567) {
            let got = read(&*image.backend, at as u64, 70_001).unwrap();
            assert!(got == bytes[at..at + 70_001], "{make}");
        }
        assert!(read(&*image.backend, 0, SIZE).unwrap() == bytes, "{make}");
        let said = said.lock().unwrap();
        assert_eq!(said.is_empty(), *pieces, "{make}: {said:?}");
        assert!(
            said.iter().all(|text| text.contains("temporary file")),
            "{said:?}"
        );
    }
}

#[test]
fn two_streams_in_one_file_are_one_disk() {
    let bytes = disk_with_holes(SIZE);
    for (program, name) in [
        ("gzip", "gz"),
        ("xz", "xz"),
        ("zstd -q", "zst"),
        ("bzip2", "bz2"),
    ] {
        let folder = Folder::new();
        folder.write("a", &bytes[..SIZE / 2]);
        folder.write("b", &bytes[SIZE / 2..]);
        folder.run(&format!("{program} a"));
        folder.run(&format!("{program} b"));
        let part = |n: &str| std::fs::read(folder.at(&format!("{n}.{name}"))).unwrap();
        folder.write("both", &[part("a"), part("b")].concat());
        let image = ImageOptions::new().open(folder.at("both")).unwrap();
        assert!(
            read(&*image.backend, 0, SIZE).unwrap() == bytes,
            "{program}"
        );
    }
}

#[test]
fn a_container_inside_a_stream_is_opened_too() {
    let bytes = disk_with_holes(SIZE);
    let folder = Folder::new();
    folder.write("disk", &bytes);
    folder.run("qemu-img convert -f raw -O qcow2 disk image");
    folder.run("xz -0 image");
    let image = ImageOptions::new().open(folder.at("image.xz")).unwrap();
    let formats: Vec<_> = image.layers.iter().map(|l| l.format).collect();
    assert_eq!(formats, [Format::Xz, Format::Qcow2]);
    assert!(read(&*image.backend, 0, SIZE).unwrap() == bytes);
}

#[test]
fn a_stream_is_written_over_an_overlay_only() {
    let bytes = disk_with_holes(SIZE);
    for (make, name, _, _) in STREAMS {
        let folder = Folder::new();
        folder.write("disk", &bytes);
        folder.run(make);
        let mut options = ImageOptions::new();
        let refused = options.write(true).open(folder.at(name)).err().unwrap();
        assert!(refused.to_string().contains("overlay"), "{refused}");
        let options = options.overlay(folder.at("over"));
        let disk = options.open(folder.at(name)).unwrap().backend;
        write(&*disk, 5, b"changed").unwrap();
        drop(disk);
        let disk = options.open(folder.at(name)).unwrap().backend;
        assert_eq!(read(&*disk, 5, 7).unwrap(), b"changed", "{make}");
        assert!(
            read(&*disk, 12, SIZE - 12).unwrap() == bytes[12..],
            "{make}"
        );
        // QEMU cannot read this, and must not take the stream for a disk.
        let read = folder.try_run("qemu-img convert -O raw over out");
        assert!(!read.status.success());
    }
}

#[test]
fn a_damaged_stream_is_an_error_and_never_other_bytes() {
    let bytes = disk_with_holes(SIZE);
    let mut numbers = Numbers(6);
    for (make, name, _, _) in STREAMS {
        let folder = Folder::new();
        folder.write("disk", &bytes);
        folder.run(make);
        let whole = std::fs::read(folder.at(name)).unwrap();
        for turn in 0..30 {
            let mut damaged = whole.clone();
            let at = numbers.next(whole.len() as u64) as usize;
            match turn % 2 {
                0 => damaged.truncate(at),
                _ => damaged[at] ^= 1 << numbers.next(8),
            }
            folder.write("damaged", &damaged);
            let format = ImageOptions::new().open(folder.at(name)).unwrap().layers[0].format;
            let opened = ImageOptions::new()
                .format(format)
                .open(folder.at("damaged"));
            let Ok(image) = opened else { continue };
            // zstd and gzip have marks that nothing checks.
            if image.backend.size() == SIZE as u64 {
                if let Ok(got) = read(&*image.backend, 0, SIZE) {
                    assert!(got == bytes, "{make}: bit at {at}");
                }
            }
        }
    }
}

#[test]
fn a_small_stream_does_not_fill_the_temporary_folder() {
    let folder = Folder::new();
    folder.write("disk", &vec![7; 400 << 20]);
    folder.run("zstd -q --rm disk");
    assert!(folder.at("disk.zst").metadata().unwrap().len() < 1 << 20);
    let error = ImageOptions::new().open(folder.at("disk.zst")).err();
    let said = error.expect("too much").to_string();
    assert!(said.contains("too much for its size"), "{said}");
    assert!(said.contains("unpack it yourself"), "{said}");
    // Zeros take no room, and are no reason.
    folder.write("zeros", &vec![0; 400 << 20]);
    folder.run("zstd -q --rm zeros");
    let image = ImageOptions::new().open(folder.at("zeros.zst")).unwrap();
    assert_eq!(image.backend.size(), 400 << 20);
}
