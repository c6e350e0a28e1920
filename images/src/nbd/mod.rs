//! An export of an NBD server, read and written.
//!
//! ```text
//! address.rs    which export of which server
//! line.rs       the connection
//! handshake.rs  what is agreed on first: fixed newstyle, NBD_OPT_GO
//! requests.rs   several requests under way
//! words.rs      the protocol's numbers
//! ```
//!
//! By [the specification](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md),
//! without TLS and structured replies. A connection that is lost is not made again: nobody
//! could tell whether a server that comes back has what the last one was given.

mod address;
mod handshake;
mod line;
mod requests;
mod words;

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{buffer, buffer_mut, gather, scatter, slice, total, Buffers};
pub(crate) use address::schemes;
use address::Address;
use handshake::{negotiate, Told};
use line::Line;
use requests::{Request, Requests};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// Most bytes of a request that moves some, if the server does not want fewer.
const PIECE: u32 = 1 << 20;
/// Most bytes of one that moves none: a server may have to write as many zeroes, within the
/// time that an answer may take. QEMU's client asks for as many.
const RANGE: u64 = 32 << 20;
/// Most requests that one call makes at once.
const BATCH: usize = 16;
/// An answer to a request may take so many times as long as one before.
const LONGER: u32 = 5;
/// What a server may take, whatever somebody says: there are clocks that count no further.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(365 * 86_400)];

/// A connection to a server that nothing was said on yet. So whoever will have no network
/// can make it before.
pub struct NbdConnection {
    address: Address,
    line: Line,
}

impl NbdConnection {
    /// Connect to the server of an address. `silence`: how long that may take, and an answer
    /// of the server; one to a request five times that, and to a flush twenty times.
    pub fn new(address: &str, silence: Duration) -> io::Result<NbdConnection> {
        let address = Address::parse(address)?;
        let [least, most] = PATIENCE;
        let silence = silence.clamp(least, most);
        let line = Line::connect(&address, silence).map_err(|e| named(&address, &e))?;
        Ok(NbdConnection { address, line })
    }

    /// Agree on its export.
    pub fn open(self) -> io::Result<NbdExport> {
        let NbdConnection { address, mut line } = self;
        let told = negotiate(&line, &address).map_err(|e| named(&address, &e))?;
        line.patience *= LONGER;
        Ok(NbdExport(Arc::new(Export {
            address,
            told,
            requests: Requests::new(line),
            range: AtomicU64::new(RANGE),
            edges: RwLock::default(),
            lost: Mutex::default(),
        })))
    }
}

/// An export that is there to be read and written. Its server is told when the last of its
/// clones and disks is gone.
#[derive(Clone)]
pub struct NbdExport(Arc<Export>);

impl NbdExport {
    /// Tell the server that this is the end, before the process ends without dropping it.
    /// What its disks are asked for from then on is an error. It is not waited for.
    pub fn farewell(&self) {
        self.0.requests.farewell();
    }

    /// It as a disk. `say` is told what a server lacks that it is to be written by.
    pub fn disk(&self, write: bool, say: &dyn Fn(&str)) -> io::Result<Arc<dyn Backend>> {
        let export = &self.0;
        if write && export.has(words::READ_ONLY) {
            let text = "the server lets nobody write it; put an overlay above it (--overlay)";
            let error = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text);
            return Err(named(&export.address, &error));
        }
        if write {
            let keeps = export.has(words::SEND_FLUSH) || export.has(words::SEND_FUA);
            say(match keeps {
                true => "NBD has no locks: see to it that nobody else writes it meanwhile",
                false => {
                    "NBD has no locks: see to it that nobody else writes it meanwhile; and this \
                     server cannot be told to keep what was written, so that fsync does not \
                     mean that it is on its disk"
                }
            });
        }
        Ok(Arc::new(Nbd {
            export: export.clone(),
            write,
        }))
    }
}

/// Of what a server says, which is a name or a sentence.
fn readable(text: &[u8]) -> String {
    crate::errors::readable(text, 256)
}

/// Whether a server says so of a request.
fn is_too_long(error: &io::Error) -> bool {
    [Some(libc::EINVAL), Some(libc::EOVERFLOW)].contains(&error.raw_os_error())
}

fn named(address: &Address, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

struct Export {
    address: Address,
    told: Told,
    requests: Requests,
    /// Most bytes of a request that moves none, as far as is known.
    range: AtomicU64,
    /// A write of a part of a block reads the rest and writes all of it, while nobody else
    /// writes.
    edges: RwLock<()>,
    /// The error of a flush, if there was one. A server that could not keep what it had tells
    /// that once, and has forgotten it when it is asked again.
    lost: Mutex<Option<(io::ErrorKind, String)>>,
}

impl Export {
    fn has(&self, flag: u16) -> bool {
        self.told.flags & flag != 0
    }

    /// Of what is written: kept at once, where the server cannot be told to keep it later.
    fn kept(&self) -> u16 {
        match self.has(words::SEND_FUA) && !self.has(words::SEND_FLUSH) {
            true => words::FUA,
            false => 0,
        }
    }

    /// Most bytes of one request, of whole blocks.
    fn piece(&self) -> u64 {
        let Told {
            smallest, largest, ..
        } = self.told;
        let most = PIECE.min(largest).max(smallest);
        u64::from(most - most % smallest)
    }

    fn failed(&self, what: &str, range: &Range<u64>, error: &io::Error) -> io::Error {
        let Range { start, end } = range;
        let text = format!(
            "{}: {what} {} bytes at {start}: {error}",
            self.address,
            end - start
        );
        io::Error::new(error.kind(), text)
    }

    /// The blocks that a range touches.
    fn around(&self, offset: u64, len: u64) -> Range<u64> {
        let block = u64::from(self.told.smallest);
        // The export's size is one of whole blocks.
        offset - offset % block..(offset + len).next_multiple_of(block)
    }

    fn is_whole(&self, offset: u64, len: u64) -> bool {
        self.around(offset, len) == (offset..offset + len)
    }

    /// Read or write whole blocks.
    fn move_blocks(&self, command: u16, data: Buffers, offset: u64) -> io::Result<()> {
        let (what, flags) = match command {
            words::READ => ("read", 0),
            _ => ("write", self.kept()),
        };
        let len = total(data) as u64;
        let piece = self.piece();
        let mut done = 0;
        while done < len {
            let end = len.min(done + piece * BATCH as u64);
            let starts = (done..end).step_by(piece as usize);
            let parts: Vec<_> = starts
                .map(|at| (at, slice(data, at as usize, piece.min(len - at) as usize)))
                .collect();
            let request = |(at, part): &(u64, Vec<libc::iovec>)| (*at, total(part) as u32);
            let requests: Vec<_> = parts
                .iter()
                .map(|part| {
                    let (at, len) = request(part);
                    Request {
                        command,
                        flags,
                        offset: offset + at,
                        len,
                        data: &part.1,
                    }
                })
                .collect();
            let made = self.requests.make(&requests);
            let range = offset + done..offset + end;
            made.map_err(|e| self.failed(what, &range, &e))?;
            done = end;
        }
        Ok(())
    }

    /// A request that moves nothing, for a range of whole blocks.
    fn tell(&self, command: u16, flags: u16, what: &str, range: Range<u64>) -> io::Result<()> {
        // Zeroes may have to be written, and take their time; where nothing is, nothing is done.
        let at_once = match command {
            words::TRIM => BATCH as u64,
            _ => 1,
        };
        let largest = u64::from(self.told.largest);
        let mut start = range.start;
        while start < range.end {
            let most = self.range.load(Relaxed);
            let part = start..range.end.min(start + most * at_once);
            match self.tell_in(command, flags, part.clone(), most) {
                Ok(()) => start = part.end,
                // The server's limit is for data, but it may have it for all.
                Err(e) if most > largest && is_too_long(&e) => {
                    self.range.store(largest, Relaxed);
                }
                Err(e) => return Err(self.failed(what, &part, &e)),
            }
        }
        Ok(())
    }

    /// By requests of so many bytes, all at once.
    fn tell_in(&self, command: u16, flags: u16, range: Range<u64>, most: u64) -> io::Result<()> {
        let starts = range.clone().step_by(most as usize);
        let requests: Vec<_> = starts
            .map(|offset| Request {
                command,
                flags,
                offset,
                len: most.min(range.end - offset) as u32,
                data: &[],
            })
            .collect();
        self.requests.make(&requests)
    }

    /// Write what does not begin or end where a block does.
    fn write_edges(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let len = total(from);
        let blocks = self.around(offset, len as u64);
        let _alone = self.edges.write().unwrap_or_else(|e| e.into_inner());
        let mut bytes = vec![0; (blocks.end - blocks.start) as usize];
        self.move_blocks(words::READ, &[buffer_mut(&mut bytes)], blocks.start)?;
        let start = (offset - blocks.start) as usize;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { gather(from, &mut bytes[start..start + len]) };
        self.move_blocks(words::WRITE, &[buffer(&bytes)], blocks.start)
    }

    fn write_zeroes_as_data(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeroes = vec![0; len.min(PIECE.into()) as usize];
        in_steps(offset, len, PIECE.into(), |at, n| {
            self.write(&[buffer(&zeroes[..n])], at)
        })
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let len = total(from) as u64;
        if len > 0 && !self.is_whole(offset, len) {
            return self.write_edges(from, offset);
        }
        let _beside = self.edges.read().unwrap_or_else(|e| e.into_inner());
        self.move_blocks(words::WRITE, from, offset)
    }
}

/// It as a disk, which is written or not.
struct Nbd {
    export: Arc<Export>,
    write: bool,
}

impl Nbd {
    /// An error unless this may be written, and is there.
    fn may_write(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.write {
            true => check_range(self.size(), offset, len),
            false => Err(refuse_write()),
        }
    }
}

impl Backend for Nbd {
    fn size(&self) -> u64 {
        self.export.told.size
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    fn block_sizes(&self) -> (u32, u32) {
        let Told {
            smallest,
            preferred,
            ..
        } = self.export.told;
        let smallest = smallest.clamp(512, 4096);
        (smallest, preferred.clamp(smallest, 4096))
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let (export, len) = (&self.export, total(to) as u64);
        check_range(self.size(), offset, len)?;
        if len == 0 || export.is_whole(offset, len) {
            return export.move_blocks(words::READ, to, offset);
        }
        let blocks = export.around(offset, len);
        let mut bytes = vec![0; (blocks.end - blocks.start) as usize];
        export.move_blocks(words::READ, &[buffer_mut(&mut bytes)], blocks.start)?;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes[(offset - blocks.start) as usize..], to) };
        Ok(())
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.may_write(offset, total(from) as u64)?;
        self.export.write(from, offset)
    }

    fn flush(&self) -> io::Result<()> {
        let export = &self.export;
        if !self.write || !export.has(words::SEND_FLUSH) {
            // Nothing was written, or is kept already, or the user has been told.
            return Ok(());
        }
        // One after the other: of two at once the server may tell one alone.
        let mut lost = export.lost.lock().unwrap_or_else(|e| e.into_inner());
        if lost.is_none() {
            let Err(e) = export.requests.make(&[Request::plain(words::FLUSH)]) else {
                return Ok(());
            };
            let text = format!("{}: keep what was written: {e}", export.address);
            *lost = Some((e.kind(), text));
        }
        match &*lost {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.may_write(offset, len)?;
        let export = &self.export;
        let block = u64::from(export.told.smallest);
        // Only what is whole of it.
        let (start, end) = (offset.next_multiple_of(block), offset + len);
        let end = end - end % block;
        if !export.has(words::SEND_TRIM) || start >= end {
            return Ok(());
        }
        let _beside = export.edges.read().unwrap_or_else(|e| e.into_inner());
        export.tell(words::TRIM, 0, "give up", start..end)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.may_write(offset, len)?;
        let export = &self.export;
        if !export.has(words::SEND_WRITE_ZEROES) || !export.is_whole(offset, len) {
            return export.write_zeroes_as_data(offset, len);
        }
        let holes = if may_unmap { 0 } else { words::NO_HOLE };
        let flags = holes | export.kept();
        let _beside = export.edges.read().unwrap_or_else(|e| e.into_inner());
        let range = offset..offset + len;
        export.tell(words::WRITE_ZEROES, flags, "write zeroes of", range)
    }
}
