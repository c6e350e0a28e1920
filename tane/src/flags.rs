//! What chattr(1) sets: the flags of an inode, and the project it is counted for.

use crate::error::Result;
use crate::file::File;
use crate::sys::SysResult;

// linux/fs.h
pub(crate) const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
pub(crate) const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
/// struct fsxattr, in words, and which one the project is.
pub(crate) const FSXATTR: usize = 7;
const PROJECT: usize = 3;

impl File {
    /// The flags of this file or directory, FS_IMMUTABLE_FL and so on, and its
    /// project; FS_IOC_GETFLAGS. ENOTTY or EOPNOTSUPP where the file system has none.
    pub fn flags(&self) -> Result<(u32, u32)> {
        // The kernel writes an int, whatever the number of the call says.
        let mut flags = 0u64;
        self.ask(FS_IOC_GETFLAGS, &mut flags)
            .map_err(|errno| errno.during("get the flags"))?;
        let mut attributes = [0u32; FSXATTR];
        let known = self.ask(FS_IOC_FSGETXATTR, &mut attributes).is_ok();
        let project = if known { attributes[PROJECT] } else { 0 };
        Ok((flags as u32, project))
    }

    /// Set these flags and no others. What a file system does not know it refuses, or
    /// forgets: [`File::flags`] tells.
    pub fn set_flags(&self, flags: u32) -> Result<()> {
        self.ask(FS_IOC_SETFLAGS, &mut u64::from(flags))
            .map_err(|errno| errno.during("set the flags"))
    }

    /// Make it part of this project, for project quotas.
    pub fn set_project(&self, project: u32) -> Result<()> {
        let mut attributes = [0u32; FSXATTR];
        let asked = self.ask(FS_IOC_FSGETXATTR, &mut attributes);
        attributes[PROJECT] = project;
        asked
            .and_then(|()| self.ask(FS_IOC_FSSETXATTR, &mut attributes))
            .map_err(|errno| errno.during("set the project"))
    }

    fn ask<T>(&self, request: u32, data: &mut T) -> SysResult<()> {
        let fd = self.kernel_fd();
        self.kernel().ioctl_with(fd, request, data)
    }
}
