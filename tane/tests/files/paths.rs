//! Promises of Tree about paths.

use crate::scratch::{errno, scratch};
use std::io;
use tane::{errno_of, Error};

#[test]
fn a_slash_at_the_end_insists_on_a_directory() {
    let s = scratch();
    s.write("file", "x").unwrap();
    s.create_dir("dir").unwrap();
    s.symlink("dir", "link").unwrap();
    for path in ["file/", "link/"] {
        assert_eq!(errno(s.remove_file(path)), libc::ENOTDIR, "{path}");
        assert_eq!(errno(s.remove_dir_all(path)), libc::ENOTDIR, "{path}");
        assert_eq!(errno(s.rename(path, "new")), libc::ENOTDIR, "{path}");
    }
    s.create_dir("new/").unwrap();
    s.rename("new/", "newer/").unwrap();
    s.remove_dir("newer/").unwrap();
}

#[test]
fn relative_and_absolute_paths_mean_the_same() {
    let s = scratch();
    s.create_dir_all("a/b").unwrap();
    s.write("a/b/file", "x").unwrap();
    for path in ["a/b/file", "/a/b/file", "//a/./b//file", "a/b/../b/file"] {
        assert_eq!(s.read(path).unwrap(), b"x", "{path}");
    }
}

#[test]
fn the_root_is_there_but_is_nobodys_entry() {
    let s = scratch();
    assert!(s.metadata("/").unwrap().is_dir());
    assert_eq!(errno(s.create_dir("/")), libc::EEXIST);
    assert_eq!(errno(s.remove_dir("/")), libc::EBUSY);
    s.create_dir_all("/").unwrap();
}

#[test]
fn an_empty_path_is_enoent() {
    let s = scratch();
    assert_eq!(errno(s.open("")), libc::ENOENT);
    assert_eq!(errno(s.metadata("")), libc::ENOENT);
    assert_eq!(errno(s.create_dir("")), libc::ENOENT);
}

#[test]
fn create_dir_all_through_a_file_is_enotdir() {
    let s = scratch();
    s.write("file", "x").unwrap();
    assert_eq!(errno(s.create_dir_all("file/a/b")), libc::ENOTDIR);
}

#[test]
fn an_error_reads_like_one_of_the_shell() {
    let error = scratch().open("/a/b").unwrap_err();
    let text = "open /a/b: No such file or directory (os error 2)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn an_error_keeps_its_number_and_kind_as_io_error() {
    let error = io::Error::from(scratch().open("/a").unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(errno_of(&error), Some(libc::ENOENT));
    let inner = Error::of(&error).and_then(Error::path);
    assert_eq!(inner, Some("/a".as_ref()));
}

#[test]
fn a_raw_call_gives_linux_errors_as_io_errors() {
    let s = scratch();
    // SAFETY: no pointers.
    let (pid, bad) = unsafe {
        let pid = s.kernel.try_syscall(libc::SYS_getpid, [0; 6]);
        let bad = [u64::MAX, 0, 0, 0, 0, 0];
        (pid, s.kernel.try_syscall(libc::SYS_close, bad))
    };
    assert_eq!(pid.unwrap(), 1);
    assert_eq!(bad.unwrap_err().raw_os_error(), Some(libc::EBADF));
}
