//! Files of servers that stay open from one command of a session to the next.

use super::super::image::Opened;
use super::super::{netfs, Access};
use super::{Image, Inner};
use crate::failure::Result;
use crate::session::Global;
use std::path::PathBuf;
use std::sync::Arc;
use tane::ImagePath;

impl Inner {
    /// Files of a server, over the one connection to it that there is: for all that the
    /// session may do.
    pub(super) fn open_files(
        &mut self,
        at: &ImagePath,
        file: PathBuf,
        global: &Global,
    ) -> Result<Arc<Opened>> {
        if let Some(image) = self.images.iter().find(|i| i.file == file) {
            return image.mounted(at);
        }
        let access = match self.permits(&at.image, Access::Write, global) {
            Ok(()) => Access::Write,
            Err(_) => Access::Read,
        };
        let ready = netfs::prepare(at, global)?;
        let opened = Arc::new(netfs::mount(ready, at, access, global)?);
        self.images.push(Image {
            file,
            access,
            mounts: vec![(None, opened.clone())],
            machine: opened.shared_machine(),
        });
        Ok(opened)
    }
}

impl Image {
    /// Its only mount.
    fn mounted(&self, at: &ImagePath) -> Result<Arc<Opened>> {
        let mount = self.mounts.first().map(|(_, opened)| opened.clone());
        mount.ok_or_else(|| netfs::refused(at, "is not mounted any more"))
    }
}
