//! Promises of `tane make-image --fs squashfs` and `--fs erofs`. Judges are
//! unsquashfs, fsck.erofs and the Linux inside.

use crate::common::fuse::has_fuse;
use crate::common::make::*;
use crate::common::*;
use std::path::PathBuf;
use std::process::Command;

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

/// Files that each have one thing that some file system does not hold.
fn lossy(scratch: &Scratch) {
    python(
        scratch,
        r#"
import tarfile, io
X = 'SCHILY.xattr.'
with tarfile.open('a.tar', 'w', format=tarfile.PAX_FORMAT) as t:
    def add(name, kind=tarfile.REGTYPE, **more):
        i = tarfile.TarInfo(name); i.type = kind; i.mode = 0o755
        i.mtime = 1600000000
        for k, v in more.items(): setattr(i, k, v)
        t.addfile(i, io.BytesIO(b''))
    add('.', tarfile.DIRTYPE, pax_headers={X + 'user.root': '1'})
    add('plain')
    acl = 'user::rwx\nuser:1000:r--\ngroup::r-x\nmask::r-x\nother::r-x\n'
    add('acl', pax_headers={'SCHILY.acl.access': acl})
    add('kept', pax_headers={X + 'user.a': 'b', X + 'security.selinux': 's'})
    add('flags', pax_headers={'TANE.flags': '10:0'})
    add('project', pax_headers={'TANE.flags': '0:7'})
    add('nanoseconds', mtime=1600000000.5)
    add('old', mtime=1500000000.25)
    add('early', mtime=-100)
    add('dir', tarfile.DIRTYPE, pax_headers={'TANE.flags': '40:7', X + 'user.d': 'e'})
"#,
    );
}

/// What an image of that lacks, as the command tells: files, and what of each.
fn told(scratch: &Scratch, fs: &str) -> Vec<String> {
    lossy(scratch);
    let args = ["make-image", "--json", "--fs", fs, "a.tar", "a.img"];
    let made = succeed(as_nobody(scratch).args(args));
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let losses = json["losses"].as_array().expect("losses").iter();
    // One object a line.
    let warnings = text(&made.stderr).matches("{\"warning\":").count();
    let mut losses: Vec<String> = losses
        .map(|loss| {
            let text = |key: &str| loss[key].as_str().unwrap_or_default().to_owned();
            let told = format!("{} {} {}", text("path"), text("what"), text("detail"));
            told.trim().to_owned()
        })
        .collect();
    losses.sort();
    assert_eq!(warnings, losses.len(), "{losses:?}\n{}", text(&made.stderr));
    losses
}

fn assert_strict_refuses(scratch: &Scratch, fs: &str) {
    let args = ["make-image", "--strict", "--fs", fs, "a.tar", "strict.img"];
    exit(as_nobody(scratch).args(args), 1);
    assert!(!scratch.join("strict.img").exists());
}

#[test]
fn what_a_squashfs_cannot_hold_is_one_warning_each() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let wanted = [
        "/ extended attribute user.root",
        "/acl access control list",
        "/dir flags d",
        "/dir project 7",
        "/early times",
        "/flags flags i",
        "/nanoseconds exact times",
        "/old exact times",
        "/project project 7",
    ];
    assert_eq!(told(&scratch, "squashfs"), wanted);
    assert_strict_refuses(&scratch, "squashfs");
    // The judge: nothing more is missing, and a time that does not fit is the nearest.
    let args = ["-lln", "-UTC", "a.img"];
    let listed = text(&succeed(scratch.tool("unsquashfs").args(args)).stdout);
    let line = |name: &str| {
        let end = format!("squashfs-root/{name}");
        let line = listed.lines().find(|line| line.ends_with(&end));
        line.unwrap_or_else(|| panic!("{name}: {listed}"))
            .to_owned()
    };
    for name in [
        "plain",
        "acl",
        "kept",
        "flags",
        "project",
        "nanoseconds",
        "dir",
    ] {
        assert!(line(name).contains("2020-09-13 12:26"), "{listed}");
    }
    assert!(line("early").contains("1970-01-01 00:00"), "{listed}");
    let args = ["-user-xattrs", "-d", "out", "a.img"];
    succeed(scratch.tool("unsquashfs").args(args));
    let dump = ["--absolute-names", "-R", "-d", "out"];
    let dump = text(&succeed(scratch.tool("getfattr").args(dump)).stdout);
    let names: Vec<_> = dump.lines().filter(|line| !line.is_empty()).collect();
    let wanted = [
        "# file: out/dir",
        "user.d=\"e\"",
        "# file: out/kept",
        "user.a=\"b\"",
    ];
    assert_eq!(names.len(), wanted.len(), "{dump}");
    assert!(wanted.iter().all(|line| names.contains(line)), "{dump}");
}

#[test]
fn what_an_erofs_cannot_hold_is_one_warning_each() {
    if !has_fuse() {
        return;
    }
    let scratch = Scratch::new();
    let wanted = [
        "/dir flags d",
        "/dir project 7",
        "/flags flags i",
        "/project project 7",
    ];
    assert_eq!(told(&scratch, "erofs"), wanted);
    assert_strict_refuses(&scratch, "erofs");
    succeed(scratch.tool("fsck.erofs").arg("a.img"));
    let inside = |args: &[&str]| text(&succeed(scratch.tane().args(args)).stdout);
    for (path, name) in [
        ("", "user.root"),
        ("acl", "system.posix_acl_access"),
        ("kept", "user.a"),
        ("kept", "security.selinux"),
        ("dir", "user.d"),
    ] {
        let listed = inside(&["xattr", "list", &format!("a.img:/{path}")]);
        assert!(listed.contains(name), "{path}: {listed}");
    }
    // The judge of times.
    for (path, time) in [
        ("plain", "2020-09-13 12:26:40.000000000"),
        ("nanoseconds", "2020-09-13 12:26:40.500000000"),
        ("old", "2017-07-14 02:40:00.250000000"),
    ] {
        let mut dump = scratch.tool("dump.erofs");
        dump.env("TZ", "UTC").arg(format!("--path=/{path}"));
        let said = text(&succeed(dump.arg("a.img")).stdout);
        assert!(said.contains(time), "{path}: {said}");
    }
}

#[test]
fn sockets_are_in_an_erofs_and_told_of_a_squashfs() {
    if !has_fuse() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/f", b"x");
    let _socket = std::os::unix::net::UnixListener::bind(scratch.join("tree/s")).expect("a socket");
    let args = [
        "make-image",
        "--force",
        "--epoch=1700000000",
        "--all-times",
        "tree",
    ];
    let make = |fs: &str| {
        let args = [&args[..], &["a.img", "--fs", fs]].concat();
        text(&succeed(scratch.tane().args(args)).stderr)
    };
    assert_eq!(
        make("squashfs")
            .matches("s: fifo or socket not kept")
            .count(),
        1
    );
    assert_eq!(make("erofs"), "");
    let listed = text(&succeed(scratch.tane().args(["find", "a.img:/", "--type=s"])).stdout);
    assert!(listed.contains("/s"), "{listed}");
}

#[test]
fn times_after_2106_are_a_told_loss_of_a_squashfs() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/late", b"x");
    let late = ["-h", "-d", "@8000000000", "tree/late"];
    succeed(Command::new("touch").args(late).current_dir(scratch.path()));
    // Its own time is the newest there is.
    let args = ["make-image", "--fs=squashfs", "tree", "a.img"];
    let told = text(&succeed(scratch.tane().args(args)).stderr);
    assert!(told.contains("late: times not kept"), "{told}");
    let args = ["--json", "stat", "a.img:/late"];
    let told = text(&succeed(scratch.tane().args(args)).stdout);
    assert!(told.contains("2106-02-07T06:28:15"), "{told}");
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
    // Their times are of now, to the nanosecond, which is more than it has.
    make(&scratch, "squashfs", &["--epoch=1700000000", "tree"]);
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
