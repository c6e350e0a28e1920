//! The boot sector of an encrypted volume: NTFS's as far as firmware looks, or FAT's
//! ("BitLocker To Go"), whatever the file system inside is.

use super::datum::{array, half, long};

const ORDINARY: &[u8] = b"-FVE-FS-";
const TO_GO: &[u8] = b"MSWIN4.1";
/// How the first instruction jumps, of Windows Vista: its metadata are of version 1.
const VISTA: &[u8] = b"\xeb\x52\x90";

const NORMAL: [u8; 16] = *b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";
const ENCRYPT_ON_WRITE: [u8; 16] =
    *b"\x3b\x4d\xa8\x92\x80\xdd\x0e\x4d\x9e\x4e\xb1\xe3\x28\x4e\xae\xd8";

pub(super) const SIZE: usize = 512;

pub(super) struct Header {
    /// What is encrypted at a time, in bytes.
    pub sector: u32,
    /// Where the copies of the metadata are, in bytes.
    pub metadata: [u64; 3],
    /// What was not written since encryption began is still plain.
    pub is_partial: bool,
}

impl Header {
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let damaged = || String::from("its boot sector is damaged");
        let bytes = bytes.get(..SIZE).ok_or_else(damaged)?;
        let at = match &bytes[3..11] {
            ORDINARY => 160,
            TO_GO => 424,
            _ => return Err(damaged()),
        };
        if bytes.starts_with(VISTA) && at == 160 {
            return Err("was encrypted by Windows Vista, whose BitLocker is not read here".into());
        }
        let is_partial = match array(bytes, at) {
            Some(NORMAL) => false,
            Some(ENCRYPT_ON_WRITE) => true,
            _ => return Err(damaged()),
        };
        let sector = match half(bytes, 11) {
            Some(0 | 512) => 512,
            Some(4096) => 4096,
            _ => return Err(damaged()),
        };
        let place = |copy: usize| long(bytes, at + 16 + 8 * copy).ok_or_else(damaged);
        Ok(Self {
            sector,
            metadata: [place(0)?, place(1)?, place(2)?],
            is_partial,
        })
    }
}
