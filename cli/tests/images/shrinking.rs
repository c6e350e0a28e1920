//! Promises about images that somebody cuts off or removes while they are open: reads
//! are errors that name the file, and nothing else suffers.

use crate::common::fuse::*;
use crate::common::*;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Output, Stdio};

const MIB: usize = 1 << 20;

fn content() -> Vec<u8> {
    (0..8 * MIB as u32 / 4)
        .flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_le_bytes())
        .collect()
}

/// An image with a large file and a small one, which is read before anything happens.
fn raw(s: &Scratch) -> PathBuf {
    s.write("tree/big", &content());
    s.write("tree/small", b"small");
    s.ext4("disk.img", Some(&s.join("tree")), 32)
}

fn qcow2(s: &Scratch) -> Option<PathBuf> {
    let mut convert = tane_test_support::tool("qemu-utils", "qemu-img")?;
    let image = s.join("disk.qcow2");
    succeed(
        convert
            .args(["convert", "-O", "qcow2"])
            .arg(raw(s))
            .arg(&image),
    );
    Some(image)
}

fn cut(image: &Path, len: u64) {
    let file = File::options().write(true).open(image);
    file.and_then(|file| file.set_len(len)).expect("cuts");
}

/// A session in an image, which has `small` in its caches when `between` is called.
fn session(s: &Scratch, image: &Path, script: &str, between: impl FnOnce()) -> Output {
    let mut command = s.tane();
    command.args(["sh", "--share", "."]).arg(image);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("tane");
    let mut stdin: ChildStdin = child.stdin.take().expect("stdin");
    let stdout: ChildStdout = child.stdout.take().expect("stdout");
    stdin
        .write_all(b"get small first\necho ready\n")
        .expect("writes");
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    while stdout.read_line(&mut line).expect("reads") > 0 && !line.ends_with("ready\n") {}
    between();
    stdin.write_all(script.as_bytes()).expect("writes");
    drop(stdin);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut rest).expect("reads");
    let mut output = child.wait_with_output().expect("an end");
    output.stdout = rest;
    output
}

fn assert_lost_only_big(s: &Scratch, output: &Output) {
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.code().is_some(), "{:?}", output.status);
    assert!(said.contains("alive"), "{said}{told}");
    // By the name that the file has, or, where the host reads, the copy would have.
    assert!(told.contains("big") || told.contains("out: "), "{told}");
    assert!(!s.join("out").exists(), "{told}");
    assert_eq!(s.read("first"), b"small");
}

#[test]
fn a_raw_image_that_is_cut_off_is_an_error_of_its_files_in_a_session() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = raw(&s);
    let script = "get big out\necho alive\n";
    let output = session(&s, &image, script, || cut(&image, MIB as u64));
    assert_lost_only_big(&s, &output);
}

#[test]
fn a_qcow2_image_that_is_cut_off_is_an_error_of_its_files_in_a_session() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let Some(image) = qcow2(&s) else { return };
    let script = "get big out\necho alive\n";
    // Its tables stay; most of its clusters go.
    let output = session(&s, &image, script, || cut(&image, MIB as u64));
    assert_lost_only_big(&s, &output);
}

#[test]
fn an_image_that_is_removed_stays_as_long_as_it_is_open() {
    if !has_kernel() {
        return;
    }
    for kind in ["raw", "qcow2"] {
        let s = Scratch::new();
        let image = match kind {
            "raw" => Some(raw(&s)),
            _ => qcow2(&s),
        };
        let Some(image) = image else { return };
        let output = session(&s, &image, "get big out\n", || {
            std::fs::remove_file(&image).expect("removes");
        });
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(s.read("out") == content(), "{kind}");
    }
}

#[test]
fn a_mounted_image_that_is_cut_off_gives_eio_and_can_be_unmounted() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let image = raw(&s);
    let mounted = Mounted::new(&s, &["disk.img"]);
    assert_eq!(
        std::fs::read(mounted.join("small")).expect("reads"),
        b"small"
    );
    let big = File::open(mounted.join("big")).expect("opens");
    cut(&image, MIB as u64);
    let mut bytes = vec![0; 8 * MIB];
    let error = big.read_exact_at(&mut bytes, 0).expect_err("an error");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    drop(big);
    assert!(mounted.join("small").exists());
    mounted.unmount();
}
