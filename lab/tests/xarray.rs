//! An XArray shown by a file (kernel/arch/tane/examples/xarray/seqfile.c): reads of any
//! size, while others store and erase.

mod common;

use common::{assert_healthy, boot, Done};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use tane::{errno_of, Kernel, Mount, MountOptions, OpenOptions};

fn proc(kernel: &Kernel) -> Mount {
    let mut options = MountOptions::new();
    options.fstype("proc").mount(kernel, "proc").expect("/proc")
}

fn tell(proc: &Mount, request: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).open(proc, "tane-xarray")?;
    file.write_all(request.as_bytes())
}

/// All lines, by reads of so many bytes.
fn read_by(proc: &Mount, piece: usize) -> Vec<u64> {
    let mut file = proc.open("tane-xarray").expect("opens");
    let (mut text, mut bytes) = (Vec::new(), vec![0; piece]);
    loop {
        match file.read(&mut bytes).expect("reads") {
            0 => break,
            len => text.extend_from_slice(&bytes[..len]),
        }
    }
    let text = String::from_utf8(text).expect("text");
    let line = |line: &str| {
        let (index, value) = line.split_once(' ').expect("two numbers");
        assert_eq!(index, value, "a line is of one entry");
        index.parse().expect("a number")
    };
    text.lines().map(line).collect()
}

#[test]
fn a_file_shows_each_entry_once_and_in_order_however_it_is_read() {
    let Some(kernel) = boot(1, "") else { return };
    let proc = proc(&kernel);
    assert!(read_by(&proc, 4096).is_empty());
    tell(&proc, "store 5 3000").unwrap();
    tell(&proc, "store 9223372036854775800 7").unwrap();
    tell(&proc, "erase 100 50").unwrap();
    let near = (5..3005).filter(|index| !(100..150).contains(index));
    let far = 9223372036854775800..9223372036854775807;
    let all: Vec<u64> = near.chain(far).collect();
    for piece in [7, 64, 4096, 1 << 20] {
        assert_eq!(read_by(&proc, piece), all, "by {piece} bytes");
    }
    // From a position in the middle, as pread(2) and lseek(2) have it.
    let mut file = proc.open("tane-xarray").unwrap();
    file.seek(SeekFrom::Start(8)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("7 7\n8 8\n"), "{}", &text[..40]);
    for bad in [
        "store 1",
        "store 1 0",
        "store 1 65537",
        "store 9223372036854775807 1",
        "lose 1 1",
        "",
        &"store 1 1".repeat(9),
    ] {
        let Err(error) = tell(&proc, bad) else {
            assert_eq!(bad, "", "{bad} was taken");
            continue;
        };
        assert_eq!(errno_of(&error), Some(libc::EINVAL), "{bad}");
    }
    assert_healthy(&kernel);
}

#[test]
fn what_stays_is_shown_while_others_store_and_erase() {
    let Some(kernel) = boot(2, "") else { return };
    let proc = proc(&kernel);
    // These stay; what is between them comes and goes.
    for first in (0..20_000).step_by(2_000) {
        tell(&proc, &format!("store {first} 1000")).unwrap();
    }
    let stays = |index: &u64| *index < 20_000 && index % 2_000 < 1_000;
    let all: Vec<u64> = (0..20_000).filter(stays).collect();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for verb in ["store", "erase"] {
                    for first in (1_000..20_000).step_by(2_000) {
                        tell(&proc, &format!("{verb} {first} 1000")).unwrap();
                    }
                }
            }
        });
        for round in 0..40 {
            let seen = read_by(&proc, if round % 2 == 0 { 512 } else { 65536 });
            assert!(seen.is_sorted_by(|a, b| a < b), "each once, in order");
            let of_those: Vec<u64> = seen.into_iter().filter(stays).collect();
            assert_eq!(of_those, all);
        }
    });
    assert_healthy(&kernel);
}
