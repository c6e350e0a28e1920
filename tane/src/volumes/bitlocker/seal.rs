//! Keys wrapped in others, by AES-CCM with keys of 256 bits.

use super::datum::{array, first, half, KEY};
use aes::Aes256;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U12, U16};
use ccm::Ccm;

type Wrap = Ccm<Aes256, U16, U12>;

pub(super) struct Sealed {
    nonce: [u8; 12],
    tag: [u8; 16],
    bytes: Vec<u8>,
}

/// A key, or what is kept like one.
pub(super) struct Unsealed {
    /// What it is for.
    pub method: u16,
    pub bytes: Vec<u8>,
}

impl Sealed {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            nonce: array(bytes, 0)?,
            tag: array(bytes, 12)?,
            bytes: bytes.get(28..)?.to_vec(),
        })
    }

    /// None: it is another key that opens it.
    pub fn key(&self, key: &[u8; 32]) -> Option<Unsealed> {
        let mut plain = self.bytes.clone();
        let (nonce, tag) = (&self.nonce.into(), &self.tag.into());
        let wrap = Wrap::new(key.into());
        wrap.decrypt_inout_detached(nonce, &[], plain.as_mut_slice().into(), tag)
            .ok()?;
        let datum = first(&plain).filter(|datum| datum.kind == KEY)?;
        Some(Unsealed {
            method: half(datum.bytes, 0)?,
            bytes: datum.bytes.get(4..)?.to_vec(),
        })
    }
}
