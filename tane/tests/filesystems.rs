//! Every type of disk image the default kernel promises: made by the type's own
//! mkfs, written and read here, and clean in the eyes of the type's own fsck.

mod common;
mod inside;

use common::{blank, TempDir};
use inside::{default_kernel, run};
use std::path::{Path, PathBuf};
use tane::{DiskOptions, Kernel, Mount, MountOptions};
use tane_test_support::tool;

/// A tool of the host: its package, its name, its arguments before the image.
type Tool = (&'static str, &'static str, &'static [&'static str]);

struct Writable {
    fstype: &'static str,
    mib: u64,
    mkfs: Tool,
    fsck: Option<Tool>,
}

/// Bytes that no two offsets share for long.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let byte = |i: u64| ((i.wrapping_mul(0x9e37_79b9) >> 7) ^ (i >> 9) ^ seed) as u8;
    (0..len as u64).map(byte).collect()
}

const LARGE: usize = 3 << 20;

fn on_image<T>(kernel: &Kernel, image: &Path, fstype: &str, work: impl Fn(&Mount) -> T) -> T {
    let disk = kernel.open_disk(image, &DiskOptions::new()).expect("opens");
    let mut options = MountOptions::new();
    let mount = options
        .fstype(fstype)
        .mount(kernel, disk.device())
        .unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    assert_eq!(mount.fstype(), fstype);
    let result = work(&mount);
    mount.unmount().expect("unmounts");
    disk.remove().expect("goes away");
    result
}

impl Writable {
    /// Written, synced, unmounted, mounted again, read back, changed, checked.
    fn holds_what_was_written(&self) {
        let dir = TempDir::new();
        let image = blank(&dir, "image", self.mib);
        let (package, name, args) = self.mkfs;
        let Some(mut mkfs) = tool(package, name) else {
            return;
        };
        run(mkfs.args(args).arg(&image));
        let Some(kernel) = default_kernel() else {
            return;
        };
        on_image(&kernel, &image, self.fstype, |mount| {
            mount.create_dir_all("a/b").expect("directories");
            let file = mount.create("a/b/large").expect("a file");
            file.write_all_at(&pattern(1, LARGE), 0).expect("writes");
            file.sync_all().expect("syncs");
            for i in 0..50 {
                let name = format!("a/a file with quite a long name {i}");
                mount.write(&name, pattern(i, 100)).expect("writes");
            }
            mount.write("gone", b"gone").expect("writes");
            mount.rename("a/b/large", "a/large").expect("renames");
            mount.remove_file("gone").expect("removes");
        });
        on_image(&kernel, &image, self.fstype, |mount| {
            assert!(mount.read("a/large").expect("reads") == pattern(1, LARGE));
            for i in 0..50 {
                let name = format!("a/a file with quite a long name {i}");
                assert!(mount.read(&name).expect("reads") == pattern(i, 100));
            }
            assert!(!mount.exists("gone").expect("looks"));
            assert!(!mount.exists("a/b/large").expect("looks"));
            mount.remove_dir("a/b").expect("removes");
            mount.truncate("a/large", 1000).expect("truncates");
        });
        let short = on_image(&kernel, &image, self.fstype, |mount| mount.read("a/large"));
        assert!(short.expect("reads") == pattern(1, 1000));
        let dmesg = kernel.dmesg();
        assert_eq!(inside::complaints(&dmesg), [""; 0]);
        if let Some((package, name, args)) = self.fsck {
            if let Some(mut fsck) = tool(package, name) {
                let text = run(fsck.args(args).arg(&image));
                assert!(!text.contains("[Fail]"), "{text}");
            }
        }
    }
}

const E2FSCK: Option<Tool> = Some(("e2fsprogs", "e2fsck", &["-fn"]));

#[test]
fn ext2() {
    let kind = Writable {
        fstype: "ext2",
        mib: 16,
        mkfs: ("e2fsprogs", "mkfs.ext2", &["-q", "-F"]),
        fsck: E2FSCK,
    };
    kind.holds_what_was_written();
}

#[test]
fn ext3() {
    let kind = Writable {
        fstype: "ext3",
        mib: 32,
        mkfs: ("e2fsprogs", "mkfs.ext3", &["-q", "-F"]),
        fsck: E2FSCK,
    };
    kind.holds_what_was_written();
}

#[test]
fn ext4() {
    let kind = Writable {
        fstype: "ext4",
        mib: 32,
        mkfs: ("e2fsprogs", "mkfs.ext4", &["-q", "-F"]),
        fsck: E2FSCK,
    };
    kind.holds_what_was_written();
}

#[test]
fn xfs() {
    let kind = Writable {
        fstype: "xfs",
        mib: 320, // mkfs makes none below 300
        mkfs: ("xfsprogs", "mkfs.xfs", &["-q", "-f"]),
        fsck: Some(("xfsprogs", "xfs_repair", &["-n"])),
    };
    kind.holds_what_was_written();
}

#[test]
fn btrfs() {
    let kind = Writable {
        fstype: "btrfs",
        mib: 160,
        mkfs: ("btrfs-progs", "mkfs.btrfs", &["-q", "-f"]),
        fsck: Some(("btrfs-progs", "btrfs", &["check"])),
    };
    kind.holds_what_was_written();
}

#[test]
fn f2fs() {
    let kind = Writable {
        fstype: "f2fs",
        mib: 128,
        mkfs: ("f2fs-tools", "mkfs.f2fs", &["-q", "-f"]),
        fsck: Some(("f2fs-tools", "fsck.f2fs", &["-f", "--dry-run"])),
    };
    kind.holds_what_was_written();
}

#[test]
fn vfat() {
    let kind = Writable {
        fstype: "vfat",
        mib: 16,
        mkfs: ("dosfstools", "mkfs.vfat", &[]),
        fsck: Some(("dosfstools", "fsck.vfat", &["-n"])),
    };
    kind.holds_what_was_written();
}

#[test]
fn exfat() {
    let kind = Writable {
        fstype: "exfat",
        mib: 16,
        mkfs: ("exfatprogs", "mkfs.exfat", &[]),
        fsck: Some(("exfatprogs", "fsck.exfat", &["-n"])),
    };
    kind.holds_what_was_written();
}

#[test]
fn ntfs3() {
    let kind = Writable {
        fstype: "ntfs3",
        mib: 32,
        mkfs: ("ntfs-3g", "mkntfs", &["-F", "-Q", "-q"]),
        fsck: Some(("ntfs-3g", "ntfsfix", &["-n"])),
    };
    kind.holds_what_was_written();
}

#[test]
fn udf() {
    let kind = Writable {
        fstype: "udf",
        mib: 32,
        mkfs: (
            "udftools",
            "mkudffs",
            &["--media-type=hd", "--blocksize=512"],
        ),
        fsck: None, // udftools has none
    };
    kind.holds_what_was_written();
}

/// A directory of the host, with what its image must hold.
fn sample(dir: &TempDir) -> PathBuf {
    let sample = dir.path().join("sample");
    std::fs::create_dir_all(sample.join("sub/sub")).expect("directories");
    std::fs::write(sample.join("large"), pattern(3, LARGE)).expect("a file");
    std::fs::write(sample.join("zeros"), vec![0; LARGE]).expect("a file");
    std::fs::write(sample.join("sub/sub/A Mixed-Case name.txt"), "text").expect("a file");
    sample
}

/// `make` gets the image's path and the directory's.
fn read_only(fstype: &str, package: &str, name: &str, make: impl Fn(&Path, &Path) -> Vec<PathBuf>) {
    let dir = TempDir::new();
    let image = dir.path().join("image");
    let Some(mut make_it) = tool(package, name) else {
        return;
    };
    run(make_it.args(make(&image, &sample(&dir))));
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mut options = DiskOptions::new();
    let disk = kernel.open_disk(&image, options.read_only(true));
    let disk = disk.expect("opens");
    let mut options = MountOptions::new();
    options.fstype(fstype).read_only(true);
    let mount = options.mount(&kernel, disk.device());
    let mount = mount.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    assert!(mount.read("large").expect("reads") == pattern(3, LARGE));
    assert!(mount.read("zeros").expect("reads") == vec![0; LARGE]);
    let text = mount.read("sub/sub/A Mixed-Case name.txt");
    assert_eq!(text.expect("reads"), b"text");
    let refused = mount.write("new", b"").expect_err("is read-only");
    assert_eq!(refused.errno(), libc::EROFS);
    mount.unmount().expect("unmounts");
    assert_eq!(inside::complaints(&kernel.dmesg()), [""; 0]);
}

#[test]
fn squashfs() {
    for compression in ["gzip", "xz", "lz4", "zstd", "lzo"] {
        read_only("squashfs", "squashfs-tools", "mksquashfs", |image, dir| {
            let words = ["-noappend", "-quiet", "-no-progress", "-comp", compression];
            let mut args = vec![dir.to_owned(), image.to_owned()];
            args.extend(words.map(PathBuf::from));
            args
        });
    }
}

#[test]
fn erofs() {
    for compression in ["", "-zlz4"] {
        read_only("erofs", "erofs-utils", "mkfs.erofs", |image, dir| {
            let mut args = vec![image.to_owned(), dir.to_owned()];
            if !compression.is_empty() {
                args.insert(0, PathBuf::from(compression));
            }
            args
        });
    }
}

#[test]
fn iso9660() {
    read_only("iso9660", "genisoimage", "genisoimage", |image, dir| {
        let words = ["-quiet", "-R", "-J", "-o"];
        let mut args: Vec<_> = words.map(PathBuf::from).into();
        args.extend([image.to_owned(), dir.to_owned()]);
        args
    });
}

fn tmpfs(kernel: &Kernel) -> Mount {
    let mut options = MountOptions::new();
    let mount = options.fstype("tmpfs").mount(kernel, "tmpfs");
    mount.expect("tmpfs")
}

#[test]
fn overlay() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let (lower, upper) = (tmpfs(&kernel), tmpfs(&kernel));
    lower.write("changed", "below").expect("writes");
    lower.write("removed", "below").expect("writes");
    lower.write("kept", "below").expect("writes");
    upper.create_dir("upper").expect("a directory");
    upper.create_dir("work").expect("a directory");
    let place = |mount: &Mount, name: &str| {
        let path = mount.mount_point().join(name);
        path.to_str().expect("a path").to_owned()
    };
    let mut options = MountOptions::new();
    options
        .fstype("overlay")
        .option("lowerdir", place(&lower, ""))
        .option("upperdir", place(&upper, "upper"))
        .option("workdir", place(&upper, "work"));
    let overlay = options.mount(&kernel, "overlay");
    let overlay = overlay.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    overlay.write("changed", "above").expect("copies up");
    overlay.remove_file("removed").expect("whites out");
    assert_eq!(overlay.read("changed").expect("reads"), b"above");
    assert_eq!(overlay.read("kept").expect("reads"), b"below");
    assert!(!overlay.exists("removed").expect("looks"));
    overlay.unmount().expect("unmounts");
    assert_eq!(lower.read("changed").expect("reads"), b"below");
    assert_eq!(lower.read("removed").expect("reads"), b"below");
    assert_eq!(upper.read("upper/changed").expect("reads"), b"above");
    assert!(!upper.exists("upper/kept").expect("looks"));
}

#[test]
fn tmpfs_with_extended_attributes() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let tmpfs = tmpfs(&kernel);
    tmpfs.write("f", "content").expect("writes");
    for key in ["user.colour", "trusted.colour", "security.colour"] {
        tmpfs.set_xattr("f", key, b"blue", 0).expect("sets");
        let value = tmpfs.xattr("f", key).expect("reads");
        assert_eq!(value.as_deref(), Some(&b"blue"[..]), "{key}");
    }
    tmpfs.remove_xattr("f", "user.colour").expect("removes");
    assert_eq!(tmpfs.xattr("f", "user.colour").expect("reads"), None);
    assert_eq!(tmpfs.xattrs("f").expect("lists").len(), 2);
}
