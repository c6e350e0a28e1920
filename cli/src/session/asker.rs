//! Who asks for passphrases, where somebody can type them: a child of this process, which
//! has the terminal for its input and meets no image. This process, where Linux is, then
//! reads nothing that is typed, and takes lines one at a time, as answers to what it asked.

use super::child::{self, keep_only, End};
use super::secrets::typed;
use crate::interrupt;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::Mutex;
use tane::jail::Jail;

/// Private memory of the child, in bytes.
const MEMORY: u64 = 64 << 20;
/// What is asked for, by number.
const WHAT: [&str; 2] = ["the encrypted image", "the encrypted volume"];

struct Asker {
    ask: PipeWriter,
    hear: PipeReader,
}

static ASKER: Mutex<Option<Asker>> = Mutex::new(None);
/// Its two pipes once more, for a thread that ends all while another one waits for an
/// answer; -1: there is none.
static ENDS: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
/// How long its end is waited for, in milliseconds.
const PATIENCE: i32 = 1000;

/// Start it if standard input is a terminal, which from then on leads nowhere. An argument
/// may say that it is read: then it stays. Before the jail is entered.
pub fn start() -> io::Result<()> {
    if !io::stdin().is_terminal() || std::env::args_os().any(|arg| is_input(&arg)) {
        return Ok(());
    }
    let ((questions, ask), (hear, answers)) = (io::pipe()?, io::pipe()?);
    child::start(End::Unheard, || serve(questions, answers))?;
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: nobody reads standard input yet.
    if unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for (end, fd) in ENDS.iter().zip([ask.as_raw_fd(), hear.as_raw_fd()]) {
        end.store(fd, Relaxed);
    }
    *ASKER.lock().unwrap_or_else(|e| e.into_inner()) = Some(Asker { ask, hear });
    Ok(())
}

/// Nobody is asked any more, as who serves a mount: it ends, and has left the terminal as it was when this
/// returns.
#[cfg(feature = "fuse")]
pub fn end() {
    end_it(&mut ASKER.lock().unwrap_or_else(|e| e.into_inner()));
}

fn end_it(asker: &mut Option<Asker>) {
    if let Some(Asker { ask, hear }) = asker.take() {
        let [number, _] = [0, 1].map(|at| ENDS[at].swap(-1, Relaxed));
        if number < 0 {
            // Another thread ends all, and has closed it.
            std::mem::forget((ask, hear));
            return;
        }
        drop(ask);
        await_end(hear.as_raw_fd());
    }
}

/// The same, whatever other threads wait for: this process ends right after.
pub fn abandon() {
    let [ask, hear] = [0, 1].map(|at| ENDS[at].swap(-1, Relaxed));
    if ask >= 0 {
        // SAFETY: nobody opens anything in its place any more.
        unsafe { libc::close(ask) };
        await_end(hear);
    }
}

/// Until the other end of this pipe is closed, or for so long.
fn await_end(fd: RawFd) {
    let mut pipe = libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    // SAFETY: a structure of ours.
    unsafe { libc::poll(&raw mut pipe, 1, PATIENCE) };
}

/// Whether this argument means standard input.
fn is_input(arg: &OsStr) -> bool {
    let arg = arg.as_bytes();
    arg == b"-"
        || [&b"=-"[..], b"/stdin", b"/fd/0"]
            .iter()
            .any(|end| arg.ends_with(end))
}

/// What somebody types for it, if he is asked here at all. Who would not see the question,
/// as standard error is elsewhere, has no answer.
pub fn ask(what: &str) -> Option<Option<Vec<u8>>> {
    let mut asker = ASKER.lock().unwrap_or_else(|e| e.into_inner());
    let Asker { ask, hear } = asker.as_mut()?;
    if !io::stderr().is_terminal() {
        return Some(None);
    }
    let number = WHAT.iter().position(|known| *known == what).unwrap_or(0);
    let mut answer = || -> io::Result<Vec<u8>> {
        ask.write_all(&[number as u8])?;
        await_answer(hear.as_raw_fd())?;
        let mut length = [0; 4];
        hear.read_exact(&mut length)?;
        let mut line = vec![0; u32::from_le_bytes(length) as usize];
        hear.read_exact(&mut line)?;
        Ok(line)
    };
    let answer = answer().ok().filter(|line| !line.is_empty());
    if interrupt::requested() {
        // Nobody types any more, and the terminal is as it was before this one goes on.
        end_it(&mut asker);
    }
    Some(answer)
}

/// An error if somebody asks to stop before there is something to read.
fn await_answer(fd: RawFd) -> io::Result<()> {
    while !is_readable(&mut [(fd, libc::POLLIN)])? {
        if interrupt::requested() {
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
    }
    Ok(())
}

/// Whether one of these is, or becomes within a moment.
pub(super) fn is_readable(ends: &mut [(RawFd, libc::c_short)]) -> io::Result<bool> {
    /// In milliseconds: how often whoever waits looks whether he is to stop.
    const MOMENT: i32 = 100;
    let mut polled: Vec<_> = ends
        .iter()
        .map(|(fd, events)| libc::pollfd {
            fd: *fd,
            events: *events,
            revents: 0,
        })
        .collect();
    // SAFETY: structures of ours.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as u64, MOMENT) };
    let error = io::Error::last_os_error();
    for (end, polled) in ends.iter_mut().zip(&polled) {
        end.1 = polled.revents;
    }
    match count {
        -1 if error.kind() != io::ErrorKind::Interrupted => Err(error),
        count => Ok(count > 0),
    }
}

/// To the end of who asks, at which the terminal is as it was.
fn serve(mut questions: PipeReader, mut answers: PipeWriter) -> io::Result<()> {
    let ends = [questions.as_raw_fd(), answers.as_raw_fd()];
    // It restores the terminal when who asks has gone, which for a shell is the moment to
    // take the terminal back: it then stands in the background.
    for signal in [libc::SIGTTOU, libc::SIGTTIN] {
        // SAFETY: of this process alone.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    keep_only([&[libc::STDIN_FILENO, libc::STDERR_FILENO], &ends[..]].concat())?;
    let mut jail = Jail::new();
    jail.memory(MEMORY).enter().map_err(io::Error::other)?;
    loop {
        let mut number = [0];
        questions.read_exact(&mut number)?;
        let what = WHAT[usize::from(number[0]) % WHAT.len()];
        let line = typed(what, Some(questions.as_raw_fd())).unwrap_or_default();
        answers.write_all(&(line.len() as u32).to_le_bytes())?;
        answers.write_all(&line)?;
    }
}

/// Have the terminal that this process writes to not be readable there too, as its
/// descriptors usually are; where it cannot be opened, it stays.
pub fn write_only() {
    for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        let _ = narrow(fd);
    }
}

fn narrow(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory involved.
    let is_open = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::isatty(fd) == 1 && flags >= 0 && flags & libc::O_ACCMODE == libc::O_RDWR
    };
    if !is_open {
        return Ok(());
    }
    let mut options = std::fs::File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOCTTY);
    let narrow = options.write(true).open(format!("/proc/self/fd/{fd}"))?;
    // SAFETY: the same terminal in its place.
    match unsafe { libc::dup2(narrow.as_raw_fd(), fd) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
