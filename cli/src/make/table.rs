//! A partition table with one partition, by the crate gpt. Everything in it follows
//! from what is given.

use super::plan::Identity;
use gpt::mbr::{PartRecord, ProtectiveMBR};
use gpt::partition::Partition;
use gpt::partition_types::{BASIC, LINUX_FS};
use gpt::{disk::LogicalBlockSize, GptConfig};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use uuid::Uuid;

/// Where partitions start and end: nothing that stores them has larger blocks.
const ALIGNMENT: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Table {
    /// GUID partition table
    Gpt,
    /// Master boot record, also called msdos
    Mbr,
}

impl Table {
    /// Bytes before the partition and behind it, where GPT has its copy.
    pub fn room(self) -> (u64, u64) {
        match self {
            Table::Gpt => (ALIGNMENT, ALIGNMENT),
            Table::Mbr => (ALIGNMENT, 0),
        }
    }

    /// Writes the table of a disk that has the file's size, whose partition holds
    /// `size` bytes with a file system of this kind. `sector`: in bytes.
    pub fn write(
        self,
        file: &mut File,
        size: u64,
        sector: u32,
        (kind, name): (&str, &str),
        identity: &Identity,
    ) -> io::Result<()> {
        let unit = match sector {
            512 => LogicalBlockSize::Lb512,
            4096 => LogicalBlockSize::Lb4096,
            _ => {
                return Err(wrong(
                    "there is a table for sectors of 512 or 4096 bytes only",
                ))
            }
        };
        let is_fat = kind == "vfat";
        let disk = identity.named("disk");
        let first = ALIGNMENT / u64::from(sector);
        let count = size.div_ceil(u64::from(sector));
        let length = file.metadata()?.len() / u64::from(sector);
        if self == Table::Mbr {
            let most = |n| u32::try_from(n).map_err(|_| wrong("is too large for an MBR: use gpt"));
            let mut mbr = ProtectiveMBR::new();
            let [a, b, c, d, ..] = disk;
            mbr.set_disk_signature([a, b, c, d]);
            mbr.set_partition(0, record(is_fat, most(first)?, most(count)?));
            return mbr.overwrite_lba0(file).map(drop).map_err(io::Error::other);
        }
        let mbr = ProtectiveMBR::with_lb_size(u32::try_from(length - 1).unwrap_or(u32::MAX));
        mbr.overwrite_lba0(file).map_err(io::Error::other)?;
        let partition = Partition {
            part_type_guid: if is_fat { BASIC } else { LINUX_FS },
            part_guid: Uuid::from_bytes(identity.named("partition")),
            first_lba: first,
            last_lba: first + count - 1,
            flags: 0,
            name: name.to_owned(),
        };
        let config = GptConfig::new().writable(true).logical_block_size(unit);
        let table = config.create_from_device(file, Some(Uuid::from_bytes(disk)));
        let mut table = table.map_err(io::Error::other)?;
        let all = BTreeMap::from([(1, partition)]);
        table.update_partitions(all).map_err(io::Error::other)?;
        table.write_inplace().map_err(io::Error::other)
    }
}

/// By sector numbers alone: the cylinders of old are out of range.
fn record(is_fat: bool, first: u32, count: u32) -> PartRecord {
    const FAT32_LBA: u8 = 0x0c;
    const LINUX: u8 = 0x83;
    PartRecord {
        boot_indicator: 0,
        start_head: 0xfe,
        start_sector: 0xff,
        start_track: 0xff,
        os_type: if is_fat { FAT32_LBA } else { LINUX },
        end_head: 0xfe,
        end_sector: 0xff,
        end_track: 0xff,
        lb_start: first,
        lb_size: count,
    }
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
