//! A process that runs programs for this one, which meets images and in its jail starts
//! none. What was taken over can have the programs run that there are, with any
//! arguments, in their jail.
//!
//! Messages are lists of byte strings: their number, then the length of each and it. Before
//! all of them comes a byte that says whether programs have namespaces of their own.

use super::execute::{execute, Request, Word};
use super::Tool;
use crate::interrupt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output};
use std::sync::OnceLock;
use tane::jail::Jail;

#[cfg(test)]
mod tests;

/// Longest message, and most strings in one.
const LONGEST: usize = 64 << 20;
const MOST: usize = 4096;
/// What a message begins with.
const RUN: u8 = b'r';
const STOP: u8 = b's';
/// xfs_repair's lists of what it found may be larger than its other memory.
const WITH_MEMORY_FILES: &str = "xfs_repair";
/// What of their environment is for the other one to say. Nothing that has them load code or
/// settings of another's.
const ENVIRONMENT: [&[u8]; 7] = [
    b"DETERMINISTIC_SEED",
    b"E2FSPROGS_FAKE_TIME",
    b"LC_ALL",
    b"MKE2FS_CONFIG",
    b"MKE2FS_DEVICE_SECTSIZE",
    b"SOURCE_DATE_EPOCH",
    b"TZ",
];

static LINE: OnceLock<File> = OnceLock::new();

/// Start it, for programs in this jail, unless it runs. Before a kernel runs and a jail
/// is entered.
pub fn start(jail: Option<Jail>) -> io::Result<()> {
    if LINE.get().is_some() {
        return Ok(());
    }
    let (near, far) = UnixStream::pair()?;
    // SAFETY: no kernel runs yet, and no thread that holds anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let end = End;
            if let Ok(mut line) = alone(far.as_raw_fd()) {
                let apart = jail.is_some() && tane::jail::set_apart();
                if line.write_all(&[u8::from(apart)]).is_ok() {
                    serve(line, jail);
                }
            }
            drop(end);
            Ok(())
        }
        _ => {
            let _ = LINE.set(OwnedFd::from(near).into());
            Ok(())
        }
    }
}

/// Whether programs have namespaces of their own. Waits until that is known.
pub fn is_apart() -> bool {
    static APART: OnceLock<bool> = OnceLock::new();
    *APART.get_or_init(|| {
        let mut said = [0];
        let heard = LINE.get().map(|mut line| line.read_exact(&mut said));
        heard.is_some_and(|heard| heard.is_ok()) && said == [1]
    })
}

/// Whatever happens, the child does not go on as its parent.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) }
    }
}

/// Nothing of its parent's but this socket, and no terminal.
fn alone(line: i32) -> io::Result<File> {
    super::execute::detach()?;
    // SAFETY: descriptors of this process, of which it uses no others.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let high = libc::fcntl(line, libc::F_DUPFD_CLOEXEC, 3);
        if null < 0 || high < 0 {
            return Err(io::Error::last_os_error());
        }
        for standard in 0..3 {
            libc::dup2(null, standard);
        }
        let kept = 3;
        if high != kept && libc::dup3(high, kept, libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
        Ok(File::from_raw_fd(kept))
    }
}

/// Until the other one is gone.
fn serve(line: File, jail: Option<Jail>) {
    let heard = || {
        let mut byte = [0];
        match (&line).read(&mut byte) {
            Ok(1) if byte[0] == STOP => Word::Stop,
            _ => Word::Gone,
        }
    };
    loop {
        let mut byte = [0];
        match (&line).read(&mut byte) {
            // For one that has ended by itself.
            Ok(1) if byte[0] == STOP => continue,
            Ok(1) if byte[0] == RUN => {}
            _ => return,
        }
        let Ok(Some(request)) = receive(&line).map(|said| understood(said, jail.as_ref())) else {
            return;
        };
        let done = request.and_then(|request| execute(&request, Some(line.as_raw_fd()), heard));
        let answer = match done {
            Ok(output) => {
                let status = output.status.into_raw().to_le_bytes();
                vec![status.to_vec(), output.stdout, output.stderr]
            }
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return,
            Err(e) => vec![e.to_string().into_bytes()],
        };
        if send(&line, &[], &answer).is_err() {
            return;
        }
    }
}

/// A request that makes sense; its program is one of those that are known.
fn understood(said: Vec<Vec<u8>>, jail: Option<&Jail>) -> Option<io::Result<Request>> {
    let mut said = said.into_iter();
    let program = String::from_utf8(said.next()?).ok()?;
    let tool = Tool::known(&program)?;
    let input = said.next()?;
    let owned = |part: &[u8]| OsStr::from_bytes(part).to_owned();
    let mut environment = Vec::new();
    for pair in said.by_ref().take_while(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|b| *b == b'=')?;
        let (name, value) = (&pair[..at], &pair[at + 1..]);
        if !ENVIRONMENT.contains(&name) {
            return None;
        }
        environment.push((owned(name), owned(value)));
    }
    let request = tool.find().map(|found| Request {
        program: found,
        args: said.map(OsString::from_vec).collect(),
        environment,
        input,
        jail: jail.cloned().map(|mut jail| {
            jail.memory_files(program == WITH_MEMORY_FILES);
            jail
        }),
    });
    Some(request.map_err(|failure| io::Error::other(failure.message)))
}

/// Has it run a program; None if nobody was started for that.
pub fn run(tool: Tool, command: &Command, input: &[u8]) -> Option<io::Result<Output>> {
    let line = LINE.get()?;
    is_apart();
    let mut said = vec![tool.program.as_bytes().to_vec(), input.to_vec()];
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default();
        said.push([name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    said.push(Vec::new());
    said.extend(command.get_args().map(|arg| arg.as_bytes().to_vec()));
    let asked = send(line, &[RUN], &said).and_then(|()| wait(line));
    Some(asked.and_then(|()| answer(receive(line)?)))
}

/// Until there is an answer. An interrupt is passed on.
fn wait(mut line: &File) -> io::Result<()> {
    let mut stopped = false;
    loop {
        let mut waiting = libc::pollfd {
            fd: line.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: a structure of ours.
        if unsafe { libc::poll(&raw mut waiting, 1, 100) } > 0 {
            return Ok(());
        }
        if interrupt::requested() && !std::mem::replace(&mut stopped, true) {
            line.write_all(&[STOP])?;
        }
    }
}

fn answer(said: Vec<Vec<u8>>) -> io::Result<Output> {
    let wrong = || io::Error::other("who runs programs has died");
    match <[Vec<u8>; 3]>::try_from(said) {
        Ok([status, stdout, stderr]) => {
            let status = status.try_into().map_err(|_| wrong())?;
            let status = ExitStatus::from_raw(i32::from_le_bytes(status));
            Ok(Output {
                status,
                stdout,
                stderr,
            })
        }
        Err(said) => {
            let text = said.first().ok_or_else(wrong)?;
            Err(io::Error::other(String::from_utf8_lossy(text).into_owned()))
        }
    }
}

fn send(mut line: &File, before: &[u8], said: &[Vec<u8>]) -> io::Result<()> {
    let mut bytes = before.to_vec();
    bytes.extend((said.len() as u32).to_le_bytes());
    for string in said {
        bytes.extend((string.len() as u32).to_le_bytes());
        bytes.extend(string);
    }
    line.write_all(&bytes)
}

fn receive(line: &File) -> io::Result<Vec<Vec<u8>>> {
    let number = |mut line: &File| {
        let mut bytes = [0; 4];
        line.read_exact(&mut bytes)?;
        Ok::<_, io::Error>(u32::from_le_bytes(bytes) as usize)
    };
    let count = number(line)?;
    let (mut said, mut left) = (Vec::new(), LONGEST);
    for _ in 0..count {
        let len = number(line)?;
        if count > MOST || len > left {
            return Err(io::ErrorKind::InvalidData.into());
        }
        left -= len;
        let mut string = Vec::new();
        line.take(len as u64).read_to_end(&mut string)?;
        if string.len() != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        said.push(string);
    }
    Ok(said)
}
