//! What chattr(1) sets: the flags of an inode, and the project it is counted for.

use crate::error::{Context, Result};
use crate::file::File;

impl File {
    /// The flags of this file or directory, FS_IMMUTABLE_FL and so on, and its
    /// project; FS_IOC_GETFLAGS. ENOTTY or EOPNOTSUPP where the file system has none.
    pub fn flags(&self) -> Result<(u32, u32)> {
        let (sys, fd) = (self.fd.sys(), &self.fd);
        let flags = sys.flags(fd);
        let flags = flags.map_err(|errno| errno.during("get the flags"))?;
        let project = sys.fsxattr(fd).map_or(0, |found| found.project);
        Ok((flags, project))
    }

    /// Set these flags and no others. What a file system does not know it refuses, or
    /// forgets: [`File::flags`] tells.
    pub fn set_flags(&self, flags: u32) -> Result<()> {
        let set = self.fd.sys().set_flags(&self.fd, flags);
        set.map_err(|errno| errno.during("set the flags"))
    }

    /// Make it part of this project, for project quotas.
    pub fn set_project(&self, project: u32) -> Result<()> {
        let (sys, fd) = (self.fd.sys(), &self.fd);
        let set = sys.fsxattr(fd).and_then(|mut attributes| {
            attributes.project = project;
            sys.set_fsxattr(fd, &mut attributes)
        });
        set.map_err(|errno| errno.during("set the project"))
    }
}
