//! A process that runs programs for this one, which meets images and in its jail starts
//! none. What was taken over can have the programs run that there are, with any
//! arguments, in their jail.
//!
//! Messages are lists of byte strings: their number, then the length of each and it. Before
//! all of them comes a byte that says whether programs have namespaces of their own.
//!
//! A program that reads what is made meanwhile has one end of a pipe that was made before.

use super::execute::{execute, Input, Request, Word};
use super::Tool;
use crate::interrupt;
use crate::session::child::{self, keep_only, End};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output};
use std::sync::{Mutex, OnceLock};
use tane::jail::Jail;
use tane_make::Feed;

#[cfg(test)]
mod tests;

/// Longest message, and most strings in one.
const LONGEST: usize = 64 << 20;
const MOST: usize = 4096;
/// What a message begins with.
const RUN: u8 = b'r';
const STOP: u8 = b's';
/// As [`RUN`], of a program that reads from the next pipe: before all else comes whom it takes
/// itself for, two numbers or nothing.
const FED: u8 = b'f';
/// The only one that reads so.
const READS_PIPES: &str = "mksquashfs";
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
/// Where what programs read is written.
static FEEDS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// What programs are run with.
#[derive(Default)]
pub(super) struct Terms {
    pub jail: Option<Jail>,
    /// One for each program that reads what is made meanwhile.
    pub pipes: Vec<File>,
    /// The only one of those that are known that is run.
    pub only: Option<&'static str>,
}

/// Start it, for programs in this jail, so many of which read what is made meanwhile, unless it
/// runs. Before a kernel runs and a jail is entered.
pub fn start(jail: Option<Jail>, fed: usize) -> io::Result<()> {
    if LINE.get().is_some() {
        return Ok(());
    }
    let (near, far) = UnixStream::pair()?;
    let pipes: Vec<_> = (0..fed).map(|_| io::pipe()).collect::<io::Result<_>>()?;
    let ends = pipes.into_iter().map(|(reader, writer)| {
        let [reader, writer] = [OwnedFd::from(reader), writer.into()];
        (File::from(reader), File::from(writer))
    });
    let (pipes, feeds): (Vec<_>, Vec<_>) = ends.unzip();
    let work = || {
        let mut line = alone(far.into(), &pipes)?;
        let apart = jail.is_some() && tane::jail::set_apart();
        line.write_all(&[u8::from(apart)])?;
        let terms = Terms {
            jail,
            pipes,
            only: None,
        };
        serve(line, terms, execute);
        Ok(())
    };
    child::start(End::Killed, work)?;
    let _ = LINE.set(OwnedFd::from(near).into());
    *FEEDS.lock().unwrap_or_else(|e| e.into_inner()) = feeds;
    Ok(())
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

/// Nothing of its parent's but this socket and these pipes, and no terminal.
fn alone(line: OwnedFd, pipes: &[File]) -> io::Result<File> {
    super::execute::detach()?;
    let kept = pipes.iter().map(AsRawFd::as_raw_fd);
    keep_only(kept.chain([line.as_raw_fd()]).collect())?;
    Ok(line.into())
}

/// Until the other one is gone. `run` is as [`execute`].
pub(super) fn serve(
    line: File,
    mut terms: Terms,
    mut run: impl FnMut(Request, Option<RawFd>, &mut dyn FnMut() -> Word) -> io::Result<Output>,
) {
    let mut heard = || {
        let mut byte = [0];
        match (&line).read(&mut byte) {
            Ok(1) if byte[0] == STOP => Word::Stop,
            _ => Word::Gone,
        }
    };
    loop {
        let mut byte = [0];
        let is_fed = match (&line).read(&mut byte) {
            // For one that has ended by itself.
            Ok(1) if byte[0] == STOP => continue,
            Ok(1) if byte[0] == RUN => false,
            Ok(1) if byte[0] == FED => true,
            _ => return,
        };
        let heard_of = receive(&line).map(|said| understood(said, is_fed, &mut terms));
        let Ok(Some(request)) = heard_of else {
            return;
        };
        let control = Some(line.as_raw_fd());
        let done = request.and_then(|request| run(request, control, &mut heard));
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
fn understood(said: Vec<Vec<u8>>, is_fed: bool, terms: &mut Terms) -> Option<io::Result<Request>> {
    let mut said = said.into_iter();
    let owner = match is_fed {
        true => said.next()?,
        false => Vec::new(),
    };
    let owner = match owner.is_empty() {
        true => None,
        false => Some(owner_of(&owner)?),
    };
    let program = String::from_utf8(said.next()?).ok()?;
    if terms.only.is_some_and(|only| only != program) {
        return None;
    }
    let tool = Tool::known(&program)?;
    let input = Input::All(said.next()?);
    let input = match is_fed {
        true if program != READS_PIPES => return None,
        true => Input::Pipe(terms.pipes.pop()?),
        false => input,
    };
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
        owner,
        jail: terms.jail.clone().map(|mut jail| {
            jail.memory_files(program == WITH_MEMORY_FILES);
            jail
        }),
    });
    Some(request.map_err(|failure| io::Error::other(failure.message)))
}

fn owner_of(bytes: &[u8]) -> Option<(u32, u32)> {
    let (uid, gid) = bytes.split_at_checked(4)?;
    let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
    Some((number(uid)?, number(gid)?))
}

/// Has it run a program; None if nobody was started for that.
pub fn run(tool: Tool, command: &Command, input: &[u8]) -> Option<io::Result<Output>> {
    let line = LINE.get()?;
    is_apart();
    Some(ask(line, tool, command, input))
}

/// What is asked on one such line.
pub(super) fn ask(line: &File, tool: Tool, command: &Command, input: &[u8]) -> io::Result<Output> {
    send(line, &[RUN], &request(tool, command, input))?;
    wait(line)?;
    answer(receive(line)?)
}

/// Has it run a program that takes itself for this user and group, and reads what `feed` writes.
pub fn feed(
    tool: Tool,
    command: &Command,
    owner: Option<(u32, u32)>,
    feed: &mut Feed<'_>,
) -> io::Result<Output> {
    let to = FEEDS.lock().unwrap_or_else(|e| e.into_inner()).pop();
    let (Some(line), Some(to)) = (LINE.get(), to) else {
        return Err(io::Error::other("nobody was started to run it"));
    };
    is_apart();
    let number = |(uid, gid): (u32, u32)| [uid.to_le_bytes(), gid.to_le_bytes()].concat();
    let mut said = vec![owner.map(number).unwrap_or_default()];
    said.extend(request(tool, command, &[]));
    send(line, &[FED], &said)?;
    feed(to);
    wait(line)?;
    answer(receive(line)?)
}

fn request(tool: Tool, command: &Command, input: &[u8]) -> Vec<Vec<u8>> {
    let mut said = vec![tool.program.as_bytes().to_vec(), input.to_vec()];
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default();
        said.push([name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    said.push(Vec::new());
    said.extend(command.get_args().map(|arg| arg.as_bytes().to_vec()));
    said
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
