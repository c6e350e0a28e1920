//! Partition tables, by the crate gpt. Everything in them follows from what is given.

use gpt::mbr::{PartRecord, ProtectiveMBR};
use gpt::partition::Partition;
use gpt::partition_types::{self as types, OperatingSystem, Type};
use gpt::{disk::LogicalBlockSize, GptConfig};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use uuid::Uuid;

/// Where partitions start and end: nothing that stores them has larger blocks.
pub const ALIGNMENT: u64 = 1 << 20;

/// A kind of partition table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// GUID partition table
    #[default]
    Gpt,
    /// Master boot record, also called msdos
    Mbr,
}

/// What a partition is for: as either table says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A GPT's type.
    Gpt(Type),
    /// An MBR's.
    Mbr(u8),
    /// By a name of [`NAMED`].
    Named(Type, u8),
}

/// A partition to be. `start` and `size` are in bytes, multiples of [`ALIGNMENT`].
pub struct Slot<'a> {
    /// Where it starts.
    pub start: u64,
    /// How long it is.
    pub size: u64,
    /// What it is for.
    pub purpose: Purpose,
    /// Of a GPT.
    pub name: &'a str,
    /// Its own, of a GPT.
    pub guid: [u8; 16],
}

/// The names of systemd.repart's Type=, as far as both tables know them.
const NAMED: [(&str, Type, u8); 10] = [
    ("linux", types::LINUX_FS, 0x83),
    ("basic", types::BASIC, 0x0c),
    ("esp", types::EFI, 0xef),
    ("xbootldr", types::FREEDESK_BOOT, 0xea),
    ("swap", types::LINUX_SWAP, 0x82),
    ("root", types::LINUX_ROOT_X64, 0x83),
    ("usr", linux("8484680c-9521-48c6-9c11-b0720656f69e"), 0x83),
    ("home", types::LINUX_HOME, 0x83),
    ("srv", types::LINUX_SRV, 0x83),
    ("var", linux("4d21b016-b534-45c2-a9fb-5c16e091fd2d"), 0x83),
];

const fn linux(guid: &str) -> Type {
    match Uuid::try_parse(guid) {
        Ok(guid) => Type {
            guid,
            os: OperatingSystem::Linux,
        },
        Err(_) => panic!("a GUID"),
    }
}

impl Purpose {
    /// A name, a GUID, or the number of an MBR's type (0x83).
    pub fn parse(text: &str) -> Result<Purpose, String> {
        if let Some((_, gpt, mbr)) = NAMED.iter().find(|(name, ..)| *name == text) {
            return Ok(Purpose::Named(gpt.clone(), *mbr));
        }
        if text == "bios" {
            return Ok(Purpose::Gpt(types::BIOS));
        }
        let byte = text.strip_prefix("0x").map(|n| u8::from_str_radix(n, 16));
        if let Some(Ok(byte @ 1..)) = byte {
            return Ok(Purpose::Mbr(byte));
        }
        let os = OperatingSystem::None;
        match Uuid::try_parse(text) {
            Ok(guid) if !guid.is_nil() => Ok(Purpose::Gpt(Type { guid, os })),
            _ => {
                let names: Vec<_> = NAMED.iter().map(|(name, ..)| *name).collect();
                let names = names.join(", ");
                Err(format!(
                    "no type of partitions is called {text:?}: there are {names}, bios, \
                     GUIDs for gpt, and 0x01 to 0xff for mbr"
                ))
            }
        }
    }

    /// Of a partition with such a file system, if nobody says.
    pub fn of(fs: Option<&str>) -> Purpose {
        let (gpt, mbr) = match fs {
            Some("vfat") => (types::BASIC, 0x0c),
            Some("swap") => (types::LINUX_SWAP, 0x82),
            _ => (types::LINUX_FS, 0x83),
        };
        Purpose::Named(gpt, mbr)
    }

    fn gpt(&self) -> Option<Type> {
        match self {
            Purpose::Gpt(gpt) | Purpose::Named(gpt, _) => Some(gpt.clone()),
            Purpose::Mbr(_) => None,
        }
    }

    fn mbr(&self) -> Option<u8> {
        match self {
            Purpose::Mbr(mbr) | Purpose::Named(_, mbr) => Some(*mbr),
            Purpose::Gpt(_) => None,
        }
    }
}

impl Table {
    /// Bytes before the first partition and behind the last, where GPT has its copy.
    pub fn room(self) -> (u64, u64) {
        match self {
            Table::Gpt => (ALIGNMENT, ALIGNMENT),
            Table::Mbr => (ALIGNMENT, 0),
        }
    }

    /// How many partitions it can have; an MBR without logical ones.
    pub fn most(self) -> usize {
        match self {
            Table::Gpt => 128,
            Table::Mbr => 4,
        }
    }

    /// Whether it can say what such a partition is for.
    pub fn has(self, purpose: &Purpose) -> bool {
        match self {
            Table::Gpt => purpose.gpt().is_some(),
            Table::Mbr => purpose.mbr().is_some(),
        }
    }

    /// Writes the table of a disk that has the file's size. `sector`: in bytes.
    pub fn write(
        self,
        file: &mut File,
        slots: &[Slot],
        sector: u32,
        disk: [u8; 16],
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
        let length = file.metadata()?.len() / u64::from(sector);
        if self == Table::Mbr {
            return mbr(file, slots, sector, disk);
        }
        let mbr = ProtectiveMBR::with_lb_size(u32::try_from(length - 1).unwrap_or(u32::MAX));
        mbr.overwrite_lba0(file).map_err(io::Error::other)?;
        let mut all = BTreeMap::new();
        for (number, slot) in (1..).zip(slots) {
            let first = slot.start / u64::from(sector);
            let partition = Partition {
                part_type_guid: slot.purpose.gpt().ok_or_else(unsaid)?,
                part_guid: Uuid::from_bytes(slot.guid),
                first_lba: first,
                last_lba: first + slot.size / u64::from(sector) - 1,
                flags: 0,
                name: slot.name.to_owned(),
            };
            all.insert(number, partition);
        }
        let config = GptConfig::new().writable(true).logical_block_size(unit);
        let table = config.create_from_device(file, Some(Uuid::from_bytes(disk)));
        let mut table = table.map_err(io::Error::other)?;
        table.update_partitions(all).map_err(io::Error::other)?;
        table.write_inplace().map_err(io::Error::other)
    }
}

fn mbr(file: &mut File, slots: &[Slot], sector: u32, disk: [u8; 16]) -> io::Result<()> {
    let sectors = |bytes: u64| {
        let count = u32::try_from(bytes / u64::from(sector));
        count.map_err(|_| wrong("is too large for an MBR: use gpt"))
    };
    let mut mbr = ProtectiveMBR::new();
    let [a, b, c, d, ..] = disk;
    mbr.set_disk_signature([a, b, c, d]);
    for (number, slot) in slots.iter().enumerate() {
        let kind = slot.purpose.mbr().ok_or_else(unsaid)?;
        sectors(slot.start + slot.size)?;
        let record = record(kind, sectors(slot.start)?, sectors(slot.size)?);
        mbr.set_partition(number, record)
            .ok_or_else(|| wrong("an MBR has four partitions"))?;
    }
    mbr.overwrite_lba0(file).map(drop).map_err(io::Error::other)
}

/// By sector numbers alone: the cylinders of old are out of range.
fn record(kind: u8, first: u32, count: u32) -> PartRecord {
    PartRecord {
        boot_indicator: 0,
        start_head: 0xfe,
        start_sector: 0xff,
        start_track: 0xff,
        os_type: kind,
        end_head: 0xfe,
        end_sector: 0xff,
        end_track: 0xff,
        lb_start: first,
        lb_size: count,
    }
}

fn unsaid() -> io::Error {
    wrong("this table has no such type of partition")
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_a_name_a_guid_or_the_number_of_an_mbr() {
        assert_eq!(Purpose::parse("esp"), Ok(Purpose::Named(types::EFI, 0xef)));
        assert_eq!(Purpose::parse("0x83"), Ok(Purpose::Mbr(0x83)));
        let guid = "8484680c-9521-48c6-9c11-b0720656f69e";
        let Ok(Purpose::Gpt(found)) = Purpose::parse(guid) else {
            panic!("{guid}")
        };
        assert_eq!(found.guid.to_string(), guid);
        for bad in [
            "",
            "0x0",
            "0x100",
            "ESPx",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert!(Purpose::parse(bad).unwrap_err().contains("root"), "{bad}");
        }
        assert!(!Table::Mbr.has(&Purpose::parse("bios").unwrap()));
        assert!(!Table::Gpt.has(&Purpose::parse("0x83").unwrap()));
    }
}
