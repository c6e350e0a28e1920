//! Promises about what the host is told of a mount before it asks: it is the same
//! as it would be told later.

use crate::common::fuse::*;
use crate::common::*;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, FileExt};
use std::path::{Path, PathBuf};
use tane_test_support::eventually;

/// Around a page, around what counts as small, and nothing at all.
const SIZES: [usize; 9] = [0, 1, 4095, 4096, 4097, 20_000, 131_071, 131_072, 131_073];

fn content(n: usize) -> Vec<u8> {
    let size = SIZES[n % SIZES.len()];
    (0..size).map(|i| (i * 31 + n * 7) as u8).collect()
}

/// Regular files in the order of their inode numbers, as cp and tar read them.
fn by_inode(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a listing");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().expect("a kind").is_file())
        .map(|entry| (entry.ino(), entry.path()))
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// Whether the host has the first page of a file in its cache.
fn is_cached(path: &Path) -> bool {
    let file = File::open(path).expect("open");
    let (any, page) = (std::ptr::null_mut(), 4096);
    // SAFETY: a mapping of a page of an open file, and a byte that says whether it is
    // there.
    unsafe {
        let at = libc::mmap(
            any,
            page,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        let mut there = 0;
        assert_eq!(libc::mincore(at, page, &mut there), 0);
        libc::munmap(at, page);
        there & 1 != 0
    }
}

/// An image with two directories of 300 files of all sizes, some with holes.
fn many(s: &Scratch) {
    for n in 0..600 {
        let name = format!("tree/d{}/{n:04}", n % 2);
        if n % 10 == 7 {
            let file = File::create(s.write(&name, b"")).expect("a file");
            file.set_len(60_000).expect("a hole");
            file.write_all_at(&content(n), 4096 * (n as u64 % 5))
                .expect("written");
        } else {
            s.write(&name, &content(n));
        }
    }
    s.ext4("disk.img", Some(&s.join("tree")), 128);
}

#[test]
fn whoever_reads_small_files_in_order_finds_the_next_ones_in_the_hosts_cache() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    (0..40).for_each(|n| drop(s.write(&format!("tree/d/{n}"), &content(n * 9 + 5))));
    s.ext4("disk.img", Some(&s.join("tree")), 64);
    let mounted = Mounted::new(&s, &["disk.img"]);
    let files = by_inode(&mounted.join("d"));
    assert!(!is_cached(&files[1]));
    fs::read(&files[0]).expect("read");
    eventually("the next is there", || is_cached(&files[1]));
    // Whoever reads here and there is given nothing that was not asked for.
    fs::read(&files[39]).expect("read");
    fs::read(&files[30]).expect("read");
    fs::read(&files[20]).expect("read");
    assert!(!is_cached(&files[21]));
    mounted.unmount();
}

#[test]
fn files_have_their_content_in_whatever_order_they_are_read() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    many(&s);
    let order = |go: usize, dir: &Path| {
        let mut files = by_inode(dir);
        match go {
            0 => {}
            1 => files.reverse(),
            2 => files.sort(),
            _ => {
                files = files
                    .iter()
                    .step_by(2)
                    .chain(files.iter().skip(1).step_by(2))
                    .cloned()
                    .collect()
            }
        }
        files
    };
    for go in 0..4 {
        let mounted = Mounted::new(&s, &["disk.img"]);
        // Two read the same, and two others something else.
        std::thread::scope(|scope| {
            for t in 0..4 {
                let dir = format!("d{}", t % 2);
                let (s, mounted) = (&s, &mounted);
                scope.spawn(move || {
                    for file in order(go, &mounted.join(&dir)) {
                        let name = file.file_name().expect("a name");
                        let wanted = s.join("tree").join(&dir).join(name);
                        let (got, wanted) = (fs::read(&file), fs::read(&wanted));
                        assert!(got.expect("read") == wanted.expect("read"), "{file:?}");
                    }
                });
            }
        });
        mounted.unmount();
    }
}

/// What getfattr(1) shows of every file, links themselves too; None: not supported.
fn attributes(path: &Path) -> Option<Vec<u8>> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    let mut names = [0u8; 4096];
    // SAFETY: a C string, and a buffer of that size.
    let n = unsafe { libc::llistxattr(name.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    match n {
        n if n >= 0 => Some(names[..n as usize].to_vec()),
        _ => {
            let error = std::io::Error::last_os_error().raw_os_error();
            assert_eq!(error, Some(libc::EOPNOTSUPP));
            None
        }
    }
}

fn plain_tree(s: &Scratch) -> PathBuf {
    (0..300).for_each(|n| drop(s.write(&format!("tree/d/{n}"), b"data")));
    s.write("tree/z/deep/er/f", b"data");
    std::os::unix::fs::symlink("f", s.join("tree/z/link")).expect("a link");
    s.join("tree")
}

/// Asks for those of all small files, until none is asked for, or long enough to look
/// through all of them.
fn ask_much(dir: &Path) -> bool {
    (0..5).any(|_| {
        let all = by_inode(dir);
        all.iter().any(|file| attributes(file).is_none())
    })
}

#[test]
fn an_attribute_is_shown_wherever_it_is_however_many_files_have_none() {
    if !has_fuse() {
        return;
    }
    let attribute = ["-h", "-n", "trusted.x", "-v", "y"];
    for place in [".", "d/299", "z", "z/deep/er/f", "z/link", "acl", "default"] {
        let s = Scratch::new();
        let tree = plain_tree(&s);
        // Set inside the image, as it must be for a link.
        let image = s.ext4("disk.img", Some(&tree), 64);
        let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
        let path = match place {
            "acl" => "z/deep/er/f",
            "default" => "z/deep",
            place => place,
        };
        let path = mounted.join(path);
        match place {
            "acl" => succeed(s.tool("setfacl").args(["-m", "u:77:r"]).arg(&path)),
            "default" => succeed(s.tool("setfacl").args(["-d", "-m", "u:77:r"]).arg(&path)),
            _ => succeed(s.tool("setfattr").args(attribute).arg(&path)),
        };
        mounted.unmount();
        assert_sound(&image);
        let wanted = {
            let mounted = Loop::new(&s, &image);
            manifest(mounted.path(), "holes")
        };
        let mounted = Mounted::new(&s, &["--xattrs-if-any", "disk.img"]);
        assert!(!ask_much(&mounted.join("d")), "{place}");
        assert_same(&wanted, &manifest(mounted.path(), "holes"));
        mounted.unmount();
    }
}

#[test]
fn a_tree_without_attributes_is_known_to_have_none_once_all_was_looked_through() {
    if !has_fuse() {
        return;
    }
    let s = Scratch::new();
    let tree = plain_tree(&s);
    let image = s.ext4("disk.img", Some(&tree), 64);
    let without = "holes,xattrs";
    let wanted = {
        let mounted = Loop::new(&s, &image);
        manifest(mounted.path(), without)
    };
    let mounted = Mounted::new(&s, &["--xattrs-if-any", "disk.img"]);
    eventually("it is not asked any more", || ask_much(&mounted.join("d")));
    assert_same(&wanted, &manifest(mounted.path(), without));
    succeed(s.tool("cp").args(["-a", "mnt/.", "out"]));
    mounted.unmount();
    // Unless that was asked for, a file without any has an empty list.
    let mounted = Mounted::new(&s, &["disk.img"]);
    assert!(!ask_much(&mounted.join("d")));
    mounted.unmount();
    assert_same(&wanted, &manifest(&s.join("out"), without));
}
