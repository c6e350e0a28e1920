//! Promises of `tane make-image` about xfs, btrfs and f2fs. Judges are each one's
//! own fsck.

use crate::common::make::*;
use crate::common::*;
use std::path::Path;

/// More than is written back at once, and than the journals hold.
const MUCH: usize = 40 << 20;

fn assert_equal_twice(fs: &str, check: impl Fn(&Path)) {
    let Some((_scratch, a, b)) = make_twice_of(fs, MUCH, &[]) else {
        return;
    };
    assert_equal(&a, &b);
    check(&a);
}

#[test]
fn equal_input_gives_equal_xfs_images_at_any_time_by_anybody() {
    assert_equal_twice("xfs", |image| {
        succeed(sbin("xfs_repair").args(["-n", "-f"]).arg(image));
    });
}

#[test]
fn equal_input_gives_equal_btrfs_images_at_any_time_by_anybody() {
    assert_equal_twice("btrfs", |image| {
        let check = ["check", "--readonly", "--check-data-csum"];
        succeed(sbin("btrfs").args(check).arg(image));
    });
}

#[test]
fn equal_input_gives_equal_f2fs_images_at_any_time_by_anybody() {
    assert_equal_twice("f2fs", |image| {
        let told = text(&succeed(sbin("fsck.f2fs").arg("--dry-run").arg(image)).stdout);
        assert!(!told.contains("[Fail]"), "{told}");
    });
}

#[test]
fn other_content_gives_a_btrfs_with_another_device() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let device = |name: &str| {
        scratch.write(&format!("{name}/{name}"), b"x");
        let image = format!("{name}.img");
        let args = ["make-image", "--fs=btrfs", "--epoch", EPOCH, name, &image];
        succeed(scratch.tane().args(args));
        let dump = ["inspect-internal", "dump-super", &image];
        let told = text(&succeed(scratch.tool("btrfs").args(dump)).stdout);
        let line = told.lines().find(|l| l.starts_with("dev_item.uuid"));
        line.unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    assert_ne!(device("a"), device("b"));
}
