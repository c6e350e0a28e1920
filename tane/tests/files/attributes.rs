//! Promises about extended attributes.

use crate::scratch::{errno, scratch, Scratch};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const KEY: &str = "user.key";
/// Links and device nodes may have no user attributes.
const TRUSTED: &str = "trusted.key";

fn with_file() -> Scratch {
    let s = scratch();
    s.write("file", "").unwrap();
    s
}

#[test]
fn an_attribute_is_read_back_byte_for_byte() {
    let s = with_file();
    let file = s.open("file").unwrap();
    for value in [&b""[..], b"text", b"\0\xff\0", &[7; 513], &[8; 65536]] {
        file.set_xattr(KEY, value, 0).unwrap();
        assert_eq!(file.xattr(KEY).unwrap().as_deref(), Some(value));
    }
}

#[test]
fn a_missing_attribute_is_none() {
    let s = with_file();
    assert_eq!(s.xattr("file", KEY).unwrap(), None);
    assert_eq!(s.open("file").unwrap().xattr(KEY).unwrap(), None);
}

#[test]
fn removing_a_missing_attribute_is_enodata() {
    let s = with_file();
    assert_eq!(errno(s.remove_xattr("file", KEY)), libc::ENODATA);
}

#[test]
fn create_and_replace_insist() {
    let s = with_file();
    let set = |flags| s.set_xattr("file", KEY, b"x", flags);
    assert_eq!(errno(set(libc::XATTR_REPLACE)), libc::ENODATA);
    set(libc::XATTR_CREATE).unwrap();
    assert_eq!(errno(set(libc::XATTR_CREATE)), libc::EEXIST);
}

#[test]
fn an_attribute_of_a_file_shows_through_every_handle() {
    let s = with_file();
    s.set_xattr("file", KEY, b"x", 0).unwrap();
    let dir = s.open_dir("/").unwrap();
    assert_eq!(dir.xattr("file", KEY).unwrap().unwrap(), b"x");
    assert_eq!(dir.xattrs("file").unwrap(), [KEY]);
    let file = s.open("file").unwrap();
    assert_eq!(file.xattrs().unwrap(), [KEY]);
    dir.remove_xattr("file", KEY).unwrap();
    assert!(file.xattrs().unwrap().is_empty());
}

#[test]
fn attributes_of_a_link_are_its_own() {
    let s = with_file();
    s.symlink("file", "link").unwrap();
    let dir = s.open_dir("/").unwrap();
    dir.set_xattr("link", TRUSTED, b"of the link", 0).unwrap();
    s.set_xattr("link", TRUSTED, b"of the file", 0).unwrap();
    let of_link = s.symlink_xattr("link", TRUSTED).unwrap().unwrap();
    let of_file = s.xattr("file", TRUSTED).unwrap().unwrap();
    assert_eq!(of_link, b"of the link");
    assert_eq!(of_file, b"of the file");
}

#[test]
fn a_link_to_nowhere_has_attributes() {
    let s = scratch();
    s.symlink("nowhere", "link").unwrap();
    s.set_symlink_xattr("link", TRUSTED, b"x", 0).unwrap();
    assert_eq!(s.symlink_xattrs("link").unwrap(), [TRUSTED]);
    s.remove_symlink_xattr("link", TRUSTED).unwrap();
    assert!(s.symlink_xattrs("link").unwrap().is_empty());
}

#[test]
fn a_device_node_has_attributes_without_being_opened() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    let null = libc::makedev(1, 3);
    dir.mknod("null", libc::S_IFCHR | 0o600, null).unwrap();
    dir.set_xattr("null", TRUSTED, b"x", 0).unwrap();
    assert_eq!(dir.xattr("null", TRUSTED).unwrap().unwrap(), b"x");
    assert_eq!(s.xattr("null", TRUSTED).unwrap().unwrap(), b"x");
}

#[test]
fn attributes_work_on_threads_that_did_not_boot() {
    let s = with_file();
    let dir = s.open_dir("/").unwrap();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let dir = &dir;
            let key = format!("user.thread{i}");
            scope.spawn(move || dir.set_xattr("file", key, b"x", 0).unwrap());
        }
    });
    assert_eq!(dir.xattrs("file").unwrap().len(), 4);
}

#[test]
fn an_entry_with_the_longest_name_has_attributes() {
    let s = scratch();
    let dir = s.open_dir("/").unwrap();
    let name = OsStr::from_bytes(&[0xff; 255]);
    dir.create(name).unwrap();
    dir.set_xattr(name, KEY, b"x", 0).unwrap();
    assert_eq!(dir.xattr(name, KEY).unwrap().unwrap(), b"x");
}

#[test]
fn a_buffer_too_small_for_a_value_is_erange() {
    let s = with_file();
    let file = s.open("file").unwrap();
    file.set_xattr(KEY, b"four", 0).unwrap();
    assert_eq!(file.xattr_into(KEY, &mut []).unwrap(), 4);
    assert_eq!(errno(file.xattr_into(KEY, &mut [0; 3])), libc::ERANGE);
    assert_eq!(file.xattr_into(KEY, &mut [0; 9]).unwrap(), 4);
}
