//! Promises that a copy never writes outside of its destination, whatever the
//! image holds and whoever is at work there at the same time.

use crate::common::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use tane_test_support::{eventually, has_root, skip};

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a listing").flatten();
    let mut names: Vec<_> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn links_of_an_earlier_image_do_not_lead_a_later_one_out() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let outside = s.join("outside");
    std::fs::create_dir_all(outside.join("deep")).expect("mkdir");
    for dir in ["links", "out"] {
        std::fs::create_dir(s.join(dir)).expect("mkdir");
    }
    symlink(&outside, s.join("links/absolute")).expect("symlink");
    symlink("../outside/deep", s.join("links/relative")).expect("symlink");
    symlink("../outside/new", s.join("links/new")).expect("symlink");
    s.write("evil/absolute/f", b"evil");
    s.write("evil/relative/f", b"evil");
    s.write("evil/new", b"evil");
    s.ext4("first.img", Some(&s.join("links")), 16);
    s.ext4("second.img", Some(&s.join("evil")), 16);
    succeed(s.tane().args(["cp", "first.img:/.", "out"]));
    assert!(s.join("out/absolute/deep").is_dir(), "the link leads out");
    // Directories are not copied onto links; a file replaces the link itself.
    exit(s.tane().args(["cp", "second.img:/.", "out"]), 1);
    assert_eq!(names(&outside), ["deep"]);
    assert_eq!(names(&outside.join("deep")), [""; 0]);
    assert_eq!(s.read("out/new"), b"evil");
}

/// Writes over the only place where the image has these bytes as a name.
fn rename_raw(image: &Path, from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(image).expect("the image");
    let found = bytes.windows(from.len()).filter(|w| *w == from).count();
    assert_eq!(found, 1, "one directory entry");
    let at = bytes.windows(from.len()).position(|w| w == from);
    let at = at.expect("just counted");
    bytes[at..at + to.len()].copy_from_slice(to);
    std::fs::write(image, bytes).expect("the image");
}

#[test]
fn names_that_are_paths_lead_nowhere() {
    if !has_kernel() {
        return;
    }
    for hostile in ["../../evil", "/tmp/evil1", "..", "."] {
        let s = Scratch::new();
        let plain = "Q".repeat(hostile.len());
        let plain = if plain.len() < 3 {
            "QZ"[..plain.len()].to_owned()
        } else {
            plain
        };
        s.write(&format!("tree/d/{plain}"), b"evil");
        let image = s.join("disk.img");
        std::fs::File::create(&image)
            .and_then(|f| f.set_len(16 << 20))
            .expect("an image");
        let mut mke2fs = sbin("mke2fs");
        // With checksums it would not even be looked at.
        mke2fs.args([
            "-q",
            "-t",
            "ext4",
            "-O",
            "^metadata_csum,^dir_index,^has_journal",
        ]);
        succeed(mke2fs.arg("-d").arg(s.join("tree")).arg(&image));
        let entry = |name: &str| [&[name.len() as u8, 1][..], name.as_bytes()].concat();
        rename_raw(&image, &entry(&plain), &entry(hostile));
        std::fs::create_dir_all(s.join("a/out")).expect("mkdir");
        let before = names(s.path());
        let code = s.tane().args(["cp", "disk.img:/.", "a/out"]).output();
        let code = code.expect("tane").status.code();
        assert!(matches!(code, Some(0 | 1 | 3)), "{hostile}: {code:?}");
        assert_eq!(names(s.path()), before, "{hostile}");
        assert_eq!(names(&s.join("a")), ["out"], "{hostile}");
        assert!(!Path::new("/tmp/evil1").exists());
    }
}

/// Swaps two names for each other until it is dropped.
struct Swapper {
    stop: std::sync::Arc<(AtomicBool, AtomicU32)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(a: PathBuf, b: PathBuf) -> Swapper {
        let stop = std::sync::Arc::new((AtomicBool::new(false), AtomicU32::new(0)));
        let shared = stop.clone();
        let thread = std::thread::spawn(move || {
            let name = |p: &Path| CString::new(p.as_os_str().as_bytes()).expect("no NUL");
            let (a, b) = (name(&a), name(&b));
            while !shared.0.load(SeqCst) {
                let here = libc::AT_FDCWD;
                // SAFETY: two strings that live on.
                let done = unsafe {
                    libc::renameat2(here, a.as_ptr(), here, b.as_ptr(), libc::RENAME_EXCHANGE)
                };
                // Either may be away for a moment.
                shared.1.fetch_add(u32::from(done == 0), SeqCst);
            }
        });
        Swapper {
            stop,
            thread: Some(thread),
        }
    }

    fn swaps(&self) -> u32 {
        self.stop.1.load(SeqCst)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.0.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the swapper");
        }
    }
}

/// Copies into a directory, part of which somebody else swaps for a symlink.
fn race(s: &Scratch, mut copy: impl FnMut() -> Command) {
    let outside = s.join("outside");
    std::fs::create_dir_all(outside.join("e")).expect("mkdir");
    std::fs::create_dir_all(s.join("out/d/e")).expect("mkdir");
    symlink("../outside", s.join("out/swap")).expect("symlink");
    let swapper = Swapper::start(s.join("out/d"), s.join("out/swap"));
    let mut disturbed = 0;
    eventually("ten copies were disturbed", || {
        let before = swapper.swaps();
        let output = copy().output().expect("tane");
        // Files for which the link was there are errors, and that is all.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        assert_eq!(names(&outside), ["e"]);
        assert_eq!(names(&outside.join("e")), [""; 0]);
        disturbed += u32::from(swapper.swaps() > before);
        disturbed == 10
    });
}

fn tree_for_the_race(s: &Scratch) {
    for i in 0..100 {
        s.write(&format!("i/d/{i}"), b"evil");
        s.write(&format!("i/d/e/{i}"), b"evil");
    }
}

#[test]
fn a_directory_that_becomes_a_link_while_it_is_filled_leads_nowhere() {
    let s = Scratch::new();
    tree_for_the_race(&s);
    race(&s, || {
        let mut tane = s.host();
        tane.args(["cp", "i:/d", "out"]);
        tane
    });
}

#[test]
fn nor_in_the_jail() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree_for_the_race(&s);
    s.ext4("disk.img", Some(&s.join("i")), 16);
    race(&s, || {
        let mut tane = s.tane();
        tane.args(["cp", "disk.img:/d", "out"]);
        tane
    });
}

/// A symlink and a directory whose names differ in case only.
fn two_names_in_one(s: &Scratch, target: &str) {
    for (dir, link, name) in [("a", "Link", "link"), ("b", "link", "LINK")] {
        s.write(&format!("tree/{dir}/{name}/f"), b"evil");
        symlink(target, s.join(&format!("tree/{dir}/{link}"))).expect("symlink");
    }
}

fn folding_image(s: &Scratch) -> PathBuf {
    std::fs::create_dir_all(s.join("empty/folded")).expect("mkdir");
    std::fs::create_dir_all(s.join("empty/elsewhere")).expect("mkdir");
    let image = s.join("folding.img");
    std::fs::File::create(&image)
        .and_then(|f| f.set_len(32 << 20))
        .expect("an image");
    let mut mke2fs = sbin("mke2fs");
    mke2fs.args(["-q", "-t", "ext4", "-b", "4096", "-O", "casefold"]);
    succeed(mke2fs.arg("-d").arg(s.join("empty")).arg(&image));
    // EXT4_CASEFOLD_FL and EXT4_EXTENTS_FL.
    let mut debugfs = sbin("debugfs");
    let request = "set_inode_field /folded flags 0x40080000";
    succeed(debugfs.args(["-w", "-R", request]).arg(&image));
    image
}

#[test]
fn names_that_differ_in_case_lead_nowhere_where_case_does_not_count() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    folding_image(&s);
    two_names_in_one(&s, "/elsewhere");
    succeed(s.tane().args(["mkdir", "folding.img:/folded/Proof"]));
    succeed(s.tane().args(["stat", "folding.img:/folded/pROOF"]));
    for dir in ["tree/a/.", "tree/b/."] {
        exit(s.tane().args(["cp", dir, "folding.img:/folded"]), 1);
        let listed = succeed(s.tane().args(["ls", "folding.img:/elsewhere"])).stdout;
        assert_eq!(text(&listed), "");
    }
}

#[test]
fn nor_on_the_host() {
    if !has_kernel() || !has_root() {
        return;
    }
    let s = Scratch::new();
    let image = folding_image(&s);
    let dest = s.join("mounted");
    std::fs::create_dir(&dest).expect("mkdir");
    let mounted = sbin("mount")
        .args(["-o", "loop"])
        .arg(&image)
        .arg(&dest)
        .output();
    let mounted = mounted.expect("mount");
    if !mounted.status.success() {
        return skip(format!(
            "the host cannot mount an ext4 that folds case: {}",
            text(&mounted.stderr)
        ));
    }
    struct Unmount(PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).status();
        }
    }
    let _unmount = Unmount(dest.clone());
    let outside = s.join("outside");
    std::fs::create_dir(&outside).expect("mkdir");
    two_names_in_one(&s, outside.to_str().expect("UTF-8"));
    s.ext4("disk.img", Some(&s.join("tree")), 16);
    for dir in ["a", "b"] {
        let from = format!("disk.img:/{dir}/.");
        exit(s.tane().args(["cp", &from, "mounted/folded"]), 1);
        assert_eq!(names(&outside), [""; 0]);
    }
}
