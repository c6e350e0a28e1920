//! A LUKS volume and where its data is: behind the header, or, if that is
//! detached, on a volume that nothing else is known of.

use super::{unlock, Opened, Unlocked};
use crate::error::{Context, Result};
use crate::volumes::mapper::Mapper;
use crate::volumes::{Made, VolumeKind, VolumeOptions, Volumes};
use std::path::{Path, PathBuf};

impl Volumes {
    /// None if it is open now; else why not.
    pub(in crate::volumes) fn unlock(
        &mut self,
        index: usize,
        device: &Path,
        options: &VolumeOptions,
    ) -> Result<Option<String>> {
        let secrets = &options.secrets;
        if secrets.is_empty() {
            self.list[index].locked = true;
            return Ok(Some("is locked; no passphrase was given".into()));
        }
        let mapper = self.mapper()?;
        let name = self.new_name();
        let opened = match unlock(&self.kernel, &mapper, device, &name, secrets) {
            Ok(Unlocked::Yes(opened)) => opened,
            Ok(Unlocked::WrongSecret) => {
                self.list[index].locked = true;
                return Ok(Some("is locked; no passphrase fits".into()));
            }
            Ok(Unlocked::Never(why)) => return Ok(Some(why)),
            Err(errno) => return Ok(Some(errno.on("unlock", device).to_string())),
        };
        let size = self.kernel.device_size(device);
        let size = size.map_err(|errno| errno.on("measure", device))? / 512;
        if opened.is_detached(size) {
            return self.open_detached(index, &mapper, &opened, options);
        }
        let Some(target) = opened.target(device, size) else {
            return Ok(Some("is cut short: its data reaches behind its end".into()));
        };
        let size = target.len.saturating_mul(512);
        match mapper.create(&name, &[target], options.read_only) {
            Ok(node) => {
                self.made.push(Made::Mapped(name));
                self.push(VolumeKind::Luks, node, vec![index], size, None, None)?;
                Ok(None)
            }
            Err(errno) => Ok(Some(errno.on("unlock", device).to_string())),
        }
    }

    /// The header does not say whose it is: the volume is the one on which the
    /// key makes sense of what is there, or the only one it can be.
    fn open_detached(
        &mut self,
        header: usize,
        mapper: &Mapper,
        opened: &Opened,
        options: &VolumeOptions,
    ) -> Result<Option<String>> {
        let has_parts = |i: usize| self.list.iter().any(|v| v.on.contains(&i));
        let unknown = |i: &usize| self.list[*i].found.is_none() && !has_parts(*i);
        let candidates: Vec<usize> = (0..self.list.len()).filter(unknown).collect();
        let only = candidates.len() == 1;
        for index in candidates {
            let Some(device) = self.list[index].device.clone() else {
                continue;
            };
            let Some(target) = opened.target(&device, self.list[index].size / 512) else {
                continue;
            };
            let (name, size) = (self.new_name(), target.len.saturating_mul(512));
            let node: PathBuf = match mapper.create(&name, &[target], options.read_only) {
                Ok(node) => node,
                Err(errno) => return Ok(Some(errno.on("unlock", &device).to_string())),
            };
            if only || self.probe(&node, false)?.is_some() {
                self.made.push(Made::Mapped(name));
                let on = vec![index, header];
                self.push(VolumeKind::Luks, node, on, size, None, None)?;
                return Ok(None);
            }
            // Nothing else uses it.
            let _ = mapper.remove(&name);
        }
        Ok(Some(
            "is a detached header, and its data is not here: name that image too (--with)".into(),
        ))
    }
}
