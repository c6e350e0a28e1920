//! What has to be had as a whole before it can be used: in a temporary file that
//! has no name and takes no room for zeros.

use crate::backend::Backend;
use crate::raw::{Access, Raw};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Zeros of this length become holes, in bytes.
const HOLE: usize = 64 << 10;

/// Where such files are: `TMPDIR`, else /var/tmp.
pub(crate) fn place() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// A file of all that `from` has; `verb` says what is done to it, in errors.
pub(crate) fn fill(from: &mut dyn Read, verb: &str) -> io::Result<Arc<dyn Backend>> {
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
    copy(from, &to).map_err(|e| {
        let full = e.kind() == io::ErrorKind::StorageFull;
        let hint = "; set TMPDIR to a place with more room";
        cannot(e, if full { hint } else { "" })
    })?;
    let access = Access {
        write: false,
        direct: false,
    };
    Raw::from_file(to, access).map(|raw| Arc::new(raw) as Arc<dyn Backend>)
}

fn copy(from: &mut dyn Read, to: &File) -> io::Result<()> {
    let mut piece = vec![0; HOLE];
    let mut at = 0;
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
            to.write_all_at(&piece[..len], at)?;
        }
        at += len as u64;
        if len < HOLE {
            return to.set_len(at);
        }
    }
}
