//! What is agreed with the host's kernel before it asks anything.

use crate::served::{Opens, Served};
use fuser::{InitFlags, KernelConfig};

const MOST_DATA: u32 = 1 << 20;

impl Served {
    pub(crate) fn greet(&mut self, config: &mut KernelConfig) {
        let mut wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_NO_OPEN_SUPPORT
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_EXPLICIT_INVAL_DATA
            | InitFlags::FUSE_DONT_MASK;
        if self.manner.writable {
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        }
        if self.manner.many_users {
            wanted |= InitFlags::FUSE_POSIX_ACL;
        }
        for flag in wanted.iter() {
            // What this kernel does not know is done without.
            let _ = config.add_capabilities(flag);
        }
        let has = config.capabilities();
        self.asked_to_open = Opens {
            files: !has.contains(InitFlags::FUSE_NO_OPEN_SUPPORT),
            directories: !has.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT),
        };
        let _ = config.set_max_write(MOST_DATA);
        let _ = config.set_max_background(64);
    }
}
