//! Operations to an archive.

use super::super::batch::{Batch, Head, LinkId, Op};
use super::super::loss::Loss;
use super::super::observer::Observer;
use super::header::{field, kind, put_number, put_text, sum, Block, BLOCK};
use super::records::{put, put_time};
use super::{acl, ACLS, FLAGS, XATTR};
use std::collections::HashMap;
use std::io::{self, Write};
use tane_linux::{Errno, Kind, Packed, Stat};

/// GNU tar reads and writes so many blocks at once.
const RECORD: u64 = 20 * BLOCK as u64;

pub struct Archive<'a> {
    out: &'a mut (dyn Write + Send),
    written: u64,
    report: &'a dyn Observer,
    /// The directory that is being filled, within the archive.
    path: Vec<u8>,
    /// Lengths of `path`, outside in.
    levels: Vec<usize>,
    links: HashMap<LinkId, Vec<u8>>,
    /// Where the next file has data.
    map: Option<Vec<(u64, u64)>>,
    /// The next file has blocks in common with one before.
    shares: bool,
    /// Bytes of the file at hand that are still owed.
    owed: Option<u64>,
    /// It comes without a map, whole: where its next byte goes.
    place: Option<u64>,
}

impl<'a> Archive<'a> {
    pub fn new(out: &'a mut (dyn Write + Send), report: &'a dyn Observer) -> Self {
        Archive {
            out,
            written: 0,
            report,
            path: Vec::new(),
            levels: Vec::new(),
            links: HashMap::new(),
            map: None,
            shares: false,
            owed: None,
            place: None,
        }
    }

    pub fn perform(&mut self, batch: &Batch) -> io::Result<()> {
        for op in &batch.ops {
            self.one(batch, op)?;
        }
        self.report.update_progress();
        Ok(())
    }

    /// `cut_short`: it shall not look complete.
    pub fn end(mut self, cut_short: bool) -> io::Result<()> {
        if !cut_short {
            let end = (self.written + 2 * BLOCK as u64).next_multiple_of(RECORD);
            self.zeros(end - self.written)?;
        }
        self.out.flush()
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn zeros(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            let n = count.min(RECORD);
            self.bytes(&[0; RECORD as usize][..n as usize])?;
            count -= n;
        }
        Ok(())
    }

    fn pad(&mut self) -> io::Result<()> {
        self.zeros(self.written.next_multiple_of(BLOCK as u64) - self.written)
    }

    fn one(&mut self, batch: &Batch, op: &Op) -> io::Result<()> {
        let name = |head: &Head| batch.name(head.name).to_bytes();
        match op {
            Op::Adopt(head) => {
                self.entry(batch, head, b"./", kind::DIRECTORY, b"", 0, Vec::new())?;
                self.report.done(Kind::Directory, b"./");
            }
            Op::Enter(head) => {
                self.levels.push(self.path.len());
                let path = self.below(name(head));
                self.path = [&path[..], b"/"].concat();
                let path = self.path.clone();
                self.entry(batch, head, &path, kind::DIRECTORY, b"", 0, Vec::new())?;
                self.report.done(Kind::Directory, &path);
            }
            Op::Leave => {
                let len = self.levels.pop().unwrap_or(0);
                self.path.truncate(len);
            }
            Op::File(head, data) => {
                let path = self.below(name(head));
                let data = &batch.data(*data).settle()[..];
                let size = data.len() as u64;
                self.entry(batch, head, &path, kind::FILE, b"", size, Vec::new())?;
                self.bytes(data)?;
                self.report.wrote(size);
                self.finish_file(path, head)?;
            }
            Op::Unreadable(name, e) => {
                let path = self.below(batch.name(*name).to_bytes());
                self.report.unreadable(&path, *e);
            }
            Op::Map(map) => {
                let number =
                    |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                let pairs = batch.bytes(*map).chunks_exact(16);
                self.map = Some(pairs.map(|p| (number(&p[..8]), number(&p[8..]))).collect());
            }
            Op::Shares(shares) => self.shares = !shares.twins.is_empty(),
            Op::Begin(head) => self.begin(batch, head)?,
            Op::Piece(at, data) => {
                let data = &batch.data(*data).settle()[..];
                if let Some(place) = self.place {
                    self.place = Some(at + data.len() as u64);
                    let hole = at.saturating_sub(place).min(self.owed.unwrap_or(0));
                    self.zeros(hole)?;
                    self.owed = self.owed.map(|owed| owed - hole);
                }
                // A file that grows meanwhile is what it was.
                let n = self.owed.unwrap_or(0).min(data.len() as u64) as usize;
                self.bytes(&data[..n])?;
                self.owed = self.owed.map(|owed| owed - n as u64);
                self.report.wrote(n as u64);
                self.report.update_progress();
            }
            Op::End | Op::Abort => {
                // One that shrinks, or cannot be read on, ends in zeros.
                self.place = None;
                let owed = self.owed.take().unwrap_or(0);
                self.zeros(owed)?;
                self.pad()?;
            }
            Op::Symlink(head, target) => {
                let path = self.below(name(head));
                let target = batch.name(*target).to_bytes();
                self.entry(batch, head, &path, kind::SYMLINK, target, 0, Vec::new())?;
                self.report.done(Kind::Symlink, &path);
                self.remember(head.link, path);
            }
            Op::Node(head) => {
                let path = self.below(name(head));
                let letter = match head.stat.kind() {
                    Kind::CharDevice => kind::CHAR,
                    Kind::BlockDevice => kind::BLOCK,
                    Kind::Fifo => kind::FIFO,
                    _ => {
                        let why = Errno(libc::EOPNOTSUPP);
                        self.report.lose(Loss::Special, &path, b"", why);
                        return Ok(());
                    }
                };
                self.entry(batch, head, &path, letter, b"", 0, Vec::new())?;
                self.report.done(head.stat.kind(), &path);
                self.remember(head.link, path);
            }
            Op::Link(name, id) => {
                let path = self.below(batch.name(*name).to_bytes());
                let Some(first) = self.links.get(id).cloned() else {
                    let why = Errno(libc::ENOENT);
                    self.report.lose(Loss::HardLink, &path, b"", why);
                    return Ok(());
                };
                self.header(&path, kind::LINK, &first, 0, None, Vec::new())?;
                self.report.linked(&path);
            }
            // A reader that maps holes sends no ranges, and an archive has no host.
            Op::Range(..) | Op::Clone(_) => {
                return Err(io::Error::other("a file of somewhere else in an archive"))
            }
            // Of other sources, or where something else stops.
            Op::Pass(_) | Op::LinkTo(..) | Op::Omit(_) | Op::Length(_) => {}
        }
        Ok(())
    }

    fn below(&self, name: &[u8]) -> Vec<u8> {
        [&self.path[..], name].concat()
    }

    fn remember(&mut self, link: Option<LinkId>, path: Vec<u8>) {
        if let Some(id) = link {
            self.links.insert(id, path);
        }
    }

    fn finish_file(&mut self, path: Vec<u8>, head: &Head) -> io::Result<()> {
        self.pad()?;
        self.report.done(Kind::File, &path);
        self.remember(head.link, path);
        Ok(())
    }

    /// A large file, or one with holes.
    fn begin(&mut self, batch: &Batch, head: &Head) -> io::Result<()> {
        let path = self.below(batch.name(head.name).to_bytes());
        let size = head.stat.size;
        if std::mem::take(&mut self.shares) {
            let why = Errno(libc::EOPNOTSUPP);
            self.report.lose(Loss::Reflink, &path, b"", why);
        }
        let Some(mut map) = self.map.take() else {
            self.entry(batch, head, &path, kind::FILE, b"", size, Vec::new())?;
            (self.owed, self.place) = (Some(size), Some(0));
            self.report.done(Kind::File, &path);
            self.remember(head.link, path);
            return Ok(());
        };
        let data: u64 = map.iter().map(|(_, len)| len).sum();
        if map.last().is_none_or(|(at, len)| at + len < size) {
            map.push((size, 0));
        }
        let mut text = format!("{}\n", map.len());
        for (at, len) in map {
            text.push_str(&format!("{at}\n{len}\n"));
        }
        let mut text = text.into_bytes();
        text.resize(text.len().next_multiple_of(BLOCK), 0);
        let mut records = Vec::new();
        put(&mut records, b"GNU.sparse.major", b"1");
        put(&mut records, b"GNU.sparse.minor", b"0");
        put(&mut records, b"GNU.sparse.name", &path);
        let real = size.to_string();
        put(&mut records, b"GNU.sparse.realsize", real.as_bytes());
        let stored = text.len() as u64 + data;
        self.entry(batch, head, &path, kind::FILE, b"", stored, records)?;
        self.bytes(&text)?;
        self.owed = Some(data);
        self.report.done(Kind::File, &path);
        self.remember(head.link, path);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn entry(
        &mut self,
        batch: &Batch,
        head: &Head,
        path: &[u8],
        letter: u8,
        target: &[u8],
        size: u64,
        mut records: Vec<u8>,
    ) -> io::Result<()> {
        for (name, value) in Packed(batch.bytes(head.xattrs)) {
            // In a record the first = ends the key.
            if name.to_bytes().contains(&b'=') {
                self.report.lose_xattr(path, name, Errno(libc::EINVAL));
                continue;
            }
            let name = name.to_bytes();
            put(&mut records, &[XATTR, name].concat(), value);
            // GNU tar looks for ACLs here only.
            let acl = ACLS.iter().find(|(_, own)| own.to_bytes() == name);
            if let Some(((key, _), text)) = acl.zip(acl::to_text(value)) {
                put(&mut records, key, text.as_bytes());
            }
        }
        let flags = head.stat.flags;
        if !flags.is_empty() {
            let text = format!("{:x}:{}", flags.bits, flags.project);
            put(&mut records, FLAGS, text.as_bytes());
        }
        self.header(path, letter, target, size, Some(&head.stat), records)
    }

    fn header(
        &mut self,
        path: &[u8],
        letter: u8,
        target: &[u8],
        size: u64,
        stat: Option<&Stat>,
        mut records: Vec<u8>,
    ) -> io::Result<()> {
        let mut block: Block = [0; BLOCK];
        if !put_text(&mut block, field::NAME, path) {
            put(&mut records, b"path", path);
        }
        if !put_text(&mut block, field::LINK, target) {
            put(&mut records, b"linkpath", target);
        }
        if !put_number(&mut block, field::SIZE, size) {
            put(&mut records, b"size", size.to_string().as_bytes());
        }
        put_number(&mut block, field::MODE, 0o644);
        for place in [
            field::UID,
            field::GID,
            field::MTIME,
            field::MAJOR,
            field::MINOR,
        ] {
            put_number(&mut block, place, 0);
        }
        if let Some(stat) = stat {
            put_number(&mut block, field::MODE, u64::from(stat.permissions()));
            for (place, key, id) in [
                (field::UID, &b"uid"[..], stat.uid),
                (field::GID, b"gid", stat.gid),
            ] {
                if !put_number(&mut block, place, id.into()) {
                    put(&mut records, key, id.to_string().as_bytes());
                }
            }
            let seconds = u64::try_from(stat.mtime.sec);
            let exact = stat.mtime.nsec == 0
                && seconds.is_ok_and(|sec| put_number(&mut block, field::MTIME, sec));
            if !exact {
                let whole = seconds.unwrap_or(0);
                put_number(&mut block, field::MTIME, whole);
                put_time(&mut records, b"mtime", stat.mtime);
            }
            put_time(&mut records, b"atime", stat.atime);
            if matches!(letter, kind::CHAR | kind::BLOCK) {
                let numbers = (libc::major(stat.rdev), libc::minor(stat.rdev));
                put_number(&mut block, field::MAJOR, numbers.0.into());
                put_number(&mut block, field::MINOR, numbers.1.into());
            }
        }
        if !records.is_empty() {
            self.records(&records)?;
        }
        self.block(&mut block, letter)
    }

    fn records(&mut self, records: &[u8]) -> io::Result<()> {
        let mut block: Block = [0; BLOCK];
        put_text(&mut block, field::NAME, b"././@PaxHeader");
        put_number(&mut block, field::MODE, 0o644);
        for place in [field::UID, field::GID, field::MTIME] {
            put_number(&mut block, place, 0);
        }
        if !put_number(&mut block, field::SIZE, records.len() as u64) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.block(&mut block, kind::RECORDS)?;
        self.bytes(records)?;
        self.pad()
    }

    fn block(&mut self, block: &mut Block, letter: u8) -> io::Result<()> {
        block[field::KIND] = letter;
        put_text(block, field::MAGIC, b"ustar\x0000");
        let sum = format!("{:06o}\0 ", sum(block));
        put_text(block, field::SUM, sum.as_bytes());
        self.bytes(block)
    }
}
