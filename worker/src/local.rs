//! What the operations do, on a kernel of this process: of the caller's, or of the
//! worker.

use crate::failure::{Failure, Result};
use crate::operations::{Calls, FileCalls, ImageCalls, KernelCalls};
use crate::records::{SharedPart, Stat, StatFs, Time, VolumeRecord};
use crate::wire::List;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tane::{SetTime, SetTimes, Tree};

const NOFOLLOW: i32 = 1;

impl KernelCalls for tane::Kernel {
    fn halt(&self) -> Result<()> {
        tane::Kernel::halt(self);
        Ok(())
    }

    fn is_alive(&self) -> Result<bool> {
        Ok(tane::Kernel::is_alive(self))
    }

    fn dmesg(&self) -> Result<String> {
        Ok(tane::Kernel::dmesg(self))
    }

    fn last_words(&self) -> Result<String> {
        Ok(tane::Kernel::last_words(self))
    }

    fn trim(&self) -> Result<()> {
        Ok(tane::Kernel::trim(self)?)
    }
}

impl ImageCalls for tane::Image {
    fn volumes(&self) -> Result<List<VolumeRecord>> {
        let volumes = tane::Image::volumes(self)?;
        let record = |v| VolumeRecord::new(v, volumes.selector(v).as_deref());
        Ok(List(volumes.list().iter().map(record).collect()))
    }
}

/// (uid_t)-1 leaves one alone, as in chown(2).
fn id(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

fn none() -> Failure {
    Failure::new(libc::ENODATA, "there is no such attribute")
}

impl Calls for Tree {
    fn sync(&self) -> Result<()> {
        Ok(Tree::sync(self)?)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(Tree::statfs(self)?.into())
    }

    fn stat(&self, path: &OsStr, flags: i32) -> Result<Stat> {
        let metadata = match flags & NOFOLLOW {
            0 => self.metadata(path),
            _ => self.symlink_metadata(path),
        };
        Ok(metadata?.into())
    }

    fn chown(&self, path: &OsStr, uid: u32, gid: u32, flags: i32) -> Result<()> {
        match flags & NOFOLLOW {
            0 => Tree::chown(self, path, id(uid), id(gid))?,
            _ => self.lchown(path, id(uid), id(gid))?,
        }
        Ok(())
    }

    fn utimens(&self, path: &OsStr, atime: Time, mtime: Time, flags: i32) -> Result<()> {
        let times = SetTimes {
            accessed: SetTime::from(atime),
            modified: SetTime::from(mtime),
        };
        match flags & NOFOLLOW {
            0 => self.set_times(path, times)?,
            _ => self.set_symlink_times(path, times)?,
        }
        Ok(())
    }

    fn chmod(&self, path: &OsStr, mode: u32) -> Result<()> {
        Ok(self.set_permissions(path, mode)?)
    }

    fn mkdir(&self, path: &OsStr, mode: u32) -> Result<()> {
        Ok(self.create_dir_with(path, mode)?)
    }

    fn mknod(&self, path: &OsStr, mode: u32, rdev: u64) -> Result<()> {
        Ok(Tree::mknod(self, path, mode, rdev)?)
    }

    fn truncate(&self, path: &OsStr, length: u64) -> Result<()> {
        Ok(Tree::truncate(self, path, length)?)
    }

    fn link(&self, path: &OsStr, new: &OsStr) -> Result<()> {
        Ok(self.hard_link(path, new)?)
    }

    fn symlink(&self, target: &OsStr, path: &OsStr) -> Result<()> {
        Ok(Tree::symlink(self, target, path)?)
    }

    fn unlink(&self, path: &OsStr) -> Result<()> {
        Ok(self.remove_file(path)?)
    }

    fn rmdir(&self, path: &OsStr) -> Result<()> {
        Ok(self.remove_dir(path)?)
    }

    fn remove_all(&self, path: &OsStr) -> Result<()> {
        Ok(self.remove_dir_all(path)?)
    }

    fn rename(&self, path: &OsStr, new: &OsStr, flags: u32) -> Result<()> {
        Ok(self.rename_with(path, new, flags)?)
    }

    fn readlink(&self, path: &OsStr) -> Result<Vec<u8>> {
        let target = self.read_link(path)?;
        Ok(target.into_os_string().into_encoded_bytes())
    }

    fn getxattr(&self, path: &OsStr, name: &OsStr, flags: i32) -> Result<Vec<u8>> {
        let value = match flags & NOFOLLOW {
            0 => self.xattr(path, name)?,
            _ => self.symlink_xattr(path, name)?,
        };
        value.ok_or_else(none)
    }

    fn listxattr(&self, path: &OsStr, flags: i32) -> Result<Vec<u8>> {
        let names = match flags & NOFOLLOW {
            0 => self.xattrs(path)?,
            _ => self.symlink_xattrs(path)?,
        };
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(name.as_bytes());
            list.push(0);
        }
        Ok(list)
    }

    fn setxattr(
        &self,
        path: &OsStr,
        name: &OsStr,
        value: &[u8],
        how: i32,
        flags: i32,
    ) -> Result<()> {
        match flags & NOFOLLOW {
            0 => self.set_xattr(path, name, value, how)?,
            _ => self.set_symlink_xattr(path, name, value, how)?,
        }
        Ok(())
    }

    fn removexattr(&self, path: &OsStr, name: &OsStr, flags: i32) -> Result<()> {
        match flags & NOFOLLOW {
            0 => self.remove_xattr(path, name)?,
            _ => self.remove_symlink_xattr(path, name)?,
        }
        Ok(())
    }
}

impl FileCalls for tane::File {
    fn fsync(&self) -> Result<()> {
        Ok(self.sync_all()?)
    }

    fn fdatasync(&self) -> Result<()> {
        Ok(self.sync_data()?)
    }

    fn fstat(&self) -> Result<Stat> {
        Ok(self.metadata()?.into())
    }

    fn ftruncate(&self, length: u64) -> Result<()> {
        Ok(self.set_len(length)?)
    }

    fn fallocate(&self, mode: i32, offset: u64, len: u64) -> Result<()> {
        Ok(self.allocate(mode, offset, len)?)
    }

    fn flags(&self) -> Result<u64> {
        let (flags, project) = tane::File::flags(self)?;
        Ok(u64::from(flags) | u64::from(project) << 32)
    }

    fn set_flags(&self, flags: u32) -> Result<()> {
        Ok(tane::File::set_flags(self, flags)?)
    }

    fn set_project(&self, project: u32) -> Result<()> {
        Ok(tane::File::set_project(self, project)?)
    }

    fn shared_parts(&self, from: u64) -> Result<List<SharedPart>> {
        let parts = tane::File::shared_parts(self, from)?;
        Ok(List(parts.into_iter().map(SharedPart::from).collect()))
    }
}

/// A system call whose first argument is the file; its result is not negative.
///
/// # Safety
/// The call may read and write what its arguments point to.
pub unsafe fn raw(file: &tane::File, action: &str, nr: i64, args: [u64; 3]) -> Result<i64> {
    let [a, b, c] = args;
    // SAFETY: the caller's word.
    match unsafe { file.syscall(nr, [a, b, c, 0, 0]) } {
        result @ 0.. => Ok(result),
        errno => Err(Failure::of_errno(-errno as i32, action)),
    }
}

/// [`tane::OpenOptions`] of O_ flags.
pub fn open_file(tree: &Tree, name: &OsStr, flags: i32, mode: u32) -> Result<tane::File> {
    let access = flags & libc::O_ACCMODE;
    let mut options = tane::OpenOptions::new();
    options
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .mode(mode)
        .custom_flags(flags & !libc::O_ACCMODE);
    Ok(options.open(tree, name)?)
}
