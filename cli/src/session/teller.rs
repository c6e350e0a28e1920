//! Who reads directories of the host for a process with Linux: one without, which tells all
//! that is in one and hears nothing; of a session, which directory it is.

use super::child::{self, keep_only, End};
use super::confined::confines_session;
use super::jail;
use crate::compare::told::{answer, ask, tell, Told, Wanted};
use crate::failure::{Failure, Result};
use crate::session::Global;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tane::jail::Jail;
use tane_linux::{Errno, Host, Kind, Sys};

/// Those of a session: two directories can be compared with each other.
const AT_ONCE: usize = 2;

/// Lines to those of a session that tell nothing at the moment.
static IDLE: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Start one, for this directory. Before the jail is entered.
pub fn start(path: &Path, wanted: &Wanted, global: &Global) -> Result<Told> {
    let places = [path.to_owned()];
    let line = fork(&places, global, |line, _| {
        tell(line, path, wanted, || Ok(true))
    });
    line.map(Told::new)
}

/// Start one that tells what an image is to be made of; the line to it. Before the jail is
/// entered.
pub(super) fn start_for_image(dir: &Path, global: &Global) -> Result<File> {
    let wanted = Wanted {
        targets: true,
        xattrs: true,
        flags: true,
        ..Wanted::names(usize::MAX)
    };
    // The directory that a symlink leads to.
    let path = dir.join("");
    let places = [path.clone()];
    fork(&places, global, |line, _| {
        tell(line, &path, &wanted, || Ok(true))
    })
}

/// Start those of a session, which read what lies beneath these. Before the jail is entered.
pub(super) fn start_for_session(shared: &[PathBuf], global: &Global) -> Result<()> {
    for _ in 0..AT_ONCE {
        let line = fork(shared, global, |line, own| {
            answer(line, |path| may_tell(path, own))
        });
        back(line?);
    }
    Ok(())
}

/// Where there is no Landlock, this alone says no.
fn may_tell(path: &Path, own: &Jail) -> io::Result<()> {
    match own.names(&path.canonicalize()?, false) {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

fn back(line: File) {
    IDLE.lock().unwrap_or_else(|e| e.into_inner()).push(line);
}

/// Whether directories of the host are told here, whose jail opens none.
pub fn tells() -> bool {
    confines_session()
}

/// In a session: what is in a directory of the host.
pub fn told(path: &Path, wanted: &Wanted) -> std::result::Result<Told, Errno> {
    let idle = || IDLE.lock().unwrap_or_else(|e| e.into_inner()).pop();
    let line = idle().ok_or(Errno(libc::EACCES))?;
    // Where this process is (lcd), the other one does not know.
    let asked = std::path::absolute(path).and_then(|whole| ask(&line, &whole, wanted));
    match asked {
        Ok(()) => Ok(Told::asked(line, back)),
        Err(e) => Err(Errno(e.raw_os_error().unwrap_or(libc::EPIPE))),
    }
}

/// In a session: the names in a directory of the host, and what they are, in the order of
/// names.
pub fn list(dir: &Path) -> std::result::Result<Vec<(Vec<u8>, Kind)>, Errno> {
    let gone = |_| Errno(libc::EPIPE);
    let mut told = told(&dir.join(""), &Wanted::names(1))?;
    let top = told.next().map_err(gone)?.ok_or(Errno(libc::EPIPE))?;
    top.stat?;
    top.listed?;
    let mut found = Vec::new();
    while let Some(entry) = told.next().map_err(gone)? {
        // What has gone meanwhile is not there.
        if let Ok(stat) = &entry.stat {
            found.push((entry.name.to_bytes().to_vec(), stat.kind()));
        }
    }
    Ok(found)
}

/// The line to a process that does this with the other end, in a jail that lets it read these.
fn fork(
    places: &[PathBuf],
    global: &Global,
    work: impl FnOnce(&File, &Jail) -> io::Result<()>,
) -> Result<File> {
    let fail = |e: io::Error| Failure::image(format!("the process that reads on the host: {e}"));
    let (near, far) = UnixStream::pair().map_err(fail)?;
    let teller = child::start(End::Killed, || {
        let line = File::from(OwnedFd::from(far));
        work(&line, &confine(&line, places, global)?)
    });
    teller.map_err(fail)?;
    Ok(OwnedFd::from(near).into())
}

fn confine(line: &File, places: &[PathBuf], global: &Global) -> io::Result<Jail> {
    // SAFETY: no memory involved. It has no terminal.
    unsafe { libc::setsid() };
    keep_only(vec![line.as_raw_fd()])?;
    Sys(&Host).raise_open_files();
    let mut own = Jail::new();
    // Something can be opened: a directory that is not there is told as that.
    own.read("/dev/null").attributes(true).hands(true);
    for path in places.iter().filter(|path| path.exists()) {
        own.read(path);
    }
    jail::limit_memory(&mut own, global);
    own.enter().map_err(io::Error::other)?;
    Ok(own)
}
