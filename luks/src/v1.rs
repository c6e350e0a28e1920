//! The header of LUKS 1; "LUKS1 On-Disk Format Specification", 1.2.3.

use super::derive::{Hash, Kdf};
use super::{text, Check, Data, Header, Slot};

const ACTIVE: u32 = 0x00ac_71f3;

pub(crate) fn parse(bytes: &[u8]) -> Result<Header, String> {
    let damaged = || String::from("its header is damaged");
    let bytes = bytes.get(..592).ok_or_else(damaged)?;
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let cipher = format!("{}-{}", text(&bytes[8..40])?, text(&bytes[40..72])?);
    let hash = Hash::named(&text(&bytes[72..104])?)?;
    let key_len = word(108) as usize;
    if key_len == 0 || key_len > 512 {
        return Err(damaged());
    }
    let kdf = |salt: &[u8], iterations| Kdf::Pbkdf2 {
        hash,
        salt: salt.to_vec(),
        iterations,
    };
    let slot = |at: usize| {
        let stripes = word(at + 44) as usize;
        (word(at) == ACTIVE && stripes <= 16 << 10).then(|| Slot {
            kdf: kdf(&bytes[at + 8..at + 40], word(at + 4)),
            key_len,
            volume_key_len: key_len,
            cipher: cipher.clone(),
            at: u64::from(word(at + 40)) * 512,
            stripes,
            hash,
        })
    };
    let slots = (0..8)
        .filter_map(|i| Some((slot(208 + 48 * i)?, 0)))
        .collect();
    Ok(Header {
        slots,
        checks: vec![Check {
            kdf: kdf(&bytes[132..164], word(164)),
            digest: bytes[112..132].to_vec(),
        }],
        data: Data {
            start: word(104).into(),
            len: None,
            cipher,
            tweak: 0,
            sector: 512,
        },
    })
}
