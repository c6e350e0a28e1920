//! LUKS 1 and 2: the header is read by `tane-luks`, the cipher is the kernel's
//! (dm-crypt), for the key material in the header as well as for the data. Where the
//! data is, which may be elsewhere: `open.rs`.

mod open;

use super::mapper::{Mapper, Target};
use crate::error::Errno;
use crate::kernel::Kernel;
use crate::sys::SysResult;
use std::path::Path;
use tane_luks::{Data, Header, Slot, LONGEST};

/// What came of trying to unlock.
enum Unlocked {
    Yes(Opened),
    WrongSecret,
    /// Why it can never be.
    Never(String),
}

/// A key and what it is for.
struct Opened {
    key: Vec<u8>,
    data: Data,
}

impl Opened {
    /// Whether the data cannot be where the header is, on a device of so many
    /// sectors: the header is detached.
    fn is_detached(&self, size: u64) -> bool {
        self.data.start == 0 || self.data.start >= size
    }

    /// The data on this device of so many sectors; None if it has no room for any.
    fn target(&self, device: &Path, size: u64) -> Option<Target> {
        let data = &self.data;
        let len = data.len.or(size.checked_sub(data.start))?;
        let sector = match data.sector {
            512 => String::new(),
            size => format!(" 1 sector_size:{size}"),
        };
        (len > 0 && data.start.checked_add(len)? <= size).then(|| Target {
            start: 0,
            len,
            kind: "crypt",
            parameters: format!(
                "{} {} {} {} {}{sector}",
                data.cipher,
                hex(&self.key),
                data.tweak,
                device.display(),
                data.start
            ),
        })
    }
}

/// Try the secrets on the LUKS device at `device`. `name` is free for a device
/// of the mapper that is there for a moment.
fn unlock(
    kernel: &Kernel,
    mapper: &Mapper,
    device: &Path,
    name: &str,
    secrets: &[Vec<u8>],
) -> SysResult<Unlocked> {
    let bytes = kernel.read_device(device, 0, LONGEST as usize)?;
    let header = match Header::parse(&bytes) {
        Ok(header) => header,
        Err(why) => return Ok(Unlocked::Never(why)),
    };
    let material = |slot: &Slot, key: &[u8], len| {
        read_slot(kernel, mapper, device, name, slot, key, len).map(Some)
    };
    Ok(match header.unlock(secrets, material)? {
        Some(key) => Unlocked::Yes(Opened {
            key,
            data: header.data,
        }),
        None => Unlocked::WrongSecret,
    })
}

/// So many bytes of what is in a slot, decrypted by this key.
fn read_slot(
    kernel: &Kernel,
    mapper: &Mapper,
    device: &Path,
    name: &str,
    slot: &Slot,
    key: &[u8],
    len: usize,
) -> SysResult<Vec<u8>> {
    let target = Target {
        start: 0,
        len: len.div_ceil(512) as u64,
        kind: "crypt",
        parameters: format!(
            "{} {} 0 {} {}",
            slot.cipher,
            hex(key),
            device.display(),
            slot.at / 512
        ),
    };
    let node = mapper.create(name, &[target], true)?;
    let material = kernel.read_device(&node, 0, len);
    mapper.remove(name)?;
    let material = material?;
    match material.len() < len {
        true => Err(Errno(libc::EIO)),
        false => Ok(material),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the bytes are a header of either version; see [`super::hostile`].
pub(super) fn fuzz(bytes: &[u8]) -> bool {
    let headers = [1, 2].map(|version| {
        let mut bytes = bytes.to_vec();
        if let Some(field) = bytes.get_mut(6..8) {
            field.copy_from_slice(&[0, version]);
        }
        Header::parse(&bytes)
    });
    let is_placed = |header: Header| {
        let key = vec![0; 64];
        let data = header.data;
        let opened = Opened { key, data };
        opened.target(Path::new("/dev/vda"), 1 << 20).is_some()
    };
    headers.into_iter().flatten().any(is_placed)
}
