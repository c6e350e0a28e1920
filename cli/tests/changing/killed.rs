//! Promises for commands that end at any moment, by SIGKILL or by Ctrl-C: the image
//! can be repaired or is sound, no name has half a file, and the next command does
//! what this one was to do.
//!
//! The moments are chosen at random from the time that the command takes;
//! TANE_KILL_ROUNDS says how many for each.

use crate::common::*;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 3;

/// What ends a command.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Kill,
    Interrupt,
}

const ENDS: [End; 2] = [End::Kill, End::Interrupt];

impl End {
    fn signal(self) -> i32 {
        match self {
            End::Kill => libc::SIGKILL,
            End::Interrupt => libc::SIGINT,
        }
    }
}

/// Ends a command some time after its start; true if it was not done by then.
fn end(command: &mut Command, how: End, after: Duration) -> bool {
    heeds_ctrl_c(command);
    // As a terminal does it, the programs that it runs are meant as well.
    command.process_group(0);
    let output = std::process::Stdio::null;
    let child = command.stdout(output()).stderr(output()).spawn();
    let mut child = child.expect("tane");
    std::thread::sleep(after);
    let id = child.id() as i32;
    // SAFETY: signals to our own child, which was not waited for.
    unsafe {
        match how {
            End::Kill => libc::kill(id, how.signal()),
            End::Interrupt => libc::killpg(id, how.signal()),
        }
    };
    !child.wait().expect("its status").success()
}

fn command(s: &Scratch, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.args(words);
    command
}

/// Prepares, ends our command at random moments and has `check` look at what is left.
fn at_random_moments(s: &Scratch, words: &[&str], prepare: &dyn Fn(), check: &dyn Fn(End, bool)) {
    let name = words[0];
    prepare();
    let began = Instant::now();
    succeed(&mut command(s, words));
    let whole = began.elapsed();
    check(End::Kill, false);
    let rounds = std::env::var("TANE_KILL_ROUNDS").map(|n| n.parse().expect("a number"));
    let mut state = 0x5eed_u64;
    let mut ended = 0;
    for round in 0..rounds.unwrap_or(ROUNDS) * 2 {
        let how = ENDS[round as usize % 2];
        prepare();
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let after = whole * ((state >> 33) % 1000) as u32 / 1000;
        let was = end(&mut command(s, words), how, after);
        ended += u64::from(was);
        check(how, was);
    }
    println!("{name}: {ended} ended early");
}

/// A tree of files whose names say what is in them.
fn tree(s: &Scratch) {
    for i in 0..150usize {
        let len = if i % 25 == 0 { 900_000 } else { i * 131 };
        s.write(&format!("tree/d{}/{i}", i % 5), &content(i, len));
    }
}

fn content(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + i) as u8).collect()
}

fn copy(s: &Scratch, from: &str, to: &str) {
    succeed(s.tool("cp").args(["--sparse=always", from, to]));
}

/// All that is there under a name of its own is as in the tree.
fn assert_whole_files(s: &Scratch, dir: &Path, below: &Path) {
    let Ok(listing) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in listing {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        if shown.starts_with(".tane-") && shown.ends_with(".part") || shown == "lost+found" {
            continue;
        }
        let below = below.join(&name);
        if entry.file_type().expect("its type").is_dir() {
            assert_whole_files(s, &entry.path(), &below);
        } else {
            let wanted = std::fs::read(s.join("tree").join(&below)).expect("in the tree");
            let got = std::fs::read(entry.path()).expect("readable");
            assert!(got == wanted, "{}: half a file", below.display());
        }
    }
}

/// e2fsck can repair it; after Ctrl-C it has nothing to repair.
fn assert_recoverable(image: &Path, how: End) {
    if how == End::Interrupt {
        return assert_sound(image);
    }
    let checked = sbin("e2fsck").arg("-fy").arg(image).output();
    let code = checked.expect("e2fsck").status.code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}

#[test]
fn a_copy_out_that_ends_at_any_moment_leaves_whole_files_only() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("disk.img", Some(&s.join("tree")), 64);
    let words = ["cp", "-q", "disk.img:/.", "out"];
    at_random_moments(
        &s,
        &words,
        &|| {
            let _ = std::fs::remove_dir_all(s.join("out"));
            std::fs::create_dir(s.join("out")).expect("a directory");
        },
        &|_, was| {
            assert_whole_files(&s, &s.join("out"), Path::new(""));
            if was {
                succeed(&mut command(&s, &words));
            }
            succeed(s.tool("diff").args(["-rq", "tree/d1", "out/d1"]));
        },
    );
}

#[test]
fn a_copy_in_that_ends_at_any_moment_leaves_an_image_that_can_be_repaired() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("empty.img", None, 64);
    copies_in(&s, &["cp", "-q", "tree", "disk.img:/"], "tree/");
}

#[test]
fn a_tar_extraction_that_ends_at_any_moment_leaves_an_image_that_can_be_repaired() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("empty.img", None, 64);
    succeed(s.tool("tar").args(["-C", "tree", "-cf", "all.tar", "."]));
    copies_in(&s, &["tar", "extract", "all.tar", "disk.img:/"], "");
}

/// A command that fills disk.img, beneath this directory of it.
fn copies_in(s: &Scratch, words: &[&str], at: &str) {
    at_random_moments(
        s,
        words,
        &|| copy(s, "empty.img", "disk.img"),
        &|how, was| {
            assert_recoverable(&s.join("disk.img"), how);
            let from = format!("disk.img:/{at}");
            let out = s.join("out");
            let _ = std::fs::remove_dir_all(&out);
            // Of what fsync or the end of the command did not promise, all or a part is
            // there, and what the journal did not have is of length 0.
            if how == End::Interrupt
                && s.tane()
                    .args(["cp", "-q", &from, "out"])
                    .status()
                    .is_ok_and(|s| s.success())
            {
                assert_whole_files(s, &out, Path::new(""));
            }
            let _ = std::fs::remove_dir_all(&out);
            if was {
                succeed(&mut command(s, words));
            }
            succeed(s.tane().args(["cp", "-q", &from, "out"]));
            succeed(s.tool("diff").args(["-rq", "tree/d2", "out/d2"]));
            assert_sound(&s.join("disk.img"));
        },
    );
}

#[test]
fn an_image_that_is_made_appears_whole_or_not_at_all() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    let epoch = "--epoch=1700000000";
    let make = |image| ["make-image", "-q", epoch, "--owner=root", "tree", image];
    succeed(&mut command(&s, &make("wanted.img")));
    at_random_moments(
        &s,
        &make("disk.img"),
        &|| drop(std::fs::remove_file(s.join("disk.img"))),
        &|_, _| {
            if !s.join("disk.img").exists() {
                succeed(&mut command(&s, &make("disk.img")));
            }
            succeed(s.tool("cmp").args(["wanted.img", "disk.img"]));
        },
    );
}

#[test]
fn a_file_system_that_grows_until_any_moment_can_be_repaired_and_grown() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("before.img", Some(&s.join("tree")), 64);
    let words = ["resize", "disk.img", "200M"];
    at_random_moments(
        &s,
        &words,
        &|| copy(&s, "before.img", "disk.img"),
        &|how, was| {
            assert_recoverable(&s.join("disk.img"), how);
            if was {
                succeed(&mut command(&s, &words));
            }
            assert_sound(&s.join("disk.img"));
            let read = succeed(s.tane().args(["cat", "disk.img:/d1/26"]));
            assert!(read.stdout == content(26, 26 * 131));
        },
    );
}

/// A qcow2 as large as this, with the file system of another image in it.
fn container(s: &Scratch, image: &str) {
    let words = ["convert", "-O", "qcow2", image, "before.qcow2"];
    succeed(s.tool("qemu-img").args(words));
}

/// In a container the programs work on a copy: what of it is written back is all.
fn written_back_as_a_whole(
    s: &Scratch,
    words: &[&str],
    was: &dyn Fn() -> bool,
    is: &dyn Fn() -> bool,
) {
    at_random_moments(
        s,
        words,
        &|| copy(s, "before.qcow2", "disk.qcow2"),
        &|_, _| {
            // Whoever writes next finishes it, if there is something to be finished.
            succeed(s.tane().args(["touch", "disk.qcow2:/touched"]));
            let checked = ["convert", "-O", "raw", "disk.qcow2", "disk.img"];
            succeed(s.tool("qemu-img").args(["check", "-q", "disk.qcow2"]));
            succeed(s.tool("qemu-img").args(checked));
            assert!(was() || is(), "a mixture");
            tane_test_support::eventually("nothing is left of it", || {
                !s.join("disk.qcow2.tane-redo").exists()
            });
            if !is() {
                succeed(&mut command(s, words));
            }
        },
    );
}

fn e2fsck_says(s: &Scratch, code: i32) -> bool {
    let checked = s.tool("e2fsck").args(["-fn", "disk.img"]).output();
    checked.expect("e2fsck").status.code() == Some(code)
}

#[test]
fn a_shrunk_file_system_is_written_back_as_a_whole_or_not_at_all() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("before.img", Some(&s.join("tree")), 100);
    container(&s, "before.img");
    let blocks = |count: u32| {
        let said = s.tool("dumpe2fs").args(["-h", "disk.img"]).output();
        let said = text(&said.expect("dumpe2fs").stdout);
        let line = said.lines().find(|l| l.starts_with("Block count:"));
        e2fsck_says(&s, 0) && line.is_some_and(|l| l.ends_with(&format!(" {count}")))
    };
    let shrink = ["resize", "disk.qcow2", "40M"];
    written_back_as_a_whole(&s, &shrink, &|| blocks(25_600), &|| blocks(10_240));
}

#[test]
fn a_new_file_system_is_written_over_the_old_one_as_a_whole_or_not_at_all() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("before.img", Some(&s.join("tree")), 100);
    container(&s, "before.img");
    let label = |label: &str| {
        let said = s.tool("e2label").arg("disk.img").output();
        e2fsck_says(&s, 0) && text(&said.expect("e2label").stdout).trim() == label
    };
    let make = ["mkfs", "--force", "--label=new", "disk.qcow2"];
    written_back_as_a_whole(&s, &make, &|| label("sample"), &|| label("new"));
}

/// Has a change of these bytes stop where the first of them would be written back.
fn stop_in_the_middle(image: &Path, at: u64, bytes: &[u8]) {
    use std::sync::Arc;
    use tane::images::{buffer, Access, Failure, Fault, Operation, Raw, Redo};
    let access = Access {
        write: true,
        direct: false,
    };
    let raw = Arc::new(Raw::open(image, access).expect("opens"));
    let fault = Arc::new(Fault::new(raw, |operation| match operation {
        Operation::Write { .. } => Some(Failure::errno(libc::EIO)),
        _ => None,
    }));
    let redo = Arc::new(Redo::beside(image, None).expect("made"));
    let disk = redo.over(fault);
    redo.begin().expect("begins");
    disk.write(&[buffer(bytes)], at).expect("is recorded");
    redo.commit().expect_err("the disk fails");
}

#[test]
fn what_was_left_undone_is_refused_to_readers_and_finished_by_the_next_writer() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 16);
    let redo = s.join("disk.img.tane-redo");
    // The label, which no checksum covers in an ext4 without them.
    succeed(s.tool("tune2fs").args(["-O", "^metadata_csum", "disk.img"]));
    let change = |label: &[u8; 16]| stop_in_the_middle(&image, 1024 + 120, label);
    let label = || {
        let said = succeed(s.tool("e2label").arg("disk.img"));
        text(&said.stdout).trim().to_owned()
    };
    for (i, words) in [
        &["touch", "disk.img:/touched"][..],
        &["fsck", "--repair", "disk.img"],
        &["mkfs", "--force", "--label=other", "disk.img"],
    ]
    .iter()
    .enumerate()
    {
        change(b"undone\0\0\0\0\0\0\0\0\0\0");
        for reader in [&["ls", "disk.img:/"][..], &["fsck", "disk.img"]] {
            let refused = exit(s.tane().args(reader), 3);
            let said = text(&refused.stderr);
            assert!(said.contains("was interrupted"), "{said}");
        }
        let done = succeed(s.tane().args(*words));
        assert!(text(&done.stderr).contains("has been finished"));
        assert_eq!(label(), if i < 2 { "undone" } else { "other" });
        tane_test_support::eventually("it is gone", || !redo.exists());
        succeed(s.tane().args(["ls", "disk.img:/"]));
        succeed(s.tool("e2label").args(["disk.img", "before"]));
    }
}
