//! A BitLocker volume and what opens it.

use super::{header, read, secret, targets, unlock, Header, Metadata, Unlocked};
use super::{Protector, ProtectorKind};
use crate::error::{Context, Result};
use crate::kernel::Kernel;
use crate::volumes::{Made, VolumeKind, VolumeOptions, Volumes};
use std::path::Path;

impl Volumes {
    /// None if it is open now; else why not.
    pub(in crate::volumes) fn open_bitlocker(
        &mut self,
        index: usize,
        device: &Path,
        options: &VolumeOptions,
    ) -> Result<Option<String>> {
        let (header, found) = match find(&self.kernel, device) {
            Ok(found) => found,
            Err(why) => return Ok(Some(why)),
        };
        let protectors = found.iter().flat_map(|metadata| &metadata.protectors);
        let mut known: Vec<Protector> = Vec::new();
        for protector in protectors.map(|sealing| &sealing.protector) {
            if !known.contains(protector) {
                known.push(protector.clone());
            }
        }
        self.list[index].protectors = known;
        if header.is_partial || found.iter().any(|metadata| !metadata.is_encrypted()) {
            let why = "is encrypted in part only: let Windows finish encrypting or decrypting it";
            return Ok(Some(why.into()));
        }
        let mut unlocked = Unlocked::Forged;
        for metadata in &found {
            unlocked = unlock(metadata, &options.secrets);
            match &unlocked {
                Unlocked::Forged => {}
                Unlocked::WrongSecret => break,
                Unlocked::Yes(key) => {
                    let read_only = options.read_only;
                    return self.map_bitlocker(index, &header, metadata, key, read_only);
                }
            }
        }
        Ok(Some(match unlocked {
            Unlocked::Forged => "its metadata was changed by somebody without its keys".into(),
            _ => self.note_locked(index, &options.secrets),
        }))
    }

    fn map_bitlocker(
        &mut self,
        index: usize,
        header: &Header,
        metadata: &Metadata,
        key: &[u8],
        read_only: bool,
    ) -> Result<Option<String>> {
        let Some(device) = self.list[index].device.as_deref() else {
            return Ok(Some("is gone".into()));
        };
        let there = self.kernel.device_size(device);
        let there = there.map_err(|errno| errno.on("measure", device))?;
        if metadata.size > there {
            let why = "is cut short: its data reaches behind its end";
            return Ok(Some(why.into()));
        }
        let targets = match targets(header, metadata, key, device) {
            Ok(targets) => targets,
            Err(why) => return Ok(Some(why)),
        };
        let (mapper, name) = (self.mapper()?, self.new_name());
        match mapper.create(&name, &targets, read_only) {
            Ok(node) => {
                self.made.push(Made::Mapped(name));
                let (title, id) = (metadata.description.clone(), metadata.id.clone());
                let kind = VolumeKind::BitLocker;
                self.push(kind, node, vec![index], metadata.size, title, id)?;
                Ok(None)
            }
            Err(errno) => Ok(Some(errno.on("unlock", device).to_string())),
        }
    }

    /// Why it stays closed, and what would open it.
    fn note_locked(&mut self, index: usize, secrets: &[Vec<u8>]) -> String {
        let volume = &mut self.list[index];
        let protectors = &volume.protectors;
        let mut names: Vec<String> = protectors.iter().map(describe).collect();
        names.dedup();
        let names = names.join(", ");
        volume.locked = protectors.iter().any(|p| p.kind.is_secret());
        if !volume.locked {
            return format!("can be opened only where it was encrypted, by: {names}");
        }
        let why = match secrets {
            [] => "no passphrase was given".into(),
            secrets => match secrets.iter().find_map(|s| secret::mistyped_group(s)) {
                Some(group) => format!("group {group} of the recovery password is mistyped"),
                None => "no passphrase fits".to_owned(),
            },
        };
        format!("is locked; {why}; what opens it: {names}")
    }
}

/// With what it is found by, where it has such.
fn describe(protector: &Protector) -> String {
    let name = protector.kind.name();
    match protector.kind {
        ProtectorKind::RecoveryPassword => format!("{name} {}", protector.id),
        ProtectorKind::StartupKey => format!("{name} {}.BEK", protector.id),
        _ => name.into(),
    }
}

fn find(kernel: &Kernel, device: &Path) -> std::result::Result<(Header, Vec<Metadata>), String> {
    let part = |at, len| {
        let bytes = kernel.read_device(device, at, len);
        bytes.map_err(|errno| errno.on("read", device).to_string())
    };
    let header = Header::parse(&part(0, header::SIZE)?)?;
    let found = read(&header, part)?;
    Ok((header, found))
}
