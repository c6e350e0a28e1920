//! Where an ext2, 3 or 4 image keeps what; only as much as damaging it takes.

use std::ops::Range;

/// Byte ranges of an image, by what they hold.
#[derive(Default)]
pub struct Layout {
    pub superblock: Vec<Range<usize>>,
    pub descriptors: Vec<Range<usize>>,
    pub bitmaps: Vec<Range<usize>>,
    /// Inodes in use.
    pub inodes: Vec<Range<usize>>,
    pub directories: Vec<Range<usize>>,
    /// Extent tree nodes and indirect blocks outside the inode.
    pub trees: Vec<Range<usize>>,
    pub journal: Vec<Range<usize>>,
}

const JOURNAL: usize = 8;
const EXTENTS: u32 = 0x8_0000;

fn u16_at(image: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([image[at], image[at + 1]]))
}

fn u32_at(image: &[u8], at: usize) -> usize {
    u32::from_le_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]]) as usize
}

impl Layout {
    /// Of an image that is sound.
    pub fn of(image: &[u8]) -> Layout {
        let sb = 1024;
        let block = 1024 << u32_at(image, sb + 24);
        let (blocks, first) = (u32_at(image, sb + 4), u32_at(image, sb + 20));
        let per_group = u32_at(image, sb + 40);
        let inode_size = u16_at(image, sb + 88);
        let desc_size = u16_at(image, sb + 254).max(32);
        let groups = (blocks - first).div_ceil(u32_at(image, sb + 32));
        let range = |number: usize| number * block..(number + 1) * block;
        let mut layout = Layout::default();
        layout.superblock.push(sb..sb + 1024);
        for group in 0..groups {
            let at = (first + 1) * block + group * desc_size;
            layout.descriptors.push(at..at + desc_size);
            layout.bitmaps.push(range(u32_at(image, at)));
            layout.bitmaps.push(range(u32_at(image, at + 4)));
            let table = u32_at(image, at + 8) * block;
            for i in 0..per_group {
                let inode = table + i * inode_size;
                if u16_at(image, inode + 26) > 0 {
                    layout.inodes.push(inode..inode + inode_size);
                    layout.add_inode(image, inode, group * per_group + i + 1, block);
                }
            }
        }
        layout
    }

    fn add_inode(&mut self, image: &[u8], inode: usize, number: usize, block: usize) {
        let range = |number: usize| number * block..(number + 1) * block;
        let mut data = Vec::new();
        if u32_at(image, inode + 32) as u32 & EXTENTS != 0 {
            self.add_extents(image, inode + 40, block, &mut data);
        } else {
            let pointer = |i: usize| u32_at(image, inode + 40 + 4 * i);
            data.extend((0..12).map(pointer).filter(|&n| n != 0));
            let trees = (12..15).map(pointer).filter(|&n| n > 0);
            let trees = trees.filter(|&n| (n + 1) * block <= image.len());
            self.trees.extend(trees.map(range));
        }
        let is_directory = u16_at(image, inode) & 0xf000 == 0x4000;
        let data = data.into_iter().map(range);
        if number == JOURNAL {
            self.journal.extend(data);
        } else if is_directory {
            self.directories.extend(data);
        }
    }

    fn add_extents(&mut self, image: &[u8], node: usize, block: usize, data: &mut Vec<usize>) {
        let (entries, depth) = (u16_at(image, node + 2), u16_at(image, node + 6));
        for entry in (1..=entries).map(|i| node + 12 * i) {
            if depth > 0 {
                let child = u32_at(image, entry + 4);
                self.trees.push(child * block..(child + 1) * block);
                self.add_extents(image, child * block, block, data);
            } else {
                let (len, start) = (u16_at(image, entry + 4), u32_at(image, entry + 8));
                data.extend((start..start + len % 0x8000).filter(|&n| n > 0));
            }
        }
    }
}
