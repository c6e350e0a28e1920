//! What a module may import of the command: standard input and output.
//! docs: `checked-build/src/module.h`.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tane_checked_run::{Import, Memory};

/// The most that one call reads or writes.
const MOST: u64 = 1 << 20;
/// How long it waits for input before it looks whether it is to end.
const TURN: Duration = Duration::from_millis(50);

pub fn imports(deadline: Option<Instant>) -> Vec<(&'static str, Import)> {
    let input = move |[to, bytes, ..]: [u64; 6], memory: &Memory| {
        input(to, bytes, memory, deadline).unwrap_or_else(negative)
    };
    let output = |[which, from, bytes, ..]: [u64; 6], memory: &Memory| {
        output(which, from, bytes, memory).unwrap_or_else(negative)
    };
    vec![
        ("tane_input", Box::new(input)),
        ("tane_output", Box::new(output)),
    ]
}

fn negative(errno: i32) -> u64 {
    -i64::from(errno) as u64
}

fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Nobody else interrupts it: the end of its time finds a module in code of its own.
fn input(to: u64, bytes: u64, memory: &Memory, end: Option<Instant>) -> Result<u64, i32> {
    let mut buffer = vec![0; bytes.min(MOST) as usize];
    // What is not its memory is found out before anything is taken from the stream.
    if !memory.write(to & u64::from(u32::MAX), &buffer) {
        return Err(libc::EFAULT);
    }
    loop {
        let mut wanted = libc::pollfd {
            fd: libc::STDIN_FILENO,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure of ours.
        match unsafe { libc::poll(&raw mut wanted, 1, TURN.as_millis() as i32) } {
            -1 if errno() != libc::EINTR => return Err(errno()),
            1 => break,
            _ if super::STOPPED.load(Relaxed) => return Err(libc::EINTR),
            _ if end.is_some_and(|end| Instant::now() >= end) => return Err(libc::EINTR),
            _ => {}
        }
    }
    // SAFETY: the buffer has that many bytes.
    let n = unsafe { libc::read(libc::STDIN_FILENO, buffer.as_mut_ptr().cast(), buffer.len()) };
    if n < 0 {
        return Err(errno());
    }
    memory.write(to & u64::from(u32::MAX), &buffer[..n as usize]);
    Ok(n as u64)
}

fn output(which: u64, from: u64, bytes: u64, memory: &Memory) -> Result<u64, i32> {
    let fd = match which as u32 {
        1 => libc::STDOUT_FILENO,
        2 => libc::STDERR_FILENO,
        _ => return Err(libc::EBADF),
    };
    let bytes = bytes.min(MOST) as usize;
    let copy = memory
        .read(from & u64::from(u32::MAX), bytes)
        .ok_or(libc::EFAULT)?;
    // SAFETY: a copy of ours.
    match unsafe { libc::write(fd, copy.as_ptr().cast(), copy.len()) } {
        n @ 0.. => Ok(n as u64),
        _ => Err(errno()),
    }
}
