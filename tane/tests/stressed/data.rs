//! What a thread does to the content of its files.

use super::model::{attributes, differ};
use super::own::{bytes, Own, MOST_BYTES};
use std::io::Result;
use tane::MapOptions;

impl Own<'_> {
    pub fn write(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let bytes = self.content();
        let at = self.random.below(MOST_BYTES) as usize;
        let at = match self.random.below(3) {
            0 => self.body(id).content.len(),
            1 => at.min(self.body(id).content.len()),
            _ => at,
        };
        self.model.disturb(&path);
        let file = self.open(&path)?;
        file.write_all_at(&bytes, at as u64)?;
        put(&mut self.body(id).content, at, &bytes);
        if at > 2 * MOST_BYTES as usize {
            file.set_len(0)?;
            self.body(id).content.clear();
        }
        Ok(true)
    }

    pub fn read(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let (at, len) = (self.random.below(MOST_BYTES), self.random.below(100_000));
        let file = self.mount.open(&path)?;
        let mut buffer = vec![0xaa; len as usize];
        let read = file.read_at(&mut buffer, at)?;
        let content = &self.body(id).content;
        let from = content.len().min(at as usize);
        let to = content.len().min((at + len) as usize);
        check(&path, differ(&buffer[..read], &content[from..to]));
        let found = file.metadata()?;
        let body = self.body(id);
        assert_eq!(found.len(), body.content.len() as u64, "{path}");
        assert_eq!(found.nlink(), body.names, "{path}");
        Ok(true)
    }

    pub fn truncate(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let len = self.random.below(MOST_BYTES);
        self.model.disturb(&path);
        self.mount.truncate(&path, len)?;
        self.body(id).content.resize(len as usize, 0);
        Ok(true)
    }

    /// Holes, zeroes, and blocks that go, in the middle of a file.
    pub fn fallocate(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let kind = self.random.below(4);
        let (at, len) = (self.random.below(MOST_BYTES), 1 + self.random.below(60_000));
        self.model.disturb(&path);
        let file = self.open(&path)?;
        let size = self.body(id).content.len();
        let (from, to) = ((at as usize).min(size), (at + len) as usize);
        match kind {
            0 => file.punch_hole(at, len)?,
            1 => {
                let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
                file.allocate(mode, at, len)?;
            }
            2 => {
                file.allocate(0, at, len)?;
                let content = &mut self.body(id).content;
                content.resize(size.max(to), 0);
                return Ok(true);
            }
            _ => {
                let (at, len) = (at & !4095, len.next_multiple_of(4096));
                if at + len >= size as u64 {
                    return Ok(false);
                }
                file.allocate(libc::FALLOC_FL_COLLAPSE_RANGE, at, len)?;
                let gone = at as usize..(at + len) as usize;
                self.body(id).content.drain(gone);
                return Ok(true);
            }
        }
        self.body(id).content[from..to.min(size).max(from)].fill(0);
        Ok(true)
    }

    pub fn mmap(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let size = self.body(id).content.len();
        if size == 0 {
            return Ok(false);
        }
        let at = self.random.below(size as u64) as usize;
        let len = 1 + self.random.below((size - at) as u64) as usize;
        let bytes = bytes(self.random, len);
        let flush = self.random.below(3) == 0;
        self.model.disturb(&path);
        let file = self.open(&path)?;
        {
            let mut options = MapOptions::new();
            let options = options.range(at as u64, len).write(true);
            let mut map = file.map(options.populate(flush))?;
            // SAFETY: only this thread touches its files.
            let seen = unsafe { map.as_slice() }.to_vec();
            map.check()?;
            check(&path, differ(&seen, &self.body(id).content[at..at + len]));
            // SAFETY: as above.
            unsafe { map.as_mut_slice()?.copy_from_slice(&bytes) };
            match flush {
                true => map.flush()?,
                false => map.check()?,
            }
        }
        put(&mut self.body(id).content, at, &bytes);
        let mut back = vec![0; len];
        file.read_exact_at(&mut back, at as u64)?;
        check(&path, differ(&back, &bytes));
        Ok(true)
    }

    /// A file without a name is still a file.
    pub fn orphan(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let file = self.open(&path)?;
        let (more, mut body) = (self.content(), self.body(id).clone());
        self.model.disturb(&path);
        self.mount.remove_file(&path)?;
        self.model.remove(&path);
        assert_eq!(file.metadata()?.nlink(), body.names - 1, "{path}");
        if body.names > 1 {
            return Ok(true); // it has other names, and stays as it is
        }
        let end = body.content.len();
        file.write_all_at(&more, end as u64)?;
        put(&mut body.content, end, &more);
        let mut back = vec![0; body.content.len()];
        file.read_exact_at(&mut back, 0)?;
        check(&path, differ(&back, &body.content));
        Ok(true)
    }

    pub fn setxattr(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let key = format!("user.{}", self.random.below(5));
        let most = [20, 200, 900][self.random.below(3) as usize];
        let len = self.random.below(most);
        // Few values: equal ones share a block.
        let value = [self.random.below(3) as u8].repeat(len as usize);
        let others = self.body(id).xattrs.iter();
        let used: usize = others.filter(|(k, _)| **k != key).map(|x| x.1.len()).sum();
        if used + value.len() > 700 {
            return Ok(false);
        }
        self.model.disturb(&path);
        self.mount.set_xattr(&path, &key, &value, 0)?;
        self.body(id).xattrs.insert(key, value);
        Ok(true)
    }

    pub fn removexattr(&mut self) -> Result<bool> {
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let keys: Vec<_> = self.body(id).xattrs.keys().cloned().collect();
        let Some(key) = self.pick(&keys) else {
            return Ok(false);
        };
        self.model.disturb(&path);
        self.mount.remove_xattr(&path, &key)?;
        self.body(id).xattrs.remove(&key);
        let is = attributes(self.mount, &path)?;
        assert_eq!(is, self.body(id).xattrs, "{path}");
        Ok(true)
    }

    pub fn fsync(&mut self) -> Result<bool> {
        if self.random.below(20) == 0 {
            self.mount.sync()?;
            self.model.keep_all();
            return Ok(true);
        }
        let Some((path, id)) = self.a_file() else {
            return Ok(false);
        };
        let file = self.mount.open(&path)?;
        if self.random.below(2) == 0 {
            // Names and attributes may stay behind: no promise here.
            file.sync_data()?;
            return Ok(true);
        }
        file.sync_all()?;
        self.model.keep(id);
        Ok(true)
    }
}

fn check(path: &str, result: std::result::Result<(), String>) {
    result.unwrap_or_else(|e| panic!("{path}: {e}"));
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    content.resize(content.len().max(at + bytes.len()), 0);
    content[at..at + bytes.len()].copy_from_slice(bytes);
}
