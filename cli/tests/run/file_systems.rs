//! Promises of `tane run`: a root is whatever the command reads, on whatever it lies.

use crate::common::run::{can_run, root, run, says};
use crate::common::uml::Uml;
use crate::common::*;
use tane_test_support::tool;

const SCRIPT: &str = "while read -r device at kind rest; do [ $at = / ] && echo $kind; done \
                      </proc/mounts; echo new >/etc/new; cat /etc/new; exit 3";

/// A scratch directory with the tree `root`.
fn scratch() -> Option<Scratch> {
    can_run().then(|| {
        let s = Scratch::new();
        root(&s, "root");
        s.write("root/etc/motd", b"good morning\n");
        s
    })
}

#[test]
fn a_program_runs_on_file_systems_that_others_have_made() {
    let Some(s) = scratch() else { return };
    for (package, words) in [
        (
            "btrfs-progs",
            "mkfs.btrfs -q --rootdir root -b 134217728 disk.img",
        ),
        ("f2fs-tools", "mkfs.f2fs -q disk.img"),
        ("xfsprogs", "mkfs.xfs -q disk.img"),
    ] {
        let (program, arguments) = words.split_once(' ').expect("two words");
        if tool(package, program).is_none() {
            continue;
        }
        let _ = std::fs::remove_file(s.join("disk.img"));
        let file = std::fs::File::create(s.join("disk.img")).expect("an image");
        file.set_len(320 << 20).expect("its size");
        succeed(&mut s.command(program, arguments));
        if !arguments.contains("root") {
            succeed(s.tane().args(["cp", "-a", "root/.", "disk.img:/"]));
        }
        let kind = program.strip_prefix("mkfs.").expect("its name");
        let before = s.read("disk.img");
        let mut command = run(&s, &[], &["sh", "-c", SCRIPT]);
        says(&mut command, 3, &format!("{kind}\nnew\n"), "");
        assert!(s.read("disk.img") == before);
        let mut command = run(&s, &["--rw"], &["sh", "-c", SCRIPT]);
        says(&mut command, 3, &format!("{kind}\nnew\n"), "");
        let kept = succeed(s.tane().args(["cat", "disk.img:/etc/new"]));
        assert_eq!(kept.stdout, b"new\n", "{kind}");
    }
}

#[test]
fn a_program_runs_on_a_file_system_that_is_only_read() {
    let Some(s) = scratch() else { return };
    for (package, words, kind) in [
        (
            "squashfs-tools",
            "mksquashfs root disk.img -quiet -no-progress",
            "squashfs",
        ),
        ("erofs-utils", "mkfs.erofs --quiet disk.img root", "erofs"),
    ] {
        let (program, arguments) = words.split_once(' ').expect("two words");
        if tool(package, program).is_none() {
            continue;
        }
        let _ = std::fs::remove_file(s.join("disk.img"));
        succeed(&mut s.command(program, arguments));
        let err = "sh: can't create /etc/new: Read-only file system\n\
                   cat: can't open '/etc/new': No such file or directory\n";
        let mut command = run(&s, &[], &["sh", "-c", SCRIPT]);
        says(&mut command, 3, &format!("{kind}\n"), err);
    }
}

#[test]
fn a_program_runs_on_a_logical_volume() {
    let Some(s) = scratch() else { return };
    let Some(uml) = Uml::find() else { return };
    let disk = s.join("disk.img");
    let file = std::fs::File::create(&disk).expect("an image");
    file.set_len(64 << 20).expect("its size");
    let script = "vgcreate -q vg /dev/ubda\nlvcreate -q -L 8M -n other vg\n\
                  lvcreate -q -L 32M -n root vg\nmkfs.ext4 -q -d root /dev/vg/root\n\
                  vgchange -q -an vg";
    uml.run(&s, &[disk], script);
    let mut command = s.tane();
    command.args(["run", "--root", "disk.img@vg/root", "--rw", "--"]);
    says(command.args(["sh", "-c", SCRIPT]), 3, "ext4\nnew\n", "");
    let kept = succeed(s.tane().args(["cat", "disk.img@vg/root:/etc/new"]));
    assert_eq!(kept.stdout, b"new\n");
}

#[test]
fn a_program_runs_on_an_encrypted_volume() {
    let Some(s) = scratch() else { return };
    if tool("cryptsetup-bin", "cryptsetup").is_none() {
        return;
    }
    s.write("pw", b"open sesame\n");
    s.write("pw-bare", b"open sesame");
    let file = std::fs::File::create(s.join("disk.img")).expect("an image");
    file.set_len(64 << 20).expect("its size");
    let words = "luksFormat -q --type=luks2 --pbkdf=pbkdf2 --pbkdf-force-iterations=1000 \
                 --key-file=pw-bare disk.img";
    succeed(&mut s.command("cryptsetup", words));
    let with_key = |words: &[&str]| {
        let mut command = s.tane();
        command.arg("--passphrase-file=pw").args(words);
        command
    };
    succeed(&mut with_key(&["mkfs", "--fs=ext4", "disk.img"]));
    succeed(&mut with_key(&["cp", "-a", "root/.", "disk.img:/"]));
    let mut command = with_key(&["run", "--root", "disk.img", "--", "sh", "-c", SCRIPT]);
    says(&mut command, 3, "ext4\nnew\n", "");
    let said = exit(&mut run(&s, &[], &["true"]), 3).stderr;
    assert!(text(&said).contains("--passphrase-file"), "{}", text(&said));
}
