//! Promises of `tane make-image --fs squashfs` and `--fs erofs`. Judges are
//! unsquashfs, fsck.erofs and the Linux inside.

mod common;

use common::fuse::has_fuse;
use common::make::*;
use common::*;
use std::path::PathBuf;

fn make(scratch: &Scratch, fs: &str, more: &[&str]) -> PathBuf {
    let args = ["make-image", "--strict", "--force", "--fs", fs];
    let command = &mut as_nobody(scratch);
    succeed(command.args(args).args(more).arg("a.img"));
    scratch.join("a.img")
}

/// An archive with what only root could make of it.
fn archive(scratch: &Scratch) {
    python(
        scratch,
        r#"
import tarfile, io
with tarfile.open('a.tar', 'w', format=tarfile.PAX_FORMAT) as t:
    def add(name, kind=tarfile.REGTYPE, data=b'', **more):
        i = tarfile.TarInfo(name); i.type = kind; i.size = len(data); i.mode = 0o755
        i.mtime = 1600000000
        for k, v in more.items(): setattr(i, k, v)
        t.addfile(i, io.BytesIO(data))
    caps = '\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    add('.', tarfile.DIRTYPE, mode=0o1750, uid=5, gid=6)
    add('ping', data=b'#!', uid=12, gid=34, pax_headers={
        'SCHILY.xattr.security.capability': caps,
        'SCHILY.xattr.security.selinux': 'system_u:object_r:ping_t:s0'})
    add('null', tarfile.CHRTYPE, devmajor=1, devminor=3)
    add('link', tarfile.LNKTYPE, linkname='ping')
"#,
    );
}

fn assert_holds_the_archive(scratch: &Scratch) {
    let inside = |args: &[&str]| text(&succeed(scratch.tane().args(args)).stdout);
    let stat = |path: &str| -> serde_json::Value {
        let json = inside(&["--json", "stat", path]);
        serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"))
    };
    let ping = stat("a.img:/ping").to_string();
    for part in ["\"uid\":12", "\"gid\":34", "2020-09-13T12:26:40"] {
        assert!(ping.contains(part), "{part}: {ping}");
    }
    let root = stat("a.img:/").to_string();
    for part in ["\"uid\":5", "\"gid\":6"] {
        assert!(root.contains(part), "{part}: {root}");
    }
    let attributes = inside(&["xattr", "list", "a.img:/link"]);
    for name in ["security.capability", "security.selinux"] {
        assert!(attributes.contains(name), "{attributes}");
    }
    let listed = inside(&["ls", "-l", "a.img:/"]);
    assert!(
        listed.contains("1,") && !listed.contains("lost+found"),
        "{listed}"
    );
}

#[test]
fn equal_input_gives_equal_squashfs_images_at_any_time_by_anybody() {
    let Some((_scratch, a, b)) = make_twice_of("squashfs", 1 << 20, &[]) else {
        return;
    };
    assert_equal(&a, &b);
}

#[test]
fn equal_input_gives_equal_erofs_images_at_any_time_by_anybody() {
    if !has_fuse() {
        return;
    }
    for more in [&[][..], &["--compression=lz4hc"]] {
        let Some((_scratch, a, b)) = make_twice_of("erofs", 1 << 20, more) else {
            return;
        };
        assert_equal(&a, &b);
        succeed(sbin("fsck.erofs").arg(&a));
    }
}

#[test]
fn nobody_makes_squashfs_with_owners_devices_and_capabilities() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    archive(&scratch);
    for more in [&["a.tar"][..], &["--compression=zstd", "a.tar"]] {
        make(&scratch, "squashfs", more);
        assert_holds_the_archive(&scratch);
    }
}

#[test]
fn nobody_makes_erofs_with_owners_devices_and_capabilities() {
    if !has_fuse() {
        return;
    }
    let scratch = Scratch::new();
    archive(&scratch);
    make(&scratch, "erofs", &["a.tar"]);
    assert_holds_the_archive(&scratch);
    let left = std::fs::read_dir(scratch.path()).expect("a listing");
    assert_eq!(left.count(), 2, "the archive and the image");
}

#[test]
fn files_with_holes_get_into_a_squashfs_as_they_are() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.write("tree/holes", b"");
    let file = std::fs::File::create(&path).expect("a file");
    use std::os::unix::fs::FileExt;
    file.set_len(9 << 20).expect("a length");
    file.write_all_at(b"one", 3 << 20).expect("writes");
    file.write_all_at(b"two", 5 << 20).expect("writes");
    make(&scratch, "squashfs", &["tree"]);
    let read = succeed(scratch.tane().args(["cat", "a.img:/holes"])).stdout;
    assert!(read == scratch.read("tree/holes"));
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/x", b"x");
    // Its own places are looked into too, so hide what is there behind nothing.
    let output = scratch
        .tane()
        .args(["make-image", "--fs=squashfs", "tree", "a.img"])
        .env("PATH", "/nonexistent")
        .output()
        .expect("tane");
    if output.status.success() {
        tane_test_support::skip("mksquashfs is in /usr/sbin");
        return;
    }
    let told = text(&output.stderr);
    assert!(told.contains("mksquashfs is not installed"), "{told}");
    assert!(told.contains("squashfs-tools"), "{told}");
    assert!(!scratch.join("a.img").exists());
}

#[test]
fn what_has_no_size_refuses_one() {
    let scratch = Scratch::new();
    scratch.write("tree/x", b"x");
    for fs in ["squashfs", "erofs"] {
        let args = ["make-image", "--size=1G", "--fs", fs, "tree", "a.img"];
        let failed = exit(scratch.tane().args(args), 2);
        assert!(text(&failed.stderr).contains("--size"), "{failed:?}");
    }
}
