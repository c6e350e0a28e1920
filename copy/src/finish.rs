//! Gives copies their owner, mode, attributes and times, in the order in which
//! Linux does not take one away for the sake of another: the owner first (it
//! clears set-user-ID and capabilities), then mode, ACLs and attributes, and
//! the times last. What the destination refuses is a loss, not an error; and so is
//! what it takes without a word and has otherwise then, such as most modes and half of
//! all seconds on a FAT.

use super::loss::Loss;
use super::observer::Observer;
use super::owner::Owner;
use std::cell::Cell;
use std::ffi::CStr;
use tane_linux::{Errno, Fd, Flags, Packed, Stat, Target, Xattrs};

const ACCESS_ACL: &CStr = c"system.posix_acl_access";
const DEFAULT_ACL: &CStr = c"system.posix_acl_default";

pub struct Finish<'r> {
    report: &'r dyn Observer,
    owner: Owner,
    /// Of the device that was looked at last.
    forgets: Cell<Option<(u64, Forgets)>>,
}

/// What a file system shows until it is mounted again, and then has otherwise.
#[derive(Clone, Copy)]
struct Forgets {
    /// The highest owner and group it has room for.
    most: (u32, u32),
    atime: bool,
}

impl Forgets {
    fn of(dir: &Fd) -> Forgets {
        // linux/magic.h
        const NILFS: i64 = 0x3434;
        let kind = dir.sys().fstatfs(dir).map_or(0, |found| found.fstype);
        let (most, atime) = match kind {
            // minix, by version and length of names.
            0x137f | 0x138f => ((0xffff, 0xff), true),
            0x2468 | 0x2478 | 0x4d5a => ((0xffff, 0xffff), false),
            NILFS => ((u32::MAX, u32::MAX), true),
            _ => ((u32::MAX, u32::MAX), false),
        };
        Forgets { most, atime }
    }
}

/// How a new file came into being.
pub struct Made {
    pub owner: (u32, u32),
    pub mode: u32,
    /// It may have inherited an ACL.
    pub acl: bool,
}

/// What a file was given, unless it was told that it was not.
struct Set {
    owner: Option<(u32, u32)>,
    mode: u32,
    has_mode: bool,
    has_times: bool,
}

impl<'r> Finish<'r> {
    pub fn new(report: &'r dyn Observer, owner: Owner) -> Self {
        Finish {
            report,
            owner,
            forgets: Cell::default(),
        }
    }

    fn forgets(&self, at: &Fd, device: u64) -> Forgets {
        match self.forgets.get() {
            Some((known, forgets)) if known == device => forgets,
            _ => {
                let forgets = Forgets::of(at);
                self.forgets.set(Some((device, forgets)));
                forgets
            }
        }
    }

    pub fn has_default_acl(dir: &Fd) -> bool {
        Target::Open(dir).get(DEFAULT_ACL, &mut []).is_ok()
    }

    pub fn file(&self, fd: &Fd, stat: &Stat, xattrs: &[u8], made: Made, path: &[u8]) {
        let sys = fd.sys();
        let mut set = self.owner(stat, made.owner, path, |u, g| sys.fchown(fd, u, g));
        if made.acl {
            let _ = Target::Open(fd).remove(ACCESS_ACL);
        }
        if set.mode != made.mode || made.acl {
            set.has_mode = self.check(sys.fchmod(fd, set.mode), Loss::Mode, path);
        }
        self.xattrs(&Target::Open(fd), xattrs, path);
        set.has_times = self.check(sys.futimens(fd, &times(stat)), Loss::Times, path);
        self.compare(&set, stat, fd, sys.fstat(fd), path);
    }

    pub fn directory(&self, fd: &Fd, stat: &Stat, xattrs: &Xattrs, inherited: bool, path: &[u8]) {
        let sys = fd.sys();
        let Ok(now) = sys.fstat(fd) else { return };
        let mut set = self.owner(stat, (now.uid, now.gid), path, |u, g| sys.fchown(fd, u, g));
        if inherited {
            let _ = Target::Open(fd).remove(ACCESS_ACL);
            let _ = Target::Open(fd).remove(DEFAULT_ACL);
        }
        if set.mode != now.permissions() {
            set.has_mode = self.check(sys.fchmod(fd, set.mode), Loss::Mode, path);
        }
        self.xattrs(&Target::Open(fd), &xattrs.packed, path);
        set.has_times = self.check(sys.futimens(fd, &times(stat)), Loss::Times, path);
        self.compare(&set, stat, fd, sys.fstat(fd), path);
    }

    /// A directory that got its name: minix and nilfs2 take that for a change of it.
    pub fn renamed(&self, fd: &Fd, stat: &Stat) {
        // It was told if it has none.
        let _ = fd.sys().futimens(fd, &times(stat));
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
        let mut set = self.owner(stat, owner, path, |uid, gid| {
            sys.chown(dir, name, uid, gid, nofollow)
        });
        if now.mode & libc::S_IFMT == libc::S_IFLNK {
            // It has none of its own.
            set.has_mode = false;
        } else if set.mode != now.permissions() {
            set.has_mode = self.check(sys.chmod(dir, name, set.mode), Loss::Mode, path);
        }
        if !xattrs.is_empty() {
            self.xattrs(&Target::Entry(dir, name), xattrs, path);
        }
        let result = sys.utimens(dir, name, &times(stat), nofollow);
        set.has_times = self.check(result, Loss::Times, path);
        self.compare(&set, stat, dir, sys.lstat(dir, name), path);
    }

    /// Changes the owner if it is wrong. Without its owner a file loses the
    /// bits that would lend that owner's rights.
    fn owner(
        &self,
        stat: &Stat,
        now: (u32, u32),
        path: &[u8],
        chown: impl Fn(u32, u32) -> Result<(), Errno>,
    ) -> Set {
        let wanted = self.owner.of(stat.uid, stat.gid);
        let mut set = Set {
            owner: Some(wanted),
            mode: stat.permissions(),
            has_mode: true,
            has_times: true,
        };
        if wanted == now {
            return set;
        }
        let Err(e) = chown(wanted.0, wanted.1) else {
            return set;
        };
        self.lose_owner(wanted, path, e);
        set.owner = None;
        // The group alone may be allowed.
        if wanted.1 != now.1 {
            let _ = chown(u32::MAX, wanted.1);
        }
        let is_dir = set.mode & 0o6000 == 0 || stat.mode & libc::S_IFMT == libc::S_IFDIR;
        if is_dir {
            return set;
        }
        self.report.lose(Loss::SpecialBits, path, b"", e);
        set.mode &= 0o1777;
        set
    }

    fn lose_owner(&self, (uid, gid): (u32, u32), path: &[u8], e: Errno) {
        let detail = format!("{uid}:{gid}");
        self.report.lose(Loss::Owner, path, detail.as_bytes(), e);
    }

    /// What the destination has of what it took.
    fn compare(&self, set: &Set, stat: &Stat, at: &Fd, now: Result<Stat, Errno>, path: &[u8]) {
        let Ok(now) = now else { return };
        let forgets = self.forgets(at, now.dev);
        let why = Errno(libc::EOPNOTSUPP);
        let has = |owner: (u32, u32)| {
            owner == (now.uid, now.gid) && owner.0 <= forgets.most.0 && owner.1 <= forgets.most.1
        };
        if let Some(owner) = set.owner.filter(|owner| !has(*owner)) {
            self.lose_owner(owner, path, why);
        }
        let changed = now.permissions() ^ set.mode;
        if set.has_mode && changed != 0 {
            let loss = match changed & 0o777 {
                0 => Loss::SpecialBits,
                _ => Loss::Mode,
            };
            self.report.lose(loss, path, b"", why);
        }
        let has_atime = match forgets.atime {
            true => stat.atime == stat.mtime,
            false => now.atime == stat.atime,
        };
        if set.has_times && (!has_atime || now.mtime != stat.mtime) {
            // FAT counts in twos.
            let loss = match now.mtime.sec.abs_diff(stat.mtime.sec) < 2 {
                true => Loss::ExactTimes,
                false => Loss::Times,
            };
            self.report.lose(loss, path, b"", why);
        }
    }

    fn xattrs(&self, target: &Target, packed: &[u8], path: &[u8]) {
        for (name, value) in Packed(packed) {
            if let Err(e) = target.set(name, value) {
                self.report.lose_xattr(path, name, e);
            }
        }
    }

    /// Whether nothing is lost.
    fn check(&self, result: Result<(), Errno>, loss: Loss, path: &[u8]) -> bool {
        if let Err(e) = result {
            self.report.lose(loss, path, b"", e);
        }
        result.is_ok()
    }
}

fn times(stat: &Stat) -> [libc::timespec; 2] {
    [stat.atime, stat.mtime].map(|t| libc::timespec {
        tv_sec: t.sec,
        tv_nsec: t.nsec.into(),
    })
}
