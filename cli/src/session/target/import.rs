//! A volume that gets other bytes as they are, from its start on.

use super::{held, wrong, Access, Target, BLKZEROOUT};
use crate::failure::Result;
use crate::interrupt;
use std::io;
use tane_linux::{Fd, Sync};
use tane_make::file::next_data;

/// Bytes that are zeroed, or looked at, without asking whether to go on.
const STEP: u64 = 64 << 20;
/// What the places are multiples of that a device zeroes by itself: the largest sector.
const SECTOR: u64 = 4096;

/// What has been written so far stays, whatever comes then.
pub struct Import<'t> {
    target: &'t Target,
    device: Fd<'t>,
    done: u64,
}

impl Target {
    pub fn import(&self) -> Result<Import<'_>> {
        let device = self.device(libc::O_RDWR).map_err(|e| self.fail(&e))?;
        Ok(Import {
            target: self,
            device,
            done: 0,
        })
    }

    /// What would be lost of a volume that is not all zeroes.
    pub fn held_anywhere(&self) -> Result<Option<String>> {
        if let Some(held) = self.holds() {
            return Ok(Some(held));
        }
        Ok((!self.is_blank()?).then(|| "data of an unknown kind".into()))
    }

    /// Reads it to the first byte that is not zero; holes of a file of the host are passed over.
    fn is_blank(&self) -> Result<bool> {
        let place = self.place;
        let file =
            place.and_then(|place| Some((held::open(&self.image, Access::Read).ok()?, place)));
        let mut at = 0;
        while at < self.size {
            interrupt::check()?;
            // Not every file tells: that one is read.
            let next = file.as_ref().map(|(file, place)| {
                let next = next_data(file, place + at);
                next.map(|next| next.map_or(self.size, |next| next - place))
            });
            if let Some(Ok(next)) = next {
                at = next.min(self.size);
            }
            let end = (at + STEP).min(self.size);
            let mut is_blank = true;
            let read = self.read_range(&(at..end), |_, _| {
                is_blank = false;
                Err(io::ErrorKind::Interrupted.into())
            });
            if !is_blank {
                return Ok(false);
            }
            read.map_err(|e| self.fail(&e))?;
            at = end;
        }
        Ok(true)
    }
}

impl Import<'_> {
    /// Bytes from the volume's start that are as they are to be, once they are flushed.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Pieces come in the order of their places; what is between them becomes zeroes.
    /// EINTR of `go_on` ends it as an interruption.
    pub fn write(
        &mut self,
        at: u64,
        piece: &[u8],
        go_on: impl Fn(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        self.zero_until(at, &go_on)?;
        go_on(at)?;
        let sys = self.device.sys();
        sys.pwrite_all(&self.device, piece, at).map_err(wrong)?;
        self.done = at + piece.len() as u64;
        Ok(())
    }

    /// The same with zeroes, up to there.
    pub fn zero_until(
        &mut self,
        end: u64,
        go_on: impl Fn(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        while self.done < end {
            go_on(self.done)?;
            let len = (end - self.done).min(STEP);
            let whole = if self.done.is_multiple_of(SECTOR) {
                len / SECTOR * SECTOR
            } else {
                0
            };
            let len = match whole {
                0 => len.min(SECTOR),
                whole => whole,
            };
            match whole {
                0 => {
                    let zeroes = vec![0; len as usize];
                    let sys = self.device.sys();
                    sys.pwrite_all(&self.device, &zeroes, self.done)
                        .map_err(wrong)?;
                }
                _ => self.target.zero(&self.device, self.done, len)?,
            }
            self.done += len;
        }
        Ok(())
    }

    /// All of that is in the image when this returns.
    pub fn flush(&self) -> Result<()> {
        self.target
            .sync(&self.device)
            .map_err(|e| self.target.fail(&e))?;
        self.target.flush()
    }
}

impl Target {
    /// Zeroes whole sectors, as the device does it best.
    pub(super) fn zero(&self, device: &Fd, start: u64, len: u64) -> io::Result<()> {
        let asked = device.sys().ioctl(device, BLKZEROOUT, &mut [start, len]);
        Ok(asked?)
    }

    pub(super) fn sync(&self, device: &Fd) -> io::Result<()> {
        Ok(device.sys().sync(device, Sync::All)?)
    }
}
