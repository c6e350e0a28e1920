//! Promises about exports of real servers of NBD: what is read and written is what the
//! server's file has.

mod common;

use common::nbd::{named, says};
use common::{pattern, read, write};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tane_images::{Backend, Image, ImageOptions};
use tane_test_support::nbd::{serve, Served};
use tane_test_support::{eventually, tool, Dice, Scratch};

const MIB: usize = 1 << 20;

fn open(url: &str, write: bool) -> io::Result<Image> {
    ImageOptions::new().write(write).open(url)
}

fn disk(url: &str, write: bool) -> Arc<dyn Backend> {
    open(url, write).unwrap_or_else(|e| panic!("{e}")).backend
}

/// Options by which disks are written, and what is told of them.
fn telling() -> (ImageOptions, Arc<Mutex<Vec<String>>>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = told.clone();
    let mut options = ImageOptions::new();
    options.notice(move |text| to.lock().expect("what was told").push(text.to_owned()));
    options.write(true);
    (options, told)
}

fn file(s: &Scratch, bytes: &[u8]) -> String {
    named(s, "disk", bytes)
}

/// Reads, writes, zeroes and holes anywhere, as a file of ours has them.
fn follows(disk: &dyn Backend, model: &mut [u8], unit: usize, seed: u64) {
    let mut dice = Dice(seed);
    let mut roll = |below: usize| dice.roll(below);
    for turn in 0..200 {
        let len = (roll(40) + 1) * unit * if turn % 16 == 0 { 64 } else { 1 };
        let len = len.min(model.len());
        let at = roll((model.len() - len) / unit + 1) * unit;
        let range = at..at + len;
        match roll(4) {
            0 => {
                let bytes = pattern(len, turn as u8);
                write(disk, at as u64, &bytes).expect("written");
                model[range].copy_from_slice(&bytes);
            }
            1 => {
                let holes = turn % 2 == 0;
                disk.write_zeroes(at as u64, len as u64, holes)
                    .expect("zeroes");
                model[range].fill(0);
            }
            _ => assert!(read(disk, at as u64, len).expect("read") == model[range]),
        }
    }
    assert!(read(disk, 0, model.len()).expect("all of it") == model);
}

#[test]
fn qemu_nbd_has_what_was_written_and_gives_what_it_has() {
    let s = Scratch::new("nbd");
    let mut bytes = pattern(9 * MIB, 1);
    let path = file(&s, &bytes);
    let Some(server) = serve(&s, &["qemu-nbd", "-f", "raw", "-x", "a b", &path]) else {
        return;
    };
    let disk = disk(&server.url("a%20b"), true);
    assert_eq!(disk.size(), bytes.len() as u64);
    assert!(!disk.read_only());
    follows(&*disk, &mut bytes, 512, 1);
    disk.flush().expect("flushed");
    assert!(std::fs::read(&path).expect("the file") == bytes);
}

#[test]
fn nbdkit_too_and_blocks_of_its_choice_are_whole_blocks() {
    for sizes in [
        "",
        "blocksize-minimum=512 blocksize-maximum=4096",
        "blocksize-minimum=4096 blocksize-preferred=65536 blocksize-maximum=1M",
        "blocksize-minimum=65536 blocksize-preferred=65536 blocksize-maximum=192K",
    ] {
        let s = Scratch::new("nbd");
        let mut bytes = pattern(4 * MIB, 2);
        let path = file(&s, &bytes);
        let mut words = vec!["--filter=blocksize-policy", "file", &path];
        words.extend(sizes.split_whitespace());
        // What is not whole is an error there.
        words.push("blocksize-error-policy=error");
        let Some(server) = serve(&s, &words) else {
            return;
        };
        let disk = disk(&server.url(""), true);
        let smallest = if sizes.contains("=4096 ") || sizes.contains("=65536 ") {
            4096
        } else {
            512
        };
        assert_eq!(disk.block_sizes().0, smallest, "{sizes}");
        // Whatever whoever asks is aligned to.
        follows(&*disk, &mut bytes, 512, 3);
        follows(&*disk, &mut bytes, 1, 4);
        disk.flush().expect("flushed");
        assert!(std::fs::read(&path).expect("the file") == bytes, "{sizes}");
    }
}

#[test]
fn parts_of_a_block_that_threads_write_at_once_are_all_there() {
    let s = Scratch::new("nbd");
    let path = file(&s, &vec![0; MIB]);
    let words = [
        "--filter=blocksize-policy",
        "file",
        &path,
        "blocksize-minimum=65536",
        "blocksize-preferred=65536",
        "blocksize-error-policy=error",
    ];
    let Some(server) = serve(&s, &words) else {
        return;
    };
    let disk = &disk(&server.url(""), true);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for block in (thread..256).step_by(8) {
                    let bytes = vec![thread as u8 + 1; 4096];
                    write(&**disk, block as u64 * 4096, &bytes).expect("written");
                }
            });
        }
    });
    let all = read(&**disk, 0, MIB).expect("all of it");
    for (block, bytes) in all.chunks(4096).enumerate() {
        assert!(bytes.iter().all(|b| *b == (block % 8) as u8 + 1), "{block}");
    }
}

/// What a plugin of nbdkit's was asked for.
fn log(s: &Scratch) -> String {
    std::fs::read_to_string(s.join("log")).unwrap_or_default()
}

fn logged(s: &Scratch, words: &[&str]) -> Option<Served> {
    let file = format!("logfile={}", s.join("log").display());
    serve(s, &[&["--filter=log"], words, &[&file]].concat())
}

#[test]
fn flushes_holes_and_zeroes_are_asked_for_as_such() {
    let s = Scratch::new("nbd");
    let Some(server) = logged(&s, &["memory", "1M"]) else {
        return;
    };
    let disk = disk(&server.url(""), true);
    write(&*disk, 4096, &[1; 4096]).expect("written");
    disk.flush().expect("flushed");
    disk.discard(4096, 8192).expect("discarded");
    disk.write_zeroes(0, 512, false).expect("zeroes");
    disk.write_zeroes(512, 512, true).expect("zeroes");
    let log = log(&s);
    for line in [
        "Write id=1 offset=0x1000 count=0x1000 ...",
        "Flush id=",
        "Trim id=3 offset=0x1000 count=0x2000 fua=0",
        "Zero id=4 offset=0x0 count=0x200 trim=0 fua=0",
        "Zero id=5 offset=0x200 count=0x200 trim=1 fua=0",
    ] {
        let words: Vec<_> = line.trim_end_matches(" ...").split(" id=").collect();
        let is_there = |l: &str| {
            l.contains(words[0]) && l.contains(words[1].split_once(' ').map_or("", |w| w.1))
        };
        assert!(log.lines().any(is_there), "{line}: {log}");
    }
    assert!(log
        .lines()
        .any(|l| l.contains("Write") && l.contains("fua=0")));
}

/// A disk of nbdkit's whose abilities are these functions.
fn able(s: &Scratch, abilities: &[&str]) -> Option<Served> {
    let file = file(s, &vec![7; MIB]);
    let words = [
        "eval".to_owned(),
        "get_size=echo 1M".into(),
        format!("pread=dd if={file} iflag=skip_bytes,count_bytes skip=$4 count=$3 2>/dev/null"),
        format!("pwrite=echo pwrite $3 $4 $5 >>{0}; dd of={file} oflag=seek_bytes seek=$4 conv=notrunc 2>/dev/null", s.join("log").display()),
    ];
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    serve(s, &[&words, abilities].concat())
}

#[test]
fn a_server_without_flush_is_told_with_each_write_and_one_without_either_is_spoken_of() {
    let s = Scratch::new("nbd");
    let abilities = [
        "can_write=exit 0",
        "can_flush=exit 3",
        "can_fua=echo native",
    ];
    let Some(server) = able(&s, &abilities) else {
        return;
    };
    let fua = disk(&server.url(""), true);
    write(&*fua, 512, &[1; 512]).expect("written");
    fua.flush().expect("flushed");
    assert_eq!(log(&s), "pwrite 512 512 fua\n");

    let s = Scratch::new("nbd");
    let Some(server) = able(&s, &["can_write=exit 0", "can_flush=exit 3"]) else {
        return;
    };
    let (options, told) = telling();
    let url = server.url("");
    let none = options.open(&url).expect("opens").backend;
    write(&*none, 512, &[1; 512]).expect("written");
    none.flush().expect("flushed");
    // It has no zeroes and no holes either.
    none.write_zeroes(512, 512, true).expect("zeroes");
    none.discard(0, 4096).expect("a hint");
    assert_eq!(
        read(&*none, 0, 1024).expect("read"),
        [vec![7; 512], vec![0; 512]].concat()
    );
    let told = told.lock().expect("what was told");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with(&format!("{url}: NBD has no locks")),
        "{told:?}"
    );
    assert!(told[0].contains("fsync does not"), "{told:?}");
}

#[test]
fn what_a_server_does_not_let_be_written_is_read_and_overlaid() {
    let s = Scratch::new("nbd");
    let bytes = pattern(MIB, 6);
    let path = file(&s, &bytes);
    let Some(server) = serve(&s, &["-r", "file", &path]) else {
        return;
    };
    let url = server.url("");
    let kind = says(open(&url, true), &url, "lets nobody write it");
    assert_eq!(kind, io::ErrorKind::ReadOnlyFilesystem);
    let overlay = s.join("overlay.qcow2");
    let mut options = ImageOptions::new();
    options.write(true).overlay(&overlay);
    let over = options.open(&url).expect("an overlay").backend;
    write(&*over, 512, &[9; 512]).expect("written");
    over.flush().expect("flushed");
    drop(over);
    let again = options.open(&url).expect("the overlay").backend;
    assert_eq!(read(&*again, 512, 512).expect("read"), [9; 512]);
    assert!(read(&*again, 1024, 4096).expect("read") == bytes[1024..5120]);
    // Opened for reading it lets nobody write, whatever the server does.
    let Some(server) = serve(&s, &["file", &path]) else {
        return;
    };
    let disk = disk(&server.url(""), false);
    assert!(disk.read_only());
    for refused in [
        write(&*disk, 0, &[0; 512]),
        disk.write_zeroes(0, 512, true),
        disk.discard(0, 512),
    ] {
        let kind = refused.expect_err("for reading only").kind();
        assert_eq!(kind, io::ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn containers_are_read_and_not_written_and_name_no_files() {
    let s = Scratch::new("nbd");
    let bytes = pattern(MIB, 7);
    let path = file(&s, &bytes);
    let convert = |to: &str, format: &str| {
        let mut qemu = tool("qemu-utils", "qemu-img")?;
        qemu.args(["convert", "-f", "raw", "-O", format]);
        let done = qemu.arg(&path).arg(s.join(to)).status().expect("qemu-img");
        assert!(done.success());
        Some(s.join(to).to_str().expect("a name").to_owned())
    };
    let Some(qcow2) = convert("d.qcow2", "qcow2") else {
        return;
    };
    let Some(server) = serve(&s, &["file", &qcow2]) else {
        return;
    };
    let url = server.url("");
    assert!(read(&*disk(&url, false), 0, MIB).expect("read") == bytes);
    says(
        open(&url, true),
        &url,
        "is qcow2, whose file may have to grow",
    );
    // What is read in a file, too.
    let vdi = convert("d.vdi", "vdi").expect("qemu-img was there");
    let Some(server) = serve(&s, &["file", &vdi]) else {
        return;
    };
    let url = server.url("");
    assert!(read(&*disk(&url, false), 0, MIB).expect("read") == bytes);
    says(
        open(&url, true),
        &url,
        "is in the format vdi, and can only be read",
    );
    // As the server may open it.
    let Some(server) = serve(&s, &["qemu-nbd", "-f", "qcow2", &qcow2]) else {
        return;
    };
    write(&*disk(&server.url(""), true), 0, &[1; 512]).expect("written");
    let mut qemu = tool("qemu-utils", "qemu-img").expect("it was there");
    let top = s.join("top.qcow2");
    qemu.args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"]);
    assert!(qemu.arg(&qcow2).arg(&top).status().expect("it").success());
    let Some(server) = serve(&s, &["file", top.to_str().expect("a name")]) else {
        return;
    };
    let url = server.url("");
    says(open(&url, false), &url, "has no files beside an export");
}

#[test]
fn what_the_server_cannot_do_is_its_error_and_the_connection_goes_on() {
    let s = Scratch::new("nbd");
    let once = s.join("trigger");
    let trigger = format!("error-file={}", once.display());
    let words = [
        "--filter=error",
        "memory",
        "1M",
        "error=ENOSPC",
        "error-rate=100%",
        &trigger,
    ];
    let Some(server) = serve(&s, &words) else {
        return;
    };
    let url = server.url("");
    let disk = disk(&url, true);
    write(&*disk, 0, &[1; 4096]).expect("written");
    std::fs::write(&once, b"").expect("the trigger");
    let kind = says(write(&*disk, 0, &[2; 4096]), &url, "write 4096 bytes at 0");
    assert_eq!(kind, io::ErrorKind::StorageFull);
    says(read(&*disk, 0, 4096), &url, "No space left");
    std::fs::remove_file(&once).expect("no trigger");
    assert_eq!(read(&*disk, 0, 4096).expect("read"), [1; 4096]);
}

#[test]
fn threads_that_read_at_once_have_what_each_of_them_asked_for() {
    let s = Scratch::new("nbd");
    // So that many requests are under way.
    let words = ["--filter=delay", "pattern", "64M", "rdelay=20ms"];
    let Some(server) = serve(&s, &words) else {
        return;
    };
    let disk = &disk(&server.url(""), false);
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            scope.spawn(move || {
                let at = thread * (3 * MIB as u64) + 8;
                let bytes = read(&**disk, at, 8).expect("read");
                // nbdkit-pattern-plugin: each word is its own place.
                assert_eq!(bytes, at.to_be_bytes());
            });
        }
    });
}

#[test]
fn a_server_that_dies_is_an_error_at_once_and_ever_after() {
    let s = Scratch::new("nbd");
    let Some(mut server) = serve(&s, &["memory", "1M"]) else {
        return;
    };
    let url = server.url("");
    let disk = disk(&url, true);
    write(&*disk, 0, &[1; 512]).expect("written");
    server.kill();
    for _ in 0..3 {
        says(read(&*disk, 0, 512), &url, "the connection");
        says(write(&*disk, 0, &[1; 512]), &url, "the connection");
        says(disk.flush(), &url, "the connection");
    }
}

#[test]
fn who_has_to_wait_for_another_client_is_told_why_and_two_writers_that_nobody_looks() {
    let s = Scratch::new("nbd");
    let path = file(&s, &[0; 4096]);
    let Some(server) = serve(&s, &["qemu-nbd", "-f", "raw", &path]) else {
        return;
    };
    let url = server.url("");
    let first = disk(&url, true);
    let mut options = ImageOptions::new();
    let waits = options.timeout(Duration::from_millis(200)).open(&url);
    says(waits, &url, "--shared");
    drop(first);
    // It is told that nobody needs it any more.
    eventually("the next one is served", || {
        options.timeout(Duration::from_secs(5)).open(&url).is_ok()
    });

    let Some(server) = serve(&s, &["memory", "1M"]) else {
        return;
    };
    let (options, told) = telling();
    let [one, other] = [(); 2].map(|()| options.open(server.url("")).expect("opens").backend);
    write(&*one, 0, &[1; 512]).expect("written");
    assert_eq!(read(&*other, 0, 512).expect("read"), [1; 512]);
    let told = told.lock().expect("what was told");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter().all(|text| text.contains("NBD has no locks")),
        "{told:?}"
    );
}
