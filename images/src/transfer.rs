//! Reading and writing host files to the last byte: short transfers go on,
//! interrupted ones start again, anything else is an error.

use crate::buffers::{clear, slice_into, total, Buffers};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The host takes at most this many buffers in one call.
pub(crate) const IOV_MAX: usize = 1024;

/// Call `once`, which says how many bytes it moved, until all are moved. 0 ends
/// it early. Returns the number of bytes moved.
pub(crate) fn complete(
    buffers: Buffers,
    offset: u64,
    mut once: impl FnMut(Buffers, u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let wanted = total(buffers);
    let mut done = 0;
    // The rest after a short transfer; the common case needs none. Nor may the
    // host get as many empty buffers as it takes: 0 would look like the end.
    let mut rest = Vec::new();
    let mut copied = buffers.len() > IOV_MAX;
    if copied {
        slice_into(buffers, 0, wanted, &mut rest);
    }
    while done < wanted {
        let now = if copied { &rest[..] } else { buffers };
        match once(&now[..now.len().min(IOV_MAX)], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if done < wanted {
            slice_into(buffers, done, wanted - done, &mut rest);
            copied = true;
        }
    }
    Ok(done)
}

/// Fill `to`, with zeros behind the end of the file; how many bytes the file had.
pub(crate) fn read_full(file: &File, to: Buffers, offset: u64) -> io::Result<usize> {
    let done = complete(to, offset, |part, at| once(file, Way::In, part, at, 0))?;
    let wanted = total(to);
    if done < wanted {
        let mut rest = Vec::new();
        slice_into(to, done, wanted - done, &mut rest);
        // SAFETY: as above.
        unsafe { clear(&rest) };
    }
    Ok(done)
}

/// Write all of `from`.
pub(crate) fn write_full(file: &File, from: Buffers, offset: u64) -> io::Result<()> {
    let done = complete(from, offset, |part, at| once(file, Way::Out, part, at, 0))?;
    if done < total(from) {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}

/// What a transfer that may not wait came to.
pub(crate) enum AtOnce {
    Done,
    /// It would have waited, or did a part only.
    WouldBlock,
    /// This file can never say.
    Unsupported,
}

/// preadv2(2) with RWF_NOWAIT: only what the page cache holds.
pub(crate) fn read_at_once(file: &File, to: Buffers, offset: u64) -> AtOnce {
    at_once(file, Way::In, to, offset)
}

/// pwritev2(2) with RWF_NOWAIT. Without that flag a buffered write may wait: for
/// the rest of a page, for a journal, for the share of dirty memory to fall.
pub(crate) fn write_at_once(file: &File, from: Buffers, offset: u64) -> AtOnce {
    at_once(file, Way::Out, from, offset)
}

fn at_once(file: &File, way: Way, buffers: Buffers, offset: u64) -> AtOnce {
    if buffers.len() > IOV_MAX {
        return AtOnce::WouldBlock;
    }
    match once(file, way, buffers, offset, libc::RWF_NOWAIT) {
        Ok(n) if n == total(buffers) => AtOnce::Done,
        // Other errors are for the blocking way to meet again, and to report.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            AtOnce::Unsupported
        }
        _ => AtOnce::WouldBlock,
    }
}

/// fallocate(2) of a range that may be empty.
pub(crate) fn fallocate(file: &File, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: no memory involved.
        let done = unsafe {
            libc::fallocate(
                file.as_raw_fd(),
                mode,
                offset as libc::off_t,
                len as libc::off_t,
            )
        };
        if done == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
}

/// Into the buffers, or out of them.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// One call of the host's preadv2(2) or pwritev2(2), of at most `IOV_MAX` buffers.
fn once(file: &File, way: Way, buffers: Buffers, offset: u64, flags: i32) -> io::Result<usize> {
    let call = match way {
        Way::In => libc::preadv2,
        Way::Out => libc::pwritev2,
    };
    let (at, count) = (buffers.as_ptr(), buffers.len() as i32);
    // SAFETY: the buffers are the caller's; the host kernel fills or reads them.
    let n = unsafe { call(file.as_raw_fd(), at, count, offset as libc::off_t, flags) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{buffer, gather};

    /// A host that moves few bytes at a time and is interrupted now and then.
    #[test]
    fn short_and_interrupted_transfers_are_completed() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let parts: Vec<_> = bytes.chunks(333).map(buffer).collect();
        let mut medium = vec![0; 6000];
        let mut turn = 0;
        let done = complete(&parts, 1000, |part, at| {
            turn += 1;
            if turn % 3 == 0 {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            let n = total(part).min(turn * 7 % 400 + 1);
            // SAFETY: the buffers are `bytes`.
            unsafe { gather(part, &mut medium[at as usize..at as usize + n]) };
            Ok(n)
        });
        assert_eq!(done.unwrap(), 5000);
        assert_eq!(medium[1000..], bytes[..]);
    }

    #[test]
    fn an_error_after_a_short_transfer_is_an_error() {
        let bytes = [0; 100];
        let mut turn = 0;
        let result = complete(&[buffer(&bytes)], 0, |_, _| {
            turn += 1;
            match turn {
                1 => Ok(50),
                _ => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            }
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
}
