//! One of the three copies of a volume's metadata: the block, and behind it a checksum
//! of it and a digest that only who has the keys can make.

use super::datum::{self, data, half, long, word, Datum, SEALED};
use super::protector::Sealing;
use super::seal::Sealed;
use super::Cipher;
use crate::table::guid;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// The room that a copy has, in bytes.
pub(super) const SIZE: usize = 64 << 10;
/// Before the data in it.
/// More protectors are not tried: each may take a second.
const MOST: usize = 32;
const HEAD: usize = 112;

/// What data of the metadata is for.
const MASTER_KEY: u16 = 2;
const VOLUME_KEY: u16 = 3;
const DESCRIPTION: u16 = 7;
const MOVED: u16 = 15;

/// Of an encrypted volume that stays so.
const ENCRYPTED: u16 = 4;
/// Of a digest of 32 bytes.
const SHA_256: u16 = 0x2005;

pub(super) struct Metadata {
    pub id: Option<String>,
    /// The computer, the volume and the date, mostly.
    pub description: Option<String>,
    pub cipher: Cipher,
    is_encrypted: bool,
    /// In bytes.
    pub size: u64,
    /// Where the copies are, in bytes.
    pub copies: [u64; 3],
    /// Where the first bytes of the content are, because metadata has their place.
    pub moved: Range<u64>,
    pub protectors: Vec<Sealing>,
    pub volume_key: Sealed,
    digest: [u8; 32],
    vouched: Sealed,
}

impl Metadata {
    /// `copy` is the number of the one at `at`.
    pub fn parse(bytes: &[u8], copy: usize, at: u64) -> Result<Self, String> {
        let damaged = || String::from("all copies of its metadata are damaged");
        let block = block(bytes).ok_or_else(damaged)?;
        let cipher = Cipher::numbered(half(block, 100).ok_or_else(damaged)?)?;
        let find = || Self::of_block(bytes, block, cipher);
        let found = find().ok_or_else(damaged)?;
        match found.copies.get(copy) {
            Some(place) if *place == at => Ok(found),
            _ => Err(damaged()),
        }
    }

    fn of_block(bytes: &[u8], block: &[u8], cipher: Cipher) -> Option<Self> {
        let end = 64usize.checked_add(word(block, 64)? as usize)?;
        let entries = data(block.get(HEAD..end)?)?;
        let of = |role: u16| entries.iter().filter(move |datum| datum.role == role);
        let moved = of(MOVED).next()?.bytes;
        let (from, len) = (long(moved, 0)?, long(moved, 8)?);
        let description = of(DESCRIPTION).next().map(|datum| datum::text(datum.bytes));
        let place = |copy: usize| long(block, 32 + 8 * copy);
        Some(Self {
            id: guid(block.get(80..96)?),
            description: description.filter(|text| !text.is_empty()),
            cipher,
            is_encrypted: half(block, 12)? == ENCRYPTED && half(block, 14)? == ENCRYPTED,
            size: long(block, 16)?,
            copies: [place(0)?, place(1)?, place(2)?],
            moved: from..from.checked_add(len)?,
            protectors: of(MASTER_KEY)
                .take(MOST)
                .map(|datum| Sealing::parse(datum.bytes))
                .collect::<Option<_>>()?,
            volume_key: of(VOLUME_KEY).find_map(sealed)?,
            digest: Sha256::digest(block).into(),
            vouched: sealed(&datum::first(bytes.get(block.len() + 8..)?)?)?,
        })
    }

    /// Whether all of the content is encrypted, and stays so.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Whether who has the master key made this block as it is.
    pub fn is_vouched_by(&self, master: &[u8; 32]) -> bool {
        let vouched = self.vouched.key(master);
        vouched.is_some_and(|digest| digest.method == SHA_256 && digest.bytes == self.digest)
    }
}

/// The block itself, if its checksum is right.
fn block(bytes: &[u8]) -> Option<&[u8]> {
    let is_one = bytes.starts_with(b"-FVE-FS-") && half(bytes, 10)? == 2;
    let len = usize::from(half(bytes, 8)?) * 16;
    let block = bytes.get(..len).filter(|_| is_one && len >= HEAD)?;
    let sum = word(bytes, len + 4)?;
    (crc32fast::hash(block) == sum).then_some(block)
}

fn sealed(datum: &Datum) -> Option<Sealed> {
    Sealed::parse(datum.bytes).filter(|_| datum.kind == SEALED)
}
