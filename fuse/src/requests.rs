//! The protocol's requests, each answered by an operation.

use crate::answer::answer;
use crate::data::Change;
use crate::served::Served;
use fuser::*;
use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;
use tane_linux::Errno;

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.greet(config);
        Ok(())
    }

    // ---- names

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turn();
        let found = self.lookup(parent.0, name);
        if matches!(found, Err(Errno(libc::ENOENT))) && self.remembers_names(parent.0) {
            return self.reply_no_entry(reply);
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
        let _turn = self.turn();
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
        let _turn = self.turn();
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
        let _turn = self.turn();
        let found = self.symlink(request, parent.0, name, target.as_os_str());
        self.reply_entry(parent.0, found, reply);
    }

    fn link(&self, _: &Request, id: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turn();
        let found = self.link(id.0, parent.0, name);
        self.reply_entry(parent.0, found, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turn();
        answer!(self, reply, self.remove(parent.0, name, 0), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turn();
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
        let _turn = self.turn();
        let done = self.rename((parent.0, name), (new_parent.0, new_name), flags.bits());
        answer!(self, reply, done, () => reply.ok());
    }

    fn readlink(&self, _: &Request, id: INodeNo, reply: ReplyData) {
        let _turn = self.turn();
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
        let _turn = self.turn();
        answer!(self, reply, self.list_names(id.0, offset, &mut reply), () => reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.turn();
        answer!(self, reply, self.list_files(id.0, offset, &mut reply), () => reply.ok());
    }

    // ---- attributes

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.turn();
        self.reply_attr(id.0, self.getattr(id.0), reply);
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
        let _turn = self.turn();
        let change = Change {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            kill_privileges: request.uid() != 0 && self.manner.many_users,
        };
        self.reply_attr(id.0, self.setattr(id.0, &change), reply);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        // Either the host's kernel checks, or everything is allowed.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _turn = self.turn();
        answer!(self, reply, self.statfs(), fs => reply.statfs(
            fs.blocks,
            fs.bfree,
            fs.bavail,
            fs.files,
            fs.ffree,
            fs.bsize as u32,
            fs.namelen as u32,
            fs.frsize as u32,
        ));
    }

    fn getxattr(&self, _: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.turn();
        let mut value = vec![0; size as usize];
        let length = self.getxattr(id.0, name, &mut value);
        self.reply_xattr(reply, length, &value);
    }

    fn listxattr(&self, _: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.turn();
        let mut names = vec![0; size as usize];
        let length = self.listxattr(id.0, &mut names);
        self.reply_xattr(reply, length, &names);
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
        let _turn = self.turn();
        let done = self.setxattr(id.0, name, value, flags);
        answer!(self, reply, done, () => reply.ok());
    }

    fn removexattr(&self, _: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turn();
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
        let _turn = self.turn();
        thread_local! {
            static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            let read = self.read(id.0, offset, &mut buffer[..size as usize]);
            answer!(self, reply, read, n => reply.data(&buffer[..n]));
            if offset == 0 {
                self.was_read(id.0);
            }
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
        let _turn = self.turn();
        let kill = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let done = self.write(id.0, offset, data, kill);
        answer!(self, reply, done, () => reply.written(data.len() as u32));
    }

    fn fsync(&self, _: &Request, id: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _turn = self.turn();
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
        let _turn = self.turn();
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
        let _turn = self.turn();
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
        let _turn = self.turn();
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
        let _turn = self.turn();
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
        let _turn = self.turn();
        let answered = self.ioctl(id.0, request, given, room as usize);
        answer!(self, reply, answered, data => reply.ioctl(0, &data));
    }
}
