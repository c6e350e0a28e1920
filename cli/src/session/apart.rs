//! What a process of its own does with an image, in a jail of its own, for a command that
//! goes on afterwards: a look, before it is known which files the command needs, or one
//! of several steps. Who asks has no Linux.

use super::child;
use crate::failure::{Failure, Result, NO_IMAGE};
use crate::names::plain;
use crate::session::{servers, Global};
use crate::{interrupt, tell};
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tane::jail::Tied;

/// Longest answer, in bytes. Whoever answers may have been taken over.
const LONGEST: usize = 64 << 10;

/// What `work` comes to, in a child of this process; its error is this one's. The answer
/// is only as good as the image. `what` it looks into is for messages.
pub fn ask(what: &str, work: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let (child, reader) = start(what, |mut to| {
        let said = match work() {
            Ok(answer) => [&[0], &answer[..]].concat(),
            Err(failure) => [&[code_of(&failure)], failure.to_string().as_bytes()].concat(),
        };
        let _ = to.write_all(&said);
        0
    })?;
    let (said, _) = answer_of(what, child, reader, None)?;
    match said.split_first() {
        Some((0, answer)) => Ok(answer.to_vec()),
        Some((code, message)) => Err(Failure::new(*code, plain(message))),
        None => Err(Failure::image(format!("what looked into {what} has died"))),
    }
}

/// The same, of work that may write: signals are the child's, and what goes wrong it tells
/// itself, so that the failure here has a code and nothing to say.
pub fn work(
    what: &str,
    global: &Global,
    work: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let (child, reader) = start(what, |mut to| {
        interrupt::begin_in_child(global);
        let told = work().and_then(|answer| {
            let said = [&[0], &answer[..]].concat();
            let fail = |e| Failure::image(format!("the answer of who worked on {what}: {e}"));
            to.write_all(&said).map_err(fail)
        });
        match told {
            Ok(()) => 0,
            Err(failure) => {
                tell::failure(&failure);
                code_of(&failure)
            }
        }
    })?;
    let (signals, passed) = io::pipe().map_err(|e| failed(what, &e))?;
    interrupt::pass_on(Some(&passed));
    let answer = answer_of(what, child, reader, Some(signals));
    interrupt::pass_on(None);
    let (said, status) = answer?;
    match (said.split_first(), status.code()) {
        (Some((0, answer)), Some(0)) => Ok(answer.to_vec()),
        (_, Some(code @ 1..)) => Err(Failure::new(code as u8, "")),
        _ => {
            let text = format!("what worked on {what} has died ({status})");
            Err(Failure::image(text))
        }
    }
}

fn code_of(failure: &Failure) -> u8 {
    match failure.code {
        0 => NO_IMAGE,
        code => code,
    }
}

/// A child that does this, and its pipe to here. What it returns is its exit code.
fn start(what: &str, work: impl FnOnce(&File) -> u8) -> Result<(Tied, PipeReader)> {
    let fail = |e: io::Error| failed(what, &e);
    let (reader, writer) = io::pipe().map_err(fail)?;
    match child::tied().map_err(fail)? {
        None => {
            // With it open, the child would write to nobody when its parent is gone.
            drop(reader);
            let writer = File::from(std::os::fd::OwnedFd::from(writer));
            let work = || {
                let _told = Farewell;
                work(&writer)
            };
            child::run_coded(work, NO_IMAGE)
        }
        Some(child) => Ok((child, reader)),
    }
}

/// Told to servers at its end, also by a panic.
struct Farewell;

impl Drop for Farewell {
    fn drop(&mut self) {
        servers::farewell();
    }
}

/// All that it says, as far as that is no more than an answer, and how it ended. Meanwhile
/// it gets these signals.
fn answer_of(
    what: &str,
    child: Tied,
    mut reader: PipeReader,
    mut signals: Option<PipeReader>,
) -> Result<(Vec<u8>, ExitStatus)> {
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    let read = loop {
        let of = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let fd = signals.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut both = [of(reader.as_raw_fd()), of(fd)];
        // SAFETY: two structures of ours.
        unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
        let mut signal = [0];
        let got = signals.as_mut().filter(|_| both[1].revents != 0);
        if got.is_some_and(|signals| signals.read(&mut signal).is_ok_and(|n| n == 1)) {
            // SAFETY: no memory involved. It was not waited for: it has its number.
            unsafe { libc::kill(child.pid(), signal[0].into()) };
        }
        if both[0].revents == 0 {
            continue;
        }
        match reader.read(&mut piece) {
            Ok(0) => break Ok(()),
            Ok(n) if said.len() + n <= LONGEST => said.extend_from_slice(&piece[..n]),
            // Whoever answers so has been taken over.
            Ok(_) => break Err(io::ErrorKind::InvalidData.into()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => break Err(e),
        }
    };
    let mut status = 0;
    // SAFETY: a child of ours; a live int.
    unsafe {
        if read.is_err() {
            libc::kill(child.pid(), libc::SIGKILL);
        }
        libc::waitpid(child.pid(), &raw mut status, 0);
    }
    read.map_err(|e| failed(what, &e))?;
    Ok((said, ExitStatus::from_raw(status)))
}

fn failed(what: &str, e: &io::Error) -> Failure {
    Failure::image(format!("a process for {what}: {e}"))
}
