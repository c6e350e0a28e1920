//! BitLocker, of Windows 7 and later: the metadata is read here, the cipher is the
//! kernel's (dm-crypt). The format is as libbde's documentation and cryptsetup have
//! found it; Microsoft describes none of it.
//!
//! ```text
//! header.rs     the boot sector: where the metadata is
//! metadata.rs   one copy of it
//! datum.rs      what it consists of
//! protector.rs  what opens the volume
//! secret.rs     from what somebody knows or has to a key
//! seal.rs       keys wrapped in others
//! layout.rs     where the content is on the device
//! open.rs       the volume
//! ```

mod datum;
mod header;
mod layout;
mod metadata;
mod open;
mod protector;
mod seal;
mod secret;

use super::mapper::Target;
use header::Header;
use metadata::Metadata;
pub use protector::{Protector, ProtectorKind};
use std::path::Path;

/// How the content is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cipher {
    /// As dm-crypt writes it.
    name: &'static str,
    /// Of AES, in bytes.
    key: usize,
}

impl Cipher {
    fn numbered(number: u16) -> Result<Self, String> {
        let (name, key) = match number {
            0x8000 => ("aes-cbc-elephant", 16),
            0x8001 => ("aes-cbc-elephant", 32),
            0x8002 => ("aes-cbc-eboiv", 16),
            0x8003 => ("aes-cbc-eboiv", 32),
            0x8004 => ("aes-xts-plain64", 16),
            0x8005 => ("aes-xts-plain64", 32),
            other => return Err(format!("uses the cipher {other:#x}, which is not known")),
        };
        Ok(Self { name, key })
    }

    /// dm-crypt's key of the volume's; None: it is too short.
    fn key(self, volume_key: &[u8]) -> Option<Vec<u8>> {
        let len = self.key;
        Some(match self.name {
            // One key for the cipher and one for the diffuser, each in 32 bytes.
            "aes-cbc-elephant" => [volume_key.get(..len)?, volume_key.get(32..32 + len)?].concat(),
            "aes-xts-plain64" => volume_key.get(..2 * len)?.to_vec(),
            _ => volume_key.get(..len)?.to_vec(),
        })
    }
}

/// The copies of the metadata that are sound, or why there is none.
fn read(
    header: &Header,
    read: impl Fn(u64, usize) -> Result<Vec<u8>, String>,
) -> Result<Vec<Metadata>, String> {
    let mut found = Vec::new();
    let mut first = None;
    for (copy, at) in header.metadata.into_iter().enumerate() {
        let copy = read(at, metadata::SIZE).and_then(|bytes| Metadata::parse(&bytes, copy, at));
        match copy {
            Ok(metadata) => found.push(metadata),
            Err(why) => first = first.or(Some(why)),
        }
    }
    match first {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

/// What came of trying to unlock.
enum Unlocked {
    /// The volume's key.
    Yes(Vec<u8>),
    WrongSecret,
    /// The metadata is not what its keys say it is.
    Forged,
}

/// Try what needs no secret, then the secrets.
fn unlock(metadata: &Metadata, secrets: &[Vec<u8>]) -> Unlocked {
    let protectors = &metadata.protectors;
    let given = secrets
        .iter()
        .flat_map(|secret| protectors.iter().map(move |p| p.master_key(secret)));
    let clear = protectors.iter().map(|p| p.clear_master_key());
    let Some(master) = clear.chain(given).flatten().next() else {
        return Unlocked::WrongSecret;
    };
    if !metadata.is_vouched_by(&master) {
        return Unlocked::Forged;
    }
    match metadata.volume_key.key(&master) {
        Some(sealed) => Unlocked::Yes(sealed.bytes),
        None => Unlocked::Forged,
    }
}

/// The content on this device, decrypted, of a volume with these metadata.
fn targets(
    header: &Header,
    metadata: &Metadata,
    key: &[u8],
    device: &Path,
) -> Result<Vec<Target>, String> {
    let key = metadata
        .cipher
        .key(key)
        .ok_or("has a key that is too short")?;
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let sector = match header.sector {
        512 => String::new(),
        size => format!(" 2 sector_size:{size} iv_large_sectors"),
    };
    let pieces = layout::pieces(metadata, header.sector).ok_or("its metadata is damaged")?;
    let target = |piece: layout::Piece| {
        let (kind, parameters) = match piece.from {
            None => ("zero", String::new()),
            Some(from) => (
                "crypt",
                format!(
                    "{} {key} {from} {} {from}{sector}",
                    metadata.cipher.name,
                    device.display()
                ),
            ),
        };
        Target {
            start: piece.start,
            len: piece.len,
            kind,
            parameters,
        }
    };
    Ok(pieces.into_iter().map(target).collect())
}

/// Whether the bytes begin with a boot sector and have metadata where it says; see
/// [`super::hostile`].
pub(super) fn fuzz(bytes: &[u8]) -> bool {
    let Ok(header) = Header::parse(bytes) else {
        return false;
    };
    let part = |at: u64, len: usize| {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
        let rest = rest.unwrap_or_default();
        Ok(rest[..rest.len().min(len)].to_vec())
    };
    let Ok(found) = read(&header, part) else {
        return false;
    };
    let is_placed = |metadata: &Metadata| {
        unlock(metadata, &[]);
        targets(&header, metadata, &[0; 64], Path::new("/dev/vda")).is_ok()
    };
    found.iter().any(is_placed)
}

#[cfg(test)]
mod tests;
