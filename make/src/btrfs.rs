//! The identities and times in a btrfs that mkfs.btrfs has just made: it draws the
//! former and asks the clock for the latter.
//!
//! Whatever has the file system's UUID where a tree block has it, and the right
//! checksum, is one, in use or not: mkfs leaves old ones behind. Fields as in
//! include/uapi/linux/btrfs_tree.h; all are little-endian.

use super::file::next_data;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

type Uuid = [u8; 16];

const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
const SUPERBLOCK: usize = 4096;
const MAGIC: usize = 64;
const SECTOR_SIZE: usize = 144;
const NODE_SIZE: usize = 148;
const SYS_CHUNKS_SIZE: usize = 160;
const CHECKSUM_TYPE: usize = 196;
const DEVICE_UUID: usize = 201 + 66;
const METADATA_UUID: usize = 571;
const SYS_CHUNKS: std::ops::Range<usize> = 811..2859;

const CHECKSUM: usize = 32;
const FSID: usize = 32;
const TREE_UUID: usize = 64;
const COUNT: usize = 96;
const LEVEL: usize = 100;
const ITEMS: usize = 101;
const KEY: usize = 17;
const CHUNK: usize = 48;
const STRIPE: usize = 32;

/// Gives a new file system that fills the file this time, in seconds, and UUIDs
/// that `identity` makes of names, always the same one of the same.
pub fn set_identity(file: &File, time: u64, identity: impl Fn(&str) -> Uuid) -> io::Result<()> {
    let mut first = [0; SUPERBLOCK];
    file.read_exact_at(&mut first, SUPERBLOCKS[0])?;
    if &first[MAGIC..MAGIC + 8] != b"_BHRfS_M" {
        return Err(io::Error::other("has no btrfs superblock"));
    }
    if first[CHECKSUM_TYPE..CHECKSUM_TYPE + 2] != [0, 0] {
        return Err(io::Error::other("its checksums are no CRC-32C"));
    }
    let (sector, node) = (u32_at(&first, SECTOR_SIZE), u32_at(&first, NODE_SIZE));
    if !(512..=65536).contains(&sector) || !(4096..=65536).contains(&node) {
        return Err(io::Error::other("its superblock makes no sense"));
    }
    let fsid = first[METADATA_UUID..METADATA_UUID + 16].to_vec();
    let fsid = match fsid.iter().all(|b| *b == 0) {
        true => first[FSID..FSID + 16].to_vec(),
        false => fsid,
    };
    let blocks = tree_blocks(file, &fsid, sector as u64, node)?;
    let mut change = Change {
        time,
        new: HashMap::new(),
    };
    let device: Uuid = array(&first, DEVICE_UUID);
    change.new.insert(device, identity("device"));
    for (_, block) in &blocks {
        let tree: Uuid = array(block, TREE_UUID);
        change.new.entry(tree).or_insert_with(|| identity("chunks"));
        for (key, data) in items(block) {
            let key = &block[key];
            let is_root = key[8] == 132 && data.len() >= 263;
            if is_root && data[247..263].iter().any(|b| *b != 0) {
                let name = format!("tree {}", u64::from_le_bytes(array(key, 0)));
                change.new.insert(array(data, 247), identity(&name));
            }
        }
    }
    for (at, mut block) in blocks {
        change.block(&mut block);
        file.write_all_at(&block, at)?;
    }
    for at in SUPERBLOCKS {
        let mut block = [0; SUPERBLOCK];
        if file.metadata()?.len() < at + SUPERBLOCK as u64 {
            continue;
        }
        file.read_exact_at(&mut block, at)?;
        if block[MAGIC..MAGIC + 8] == first[MAGIC..MAGIC + 8] {
            change.superblock(&mut block);
            file.write_all_at(&block, at)?;
        }
    }
    Ok(())
}

/// All tree blocks of a file system that has little in it: where they are, and
/// their bytes.
fn tree_blocks(
    file: &File,
    fsid: &[u8],
    sector: u64,
    node: usize,
) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut blocks = Vec::new();
    let mut block = vec![0; node];
    let end = file.metadata()?.len();
    let mut at = 0;
    while at + node as u64 <= end {
        let data = next_data(file, at)?.unwrap_or(end) / sector * sector;
        if data > at {
            at = data;
            continue;
        }
        file.read_exact_at(&mut block, at)?;
        let sum = crc32c::crc32c(&block[CHECKSUM..]).to_le_bytes();
        if &block[FSID..FSID + 16] == fsid && block[..4] == sum {
            blocks.push((at, block.clone()));
            at += node as u64;
        } else {
            at += sector;
        }
    }
    Ok(blocks)
}

/// A leaf's keys, as ranges of the block, and what belongs to them.
fn items(block: &[u8]) -> impl Iterator<Item = (std::ops::Range<usize>, &[u8])> {
    let ranges = ranges(block).into_iter();
    ranges.map(|(key, data)| (key, &block[data]))
}

type Range = std::ops::Range<usize>;

fn ranges(block: &[u8]) -> Vec<(Range, Range)> {
    const ITEM: usize = KEY + 8;
    let count = match block[LEVEL] {
        0 => u32_at(block, COUNT).min((block.len() - ITEMS) / ITEM),
        _ => 0,
    };
    let item = |n: usize| {
        let at = ITEMS + n * ITEM;
        let start = ITEMS + u32_at(block, at + KEY);
        let end = start + u32_at(block, at + KEY + 4);
        (end <= block.len()).then_some((at..at + KEY, start..end))
    };
    (0..count).filter_map(item).collect()
}

struct Change {
    time: u64,
    /// New UUIDs by old ones.
    new: HashMap<Uuid, Uuid>,
}

impl Change {
    fn uuid(&self, of: &mut [u8], at: usize) {
        if let Some(new) = of.get(at..at + 16).and_then(|old| self.new.get(old)) {
            of[at..at + 16].copy_from_slice(new);
        }
    }

    /// Of `count` times one after the other, those that are set.
    fn times(&self, of: &mut [u8], at: usize, count: usize) {
        let times = of.get_mut(at..at + 12 * count).unwrap_or_default();
        for time in times.chunks_exact_mut(12) {
            if time[..8] != [0; 8] {
                time[..8].copy_from_slice(&self.time.to_le_bytes());
                time[8..].fill(0);
            }
        }
    }

    fn stripes(&self, chunk: &mut [u8]) {
        let stripes = chunk.get_mut(CHUNK..).unwrap_or_default();
        for stripe in stripes.chunks_exact_mut(STRIPE) {
            self.uuid(stripe, 16);
        }
    }

    fn block(&self, block: &mut [u8]) {
        self.uuid(block, TREE_UUID);
        let all = ranges(block);
        for (key, data) in &all {
            let (kind, data) = (block[key.start + 8], data.clone());
            match kind {
                1 => self.times(&mut block[data], 112, 4),
                132 => {
                    self.times(&mut block[data.clone()], 112, 4);
                    self.times(&mut block[data.clone()], 327, 4);
                    self.uuid(&mut block[data], 247);
                }
                204 => self.uuid(&mut block[data], 32),
                216 => self.uuid(&mut block[data], 66),
                228 => self.stripes(&mut block[data]),
                // The UUID is the key.
                251 | 252 => {
                    let mut uuid: Uuid = array(block, key.start);
                    uuid[8..].copy_from_slice(&block[key.start + 9..key.end]);
                    if let Some(new) = self.new.get(&uuid) {
                        block[key.start..key.start + 8].copy_from_slice(&new[..8]);
                        block[key.start + 9..key.end].copy_from_slice(&new[8..]);
                    }
                }
                _ => {}
            }
        }
        // Between keys and data is what was there before.
        if let (Some((key, _)), Some(data)) =
            (all.last(), all.iter().map(|(_, data)| data.start).min())
        {
            block[(key.end + 8).min(data)..data].fill(0);
        }
        checksum(block);
    }

    fn superblock(&self, block: &mut [u8]) {
        let len = u32_at(block, SYS_CHUNKS_SIZE);
        self.uuid(block, DEVICE_UUID);
        let chunks = &mut block[SYS_CHUNKS];
        let (mut rest, unused) = chunks.split_at_mut(len.min(chunks.len()));
        unused.fill(0);
        while rest.len() >= KEY + CHUNK {
            let stripes = usize::from(u16::from_le_bytes(array(rest, KEY + 44)));
            let len = (KEY + CHUNK + stripes * STRIPE).min(rest.len());
            let (chunk, others) = rest.split_at_mut(len);
            self.stripes(&mut chunk[KEY..]);
            rest = others;
        }
        checksum(block);
    }
}

fn checksum(block: &mut [u8]) {
    let sum = crc32c::crc32c(&block[CHECKSUM..]).to_le_bytes();
    block[..4].copy_from_slice(&sum);
}

fn u32_at(of: &[u8], at: usize) -> usize {
    u32::from_le_bytes(array(of, at)) as usize
}

fn array<const N: usize>(of: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| of[at + i])
}
