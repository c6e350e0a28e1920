//! The processes that write copies on the host, and read what is copied from there: both are
//! started before an image is met.

use super::child::{fork, keep_only, run, End, Forked};
use super::jail;
use crate::copy::gofer::lender::{self, Lender, Loan};
use crate::copy::gofer::{serve, Gofer, Guard, Memory, Terms};
use crate::failure::{Failure, Result};
use crate::session::guard;
use crate::session::Global;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tane::jail::Jail;
use tane_linux::{Host, Sys};

static GOFER: OnceLock<Gofer> = OnceLock::new();
static LENDER: OnceLock<Lender> = OnceLock::new();

/// That of this command, if its jail does not let it write copies itself.
pub fn gofer() -> Option<&'static Gofer> {
    GOFER.get()
}

/// Who reads what is copied from the host, if the jail does not let this process.
pub fn lender() -> Option<&'static Lender> {
    LENDER.get()
}

/// Start it, for these files and directories. Before the jail is entered.
pub(super) fn start_lender(
    sources: &[PathBuf],
    terms: lender::Terms,
    global: &Global,
) -> Result<()> {
    let fail = |e: io::Error| Failure::image(format!("the process that reads on the host: {e}"));
    let mut own = Jail::new();
    // Something can be opened: a source that is not there is told as that, and no wrong.
    own.read("/dev/null");
    for path in sources {
        own.read(path);
    }
    own.attributes(true);
    jail::limit_memory(&mut own, global);
    let loan = Loan::new().map_err(fail)?;
    let (near, far) = line().map_err(fail)?;
    match fork(End::Killed).map_err(fail)? {
        Forked::Child => run(|| {
            let memory = loan.lend();
            confine(&far, Vec::new(), &own)?;
            lender::serve(&far, &memory, terms)
        }),
        Forked::Starter => {}
    }
    drop(far);
    let memory = loan.borrow().map_err(fail)?;
    let _ = LENDER.set(Lender::new(near, memory, &terms).map_err(fail)?);
    Ok(())
}

/// Start it, for copies into these directories; of a session, also for files that are filled
/// in `shared`, and read there. Before the jail is entered.
pub(super) fn start(
    trees: &[PathBuf],
    shared: &[PathBuf],
    terms: Terms,
    global: &Global,
) -> Result<()> {
    let fail = |e: io::Error| Failure::image(format!("the process that writes on the host: {e}"));
    let in_session = matches!(terms, Terms::Session { .. });
    if in_session {
        guard::for_session(trees).map_err(fail)?;
    }
    let mut own = Jail::new();
    // Something can be opened: a place that is not there is told as that, and no wrong.
    own.read("/dev/null");
    for path in trees {
        own.write_beneath(path);
    }
    let devices = matches!(&terms, Terms::Copy { settings, .. } if settings.devices);
    for path in shared.iter().filter(|path| in_session && path.exists()) {
        own.read(path);
    }
    own.metadata(true).devices(devices).handed(true);
    own.hands(in_session);
    jail::limit_memory(&mut own, global);
    let memory = Memory::new().map_err(fail)?;
    let end = if in_session {
        End::Unheard
    } else {
        End::Killed
    };
    let (near, far) = line().map_err(fail)?;
    match fork(end).map_err(fail)? {
        Forked::Child => run(|| {
            confine(&far, guard::descriptors(), &own)?;
            serve(&far, memory, terms, &Guards)
        }),
        Forked::Starter => {}
    }
    drop(far);
    guard::hand_over();
    let _ = GOFER.set(Gofer::new(near, memory, &terms).map_err(fail)?);
    Ok(())
}

/// This process's end of the socket between the two, and the other one's.
fn line() -> io::Result<(UnixStream, File)> {
    let (near, far) = UnixStream::pair()?;
    Ok((near, OwnedFd::from(far).into()))
}

/// Those of the command that started it.
struct Guards;

impl Guard for Guards {
    fn begin(&self, place: Option<&Path>) {
        guard::begin_in_session(place);
    }

    fn refusal(&self, below: &[u8]) -> Option<String> {
        guard::refusal(below)
    }
}

/// In a gofer, which needs these descriptors beside its socket.
fn confine(socket: &File, mut kept: Vec<RawFd>, jail: &Jail) -> io::Result<()> {
    // SAFETY: no memory involved. It has no terminal.
    unsafe { libc::setsid() };
    kept.push(socket.as_raw_fd());
    keep_only(kept)?;
    let host = Sys(&Host);
    host.raise_open_files();
    host.umask(0);
    jail.enter().map_err(io::Error::other).map(drop)
}
