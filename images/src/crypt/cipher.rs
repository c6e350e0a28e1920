//! AES over sectors of 512 bytes, by the names and rules that dm-crypt has: XTS and CBC.
//! The blocks of a sector go to the processor together, as far as the mode lets them; the
//! crate that there is for XTS gives it one after the other.

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};
use sha2::{Digest, Sha256};

pub(crate) const SECTOR: usize = 512;
const BLOCKS: usize = SECTOR / 16;

/// AES with a key of any length.
trait Aes: Send + Sync {
    fn encrypt(&self, blocks: &mut [Block]);
    fn decrypt(&self, blocks: &mut [Block]);
}

impl<T> Aes for T
where
    T: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt<BlockSize = U16> + Send + Sync,
{
    fn encrypt(&self, blocks: &mut [Block]) {
        self.encrypt_blocks(blocks);
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.decrypt_blocks(blocks);
    }
}

/// None: AES has no keys of this length.
fn aes(key: &[u8]) -> Option<Box<dyn Aes>> {
    Some(match key.len() {
        16 => Box::new(Aes128::new_from_slice(key).ok()?),
        24 => Box::new(Aes192::new_from_slice(key).ok()?),
        32 => Box::new(Aes256::new_from_slice(key).ok()?),
        _ => return None,
    })
}

enum Mode {
    Cbc,
    /// With the key of the tweaks.
    Xts(Box<dyn Aes>),
}

/// How the number of a sector becomes the vector that its encryption starts from.
enum Vector {
    /// The lower 32 bits of it.
    Plain,
    Plain64,
    /// Encrypted by a hash of the key.
    Essiv(Box<dyn Aes>),
}

/// A cipher with its key. Any number of threads use it at once.
pub(crate) struct Cipher {
    data: Box<dyn Aes>,
    mode: Mode,
    vector: Vector,
}

impl Cipher {
    /// `name`: as dm-crypt has it, "aes-xts-plain64" or "aes-cbc-essiv:sha256". None: there
    /// is no such thing, or not here, or not with a key of this length.
    pub fn new(name: &str, key: &[u8]) -> Option<Self> {
        let (mode, vector) = name.strip_prefix("aes-")?.split_once('-')?;
        let (data, mode) = match mode {
            "cbc" => (key, Mode::Cbc),
            "xts" => {
                let (data, tweaks) = key.split_at(key.len() / 2);
                (data, Mode::Xts(aes(tweaks)?))
            }
            _ => return None,
        };
        let vector = match vector {
            "plain" => Vector::Plain,
            "plain64" => Vector::Plain64,
            "essiv:sha256" => Vector::Essiv(aes(&Sha256::digest(key))?),
            _ => return None,
        };
        Some(Self {
            data: aes(data)?,
            mode,
            vector,
        })
    }

    /// Whole sectors, the first of which has this number.
    pub fn decrypt(&self, sectors: &mut [u8], first: u64) {
        for (number, sector) in (first..).zip(sectors.chunks_exact_mut(SECTOR)) {
            let (blocks, _) = Block::slice_as_chunks_mut(sector);
            self.decrypt_sector(blocks, self.vector(number));
        }
    }

    fn decrypt_sector(&self, blocks: &mut [Block], vector: Block) {
        match &self.mode {
            Mode::Cbc => {
                let mut before = [vector; BLOCKS];
                before[1..].copy_from_slice(&blocks[..BLOCKS - 1]);
                self.data.decrypt(blocks);
                xor_all(blocks, &before);
            }
            Mode::Xts(tweaks) => {
                let tweaks = tweaks_of(&**tweaks, vector);
                xor_all(blocks, &tweaks);
                self.data.decrypt(blocks);
                xor_all(blocks, &tweaks);
            }
        }
    }

    fn vector(&self, number: u64) -> Block {
        let of = |number: u64| Block::from(u128::from(number).to_le_bytes());
        match &self.vector {
            Vector::Plain => of(number & 0xffff_ffff),
            Vector::Plain64 => of(number),
            Vector::Essiv(aes) => {
                let mut block = of(number);
                aes.encrypt(std::slice::from_mut(&mut block));
                block
            }
        }
    }
}

/// Of each block of a sector; IEEE 1619, 5.2: a multiplication by x each.
fn tweaks_of(aes: &dyn Aes, mut vector: Block) -> [Block; BLOCKS] {
    aes.encrypt(std::slice::from_mut(&mut vector));
    let mut tweak = u128::from_le_bytes(vector.into());
    std::array::from_fn(|_| {
        let this = Block::from(tweak.to_le_bytes());
        tweak = (tweak << 1) ^ ((tweak >> 127) * 0x87);
        this
    })
}

fn xor_all(blocks: &mut [Block], by: &[Block; BLOCKS]) {
    let number = |block: &Block| u128::from_ne_bytes((*block).into());
    for (block, by) in blocks.iter_mut().zip(by) {
        *block = Block::from((number(block) ^ number(by)).to_ne_bytes());
    }
}
