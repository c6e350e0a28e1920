//! Promises of Dir and its listings.

use crate::scratch::{errno, names, scratch};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tane::{Dir, FileType, OpenOptions, SetTime, SetTimes, Timestamp};

#[test]
fn any_bytes_but_slash_and_nul_are_a_name() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    let bytes: Vec<u8> = (1..=255).filter(|&b| b != b'/').collect();
    for name in bytes.chunks(100).map(OsStr::from_bytes) {
        dir.create(name).unwrap();
        assert!(dir.metadata(name).unwrap().is_file());
    }
    let mut listed: Vec<u8> = Vec::new();
    for entry in dir.read_dir().unwrap() {
        listed.extend(entry.unwrap().file_name().as_bytes());
    }
    listed.sort();
    assert_eq!(listed, bytes);
}

#[test]
fn a_name_with_a_nul_is_einval() {
    let s = scratch();
    assert_eq!(errno(s.write("a\0b", "")), libc::EINVAL);
    assert_eq!(errno(s.open_dir("/").unwrap().create("a\0b")), libc::EINVAL);
}

#[test]
fn a_name_that_is_a_path_is_einval() {
    let s = scratch();
    s.create_dir_all("a/b").unwrap();
    let dir = s.open_dir("a").unwrap();
    for name in ["", ".", "..", "b/..", "/a"] {
        assert_eq!(errno(dir.metadata(name)), libc::EINVAL, "{name:?}");
    }
}

#[test]
fn a_name_of_255_bytes_is_fine_and_one_more_is_enametoolong() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    dir.create("x".repeat(255)).unwrap();
    assert_eq!(errno(dir.create("x".repeat(256))), libc::ENAMETOOLONG);
}

#[test]
fn a_path_longer_than_path_max_is_enametoolong() {
    let s = scratch();
    assert_eq!(errno(s.open("x/".repeat(2100))), libc::ENAMETOOLONG);
}

#[test]
fn a_listing_has_every_entry_once_however_many() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    let mut expected: Vec<String> = (0..5000).map(|i| format!("entry-{i}")).collect();
    for name in &expected {
        dir.create(name).unwrap();
    }
    expected.sort();
    assert_eq!(names(dir.read_dir().unwrap()), expected);
}

#[test]
fn listings_of_one_directory_have_positions_of_their_own() {
    let s = scratch();
    s.write("a", "").unwrap();
    s.write("b", "").unwrap();
    let dir = s.open_dir("/").unwrap();
    let mut first = dir.read_dir().unwrap();
    assert!(first.next_entry().unwrap().is_some());
    assert_eq!(names(dir.read_dir().unwrap()), ["a", "b"]);
    assert!(first.next_entry().unwrap().is_some());
    assert!(first.next_entry().unwrap().is_none());
    first.rewind().unwrap();
    assert_eq!(names(first), ["a", "b"]);
}

#[test]
fn a_listing_tells_types_and_inode_numbers() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    make_one_of_each(&dir);
    for entry in dir.read_dir().unwrap() {
        let entry = entry.unwrap();
        let metadata = dir.metadata(entry.file_name()).unwrap();
        assert_eq!(entry.file_type().unwrap(), metadata.file_type());
        assert_eq!(entry.ino(), metadata.ino());
    }
}

#[test]
fn an_entry_tells_its_path_and_what_it_is_itself() {
    let s = scratch();
    s.create_dir("/d").unwrap();
    let dir = s.open_dir("/d").unwrap();
    make_one_of_each(&dir);
    let listed: Vec<_> = s.read_dir("/d").unwrap().map(Result::unwrap).collect();
    for entry in &listed {
        // Links are not followed, as std has it.
        let expected = s.symlink_metadata(entry.path()).unwrap();
        let found = entry.metadata().unwrap();
        assert_eq!(
            (found.ino(), found.mode()),
            (expected.ino(), expected.mode())
        );
    }
    // The directory is the one that was listed, whatever it is called now.
    s.rename("/d", "/e").unwrap();
    for entry in listed {
        let path = entry.path();
        assert!(path.starts_with("/d"), "{path:?}");
        assert_eq!(entry.metadata().unwrap().ino(), entry.ino());
        let new = format!("new {}", entry.ino());
        dir.rename(entry.file_name(), &dir, new, 0).unwrap();
        let error = entry.metadata().unwrap_err();
        assert_eq!(error.errno(), libc::ENOENT);
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
    let unnamed = dir.read_dir().unwrap().next().unwrap().unwrap();
    assert_eq!(unnamed.path(), unnamed.file_name());
}

/// One entry of each type.
fn make_one_of_each(dir: &Dir) {
    dir.create("file").unwrap();
    dir.create_dir("dir", 0o755).unwrap();
    dir.symlink("nowhere", "link").unwrap();
    let dev = libc::makedev(0xabc, 0xd_ef01);
    dir.mknod("block", libc::S_IFBLK | 0o600, dev).unwrap();
    dir.mknod("char", libc::S_IFCHR | 0o600, dev).unwrap();
    dir.mknod("fifo", libc::S_IFIFO | 0o600, 0).unwrap();
    dir.mknod("socket", libc::S_IFSOCK | 0o600, 0).unwrap();
}

#[test]
fn every_type_of_entry_is_made_and_told() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    make_one_of_each(&dir);
    for (name, expected) in [
        ("file", FileType::File),
        ("dir", FileType::Dir),
        ("link", FileType::Symlink),
        ("block", FileType::BlockDevice),
        ("char", FileType::CharDevice),
        ("fifo", FileType::Fifo),
        ("socket", FileType::Socket),
    ] {
        assert_eq!(dir.metadata(name).unwrap().file_type(), expected);
    }
    let rdev = dir.metadata("char").unwrap().rdev();
    assert_eq!(libc::major(rdev), 0xabc);
    assert_eq!(libc::minor(rdev), 0xd_ef01);
}

#[test]
fn modes_are_exact_without_a_umask() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    dir.create_dir("dir", 0o1777).unwrap();
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o4666);
    options.open_in(&dir, "file").unwrap();
    dir.mknod("fifo", libc::S_IFIFO | 0o222, 0).unwrap();
    let mode = |name| dir.metadata(name).unwrap().permissions();
    assert_eq!(mode("dir"), 0o1777);
    assert_eq!(mode("file"), 0o4666);
    assert_eq!(mode("fifo"), 0o222);
}

#[test]
fn modes_are_exact_on_threads_that_did_not_boot() {
    let s = scratch();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| s.create_dir_with("dir", 0o777).unwrap());
        thread.join().unwrap();
    });
    assert_eq!(s.metadata("dir").unwrap().permissions(), 0o777);
}

#[test]
fn opening_an_entry_that_is_a_link_is_eloop() {
    let s = scratch();
    s.write("file", "x").unwrap();
    s.symlink("file", "link").unwrap();
    let dir = s.open_dir("/").unwrap();
    assert_eq!(errno(dir.open("link")), libc::ELOOP);
    assert_eq!(errno(dir.create("link")), libc::ELOOP);
}

#[test]
fn opening_a_linked_directory_by_name_is_refused() {
    let s = scratch();
    s.create_dir("dir").unwrap();
    s.symlink("dir", "link").unwrap();
    let dir = s.open_dir("/").unwrap();
    assert_eq!(errno(dir.open_dir("link")), libc::ENOTDIR);
}

#[test]
fn a_link_keeps_its_target_byte_for_byte() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    let targets = [&b"x"[..], b"/a//b/../c", b"\xff\xfe\n", &[b'y'; 4095]];
    for (i, target) in targets.into_iter().enumerate() {
        let name = i.to_string();
        dir.symlink(OsStr::from_bytes(target), &name).unwrap();
        let read = dir.read_link(&name).unwrap();
        assert_eq!(read.as_os_str().as_bytes(), target);
    }
}

#[test]
fn a_hard_link_is_the_same_file() {
    let s = scratch();
    s.create_dir("sub").unwrap();
    s.write("a", "x").unwrap();
    let (dir, sub) = (s.open_dir("/").unwrap(), s.open_dir("sub").unwrap());
    dir.hard_link("a", &sub, "b").unwrap();
    let (a, b) = (dir.metadata("a").unwrap(), sub.metadata("b").unwrap());
    assert_eq!((a.ino(), a.dev()), (b.ino(), b.dev()));
    assert_eq!(b.nlink(), 2);
}

#[test]
fn a_rename_replaces_unless_told_not_to() {
    let s = scratch();
    s.write("a", "a").unwrap();
    s.write("b", "b").unwrap();
    let dir = s.open_dir("/").unwrap();
    let refused = dir.rename("a", &dir, "b", libc::RENAME_NOREPLACE);
    assert_eq!(errno(refused), libc::EEXIST);
    dir.rename("a", &dir, "b", 0).unwrap();
    assert_eq!(s.read("b").unwrap(), b"a");
    assert!(!s.exists("a").unwrap());
}

#[test]
fn a_rename_can_exchange_two_entries() {
    let s = scratch();
    s.write("a", "a").unwrap();
    s.write("b", "b").unwrap();
    let dir = s.open_dir("/").unwrap();
    dir.rename("a", &dir, "b", libc::RENAME_EXCHANGE).unwrap();
    assert_eq!(s.read("a").unwrap(), b"b");
    assert_eq!(s.read("b").unwrap(), b"a");
}

#[test]
fn removing_a_directory_as_a_file_is_eisdir() {
    let s = scratch();
    s.create_dir("dir").unwrap();
    let dir = s.open_dir("/").unwrap();
    assert_eq!(errno(dir.remove_file("dir")), libc::EISDIR);
    dir.remove_dir("dir").unwrap();
}

#[test]
fn removing_a_directory_that_is_not_empty_is_enotempty() {
    let s = scratch();
    s.create_dir_all("a/b").unwrap();
    let dir = s.open_dir("/").unwrap();
    assert_eq!(errno(dir.remove_dir("a")), libc::ENOTEMPTY);
}

#[test]
fn the_mode_of_a_link_cannot_be_set() {
    let s = scratch();
    s.write("file", "").unwrap();
    s.symlink("file", "link").unwrap();
    let dir = s.open_dir("/").unwrap();
    assert_eq!(errno(dir.set_permissions("link", 0o600)), libc::EOPNOTSUPP);
    assert_eq!(dir.metadata("file").unwrap().permissions(), 0o644);
}

#[test]
fn owner_and_times_of_a_link_are_its_own() {
    let s = scratch();
    s.write("file", "").unwrap();
    s.symlink("file", "link").unwrap();
    let dir = s.open_dir("/").unwrap();
    let before = dir.metadata("file").unwrap();
    let time = Timestamp {
        seconds: 1_234_567_890,
        nanoseconds: 987_654_321,
    };
    dir.set_owner("link", Some(1), Some(2)).unwrap();
    let times = SetTimes {
        accessed: SetTime::Keep,
        modified: time.into(),
    };
    dir.set_times("link", times).unwrap();
    let link = dir.metadata("link").unwrap();
    assert_eq!((link.uid(), link.gid(), link.mtime()), (1, 2, time));
    let after = dir.metadata("file").unwrap();
    assert_eq!((after.uid(), after.gid()), (0, 0));
    assert_eq!(after.mtime(), before.mtime());
}

#[test]
fn a_device_number_the_kernel_cannot_hold_is_einval() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    let large = libc::makedev(1 << 12, 0);
    let made = dir.mknod("node", libc::S_IFCHR | 0o600, large);
    assert_eq!(errno(made), libc::EINVAL);
}
