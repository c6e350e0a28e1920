//! A program of the host, run to its end: without a terminal, in a session and a jail of
//! its own, and ended with who started it.

use crate::interrupt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tane::jail::Jail;

/// Most of what it says that is kept, of standard output and standard error each.
const SAID: usize = 16 << 20;
/// How often somebody looks for an interrupt, in milliseconds.
const LOOK: i32 = 100;

/// What to run.
pub struct Request {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub input: Input,
    /// Whom it takes itself for: a user and a group.
    pub owner: Option<(u32, u32)>,
    pub jail: Option<Jail>,
}

impl Request {
    /// What this command is, for this process itself.
    pub fn of(command: &Command, input: &[u8]) -> Request {
        let name = |part: &OsStr| part.to_owned();
        let pairs = command.get_envs();
        Request {
            program: command.get_program().into(),
            args: command.get_args().map(name).collect(),
            environment: pairs
                .map(|(key, value)| (name(key), value.map(name).unwrap_or_default()))
                .collect(),
            input: Input::All(input.to_vec()),
            owner: None,
            jail: None,
        }
    }
}

/// What it reads from its standard input.
pub enum Input {
    /// Less than a pipe holds.
    All(Vec<u8>),
    /// What somebody writes meanwhile.
    Pipe(File),
}

/// What whoever wants its result says meanwhile.
pub enum Word {
    /// Ctrl-C was pressed.
    Stop,
    /// He is gone.
    Gone,
}

/// In the child, before it becomes the program: nothing of the terminal's reaches it, and
/// it reaches nothing of the terminal's. It ends with its parent, and by any signal.
pub fn detach() -> io::Result<()> {
    // SAFETY: plain data of ours.
    unsafe {
        if libc::setsid() < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    Ok(())
}

/// What is detached will be in this jail.
fn confine(command: &mut Command, jail: Jail) {
    let enter = move || {
        jail.enter().map(drop).map_err(|e| {
            let _ = writeln!(io::stderr(), "the jail cannot be set up: {e}");
            io::ErrorKind::PermissionDenied.into()
        })
    };
    // SAFETY: this process has no thread that could hold a lock which the child needs, but
    // for the one that waits for signals.
    unsafe { command.pre_exec(enter) };
}

/// `control` can be read when `heard` has a word.
pub fn execute(
    request: Request,
    control: Option<RawFd>,
    mut heard: &mut dyn FnMut() -> Word,
) -> io::Result<Output> {
    let mut command = Command::new(&request.program);
    command.args(&request.args);
    command.envs(
        request
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    command.stdin(input(request.input)?);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(detach) };
    if let Some((uid, gid)) = request.owner {
        tane_make::run_as(&mut command, uid, gid);
    }
    // Last: in a jail there are no namespaces to be had.
    if let Some(jail) = request.jail {
        confine(&mut command, jail);
    }
    let mut child = command.spawn()?;
    // Who writes to it has to hear that nobody reads any more.
    drop(command);
    let pipes = [
        child.stdout.take().map(OwnedFd::from).map(File::from),
        child.stderr.take().map(OwnedFd::from).map(File::from),
    ];
    let mut stops = Stops {
        control,
        heard: &mut heard,
        stopped: false,
    };
    let said = listen(&child, pipes, &mut stops);
    // It may live on without them.
    let ended = said.and_then(|said| await_end(&child, &mut stops).map(|()| said));
    if ended.is_err() {
        signal(&child, libc::SIGKILL);
    }
    let status: ExitStatus = child.wait()?;
    let [stdout, stderr] = ended?;
    Ok(Output {
        status,
        stdout: harmless(&stdout),
        stderr: harmless(&stderr),
    })
}

/// Of bytes, a pipe with all of them in it, and an end.
fn input(input: Input) -> io::Result<Stdio> {
    let bytes = match input {
        Input::All(bytes) => bytes,
        Input::Pipe(file) => return Ok(file.into()),
    };
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors, which are then ours.
    let (reader, mut writer) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::fcntl(ends[0], libc::F_SETFL, 0);
        (OwnedFd::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    writer.write_all(&bytes)?;
    Ok(reader.into())
}

/// To all that it consists of.
fn signal(child: &Child, signal: i32) {
    // SAFETY: no memory involved; it was not waited for, so the group is its own.
    unsafe { libc::kill(-(child.id() as i32), signal) };
}

/// Whoever wants the result, and may want it no more.
struct Stops<'s, H> {
    control: Option<RawFd>,
    heard: &'s mut H,
    /// It was told so.
    stopped: bool,
}

impl<H: FnMut() -> Word> Stops<'_, H> {
    /// Which of these can be read, or have ended, after a moment at most. An interrupt is
    /// passed on; an error if nobody wants the result any more.
    fn wait(&mut self, child: &Child, fds: [RawFd; 2], moment: i32) -> io::Result<[bool; 2]> {
        let fds = [fds[0], fds[1], self.control.unwrap_or(-1)];
        let mut waiting = fds.map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: three structures of ours.
        let ready = unsafe { libc::poll(waiting.as_mut_ptr(), 3, moment) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        let ready = waiting.map(|fd| ready > 0 && fd.revents != 0);
        let mut stop = interrupt::requested();
        if ready[2] {
            match (self.heard)() {
                Word::Stop => stop = true,
                Word::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        if stop && !std::mem::replace(&mut self.stopped, true) {
            signal(child, libc::SIGINT);
        }
        Ok([ready[0], ready[1]])
    }
}

/// Until it has ended, which is not waited for yet.
fn await_end(child: &Child, stops: &mut Stops<impl FnMut() -> Word>) -> io::Result<()> {
    /// On hosts without pidfd_open(2), before Linux 5.3; in milliseconds.
    const OFTEN: i32 = 10;
    // SAFETY: numbers only; the descriptor is new, and closed on exec.
    let end = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as RawFd;
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    };
    let (fd, moment) = match &end {
        Some(end) => (end.as_raw_fd(), LOOK),
        None => (-1, OFTEN),
    };
    while !has_ended(child)? {
        stops.wait(child, [fd, -1], moment)?;
    }
    Ok(())
}

fn has_ended(child: &Child) -> io::Result<bool> {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: a structure of zeroes, which the host fills.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        match libc::waitid(libc::P_PID, child.id(), &raw mut found, how) {
            0 => Ok(found.si_pid() != 0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Reads both until they end.
fn listen(
    child: &Child,
    mut pipes: [Option<File>; 2],
    stops: &mut Stops<impl FnMut() -> Word>,
) -> io::Result<[Vec<u8>; 2]> {
    let mut said = [Vec::new(), Vec::new()];
    let mut buffer = vec![0; 64 << 10];
    while pipes.iter().any(Option::is_some) {
        let fds = [0, 1].map(|i| pipes[i].as_ref().map_or(-1, File::as_raw_fd));
        let ready = stops.wait(child, fds, LOOK)?;
        for i in 0..2 {
            if !ready[i] {
                continue;
            }
            let read = pipes[i]
                .as_mut()
                .map_or(Ok(0), |pipe| pipe.read(&mut buffer))?;
            match read {
                0 => pipes[i] = None,
                n => {
                    let room = SAID.saturating_sub(said[i].len()).min(n);
                    said[i].extend_from_slice(&buffer[..room]);
                }
            }
        }
    }
    Ok(said)
}

/// Text that a terminal takes for nothing else. The image may have had a say in it.
fn harmless(said: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(said.len());
    for c in String::from_utf8_lossy(said).chars() {
        match c {
            '\n' | '\t' => text.push(c),
            // What draws a line over and over.
            '\r' | '\x08' => {}
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_does_not_steer_a_terminal() {
        let said = b"a\x1b]0;evil\x07b\r\n\tc\x9b\xc2\x9bd";
        let text = String::from_utf8(harmless(said)).expect("UTF-8");
        assert_eq!(text, "a\\u{1b}]0;evil\\u{7}b\n\tc\u{fffd}\\u{9b}d");
    }
}
