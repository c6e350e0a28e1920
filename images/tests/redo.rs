//! Promises of changes that are made as a whole: whenever the process or the power
//! ends, the image is as it was, or whoever opens it next makes it as it was to be.

mod common;

use common::{pattern, read, write, Temporary};
use std::sync::Arc;
use tane_images::power::{cut, Survives};
use tane_images::{redo_path, Event, Failure, Fault, ImageOptions, Operation, Raw, Redo};

const SIZE: usize = 3 << 20;

/// Goes with its test.
struct Beside(std::path::PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn image() -> (Temporary, Beside) {
    let image = Temporary::new(&pattern(SIZE, 1));
    let redo = redo_path(&image.0).expect("a file");
    (image, Beside(redo))
}

/// What is changed, and the outcome.
fn change(disk: &dyn tane_images::Backend) -> Vec<u8> {
    let mut wanted = pattern(SIZE, 1);
    let mut state = 7usize;
    for turn in 0..60 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let len = 1 + (state >> 17) % 70_000;
        let at = (state >> 33) % (SIZE - len);
        match turn % 5 {
            4 => {
                disk.write_zeroes(at as u64, len as u64, true)
                    .expect("zeros");
                wanted[at..at + len].fill(0);
            }
            _ => {
                let data = pattern(len, turn);
                write(disk, at as u64, &data).expect("recorded");
                wanted[at..at + len].copy_from_slice(&data);
            }
        }
        let look = read(disk, (at / 2) as u64, len).expect("reads");
        assert!(look == wanted[at / 2..at / 2 + len], "turn {turn}");
    }
    disk.flush().expect("recorded");
    wanted
}

fn open(image: &Temporary, write: bool) -> std::io::Result<tane_images::Image> {
    ImageOptions::new().write(write).open(&image.0)
}

#[test]
fn nothing_changes_until_all_of_it_does() {
    let (image, _beside) = image();
    let redo = Arc::new(Redo::beside(&image.0, None).expect("made"));
    let opened = ImageOptions::new()
        .write(true)
        .redo(redo.clone())
        .open(&image.0);
    let disk = opened.expect("opens").backend;
    redo.begin().expect("begins");
    change(&*disk);
    assert!(image.bytes() == pattern(SIZE, 1));
    redo.abandon();
    assert!(read(&*disk, 0, SIZE).expect("reads") == pattern(SIZE, 1));
    redo.begin().expect("begins");
    let wanted = change(&*disk);
    redo.commit().expect("is made");
    assert!(image.bytes() == wanted);
    redo.remove();
    assert!(!redo_path(&image.0).expect("a file").exists());
}

#[test]
fn whenever_the_power_fails_while_it_is_made_the_next_writer_finishes_it() {
    let (image, beside) = image();
    let file = Arc::new(Raw::open(&image.0, common::WRITE).expect("opens"));
    let fault = Arc::new(Fault::logging(file));
    let redo = Arc::new(Redo::beside(&image.0, None).expect("made"));
    let disk = redo.over(fault.clone());
    redo.begin().expect("begins");
    let wanted = change(&*disk);
    // What it says is there before the first byte is written back.
    fault.plan(|operation| match operation {
        Operation::Read { .. } => None,
        _ => Some(Failure::errno(libc::EIO)),
    });
    redo.commit().expect_err("the first write fails");
    let sealed = std::fs::read(&beside.0).expect("the file");
    assert!(image.bytes() == pattern(SIZE, 1));
    fault.plan(|_| None);
    redo.commit().expect("is made");
    let log = fault.log();
    drop((disk, fault, redo));

    let mut random = 1u64;
    for end in (0..=log.len()).step_by(3).chain([log.len()]) {
        std::fs::write(&image.0, pattern(SIZE, 1)).expect("as before");
        std::fs::write(&beside.0, &sealed).expect("as before");
        let file = Raw::open(&image.0, common::WRITE).expect("opens");
        let survives = |_: usize, _: &Event| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match random >> 62 {
                0 => Survives::Nothing,
                1 => Survives::Torn { bytes: 512 },
                _ => Survives::All,
            }
        };
        cut(&log[..end], &file, survives).expect("cuts");
        drop(file);
        // Nobody reads a mixture.
        let refused = open(&image, false).err().expect("refused").to_string();
        assert!(refused.contains("tane fsck --repair"), "{refused}");
        let disk = open(&image, true).expect("is finished").backend;
        assert!(
            read(&*disk, 0, SIZE).expect("reads") == wanted,
            "after {end}"
        );
        drop(disk);
        open(&image, false).expect("is whole");
    }
}

#[test]
fn what_was_not_complete_when_the_power_failed_counts_for_nothing() {
    let (image, beside) = image();
    let redo = Arc::new(Redo::beside(&image.0, None).expect("made"));
    let file = Arc::new(Raw::open(&image.0, common::WRITE).expect("opens"));
    let disk = redo.over(file.clone());
    redo.begin().expect("begins");
    change(&*disk);
    drop((disk, file, redo));
    assert!(beside.0.metadata().expect("there").len() > 4096);
    let disk = open(&image, true).expect("opens").backend;
    assert!(read(&*disk, 0, SIZE).expect("reads") == pattern(SIZE, 1));
}

#[test]
fn what_is_about_another_file_of_that_name_is_not_done_to_it() {
    let (image, beside) = image();
    let redo = Arc::new(Redo::beside(&image.0, None).expect("made"));
    let file = Arc::new(Raw::open(&image.0, common::WRITE).expect("opens"));
    let fault = Arc::new(Fault::logging(file));
    let disk = redo.over(fault.clone());
    redo.begin().expect("begins");
    change(&*disk);
    fault.plan(|_| Some(Failure::errno(libc::EIO)));
    redo.commit().expect_err("the first write fails");
    drop((disk, fault, redo));
    // Made before the other one goes, so that it has another inode.
    let other = image.0.with_extension("other");
    std::fs::write(&other, pattern(SIZE, 2)).expect("another");
    std::fs::rename(&other, &image.0).expect("replaced");
    for write in [false, true] {
        let refused = open(&image, write).err().expect("refused").to_string();
        assert!(refused.contains("remove it"), "{refused}");
    }
    assert!(image.bytes() == pattern(SIZE, 2));
    std::fs::remove_file(&beside.0).expect("the remedy");
    open(&image, true).expect("opens");
}
