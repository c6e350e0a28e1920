//! Promises of `tane mkfs` and `tane fsck`. Judges are each file system's own programs.

use crate::common::*;
use crate::resize::{assert_marker, json, put_marker};

#[test]
fn every_kind_is_made_with_its_label_and_identity_and_mounts() {
    if !has_kernel() {
        return;
    }
    const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";
    let scratch = Scratch::new();
    for (fs, label, uuid) in [
        ("jfs", true, Some(UUID)),
        ("nilfs2", true, None),
        ("udf", true, Some("0123456789abcdef")),
        ("ntfs", true, None),
        ("minix", false, None),
    ] {
        let mut mkfs = scratch.tane();
        mkfs.args(["mkfs", "--fs", fs, "--size=200M", fs]);
        if label {
            mkfs.arg("--label=mine");
        }
        if let Some(uuid) = uuid {
            mkfs.arg("--uuid").arg(uuid);
        }
        succeed(&mut mkfs);
        let blkid = |tag: &str| {
            let mut blkid = sbin("blkid");
            blkid.args(["-p", "-o", "value", "-s", tag]);
            text(&succeed(blkid.arg(scratch.join(fs))).stdout)
                .trim()
                .to_owned()
        };
        assert_eq!(blkid("TYPE"), fs);
        if label {
            assert_eq!(blkid("LABEL"), "mine", "{fs}");
        }
        if let Some(uuid) = uuid {
            assert_eq!(blkid("UUID"), uuid, "{fs}");
        }
        put_marker(&scratch, fs);
        assert_marker(&scratch, fs);
    }
    for refused in [
        ["mkfs", "--fs=minix", "--size=20M", "--label=x", "no"],
        ["mkfs", "--fs=nilfs2", "--size=200M", "--uuid=1", "no"],
        ["mkfs", "--fs=hfsplus", "--size=20M", "--label=x", "no"],
    ] {
        exit(scratch.tane().args(refused), 2);
        assert!(!scratch.join("no").exists());
    }
}

pub fn state(scratch: &Scratch, image: &str, more: &[&str]) -> String {
    let mut fsck = scratch.tane();
    fsck.args(["fsck", "--json", image]).args(more);
    let output = fsck.output().expect("tane");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    said["state"].as_str().expect("a state").to_owned()
}

#[test]
fn damage_of_jfs_minix_and_ntfs_is_found_and_repaired_if_the_program_can() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    // The map of blocks; a directory's name of an inode that is free; the copy of
    // the file table's first records.
    for fs in ["jfs", "minix", "ntfs"] {
        succeed(scratch.tane().args(["mkfs", "--fs", fs, "--size=32M", fs]));
        put_marker(&scratch, fs);
        assert_eq!(state(&scratch, fs, &[]), "clean", "{fs}");
        let image = scratch.join(fs);
        let mut bytes = std::fs::read(&image).expect("reads");
        match fs {
            "jfs" => bytes[0x9000 + 1000..][..4000].fill(0),
            "minix" => {
                let name = find(&bytes, b"marker\0");
                bytes[name - 4..name].copy_from_slice(&77u32.to_le_bytes());
            }
            _ => {
                let number = bytes[0x38..0x40].try_into().expect("eight bytes");
                let at = u64::from_le_bytes(number) as usize * 4096;
                bytes[at..at + 4096].fill(0);
            }
        }
        std::fs::write(&image, &bytes).expect("writes");
        assert_eq!(state(&scratch, fs, &[]), "damaged", "{fs}");
        assert!(std::fs::read(&image).expect("reads") == bytes, "{fs}");
        if fs == "minix" {
            // Its program says that it has changed it, and finds the same again.
            assert_eq!(state(&scratch, fs, &["--repair"]), "damaged");
            continue;
        }
        assert_eq!(state(&scratch, fs, &["--repair"]), "repaired", "{fs}");
        assert_eq!(state(&scratch, fs, &["--repair"]), "clean", "{fs}");
        assert_marker(&scratch, fs);
    }
}

#[test]
fn damage_is_found_left_alone_and_repaired_when_asked() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.ext4("a.img", None, 64);
    put_marker(&scratch, "a.img");
    let sound = succeed(scratch.tane().args(["fsck", "a.img"]));
    assert_eq!(text(&sound.stdout), "a.img: ext4, clean\n");
    assert_eq!(text(&sound.stderr), "");
    // An inode that a directory names and nobody has.
    succeed(
        sbin("debugfs")
            .args(["-w", "-R", "clri marker"])
            .arg(&image),
    );
    let damaged = std::fs::read(&image).expect("reads");
    let found = exit(scratch.tane().args(["fsck", "--json", "a.img"]), 1);
    assert!(text(&found.stdout).contains("\"damaged\""));
    assert!(std::fs::read(&image).expect("reads") == damaged);
    std::fs::write(scratch.join("copy.img"), &damaged).expect("a copy");
    let shown = exit(scratch.tane().args(["fsck", "a.img"]), 1);
    assert!(text(&shown.stderr).contains("Entry 'marker'"), "{shown:?}");
    let repaired = json(scratch.tane().args(["fsck", "--repair", "a.img"]));
    assert_eq!(repaired["state"], "repaired");
    let shown = succeed(scratch.tane().args(["fsck", "--repair", "copy.img"]));
    assert!(text(&shown.stderr).contains("Entry 'marker'"), "{shown:?}");
    assert_sound(&image);
}

#[test]
fn mkfs_leaves_alone_what_holds_something() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.ext4("a.img", None, 64);
    put_marker(&scratch, "a.img");
    let failed = exit(scratch.tane().args(["mkfs", "a.img"]), 1);
    assert!(text(&failed.stderr).contains("holds ext4"));
    assert_marker(&scratch, "a.img");
    succeed(scratch.tane().args(["mkfs", "--force", "a.img"]));
    exit(scratch.tane().args(["cat", "a.img:/marker"]), 1);
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    let found = bytes.windows(what.len()).position(|w| w == what);
    found.expect("is there")
}
