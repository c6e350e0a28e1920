//! Tables of a container, read page by page when they are needed: they can be
//! larger than memory, and a hostile header can claim anything.

use crate::backend::Backend;
use crate::buffers::{buffer, buffer_mut};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

const PAGE: u64 = 4096;
/// Pages kept, four megabytes; then it starts again from none.
const MOST: usize = 1024;

type Cache = HashMap<u64, Box<[u8; PAGE as usize]>>;

pub(crate) struct Pages {
    pub file: Arc<dyn Backend>,
    cache: Mutex<Cache>,
}

impl Pages {
    pub fn new(file: Arc<dyn Backend>) -> Self {
        Self {
            file,
            cache: Mutex::default(),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The bytes at `at`, zeros behind the end of the file. Without `wait`, an
    /// error of the kind `WouldBlock` unless they are in memory.
    pub fn get<const N: usize>(&self, at: u64, wait: bool) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        let mut cache = match wait {
            true => self.cache(),
            false => self
                .cache
                .try_lock()
                .map_err(|_| io::ErrorKind::WouldBlock)?,
        };
        let mut done = 0;
        while done < N {
            let position = at
                .checked_add(done as u64)
                .ok_or(io::ErrorKind::InvalidData)?;
            let (index, within) = (position / PAGE, (position % PAGE) as usize);
            let n = (N - done).min(PAGE as usize - within);
            let page = match cache.get(&index) {
                Some(page) => page,
                None if !wait => return Err(io::ErrorKind::WouldBlock.into()),
                None => {
                    let page = self.fetch(index * PAGE)?;
                    if cache.len() >= MOST {
                        cache.clear();
                    }
                    cache.entry(index).or_insert(page)
                }
            };
            bytes[done..done + n].copy_from_slice(&page[within..within + n]);
            done += n;
        }
        Ok(bytes)
    }

    fn fetch(&self, start: u64) -> io::Result<Box<[u8; PAGE as usize]>> {
        let mut page = Box::new([0; PAGE as usize]);
        let len = self.file.size().saturating_sub(start).min(PAGE) as usize;
        if len > 0 {
            self.file.read(&[buffer_mut(&mut page[..len])], start)?;
        }
        Ok(page)
    }

    /// Change the file, and what is known of it.
    pub fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut cache = self.cache();
        // Read again later: simpler than to patch, and right after an error too.
        for index in at / PAGE..=(at + bytes.len() as u64) / PAGE {
            cache.remove(&index);
        }
        self.file.write(&[buffer(bytes)], at)
    }
}

/// Read a structure of this length at a place of the file that has to be there.
pub(crate) fn read_exactly(file: &dyn Backend, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let end = at.checked_add(len as u64);
    if end.is_none_or(|end| end > file.size()) {
        return Err(invalid(format!(
            "is cut short: {len} bytes at {at} are missing"
        )));
    }
    let mut bytes = vec![0; len];
    file.read(&[buffer_mut(&mut bytes)], at)?;
    Ok(bytes)
}

pub(crate) fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

pub(crate) fn unsupported(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text.into())
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    le32(bytes, at).swap_bytes()
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    le64(bytes, at).swap_bytes()
}
