//! Files of the host are opened here, but for those that are made. In a jail in which this
//! process opens nothing, another one does it and hands them over.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// Opens a file that is there, for reading, and for writing if it is told so, with these
/// flags of open(2) beside. Its errors are those of open(2).
type Opener = dyn Fn(&Path, bool, i32) -> io::Result<File> + Send + Sync;

static OPENER: OnceLock<Box<Opener>> = OnceLock::new();

/// From now on this function opens what images are made of, in all threads of this process:
/// it is given the path, whether it is written, and flags of open(2) beside. Of a second
/// one nothing is heard.
pub fn open_by(opener: impl Fn(&Path, bool, i32) -> io::Result<File> + Send + Sync + 'static) {
    let _ = OPENER.set(Box::new(opener));
}

/// A file that is there, by whoever opens files in this process.
///
/// Errors: those of open(2).
pub fn open_host_file(path: &Path, write: bool, flags: i32) -> io::Result<File> {
    if let Some(opener) = OPENER.get() {
        return opener(path, write, flags);
    }
    let mut options = OpenOptions::new();
    options.read(true).write(write).custom_flags(flags);
    options.open(path)
}
