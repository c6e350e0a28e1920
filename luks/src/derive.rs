//! From a passphrase to a key, and from split key material to the key in it.

use hmac::{Hmac, KeyInit};
use sha1::Sha1;
use sha2::digest::{Digest, FixedOutputReset};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use whirlpool::Whirlpool;

/// The most memory that cryptsetup lets a key take, in KiB.
const MOST_MEMORY: u32 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Whirlpool,
}

impl Hash {
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "sha1" => Self::Sha1,
            "sha224" => Self::Sha224,
            "sha256" => Self::Sha256,
            "sha384" => Self::Sha384,
            "sha512" => Self::Sha512,
            "whirlpool" => Self::Whirlpool,
            other => return Err(format!("uses the hash {other}, which is not supported")),
        })
    }
}

pub(super) enum Kdf {
    Pbkdf2 {
        hash: Hash,
        salt: Vec<u8>,
        iterations: u32,
    },
    Argon2 {
        kind: argon2::Algorithm,
        salt: Vec<u8>,
        time: u32,
        /// In KiB.
        memory: u32,
        lanes: u32,
    },
}

impl Kdf {
    /// Of hashing, or through its memory.
    pub fn rounds(&self) -> u32 {
        match self {
            Self::Pbkdf2 { iterations, .. } => *iterations,
            Self::Argon2 { time, .. } => *time,
        }
    }

    /// None: the parameters make no sense.
    pub fn derive(&self, secret: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut key = vec![0; len];
        match self {
            Self::Pbkdf2 {
                hash,
                salt,
                iterations,
            } => {
                let (salt, n) = (&salt[..], *iterations);
                match hash {
                    Hash::Sha1 => pbkdf2::<Hmac<Sha1>>(secret, salt, n, &mut key)?,
                    Hash::Sha224 => pbkdf2::<Hmac<Sha224>>(secret, salt, n, &mut key)?,
                    Hash::Sha256 => pbkdf2::<Hmac<Sha256>>(secret, salt, n, &mut key)?,
                    Hash::Sha384 => pbkdf2::<Hmac<Sha384>>(secret, salt, n, &mut key)?,
                    Hash::Sha512 => pbkdf2::<Hmac<Sha512>>(secret, salt, n, &mut key)?,
                    Hash::Whirlpool => pbkdf2::<Hmac<Whirlpool>>(secret, salt, n, &mut key)?,
                }
            }
            Self::Argon2 {
                kind,
                salt,
                time,
                memory,
                lanes,
            } => {
                if *memory > MOST_MEMORY {
                    return None;
                }
                let params = argon2::Params::new(*memory, *time, *lanes, Some(len)).ok()?;
                let argon = argon2::Argon2::new(*kind, argon2::Version::V0x13, params);
                argon.hash_password_into(secret, salt, &mut key).ok()?;
            }
        }
        Some(key)
    }
}

fn pbkdf2<P>(secret: &[u8], salt: &[u8], iterations: u32, key: &mut [u8]) -> Option<()>
where
    P: KeyInit + hmac::digest::Update + hmac::digest::FixedOutput + Clone + Sync,
{
    pbkdf2::pbkdf2::<P>(secret, salt, iterations, key).ok()
}

/// Undo the splitting of a key into stripes that are all needed.
pub(super) fn merge(material: &[u8], len: usize, hash: Hash) -> Option<Vec<u8>> {
    if len == 0 || material.is_empty() || !material.len().is_multiple_of(len) {
        return None;
    }
    let mut key = vec![0u8; len];
    let last = material.len() / len - 1;
    for (i, stripe) in material.chunks_exact(len).enumerate() {
        key.iter_mut().zip(stripe).for_each(|(k, s)| *k ^= s);
        if i < last {
            match hash {
                Hash::Sha1 => diffuse::<Sha1>(&mut key),
                Hash::Sha224 => diffuse::<Sha224>(&mut key),
                Hash::Sha256 => diffuse::<Sha256>(&mut key),
                Hash::Sha384 => diffuse::<Sha384>(&mut key),
                Hash::Sha512 => diffuse::<Sha512>(&mut key),
                Hash::Whirlpool => diffuse::<Whirlpool>(&mut key),
            }
        }
    }
    Some(key)
}

/// Each piece as long as a digest becomes the digest of its number and itself.
fn diffuse<D: Digest + FixedOutputReset>(key: &mut [u8]) {
    let len = <D as Digest>::output_size();
    for (i, piece) in key.chunks_mut(len).enumerate() {
        let mut digest = D::new();
        Digest::update(&mut digest, (i as u32).to_be_bytes());
        Digest::update(&mut digest, &*piece);
        let digest = digest.finalize();
        piece.copy_from_slice(&digest[..piece.len()]);
    }
}
