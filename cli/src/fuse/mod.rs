//! A file system of an image, served to the host's kernel by FUSE.
//!
//! - `point`: the mount, made and ended by a process of its own
//! - `link`: between that process and this one
//! - `connection`: the threads that serve it
//! - this file: the protocol's requests, each answered by an operation
//! - `served`, `data`: the operations
//! - `table`, `node`, `listing`: which file is which
//! - `turns`: which thread takes requests
//! - `attr`, `caller`: words of the protocol; on whose behalf
//!
//! Nobody else changes the image meanwhile, so that the host's kernel may keep
//! all it was told: names, attributes, data. Files are never opened or closed
//! for it: the answers to OPEN and CREATE say that it need not ask.

mod attr;
pub mod background;
mod caller;
mod connection;
mod data;
mod link;
mod listing;
mod node;
mod point;
mod served;
mod table;
mod turns;

pub use connection::Connection;
pub use link::{Link, Word};
pub use point::{is_dead, mount, unmount, Busy, Wish, DEVICE, HELPER};
pub use served::{Manner, Served};

use crate::sys::{Errno, FlagsData, Stat};
use attr::{attr, file_type};
use data::Change;
use fuser::*;
use served::{Found, Opens, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// The protocol's number for the root.
const ROOT: u64 = 1;

/// An attribute of the root that is ours: the process that serves it. Reading it
/// also writes everything to the image.
pub const SYNC: &str = "tane.sync";

/// How long the host's kernel may believe what it was told.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86400);
const NOT_AT_ALL: Duration = Duration::ZERO;

const MOST_DATA: u32 = 1 << 20;

/// Says once that the kernel inside has died.
pub struct Death {
    said: OnceLock<()>,
    say: Box<dyn Fn() + Send + Sync>,
}

impl Death {
    pub fn new(say: impl Fn() + Send + Sync + 'static) -> Self {
        Death {
            said: OnceLock::new(),
            say: Box::new(say),
        }
    }

    /// What the host's programs are told.
    fn errno(&self, error: Errno) -> fuser::Errno {
        if error.0 == libc::ESHUTDOWN {
            self.said.get_or_init(|| (self.say)());
            return fuser::Errno::EIO;
        }
        fuser::Errno::from_i32(error.0)
    }
}

/// Answers a request, with the error if there is one.
macro_rules! answer {
    ($self:ident, $reply:ident, $result:expr, $ok:pat => $done:expr) => {
        match $result {
            Ok($ok) => $done,
            Err(e) => $reply.error($self.death.errno(e)),
        }
    };
}

impl Served {
    fn reply_entry(&self, parent: u64, found: Result<Found>, reply: ReplyEntry) {
        let remembered = || match self.remembers_names(parent) {
            true => FOREVER,
            false => NOT_AT_ALL,
        };
        match found {
            // The protocol has one time for the name and the attributes.
            Ok(found) => reply.entry(&remembered(), &attr(found.id, &found.stat), Generation(0)),
            Err(e) => reply.error(self.death.errno(e)),
        }
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
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
        Ok(())
    }

    // ---- names

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turns.take();
        let found = self.lookup(parent.0, name);
        if matches!(found, Err(Errno(libc::ENOENT))) && self.remembers_names(parent.0) {
            // Node 0: there is none, and that may be remembered too.
            let none = attr(0, &Stat::default());
            return reply.entry(&FOREVER, &none, Generation(0));
        }
        self.reply_entry(parent.0, found, reply);
    }

    fn forget(&self, _: &Request, id: INodeNo, times: u64) {
        self.table.forget(id.0, times);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.take();
        let found = self.mknod(request, parent.0, name, mode, umask, rdev);
        self.reply_entry(parent.0, found, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.take();
        let found = self.mkdir(request, parent.0, name, mode, umask);
        self.reply_entry(parent.0, found, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.take();
        let found = self.symlink(request, parent.0, name, target.as_os_str());
        self.reply_entry(parent.0, found, reply);
    }

    fn link(&self, _: &Request, id: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turns.take();
        let found = self.link(id.0, parent.0, name);
        self.reply_entry(parent.0, found, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.take();
        answer!(self, reply, self.remove(parent.0, name, 0), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.take();
        let done = self.remove(parent.0, name, libc::AT_REMOVEDIR);
        answer!(self, reply, done, () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.take();
        let done = self.rename((parent.0, name), (new_parent.0, new_name), flags.bits());
        answer!(self, reply, done, () => reply.ok());
    }

    fn readlink(&self, _: &Request, id: INodeNo, reply: ReplyData) {
        let _turn = self.turns.take();
        answer!(self, reply, self.readlink(id.0), target => reply.data(&target));
    }

    // ---- opening, which is not needed: see above

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.asked_to_open.files {
            false => reply.error(fuser::Errno::ENOSYS),
            true => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let kept = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
        match self.asked_to_open.directories {
            false => reply.error(fuser::Errno::ENOSYS),
            true => reply.opened(FileHandle(0), kept),
        }
    }

    /// MKNOD will do.
    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }

    /// There is nothing that closing would find out.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    // ---- listing

    fn readdir(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _turn = self.turns.take();
        let done = self.list(id.0, offset, false, |e| {
            let name = OsStr::from_bytes(e.name.to_bytes());
            !reply.add(INodeNo(e.id), e.next, file_type(e.kind), name)
        });
        answer!(self, reply, done, () => reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.turns.take();
        let remembered = match self.remembers_names(id.0) {
            true => FOREVER,
            false => NOT_AT_ALL,
        };
        let done = self.list(id.0, offset, true, |e| {
            let name = OsStr::from_bytes(e.name.to_bytes());
            // "." and "..", of which the number and the kind are all that counts.
            let stat = e.stat.unwrap_or(Stat {
                mode: libc::S_IFDIR,
                ..Default::default()
            });
            let attr = attr(e.id, &stat);
            !reply.add(
                INodeNo(e.id),
                e.next,
                name,
                &remembered,
                &attr,
                Generation(0),
            )
        });
        answer!(self, reply, done, () => reply.ok());
    }

    // ---- attributes

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.turns.take();
        answer!(self, reply, self.getattr(id.0), stat => {
            reply.attr(&FOREVER, &attr(shown(id.0, &stat), &stat))
        });
    }

    fn setattr(
        &self,
        request: &Request,
        id: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.turns.take();
        let change = Change {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            kill_privileges: request.uid() != 0 && self.manner.many_users,
        };
        answer!(self, reply, self.setattr(id.0, &change), stat => {
            reply.attr(&FOREVER, &attr(shown(id.0, &stat), &stat))
        });
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        // Either the host's kernel checks, or everything is allowed.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _turn = self.turns.take();
        answer!(self, reply, self.statfs(), fs => reply.statfs(
            fs.f_blocks,
            fs.f_bfree,
            fs.f_bavail,
            fs.f_files,
            fs.f_ffree,
            fs.f_bsize as u32,
            fs.f_namelen as u32,
            fs.f_frsize as u32,
        ));
    }

    fn getxattr(&self, _: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.turns.take();
        let mut value = vec![0; size as usize];
        let length = match name == SYNC && id.0 == ROOT {
            true => self.sync().and_then(|()| {
                let pid = std::process::id().to_string();
                match value.get_mut(..pid.len()) {
                    Some(to) => to.copy_from_slice(pid.as_bytes()),
                    None if size > 0 => return Err(Errno(libc::ERANGE)),
                    None => {}
                }
                Ok(pid.len())
            }),
            false => self.getxattr(id.0, name, &mut value),
        };
        reply_attribute(self, reply, length, &value);
    }

    fn listxattr(&self, _: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.turns.take();
        let mut names = vec![0; size as usize];
        let length = self.listxattr(id.0, &mut names);
        reply_attribute(self, reply, length, &names);
    }

    fn setxattr(
        &self,
        _: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.take();
        let done = self.setxattr(id.0, name, value, flags);
        answer!(self, reply, done, () => reply.ok());
    }

    fn removexattr(&self, _: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.take();
        answer!(self, reply, self.removexattr(id.0, name), () => reply.ok());
    }

    // ---- data

    fn read(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.turns.take();
        thread_local! {
            static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            let read = self.read(id.0, offset, &mut buffer[..size as usize]);
            answer!(self, reply, read, n => reply.data(&buffer[..n]));
        });
    }

    fn write(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.take();
        let kill = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let done = self.write(id.0, offset, data, kill);
        answer!(self, reply, done, () => reply.written(data.len() as u32));
    }

    fn fsync(&self, _: &Request, id: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _turn = self.turns.take();
        answer!(self, reply, self.fsync(id.0, data_only), () => reply.ok());
    }

    fn fsyncdir(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.take();
        answer!(self, reply, self.fsync(id.0, data_only), () => reply.ok());
    }

    fn lseek(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _turn = self.turns.take();
        if self.manner.writable {
            // The host has data that it has not sent: here it would be a hole.
            return reply.error(fuser::Errno::ENOSYS);
        }
        answer!(self, reply, self.lseek(id.0, offset, whence), at => reply.offset(at));
    }

    fn fallocate(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.take();
        let done = self.fallocate(id.0, mode, offset, length);
        answer!(self, reply, done, () => reply.ok());
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.take();
        // The answer has 32 bits.
        let length = length.min(1 << 30);
        let copied = self.copy((from.0, from_offset), (to.0, to_offset), length);
        answer!(self, reply, copied, n => reply.written(n as u32));
    }

    fn ioctl(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        request: u32,
        given: &[u8],
        room: u32,
        reply: ReplyIoctl,
    ) {
        let _turn = self.turns.take();
        let mut data = FlagsData::default();
        let mut bytes: Vec<u8> = data.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let fits = given.len() <= bytes.len() && room as usize <= bytes.len();
        let done = match bytes.get_mut(..given.len()) {
            Some(to) if fits => {
                to.copy_from_slice(given);
                for (word, bytes) in data.iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                }
                self.ioctl(id.0, request, &mut data)
            }
            _ => Err(Errno(libc::ENOTTY)),
        };
        let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_ne_bytes()).collect();
        answer!(self, reply, done, () => reply.ioctl(0, &bytes[..room as usize]));
    }
}

/// The inode number that is shown: the root has its own too.
fn shown(id: u64, stat: &Stat) -> u64 {
    match id {
        ROOT => stat.ino,
        id => id,
    }
}

/// With no room for it, only the length was asked for.
fn reply_attribute(served: &Served, reply: ReplyXattr, length: Result<usize>, value: &[u8]) {
    match length {
        Ok(length) if value.is_empty() => reply.size(length as u32),
        Ok(length) => reply.data(&value[..length]),
        Err(e) => reply.error(served.death.errno(e)),
    }
}
