//! What the tests of this crate share.
#![allow(dead_code)]

pub mod nbd;

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tane_images::{buffer, buffer_mut, Access, Backend, Raw};

/// A file that goes with its handle. On a disk's file system, not in /tmp, which
/// may be memory and know no direct I/O.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(bytes: &[u8]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("image-{}-{n}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    /// All zeros, without memory behind them.
    pub fn sparse(size: u64) -> Self {
        let file = Self::new(&[]);
        File::options()
            .write(true)
            .open(&file.0)
            .unwrap()
            .set_len(size)
            .unwrap();
        file
    }

    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.0).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

pub const READ: Access = Access {
    write: false,
    direct: false,
};
pub const WRITE: Access = Access {
    write: true,
    direct: false,
};
pub const DIRECT: Access = Access {
    write: true,
    direct: true,
};

/// `None` where the file system has no direct I/O: the test is skipped.
#[track_caller]
pub fn open_direct(path: &Path) -> Option<Raw> {
    match Raw::open(path, DIRECT) {
        Ok(raw) => Some(raw),
        Err(e) if e.to_string().contains("no direct I/O") => {
            tane_test_support::skip(e);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

pub fn read(disk: &dyn Backend, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    // Not zero, so that what is not filled shows.
    let mut bytes = vec![0xee; len];
    disk.read(&[buffer_mut(&mut bytes)], offset)?;
    Ok(bytes)
}

pub fn write(disk: &dyn Backend, offset: u64, bytes: &[u8]) -> io::Result<()> {
    disk.write(&[buffer(bytes)], offset)
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed)
        .collect()
}

pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
