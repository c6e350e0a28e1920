//! Promises of `tane make-image`. Readers are e2fsprogs and mtools; archives are
//! made by GNU tar and Python.

use crate::common::make::*;
use crate::common::*;
use std::path::Path;
use std::process::Command;

/// What debugfs says to a request.
fn debugfs(image: &Path, request: &str) -> String {
    let output = succeed(sbin("debugfs").args(["-R", request]).arg(image));
    text(&output.stdout)
}

#[test]
fn equal_input_gives_equal_ext4_images_at_any_time_by_anybody() {
    let Some((_scratch, a, b)) = make_twice("ext4") else {
        return;
    };
    assert_equal(&a, &b);
    assert_sound(&a);
}

#[test]
fn equal_input_gives_equal_ext2_and_ext3_images() {
    for fs in ["ext2", "ext3"] {
        let Some((_scratch, a, b)) = make_twice(fs) else {
            return;
        };
        assert_equal(&a, &b);
        assert_sound(&a);
    }
}

#[test]
fn equal_input_gives_equal_vfat_images() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    for (dir, image) in [("one", "a.img"), ("two", "b.img")] {
        for n in 0..50 {
            scratch.write(&format!("{dir}/d{}/A long name {n}.txt", n % 3), b"x");
        }
        let args = ["make-image", "--fs=vfat", "--owner=root", "--all-times"];
        let epoch = ["--epoch", EPOCH, dir, image];
        succeed(scratch.tane().args(args).args(epoch));
        std::thread::sleep(std::time::Duration::from_millis(2100));
    }
    assert_equal(&scratch.join("a.img"), &scratch.join("b.img"));
    succeed(sbin("fsck.vfat").arg("-n").arg(scratch.join("a.img")));
}

#[test]
fn other_content_gives_another_uuid_and_another_image() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let mut uuids = Vec::new();
    for name in ["a", "b"] {
        scratch.write(&format!("{name}/{name}"), b"x");
        let image = format!("{name}.img");
        let args = ["make-image", "--json", "--epoch", EPOCH, name, &image];
        let json = succeed(scratch.tane().args(args)).stdout;
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        uuids.push(json["uuid"].as_str().expect("a UUID").to_owned());
    }
    assert_ne!(uuids[0], uuids[1]);
    let told = text(&succeed(sbin("dumpe2fs").arg("-h").arg(scratch.join("a.img"))).stdout);
    assert!(told.contains(&uuids[0]), "{told}");
}

#[test]
fn an_image_is_sound_and_holds_what_the_directory_holds() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let sample = scratch.sample("sample", 200);
    let image = scratch.join("a.img");
    succeed(
        scratch
            .tane()
            .args(["make-image", "--strict", "sample", "a.img"]),
    );
    assert_sound(&image);
    std::fs::create_dir(scratch.join("out")).expect("mkdir");
    succeed(
        scratch
            .tane()
            .args(["cp", "--devices", "-q", "a.img:/.", "out"]),
    );
    std::fs::remove_dir(scratch.join("out/lost+found")).expect("the one of mke2fs");
    let time = sample
        .metadata()
        .and_then(|m| m.modified())
        .expect("a time");
    let out = std::fs::File::open(scratch.join("out")).expect("a directory");
    out.set_modified(time).expect("utimensat");
    let without = if tane_test_support::is_root() {
        "holes"
    } else {
        "holes,owner"
    };
    let copied = manifest(&scratch.join("out"), without);
    assert_same(&manifest(&sample, without), &copied);
}

#[test]
fn times_after_the_epoch_become_it_and_others_stay() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let old = scratch.write("tree/old", b"x");
    scratch.write("tree/new", b"x");
    succeed(Command::new("touch").args(["-d", "@1000000000"]).arg(&old));
    let args = ["make-image", "tree", "a.img"];
    succeed(scratch.tane().args(args).env("SOURCE_DATE_EPOCH", EPOCH));
    let image = scratch.join("a.img");
    let time = |path: &str, which: &str| {
        let told = debugfs(&image, &format!("stat {path}"));
        let line = told.lines().find(|l| l.trim().starts_with(which));
        line.unwrap_or_else(|| panic!("{told}")).trim().to_owned()
    };
    // In hexadecimal.
    assert!(time("/old", "mtime").contains("0x3b9aca00"));
    assert!(time("/new", "mtime").contains("0x6553f100"));
    assert!(time("/old", "ctime").contains("0x6553f100"));
    assert!(time("/old", "crtime").contains("0x6553f100"));
}

#[test]
fn nobody_makes_images_of_archives_with_owners_devices_and_capabilities() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    python(
        &scratch,
        r#"
import tarfile, io
with tarfile.open('a.tar', 'w', format=tarfile.PAX_FORMAT) as t:
    def add(name, kind=tarfile.REGTYPE, data=b'', **more):
        i = tarfile.TarInfo(name); i.type = kind; i.size = len(data); i.mode = 0o755
        for k, v in more.items(): setattr(i, k, v)
        t.addfile(i, io.BytesIO(data))
    caps = '\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    add('usr/bin/ping', data=b'#!', uid=12, gid=34, pax_headers={
        'SCHILY.xattr.security.capability': caps,
        'SCHILY.xattr.security.selinux': 'system_u:object_r:ping_t:s0'})
    add('dev/null', tarfile.CHRTYPE, devmajor=1, devminor=3)
    add('link', tarfile.LNKTYPE, linkname='usr/bin/ping')
"#,
    );
    succeed(
        Command::new("zstd")
            .args(["-q", "a.tar"])
            .current_dir(scratch.path()),
    );
    for archive in ["a.tar", "a.tar.zst"] {
        let args = ["make-image", "--strict", "--force", archive, "a.img"];
        succeed(as_nobody(&scratch).args(args));
        let image = scratch.join("a.img");
        assert_sound(&image);
        let ping = debugfs(&image, "stat /usr/bin/ping");
        assert!(
            ping.contains("User:    12") && ping.contains("Group:    34"),
            "{ping}"
        );
        assert!(ping.contains("Links: 2"), "{ping}");
        let hex = debugfs(&image, "ea_get -x /usr/bin/ping security.capability");
        assert!(hex.replace(' ', "").contains("0100000200040000"), "{hex}");
        let label = debugfs(&image, "ea_get /link security.selinux");
        assert!(label.contains("system_u:object_r:ping_t:s0"), "{label}");
        let null = debugfs(&image, "stat /dev/null");
        assert!(
            null.contains("Type: character special") && null.contains("01:03"),
            "{null}"
        );
    }
}

#[test]
fn an_archive_gives_the_same_image_as_the_directory_it_was_made_of() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let dir = tree(&scratch, "tree", false);
    let mut tar = Command::new("tar");
    tar.args(["--format=posix", "-cf", "tree.tar", "-C"])
        .arg(&dir)
        .arg(".");
    succeed(tar.current_dir(scratch.path()));
    for (source, image) in [("tree", "a.img"), ("tree.tar", "b.img")] {
        let args = [
            "make-image",
            "--owner=root",
            "--epoch",
            EPOCH,
            source,
            image,
        ];
        succeed(scratch.tane().args(args));
    }
    assert_equal(&scratch.join("a.img"), &scratch.join("b.img"));
}

#[test]
fn archives_come_by_pipes_from_one_who_writes_them_in_turn_and_late() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    // More than a pipe holds.
    scratch.write("a/first", &[1; 300_000]);
    scratch.write("b/second", &[2; 300_000]);
    for name in ["a", "b"] {
        let words = format!("--mtime=@0 -cf {name}.tar -C {name} .");
        succeed(&mut scratch.command("tar", &words));
        succeed(
            scratch
                .tool("mkfifo")
                .arg(scratch.join(&format!("{name}.pipe"))),
        );
    }
    let make = |how: &str, image: &str| {
        let words = format!("make-image a.{how} --layer=b.{how} {image}");
        let mut tane = scratch.tane();
        succeed(tane.args(words.split(' ')));
    };
    make("tar", "files.img");
    let mut writer = scratch.tool("sh");
    writer.args([
        "-c",
        "sleep 0.3; cat a.tar > a.pipe; sleep 0.3; cat b.tar > b.pipe",
    ]);
    let mut writer = writer.spawn().expect("sh");
    make("pipe", "pipes.img");
    assert!(writer.wait().expect("a status").success());
    assert_equal(&scratch.join("files.img"), &scratch.join("pipes.img"));
    // Nor does who wants to stop wait for a writer.
    let mut waits = scratch.tane();
    waits.args(["make-image", "a.pipe", "none.img"]);
    heeds_ctrl_c(&mut waits);
    let mut waits = waits.spawn().expect("tane");
    let jailed = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", waits.id()));
        status.is_ok_and(|status| status.contains("\nSeccomp:\t2\n"))
    };
    tane_test_support::eventually("it waits in its jail", jailed);
    // SAFETY: a process of our own.
    assert_eq!(unsafe { libc::kill(waits.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(waits.wait().expect("a status").code(), Some(130));
    // One that has no name, and whose writer has gone, ends.
    let shell = ": | \"$0\" make-image --time-limit=60s /dev/fd/0 none.img";
    let mut ends = scratch.tool("sh");
    succeed(ends.args(["-c", shell, env!("CARGO_BIN_EXE_tane")]));
}

#[test]
fn metadata_of_an_mtree_file_labels_and_attributes_get_into_the_image() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/etc/shadow", b"x");
    scratch.write("tree/bin/tool", b"x");
    let mtree = b"#mtree\n/set uid=0 gid=0\n./etc/shadow type=file uid=7 gid=42 mode=0640\n\
        ./dev/console type=char device=native,5,1 mode=0600\n";
    scratch.write("tree.mtree", mtree);
    let labels = b"/.* system_u:object_r:default_t:s0\n\
        /etc/shadow -- system_u:object_r:shadow_t:s0\n";
    scratch.write("file_contexts", labels);
    let dump = b"# file: bin/tool\nsecurity.capability=0sAQAAAgAgAAAAAAAAAAAAAAAAAAA=\n";
    scratch.write("dump", dump);
    let args = [
        "make-image",
        "--strict",
        "--metadata=tree.mtree",
        "--xattrs=dump",
    ];
    let more = ["--selinux=file_contexts", "tree", "a.img"];
    succeed(as_nobody(&scratch).args(args).args(more));
    let image = scratch.join("a.img");
    assert_sound(&image);
    let shadow = debugfs(&image, "stat /etc/shadow");
    let right = ["User:     7", "Group:    42", "Mode:  0640"];
    assert!(right.iter().all(|r| shadow.contains(r)), "{shadow}");
    let label = debugfs(&image, "ea_get /etc/shadow security.selinux");
    assert!(label.contains("shadow_t:s0"), "{label}");
    let label = debugfs(&image, "ea_get /bin/tool security.selinux");
    assert!(label.contains("default_t:s0"), "{label}");
    let caps = debugfs(&image, "ea_get -x /bin/tool security.capability");
    assert!(caps.replace(' ', "").contains("0100000200200000"), "{caps}");
    assert!(debugfs(&image, "stat /dev/console").contains("05:01"));
}

#[test]
fn an_image_that_is_too_small_is_an_error_and_leaves_nothing() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let noise: Vec<u8> = (0..20u32 << 20).map(|i| (i >> 3) as u8 | 1).collect();
    scratch.write("tree/large", &noise);
    let args = ["make-image", "--size=16M", "tree", "a.img"];
    let failed = exit(scratch.tane().args(args), 1);
    assert!(text(&failed.stderr).contains("no space left"), "{failed:?}");
    let left = std::fs::read_dir(scratch.path())
        .expect("a listing")
        .count();
    assert_eq!(left, 1);
}

#[test]
fn an_image_that_exists_stays_without_force() {
    let scratch = Scratch::new();
    scratch.write("tree/x", b"x");
    scratch.write("a.img", b"mine");
    let failed = exit(scratch.tane().args(["make-image", "tree", "a.img"]), 1);
    assert!(text(&failed.stderr).contains("--force"));
    // So does a link that leads nowhere.
    std::os::unix::fs::symlink("nowhere", scratch.join("link.img")).expect("a link");
    exit(scratch.tane().args(["make-image", "tree", "link.img"]), 1);
    assert!(scratch.join("link.img").is_symlink());
    assert_eq!(scratch.read("a.img"), b"mine");
}
