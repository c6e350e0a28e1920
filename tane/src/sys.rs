//! System calls with types. Each method of [`Kernel`] here is the call of its
//! name; results are bare errnos, to which the callers add their context.

use crate::error::Errno;
use crate::kernel::Kernel;
use std::ffi::CStr;
use std::mem::MaybeUninit;

pub(crate) type SysResult<T> = Result<T, Errno>;

/// A call; integers are sign-extended, pointers must be of live objects.
macro_rules! call {
    ($kernel:expr, $nr:expr $(, $arg:expr)*) => {{
        let mut args = [0u64; 6];
        let given: &[u64] = &[$($arg as u64),*];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: every pointer passed here is of a live C string, slice or
        // structure of the size the call expects, borrowed while it runs.
        let ret = unsafe { $kernel.machine().syscall($nr, args) };
        if ret < 0 { Err(Errno(-ret as i32)) } else { Ok(ret as u64) }
    }};
}

/// openat2's structure.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// fstatfs's structure; libc keeps the flags to itself.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RawStatFs {
    pub fstype: i64,
    pub bsize: i64,
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub fsid: [i32; 2],
    pub namelen: i64,
    pub frsize: i64,
    pub flags: i64,
    pub spare: [i64; 4],
}

/// The path of "this descriptor itself".
const SELF: &CStr = c"";

/// A descriptor inside the kernel, closed when dropped. Keeps the kernel alive.
pub(crate) struct Fd {
    pub(crate) kernel: Kernel,
    pub(crate) raw: i32,
}

impl Drop for Fd {
    fn drop(&mut self) {
        // Nobody is there to hear of an error; sync_all() is where they show.
        let _ = call!(self.kernel, libc::SYS_close, self.raw);
    }
}

/// fsync, fdatasync and syncfs.
#[derive(Clone, Copy)]
pub(crate) enum Sync {
    All,
    Data,
    FileSystem,
}

/// How fsconfig is used here.
pub(crate) enum Config<'a> {
    Flag(&'a CStr),
    String(&'a CStr, &'a CStr),
    Create,
}

/// Whose extended attributes: the calls come in three kinds.
#[derive(Clone, Copy)]
pub(crate) enum XattrOf<'a> {
    Open(i32),
    /// An absolute path; a link at its end is meant itself.
    Link(&'a CStr),
    /// An absolute path, links followed.
    File(&'a CStr),
}

impl XattrOf<'_> {
    /// The call's number and first argument.
    fn choose(self, [open, link, file]: [i64; 3]) -> (i64, u64) {
        match self {
            Self::Open(fd) => (open, fd as u64),
            Self::Link(path) => (link, path.as_ptr() as u64),
            Self::File(path) => (file, path.as_ptr() as u64),
        }
    }
}

impl Kernel {
    fn own(&self, fd: u64) -> Fd {
        Fd {
            kernel: self.clone(),
            raw: fd as i32,
        }
    }

    // ---- descriptors

    pub(crate) fn openat(&self, dir: i32, path: &CStr, flags: i32, mode: u32) -> SysResult<Fd> {
        let flags = flags | libc::O_CLOEXEC | libc::O_LARGEFILE;
        call!(self, libc::SYS_openat, dir, path.as_ptr(), flags, mode).map(|fd| self.own(fd))
    }

    /// Resolves the whole path, links and ".." too, as if `dir` were "/".
    pub(crate) fn open_in_root(
        &self,
        dir: i32,
        path: &CStr,
        flags: i32,
        mode: u32,
    ) -> SysResult<Fd> {
        // O_PATH takes few other flags here, unlike openat().
        let large = match flags & libc::O_PATH {
            0 => libc::O_LARGEFILE,
            _ => 0,
        };
        let how = OpenHow {
            flags: (flags | libc::O_CLOEXEC | large) as u64,
            mode: u64::from(mode),
            resolve: libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS,
        };
        loop {
            let (at, size) = (&raw const how, size_of::<OpenHow>());
            match call!(self, libc::SYS_openat2, dir, path.as_ptr(), at, size) {
                // A rename raced with a ".."; the man page says to try again.
                Err(Errno(libc::EAGAIN)) => {}
                other => return other.map(|fd| self.own(fd)),
            }
        }
    }

    pub(crate) fn dup(&self, fd: i32) -> SysResult<Fd> {
        call!(self, libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 0).map(|fd| self.own(fd))
    }

    pub(crate) fn read(&self, fd: i32, to: &mut [u8]) -> SysResult<usize> {
        call!(self, libc::SYS_read, fd, to.as_mut_ptr(), to.len()).map(|n| n as usize)
    }

    pub(crate) fn write(&self, fd: i32, from: &[u8]) -> SysResult<usize> {
        call!(self, libc::SYS_write, fd, from.as_ptr(), from.len()).map(|n| n as usize)
    }

    pub(crate) fn pread(&self, fd: i32, to: &mut [u8], at: u64) -> SysResult<usize> {
        call!(self, libc::SYS_pread64, fd, to.as_mut_ptr(), to.len(), at).map(|n| n as usize)
    }

    pub(crate) fn pwrite(&self, fd: i32, from: &[u8], at: u64) -> SysResult<usize> {
        call!(self, libc::SYS_pwrite64, fd, from.as_ptr(), from.len(), at).map(|n| n as usize)
    }

    pub(crate) fn lseek(&self, fd: i32, offset: i64, whence: i32) -> SysResult<u64> {
        call!(self, libc::SYS_lseek, fd, offset, whence)
    }

    pub(crate) fn sync(&self, fd: i32, what: Sync) -> SysResult<()> {
        let nr = match what {
            Sync::All => libc::SYS_fsync,
            Sync::Data => libc::SYS_fdatasync,
            Sync::FileSystem => libc::SYS_syncfs,
        };
        call!(self, nr, fd).map(drop)
    }

    pub(crate) fn ftruncate(&self, fd: i32, len: u64) -> SysResult<()> {
        call!(self, libc::SYS_ftruncate, fd, len).map(drop)
    }

    pub(crate) fn fallocate(&self, fd: i32, mode: i32, at: u64, len: u64) -> SysResult<()> {
        call!(self, libc::SYS_fallocate, fd, mode, at, len).map(drop)
    }

    /// `data` is what this request reads or writes, and as long.
    pub(crate) fn ioctl_with<T>(&self, fd: i32, request: u32, data: &mut T) -> SysResult<()> {
        call!(self, libc::SYS_ioctl, fd, request, std::ptr::from_mut(data)).map(drop)
    }

    pub(crate) fn copy_file_range(&self, from: i32, to: i32, len: usize) -> SysResult<usize> {
        call!(self, libc::SYS_copy_file_range, from, 0, to, 0, len, 0).map(|n| n as usize)
    }

    // ---- entries; an empty path is the descriptor itself

    pub(crate) fn statx(&self, dir: i32, path: &CStr, flags: i32) -> SysResult<libc::statx> {
        let mut out = MaybeUninit::<libc::statx>::zeroed();
        let flags = flags | libc::AT_EMPTY_PATH | libc::AT_STATX_SYNC_AS_STAT;
        let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
        let at = out.as_mut_ptr();
        call!(self, libc::SYS_statx, dir, path.as_ptr(), flags, mask, at)?;
        // SAFETY: zeroes are a valid statx, and the kernel wrote over them.
        Ok(unsafe { out.assume_init() })
    }

    pub(crate) fn fstatx(&self, fd: i32) -> SysResult<libc::statx> {
        self.statx(fd, SELF, 0)
    }

    pub(crate) fn fstatfs(&self, fd: i32) -> SysResult<RawStatFs> {
        let mut out = RawStatFs::default();
        call!(self, libc::SYS_fstatfs, fd, &raw mut out)?;
        Ok(out)
    }

    pub(crate) fn getdents(&self, fd: i32, to: &mut [u64]) -> SysResult<usize> {
        let (at, len) = (to.as_mut_ptr(), size_of_val(to));
        call!(self, libc::SYS_getdents64, fd, at, len).map(|n| n as usize)
    }

    pub(crate) fn readlinkat(&self, dir: i32, path: &CStr, to: &mut [u8]) -> SysResult<usize> {
        let (at, len) = (to.as_mut_ptr(), to.len());
        call!(self, libc::SYS_readlinkat, dir, path.as_ptr(), at, len).map(|n| n as usize)
    }

    pub(crate) fn mkdirat(&self, dir: i32, name: &CStr, mode: u32) -> SysResult<()> {
        call!(self, libc::SYS_mkdirat, dir, name.as_ptr(), mode).map(drop)
    }

    pub(crate) fn mknodat(&self, dir: i32, name: &CStr, mode: u32, dev: u32) -> SysResult<()> {
        call!(self, libc::SYS_mknodat, dir, name.as_ptr(), mode, dev).map(drop)
    }

    pub(crate) fn symlinkat(&self, target: &CStr, dir: i32, name: &CStr) -> SysResult<()> {
        call!(
            self,
            libc::SYS_symlinkat,
            target.as_ptr(),
            dir,
            name.as_ptr()
        )
        .map(drop)
    }

    pub(crate) fn linkat(&self, old: (i32, &CStr), new: (i32, &CStr), flags: i32) -> SysResult<()> {
        let (from, to) = (old.1.as_ptr(), new.1.as_ptr());
        call!(self, libc::SYS_linkat, old.0, from, new.0, to, flags).map(drop)
    }

    pub(crate) fn renameat(
        &self,
        old: (i32, &CStr),
        new: (i32, &CStr),
        flags: u32,
    ) -> SysResult<()> {
        let (from, to) = (old.1.as_ptr(), new.1.as_ptr());
        call!(self, libc::SYS_renameat2, old.0, from, new.0, to, flags).map(drop)
    }

    pub(crate) fn unlinkat(&self, dir: i32, name: &CStr, flags: i32) -> SysResult<()> {
        call!(self, libc::SYS_unlinkat, dir, name.as_ptr(), flags).map(drop)
    }

    /// Never follows a link; on a link it is EOPNOTSUPP on most file systems.
    pub(crate) fn chmodat(&self, dir: i32, path: &CStr, mode: u32) -> SysResult<()> {
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        call!(self, libc::SYS_fchmodat2, dir, path.as_ptr(), mode, flags).map(drop)
    }

    /// Never follows a link.
    pub(crate) fn chownat(&self, dir: i32, path: &CStr, uid: u32, gid: u32) -> SysResult<()> {
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        call!(
            self,
            libc::SYS_fchownat,
            dir,
            path.as_ptr(),
            uid,
            gid,
            flags
        )
        .map(drop)
    }

    /// Never follows a link.
    pub(crate) fn utimensat(
        &self,
        dir: i32,
        path: &CStr,
        times: &[libc::timespec; 2],
    ) -> SysResult<()> {
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        let (path, times) = (path.as_ptr(), times.as_ptr());
        call!(self, libc::SYS_utimensat, dir, path, times, flags).map(drop)
    }

    pub(crate) fn umask(&self, mask: u32) {
        let _ = call!(self, libc::SYS_umask, mask);
    }

    pub(crate) fn limit_open_files(&self, count: u64) -> SysResult<()> {
        let limit = [count; 2];
        let (what, at) = (libc::RLIMIT_NOFILE, limit.as_ptr());
        call!(self, libc::SYS_prlimit64, 0, what, at, 0).map(drop)
    }

    // ---- extended attributes

    pub(crate) fn getxattr(&self, of: XattrOf, name: &CStr, to: &mut [u8]) -> SysResult<usize> {
        let nrs = [libc::SYS_fgetxattr, libc::SYS_lgetxattr, libc::SYS_getxattr];
        let (nr, of) = of.choose(nrs);
        let (at, len) = (to.as_mut_ptr(), to.len());
        call!(self, nr, of, name.as_ptr(), at, len).map(|n| n as usize)
    }

    pub(crate) fn listxattr(&self, of: XattrOf, to: &mut [u8]) -> SysResult<usize> {
        let nrs = [
            libc::SYS_flistxattr,
            libc::SYS_llistxattr,
            libc::SYS_listxattr,
        ];
        let (nr, of) = of.choose(nrs);
        call!(self, nr, of, to.as_mut_ptr(), to.len()).map(|n| n as usize)
    }

    pub(crate) fn setxattr(
        &self,
        of: XattrOf,
        name: &CStr,
        value: &[u8],
        flags: i32,
    ) -> SysResult<()> {
        let nrs = [libc::SYS_fsetxattr, libc::SYS_lsetxattr, libc::SYS_setxattr];
        let (nr, of) = of.choose(nrs);
        let (at, len) = (value.as_ptr(), value.len());
        call!(self, nr, of, name.as_ptr(), at, len, flags).map(drop)
    }

    pub(crate) fn removexattr(&self, of: XattrOf, name: &CStr) -> SysResult<()> {
        let nrs = [
            libc::SYS_fremovexattr,
            libc::SYS_lremovexattr,
            libc::SYS_removexattr,
        ];
        let (nr, of) = of.choose(nrs);
        call!(self, nr, of, name.as_ptr()).map(drop)
    }

    // ---- mounts

    pub(crate) fn fsopen(&self, fstype: &CStr) -> SysResult<Fd> {
        const FSOPEN_CLOEXEC: u32 = 1;
        call!(self, libc::SYS_fsopen, fstype.as_ptr(), FSOPEN_CLOEXEC).map(|fd| self.own(fd))
    }

    pub(crate) fn fsconfig(&self, fs: &Fd, config: &Config<'_>) -> SysResult<()> {
        const SET_FLAG: u32 = 0;
        const SET_STRING: u32 = 1;
        const CMD_CREATE: u32 = 6;
        let null = std::ptr::null();
        let (command, key, value) = match config {
            Config::Flag(key) => (SET_FLAG, key.as_ptr(), null),
            Config::String(key, value) => (SET_STRING, key.as_ptr(), value.as_ptr()),
            Config::Create => (CMD_CREATE, null, null),
        };
        call!(self, libc::SYS_fsconfig, fs.raw, command, key, value, 0).map(drop)
    }

    pub(crate) fn fsmount(&self, fs: &Fd, attributes: u64) -> SysResult<Fd> {
        const FSMOUNT_CLOEXEC: u32 = 1;
        call!(self, libc::SYS_fsmount, fs.raw, FSMOUNT_CLOEXEC, attributes).map(|fd| self.own(fd))
    }

    /// Attach what fsmount made.
    pub(crate) fn move_mount(&self, mount: &Fd, to: &CStr) -> SysResult<()> {
        const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
        let (from, to) = (SELF.as_ptr(), to.as_ptr());
        let (cwd, flags) = (libc::AT_FDCWD, MOVE_MOUNT_F_EMPTY_PATH);
        call!(self, libc::SYS_move_mount, mount.raw, from, cwd, to, flags).map(drop)
    }

    pub(crate) fn umount(&self, path: &CStr, flags: i32) -> SysResult<()> {
        let flags = flags | libc::UMOUNT_NOFOLLOW;
        call!(self, libc::SYS_umount2, path.as_ptr(), flags).map(drop)
    }

    pub(crate) fn mount_plain(&self, fstype: &CStr, at: &CStr) -> SysResult<()> {
        let (kind, at) = (fstype.as_ptr(), at.as_ptr());
        call!(self, libc::SYS_mount, kind, at, kind, 0, 0).map(drop)
    }
}
