//! The entries of an archive, one by one. It may come from anybody.

use super::header::{field, kind, number, sum, text, Block, BLOCK};
use super::records::{all, time};
use super::{acl, ACLS, FLAGS, XATTR};
use std::ffi::CString;
use std::io::{self, Read};
use tane_linux::{Flags, Packed, Time, Xattrs};

/// Longest names and records of one entry, in bytes.
const LONGEST: u64 = 16 << 20;
/// Most parts that a file with holes is listed in.
const MOST_PARTS: usize = 1 << 22;

/// An entry, without its data.
#[derive(Default)]
pub struct Entry {
    /// One of [`kind`](super::header::kind).
    pub kind: u8,
    /// As it stands in the archive.
    pub path: Vec<u8>,
    /// Where a link leads.
    pub target: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// When it was changed.
    pub mtime: Time,
    /// When it was read, if that is said.
    pub atime: Option<Time>,
    /// A device's major and minor number.
    pub device: (u32, u32),
    /// The file's length.
    pub size: u64,
    /// Bytes of it in the archive.
    pub stored: u64,
    /// Where those belong, for a file with holes.
    pub map: Option<Vec<(u64, u64)>>,
    /// Extended attributes.
    pub xattrs: Xattrs,
    /// Those of chattr(1).
    pub flags: Flags,
    /// An ACL that could not be understood.
    pub lost_acl: bool,
}

/// An archive that is read from its start to its end.
pub struct Archive<'a> {
    input: &'a mut (dyn Read + 'a),
    /// Blanks behind the entry at hand, once its data is read.
    padding: u64,
    /// Bytes of data of the entry at hand that were not read.
    pub unread: u64,
    global: Extra,
}

/// What records and GNU's long names say of the next entry.
#[derive(Clone, Default)]
struct Extra {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<Time>,
    atime: Option<Time>,
    xattrs: Xattrs,
    flags: Flags,
    sparse_name: Option<Vec<u8>>,
    sparse_size: Option<u64>,
    /// Format 1.0: the map is in front of the data.
    map_in_data: bool,
    map: Vec<(u64, u64)>,
    offset: Option<u64>,
    /// As text, where there is no attribute for it.
    acls: [Option<Vec<u8>>; 2],
}

fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

impl<'a> Archive<'a> {
    /// Nothing of it is read yet.
    pub fn new(input: &'a mut (dyn Read + 'a)) -> Self {
        Archive {
            input,
            padding: 0,
            unread: 0,
            global: Extra::default(),
        }
    }

    /// What is behind the end.
    pub fn rest(&mut self) -> &mut (dyn Read + 'a) {
        self.input
    }

    /// Data of the entry that `next` gave; fills `to`, of which so much is left.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<()> {
        self.unread -= to.len() as u64;
        self.input.read_exact(to).map_err(cut_short)
    }

    /// The next entry; None at the end. What is unread of the last is skipped.
    #[allow(clippy::should_implement_trait)] // it lends
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut extra = self.global.clone();
        loop {
            self.skip()?;
            let Some(block) = self.block()? else {
                return Ok(None);
            };
            let stored = number(&block, field::SIZE).and_then(|n| u64::try_from(n).ok());
            let stored = stored.ok_or_else(|| wrong("an entry's size makes no sense"))?;
            match block[field::KIND] {
                kind::RECORDS => extra.add(&self.content(stored)?)?,
                kind::GLOBAL => {
                    let content = self.content(stored)?;
                    self.global.add(&content)?;
                    extra.add(&content)?;
                }
                kind::GNU_NAME => extra.path = Some(until_nul(self.content(stored)?)),
                kind::GNU_LINK => extra.target = Some(until_nul(self.content(stored)?)),
                _ => return self.entry(&block, stored, extra).map(Some),
            }
        }
    }

    fn skip(&mut self) -> io::Result<()> {
        let left = self.unread + self.padding;
        let skipped = io::copy(&mut self.input.take(left), &mut io::sink())?;
        if skipped < left {
            return Err(cut_short(io::ErrorKind::UnexpectedEof.into()));
        }
        (self.unread, self.padding) = (0, 0);
        Ok(())
    }

    fn expect(&mut self, stored: u64) {
        self.unread = stored;
        self.padding = stored.wrapping_neg() % BLOCK as u64;
    }

    /// None at the end: a block of zeros, or nothing.
    fn block(&mut self) -> io::Result<Option<Block>> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            match self.input.read(&mut block[have..])? {
                0 if have == 0 => return Ok(None),
                0 => return Err(cut_short(io::ErrorKind::UnexpectedEof.into())),
                n => have += n,
            }
        }
        if block == [0; BLOCK] {
            return Ok(None);
        }
        let given = number(&block, field::SUM).and_then(|n| u64::try_from(n).ok());
        if given != Some(sum(&block)) {
            return Err(wrong("is no tar archive, or is damaged"));
        }
        Ok(Some(block))
    }

    /// The content of an entry that describes another one.
    fn content(&mut self, stored: u64) -> io::Result<Vec<u8>> {
        if stored > LONGEST {
            return Err(wrong("describes an entry at absurd length"));
        }
        self.expect(stored);
        let mut content = vec![0; stored as usize];
        self.read(&mut content)?;
        Ok(content)
    }

    fn entry(&mut self, block: &Block, stored: u64, mut extra: Extra) -> io::Result<Entry> {
        let lost_acl = extra.add_acls();
        let id = |place, given: Option<u32>| {
            let own = || number(block, place).and_then(|n| u32::try_from(n).ok());
            given
                .or_else(own)
                .ok_or_else(|| wrong("an owner makes no sense"))
        };
        let small = |place| number(block, place).and_then(|n| u32::try_from(n).ok());
        let path = extra.sparse_name.or(extra.path);
        let mut entry = Entry {
            kind: block[field::KIND],
            path: path.unwrap_or_else(|| {
                let (prefix, name) = (text(block, field::PREFIX), text(block, field::NAME));
                // GNU's own format has other things there.
                let is_posix = block[field::MAGIC.0..].starts_with(b"ustar\0");
                match is_posix && !prefix.is_empty() {
                    true => [prefix, b"/", name].concat(),
                    false => name.to_vec(),
                }
            }),
            target: extra
                .target
                .unwrap_or_else(|| text(block, field::LINK).to_vec()),
            mode: small(field::MODE).unwrap_or(0) & 0o7777,
            uid: id(field::UID, extra.uid)?,
            gid: id(field::GID, extra.gid)?,
            mtime: extra.mtime.unwrap_or(Time {
                sec: number(block, field::MTIME).unwrap_or(0),
                nsec: 0,
            }),
            atime: extra.atime,
            device: (
                small(field::MAJOR).unwrap_or(0),
                small(field::MINOR).unwrap_or(0),
            ),
            stored: extra.size.unwrap_or(stored),
            xattrs: extra.xattrs,
            flags: extra.flags,
            lost_acl,
            ..Entry::default()
        };
        // What holds no data may have a size all the same: that of its file.
        let has_data = !matches!(
            entry.kind,
            kind::SYMLINK | kind::CHAR | kind::BLOCK | kind::DIRECTORY | kind::FIFO
        );
        let links = entry.kind == kind::LINK && extra.size.is_none();
        if !has_data || links {
            entry.stored = 0;
        }
        entry.size = extra.sparse_size.unwrap_or(entry.stored);
        self.expect(entry.stored);
        if entry.kind == kind::GNU_SPARSE {
            self.old_map(block, &mut entry)?;
        } else if extra.map_in_data {
            self.map_in_data(&mut entry)?;
        } else if !extra.map.is_empty() {
            entry.map = Some(extra.map);
        }
        if let Some(map) = &entry.map {
            let data = map.iter().try_fold(0u64, |n, (_, len)| n.checked_add(*len));
            let end = map.iter().try_fold(0, |end, (at, len)| {
                let next = at.checked_add(*len)?;
                (*at >= end && next <= entry.size).then_some(next)
            });
            if data.is_none_or(|n| n > entry.stored) || end.is_none() {
                return Err(wrong("a file's list of parts makes no sense"));
            }
        }
        Ok(entry)
    }

    /// GNU tar's first format: four parts in the block, more in those behind.
    fn old_map(&mut self, block: &Block, entry: &mut Entry) -> io::Result<()> {
        let mut map = Vec::new();
        let mut block = *block;
        let real = number(&block, (483, 12)).and_then(|n| u64::try_from(n).ok());
        entry.size = real.ok_or_else(|| wrong("a file's size makes no sense"))?;
        let (mut first, mut count, mut more) = (386, 4, 482);
        loop {
            for i in 0..count {
                let part = |at| number(&block, (at, 12)).and_then(|n| u64::try_from(n).ok());
                match (part(first + 24 * i), part(first + 24 * i + 12)) {
                    (Some(at), Some(len)) if at > 0 || len > 0 => map.push((at, len)),
                    _ => {}
                }
            }
            if block[more] == 0 {
                break;
            }
            if map.len() > MOST_PARTS {
                return Err(wrong("a file is in too many parts"));
            }
            let at_block = self.input.read_exact(&mut block);
            at_block.map_err(cut_short)?;
            (first, count, more) = (0, 21, 504);
        }
        entry.map = Some(map);
        Ok(())
    }

    /// Numbers, a line each, up to the end of a block.
    fn map_in_data(&mut self, entry: &mut Entry) -> io::Result<()> {
        let mut numbers = Vec::new();
        let mut wanted = None;
        let mut digits = Vec::new();
        while wanted != Some(numbers.len()) {
            if self.unread < BLOCK as u64 {
                return Err(wrong("a file's list of parts is cut short"));
            }
            let mut block = [0; BLOCK];
            self.read(&mut block)?;
            entry.stored -= BLOCK as u64;
            for byte in block {
                if byte != b'\n' {
                    digits.push(byte);
                    continue;
                }
                let text = std::str::from_utf8(&digits).ok();
                let number: Option<u64> = text.and_then(|t| t.parse().ok());
                let number = number.ok_or_else(|| wrong("a file's list of parts is damaged"))?;
                digits.clear();
                match wanted {
                    None if number <= MOST_PARTS as u64 => wanted = Some(2 * number as usize),
                    None => return Err(wrong("a file is in too many parts")),
                    Some(_) => numbers.push(number),
                }
                if wanted == Some(numbers.len()) {
                    break;
                }
            }
            if digits.len() > 20 {
                return Err(wrong("a file's list of parts is damaged"));
            }
        }
        entry.map = Some(numbers.chunks_exact(2).map(|p| (p[0], p[1])).collect());
        Ok(())
    }
}

impl Extra {
    /// Make attributes of ACLs that are there as text only; true if one is lost.
    fn add_acls(&mut self) -> bool {
        let mut lost = false;
        for (text, (_, name)) in self.acls.iter().zip(ACLS) {
            let Some(text) = text else { continue };
            if Packed(&self.xattrs.packed).any(|(have, _)| have == name) {
                continue;
            }
            let text = std::str::from_utf8(text).ok();
            match text.and_then(acl::to_binary) {
                Some(binary) => self.xattrs.push(name, &binary),
                None => lost = true,
            }
        }
        lost
    }

    fn add(&mut self, content: &[u8]) -> io::Result<()> {
        for record in all(content) {
            let (key, value) = record.ok_or_else(|| wrong("an entry's records are damaged"))?;
            self.set(key, value)?;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let text = std::str::from_utf8(value).ok();
        let number = || -> io::Result<u64> {
            let number = text.and_then(|t| t.parse().ok());
            let key = String::from_utf8_lossy(key);
            number.ok_or_else(|| wrong(format!("the record {key} makes no sense")))
        };
        let id = || number().map(|n| u32::try_from(n).ok());
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.target = Some(value.to_vec()),
            b"size" => self.size = Some(number()?),
            b"uid" => self.uid = id()?,
            b"gid" => self.gid = id()?,
            b"mtime" => self.mtime = time(value),
            b"atime" => self.atime = time(value),
            b"GNU.sparse.name" => self.sparse_name = Some(value.to_vec()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse_size = Some(number()?),
            b"GNU.sparse.major" => self.map_in_data = number()? == 1,
            b"GNU.sparse.offset" => self.offset = Some(number()?),
            b"GNU.sparse.numbytes" => {
                let at = self.offset.take().unwrap_or(0);
                self.map.push((at, number()?));
            }
            b"GNU.sparse.map" => {
                let text = text.unwrap_or_default();
                let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
                let numbers = numbers.map_err(|_| wrong("a file's list of parts is damaged"))?;
                self.map = numbers.chunks_exact(2).map(|p| (p[0], p[1])).collect();
            }
            FLAGS => {
                let pair = text.and_then(|t| t.split_once(':'));
                let bits = pair.and_then(|(bits, _)| u32::from_str_radix(bits, 16).ok());
                let project = pair.and_then(|(_, project)| project.parse().ok());
                if let (Some(bits), Some(project)) = (bits, project) {
                    self.flags = Flags { bits, project };
                }
            }
            key => {
                if let Some(i) = ACLS.iter().position(|(text, _)| *text == key) {
                    self.acls[i] = Some(value.to_vec());
                }
                if let Some(name) = key.strip_prefix(XATTR) {
                    if let Ok(name) = CString::new(name) {
                        self.xattrs.push(&name, value);
                    }
                }
            }
        }
        Ok(())
    }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn cut_short(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => wrong("is cut short"),
        _ => e,
    }
}
