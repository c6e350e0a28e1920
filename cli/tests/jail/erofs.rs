//! Promises about images that Linux does not write: their programs run beside who was taken
//! over, and for an erofs what an ext4 has is shown to one.

use crate::common::*;
use crate::jailed::making::*;
use crate::jailed::*;
use crate::prisoner::*;

/// Those that Linux does not write: their programs run while what is taken over does.
#[test]
fn whoever_makes_a_squashfs_or_erofs_of_an_archive_opens_nothing_and_starts_nothing() {
    if !has_prisoners() || !has_landlock() {
        return;
    }
    let fuse = fuse::has_fuse().then_some("--fs=erofs");
    for kind in ["--fs=squashfs"].into_iter().chain(fuse) {
        let s = Scratch::new();
        beside(&s);
        s.write("tree/file", b"a file");
        succeed(
            s.command("tar", "-czf tree.tar.gz tree")
                .current_dir(s.path()),
        );
        let command = making_as(&s, &[kind, "tree.tar.gz"]);
        sleeping::sleeper(&command.0);
        let mut thread = Prisoner::behind(command.0.id(), 1);
        reaches_no_name(&mut thread, &s);
        for name in ["tree.tar.gz", "tree", "tree/file", "out"] {
            for how in [libc::O_RDONLY, libc::O_PATH] {
                let outcome = thread.open(&path(&s.join(name)), how);
                assert_eq!(outcome, DENIED, "{kind}: {name}");
            }
        }
        for name in names(&s).iter().filter(|name| name.contains(".tane-")) {
            let outcome = thread.open(&path(&s.join(&format!("out/{name}"))), libc::O_RDONLY);
            assert_eq!(outcome, DENIED, "{kind}: {name}");
        }
        let found = listed::differences(&filter::Filters::of(&thread), command.0.id(), 'E');
        assert!(found.is_empty(), "{kind}: {}", found.join("\n"));
        let user = libc::CLONE_NEWUSER as u64;
        let apart = thread.call(libc::SYS_unshare, &[user]);
        assert_eq!(apart, Outcome::Killed(libc::SIGSYS), "{kind}");
    }
}

/// An erofs whose making goes on: its folder, the command, and where what it is made of is shown.
fn shown() -> Option<(Scratch, Running, String)> {
    if !has_kernel() || !fuse::has_fuse() {
        return None;
    }
    let s = Scratch::new();
    beside(&s);
    s.write("tree/file", b"a file");
    let command = making_as(&s, &["--fs=erofs", "tree"]);
    sleeping::sleeper(&command.0);
    let shown = |name: &String| name.ends_with(".dir");
    let dir = names(&s).into_iter().find(shown).expect("a directory");
    Some((s, command, dir))
}

#[test]
fn nothing_is_left_of_an_erofs_whose_making_was_killed_not_even_what_is_mounted() {
    let Some((s, mut command, dir)) = shown() else {
        return;
    };
    let file = s.join(&format!("out/{dir}/file"));
    assert_eq!(std::fs::read(&file).expect("what is shown"), b"a file");
    command.0.kill().expect("a process that lives");
    command.0.wait().expect("its end");
    tane_test_support::eventually("it is gone", || names(&s) == [".profile"]);
}

/// Processes that are stopped, and end with their test.
struct Stopped(Vec<i32>);

impl Stopped {
    /// Those that serve a mount on this directory.
    fn that_serve(dir: &str) -> Stopped {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let serves = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            words.nth(1) == Some(b"mount") && words.any(|word| word.ends_with(dir.as_bytes()))
        };
        let found = Stopped(all.filter(serves).collect());
        for pid in &found.0 {
            // SAFETY: a signal to a process that is there.
            assert_eq!(unsafe { libc::kill(*pid, libc::SIGSTOP) }, 0);
        }
        found
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            // SAFETY: a signal alone.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
    }
}

/// As one that an image has taken over.
#[test]
fn what_is_mounted_for_an_erofs_is_out_of_view_though_who_serves_it_answers_no_more() {
    let Some((s, mut command, dir)) = shown() else {
        return;
    };
    let stopped = Stopped::that_serve(&dir);
    assert!(!stopped.0.is_empty());
    command.0.kill().expect("a process that lives");
    command.0.wait().expect("its end");
    tane_test_support::eventually("it is gone", || names(&s) == [".profile"]);
}

/// The header of a qcow2 of 2 MiB that has nothing of its own, and this file below it.
fn qcow2_above(below: &str) -> Vec<u8> {
    // Clusters of 512 bytes; its table of 64 entries, which are zeros, is in the second one.
    let mut header = b"QFI\xfb".to_vec();
    header.extend(2_u32.to_be_bytes());
    header.extend(72_u64.to_be_bytes());
    header.extend((below.len() as u32).to_be_bytes());
    header.extend(9_u32.to_be_bytes());
    header.extend((2_u64 << 20).to_be_bytes());
    header.extend(0_u32.to_be_bytes());
    header.extend(64_u32.to_be_bytes());
    header.extend(512_u64.to_be_bytes());
    header.extend(512_u64.to_be_bytes());
    header.extend(1_u32.to_be_bytes());
    header.extend(0_u32.to_be_bytes());
    header.extend(0_u64.to_be_bytes());
    assert_eq!(header.len(), 72);
    header.extend(below.as_bytes());
    header
}

/// Whoever has filled that may have been taken over by what it is filled with. No file system
/// uses its first 1,024 bytes.
#[test]
fn an_erofs_is_made_of_an_ext4_whatever_the_first_bytes_of_that_say() {
    if !has_kernel() || !fuse::has_fuse() {
        return;
    }
    if tane_test_support::tool("erofs-utils", "mkfs.erofs").is_none() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/file", b"a file");
    s.write("others/secret", b"a secret");
    std::fs::create_dir(s.join("out")).expect("a directory");
    s.ext4("out/other.img", Some(&s.join("others")), 2);
    // In a directory that programs may read.
    std::fs::create_dir(s.join("bin")).expect("a directory");
    let begun = s.ext4("bin/begun", None, 4);
    let begun = std::fs::File::options().write(true).open(begun);
    let header = qcow2_above("other.img");
    std::os::unix::fs::FileExt::write_all_at(&begun.expect("a file"), &header, 0).expect("room");
    let at = s.join("bin/begun");
    let script = format!("for to; do :; done\nexec cat {} 1<>\"$to\"\n", at.display());
    let places = sleeping::program(&s, "mke2fs", &script);
    let cat = |image: &str| {
        let mut command = s.tane();
        succeed(command.args(["cat", image])).stdout
    };
    // It is taken for that where nobody says what it is.
    std::fs::copy(s.join("bin/begun"), s.join("out/begun")).expect("a copy");
    assert_eq!(cat("out/begun:/secret"), b"a secret");
    for jail in [&[][..], &["--no-jail"]] {
        let mut command = s.tane();
        command.env("PATH", &places).args(jail);
        command.args([
            "make-image",
            "--force",
            "--fs=erofs",
            "tree",
            "out/made.img",
        ]);
        succeed(&mut command);
        assert_eq!(cat("out/made.img:/file"), b"a file");
    }
}
