//! A program of the host, run to its end: without a terminal, in a session and a jail of
//! its own, and ended with who started it.

use crate::interrupt;
use std::ffi::OsString;
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
    /// For its standard input; less than a pipe holds.
    pub input: Vec<u8>,
    pub jail: Option<Jail>,
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

/// `control` can be read when `heard` has a word.
pub fn execute(
    request: &Request,
    control: Option<RawFd>,
    mut heard: impl FnMut() -> Word,
) -> io::Result<Output> {
    let mut command = Command::new(&request.program);
    command.args(&request.args);
    command.envs(
        request
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    command.stdin(input(&request.input)?);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let jail = request.jail.clone();
    let enter = move || {
        detach()?;
        match &jail {
            Some(jail) => jail.enter().map(drop).map_err(|e| {
                let _ = writeln!(io::stderr(), "the jail cannot be set up: {e}");
                io::ErrorKind::PermissionDenied.into()
            }),
            None => Ok(()),
        }
    };
    // SAFETY: this process has no thread that could hold a lock which the child needs, but
    // for the one that waits for signals.
    unsafe { command.pre_exec(enter) };
    let mut child = command.spawn()?;
    let pipes = [
        child.stdout.take().map(OwnedFd::from).map(File::from),
        child.stderr.take().map(OwnedFd::from).map(File::from),
    ];
    let said = listen(&child, pipes, control, &mut heard);
    if said.is_err() {
        signal(&child, libc::SIGKILL);
    }
    let status: ExitStatus = child.wait()?;
    let [stdout, stderr] = said?;
    Ok(Output {
        status,
        stdout: harmless(&stdout),
        stderr: harmless(&stderr),
    })
}

/// A pipe with all of it in it, and an end.
fn input(bytes: &[u8]) -> io::Result<Stdio> {
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
    writer.write_all(bytes)?;
    Ok(reader.into())
}

/// To all that it consists of.
fn signal(child: &Child, signal: i32) {
    // SAFETY: no memory involved; it was not waited for, so the group is its own.
    unsafe { libc::kill(-(child.id() as i32), signal) };
}

/// Reads both until they end.
fn listen(
    child: &Child,
    mut pipes: [Option<File>; 2],
    control: Option<RawFd>,
    heard: &mut impl FnMut() -> Word,
) -> io::Result<[Vec<u8>; 2]> {
    let mut said = [Vec::new(), Vec::new()];
    let mut stopped = false;
    let mut buffer = vec![0; 64 << 10];
    while pipes.iter().any(Option::is_some) {
        let fd = |pipe: &Option<File>| pipe.as_ref().map_or(-1, File::as_raw_fd);
        let fds = [fd(&pipes[0]), fd(&pipes[1]), control.unwrap_or(-1)];
        let mut waiting = fds.map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: three structures of ours.
        let ready = unsafe { libc::poll(waiting.as_mut_ptr(), 3, LOOK) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        let mut stop = interrupt::requested();
        if ready > 0 && waiting[2].revents != 0 {
            match heard() {
                Word::Stop => stop = true,
                Word::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        if stop && !std::mem::replace(&mut stopped, true) {
            signal(child, libc::SIGINT);
        }
        for i in 0..2 {
            if ready < 1 || waiting[i].revents == 0 {
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
