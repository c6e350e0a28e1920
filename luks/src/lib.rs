//! LUKS 1 and 2: what their headers say, and how a secret becomes a volume's key. Ciphers
//! are the caller's: dm-crypt for volumes, `tane-images` for what is encrypted inside a
//! container.
//!
//! ```text
//! v1.rs v2.rs  the two headers
//! derive.rs    passphrase to key, and the anti-forensic splitter
//! ```
//!
//! Imports of ours: none.

mod derive;
mod v1;
mod v2;

use derive::{merge, Hash, Kdf};

/// Longest header that there is, in bytes: what cryptsetup allows.
pub const LONGEST: u64 = 4 << 20;

/// What a LUKS header of either version says.
pub struct Header {
    slots: Vec<(Slot, usize)>,
    checks: Vec<Check>,
    pub data: Data,
}

/// A slot that holds the volume's key, wrapped.
pub struct Slot {
    kdf: Kdf,
    /// Of the key that unwraps.
    key_len: usize,
    volume_key_len: usize,
    /// As dm-crypt writes it: "aes-xts-plain64".
    pub cipher: String,
    /// Where the material is, in bytes from the header's start.
    pub at: u64,
    stripes: usize,
    hash: Hash,
}

/// How a key is recognised as the volume's.
struct Check {
    kdf: Kdf,
    digest: Vec<u8>,
}

/// Where the data is and how it is encrypted.
pub struct Data {
    /// In sectors of 512 bytes.
    pub start: u64,
    /// None: to the end of the device.
    pub len: Option<u64>,
    /// As dm-crypt writes it: "aes-xts-plain64".
    pub cipher: String,
    /// Added to the number of a sector.
    pub tweak: u64,
    /// In bytes.
    pub sector: u32,
}

impl Header {
    /// The header that these bytes start with; its mark is not looked at. Errors: what is
    /// wrong with it, for a message that begins with the volume's name.
    pub fn parse(bytes: &[u8]) -> Result<Header, String> {
        match bytes.get(6..8) {
            Some([0, 1]) => v1::parse(bytes),
            Some([0, 2]) => v2::parse(bytes),
            _ => Err("has a LUKS header of an unknown version".into()),
        }
    }

    /// The most rounds of hashing that any key takes: a number that anybody may have
    /// written there.
    pub fn rounds(&self) -> u32 {
        let slots = self.slots.iter().map(|(slot, _)| &slot.kdf);
        let all = slots.chain(self.checks.iter().map(|check| &check.kdf));
        all.map(Kdf::rounds).max().unwrap_or(0)
    }

    /// The volume's key, if one of the secrets is that of a slot. `material` decrypts what
    /// is in a slot, by this key and from sector 0 on: so many bytes; none if it cannot
    /// be. Its error ends the search.
    pub fn unlock<E>(
        &self,
        secrets: &[Vec<u8>],
        mut material: impl FnMut(&Slot, &[u8], usize) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Vec<u8>>, E> {
        for secret in secrets {
            for (slot, check) in &self.slots {
                let Some(check) = self.checks.get(*check) else {
                    continue;
                };
                let Some(key) = slot.open(secret, &mut material)? else {
                    continue;
                };
                if check.fits(&key) {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }
}

impl Slot {
    /// The key in it as this secret unwraps it; the right one or any other.
    fn open<E>(
        &self,
        secret: &[u8],
        material: &mut impl FnMut(&Slot, &[u8], usize) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Vec<u8>>, E> {
        let Some(key) = self.kdf.derive(secret, self.key_len) else {
            return Ok(None);
        };
        let Some(len) = self.volume_key_len.checked_mul(self.stripes) else {
            return Ok(None);
        };
        let split = material(self, &key, len)?;
        Ok(split.and_then(|split| merge(&split, self.volume_key_len, self.hash)))
    }
}

impl Check {
    fn fits(&self, key: &[u8]) -> bool {
        let digest = self.kdf.derive(key, self.digest.len());
        digest.is_some_and(|digest| digest == self.digest)
    }
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
