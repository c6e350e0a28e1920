//! An empty HFS Plus volume, since Debian has no mkfs for it: Apple's Technical
//! Note TN1150. 7-Zip, GRUB and Linux read it.

const BLOCK: usize = 4096;
const ROOT: u32 = 2;
const NAME: &str = "tane";
/// Seconds from 1904 to a day in 2020.
const DATE: u32 = 3_660_000_000;

/// Allocation blocks of the special files: where, and how many.
const BITMAP: (u32, u32) = (1, 1);
const EXTENTS: (u32, u32) = (2, 8);
const CATALOG: (u32, u32) = (10, 64);

/// Big-endian fields, one after the other.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    fn name(&mut self, name: &str) -> &mut Self {
        self.u16(name.len() as u16);
        name.encode_utf16().fold(self, |out, unit| out.u16(unit))
    }

    fn fork(&mut self, (start, count): (u32, u32)) -> &mut Self {
        let size = u64::from(count) * BLOCK as u64;
        self.u64(size).u32(BLOCK as u32).u32(count);
        self.u32(start).u32(count).zeros(7 * 8)
    }
}

/// A node: descriptor, records, and their offsets from the end backwards.
fn node(kind: u8, height: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Out::default();
    out.zeros(8).u8(kind).u8(height);
    out.u16(records.len() as u16).u16(0);
    let mut offsets = Vec::new();
    for record in records {
        offsets.push(out.0.len() as u16);
        out.0.extend(record);
    }
    offsets.push(out.0.len() as u16);
    out.zeros(BLOCK - out.0.len());
    for (i, offset) in offsets.iter().enumerate() {
        let at = BLOCK - 2 * (i + 1);
        out.0[at..at + 2].copy_from_slice(&offset.to_be_bytes());
    }
    out.0
}

/// A tree's header node; without leaves if it has no records.
fn header(nodes: u32, leaves: u32, max_key: u16, attributes: u32) -> Vec<u8> {
    let used = 1 + leaves.min(1);
    let first = leaves.min(1);
    let mut record = Out::default();
    record.u16(first as u16).u32(first).u32(leaves);
    record.u32(first).u32(first).u16(BLOCK as u16).u16(max_key);
    record.u32(nodes).u32(nodes - used).u16(0).u32(BLOCK as u32);
    record.u8(0).u8(0).u32(attributes).zeros(64);
    let mut map = vec![0; BLOCK - 14 - 106 - 128 - 8];
    map[0] = if used == 2 { 0xc0 } else { 0x80 };
    node(1, 0, &[record.0, vec![0; 128], map])
}

fn catalog_leaf() -> Vec<u8> {
    let mut folder = Out::default();
    folder.u16(6 + 2 * NAME.len() as u16).u32(1).name(NAME);
    folder.u16(1).u16(0).u32(0).u32(ROOT);
    folder.u32(DATE).u32(DATE).u32(DATE).u32(DATE).u32(0);
    folder.u32(0).u32(0).u8(0).u8(0).u16(0o40755).u32(0);
    folder.zeros(32 + 8);
    let mut thread = Out::default();
    thread.u16(6).u32(ROOT).name("");
    thread.u16(3).u16(0).u32(1).name(NAME);
    let mut leaf = node(0xff, 1, &[folder.0, thread.0]);
    leaf[8] = 0xff; // a leaf is kind -1
    leaf
}

fn volume_header(blocks: u32, free: u32) -> Vec<u8> {
    let mut out = Out::default();
    out.u16(0x482b).u16(4).u32(0x100).u32(0x382e_3130).u32(0);
    out.u32(DATE).u32(DATE).u32(0).u32(DATE).u32(0).u32(0);
    out.u32(BLOCK as u32)
        .u32(blocks)
        .u32(free)
        .u32(CATALOG.0 + CATALOG.1);
    out.u32(65536).u32(65536).u32(16).u32(0).u64(1).zeros(32);
    out.fork(BITMAP).fork(EXTENTS).fork(CATALOG).zeros(160);
    assert_eq!(out.0.len(), 512);
    out.0
}

/// A volume of this many MiB, at most 128: its bitmap is one block.
pub fn make(mib: u64) -> Vec<u8> {
    let mut image = vec![0; (mib << 20) as usize];
    let blocks = (image.len() / BLOCK) as u32;
    let used = CATALOG.0 + CATALOG.1;
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let volume = volume_header(blocks, blocks - used - 1);
    put(1024, &volume);
    put(blocks as usize * BLOCK - 1024, &volume);
    let mut bitmap = vec![0u8; BLOCK];
    for block in (0..used).chain([blocks - 1]) {
        bitmap[block as usize / 8] |= 0x80 >> (block % 8);
    }
    put(BITMAP.0 as usize * BLOCK, &bitmap);
    put(EXTENTS.0 as usize * BLOCK, &header(EXTENTS.1, 0, 10, 2));
    put(CATALOG.0 as usize * BLOCK, &header(CATALOG.1, 2, 516, 6));
    put((CATALOG.0 as usize + 1) * BLOCK, &catalog_leaf());
    image
}
