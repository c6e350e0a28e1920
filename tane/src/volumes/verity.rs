//! dm-verity: volumes whose every block is checked by a tree of hashes, down from
//! a root that somebody trusts. The superblock is veritysetup(8)'s.

use super::mapper::Target;
use super::{Made, Verity, VolumeKind, VolumeOptions, Volumes};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::probe::hyphenated;
use std::path::Path;

const MAGIC: &[u8] = b"verity\0\0\x01\0\0\0";

struct Superblock {
    uuid: [u8; 16],
    kind: u32,
    algorithm: String,
    data_block: u32,
    hash_block: u32,
    data_blocks: u64,
    salt: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Superblock {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let name = bytes.get(32..64)?;
        let name = &name[..name.iter().position(|b| *b == 0)?];
        // It becomes a word of a line for the kernel.
        let plain = name
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b));
        let salt = usize::from(u16::from_le_bytes(bytes.get(80..82)?.try_into().ok()?));
        let salt = bytes.get(88..88 + salt.min(256))?;
        let block = |size: u32| (512..=1 << 16).contains(&size) && size.is_power_of_two();
        let (data_block, hash_block) = (word(64)?, word(68)?);
        (plain && !name.is_empty() && block(data_block) && block(hash_block)).then_some(())?;
        Some(Self {
            uuid: bytes.get(16..32)?.try_into().ok()?,
            kind: word(12)?,
            algorithm: String::from_utf8_lossy(name).into_owned(),
            data_block,
            hash_block,
            data_blocks: long(72)?,
            salt: if salt.is_empty() {
                "-".into()
            } else {
                hex(salt)
            },
        })
    }

    /// `at`: where it is on the device with the hashes, in bytes.
    fn target(&self, data: &Path, hashes: &Path, at: u64, root: &[u8]) -> Option<Target> {
        let len = self.data_blocks.checked_mul(u64::from(self.data_block))? / 512;
        let first = at.checked_add(512)?.div_ceil(u64::from(self.hash_block));
        (len > 0).then(|| Target {
            start: 0,
            len,
            kind: "verity",
            parameters: format!(
                "{} {} {} {} {} {} {first} {} {} {}",
                self.kind,
                data.display(),
                hashes.display(),
                self.data_block,
                self.hash_block,
                self.data_blocks,
                self.algorithm,
                hex(root),
                self.salt
            ),
        })
    }
}

fn read(kernel: &Kernel, device: &Path, at: u64) -> Option<Superblock> {
    Superblock::parse(&kernel.read_device(device, at, 512).ok()?)
}

impl Volumes {
    /// Once all volumes are known: the one that the root hash is of.
    pub(super) fn add_verity(&mut self, options: &VolumeOptions) -> Result<()> {
        let is_done = self.list.iter().any(|v| v.kind == VolumeKind::Verity);
        let Some(wanted) = options.verity.as_ref().filter(|_| !is_done) else {
            return Ok(());
        };
        for hashes in 0..self.list.len() {
            if self.try_hashes(hashes, wanted)? {
                return Ok(());
            }
        }
        let text = "no volume here has this root hash, or the first block of what has it is \
                    damaged; is the image with the hashes missing (--with)?";
        Err(Error::new(libc::EBADMSG, "verify").with_text(text))
    }

    /// Whether the hashes on this volume have the root, and their data is here.
    fn try_hashes(&mut self, hashes: usize, wanted: &Verity) -> Result<bool> {
        let at = wanted.offset.unwrap_or(0);
        let Some(device) = self.list[hashes].device.clone() else {
            return Ok(false);
        };
        let Some(found) = read(&self.kernel, &device, at) else {
            return Ok(false);
        };
        let mapper = self.mapper()?;
        for data in 0..self.list.len() {
            // Behind the data, or on a volume of their own.
            let volume = &self.list[data];
            if (data == hashes) != wanted.offset.is_some() {
                continue;
            }
            let Some(on) = &volume.device else { continue };
            let target = found.target(on, &device, at, &wanted.root);
            let Some(target) = target.filter(|t| t.len.saturating_mul(512) <= volume.size) else {
                continue;
            };
            let (name, size) = (self.new_name(), target.len * 512);
            // What is no hash of this algorithm is refused here.
            let Ok(node) = mapper.create(&name, &[target], true) else {
                continue;
            };
            let first = self.kernel.read_device(&node, 0, found.data_block as usize);
            if first.is_err() {
                let _ = mapper.remove(&name);
                continue;
            }
            self.made.push(Made::Mapped(name));
            let mut on = vec![data, hashes];
            on.dedup();
            let uuid = Some(hyphenated(&found.uuid));
            self.push(VolumeKind::Verity, node, on, size, None, uuid)?;
            return Ok(true);
        }
        Ok(false)
    }
}
