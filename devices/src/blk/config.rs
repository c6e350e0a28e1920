//! Features and configuration of the block device (virtio 1.2, 5.2.3, 5.2.4).

use super::device::BlockOptions;
use super::request::{MAX_RANGE, MAX_RANGES, SECTOR};
use tane_images::Backend;

/// Most entries of a queue.
pub const QUEUE_SIZE: u16 = 256;

const F_SEG_MAX: u64 = 1 << 2;
const F_GEOMETRY: u64 = 1 << 4;
const F_RO: u64 = 1 << 5;
const F_BLK_SIZE: u64 = 1 << 6;
pub const F_FLUSH: u64 = 1 << 9;
const F_TOPOLOGY: u64 = 1 << 10;
pub const F_CONFIG_WCE: u64 = 1 << 11;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;

/// Where the configuration holds the capacity: a u64, in sectors.
pub const CAPACITY: usize = 0;
/// Where it holds the driver's choice of write-back (1) or write-through (0).
pub const CONFIG_WCE: usize = 32;

/// The feature bits that are the device type's own.
pub fn features(read_only: bool) -> u64 {
    let all = F_SEG_MAX | F_GEOMETRY | F_BLK_SIZE | F_FLUSH | F_TOPOLOGY | F_CONFIG_WCE | F_MQ;
    match read_only {
        true => all | F_RO,
        false => all | F_DISCARD | F_WRITE_ZEROES,
    }
}

/// A last unit that the backend has only in part counts.
pub fn capacity(size: u64, options: &BlockOptions) -> [u8; 8] {
    let units = size.div_ceil(options.unit);
    units.saturating_mul(options.unit / SECTOR).to_le_bytes()
}

/// `struct virtio_blk_config`.
pub fn config(backend: &dyn Backend, options: &BlockOptions) -> [u8; 60] {
    let mut config = [0; 60];
    let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
    let (logical, physical) = block_sizes(backend, options.sector_size);
    put(CAPACITY, &capacity(backend.size(), options));
    // Without indirect descriptors, header and status take an entry each.
    put(12, &(u32::from(QUEUE_SIZE) - 2).to_le_bytes());
    // The geometry of a disk without one, as partition tools expect it.
    let cylinders = backend.size() / (255 * 63 * SECTOR);
    put(16, &(cylinders.min(65535) as u16).to_le_bytes());
    put(18, &[255, 63]);
    put(20, &logical.to_le_bytes());
    put(24, &[(physical / logical).trailing_zeros() as u8, 0]);
    put(26, &1u16.to_le_bytes());
    put(CONFIG_WCE, &[1]);
    put(34, &options.queues.to_le_bytes());
    put(36, &MAX_RANGE.to_le_bytes());
    put(40, &MAX_RANGES.to_le_bytes());
    put(44, &(physical / SECTOR as u32).to_le_bytes());
    put(48, &MAX_RANGE.to_le_bytes());
    put(52, &MAX_RANGES.to_le_bytes());
    put(56, &[1]);
    config
}

/// Linux refuses a device with blocks larger than its pages, and others do not
/// know what to do with odd ones.
fn block_sizes(backend: &dyn Backend, sector: Option<u32>) -> (u32, u32) {
    let sane = |size: u32, least: u32| match size.is_power_of_two() {
        true => size.clamp(least, 4096),
        false => least,
    };
    let (logical, physical) = backend.block_sizes();
    let logical = sane(sector.unwrap_or(logical), SECTOR as u32);
    (logical, sane(physical, logical))
}
