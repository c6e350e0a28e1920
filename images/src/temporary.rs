//! What has to be had as a whole before it can be used: in a temporary file that
//! has no name and takes no room for zeros.

use crate::backend::Backend;
use crate::raw::{Access, Raw};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Zeros of this length become holes, in bytes.
const HOLE: usize = 64 << 10;

/// Where such files are: `TMPDIR`, else /var/tmp.
pub(crate) fn place() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// What is left free of the place, in bytes: others need it too, and so does the system.
const SPARED: u64 = 1 << 30;
/// Or of small ones, such a part.
const PART: u64 = 16;
/// The place is asked after so many bytes.
const STEP: u64 = 16 << 20;

/// A file of all that `from` has, `most` bytes without zeros at most; `verb` says what is
/// done to it, in errors.
pub(crate) fn fill(from: &mut dyn Read, verb: &str, most: u64) -> io::Result<Arc<dyn Backend>> {
    let place = place();
    let cannot = |e: io::Error, hint: &str| {
        let text = format!("cannot be {verb} into {}: {e}{hint}", place.display());
        io::Error::new(e.kind(), text)
    };
    let to = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(&place)
        .map_err(|e| cannot(e, "; set TMPDIR to another place"))?;
    copy(from, &to, most).map_err(|e| {
        let full = e.kind() == io::ErrorKind::StorageFull;
        let hint = "; set TMPDIR to a place with more room";
        let unpack = "; unpack it yourself first if you trust it";
        match e.kind() {
            _ if full => cannot(e, hint),
            io::ErrorKind::FileTooLarge => cannot(e, unpack),
            _ => cannot(e, ""),
        }
    })?;
    let access = Access {
        write: false,
        direct: false,
    };
    Raw::from_file(to, access).map(|raw| Arc::new(raw) as Arc<dyn Backend>)
}

/// An error unless there is room for more, and for others.
fn check_room(to: &File) -> io::Result<()> {
    // SAFETY: a structure of ours, which the call fills.
    let found = unsafe {
        let mut found = std::mem::zeroed::<libc::statvfs>();
        match libc::fstatvfs(to.as_raw_fd(), &raw mut found) {
            0 => found,
            _ => return Err(io::Error::last_os_error()),
        }
    };
    // Some have no size to tell; a write says when they are full.
    if found.f_blocks == 0 {
        return Ok(());
    }
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let spared = (bytes(found.f_blocks) / PART).min(SPARED);
    match bytes(found.f_bavail) < spared + STEP {
        true => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("it would leave less than {spared} bytes free there"),
        )),
        false => Ok(()),
    }
}

fn copy(from: &mut dyn Read, to: &File, most: u64) -> io::Result<()> {
    let mut piece = vec![0; HOLE];
    let (mut at, mut written, mut checked) = (0, 0, None);
    loop {
        let mut len = 0;
        while len < HOLE {
            match from.read(&mut piece[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if piece[..len].iter().any(|b| *b != 0) {
            written += len as u64;
            if written > most {
                let text = format!("it holds more than {most} bytes, too much for its size");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            if checked.is_none_or(|checked| written >= checked + STEP) {
                check_room(to)?;
                checked = Some(written);
            }
            to.write_all_at(&piece[..len], at)?;
        }
        at += len as u64;
        if len < HOLE {
            return to.set_len(at);
        }
    }
}
