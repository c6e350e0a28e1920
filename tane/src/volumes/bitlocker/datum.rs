//! What the metadata consists of: pieces of data that say their length and what they are.

/// A piece, without what says so.
pub(super) struct Datum<'a> {
    /// What it is for.
    pub role: u16,
    /// How it is read.
    pub kind: u16,
    pub bytes: &'a [u8],
}

/// Kinds.
pub(super) const KEY: u16 = 1;
pub(super) const TEXT: u16 = 2;
pub(super) const STRETCHED: u16 = 3;
pub(super) const SEALED: u16 = 5;
pub(super) const EXTERNAL: u16 = 9;

const HEAD: usize = 8;

/// One after the other, up to the end or one that is empty; None: they do not fit.
pub(super) fn data(mut bytes: &[u8]) -> Option<Vec<Datum<'_>>> {
    let mut data = Vec::new();
    while bytes.len() >= HEAD && half(bytes, 0)? > 0 {
        let datum = first(bytes)?;
        bytes = &bytes[HEAD + datum.bytes.len()..];
        data.push(datum);
    }
    Some(data)
}

/// Only the one that they begin with.
pub(super) fn first(bytes: &[u8]) -> Option<Datum<'_>> {
    let size = usize::from(half(bytes, 0)?);
    Some(Datum {
        role: half(bytes, 2)?,
        kind: half(bytes, 4)?,
        bytes: bytes.get(HEAD..size)?,
    })
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(array(bytes, at)?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(array(bytes, at)?))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array(bytes, at)?))
}

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// UTF-16, up to its end or a NUL.
pub(super) fn text(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2);
    let units = units.map(|b| u16::from_le_bytes([b[0], b[1]]));
    let units: Vec<_> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}
