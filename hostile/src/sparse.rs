//! An image of which only the blocks that are not zero are kept, each shared by all copies
//! in which it is the same: a copy to damage costs what is damaged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// What is kept or not, as a whole.
pub const BLOCK: u64 = 4096;
/// The content of a block.
pub type Block = [u8; BLOCK as usize];
const ZEROS: Block = [0; BLOCK as usize];

/// An image in memory.
#[derive(Clone, Debug)]
pub struct Sparse {
    len: u64,
    blocks: BTreeMap<u64, Arc<Block>>,
}

impl Sparse {
    /// So many zeroes.
    pub fn empty(len: u64) -> Sparse {
        Sparse {
            len,
            blocks: BTreeMap::new(),
        }
    }

    /// What a file holds.
    pub fn load(path: &Path) -> io::Result<Sparse> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut blocks = BTreeMap::new();
        let mut at = 0;
        // SAFETY: lseek takes any numbers; ENXIO ends the file.
        let seek = |from: u64| unsafe {
            libc::lseek(file.as_raw_fd(), from as libc::off_t, libc::SEEK_DATA)
        };
        while let Ok(data) = u64::try_from(seek(at)) {
            at = data - data % BLOCK;
            let mut block = ZEROS;
            let size = (len - at).min(BLOCK) as usize;
            file.read_exact_at(&mut block[..size], at)?;
            if block != ZEROS {
                blocks.insert(at / BLOCK, Arc::new(block));
            }
            at += BLOCK;
        }
        Ok(Sparse { len, blocks })
    }

    /// As a file, with holes.
    pub fn store(&self, file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.set_len(self.len)?;
        for (number, block) in &self.blocks {
            let at = number * BLOCK;
            let size = (self.len - at).min(BLOCK) as usize;
            file.write_all_at(&block[..size], at)?;
        }
        Ok(())
    }

    /// Its size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Numbers of the blocks that are not zero.
    pub fn used(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.keys().copied()
    }

    /// Nothing is kept from here on.
    pub fn truncate(&mut self, len: u64) {
        self.len = self.len.min(len);
        let len = self.len;
        self.blocks.retain(|number, _| number * BLOCK < len);
    }

    /// Zeroes beyond the end.
    pub fn read(&self, mut at: u64, to: &mut [u8]) {
        let mut rest = to;
        while !rest.is_empty() {
            let within = (at % BLOCK) as usize;
            let n = rest.len().min(BLOCK as usize - within);
            let (part, more) = rest.split_at_mut(n);
            match self.blocks.get(&(at / BLOCK)) {
                Some(block) => part.copy_from_slice(&block[within..within + n]),
                None => part.fill(0),
            }
            rest = more;
            at += n as u64;
        }
    }

    /// Beyond the end nothing is kept.
    pub fn write(&mut self, mut at: u64, from: &[u8]) {
        let mut rest = from;
        while !rest.is_empty() && at < self.len {
            let within = (at % BLOCK) as usize;
            let n = rest.len().min(BLOCK as usize - within);
            let (part, more) = rest.split_at(n);
            let block = self.blocks.entry(at / BLOCK);
            let block = Arc::make_mut(block.or_insert_with(|| Arc::new(ZEROS)));
            block[within..within + n].copy_from_slice(part);
            rest = more;
            at += n as u64;
        }
    }

    /// As [`Self::read`].
    pub fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.read(at, &mut bytes);
        bytes
    }

    /// As [`Self::read`].
    pub fn vec(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        bytes
    }

    /// The blocks that are not what they are in another image, with what they hold here.
    pub fn differing<'a>(&'a self, base: &'a Sparse) -> Vec<(u64, &'a Block)> {
        let gone = base
            .blocks
            .keys()
            .filter(|at| !self.blocks.contains_key(at));
        let mut all: Vec<_> = gone.map(|at| (*at, &ZEROS)).collect();
        let here = self.blocks.iter().filter(|(at, block)| {
            let other = base.blocks.get(at);
            let same = |other: &Arc<Block>| Arc::ptr_eq(other, block) || other == *block;
            !other.map_or(***block == ZEROS, same)
        });
        all.extend(here.map(|(at, block)| (*at, &**block)));
        all.sort_unstable_by_key(|(at, _)| *at);
        all
    }
}
