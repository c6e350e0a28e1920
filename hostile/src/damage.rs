//! What is done to a sound image, as a seed says.

use crate::checksums::Fixup;
use crate::random::Random;
use crate::sparse::{Sparse, BLOCK};

const SECTOR: u64 = 512;
/// How many sectors of metadata count as the file system's head.
const HEAD: usize = 6;

/// A sound image, and where it keeps what is not content of files.
#[derive(Debug)]
pub struct Base {
    /// As it is before any damage.
    pub image: Sparse,
    /// Offsets of sectors.
    metadata: Vec<u64>,
}

impl Base {
    /// Sectors of files begin with `magic`, if it is known what is in them; what is neither
    /// zero nor that is the file system's own: no knowledge of any layout is needed.
    pub fn new(image: Sparse, magic: &[u8]) -> Base {
        let sectors = image.used().flat_map(|block| {
            let first = block * (BLOCK / SECTOR);
            (first..first + BLOCK / SECTOR).map(|n| n * SECTOR)
        });
        let metadata = sectors.filter(|&at| {
            let sector: [u8; SECTOR as usize] = image.bytes(at);
            sector.iter().any(|&byte| byte != 0) && (magic.is_empty() || !sector.starts_with(magic))
        });
        let metadata = metadata.collect();
        Base { image, metadata }
    }

    /// A damaged copy, and what was done, for who reads of it. All checksums are looked at.
    pub fn damaged(&self, fixup: Option<Fixup>, random: &mut Random) -> (Sparse, String) {
        let right = |fixup: Fixup, image: &mut Sparse| fixup(image, &self.metadata);
        self.change(self.image.clone(), fixup, right, random)
    }

    /// More damage to a copy. Checksums are looked at where something was changed.
    pub fn damage(&self, image: Sparse, fixup: Option<Fixup>, random: &mut Random) -> Sparse {
        let before = image.clone();
        let right = |fixup: Fixup, image: &mut Sparse| {
            let blocks = image.differing(&before);
            let sectors = blocks
                .iter()
                .flat_map(|(n, _)| (n * BLOCK..(n + 1) * BLOCK).step_by(SECTOR as usize));
            let sectors: Vec<u64> = sectors.collect();
            fixup(image, &sectors);
        };
        self.change(image, fixup, right, random).0
    }

    fn change(
        &self,
        mut image: Sparse,
        fixup: Option<Fixup>,
        right: impl Fn(Fixup, &mut Sparse),
        random: &mut Random,
    ) -> (Sparse, String) {
        if self.metadata.is_empty() {
            return (image, String::from("nothing there to damage"));
        }
        let what = match random.below(16) {
            0 => {
                let len = match random.below(3) {
                    0 => random.below(64 << 10),
                    1 => random.below(image.len().max(1)),
                    _ => image.len() - random.below((image.len() / 8).max(1)),
                };
                image.truncate(len);
                return (image, format!("truncated to {len}"));
            }
            1 => self.zero_blocks(&mut image, random),
            2 | 3 => self.swap_blocks(&mut image, random),
            4..=6 => self.fields(
                &mut image,
                &self.metadata[..HEAD.min(self.metadata.len())],
                random,
            ),
            _ => self.fields(&mut image, &self.metadata, random),
        };
        // What checksums guard is reached only where they are right again.
        match fixup {
            Some(fixup) if random.below(4) != 0 => {
                right(fixup, &mut image);
                (image, format!("{what}, checksums made right"))
            }
            _ => (image, what),
        }
    }

    /// Where sectors of metadata are.
    pub fn metadata(&self) -> &[u64] {
        &self.metadata
    }

    fn any(&self, random: &mut Random) -> u64 {
        self.metadata[random.below(self.metadata.len() as u64) as usize]
    }

    fn zero_blocks(&self, image: &mut Sparse, random: &mut Random) -> String {
        let size = SECTOR << random.below(4);
        let count = 1 + random.below(8);
        for _ in 0..count {
            let at = self.any(random);
            image.write(at - at % size, &vec![0; size as usize]);
        }
        format!("{count} times {size} bytes zeroed")
    }

    fn swap_blocks(&self, image: &mut Sparse, random: &mut Random) -> String {
        let size = SECTOR << random.below(4);
        let count = 1 + random.below(4);
        for _ in 0..count {
            let [a, b] = [(); 2].map(|()| self.any(random));
            let [a, b] = [a - a % size, b - b % size];
            let [at_a, at_b] = [a, b].map(|at| image.vec(at, size));
            image.write(a, &at_b);
            if random.below(2) == 0 {
                image.write(b, &at_a);
            }
        }
        format!("{count} times {size} bytes in another's place")
    }

    fn fields(&self, image: &mut Sparse, sectors: &[u64], random: &mut Random) -> String {
        let count = 1 + random.below(8);
        let mut places = Vec::new();
        for _ in 0..count {
            let sector = sectors[random.below(sectors.len() as u64) as usize];
            let at = sector + field(image, sector, random);
            places.push(format!("{at:#x}"));
            change(image, at, random);
        }
        format!("changed at {}", places.join(" "))
    }
}

/// Half the time where something is: most of a sector is often unused.
fn field(image: &Sparse, sector: u64, random: &mut Random) -> u64 {
    let bytes: [u8; SECTOR as usize] = image.bytes(sector);
    let at = random.below(SECTOR);
    let next = (at..SECTOR).find(|&i| bytes[i as usize] != 0);
    match next {
        Some(next) if random.below(2) == 0 => next,
        _ => at,
    }
}

fn change(image: &mut Sparse, at: u64, random: &mut Random) {
    let [old]: [u8; 1] = image.bytes(at);
    match random.below(8) {
        0 | 1 => image.write(at, &[old ^ (1 << random.below(8))]),
        2 => image.write(at, &[random.next() as u8]),
        3 | 4 => boundary(image, at, random),
        5 => {
            // A number that is almost right, in either byte order.
            let wide = at & !3;
            let bytes: [u8; 4] = image.bytes(wide);
            let by = [1, u32::MAX, 8, 0x1000][random.below(4) as usize];
            let new = if random.below(2) == 0 {
                u32::from_le_bytes(bytes).wrapping_add(by).to_le_bytes()
            } else {
                u32::from_be_bytes(bytes).wrapping_add(by).to_be_bytes()
            };
            image.write(wide, &new);
        }
        6 => {
            // One field in the place of another.
            let len = 4 << random.below(4);
            let from = (at & !(SECTOR - 1)) + (random.below(SECTOR) & !(len - 1));
            let bytes = image.vec(from, len);
            image.write(at & !(len - 1), &bytes);
        }
        _ => {
            let len = 1 + random.below(64);
            image.write(at, &vec![random.next() as u8; len as usize]);
        }
    }
}

/// Values at which code turns: ends of the ranges of 2, 4 and 8 bytes.
fn boundary(image: &mut Sparse, at: u64, random: &mut Random) {
    let value = match random.below(8) {
        0 => 0,
        1 => 1,
        2 => u64::MAX >> 1,
        3 => u64::MAX >> 33,
        4 => 1 << 31,
        5 => u64::MAX - 1,
        6 => 1 << random.below(64),
        _ => u64::MAX,
    };
    let len = 2 << random.below(3);
    let value = if random.below(4) == 0 {
        let bytes = value.to_be_bytes();
        bytes[8 - len as usize..].to_vec()
    } else {
        value.to_le_bytes()[..len as usize].to_vec()
    };
    image.write(at & !(len - 1), &value);
}
