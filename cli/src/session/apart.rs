//! A question that takes a look into an image, before it is known which files the
//! command needs: a process of its own looks, in a jail of its own, and answers.

use crate::failure::{Failure, Result, NO_IMAGE};
use crate::names::plain;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

/// Longest answer, in bytes. Whoever answers may have been taken over.
const LONGEST: u64 = 64 << 10;

/// What `work` comes to, in a child of this process; its error is this one's. The answer
/// is only as good as the image. `what` it looks into is for messages.
pub fn ask(what: &str, work: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let fail = |e: io::Error| Failure::image(format!("a process for {what}: {e}"));
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(fail(io::Error::last_os_error()));
    }
    // SAFETY: just made, and nobody else's.
    let (mut reader, writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: no kernel runs yet. The only other thread waits for signals, and holds
    // nothing that the child could wait for.
    match unsafe { libc::fork() } {
        -1 => Err(fail(io::Error::last_os_error())),
        0 => answer(&writer, work),
        child => {
            drop(writer);
            let mut said = Vec::new();
            let read = (&mut reader).take(LONGEST).read_to_end(&mut said);
            let mut status = 0;
            // SAFETY: a child of ours; a live int.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            read.map_err(fail)?;
            match said.split_first() {
                Some((0, answer)) => Ok(answer.to_vec()),
                Some((code, message)) => Err(Failure::new(*code, plain(message))),
                None => Err(Failure::image(format!("what looked into {what} has died"))),
            }
        }
    }
}

fn answer(mut to: &File, work: impl FnOnce() -> Result<Vec<u8>>) -> ! {
    // SAFETY: no memory involved. It ends with who asks.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let said = match work() {
        Ok(answer) => [&[0], &answer[..]].concat(),
        Err(failure) => {
            let code = if failure.code == 0 {
                NO_IMAGE
            } else {
                failure.code
            };
            [&[code], failure.to_string().as_bytes()].concat()
        }
    };
    let _ = to.write_all(&said);
    // SAFETY: ends the process. What it has open is the host's to close.
    unsafe { libc::_exit(0) }
}
