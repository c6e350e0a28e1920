//! Tests that show what a Linux of ours serves to the host's programs.

use crate::{has_root, is_root, skip, tool};
use std::fs::File;

/// Whether something can be mounted by FUSE, whoever this is; the test is skipped otherwise.
#[track_caller]
pub fn can_mount() -> bool {
    let device = "/dev/fuse";
    if let Err(e) = File::options().read(true).write(true).open(device) {
        skip(format!("{device}: {e}"));
        return false;
    }
    is_root() || tool("fuse3", "fusermount3").is_some()
}

/// The same of tests that look at owners and permissions: of a mount that is not root's these
/// are the host's kernel's to judge.
#[track_caller]
pub fn has_fuse() -> bool {
    can_mount() && has_root()
}
