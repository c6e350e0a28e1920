//! Copies of the host's own files: the engine without a kernel.

mod common;

use common::{Asked, Odd};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tane_copy::patterns::Excludes;
use tane_copy::{copy, tree, Destination, End, Observer, Settings};
use tane_copy::{Loss, Source, Tally, To, What};
use tane_linux::{Errno, Host, Result, Root, Sys};
use tane_test_support::Scratch;

const CANCELLED: Errno = Errno(libc::ECANCELED);
/// More than one batch has.
const LARGE: usize = 3 << 20;

/// A directory of its own.
struct Rig(Scratch);

impl Rig {
    fn new() -> Rig {
        Rig(Scratch::new("trees"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, len: usize) {
        fs::write(self.at(name), vec![b'x'; len]).expect("write");
    }

    /// A directory with so many small files.
    fn many(&self, name: &str, count: u32) {
        fs::create_dir(self.at(name)).expect("mkdir");
        (0..count).for_each(|n| self.file(&format!("{name}/{n}"), 3));
    }

    fn copy(&self, from: &str, to: &str, tally: &Tally) -> Result<()> {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let (from, to) = (bytes(&self.at(from)), bytes(&self.at(to)));
        let host = End::host();
        tree(
            (&host, &from),
            (&host, &to),
            Settings::default(),
            tally,
            None,
        )
    }

    fn len(&self, name: &str) -> Option<u64> {
        fs::metadata(self.at(name)).ok().map(|found| found.len())
    }
}

#[test]
fn what_one_copy_gave_up_is_not_given_up_by_the_next_of_the_same_tally() {
    let rig = Rig::new();
    rig.file("large", LARGE);
    // No file takes the place of a directory.
    fs::create_dir(rig.at("taken")).expect("mkdir");
    let tally = Tally::default();
    assert_eq!(rig.copy("large", "taken", &tally), Ok(()));
    let failures = tally.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].error, Some(Errno(libc::EISDIR)));

    assert_eq!(rig.copy("large", "copy", &tally), Ok(()));
    assert_eq!(tally.failures().len(), 1);
    assert_eq!(rig.len("copy"), Some(LARGE as u64));
    assert_eq!(tally.counts().files, 1);
}

#[test]
fn a_copy_that_was_told_to_end_is_cancelled_though_all_of_it_is_there() {
    let rig = Rig::new();
    rig.file("small", 10);
    // The last report, when it is there.
    let tally = Tally::telling(|files, _| files == 0);
    assert_eq!(rig.copy("small", "copy", &tally), Err(CANCELLED));
    assert!(tally.failures().is_empty());
    assert_eq!(rig.len("copy"), Some(10));
}

#[test]
fn a_copy_that_is_told_to_end_is_cancelled_once_and_not_by_file() {
    let rig = Rig::new();
    rig.many("tree", 3000);
    let tally = Tally::telling(|files, _| files < 10);
    assert_eq!(rig.copy("tree", "copy", &tally), Err(CANCELLED));
    assert!(tally.failures().is_empty());
    assert!(tally.counts().files < 3000);
}

#[test]
fn what_a_strict_copy_loses_is_no_cancellation() {
    let rig = Rig::new();
    rig.file("small", 10);
    let tally = Tally::default().strict(true);
    tally.lose(Loss::Owner, b"f", b"", Errno(libc::EPERM));
    assert_eq!(rig.copy("small", "copy", &tally), Ok(()));
    assert!(tally.interrupted() && !tally.is_cancelled());
    assert_eq!(rig.len("copy"), None);
}

#[test]
fn a_call_that_was_given_up_ends_the_copy_and_costs_no_file() {
    let rig = Rig::new();
    rig.many("tree", 100);
    // All calls from then on, or one alone: who gives up may do so once.
    for again in [true, false] {
        let opened = AtomicU32::new(0);
        let odd = Odd::new(|nr, _| {
            let at = match nr {
                libc::SYS_openat | libc::SYS_openat2 => opened.fetch_add(1, Relaxed),
                _ => 0,
            };
            (at == 50 || again && at > 50).then_some(-i64::from(libc::ECANCELED))
        });
        let from = End::mount(&odd, odd.open(&rig.0), None).expect("a root");
        let to = rig.at(if again { "copy" } else { "other" });
        let (host, tally) = (End::host(), Tally::default());
        let target = (&host, to.as_os_str().as_bytes());
        let done = tree((&from, b"/tree"), target, Settings::default(), &tally, None);
        assert_eq!(done, Err(CANCELLED));
        let failures = tally.failures();
        assert!(failures.is_empty(), "{failures:?}");
        assert!(tally.counts().files < 100);
    }
}

/// Fills what a call has room for: as many bytes as it says there are.
fn fill(args: [u64; 6], at: usize, bytes: &[u8]) -> i64 {
    let (to, room) = (args[at] as *mut u8, args[at + 1] as usize);
    if bytes.len() > room {
        return -i64::from(libc::ERANGE);
    }
    // SAFETY: the caller's room.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    bytes.len() as i64
}

#[test]
fn lists_of_attributes_that_are_none_cost_the_file_and_are_told() {
    let rig = Rig::new();
    fs::create_dir(rig.at("tree")).expect("mkdir");
    rig.file("tree/file", 3);
    std::os::unix::fs::symlink("file", rig.at("tree/link")).expect("symlink");
    let long = |len: usize| [&vec![b'x'; len][..], b"\0"].concat();
    // With the NUL 65,536, which no 16 bits have.
    for list in [
        long(65535),
        long(256),
        b"\0user.b\0".to_vec(),
        b"user.b".to_vec(),
    ] {
        let odd = Odd::new(|nr, args| match nr {
            libc::SYS_flistxattr => {
                // Not the directories.
                // SAFETY: plain data, for the host to fill.
                let stat = unsafe {
                    let mut stat: libc::stat = std::mem::zeroed();
                    libc::fstat(args[0] as i32, &raw mut stat);
                    stat
                };
                let is_dir = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
                (!is_dir).then(|| fill(args, 1, &list))
            }
            libc::SYS_llistxattr => Some(fill(args, 1, &list)),
            _ => None,
        });
        let from = End::mount(&odd, odd.open(&rig.0), None).expect("a root");
        let _ = fs::remove_dir_all(rig.at("copy"));
        let (to, host, tally) = (rig.at("copy"), End::host(), Tally::default());
        let target = (&host, to.as_os_str().as_bytes());
        let done = tree((&from, b"/tree"), target, Settings::default(), &tally, None);
        assert_eq!(done, Ok(()));
        let failures = tally.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].path, b"copy/file");
        assert_eq!(failures[0].error, Some(Errno(libc::EIO)));
        let losses = tally.losses();
        let lost = losses.iter().find(|lost| lost.path == b"copy/link");
        let lost = lost.expect("told");
        assert_eq!((lost.loss, lost.error), (Loss::Xattr, Errno(libc::EIO)));
        assert!(to.join("link").is_symlink() && !to.join("file").exists());
    }
}

#[test]
fn who_asked_for_a_copy_is_asked_while_another_thread_writes() {
    let rig = Rig::new();
    fs::create_dir(rig.at("tree")).expect("mkdir");
    // One batch, and more than there are batches.
    for len in [10, 10 * LARGE] {
        rig.file("tree/file", len);
        let asked = Asked::new();
        let root = Root::host(Sys(&Host));
        let open = |name: &str| {
            let path = rig.at(name);
            root.open_dir(path.as_os_str().as_bytes()).expect("open")
        };
        fs::create_dir_all(rig.at("copy")).expect("mkdir");
        let (dir, shown) = (open("tree"), Vec::new());
        let sources = vec![Source::Contents { dir, shown }];
        let what = What {
            sources,
            excludes: &Excludes::default(),
            host_blocks: None,
        };
        let to = Destination {
            dir: open("copy"),
            shown: Vec::new(),
            avoid: None,
        };
        // What is written waits until the thread of the copy has been asked.
        copy(what, To::Here(to), Settings::default(), &asked, false);
        assert!(asked.was_asked());
        assert_eq!(rig.len("copy/file"), Some(len as u64));
    }
}
