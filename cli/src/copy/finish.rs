//! Gives copies their owner, mode, attributes and times, in the order in which
//! Linux does not take one away for the sake of another: the owner first (it
//! clears set-user-ID and capabilities), then mode, ACLs and attributes, and
//! the times last. What the destination refuses is a loss, not an error.

use super::owner::Owner;
use super::report::{Loss, Report};
use crate::sys::{Errno, Fd, Flags, Packed, Stat, Target, Xattrs};
use std::ffi::CStr;

const ACCESS_ACL: &CStr = c"system.posix_acl_access";
const DEFAULT_ACL: &CStr = c"system.posix_acl_default";

pub struct Finish<'r> {
    pub report: &'r Report,
    pub owner: Owner,
}

/// How a new file came into being.
pub struct Made {
    pub owner: (u32, u32),
    pub mode: u32,
    /// It may have inherited an ACL.
    pub acl: bool,
}

impl Finish<'_> {
    pub fn has_default_acl(dir: &Fd) -> bool {
        dir.sys().fgetxattr(dir, DEFAULT_ACL, &mut []).is_ok()
    }

    pub fn file(&self, fd: &Fd, stat: &Stat, xattrs: &[u8], made: Made, path: &[u8]) {
        let sys = fd.sys();
        let mode = self.mode_after_owner(stat, made.owner, path, |u, g| sys.fchown(fd, u, g));
        if made.acl {
            let _ = sys.fremovexattr(fd, ACCESS_ACL);
        }
        if mode != made.mode || made.acl {
            self.check(sys.fchmod(fd, mode), Loss::Mode, path);
        }
        self.xattrs(&Target::Open(fd), xattrs, path);
        self.check(sys.futimens(fd, &times(stat)), Loss::Times, path);
    }

    pub fn directory(&self, fd: &Fd, stat: &Stat, xattrs: &Xattrs, inherited: bool, path: &[u8]) {
        let sys = fd.sys();
        let Ok(now) = sys.fstat(fd) else { return };
        let mode =
            self.mode_after_owner(stat, (now.uid, now.gid), path, |u, g| sys.fchown(fd, u, g));
        if inherited {
            let _ = sys.fremovexattr(fd, ACCESS_ACL);
            let _ = sys.fremovexattr(fd, DEFAULT_ACL);
        }
        if mode != now.permissions() {
            self.check(sys.fchmod(fd, mode), Loss::Mode, path);
        }
        self.xattrs(&Target::Open(fd), &xattrs.packed, path);
        self.check(sys.futimens(fd, &times(stat)), Loss::Times, path);
    }

    /// What chattr(1) sets. Last of all, since some of it forbids any change.
    pub fn flags(&self, fd: &Fd, flags: Flags, path: &[u8]) {
        if flags.project != 0 {
            if let Err(e) = flags.set_project(fd) {
                let project = flags.project.to_string();
                self.report.lose(Loss::Project, path, project.as_bytes(), e);
            }
        }
        if let Err((lost, e)) = flags.add_bits(fd) {
            self.report.lose(Loss::Flags, path, &lost.letters(), e);
        }
    }

    /// A symlink, device, fifo or socket.
    pub fn entry(&self, dir: &Fd, name: &CStr, stat: &Stat, xattrs: &[u8], path: &[u8]) {
        let sys = dir.sys();
        let nofollow = libc::AT_SYMLINK_NOFOLLOW;
        let Ok(now) = sys.lstat(dir, name) else {
            return;
        };
        let owner = (now.uid, now.gid);
        let mode = self.mode_after_owner(stat, owner, path, |uid, gid| {
            sys.chown(dir, name, uid, gid, nofollow)
        });
        let is_link = now.mode & libc::S_IFMT == libc::S_IFLNK;
        if !is_link && mode != now.permissions() {
            self.check(sys.chmod(dir, name, mode), Loss::Mode, path);
        }
        if !xattrs.is_empty() {
            let at = sys.path_of_entry(dir, name);
            self.xattrs(&Target::Entry(dir, at), xattrs, path);
        }
        let result = sys.utimens(dir, name, &times(stat), nofollow);
        self.check(result, Loss::Times, path);
    }

    /// Changes the owner if it is wrong. Without its owner a file loses the
    /// bits that would lend that owner's rights.
    fn mode_after_owner(
        &self,
        stat: &Stat,
        now: (u32, u32),
        path: &[u8],
        chown: impl Fn(u32, u32) -> Result<(), Errno>,
    ) -> u32 {
        let mode = stat.permissions();
        let wanted = self.owner.of(stat.uid, stat.gid);
        if wanted == now {
            return mode;
        }
        let Err(e) = chown(wanted.0, wanted.1) else {
            return mode;
        };
        self.report.lose(
            Loss::Owner,
            path,
            format!("{}:{}", wanted.0, wanted.1).as_bytes(),
            e,
        );
        // The group alone may be allowed.
        if wanted.1 != now.1 {
            let _ = chown(u32::MAX, wanted.1);
        }
        let is_dir = mode & 0o6000 == 0 || stat.mode & libc::S_IFMT == libc::S_IFDIR;
        if is_dir {
            return mode;
        }
        self.report.lose(Loss::SpecialBits, path, b"", e);
        mode & 0o1777
    }

    fn xattrs(&self, target: &Target, packed: &[u8], path: &[u8]) {
        for (name, value) in Packed(packed) {
            if let Err(e) = target.set(name, value) {
                self.report.lose_xattr(path, name, e);
            }
        }
    }

    fn check(&self, result: Result<(), Errno>, loss: Loss, path: &[u8]) {
        if let Err(e) = result {
            self.report.lose(loss, path, b"", e);
        }
    }
}

fn times(stat: &Stat) -> [libc::timespec; 2] {
    [stat.atime, stat.mtime].map(|t| libc::timespec {
        tv_sec: t.sec,
        tv_nsec: t.nsec.into(),
    })
}
