//! On whose behalf a thread makes files.
//!
//! The threads that serve are threads of one process inside, each with the user
//! that new files belong to and a umask of its own. Both are set only when they
//! change: most mounts have one user.

use fuser::Request;
use std::cell::Cell;
use tane_linux::{Errno, Sys};

#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    uid: u32,
    gid: u32,
}

#[derive(Clone, Copy)]
struct Thread {
    owner: Owner,
    /// None: still that of the process.
    umask: Option<u32>,
}

thread_local! {
    static THREAD: Cell<Thread> = const {
        let owner = Owner { uid: 0, gid: 0 };
        Cell::new(Thread { owner, umask: None })
    };
}

/// What this thread makes next belongs to who asks, if `owned`, and to root
/// otherwise; its mode is what remains under the umask, or what the default ACL
/// of the directory says.
pub fn act_for(sys: Sys, request: &Request, umask: u32, owned: bool) -> Result<(), Errno> {
    let mut thread = THREAD.get();
    if thread.umask.is_none() {
        sys.unshare_umask()?;
    }
    if thread.umask != Some(umask) {
        sys.umask(umask);
        thread.umask = Some(umask);
        THREAD.set(thread);
    }
    let owner = match owned {
        true => Owner {
            uid: request.uid(),
            gid: request.gid(),
        },
        false => Owner { uid: 0, gid: 0 },
    };
    if thread.owner != owner {
        sys.set_file_owner(owner.uid, owner.gid)?;
        THREAD.set(Thread { owner, ..thread });
    }
    Ok(())
}
