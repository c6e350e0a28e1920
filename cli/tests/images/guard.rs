//! What holds a disk image is not overwritten unasked, and a key is never a reason to.

use crate::common::volumes::*;
use crate::common::*;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// An image with a file, and one of each kind that must stay.
fn images(s: &Scratch) -> Vec<&'static str> {
    s.write("tree/group", b"root:x:0:\n");
    s.ext4("g.img", Some(&s.join("tree")), 16);
    s.ext4("root.img", None, 16);
    for (format, name) in [
        ("qcow2", "a.qcow2"),
        ("vmdk", "a.vmdk"),
        ("vpc", "a.vhd"),
        ("vdi", "a.vdi"),
    ] {
        let create = ["create", "-q", "-f", format, name, "8M"];
        succeed(s.tool("qemu-img").args(create));
    }
    blank(s, "mbr", 8);
    sfdisk(s, "mbr", "label: dos\nstart=2048\n");
    blank(s, "gpt", 8);
    sfdisk(s, "gpt", "label: gpt\nstart=2048\n");
    std::fs::copy(s.join("root.img"), s.join("root.img.copy")).expect("copies");
    succeed(s.tool("gzip").arg("root.img.copy"));
    vec![
        "root.img",
        "a.qcow2",
        "a.vmdk",
        "a.vhd",
        "a.vdi",
        "mbr",
        "gpt",
        "root.img.copy.gz",
    ]
}

fn sfdisk(s: &Scratch, name: &str, script: &str) {
    s.write("script", script.as_bytes());
    let input = std::fs::File::open(s.join("script")).expect("the script");
    let args = ["-q", "--no-reread", name];
    succeed(s.tool("sfdisk").args(args).stdin(input));
}

#[test]
fn a_forgotten_path_does_not_replace_an_image_by_a_file() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for name in images(&s) {
        let before = s.read(name);
        for jail in [&[][..], &["--no-jail"]] {
            let mut cp = s.tane();
            let failed = exit(cp.args(jail).args(["cp", "g.img:/group", name]), 1);
            let said = text(&failed.stderr);
            assert!(said.contains("--force"), "{said}");
            assert!(said.contains(&format!("{name}:/ is the root")), "{said}");
            let mut tar = s.tane();
            let failed = exit(tar.args(jail).args(["tar", "create", name, "g.img:/"]), 1);
            assert!(text(&failed.stderr).contains("holds "));
            assert!(s.read(name) == before, "{name}");
        }
    }
    succeed(s.tane().args(["cp", "g.img:/group", "root.img", "--force"]));
    assert_eq!(s.read("root.img"), b"root:x:0:\n");
    let create = ["tar", "create", "--force", "--compression=none"];
    succeed(s.tane().args(create).args(["a.qcow2", "g.img:/"]));
    succeed(s.tool("tar").args(["-tf", "a.qcow2"]));
}

#[test]
fn images_among_the_files_of_a_destination_stay_and_the_rest_is_copied() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    for name in ["tree/a", "tree/vm/disk.img", "tree/vm/b"] {
        s.write(name, b"new");
    }
    std::os::unix::fs::symlink("b", s.join("tree/vm/link.img")).expect("a symlink");
    s.ext4("g.img", Some(&s.join("tree")), 16);
    s.write("out/a", b"old");
    s.write("out/vm/c", b"stays");
    s.ext4("out/vm/disk.img", None, 8);
    s.ext4("out/vm/link.img", None, 8);
    let read = || ["out/vm/disk.img", "out/vm/link.img"].map(|name| s.read(name));
    let before = read();
    let sources: [&[&str]; 2] = [&["g.img:/."], &["g.img:/a", "g.img:/vm"]];
    for sources in sources {
        for jail in [&[][..], &["--no-jail"]] {
            let mut cp = s.tane();
            let failed = exit(cp.args(jail).arg("cp").args(sources).arg("out"), 1);
            let said = text(&failed.stderr);
            assert_eq!(said.matches("holds ext4: --force replaces it").count(), 2);
            assert!(read() == before);
            assert_eq!(s.read("out/a"), b"new");
            assert_eq!(s.read("out/vm/b"), b"new");
            s.write("out/a", b"old");
            std::fs::remove_file(s.join("out/vm/b")).expect("removes");
        }
    }
    succeed(s.tane().args(["cp", "--force", "g.img:/.", "out"]));
    assert_eq!(s.read("out/vm/disk.img"), b"new");
    // What is no image is replaced as ever.
    succeed(s.tane().args(["cp", "g.img:/.", "out"]));
}

#[test]
fn nor_do_the_contents_of_a_directory_replace_images() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/vm/disk.img", b"new");
    s.ext4("g.img", Some(&s.join("tree")), 16);
    s.write("out/b", b"");
    s.ext4("out/disk.img", None, 8);
    let before = s.read("out/disk.img");
    let failed = exit(s.tane().args(["cp", "g.img:/vm/.", "out"]), 1);
    assert!(text(&failed.stderr).contains("holds ext4: --force replaces it"));
    assert!(s.read("out/disk.img") == before);
}

#[test]
fn nor_does_a_session() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/disk.img", b"new");
    s.ext4("g.img", Some(&s.join("tree")), 16);
    s.write("out/b", b"");
    s.write("plain", b"old");
    s.ext4("disk.img", None, 8);
    s.ext4("out/disk.img", None, 8);
    let read = || ["disk.img", "out/disk.img"].map(|name| s.read(name));
    let before = read();
    for jail in [&[][..], &["--no-jail"]] {
        for get in [
            "get /disk.img",
            "get /disk.img disk.img",
            "get /disk.img out/disk.img",
            "get /disk.img out",
        ] {
            let mut sh = s.tane();
            let failed = exit(sh.args(jail).args(["sh", "-ec", get, "g.img"]), 1);
            let said = text(&failed.stderr);
            assert!(said.contains("holds ext4: --force replaces it"), "{said}");
            assert!(read() == before, "{get}");
        }
        let mut sh = s.tane();
        succeed(
            sh.args(jail)
                .args(["sh", "-ec", "get /disk.img plain", "g.img"]),
        );
        assert_eq!(s.read("plain"), b"new");
        s.write("plain", b"old");
    }
}

/// What may hold an image is not replaced because nobody could look.
#[test]
fn what_this_user_cannot_look_into_is_not_replaced() {
    const USER: u32 = 65534;
    if !has_kernel() || !tane_test_support::has_root() {
        return;
    }
    let tane = Path::new(env!("CARGO_BIN_EXE_tane"));
    for file in [tane, &tane::default_image().expect("a kernel")] {
        let mut test = Command::new("test");
        test.arg("-r").arg(file).uid(USER).gid(USER);
        if !test.status().expect("test").success() {
            return tane_test_support::skip("the command lies where only root can read");
        }
    }
    let s = Scratch::new();
    s.write("tree/group", b"root:x:0:\n");
    s.ext4("g.img", Some(&s.join("tree")), 16);
    let write = |mode| {
        s.write("out/group", b"another's");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(s.join("out/group"), mode).expect("its mode");
    };
    write(0o600);
    let place = std::ffi::CString::new(s.join("out").as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a path.
    assert_eq!(unsafe { libc::chown(place.as_ptr(), USER, USER) }, 0);
    let copy = |option: &[&str]| {
        let mut tane = Command::new(tane);
        tane.current_dir(s.path()).uid(USER).gid(USER);
        tane.arg("cp").args(option).args(["g.img:/group", "out"]);
        tane.output().expect("tane")
    };
    let failed = copy(&[]);
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    let why = "out/group: cannot be looked into before it is replaced: Permission denied";
    assert!(said.contains(why), "{said}");
    assert_eq!(s.read("out/group"), b"another's");
    write(0o644);
    succeed_with(&copy(&[]));
    assert_eq!(s.read("out/group"), b"root:x:0:\n");
    write(0o600);
    succeed_with(&copy(&["--force"]));
    assert_eq!(s.read("out/group"), b"root:x:0:\n");
}

fn succeed_with(done: &std::process::Output) {
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn mkfs_asks_before_it_replaces_what_it_was_told_to_take_for_raw_or_does_not_know() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let create = ["create", "-q", "-f", "qcow2", "a.qcow2", "64M"];
    succeed(s.tool("qemu-img").args(create));
    let mut notes = vec![0; 8 << 20];
    notes[..5].copy_from_slice(b"notes");
    s.write("notes", &notes);
    let mut end = vec![0; 8 << 20];
    end[(8 << 20) - 5..].copy_from_slice(b"notes");
    s.write("end", &end);
    for (name, what) in [
        ("a.qcow2", "holds qcow2"),
        ("notes", "holds data of an unknown kind"),
        ("end", "holds data of an unknown kind"),
    ] {
        let before = s.read(name);
        let mut mkfs = s.tane();
        let failed = exit(mkfs.args(["--format=raw", "mkfs", name]), 1);
        assert!(
            text(&failed.stderr).contains(what),
            "{}",
            text(&failed.stderr)
        );
        assert!(s.read(name) == before);
    }
    succeed(s.tane().args(["mkfs", "--force", "notes"]));
    assert_sound(&s.join("notes"));
}

/// A LUKS volume with the key in `key`, on all of the image.
fn luks(s: &Scratch, name: &str, mib: u64) {
    blank(s, name, mib);
    s.write("key", b"a key of sorts");
    let format = "cryptsetup luksFormat -q --key-file key --type luks2 --pbkdf pbkdf2 \
                  --pbkdf-force-iterations 1000 --luks2-metadata-size 16k \
                  --luks2-keyslots-size 1m --offset 4096";
    run(s, &format!("{format} {name}"));
}

#[test]
fn a_key_means_what_is_inside_and_the_luks_header_stays() {
    if !has_kernel() || tane_test_support::tool("cryptsetup-bin", "cryptsetup").is_none() {
        return;
    }
    let s = Scratch::new();
    luks(&s, "luks.img", 40);
    let header = get(&s.join("luks.img"), 0, 1 << 20);
    let key = ["--key-file", "key"];
    let mkfs = ["mkfs", "--label=inside", "luks.img"];
    // Without a key the header is in danger, and that is said.
    let failed = exit(s.tane().args(mkfs), 1);
    assert!(text(&failed.stderr).contains("--key-file or --passphrase-file means"));
    succeed(s.tane().args(key).args(mkfs));
    assert!(get(&s.join("luks.img"), 0, 1 << 20) == header);
    let fsck = s.tane().args(key).args(["fsck", "luks.img"]).output();
    assert!(text(&fsck.expect("runs").stdout).contains("ext4, clean"));
    // What is inside now is protected as ever, and the header by whatever is said.
    let failed = exit(s.tane().args(key).args(mkfs), 1);
    assert!(text(&failed.stderr).contains("holds ext4: --force"));
    s.write("wrong", b"another");
    for force in [&[][..], &["--force"]] {
        let mut wrong = s.tane();
        let wrong = wrong.args(["--key-file", "wrong"]).args(mkfs).args(force);
        let said = text(&exit(wrong, 3).stderr);
        assert!(said.contains("no passphrase fits"), "{said}");
        assert!(!said.contains("--force"), "{said}");
    }
    succeed(s.tane().args(key).args(mkfs).args(["--force", "--fs=vfat"]));
    assert!(get(&s.join("luks.img"), 0, 1 << 20) == header);
    succeed(s.tane().args(key).args(["fsck", "luks.img"]));
    // A key for nothing is not taken for leave to make a file system in the clear.
    blank(&s, "plain.img", 16);
    let failed = exit(s.tane().args(key).args(["mkfs", "plain.img"]), 3);
    assert!(text(&failed.stderr).contains("no encrypted volume is there"));
}

#[test]
fn selectors_and_the_key_reach_the_volume_in_a_partition() {
    if !has_kernel() || tane_test_support::tool("cryptsetup-bin", "cryptsetup").is_none() {
        return;
    }
    let s = Scratch::new();
    luks(&s, "part", 40);
    let bytes = s.read("part");
    blank(&s, "disk.img", 80);
    sfdisk(
        &s,
        "disk.img",
        "label: gpt\nstart=2048,size=20480\nsize=81920\n",
    );
    put(&s.join("disk.img"), 11 * MIB, &bytes);
    let key = ["--key-file", "key"];
    let uuid = text(&run(&s, "cryptsetup luksUUID part").stdout);
    let by_uuid = format!("disk.img@uuid={}", uuid.trim());
    for name in ["disk.img@2", "disk.img", &by_uuid] {
        let mut mkfs = s.tane();
        succeed(mkfs.args(key).args(["mkfs", "--force", "--label=in", name]));
        s.write("marker", name.as_bytes());
        let mut cp = s.tane();
        succeed(cp.args(key).args(["cp", "marker", "disk.img@label=in:/"]));
        // cryptsetup's own: the header is as it was, and opens.
        assert!(get(&s.join("disk.img"), 11 * MIB, 1 << 20) == bytes[..1 << 20]);
        let mut fsck = s.tane();
        succeed(fsck.args(key).args(["fsck", name]));
    }
    // The other partition is not what the key is for.
    let failed = exit(s.tane().args(key).args(["mkfs", "disk.img@1"]), 3);
    assert!(text(&failed.stderr).contains("no encrypted volume is there"));
    succeed(s.tane().args(["mkfs", "disk.img@1"]));
}
