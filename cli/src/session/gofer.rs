//! The processes that write copies on the host, and read what is copied from there: both are
//! started before an image is met.

use super::jail;
use crate::args::Global;
use crate::copy::gofer::lender::{self, Lender, Loan};
use crate::copy::gofer::{serve, Gofer, Guard, Memory, Terms};
use crate::failure::{Failure, Result};
use crate::guard;
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
    let forked = fork().map_err(fail)?;
    let near = match forked {
        Forked::Gofer(far) => run(|| {
            let memory = loan.lend();
            confine(&far, Vec::new(), &own, End::Killed)?;
            lender::serve(&far, &memory, terms)
        }),
        Forked::Starter(near) => near,
    };
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
    let near = match fork().map_err(fail)? {
        Forked::Gofer(far) => run(|| {
            let end = if in_session {
                End::Unheard
            } else {
                End::Killed
            };
            confine(&far, guard::descriptors(), &own, end)?;
            serve(&far, memory, terms, &Guards)
        }),
        Forked::Starter(near) => near,
    };
    guard::hand_over();
    let _ = GOFER.set(Gofer::new(near, memory, &terms).map_err(fail)?);
    Ok(())
}

/// Which of two processes this is, and its end of the socket between them.
enum Forked {
    Starter(UnixStream),
    Gofer(File),
}

fn fork() -> io::Result<Forked> {
    let (near, far) = UnixStream::pair()?;
    // SAFETY: no kernel runs yet. The only other thread waits for signals, and holds
    // nothing that the child could wait for.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Gofer(File::from(OwnedFd::from(far)))),
        _ => Ok(Forked::Starter(near)),
    }
}

/// In a gofer: whatever happens, it does not go on as its parent.
fn run(work: impl FnOnce() -> io::Result<()>) -> ! {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
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

/// How a gofer ends when the command does.
#[derive(PartialEq)]
enum End {
    Killed,
    /// By itself, as nobody asks any more: files that have got no name go before.
    Unheard,
}

/// In a gofer, which needs these descriptors beside its socket.
fn confine(socket: &File, mut kept: Vec<RawFd>, jail: &Jail, end: End) -> io::Result<()> {
    // SAFETY: no memory involved. It has no terminal.
    unsafe {
        if end == End::Killed {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        libc::setsid();
    }
    kept.push(socket.as_raw_fd());
    keep_only(kept)?;
    let host = Sys(&Host);
    host.raise_open_files();
    host.umask(0);
    jail.enter().map_err(io::Error::other).map(drop)
}

/// Closes all descriptors but these; the standard ones lead nowhere.
pub fn keep_only(mut kept: Vec<RawFd>) -> io::Result<()> {
    kept.sort_unstable();
    // SAFETY: descriptors of this process, which uses no others.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null < 0 {
            return Err(io::Error::last_os_error());
        }
        for standard in (0..3).filter(|fd| !kept.contains(fd)) {
            libc::dup2(null, standard);
        }
        let mut next = 3;
        for fd in kept.into_iter().filter(|fd| *fd >= 3) {
            close(next, fd - 1);
            next = fd + 1;
        }
        close(next, RawFd::MAX);
    }
    Ok(())
}

fn close(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: none of these is used by anybody.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            // Linux before 5.9.
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(0, 1 << 20) as RawFd;
            for fd in first..=last.min(most) {
                libc::close(fd);
            }
        }
    }
}
