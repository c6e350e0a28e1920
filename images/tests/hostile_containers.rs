//! Containers with anything in them: an error or a disk, never a panic, a hang
//! or memory without bounds.

mod common;
mod makers;
mod qemu;

use common::read;
use qemu::*;
use std::io::Write;
use tane_images::{Backend, Format, ImageOptions};

/// Everything that can be asked of a disk that may be nonsense.
fn use_it(disk: &dyn Backend, write: bool) {
    let size = disk.size();
    for at in [0, size / 7, size / 2, size.saturating_sub(100_000)] {
        let len = size.saturating_sub(at).min(100_000) as usize;
        let _ = read(disk, at, len);
        if write {
            let _ = common::write(disk, at, &vec![3; len]);
            let _ = disk.write_zeroes(at, len as u64, true);
            let _ = disk.discard(at, len as u64);
        }
    }
    let _ = disk.flush();
}

/// It names the file, and says what is wrong with it.
fn assert_useful(told: &str, path: &std::path::Path, format: &str) {
    let folder = path.parent().and_then(|at| at.to_str()).expect("UTF-8");
    assert!(told.starts_with(folder), "{format}: {told}");
    // What the standard library says of any file that is too short.
    assert!(!told.contains("failed to fill"), "{format}: {told}");
    let why = told.split_once(": ").map_or("", |(_, why)| why);
    let words = why.split_whitespace().count();
    assert!(words >= 3, "{format}: {told}");
}

/// What asks for more memory fails, and aborts.
fn limit_memory() {
    let limit = libc::rlimit {
        rlim_cur: 3 << 30,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: no memory involved.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Damage `image` in many ways, and use what is left.
fn damage(folder: &Folder, name: &str, numbers: &mut Numbers) {
    let whole = std::fs::read(folder.at("image")).unwrap();
    // Where the structures are: a fixed VHD has them at its end only.
    let head = whole.len().min(4 << 20) as u64;
    let mut changed = 0;
    for turn in 0..80 {
        let mut image = whole.clone();
        for _ in 0..1 + numbers.next(4) {
            let at = match numbers.next(4) {
                0 => numbers.next(head),
                1 => numbers.next(512.min(head)),
                2 => whole.len() as u64 - 1 - numbers.next(1024.min(head)),
                _ => numbers.next(1 << 12) * 512 % head + numbers.next(64),
            };
            let at = (at as usize).min(whole.len() - 1);
            let value = [0, 0xff, 0x7f, 0x80, numbers.next(256) as u8][numbers.next(5) as usize];
            let len = [1, 2, 4, 8][numbers.next(4) as usize].min(whole.len() - at);
            image[at..at + len].fill(value);
        }
        if turn % 20 == 0 {
            image.truncate(numbers.next(whole.len() as u64) as usize);
        }
        std::fs::File::create(folder.at("image"))
            .and_then(|mut f| f.write_all(&image))
            .unwrap();
        let write = turn % 3 == 0;
        let format: Format = match name {
            "android" => Format::AndroidSparse,
            _ => name.split('-').next().unwrap().parse().unwrap(),
        };
        let mut options = ImageOptions::new();
        options.format(format).write(write).secret("a passphrase");
        let mut opened = options.open(folder.at("image"));
        if matches!(&opened, Err(e) if e.to_string().contains("only be read")) {
            opened = options.write(false).open(folder.at("image"));
        }
        match opened {
            Ok(image) => use_it(&*image.backend, write),
            Err(e) => {
                changed += 1;
                assert_useful(&e.to_string(), &folder.at("image"), format.name());
            }
        }
    }
    println!("{name}: {changed} refused when opened");
}

/// Encrypted inside, and how it is made.
const ENCRYPTED: &[(&str, &str)] = &[
    (
        "qcow2-luks",
        "-O qcow2 -o encrypt.format=luks,encrypt.iter-time=10",
    ),
    ("qcow2-aes", "-O qcow2 -o encrypt.format=aes"),
    ("qcow-aes", "-O qcow -o encrypt.format=aes"),
];

#[test]
fn mutated_images_of_each_kind_are_errors_or_disks() {
    limit_memory();
    let bytes = disk_with_holes(2 << 20);
    let mut numbers = Numbers(0x7a6e);
    for (name, words) in [WRITABLE, READABLE].concat() {
        let folder = Folder::new();
        folder.write("disk", &bytes);
        folder.run(&format!("qemu-img convert -f raw {words} disk image"));
        damage(&folder, name, &mut numbers);
    }
    for (name, words) in ENCRYPTED {
        let folder = Folder::new();
        folder.write("disk", &bytes);
        let secret = "--object secret,id=s,data=a\u{a0}passphrase";
        let words = format!("{words},encrypt.key-secret=s");
        folder.run_luks(&format!(
            "qemu-img convert -f raw {secret} {words} disk image"
        ));
        damage(&folder, name, &mut numbers);
    }
    let folder = Folder::new();
    packed_qcow(&folder, 2 << 20);
    damage(&folder, "qcow-packed", &mut numbers);
    for (name, kind) in makers::dmg::KINDS {
        folder.write("image", &makers::dmg::make(&bytes, *kind));
        damage(&folder, &format!("dmg-{name}"), &mut numbers);
    }
    folder.write("disk.raw", &bytes);
    if makers::android(&folder, 4096).is_some() {
        // In the image's own name.
        damage(&folder, "android", &mut numbers);
    }
    for (words, made) in [("-c fast", "image.E01"), ("-c none -f smart", "image.s01")] {
        if makers::ewf(&folder, words).is_some() {
            std::fs::rename(folder.at(made), folder.at("image")).unwrap();
            damage(&folder, "ewf", &mut numbers);
        }
    }
}
