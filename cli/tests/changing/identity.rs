//! Promises of `tane label` and `tane uuid`. The judge is blkid, and each one's fsck.

use crate::common::*;

fn blkid(scratch: &Scratch, image: &str, field: &str) -> String {
    let mut blkid = sbin("blkid");
    let output = blkid
        .args(["-p", "-o", "value", "-s", field])
        .arg(scratch.join(image));
    text(&succeed(output).stdout).trim().to_owned()
}

fn is_clean(scratch: &Scratch, image: &str) {
    let told = succeed(scratch.tane().args(["--json", "fsck", image])).stdout;
    assert!(text(&told).contains("\"clean\""), "{}", text(&told));
}

#[test]
fn names_are_shown_changed_and_taken_away() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    for fs in [
        "ext2", "ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "ntfs",
    ] {
        let size = "--size=320M";
        succeed(
            scratch
                .tane()
                .args(["mkfs", "--fs", fs, "--label=OLD", size, fs]),
        );
        let label = || text(&succeed(scratch.tane().args(["label", fs])).stdout);
        assert_eq!(label(), "OLD\n", "{fs}");
        succeed(scratch.tane().args(["label", fs, "NEWNAME"]));
        assert_eq!(
            (label().as_str(), blkid(&scratch, fs, "LABEL").as_str()),
            ("NEWNAME\n", "NEWNAME")
        );
        is_clean(&scratch, fs);
        if fs != "exfat" {
            succeed(scratch.tane().args(["label", fs, ""]));
            assert_eq!(label(), "\n", "{fs}");
        }
        std::fs::remove_file(scratch.join(fs)).expect("removes");
    }
}

#[test]
fn uuids_are_shown_and_changed() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let full = "01234567-89ab-4cde-8f01-23456789abcd";
    for (fs, wanted) in [
        ("ext4", full),
        ("xfs", full),
        ("btrfs", full),
        ("vfat", "1234-ABCD"),
        ("exfat", "1234-ABCD"),
    ] {
        succeed(scratch.tane().args(["mkfs", "--fs", fs, "--size=320M", fs]));
        scratch.write("file", b"stays");
        succeed(
            scratch
                .tane()
                .args(["cp", "-q", "file", &format!("{fs}:/")]),
        );
        let uuid = || text(&succeed(scratch.tane().args(["uuid", fs])).stdout);
        assert_eq!(uuid().trim(), blkid(&scratch, fs, "UUID"), "{fs}");
        succeed(scratch.tane().args(["uuid", fs, wanted]));
        assert_eq!(
            (uuid().trim(), blkid(&scratch, fs, "UUID").as_str()),
            (wanted, wanted)
        );
        succeed(scratch.tane().args(["uuid", fs, "random"]));
        assert!(
            uuid().trim() != wanted && uuid().trim().len() == wanted.len(),
            "{fs}"
        );
        is_clean(&scratch, fs);
        let cat = succeed(scratch.tane().args(["cat", &format!("{fs}:/file")]));
        assert_eq!(cat.stdout, b"stays");
        std::fs::remove_file(scratch.join(fs)).expect("removes");
    }
}

#[test]
fn what_a_file_system_does_not_take_is_an_error_that_changes_nothing() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.ext4("a.img", None, 8);
    let before = scratch.read("a.img");
    let failed = exit(scratch.tane().args(["uuid", "a.img", "1234-ABCD"]), 2);
    assert!(text(&failed.stderr).contains("is not like"), "{failed:?}");
    assert!(scratch.read("a.img") == before);
    let long = "a-name-that-is-longer-than-sixteen-bytes";
    let failed = exit(scratch.tane().args(["label", "a.img", long]), 1);
    assert!(
        text(&failed.stderr).contains("does not take that name"),
        "{failed:?}"
    );
    assert_eq!(blkid(&scratch, "a.img", "LABEL"), "sample");
    assert_sound(&scratch.join("a.img"));
}
