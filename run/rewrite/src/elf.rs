//! What rewriting needs of an ELF file for x86-64: its code, where functions begin, and
//! its build-id. Anything else is left unread; whatever does not fit is an error.

use std::fmt;

/// Why a file is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadElf {
    /// No ELF file at all.
    Magic,
    /// Not for x86-64, or not little-endian with 64 bits.
    Machine,
    /// A table or a segment reaches beyond the file.
    CutOff,
    /// A segment of code beyond what offsets of 31 bits reach.
    TooLarge,
}

impl fmt::Display for BadElf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "this is no ELF file",
            Self::Machine => "this ELF file is not for x86-64",
            Self::CutOff => "this ELF file ends before its tables or segments do",
            Self::TooLarge => "this ELF file has more than 1 GiB of code in a segment",
        })
    }
}

impl std::error::Error for BadElf {}

/// A loadable segment with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is linked to.
    pub address: u64,
    /// Where in the file it begins.
    pub offset: usize,
    /// Bytes of it in the file.
    pub size: usize,
}

/// The parts of a file; addresses are as linked.
#[derive(Clone, Debug, Default)]
pub struct Elf {
    /// Loadable segments with code.
    pub segments: Vec<Segment>,
    /// NT_GNU_BUILD_ID.
    pub build_id: Option<Vec<u8>>,
    /// Where functions begin, sorted, as the table of `.eh_frame_hdr` says; empty without.
    pub functions: Vec<u64>,
}

const MOST: usize = 1 << 30;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_X: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;
const EM_X86_64: u16 = 62;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn size(bytes: &[u8], at: usize) -> Option<usize> {
    long(bytes, at).and_then(|value| usize::try_from(value).ok())
}

impl Elf {
    /// Reads the headers of a whole file.
    pub fn parse(file: &[u8]) -> Result<Elf, BadElf> {
        if file.get(..4) != Some(b"\x7fELF") {
            return Err(BadElf::Magic);
        }
        if file.get(4..6) != Some(&[2, 1]) || half(file, 18) != Some(EM_X86_64) {
            return Err(BadElf::Machine);
        }
        Self::headers(file).ok_or(BadElf::CutOff)?
    }

    fn headers(file: &[u8]) -> Option<Result<Elf, BadElf>> {
        let (table, each, count) = (size(file, 32)?, half(file, 54)?, half(file, 56)?);
        let mut elf = Elf::default();
        for i in 0..usize::from(count) {
            let at = table.checked_add(i * usize::from(each))?;
            let (kind, flags) = (word(file, at)?, word(file, at + 4)?);
            let (offset, address) = (size(file, at + 8)?, long(file, at + 16)?);
            let length = size(file, at + 32)?;
            let bytes = || file.get(offset..offset.checked_add(length)?);
            match kind {
                PT_LOAD if flags & PF_X != 0 => {
                    bytes()?;
                    if length > MOST {
                        return Some(Err(BadElf::TooLarge));
                    }
                    elf.segments.push(Segment {
                        address,
                        offset,
                        size: length,
                    });
                }
                PT_NOTE if elf.build_id.is_none() => elf.build_id = build_id(bytes()?),
                // It only makes the analysis better, so a damaged one is none.
                PT_GNU_EH_FRAME => {
                    let table = bytes().and_then(|bytes| functions(bytes, address));
                    elf.functions = table.unwrap_or_default();
                }
                _ => {}
            }
        }
        Some(Ok(elf))
    }
}

fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0;
    loop {
        let (name, length) = (word(notes, at)? as usize, word(notes, at + 4)? as usize);
        let content = (at + 12).checked_add(name.checked_next_multiple_of(4)?)?;
        let end = content.checked_add(length)?;
        if word(notes, at + 8)? == NT_GNU_BUILD_ID && notes.get(at + 12..at + 16) == Some(b"GNU\0")
        {
            return notes.get(content..end).map(<[u8]>::to_vec);
        }
        at = end.checked_next_multiple_of(4)?;
    }
}

/// The search table of `.eh_frame_hdr` (Linux Standard Base, 10.6.2), in the one encoding
/// that linkers write: pairs of 32-bit distances from the section's own address.
fn functions(header: &[u8], address: u64) -> Option<Vec<u64>> {
    const SDATA4: u8 = 0x0b;
    const UDATA4: u8 = 0x03;
    const DATA_RELATIVE: u8 = 0x30;
    let [version, _, count_as, table_as] = array(header, 0)?;
    if version != 1 || count_as != UDATA4 || table_as != DATA_RELATIVE | SDATA4 {
        return None;
    }
    let count = word(header, 8)? as usize;
    let table = header.get(12..12usize.checked_add(count.checked_mul(8)?)?)?;
    let start = |pair: &[u8]| {
        let distance = word(pair, 0)? as i32;
        Some(address.wrapping_add_signed(i64::from(distance)))
    };
    let mut all: Vec<u64> = table.chunks_exact(8).map_while(start).collect();
    all.sort_unstable();
    Some(all)
}
