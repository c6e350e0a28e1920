//! An image on a web server, read by ranges.
//!
//! ```text
//! url.rs     its address, and who may read it
//! client.rs  requests, tried again while there is hope
//!   tls.rs     https
//!   scope.rs   where a server may send us
//! cache.rs   blocks that were read, and what to read ahead
//! ```

mod cache;
mod client;
mod scope;
mod tls;
mod url;

use crate::backend::{check_range, only_read, Backend};
use crate::buffers::{scatter, slice, total, Buffers};
use crate::temporary;
use cache::{Cache, BLOCK};
use client::{Client, Opened, Pin};
use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
pub use url::{is_beside, Login};
pub(crate) use url::{Url, SCHEMES};

/// Most requests at a time for one read.
const PARALLEL: usize = 4;
/// Most blocks of one request: a megabyte.
const LONGEST: u64 = 16;
/// Most downloads of a whole file that are begun.
const DOWNLOADS: u32 = 3;

/// A file on a server. It has to stay as it was when it was opened: what has
/// another tag, date or length since is an error, never a mixture of both.
struct Http {
    client: Client,
    pin: Pin,
    cache: Mutex<Cache>,
    /// Something that was coming is here, or failed.
    arrived: Condvar,
}

/// Open the file at `url`. `say` is told if all of it has to be downloaded first,
/// because the server has no ranges. `timeout`: how long the server may be silent.
pub(crate) fn open(
    url: Url,
    login: Option<&Login>,
    timeout: Duration,
    say: &dyn Fn(&str),
) -> io::Result<Arc<dyn Backend>> {
    let client = Client::new(url, login, timeout)?;
    let (pin, first) = match client.open(BLOCK)? {
        Opened::Parts(pin, first) => (pin, first),
        Opened::Whole => return download(&client, say),
    };
    let mut cache = Cache::default();
    cache.put(0, first.into());
    Ok(Arc::new(Http {
        client,
        pin,
        cache: Mutex::new(cache),
        arrived: Condvar::new(),
    }))
}

fn download(client: &Client, say: &dyn Fn(&str)) -> io::Result<Arc<dyn Backend>> {
    let named = |e: io::Error| match e.to_string() {
        text if text.starts_with(client.url().as_str()) => e,
        text => io::Error::new(e.kind(), format!("{}: {text}", client.url())),
    };
    let mut downloads = 0;
    loop {
        let (body, len) = client.whole()?;
        if downloads == 0 {
            let len = len.map_or(String::new(), |len| format!(" {len} bytes"));
            say(&format!(
                "the server does not send parts of files: downloading all{len} of it into a \
                 temporary file in {} first",
                temporary::place().display()
            ));
        }
        downloads += 1;
        let mut body = Counted { body, left: len };
        match temporary::fill(&mut body, "downloaded", u64::MAX) {
            Ok(_) if body.left.is_some_and(|left| left > 0) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Ok(file) => return Ok(file),
            // The room for it will not grow.
            Err(e) if e.kind() == io::ErrorKind::StorageFull => return Err(named(e)),
            Err(e) if downloads == DOWNLOADS => return Err(named(e)),
            Err(_) => {}
        }
        if downloads == DOWNLOADS {
            let text = "the server ended the connection too early, each time";
            return Err(named(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
    }
}

struct Counted<R> {
    body: R,
    left: Option<u64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.body.read(to)?;
        self.left = self.left.map(|left| left.saturating_sub(n as u64));
        Ok(n)
    }
}

impl Http {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Read these runs of blocks, several at a time. Errors: those of the blocks
    /// that are `wanted`.
    fn fetch(&self, runs: Vec<Range<u64>>, wanted: &Range<u64>) -> io::Result<()> {
        let split = |run: Range<u64>| {
            let starts = (run.start..run.end).step_by(LONGEST as usize);
            starts.map(move |start| start..run.end.min(start + LONGEST))
        };
        let pieces: Vec<_> = runs.into_iter().flat_map(split).collect();
        let _claim = Claim(self, &pieces);
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let work = || {
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(e) = self.piece(piece.clone()) {
                    if piece.start < wanted.end && wanted.start < piece.end {
                        *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..PARALLEL.min(pieces.len()) {
                let helper = std::thread::Builder::new();
                // Without helpers it takes longer.
                let _ = helper.spawn_scoped(scope, work);
            }
            work();
        });
        let failed = failed.into_inner().unwrap_or_else(|e| e.into_inner());
        failed.map_or(Ok(()), Err)
    }

    /// Read some blocks by one request.
    fn piece(&self, blocks: Range<u64>) -> io::Result<()> {
        let start = blocks.start * BLOCK;
        let end = (blocks.end * BLOCK).min(self.pin.size);
        let mut bytes = vec![0; (end - start) as usize];
        let result = self.client.fetch(&self.pin, start, &mut bytes);
        let mut cache = self.cache();
        for (block, bytes) in blocks.zip(bytes.chunks(BLOCK as usize)) {
            match result {
                Ok(()) => cache.put(block, bytes.into()),
                Err(_) => cache.failed(block),
            }
        }
        drop(cache);
        self.arrived.notify_all();
        result
    }

    fn blocks(&self, offset: u64, len: u64) -> Range<u64> {
        offset / BLOCK..(offset + len).div_ceil(BLOCK)
    }
}

/// Blocks that are coming. What is not here at its end, whatever ended it, is not
/// coming any more.
struct Claim<'a>(&'a Http, &'a [Range<u64>]);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut cache = self.0.cache();
        self.1
            .iter()
            .cloned()
            .flatten()
            .for_each(|block| cache.failed(block));
        drop(cache);
        self.0.arrived.notify_all();
    }
}

/// Copy what a range has of these blocks.
fn copy_out(have: &HashMap<u64, Arc<[u8]>>, to: Buffers, offset: u64) {
    let len = total(to);
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let Some(bytes) = have.get(&(at / BLOCK)) else {
            return;
        };
        let within = (at % BLOCK) as usize;
        let n = (bytes.len() - within).min(len - done);
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes[within..within + n], &slice(to, done, n)) };
        done += n;
    }
}

impl Backend for Http {
    fn size(&self) -> u64 {
        self.pin.size
    }

    only_read!();

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to) as u64;
        check_range(self.pin.size, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let wanted = self.blocks(offset, len);
        let end = self.pin.size.div_ceil(BLOCK);
        let mut have = HashMap::new();
        loop {
            let mut cache = self.cache();
            for block in wanted.clone() {
                if let Some(bytes) = cache.get(block) {
                    have.insert(block, bytes);
                }
            }
            if have.len() as u64 == wanted.end - wanted.start {
                drop(cache);
                copy_out(&have, to, offset);
                return Ok(());
            }
            let runs = cache.missing(wanted.clone(), end);
            if runs.is_empty() {
                // Others are reading the rest. If they fail, we try.
                let coming = |cache: &Cache, b: u64| have.contains_key(&b) || cache.is_coming(b);
                while wanted.clone().all(|b| coming(&cache, b)) {
                    let waited = self.arrived.wait(cache);
                    cache = waited.unwrap_or_else(|e| e.into_inner());
                }
                continue;
            }
            drop(cache);
            self.fetch(runs, &wanted)?;
        }
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        let len = total(to) as u64;
        check_range(self.pin.size, offset, len)?;
        let Ok(mut cache) = self.cache.try_lock() else {
            return Ok(false);
        };
        let mut have = HashMap::new();
        for block in self.blocks(offset, len) {
            match cache.get(block) {
                Some(bytes) => have.insert(block, bytes),
                None => return Ok(false),
            };
        }
        drop(cache);
        copy_out(&have, to, offset);
        Ok(true)
    }
}
