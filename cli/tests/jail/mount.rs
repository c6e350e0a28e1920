//! What code that an image got to run finds where a mount is served.

use crate::common::fuse::{has_fuse, Mounted};
use crate::common::*;
use crate::jailed::*;
use crate::prisoner::Outcome::Killed;
use crate::prisoner::*;

#[test]
fn who_serves_a_mount_can_open_no_file() {
    if !has_fuse() || !has_landlock() {
        return;
    }
    let s = Scratch::new();
    image(&s, 0);
    let mounted = Mounted::new(&s, &["--rw", "disk.img"]);
    let server = mounted.server() as u32;
    {
        // Waits for requests.
        let mut thread = Prisoner::waiting_in(server, libc::SYS_read, None);
        assert_eq!(thread.open(c"/etc/passwd", libc::O_RDONLY), DENIED);
        let image = path(&s.join("disk.img"));
        assert_eq!(thread.open(&image, libc::O_RDONLY), DENIED);
        let parent = std::process::id().into();
        refused(&thread.call(libc::SYS_setsid, &[]));
        assert_eq!(
            thread.call(libc::SYS_kill, &[parent, 0]),
            Killed(libc::SIGSYS)
        );
    }
    // Who made the mount is not in the jail, and takes it away.
    tane_test_support::eventually("the mount goes", || {
        !crate::common::fuse::is_mounted(mounted.path())
    });
}
