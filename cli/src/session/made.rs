//! A new file of the host that a command fills: in a session, whose jail has no names, its
//! gofer makes it, and gives it its name when it is complete.

use super::confined::confines_session;
use super::gofer::gofer;
use super::namer;
use crate::copy::gofer::{Finish, Gofer};
use crate::failure::{Failure, Result, SOME_FAILED};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tane_linux::Errno;
use tane_make::file::Unfinished;

/// It goes away with this, unless it gets its name.
pub enum New {
    Own(Unfinished),
    Lent(Lent),
}

/// That of a session.
pub struct Lent {
    gofer: &'static Gofer,
    path: PathBuf,
    file: File,
    is_finished: bool,
}

impl New {
    /// Empty, beside where it will be. `part` tells it from others of this process.
    pub fn create(path: &Path, part: &str) -> Result<New> {
        match lent(path, true)? {
            Some(lent) => Ok(New::Lent(lent)),
            None => Ok(New::Own(Unfinished::create(path, part)?)),
        }
    }

    /// Where it is meanwhile, if this process may know.
    pub fn path(&self) -> Option<&Path> {
        match self {
            New::Own(new) => Some(&new.path),
            New::Lent(_) => None,
        }
    }

    /// For reading and writing; where it is read next is the same for all of them.
    pub fn open(&self) -> Result<File> {
        match self {
            New::Own(new) => Ok(new.open()?),
            New::Lent(lent) => lent.file.try_clone().map_err(|e| self.fail(&e)),
        }
    }

    /// The host's error with it.
    pub fn fail(&self, e: &io::Error) -> Failure {
        match self {
            New::Own(new) => new.fail(e).into(),
            New::Lent(lent) => failed(&lent.path, e),
        }
    }

    /// It is complete, and gets its name. With `replaces` whatever has that goes.
    pub fn finish(self, path: &Path, replaces: bool) -> Result<()> {
        let mut lent = match self {
            New::Own(new) => return namer::finish(new, path),
            New::Lent(lent) => lent,
        };
        lent.is_finished = true;
        let how = if replaces {
            Finish::Replaces
        } else {
            Finish::New
        };
        lent.gofer.finish(how).map_err(|e| match e {
            Errno(libc::EEXIST) => {
                let text = format!("{}: exists already: --force replaces it", path.display());
                Failure::new(SOME_FAILED, text)
            }
            e => Failure::file(path.as_os_str().as_bytes(), e),
        })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.is_finished {
            // If it has died, nothing is left to be asked.
            let _ = self.gofer.finish(Finish::Dropped);
        }
    }
}

/// A file of the host that is there, to be written as it is.
pub enum There {
    Own(File),
    Lent(Lent),
}

impl There {
    /// Of a session, a file alone.
    pub fn open(path: &Path) -> Result<There> {
        // A link is followed here: who opens it for a session follows none.
        let real = path.canonicalize().unwrap_or_else(|_| path.into());
        if let Some(lent) = lent(&real, false)? {
            return Ok(There::Lent(lent));
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        Ok(There::Own(file.map_err(|e| failed(path, &e))?))
    }

    pub fn file(&self) -> &File {
        match self {
            There::Own(file) | There::Lent(Lent { file, .. }) => file,
        }
    }
}

fn failed(path: &Path, e: &io::Error) -> Failure {
    let errno = Errno(e.raw_os_error().unwrap_or(libc::EIO));
    Failure::file(path.as_os_str().as_bytes(), errno)
}

/// Of a session's gofer; None: this process makes its files itself.
fn lent(path: &Path, is_new: bool) -> Result<Option<Lent>> {
    if !confines_session() {
        return Ok(None);
    }
    let denied = || failed(path, &io::Error::from_raw_os_error(libc::EACCES));
    let gofer = gofer().ok_or_else(denied)?;
    let whole = std::path::absolute(path).map_err(|e| failed(path, &e))?;
    let made = gofer.make(whole.as_os_str().as_bytes(), is_new);
    Ok(Some(Lent {
        gofer,
        path: path.into(),
        file: made.map_err(|e| failed(path, &e.into()))?,
        is_finished: false,
    }))
}
