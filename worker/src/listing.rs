//! Directories of a worker, as it lists them.

use crate::client::Worker;
use crate::failure::{Failure, Result};
use crate::list::{self, Listing};
use crate::operations::special;
use crate::wire::{Reader, Wire};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// A listing that a worker makes, many entries with each message.
pub struct Dir {
    worker: Arc<Worker>,
    mount: u32,
    path: OsString,
    flags: u32,
    /// 0: the worker is done with it.
    handle: u32,
    bytes: Vec<u8>,
    at: usize,
    over: bool,
}

impl Dir {
    /// `mount`: its handle; `flags` as for [`crate::Mount::list`].
    pub(crate) fn new(worker: &Arc<Worker>, mount: u32, path: &OsStr, flags: u32) -> Result<Dir> {
        let mut dir = Dir {
            worker: worker.clone(),
            mount,
            path: path.to_owned(),
            flags,
            handle: 0,
            bytes: Vec::new(),
            at: 0,
            over: false,
        };
        dir.start()?;
        Ok(dir)
    }

    fn start(&mut self) -> Result<()> {
        let mut call = self.worker.call(special::LIST, self.mount)?;
        self.path.as_os_str().put(&mut call.arguments())?;
        self.flags.put(&mut call.arguments())?;
        let answer = call.wait()?;
        let handle = answer.count(u32::MAX as usize)?;
        let bytes = answer.copy()?;
        drop(answer);
        self.worker.end(self.handle);
        self.handle = handle as u32;
        (self.bytes, self.at, self.over) = (bytes, 0, false);
        Ok(())
    }

    /// Start again.
    pub fn rewind(&mut self) -> Result<()> {
        self.start()
    }

    /// None at the end.
    #[allow(clippy::should_implement_trait)] // it can fail
    pub fn next(&mut self) -> Result<Option<Listing>> {
        if self.over {
            return Ok(None);
        }
        if self.at == self.bytes.len() {
            self.more()?;
        }
        let mut from = Reader::new(&self.bytes[self.at..]);
        let next = list::parse(&mut from);
        self.at = self.bytes.len() - from.left();
        self.over = !matches!(next, Ok(Some(_)));
        next
    }

    fn more(&mut self) -> Result<()> {
        let call = self.worker.call(special::LIST_MORE, self.handle)?;
        let answer = call.wait()?;
        let bytes = answer.copy()?;
        if bytes.is_empty() {
            return Err(Failure::new(
                libc::EIO,
                "the worker's listing does not go on",
            ));
        }
        drop(answer);
        (self.bytes, self.at) = (bytes, 0);
        Ok(())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        self.worker.end(self.handle);
    }
}

impl std::fmt::Debug for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dir of worker {}", self.worker.pid())
    }
}
