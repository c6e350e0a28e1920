//! An image of which only the blocks that are not zero are kept, so that a copy
//! to damage costs what is in it and not its size.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const BLOCK: u64 = 4096;
const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

#[derive(Clone)]
pub struct Sparse {
    len: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK as usize]>>,
}

impl Sparse {
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
            let mut block = Box::new(ZEROS);
            let size = (len - at).min(BLOCK) as usize;
            file.read_exact_at(&mut block[..size], at)?;
            if *block != ZEROS {
                blocks.insert(at / BLOCK, block);
            }
            at += BLOCK;
        }
        Ok(Sparse { len, blocks })
    }

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

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Numbers of the blocks that are not zero.
    pub fn used(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.keys().copied()
    }

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
            block.or_insert_with(|| Box::new(ZEROS))[within..within + n].copy_from_slice(part);
            rest = more;
            at += n as u64;
        }
    }

    pub fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.read(at, &mut bytes);
        bytes
    }

    pub fn vec(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        bytes
    }
}
