//! Promises at the limits: sizes, names, and what is no image at all.

use crate::common::{ext4, mount, TempDir};
use crate::medium::{run, sbin, Medium};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tane::{DiskOptions, Error, Kernel, MountOptions};

#[test]
fn an_image_of_seventy_gib() {
    let dir = TempDir::new();
    let image = crate::common::blank(&dir, "large", 70 << 10);
    let arguments = "-q -F -t ext4 -N 4096 -J size=16 -E lazy_itable_init=1,nodiscard";
    let arguments: Vec<_> = arguments.split(' ').collect();
    crate::common::tool("mke2fs", &arguments, &image);
    let kernel = crate::scratch::boot();
    let (disk, mounted) = mount(&kernel, &image);
    assert_eq!(disk.size().expect("a size"), 70 << 30);
    // A directory goes into a group of its own: these spread over the disk.
    for i in 0..64u8 {
        mounted.create_dir(format!("d{i}")).expect("mkdir");
        let name = format!("d{i}/f");
        mounted.write(name, vec![i; 100_000]).expect("write");
    }
    let file = mounted.create("sparse").expect("create");
    file.write_all_at(b"far", 60 << 30).expect("write");
    drop(file);
    mounted.unmount().expect("unmounts");
    let mounted = MountOptions::new().mount(&kernel, disk.device());
    let mounted = mounted.expect("mounts");
    for i in 0..64u8 {
        let data = mounted.read(format!("d{i}/f")).expect("read");
        assert!(data == vec![i; 100_000], "{i}");
    }
    let mut far = [0; 3];
    let file = mounted.open("sparse").expect("opens");
    file.read_exact_at(&mut far, 60 << 30).expect("reads");
    assert_eq!(&far, b"far");
    drop(file);
    mounted.unmount().expect("unmounts");
    disk.remove().expect("goes away");
    let output = run(sbin("e2fsck").arg("-fn").arg(&image));
    assert!(output.status.success(), "{}", crate::medium::both(&output));
}

#[test]
fn a_hundred_thousand_files_in_one_directory() {
    const COUNT: usize = 100_000;
    let medium = Medium::mke2fs(192, "-t ext4 -b 4096 -N 101000 -J size=16");
    let kernel = crate::scratch::boot();
    let start = Instant::now();
    let mounted = medium.mount(&kernel).expect("mounts");
    mounted.create_dir("d").expect("mkdir");
    let dir = mounted.open_dir("d").expect("opens");
    let name = |i: usize| format!("file number {i}");
    for i in 0..COUNT {
        dir.create(name(i)).expect("create");
    }
    let made = start.elapsed();
    let mut seen = HashSet::new();
    for entry in dir.read_dir().expect("lists") {
        assert!(seen.insert(entry.expect("an entry").into_file_name()));
    }
    assert_eq!(seen.len(), COUNT);
    for i in (0..COUNT).step_by(7) {
        assert!(seen.contains(OsStr::new(&name(i))));
        dir.metadata(name(i)).expect("looks up");
    }
    assert_eq!(errno(dir.metadata(name(COUNT))), libc::ENOENT);
    drop(dir);
    mounted.unmount().expect("unmounts");
    println!("made in {made:?}, all in {:?}", start.elapsed());
    assert_eq!(medium.fault(), None);
}

fn errno<T: std::fmt::Debug>(result: tane::Result<T>) -> i32 {
    result.expect_err("an error").errno()
}

#[test]
fn names_are_bytes_and_end_at_255_of_them() {
    let medium = Medium::mke2fs(16, "-t ext4 -b 4096");
    let kernel = crate::scratch::boot();
    let mounted = medium.mount(&kernel).expect("mounts");
    for (len, fits) in [(255, true), (256, false), (300, false)] {
        let name = "n".repeat(len);
        match mounted.write(&name, "x") {
            Ok(()) => assert!(fits),
            Err(error) => {
                assert!(!fits);
                assert_eq!(error.errno(), libc::ENAMETOOLONG);
                assert_eq!(error.path(), Some(Path::new(&name)));
            }
        }
        let below = PathBuf::from(name).join("f");
        let wanted = if fits {
            libc::ENOTDIR
        } else {
            libc::ENAMETOOLONG
        };
        assert_eq!(errno(mounted.open(below)), wanted);
    }
    let names: [&[u8]; 8] = [
        b"a:b",
        b"a:/b",
        b"two\nlines",
        b"\xff\xfe not UTF-8 \x80",
        b" ",
        b"-rf",
        b"\\",
        b"\x01\x1b[31m\x7f",
    ];
    mounted.create_dir("a:").expect("mkdir");
    mounted.create_dir("odd").expect("mkdir");
    for name in names {
        let path = match name.contains(&b'/') {
            true => PathBuf::from(OsStr::from_bytes(name)),
            false => Path::new("odd").join(OsStr::from_bytes(name)),
        };
        mounted.write(&path, name).expect("writes");
        assert_eq!(mounted.read(&path).expect("reads"), name);
    }
    let listed: HashSet<_> = mounted
        .read_dir("odd")
        .expect("lists")
        .map(|entry| entry.expect("an entry").into_file_name())
        .collect();
    let plain = names.iter().filter(|name| !name.contains(&b'/'));
    let wanted = plain.map(|name| OsStr::from_bytes(name).to_owned());
    assert_eq!(listed, wanted.collect());
    assert_eq!(errno(mounted.write("nul\0byte", "")), libc::EINVAL);
    mounted.unmount().expect("unmounts");
    assert_eq!(medium.fault(), None);
}

fn open(kernel: &Kernel, path: &Path) -> Error {
    let error = kernel.open_disk(path, &DiskOptions::new());
    let error = error.expect_err("no image");
    let text = error.to_string();
    println!("{text}");
    assert!(text.contains(path.to_str().expect("UTF-8")), "{text}");
    error
}

#[test]
fn what_is_no_image_is_an_error_that_names_it() {
    let dir = TempDir::new();
    let kernel = crate::scratch::boot();
    assert_eq!(
        open(&kernel, &dir.path().join("none")).errno(),
        libc::ENOENT
    );
    assert_eq!(open(&kernel, dir.path()).errno(), libc::EISDIR);
    assert_eq!(open(&kernel, Path::new("/dev/null")).errno(), libc::EINVAL);
}

#[test]
fn images_too_small_to_hold_anything_mount_as_nothing() {
    let dir = TempDir::new();
    let kernel = crate::scratch::boot();
    for len in [0, 1, 17, 511, 512, 513, 1024, 4095, 4096, 70_000] {
        for byte in [0, 0xff, 0x53] {
            let path = dir.path().join(format!("{len}-{byte}"));
            std::fs::write(&path, vec![byte; len]).expect("a file");
            let disk = kernel.open_disk(&path, &DiskOptions::new());
            let disk = disk.expect("a disk, if of no use");
            assert_eq!(disk.probe().expect("no error"), None);
            let refused = MountOptions::new().mount(&kernel, disk.device());
            let error = refused.expect_err("nothing to mount");
            assert_eq!(error.errno(), libc::ENOMEDIUM, "{len}: {error}");
            let mut ext4 = MountOptions::new();
            let refused = ext4.fstype("ext4").mount(&kernel, disk.device());
            refused.expect_err("nothing to mount");
            disk.remove().expect("goes away");
            let left = std::fs::read(&path).expect("the file");
            assert!(left == vec![byte; len], "{len}: changed");
        }
    }
}

/// Files are opened as somebody without rights while this is there.
struct Nobody(libc::c_int);

impl Nobody {
    fn new() -> Nobody {
        // SAFETY: concerns this thread's access to files alone.
        Nobody(unsafe { libc::setfsuid(65534) })
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::setfsuid(self.0 as libc::uid_t) };
    }
}

#[test]
fn an_image_without_permission_says_what_would_be_possible() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let mode = |mode| std::fs::set_permissions(&image, PermissionsExt::from_mode(mode));
    let kernel = crate::scratch::boot();
    mode(0o444).expect("chmod");
    {
        let _nobody = Nobody::new();
        let error = open(&kernel, &image);
        assert_eq!(error.errno(), libc::EACCES);
        assert!(error.to_string().contains("open it read-only?"));
        let mut options = DiskOptions::new();
        let disk = kernel.open_disk(&image, options.read_only(true));
        disk.expect("may be read");
    }
    mode(0o000).expect("chmod");
    let _nobody = Nobody::new();
    assert_eq!(open(&kernel, &image).errno(), libc::EACCES);
    let mut options = DiskOptions::new();
    let disk = kernel.open_disk(&image, options.read_only(true));
    assert_eq!(disk.expect_err("no right").errno(), libc::EACCES);
}

/// A directory that is mounted on itself, until this goes away.
struct Bound<'a>(&'a Path);

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        run(sbin("umount").arg("-l").arg(self.0));
    }
}

#[test]
fn an_image_on_a_read_only_host_can_be_read() {
    let dir = TempDir::new();
    let image = ext4(&dir, 16);
    let bind = |arguments: &[&str]| {
        let output = run(sbin("mount").args(arguments).arg(dir.path()));
        output.status.success()
    };
    let itself = dir.path().to_str().expect("UTF-8");
    if !bind(&["--bind", itself]) {
        return tane_test_support::skip("no bind mount: takes root");
    }
    let _bound = Bound(dir.path());
    assert!(bind(&["-o", "remount,bind,ro"]));
    let kernel = crate::scratch::boot();
    let error = open(&kernel, &image);
    assert_eq!(error.errno(), libc::EROFS);
    assert!(error.to_string().contains("open it read-only?"));
    for snapshot in [false, true] {
        let mut options = DiskOptions::new();
        options.read_only(!snapshot).snapshot(snapshot);
        let disk = kernel.open_disk(&image, &options).expect("may be read");
        let mut options = MountOptions::new();
        let mounted = options.read_only(true).mount(&kernel, disk.device());
        assert!(mounted
            .expect("mounts")
            .exists("lost+found")
            .expect("reads"));
    }
}
