//! LUKS 1 and 2: the header is read here, the cipher is the kernel's (dm-crypt),
//! for the key material in the header as well as for the data.
//!
//! ```text
//! v1.rs v2.rs  the two headers
//! open.rs      the volume with its data, which may lie elsewhere
//! derive.rs    passphrase to key, and the anti-forensic splitter
//! ```

mod derive;
mod open;
mod v1;
mod v2;

use super::mapper::{Mapper, Target};
use crate::error::Errno;
use crate::kernel::Kernel;
use crate::sys::SysResult;
use derive::{merge, Hash, Kdf};
use std::path::Path;

/// Longest header that is read, in bytes; cryptsetup allows 4 MiB.
const LONGEST: u64 = 4 << 20;

/// A slot that holds the volume's key, wrapped.
struct Slot {
    kdf: Kdf,
    /// Of the key that unwraps.
    key_len: usize,
    volume_key_len: usize,
    /// As dm-crypt writes it: "aes-xts-plain64".
    cipher: String,
    /// Where the material is, in bytes.
    at: u64,
    stripes: usize,
    hash: Hash,
}

/// How a key is recognised as the volume's.
struct Check {
    kdf: Kdf,
    digest: Vec<u8>,
}

/// Where the data is and how it is encrypted.
struct Data {
    /// In sectors of 512 bytes.
    start: u64,
    /// None: to the end of the device.
    len: Option<u64>,
    cipher: String,
    /// Added to the number of a sector.
    tweak: u64,
    /// In bytes.
    sector: u32,
}

struct Header {
    slots: Vec<(Slot, usize)>,
    checks: Vec<Check>,
    data: Data,
}

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
    let header = match bytes.get(6..8) {
        Some([0, 1]) => v1::parse(&bytes),
        Some([0, 2]) => v2::parse(&bytes),
        _ => Err("has a LUKS header of an unknown version".into()),
    };
    let header = match header {
        Ok(header) => header,
        Err(why) => return Ok(Unlocked::Never(why)),
    };
    for secret in secrets {
        for (slot, check) in &header.slots {
            let Some(check) = header.checks.get(*check) else {
                continue;
            };
            let Some(key) = open_slot(kernel, mapper, device, name, slot, secret)? else {
                continue;
            };
            let Some(digest) = check.kdf.derive(&key, check.digest.len()) else {
                continue;
            };
            if digest != check.digest {
                continue;
            }
            let data = header.data;
            return Ok(Unlocked::Yes(Opened { key, data }));
        }
    }
    Ok(Unlocked::WrongSecret)
}

/// The key in a slot as this secret unwraps it; the right one or any other.
fn open_slot(
    kernel: &Kernel,
    mapper: &Mapper,
    device: &Path,
    name: &str,
    slot: &Slot,
    secret: &[u8],
) -> SysResult<Option<Vec<u8>>> {
    let Some(key) = slot.kdf.derive(secret, slot.key_len) else {
        return Ok(None);
    };
    let Some(len) = slot.volume_key_len.checked_mul(slot.stripes) else {
        return Ok(None);
    };
    let sectors = len.div_ceil(512) as u64;
    let target = Target {
        start: 0,
        len: sectors,
        kind: "crypt",
        parameters: format!(
            "{} {} 0 {} {}",
            slot.cipher,
            hex(&key),
            device.display(),
            slot.at / 512
        ),
    };
    let node = mapper.create(name, &[target], true)?;
    let material = kernel.read_device(&node, 0, len);
    mapper.remove(name)?;
    let material = material?;
    if material.len() < len {
        return Err(Errno(libc::EIO));
    }
    Ok(merge(&material, slot.volume_key_len, slot.hash))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text that ends with the field or at a NUL.
fn text(field: &[u8]) -> Result<String, String> {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    let text = std::str::from_utf8(&field[..end]).ok();
    // It becomes part of a line of words for the kernel.
    let text = text.filter(|t| t.bytes().all(|b| b.is_ascii_graphic()));
    text.map(str::to_owned)
        .ok_or_else(|| "its header is damaged".into())
}

/// Whether the bytes are a header of either version; see [`super::hostile`].
pub(super) fn fuzz(bytes: &[u8]) -> bool {
    let headers = [v1::parse(bytes), v2::parse(bytes)];
    let is_placed = |header: Header| {
        let key = vec![0; 64];
        let data = header.data;
        let opened = Opened { key, data };
        opened.target(Path::new("/dev/vda"), 1 << 20).is_some()
    };
    headers.into_iter().flatten().any(is_placed)
}
