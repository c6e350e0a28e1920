//! A VHDX whose writer stopped between its log and its tables. QEMU writes the
//! log; the tables are put back to what they were, and QEMU says what it means.

mod common;
mod qemu;

use common::read;
use qemu::*;
use std::path::Path;
use tane_images::ImageOptions;

const KIB: usize = 1 << 10;

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn long(bytes: &[u8], at: usize) -> usize {
    word(bytes, at) | word(bytes, at + 4) << 32
}

/// Three megabytes of 90 behind the first of `image`.
fn make(folder: &Folder) {
    folder.run("qemu-img create -q -f vhdx image 64M");
    let mut qemu = std::process::Command::new("qemu-io");
    qemu.args(["-f", "vhdx", "-c", "write -P 90 1M 3M"]);
    let done = qemu.arg(folder.at("image")).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Make the newest entry of the log the one that was under way, and undo it in
/// the table of blocks.
fn go_back(image: &Path) {
    let mut bytes = std::fs::read(image).unwrap();
    let head = header(&bytes);
    let (len, log) = (word(&bytes, head + 68), long(&bytes, head + 72));
    let entries = (log..log + len).step_by(4 * KIB);
    let entries = entries.filter(|at| bytes[*at..].starts_with(b"loge"));
    let newest = entries
        .max_by_key(|at| long(&bytes, at + 16))
        .expect("an entry");
    let id = bytes[newest + 32..newest + 48].to_vec();
    bytes[head + 48..head + 64].copy_from_slice(&id);
    bytes[head + 4..head + 8].fill(0);
    let sum = crc32c::crc32c(&bytes[head..head + 4 * KIB]);
    bytes[head + 4..head + 8].copy_from_slice(&sum.to_le_bytes());
    // The places that it changes.
    let count = word(&bytes, newest + 24);
    assert!(count > 0, "the entry says nothing");
    for descriptor in 0..count {
        let at = newest + 64 + 32 * descriptor;
        assert_eq!(bytes[at..at + 4], *b"desc");
        let place = long(&bytes, at + 16);
        bytes[place..place + 4 * KIB].fill(0);
    }
    std::fs::write(image, bytes).unwrap();
}

#[test]
fn what_only_the_log_knows_is_read_and_brought_home_by_a_writer() {
    let folder = Folder::new();
    make(&folder);
    let image = folder.at("image");
    go_back(&image);
    std::fs::copy(&image, folder.at("qemus")).unwrap();
    let wanted = vec![90; 3 << 20];

    // A reader changes nothing.
    let before = std::fs::read(&image).unwrap();
    let disk = ImageOptions::new().open(&image).unwrap().backend;
    assert!(read(&*disk, 1 << 20, 3 << 20).unwrap() == wanted);
    assert_eq!(read(&*disk, 0, 4096).unwrap(), [0; 4096]);
    drop(disk);
    assert!(std::fs::read(&image).unwrap() == before);

    // A writer does what QEMU does.
    let disk = ImageOptions::new()
        .write(true)
        .open(&image)
        .unwrap()
        .backend;
    assert!(read(&*disk, 1 << 20, 3 << 20).unwrap() == wanted);
    // The first write says that the log is done with.
    common::write(&*disk, 1 << 20, &[90; 512]).unwrap();
    disk.flush().unwrap();
    drop(disk);
    folder.run("qemu-img check -q -r all -f vhdx qemus");
    folder.run("qemu-img check -q -f vhdx image");
    folder.run("qemu-img compare -q -f vhdx -F vhdx image qemus");
}

#[test]
fn a_log_that_was_torn_is_an_error_and_no_guess() {
    let folder = Folder::new();
    make(&folder);
    let image = folder.at("image");
    go_back(&image);
    let mut bytes = std::fs::read(&image).unwrap();
    for at in (0..bytes.len()).step_by(4 * KIB) {
        if bytes[at..].starts_with(b"loge") {
            bytes[at + 4 * KIB + 100] ^= 1;
        }
    }
    std::fs::write(&image, &bytes).unwrap();
    let error = ImageOptions::new().open(&image).err().expect("an error");
    assert!(error.to_string().contains("log is damaged"), "{error}");
}

/// Have the entry that was under way say something else.
fn doctor(image: &Path, change: impl Fn(&mut [u8])) {
    let mut bytes = std::fs::read(image).unwrap();
    let starts = (0..bytes.len()).step_by(4 * KIB);
    let starts = starts.filter(|at| bytes[*at..].starts_with(b"loge"));
    let newest = starts.max_by_key(|at| long(&bytes, at + 16)).unwrap();
    let len = word(&bytes, newest + 8);
    let entry = &mut bytes[newest..newest + len];
    change(entry);
    entry[4..8].fill(0);
    let sum = crc32c::crc32c(entry);
    entry[4..8].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(image, bytes).unwrap();
}

fn put(entry: &mut [u8], at: usize, value: u64) {
    entry[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// What opening the image for writing says, which leaves it as it is.
fn refusal(image: &Path) -> String {
    let len = || std::fs::metadata(image).unwrap().len();
    let before = len();
    let opened = ImageOptions::new().write(true).open(image);
    let error = opened.err().expect("an error").to_string();
    assert_eq!(len(), before, "{error}");
    error
}

#[test]
fn a_log_makes_the_file_longer_as_far_as_its_disk_may_need_it() {
    let folder = Folder::new();
    make(&folder);
    let image = folder.at("image");
    go_back(&image);
    let len = std::fs::metadata(&image).unwrap().len();
    let made = std::fs::read(&image).unwrap();

    // QEMU rounds up to a whole MiB, and does nothing for what is one.
    let longer = len + (8 << 20) - 512;
    doctor(&image, |entry| put(entry, 56, longer));
    std::fs::copy(&image, folder.at("qemus")).unwrap();
    let disk = ImageOptions::new().write(true).open(&image);
    drop(disk.unwrap());
    assert_eq!(std::fs::metadata(&image).unwrap().len(), longer);
    folder.run("qemu-img check -q -r all -f vhdx qemus");
    let qemus = std::fs::metadata(folder.at("qemus")).unwrap().len();
    assert_eq!(qemus, longer.next_multiple_of(1 << 20));

    // Its end, and the place of a sector. The disk has 64 MiB.
    for at in [56, 64 + 16] {
        std::fs::write(&image, &made).unwrap();
        doctor(&image, |entry| put(entry, at, 1 << 40));
        let error = refusal(&image);
        assert!(error.contains("its log asks for a file of"), "{error}");
    }
}

#[test]
fn a_log_that_clears_more_than_tables_can_be_is_an_error() {
    let folder = Folder::new();
    make(&folder);
    let image = folder.at("image");
    go_back(&image);
    doctor(&image, |entry| {
        entry[64..68].copy_from_slice(b"zero");
        put(entry, 64 + 8, 18 << 30);
        put(entry, 64 + 16, 1 << 30);
    });
    // Holes, so that there is something to clear.
    let file = std::fs::File::options().write(true).open(&image).unwrap();
    file.set_len(20 << 30).unwrap();
    let error = refusal(&image);
    assert!(error.contains("its log clears"), "{error}");
    let opened = ImageOptions::new().open(&image);
    let error = opened.err().expect("an error").to_string();
    assert!(error.contains("its log clears"), "{error}");
}

/// Where the header that counts is.
fn header(bytes: &[u8]) -> usize {
    let heads = [64 * KIB, 128 * KIB].into_iter();
    heads.max_by_key(|at| long(bytes, at + 8)).unwrap()
}

#[test]
fn a_log_of_entries_inside_entries_is_an_error_before_they_are_all_summed_up() {
    const LOG: usize = 64 << 20;
    let folder = Folder::new();
    make(&folder);
    let image = folder.at("image");
    go_back(&image);
    let mut bytes = std::fs::read(&image).unwrap();
    let (head, at) = (header(&bytes), bytes.len().next_multiple_of(1 << 20));
    let id = bytes[head + 48..head + 64].to_vec();
    bytes[head + 68..head + 72].copy_from_slice(&(LOG as u32).to_le_bytes());
    put(&mut bytes[head..], 72, at as u64);
    bytes[head + 4..head + 8].fill(0);
    let sum = crc32c::crc32c(&bytes[head..head + 4 * KIB]);
    bytes[head + 4..head + 8].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(at + LOG, 0);
    // Each is as long as all: to sum them up takes a tebibyte.
    for entry in bytes[at..].chunks_exact_mut(4 * KIB) {
        entry[..4].copy_from_slice(b"loge");
        entry[8..12].copy_from_slice(&(LOG as u32).to_le_bytes());
        entry[32..48].copy_from_slice(&id);
    }
    std::fs::write(&image, &bytes).unwrap();
    let error = refusal(&image);
    assert!(error.contains("entries inside entries"), "{error}");
}

#[test]
fn a_file_that_was_longer_when_its_log_was_written_is_cut_short() {
    let folder = Folder::new();
    make(&folder);
    let image = folder.at("image");
    go_back(&image);
    let made = std::fs::read(&image).unwrap();
    let flushed = |len: u64| {
        std::fs::write(&image, &made).unwrap();
        doctor(&image, |entry| put(entry, 48, len));
    };
    flushed(made.len() as u64);
    drop(ImageOptions::new().open(&image).unwrap());
    flushed(made.len() as u64 + 1);
    let error = refusal(&image);
    assert!(error.contains("is cut short"), "{error}");
    let error = ImageOptions::new().open(&image).err().expect("an error");
    assert!(error.to_string().contains("is cut short"), "{error}");
}
