//! Many files, whole, with one call of this library.

use crate::error::{errno_of, Error, Result};
use crate::file::File;
use crate::host_blocks::HostBlocks;
use crate::metadata::FileType;
use crate::mount::Mount;
use crate::open_options::OpenOptions;
use std::path::Path;
use tane_images::{HostRange, HostReads};

impl Mount {
    /// Read files, whole, one behind the other into `to`: the length of one after the
    /// other, or why it cannot be read, and then it takes no room. They are as many as
    /// there was room for: the next one is at least as long as what is left of `to`.
    ///
    /// What the host has in one piece ([`Mount::host_blocks`]) it reads itself, that of many
    /// files at once.
    pub fn read_files<P: AsRef<Path>>(
        &self,
        paths: impl IntoIterator<Item = P>,
        to: &mut [u8],
    ) -> Vec<Result<usize>> {
        let mut options = OpenOptions::new();
        // A FIFO must not keep the others waiting.
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let blocks = self.host_blocks();
        let (mut later, mut done, mut used) = (HostReads::default(), Vec::new(), 0);
        for path in paths {
            let path = path.as_ref();
            let free = &mut to[used..];
            let read = options.open(self, path).and_then(|file| {
                let range = blocks.and_then(|blocks| on_host(blocks, &file, free.len()));
                if let Some(range) = range {
                    let len = range.len as usize;
                    later.add(range, used, done.len());
                    return Ok(Some(len));
                }
                read(&file, free).map_err(|error| {
                    let errno = errno_of(&error).unwrap_or(libc::EIO);
                    Error::from_source(errno, "read", error).with_path(path)
                })
            });
            let read = match read {
                Ok(None) => break,
                Ok(Some(len)) => Ok(len),
                Err(error) => Err(error),
            };
            used += read.as_ref().unwrap_or(&0);
            done.push(read);
        }
        let failed = later.read(&mut to[..used]);
        if !failed.is_empty() {
            take_out(&mut done, failed, to);
        }
        done
    }
}

/// Where the host has all of a file that is shorter than `room`.
fn on_host(blocks: &HostBlocks, file: &File, room: usize) -> Option<HostRange> {
    let about = file.metadata().ok()?;
    let usual = about.file_type() == FileType::File && about.dev() == blocks.device();
    // An empty one may be one of those that do not know their size.
    let fits = (1..room as u64).contains(&about.len());
    match usual && fits && blocks.has_plain(&file.fd) {
        true => blocks.whole(&file.fd, about.len()),
        false => None,
    }
}

/// None: it is as long as `to`, or longer.
fn read(file: &File, to: &mut [u8]) -> std::io::Result<Option<usize>> {
    let mut done = 0;
    while done < to.len() {
        match file.read_at(&mut to[done..], done as u64)? {
            0 => return Ok(Some(done)),
            n => done += n,
        }
    }
    Ok(None)
}

/// Some could not be read after all: what is behind them moves up.
fn take_out(done: &mut [Result<usize>], failed: Vec<(usize, i32)>, to: &mut [u8]) {
    let mut lengths: Vec<_> = done.iter().map(|d| *d.as_ref().unwrap_or(&0)).collect();
    let whole = lengths.clone();
    for (at, errno) in failed {
        lengths[at] = 0;
        done[at] = Err(Error::new(errno, "read"));
    }
    let (mut from, mut into) = (0, 0);
    for (whole, kept) in whole.into_iter().zip(lengths) {
        to.copy_within(from..from + kept, into);
        from += whole;
        into += kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_behind_one_that_cannot_be_read_move_up() {
        let mut to = *b"aaabbccccd..";
        let mut done = vec![Ok(3), Ok(2), Err(Error::new(2, "open")), Ok(4), Ok(1)];
        take_out(&mut done, vec![(3, libc::EIO), (0, libc::EIO)], &mut to);
        assert_eq!(&to[..3], b"bbd");
        let fared: Vec<_> = done
            .iter()
            .map(|d| d.as_ref().map_err(Error::errno))
            .collect();
        let (lost, eio) = (Err(libc::ENOENT), Err(libc::EIO));
        assert_eq!(fared, [eio, Ok(&2), lost, eio, Ok(&1)]);
    }
}
