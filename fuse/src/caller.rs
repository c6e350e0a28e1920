//! On whose behalf a thread makes files.
//!
//! The threads that serve are threads of one process inside, each with the user
//! that new files belong to and a umask of its own. Both are set only when they
//! change: most mounts have one user.
//!
//! A Linux in another process has threads of its own, which this one's are not: what is
//! made there is root's, and becomes the caller's afterwards.

use fuser::Request;
use std::cell::Cell;
use std::ffi::CStr;
use tane_linux::{Errno, Fd, Sys, Target};

/// Whose a new file is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    uid: u32,
    gid: u32,
}

const ROOT: Owner = Owner { uid: 0, gid: 0 };

/// How what is made next becomes the caller's.
pub enum Acting {
    /// By being made.
    Already,
    /// By [`afterwards`].
    Afterwards(Owner),
}

#[derive(Clone, Copy)]
struct Thread {
    owner: Owner,
    /// None: still that of the process.
    umask: Option<u32>,
}

thread_local! {
    static THREAD: Cell<Thread> = const {
        Cell::new(Thread { owner: ROOT, umask: None })
    };
}

/// What this thread makes next belongs to who asks, if `owned`, and to root
/// otherwise; its mode is what remains under the umask, or what the default ACL
/// of the directory says.
pub fn act_for(sys: Sys, request: &Request, umask: u32, owned: bool) -> Result<Acting, Errno> {
    let owner = match owned {
        true => Owner {
            uid: request.uid(),
            gid: request.gid(),
        },
        false => ROOT,
    };
    let mut thread = THREAD.get();
    if thread.umask.is_none() {
        match sys.unshare_umask() {
            // No such call of a thread's own crosses to another process.
            Err(Errno(libc::ENOSYS)) => return Ok(Acting::Afterwards(owner)),
            done => done?,
        }
    }
    if thread.umask != Some(umask) {
        sys.umask(umask);
        thread.umask = Some(umask);
        THREAD.set(thread);
    }
    if thread.owner != owner {
        sys.set_file_owner(owner.uid, owner.gid)?;
        THREAD.set(Thread { owner, ..thread });
    }
    Ok(Acting::Already)
}

/// Makes something as root, without a umask there, and gives it to its owner. The mode is
/// what [`act_for`] would leave of it. If it cannot be given it is taken away again.
pub fn afterwards(
    dir: &Fd<'static>,
    name: &CStr,
    mode: u32,
    umask: u32,
    owner: Owner,
    make: impl FnOnce(&Fd<'static>, &CStr, u32) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let by_default = Target::Open(dir).get(c"system.posix_acl_default", &mut []);
    let mode = match by_default {
        Ok(1..) => mode,
        _ => mode & !umask,
    };
    make(dir, name, mode)?;
    if owner == ROOT {
        return Ok(());
    }
    give(dir, name, mode, owner).inspect_err(|_| {
        let flags = match mode & libc::S_IFMT {
            libc::S_IFDIR => libc::AT_REMOVEDIR,
            _ => 0,
        };
        let _ = dir.sys().unlink(dir, name, flags);
    })
}

fn give(dir: &Fd<'static>, name: &CStr, mode: u32, owner: Owner) -> Result<(), Errno> {
    let sys = dir.sys();
    let (above, made) = (sys.fstat(dir)?, sys.lstat(dir, name)?);
    // Its group is the directory's, by that one's mode or by an option of the mount.
    let inherited = above.mode & libc::S_ISGID != 0 || made.gid != 0;
    let gid = if inherited { u32::MAX } else { owner.gid };
    sys.chown(dir, name, owner.uid, gid, libc::AT_SYMLINK_NOFOLLOW)?;
    // Which takes these bits away from a file.
    let special = mode & (libc::S_ISUID | libc::S_ISGID);
    match mode & libc::S_IFMT {
        libc::S_IFLNK | libc::S_IFDIR => Ok(()),
        _ if special == 0 => Ok(()),
        _ => sys.chmod(dir, name, made.permissions()),
    }
}
