//! Promises of `tane convert` into a volume that is there. Judges are e2fsck, sfdisk,
//! qemu-img and the bytes of the image themselves.

use crate::common::*;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};
use tane_test_support::eventually;

const MIB: usize = 1 << 20;
/// Where partition 2 of the disk is, and how long.
const START: usize = 5 * MIB;
const SIZE: usize = 40 * MIB;

/// A disk whose first megabytes, and whose partition 2, have nothing but ones.
fn disk(s: &Scratch) -> Vec<u8> {
    s.write("disk.img", &vec![0; 64 * MIB]);
    let shell = "printf 'label: gpt\\n,4M\\n,40M\\n' | /usr/sbin/sfdisk -q disk.img";
    succeed(s.tool("sh").args(["-c", shell]));
    let mut bytes = s.read("disk.img");
    bytes[MIB..START + SIZE].fill(0xff);
    s.write("disk.img", &bytes);
    bytes
}

/// An ext4 of so many MiB with files in it.
fn root(s: &Scratch, mib: u32) -> Vec<u8> {
    let tree = s.sample("tree", 20);
    s.ext4("root.img", Some(&tree), mib);
    s.read("root.img")
}

fn convert(s: &Scratch, args: &[&str]) -> Command {
    let mut tane = s.tane();
    tane.arg("convert").args(args);
    tane
}

/// What it says of what cannot be done, which leaves the disk as it is.
fn refused(s: &Scratch, image: &str, args: &[&str], code: i32) -> String {
    let before = s.read(image);
    let said = text(&exit(&mut convert(s, args), code).stderr);
    assert!(s.read(image) == before, "{args:?} changed it: {said}");
    said
}

#[test]
fn a_partition_gets_the_bytes_of_a_file_and_nothing_else_changes() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut wanted = disk(&s);
    let new = root(&s, 30);
    let to_qcow2 = ["convert", "-O", "qcow2", "disk.img", "disk.qcow2"];
    succeed(s.tool("qemu-img").args(to_qcow2));
    wanted[START..START + new.len()].copy_from_slice(&new);
    let zstd = ["-q", "root.img", "-o", "root.img.zst"];
    succeed(s.tool("zstd").args(zstd));
    for (source, dest) in [("root.img", "disk.img@2"), ("root.img.zst", "disk.qcow2@2")] {
        let said = text(&succeed(&mut convert(&s, &["--force", source, dest])).stderr);
        let behind = SIZE - new.len();
        assert!(said.contains(&format!("{behind} bytes behind")), "{said}");
    }
    assert!(s.read("disk.img") == wanted, "other bytes than those");
    let verify = ["--verify", "-q", "disk.img"];
    succeed(sbin("sfdisk").args(verify).current_dir(s.path()));
    let compare = ["compare", "-q", "disk.img", "disk.qcow2"];
    succeed(s.tool("qemu-img").args(compare));
    s.write("two.img", &s.read("disk.img")[START..START + new.len()]);
    assert_sound(&s.join("two.img"));
}

#[test]
fn a_luks_volume_gets_the_bytes_encrypted_and_keeps_its_header() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let Some(mut cryptsetup) = tane_test_support::tool("cryptsetup-bin", "cryptsetup") else {
        return;
    };
    let new = root(&s, 30);
    s.write("key", b"a secret");
    s.write("other", b"another secret");
    s.write("luks.img", &vec![0; 36 * MIB]);
    // QEMU reads the first version of it.
    let words = "luksFormat -q --key-file key --type luks1 --pbkdf-force-iterations 1000 \
                 --hash sha256 luks.img";
    let words = words.split_whitespace();
    succeed(cryptsetup.args(words).current_dir(s.path()));
    let header = s.read("luks.img")[..MIB].to_vec();

    let key = ["--key-file=key", "root.img", "luks.img"];
    let said = refused(&s, "luks.img", &key, 1);
    assert!(said.contains("--force"), "{said}");
    let wrong = ["--key-file=other", "--force", "root.img", "luks.img"];
    refused(&s, "luks.img", &wrong, 3);
    succeed(convert(&s, &key).arg("--force"));
    assert!(s.read("luks.img")[..MIB] == header, "the header changed");
    let secret = "secret,id=key,file=key,format=raw";
    let opened = "driver=luks,key-secret=key,file.filename=luks.img";
    let mut qemu = s.tool("qemu-img");
    qemu.args([
        "convert",
        "--object",
        secret,
        "--image-opts",
        opened,
        "-O",
        "raw",
        "plain.img",
    ]);
    succeed(&mut qemu);
    assert!(
        s.read("plain.img")[..new.len()] == new,
        "other bytes than those"
    );
    assert_sound(&s.join("root.img"));
    // The key may be SOURCE's, too.
    disk(&s);
    let from = ["--key-file=key", "--force", "luks.img", "disk.img@2"];
    succeed(&mut convert(&s, &from));
    assert!(s.read("disk.img")[START..START + new.len()] == new);
    let none = ["--key-file=key", "--force", "root.img", "disk.img@2"];
    let said = refused(&s, "disk.img", &none, 1);
    assert!(said.contains("opens neither"), "{said}");
    // Nor is a header written over that asks for what is not known.
    let mut other = s.read("luks.img");
    other[72..78].copy_from_slice(b"nosuch");
    s.write("other.img", &other);
    let from = ["--key-file=key", "--force", "luks.img", "other.img"];
    refused(&s, "other.img", &from, 3);
}

#[test]
fn what_a_volume_holds_stays_without_force_and_what_does_not_fit_is_refused() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    disk(&s);
    root(&s, 30);
    s.write("large.img", &vec![7; SIZE + 4096]);
    let size = (SIZE + 4096).to_string();
    for (args, code, why) in [
        (
            &["root.img", "disk.img@2"][..],
            1,
            "data of an unknown kind",
        ),
        (&["--force", "large.img", "disk.img@2"], 1, &size),
        (&["--force", "root.img", "disk.img@3"], 3, "disk.img"),
        (
            &["--force", "root.img", "disk.img@nonsense"],
            2,
            "not a selector",
        ),
        (
            &["--force", "root.img", "disk.img:/file"],
            1,
            "IMAGE@SELECTOR",
        ),
        (&["--force", "disk.img@1", "disk.img@2"], 1, "in one image"),
        (
            &["--force", "--to=raw", "root.img", "disk.img@2"],
            2,
            "--to",
        ),
        (&["--force", "-", "new.img"], 2, "into a volume"),
    ] {
        let said = refused(&s, "disk.img", args, code);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    succeed(&mut convert(&s, &["--force", "root.img", "disk.img@2"]));
    let said = refused(&s, "disk.img", &["root.img", "disk.img@2"], 1);
    assert!(said.contains("holds ext4: --force"), "{said}");
    assert!(!s.join("disk.img@2").exists() && !s.join("new.img").exists());
}

#[test]
fn one_byte_anywhere_in_a_volume_is_not_overwritten_without_force() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut bytes = disk(&s);
    s.write("new.img", &vec![7; MIB]);
    bytes[START..START + SIZE].fill(0);
    let to_qcow2 = ["convert", "-O", "qcow2", "sparse.img", "disk.qcow2"];
    let make = |bytes: &[u8]| {
        s.write("disk.img", bytes);
        succeed(
            s.tool("cp")
                .args(["--sparse=always", "disk.img", "sparse.img"]),
        );
        succeed(s.tool("qemu-img").args(to_qcow2));
    };
    let images = ["disk.img", "sparse.img", "disk.qcow2"];
    for at in [MIB - 1, MIB, SIZE / 2 + 3, SIZE - MIB - 1] {
        bytes[START + at] = 1;
        make(&bytes);
        for image in images {
            let said = refused(&s, image, &["new.img", &format!("{image}@2")], 1);
            assert!(said.contains("data of an unknown kind"), "{at}: {said}");
        }
        bytes[START + at] = 0;
    }
    make(&bytes);
    for image in images {
        succeed(&mut convert(&s, &["new.img", &format!("{image}@2")]));
    }
}

/// With this on its standard input.
fn piped(s: &Scratch, args: &[&str], bytes: &[u8]) -> Output {
    let mut child = convert(s, args);
    child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn().expect("starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // Who refuses it closes the pipe.
        scope.spawn(move || pipe.write_all(bytes));
        child.wait_with_output().expect("ends")
    })
}

#[test]
fn standard_input_goes_into_a_volume_to_its_last_byte() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let mut wanted = disk(&s);
    // A hole, and an end that no sector has.
    let mut new = vec![0x55; 3 * MIB + 700];
    new[MIB..].fill(0);
    let said = piped(&s, &["--force", "-", "disk.img@2"], &new);
    assert!(said.status.success(), "{}", text(&said.stderr));
    wanted[START..START + new.len()].copy_from_slice(&new);
    assert!(s.read("disk.img") == wanted, "other bytes than those");

    // How long a pipe is shows at its end; a file tells.
    let long = vec![7; SIZE + 1];
    let said = piped(&s, &["--force", "-", "disk.img@2"], &long);
    let error = text(&said.stderr);
    assert_eq!(said.status.code(), Some(1), "{error}");
    let state = format!("{SIZE} of its {SIZE} bytes are new");
    assert!(
        error.contains("more bytes than the volume") && error.contains(&state),
        "{error}"
    );
    let after = s.read("disk.img");
    assert!(after[START..START + SIZE] == long[..SIZE]);
    assert!(after[START + SIZE..] == wanted[START + SIZE..]);
    s.write("long", &long);
    let mut file = convert(&s, &["--force", "-", "disk.img@2"]);
    file.stdin(std::fs::File::open(s.join("long")).expect("opens"));
    let error = text(&exit(&mut file, 1).stderr);
    assert!(error.contains("nothing was written"), "{error}");
    assert!(s.read("disk.img") == after);
}

#[test]
fn an_import_that_is_interrupted_says_how_far_it_came() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let before = disk(&s);
    let mut command = convert(&s, &["--force", "-", "disk.img@2"]);
    heeds_ctrl_c(&mut command);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&vec![1; MIB]).expect("it reads");
    // What is in the pipe has been taken out of it.
    let waiting = |pipe: &std::process::ChildStdin| {
        use std::os::fd::AsRawFd;
        let mut bytes = 0;
        // SAFETY: the result is an int.
        let failed = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        assert_eq!(failed, 0);
        bytes
    };
    eventually("all is read", || waiting(&pipe) == 0);
    // SAFETY: no memory involved.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let said = child.wait_with_output().expect("ends");
    let error = text(&said.stderr);
    assert_eq!(said.status.code(), Some(130), "{error}");
    assert!(error.contains("interrupted: "), "{error}");
    let words = error.split_whitespace();
    let new = words.filter_map(|word| word.parse().ok()).next();
    let new: usize = new.expect("a number of bytes");
    assert!(new <= MIB && error.contains(&format!("{new} of its {SIZE} bytes are new")));
    let file = std::fs::File::open(s.join("disk.img")).expect("opens");
    let mut after = vec![0; SIZE];
    file.read_exact_at(&mut after, START as u64).expect("reads");
    assert!(after[..new].iter().all(|b| *b == 1));
    assert!(after[new..] == before[START + new..START + SIZE]);
    drop(pipe);
}
