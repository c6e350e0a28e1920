//! Promises about paths, entries and attributes, by comparison of two Linuxes.

use crate::common::everywhere;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::{FileType, OpenOptions, SetTime, SetTimes, Timestamp, Tree};
use tane_test_support::has_root;

fn names(tree: &Tree, path: &str) -> Vec<Vec<u8>> {
    let entries = tree.read_dir(path).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .filter(|name| name != b"lost+found")
        .collect();
    names.sort();
    names
}

#[test]
fn no_link_leads_out_of_the_tree() {
    everywhere(|tree| {
        tree.create_dir_all("a/b").unwrap();
        tree.write("target", "inside").unwrap();
        tree.symlink("/target", "a/b/absolute").unwrap();
        tree.symlink("../../../../../target", "a/b/dots").unwrap();
        tree.symlink("/a/b", "link").unwrap();
        for path in [
            "a/b/absolute",
            "/a/b/dots",
            "link/dots",
            "/../../target",
            "link/../../target",
        ] {
            assert_eq!(tree.read(path).unwrap(), b"inside", "{path}");
        }
        tree.symlink("/proc/self/root/etc", "a/out").unwrap();
        assert_eq!(tree.read_dir("a/out").unwrap_err().errno(), libc::ENOENT);
        // Neither do calls that change something.
        tree.symlink("/a", "a/up").unwrap();
        tree.write("a/up/up/new", "x").unwrap();
        assert!(tree.exists("/a/new").unwrap());
        tree.set_permissions("a/b/absolute", 0o611).unwrap();
        assert_eq!(tree.metadata("target").unwrap().permissions(), 0o611);
        tree.truncate("a/b/absolute", 2).unwrap();
        assert_eq!(tree.read("target").unwrap(), b"in");
    });
}

#[test]
fn links_are_followed_or_meant_themselves() {
    everywhere(|tree| {
        tree.write("f", "12345").unwrap();
        tree.symlink("f", "l").unwrap();
        assert_eq!(tree.metadata("l").unwrap().len(), 5);
        assert!(tree.metadata("l").unwrap().is_file());
        assert!(tree.symlink_metadata("l").unwrap().is_symlink());
        assert_eq!(tree.read_link("l").unwrap(), Path::new("f"));
        assert_eq!(tree.read_link("f").unwrap_err().errno(), libc::EINVAL);

        let time = Timestamp {
            seconds: 1_000_000,
            nanoseconds: 1,
        };
        let times = SetTimes {
            accessed: SetTime::Keep,
            modified: SetTime::To(time),
        };
        tree.set_symlink_times("l", times).unwrap();
        assert_eq!(tree.symlink_metadata("l").unwrap().mtime(), time);
        assert_ne!(tree.metadata("l").unwrap().mtime(), time);
        tree.set_times("l", times).unwrap();
        assert_eq!(tree.metadata("f").unwrap().mtime(), time);
        let dir = tree.open_dir("/").unwrap();
        assert_eq!(dir.open("l").unwrap_err().errno(), libc::ELOOP);
        assert_eq!(
            dir.set_permissions("l", 0o600).unwrap_err().errno(),
            libc::EOPNOTSUPP
        );
        tree.remove_file("l").unwrap();
        assert!(tree.exists("f").unwrap());
    });
}

#[test]
fn a_link_or_what_it_leads_to_is_given_away() {
    if !has_root() {
        return;
    }
    everywhere(|tree| {
        tree.write("f", "").unwrap();
        tree.symlink("f", "l").unwrap();
        tree.lchown("l", Some(7), None).unwrap();
        assert_eq!(tree.symlink_metadata("l").unwrap().uid(), 7);
        assert_eq!(tree.metadata("l").unwrap().uid(), 0);
        tree.chown("l", None, Some(8)).unwrap();
        assert_eq!(tree.metadata("f").unwrap().gid(), 8);
    });
}

#[test]
fn names_are_bytes() {
    everywhere(|tree| {
        let dir = tree.open_dir("/").unwrap();
        let odd: [&[u8]; 5] = [b"\xff\xfe", b"a\nb", b" ", b"-rf", b"\xc3\xa4"];
        tree.create_dir("names").unwrap();
        let names_dir = dir.open_dir("names").unwrap();
        for name in odd {
            names_dir.create(OsStr::from_bytes(name)).unwrap();
        }
        let long = [b'x'; 255];
        names_dir.create(OsStr::from_bytes(&long)).unwrap();
        let longer = names_dir.create(OsStr::from_bytes(&[b'x'; 256]));
        assert_eq!(longer.unwrap_err().errno(), libc::ENAMETOOLONG);
        let mut expected: Vec<_> = odd.iter().map(|n| n.to_vec()).collect();
        expected.push(long.to_vec());
        expected.sort();
        assert_eq!(names(tree, "names"), expected);
        for bad in ["", ".", "..", "a/b", "a\0"] {
            assert_eq!(
                dir.create(bad).unwrap_err().errno(),
                libc::EINVAL,
                "{bad:?}"
            );
        }
    });
}

#[test]
fn a_large_directory_is_listed_whole_and_once() {
    everywhere(|tree| {
        tree.create_dir("d").unwrap();
        let dir = tree.open_dir("d").unwrap();
        for i in 0..3000 {
            dir.create(format!("a file with a rather long name {i}"))
                .unwrap();
        }
        let mut listing = dir.read_dir().unwrap();
        for _ in 0..2 {
            let mut seen = std::collections::HashSet::new();
            while let Some(entry) = listing.next_entry().unwrap() {
                assert!(seen.insert(entry.file_name().to_owned()));
                assert!(matches!(entry.file_type(), None | Some(FileType::File)));
            }
            assert_eq!(seen.len(), 3000);
            assert!(listing.next_entry().unwrap().is_none());
            listing.rewind().unwrap();
        }
        tree.remove_dir_all("d").unwrap();
        assert!(!tree.exists("d").unwrap());
    });
}

#[test]
fn remove_dir_all_removes_links_and_not_their_targets() {
    everywhere(|tree| {
        tree.create_dir_all("keep/sub").unwrap();
        tree.write("keep/file", "").unwrap();
        let mut deep = String::from("gone");
        for i in 0..60 {
            deep.push_str("/d");
            tree.create_dir_all(&deep).unwrap();
            tree.symlink("/keep", format!("{deep}/link{i}")).unwrap();
            tree.write(format!("{deep}/file"), "").unwrap();
        }
        tree.remove_dir_all("gone").unwrap();
        assert_eq!(names(tree, "/"), [b"keep"]);
        assert_eq!(names(tree, "/keep"), [&b"file"[..], b"sub"]);
        tree.symlink("keep", "link").unwrap();
        tree.remove_dir_all("link").unwrap();
        assert!(tree.exists("keep/file").unwrap());
    });
}

#[test]
fn entries_are_renamed_linked_and_exchanged() {
    everywhere(|tree| {
        tree.write("a", "a").unwrap();
        tree.write("b", "b").unwrap();
        let error = tree
            .rename_with("a", "b", libc::RENAME_NOREPLACE)
            .unwrap_err();
        assert_eq!(error.errno(), libc::EEXIST);
        tree.rename_with("a", "b", libc::RENAME_EXCHANGE).unwrap();
        assert_eq!(tree.read("a").unwrap(), b"b");
        tree.create_dir("d").unwrap();
        tree.rename("a", "d/c").unwrap();
        tree.hard_link("d/c", "e").unwrap();
        assert_eq!(tree.metadata("e").unwrap().nlink(), 2);
        let same = |path| tree.metadata(path).unwrap().ino();
        assert_eq!(same("e"), same("d/c"));
        tree.rename("b", "e").unwrap();
        assert_eq!(tree.read("e").unwrap(), b"a");
        assert_eq!(tree.remove_dir("d").unwrap_err().errno(), libc::ENOTEMPTY);
        assert_eq!(tree.remove_file("d").unwrap_err().errno(), libc::EISDIR);
        assert_eq!(tree.remove_dir("e").unwrap_err().errno(), libc::ENOTDIR);
    });
}

#[test]
fn all_kinds_of_files_are_made_and_told_apart() {
    if !has_root() {
        return;
    }
    everywhere(|tree| {
        let kinds = [
            ("fifo", libc::S_IFIFO, 0, FileType::Fifo),
            ("sock", libc::S_IFSOCK, 0, FileType::Socket),
            (
                "chr",
                libc::S_IFCHR,
                libc::makedev(1, 3),
                FileType::CharDevice,
            ),
            (
                "blk",
                libc::S_IFBLK,
                libc::makedev(259, 70_000),
                FileType::BlockDevice,
            ),
            ("reg", libc::S_IFREG, 0, FileType::File),
        ];
        for (name, kind, rdev, expected) in kinds {
            tree.mknod(name, kind | 0o600, rdev).unwrap();
            let metadata = tree.metadata(name).unwrap();
            assert_eq!(metadata.file_type(), expected);
            assert_eq!(metadata.rdev(), rdev);
            assert_eq!(metadata.permissions(), 0o600);
        }
        for entry in tree.read_dir("/").unwrap() {
            let entry = entry.unwrap();
            let kind = tree.metadata(entry.file_name()).unwrap().file_type();
            assert_eq!(entry.file_type().unwrap(), kind);
        }
    });
}

#[test]
fn attributes_are_set_listed_and_removed() {
    everywhere(|tree| {
        tree.write("f", "").unwrap();
        let file = OpenOptions::new().write(true).open(tree, "f").unwrap();
        match file.set_xattr("user.a", b"1\0\xff", 0) {
            Err(error) if error.errno() == libc::EOPNOTSUPP => return,
            other => other.unwrap(),
        }
        let long = vec![b'v'; 700];
        tree.symlink("f", "l").unwrap();
        tree.set_xattr("l", "user.long", &long, libc::XATTR_CREATE)
            .unwrap();
        let again = tree.set_xattr("f", "user.long", b"", libc::XATTR_CREATE);
        assert_eq!(again.unwrap_err().errno(), libc::EEXIST);
        assert_eq!(
            file.xattr("user.a").unwrap().as_deref(),
            Some(&b"1\0\xff"[..])
        );
        assert_eq!(tree.xattr("f", "user.long").unwrap(), Some(long.clone()));
        assert_eq!(
            tree.open_dir("/").unwrap().xattr("f", "user.long").unwrap(),
            Some(long)
        );
        assert_eq!(file.xattr_into("user.a", &mut []).unwrap(), 3);
        let small = file.xattr_into("user.a", &mut [0; 2]).unwrap_err();
        assert_eq!(small.errno(), libc::ERANGE);
        let mut list = tree.xattrs("l").unwrap();
        list.retain(|name| name.as_bytes().starts_with(b"user."));
        list.sort();
        assert_eq!(list, ["user.a", "user.long"]);
        tree.remove_xattr("l", "user.long").unwrap();
        assert_eq!(file.xattr("user.long").unwrap(), None);
        let gone = file.remove_xattr("user.long").unwrap_err();
        assert_eq!(gone.errno(), libc::ENODATA);
    });
}

#[test]
fn links_and_nodes_have_attributes_of_their_own() {
    if !has_root() {
        return;
    }
    everywhere(|tree| {
        tree.write("f", "").unwrap();
        tree.symlink("f", "l").unwrap();
        tree.symlink("/nowhere", "dangling").unwrap();
        tree.mknod("n", libc::S_IFCHR | 0o600, libc::makedev(1, 3))
            .unwrap();
        for name in ["l", "dangling", "n"] {
            match tree.set_symlink_xattr(name, "trusted.x", name.as_bytes(), 0) {
                Err(error) if error.errno() == libc::EOPNOTSUPP => return,
                other => other.unwrap(),
            }
            let value = tree.symlink_xattr(name, "trusted.x").unwrap();
            assert_eq!(value.as_deref(), Some(name.as_bytes()));
            let list = tree.symlink_xattrs(name).unwrap();
            assert!(list.iter().any(|name| name == "trusted.x"), "{list:?}");
        }
        assert_eq!(tree.xattr("f", "trusted.x").unwrap(), None);
        assert_eq!(
            tree.xattr("n", "trusted.x").unwrap().as_deref(),
            Some(&b"n"[..])
        );
        tree.remove_symlink_xattr("dangling", "trusted.x").unwrap();
        assert_eq!(tree.symlink_xattr("dangling", "trusted.x").unwrap(), None);
    });
}

#[test]
fn create_dir_all_takes_what_is_there() {
    everywhere(|tree| {
        tree.create_dir_all("a/b/c").unwrap();
        tree.create_dir_all("/a/b/c/").unwrap();
        tree.create_dir_all("/").unwrap();
        tree.symlink("a", "l").unwrap();
        tree.create_dir_all("l/b/d").unwrap();
        assert!(tree.metadata("a/b/d").unwrap().is_dir());
        tree.write("f", "").unwrap();
        for path in ["f", "f/x"] {
            assert!(tree.create_dir_all(path).is_err(), "{path}");
        }
        assert_eq!(tree.create_dir("a").unwrap_err().errno(), libc::EEXIST);
        assert_eq!(tree.create_dir("").unwrap_err().errno(), libc::ENOENT);
        assert_eq!(tree.remove_dir("/").unwrap_err().errno(), libc::EBUSY);
    });
}

#[test]
fn errors_name_the_operation_and_the_path() {
    everywhere(|tree| {
        let error = tree.open("no/such/file").unwrap_err();
        assert_eq!(error.path(), Some(Path::new("no/such/file")));
        assert!(error.to_string().starts_with("open no/such/file: No such"));
        assert!(!tree.exists("no").unwrap());
        let long = "x/".repeat(3000);
        assert_eq!(tree.open(long).unwrap_err().errno(), libc::ENAMETOOLONG);
    });
}

#[test]
fn the_file_system_says_how_full_it_is() {
    everywhere(|tree| {
        let before = tree.statfs().unwrap();
        assert!(before.total >= before.free && before.free >= before.available);
        assert!(before.name_max == 255 && !before.read_only);
        tree.write("f", vec![1; 4 << 20]).unwrap();
        tree.sync().unwrap();
        let dir = tree.open_dir("/").unwrap();
        dir.sync().unwrap();
    });
}
